"""A suite of cases that share one cluster."""
import json, os, pathlib, subprocess, sys, time

from e2e import SKIPPED, Case, Suite
from hosts import Hosts, NotAllowed


class ClusterSuite(Suite):
    def __init__(self, description, hosts):
        quick = "--quick" in sys.argv or "ZC_CLUSTER_QUICK" in os.environ
        sys.argv = [word for word in sys.argv if word != "--quick"]
        super().__init__(description)
        self.args.quick = quick
        if not (self.bin / "libzc_mpi.so").exists():
            print("this build has no MPI")
            sys.exit(SKIPPED)
        try:
            self.hosts = Hosts(hosts)
        except NotAllowed as why:
            print(f"no cluster can be made here: {why}")
            sys.exit(SKIPPED)

    def run(self, cases):
        try:
            super().run(cases)
        finally:
            self.hosts.down()

    def mpi(self, hosts, ranks, *arguments, code=0):
        """zero-run under mpirun on the first `hosts` hosts; the report of rank 0."""
        done = self.job(self.hosts.mpirun(hosts, ranks, [self.bin / "zero-run", *arguments]), code=code)
        return json.loads(done.out.splitlines()[-1]) if code == 0 else done

    def launch(self, hosts, ranks, *arguments, cluster=None, **how):
        """zero-run with --hosts, on the first host of `cluster`, or of the one that all cases share."""
        cluster = cluster or self.hosts
        command = cluster.inside([self.bin / "zero-run", *arguments, "--hosts", cluster.list(hosts, ranks)])
        return self.job(command, cluster=cluster, **how)

    def job(self, command, code=0, fault="", meanwhile=None, limit=600, cluster=None):
        """Runs it; `meanwhile` is called with the process, on this thread. Fails unless it ends with `code` and leaves nobody."""
        began = time.time()
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace",
                                   env=(cluster or self.hosts).environment(ZERO_FAULT=fault), stdin=subprocess.DEVNULL)
        try:
            if meanwhile:
                meanwhile(process)
            out, err = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            process.kill()
            raise Case(f"did not end within {limit} s")
        finally:
            if process.poll() is None:
                process.kill()
        done = Done(process.returncode, out, err, began, time.time())
        if code is not None and done.code != code:
            raise Case(f"exit code {done.code} instead of {code}: {done.err.strip()[-1500:]}")
        return done


class Done:
    def __init__(self, code, out, err, began, ended):
        self.code, self.out, self.err, self.began, self.ended = code, out, err, began, ended

    def errors(self):
        """The lines that say what went wrong."""
        return [line for line in self.err.splitlines() if line.startswith("error[")]

    def says(self, text):
        """Exactly one root cause, and it is this."""
        errors = self.errors()
        if len(errors) != 1 or text not in errors[0]:
            raise Case(f"says {errors or self.err[-800:]} instead of one \"{text}\"")


def slowdown():
    """How much longer than on an idle machine a thread takes here and now: 1 to the number of those that share its core."""
    began, spent = time.monotonic(), time.thread_time()
    while time.thread_time() - spent < 0.2:
        pass
    return max(1, (time.monotonic() - began) / 0.2)


def processes_of(folder):
    """Ids of processes that have this folder on their command line."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and int(entry.name) != os.getpid() and str(folder).encode() in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
        except OSError:
            pass
    return found
