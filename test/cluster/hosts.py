"""Several hosts on one machine: network namespaces joined by a bridge, links that may be slow, Open MPI between them. Ranks of a
host share memory, ranks of two hosts talk TCP, and the kernel counts what crosses. Needs root and iproute2."""
import itertools, os, pathlib, subprocess, tempfile

HERE = pathlib.Path(__file__).resolve().parent


class NotAllowed(Exception):
    """Network namespaces cannot be made here."""


def sh(*words, check=True):
    done = subprocess.run([str(w) for w in words], capture_output=True, text=True)
    if check and done.returncode:
        raise NotAllowed(f"{' '.join(map(str, words))}: {done.stderr.strip() or done.returncode}")
    return done.stdout


class Hosts:
    """`count` hosts; `rate` as tc takes it (400mbit), for each link in both directions. Names and addresses are this process's own,
    so that several clusters may stand side by side."""

    made = itertools.count()  # by this process, whose threads may make some at once

    def __init__(self, count, rate=None):
        self.count = count
        self.sessions = tempfile.TemporaryDirectory(prefix="zcmpi", ignore_cleanup_errors=True)
        number = next(Hosts.made)
        name = f"z{os.getpid() % 100000}{chr(ord('a') + number)}"
        self.prefix, self.bridge = name + "h", name + "b"
        self.net = f"10.{(100 + os.getpid() // 250 % 150 + number) % 256}.{os.getpid() % 250}"
        if os.geteuid() != 0:
            raise NotAllowed("only root can make network namespaces")
        try:
            self.up(rate)
        except FileNotFoundError:
            raise NotAllowed("there is no `ip` (package iproute2)")
        except NotAllowed:
            self.down()
            raise

    def up(self, rate):
        sh("ip", "link", "add", self.bridge, "type", "bridge")
        sh("ip", "link", "set", self.bridge, "up")
        for i in range(self.count):
            host, link = self.name(i), self.link(i)
            sh("ip", "netns", "add", host)
            sh("ip", "link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", host)
            sh("ip", "link", "set", link, "master", self.bridge, "up")
            sh("ip", "-n", host, "addr", "add", f"{self.address(i)}/24", "dev", "eth0")
            for device in ("lo", "eth0"):
                sh("ip", "-n", host, "link", "set", device, "up")
            if rate:
                limit = ("root", "tbf", "rate", rate, "burst", "256kb", "latency", "100ms")
                sh("ip", "netns", "exec", host, "tc", "qdisc", "add", "dev", "eth0", *limit)
                sh("tc", "qdisc", "add", "dev", link, *limit)

    def down(self):
        self.sessions.cleanup()
        for i in range(self.count):
            sh("ip", "netns", "del", self.name(i), check=False)
        sh("ip", "link", "del", self.bridge, check=False)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.down()

    def name(self, i):
        return f"{self.prefix}{i}"

    def link(self, i):
        return f"{self.prefix}v{i}"

    def address(self, i):
        return f"{self.net}.{i + 1}"

    def cut(self, i, connected=False):
        """Takes a host off the network, or brings it back."""
        sh("ip", "link", "set", self.link(i), "up" if connected else "down")

    def list(self, hosts, ranks):
        """As mpirun's --host and zero-run's --hosts take it."""
        return ",".join(f"{self.address(i)}:{ranks}" for i in range(hosts))

    def inside(self, command):
        """The words that run `command` on the first host."""
        return ["ip", "netns", "exec", self.name(0), "unshare", "--uts", "/bin/sh", "-c", f'hostname {self.name(0)}; exec "$@"', "sh",
                *map(str, command)]

    def environment(self, **more):
        return dict(os.environ, ZC_CLUSTER=self.prefix, OMPI_MCA_plm_rsh_agent=str(HERE / "rsh.sh"),
                    OMPI_MCA_btl="tcp,self,vader", OMPI_MCA_btl_tcp_if_include=f"{self.net}.0/24",
                    OMPI_MCA_oob_tcp_if_include=f"{self.net}.0/24",
                    # Of its own for each job: two that begin at once fall over each other's folder in /tmp (orte_session_dir).
                    OMPI_MCA_orte_tmpdir_base=tempfile.mkdtemp(dir=self.sessions.name), OMPI_MCA_rmaps_base_oversubscribe="1",
                    OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", **more)

    def mpirun(self, hosts, ranks, command):
        """The words that run `command` by mpirun itself."""
        return self.inside(["mpirun", "--host", self.list(hosts, ranks), "-np", hosts * ranks, "--map-by", "slot", "--bind-to",
                            "none", "-x", "ZERO_FAULT", *command])

    def sent(self, i):
        """Bytes that host i has sent so far, as the kernel counted them."""
        return int(sh("ip", "netns", "exec", self.name(i), "cat", "/sys/class/net/eth0/statistics/tx_bytes"))
