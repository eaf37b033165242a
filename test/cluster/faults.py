#!/usr/bin/env python3
"""Whatever happens to a rank, a host or the launcher: all ranks end in time, with the code that the contract names and one root cause
on stderr. The numbers are those of the fault list: F1-F6, F9, F10, F12, F34-F36, F49, F53, F54."""
import json, os, pathlib, re, signal, sys, time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "support")]
from cluster import ClusterSuite, processes_of, slowdown
from e2e import Case
from hosts import Hosts

suite = ClusterSuite(__doc__, hosts=3)
# Seconds from a rank's death to the end of all ranks, on a machine without other work; beside it, less than what would else be waited for.
DEATH = 45 if suite.args.quick else 5
WATCHDOG = 3
model = suite.models / "gpt2"
plan = suite.compile(model / f"{suite.exports('gpt2')[0]}.onnx", suite.dir / "four.plan", "--world-size", 4, "--ranks-per-node", 2,
                     "--zero-stage", 3, "--lr", "1e-3")
other = suite.compile(model / f"{suite.exports('gpt2')[0]}.onnx", suite.dir / "other.plan", "--world-size", 4, "--ranks-per-node", 2,
                      "--zero-stage", 2, "--lr", "1e-3")


def flags(out, *more, steps=8):
    return [plan, "--data", model / "inputs.safetensors", "--threads", 1, "--quiet", "--steps", steps, "--out", out, *more]


def out(name):
    return suite.dir / name


def check(condition, why):
    if not condition:
        raise Case(why)


def in_time(took, promised=DEATH):
    check(took <= promised * (1 if suite.args.quick else slowdown()), f"took {took:.1f} s")
    return f"{took:.1f} s"


def no_orphans(folder):
    until = time.time() + DEATH * (1 if suite.args.quick else slowdown())
    while left := processes_of(folder):
        check(time.time() < until, f"processes {left} are still there")
        time.sleep(0.05)


def after_last_step(done, folder):
    """Seconds from the last finished step to the end."""
    return done.ended - (folder / "metrics.jsonl").stat().st_mtime


def killed(name, fault, where, code, signal_number):
    folder = out(name)
    done = suite.launch(2, 2, *flags(folder), fault=fault, code=code)
    done.says(f"rank 2 was killed by signal {signal_number} ")
    # The one after the last whose metrics rank 0 had written, which is ended when it may be at its end still.
    check(re.search(r"at step [45]\b", done.errors()[0]), f"names no step: {done.errors()}")
    took = after_last_step(done, folder)
    no_orphans(folder)
    return in_time(took)


def out_of_memory():
    """The system kills for want of memory by the same signal as anybody: its counter tells."""
    done = suite.launch(2, 2, *flags(out("memory")), fault="step.begin@rank=2,step=5:SIGKILL; memory.events@n=2:ENOMEM", code=7)
    done.says("rank 2 was killed by signal 9 ")
    check(re.search(r"at step [45]: out of memory", done.err) and "oom_kill rose from" in done.err, done.err)


def killed_and_resumed():
    """No part of the step in which a rank died is in a checkpoint: continued, the run is the undisturbed one."""
    folder, whole = out("killed-saved"), out("killed-whole")
    fixed = ["--lr-schedule", "constant"]
    suite.launch(2, 2, *flags(folder, *fixed, "--save-every", 2), fault="coll.reducescatter@rank=2,step=5:SIGKILL", code=7)
    suite.launch(2, 2, *flags(folder, *fixed, "--save-every", 2, "--resume", "auto"))
    suite.tool("zero-run", *flags(whole, *fixed, "-n", 4))
    check((folder / "final" / "weights.safetensors").read_bytes() == (whole / "final" / "weights.safetensors").read_bytes(),
          "the weights differ")


def killed_under_mpirun():
    folder = out("plain")
    done = suite.job(suite.hosts.mpirun(2, 2, [suite.bin / "zero-run", *flags(folder)]), code=137,
                     fault="coll.reducescatter@rank=3,step=4:SIGKILL")
    took = after_last_step(done, folder)
    no_orphans(folder)
    return in_time(took)


def crash():
    remark = killed("segv", "step.begin@rank=2,step=5:SIGSEGV", 5, 139, 11)
    check("zero-run" in (out("segv") / "crash-rank-2.txt").read_text(), "no backtrace")
    return remark


def fails_alone():
    folder = out("alone")
    done = suite.launch(2, 2, *flags(folder), fault="step.begin@rank=1,step=3:EIO", code=1)
    done.says("step 3 was told to fail")
    check("on rank 1" in done.err, done.err)
    check(len(done.errors()) == 1, f"the others tell as well: {done.errors()}")
    in_time(after_last_step(done, folder))
    done = suite.launch(2, 2, *flags(out("exits")), fault="step.begin@rank=1,step=3:exit=9", code=9)
    in_time(after_last_step(done, out("exits")))
    no_orphans(out("exits"))


def stopped():
    folder = out("stopped")
    done = suite.launch(2, 2, *flags(folder, "--watchdog", WATCHDOG), fault="step.begin@rank=2,step=5:SIGSTOP", code=11)
    done.says("rank 2")
    check("nothing has moved for 3 s" in done.err, done.err)
    took = after_last_step(done, folder)
    in_time(took, WATCHDOG + DEATH)
    record = json.loads((folder / "flight-recorder.json").read_text())
    check([r["rank"] for r in record["ranks"]] == [0, 1, 2, 3] and all(r["last"] for r in record["ranks"]), "flight recorder")
    no_orphans(folder)
    return f"{took:.1f} s"


def cut_off(late):
    """A host that nobody can reach any more says nothing: each side's watchdog ends it. Where rank `late` is, it goes off last: the
    other host's ranks have told already, and been heard or not. The hosts are this case's own: others run beside it."""
    folder = out(f"cut-{late}")

    def meanwhile(process):
        while not (folder / "metrics.jsonl").exists() or (folder / "metrics.jsonl").read_text().count("\n") < 3:
            check(process.poll() is None, "ended too early")
            time.sleep(0.02)
        hosts.cut(1)
        try:
            process.wait(timeout=300)
            took.append(time.time() - (folder / "metrics.jsonl").stat().st_mtime)
            no_orphans(folder)
        finally:  # mpirun's daemon there notices that its mpirun is gone, and lets go of our pipes
            hosts.cut(1, connected=True)

    took = []
    with Hosts(2) as hosts:
        done = suite.launch(2, 2, *flags(folder, "--watchdog", WATCHDOG, steps=1000), code=11, meanwhile=meanwhile, cluster=hosts,
                            fault=f"step.begin@rank={late}:delay=100ms")
    check(len(done.errors()) == 1 and "nothing has moved for 3 s" in done.err, done.err)
    return in_time(took[0], WATCHDOG + DEATH)


def slow():
    folder = out("slow")
    done = suite.launch(2, 2, *flags(folder, "--watchdog", WATCHDOG), fault="step.begin@rank=3:delay=300ms")
    check("rank 3 is slow: " in done.err, done.err)


def out_of_step():
    done = suite.launch(2, 2, *flags(out("order")), fault="coll.reducescatter@rank=1,step=4,n=1:short", code=7)
    done.says("collectives differ: rank 0 calls reduce_scatter of ")
    check("rank 1 calls reduce_scatter of" in done.err, done.err)


def saves_and_ends(name, tell):
    """Told to stop, the job saves and ends with 75; continued, it gives what an undisturbed run gives."""
    folder, whole = out(name), out(name + "-whole")
    long = ["--lr-schedule", "constant"]

    def meanwhile(process):
        while not (folder / "metrics.jsonl").exists() or (folder / "metrics.jsonl").stat().st_size == 0:
            check(process.poll() is None, "ended too early")
            time.sleep(0.02)
        tell(process, folder)

    done = suite.launch(2, 2, *flags(folder, *long, steps=60), code=75, meanwhile=meanwhile,
                        fault="step.begin@rank=0:delay=50ms")
    done.says("its state is saved")
    saved = [int(p.name[5:]) for p in folder.glob("step-*")]
    check(len(saved) == 1 and saved[0] < 60, f"saved {saved}")
    last = saved[0] + 3
    suite.launch(2, 2, *flags(folder, *long, "--resume", "auto", steps=last))
    suite.tool("zero-run", *flags(whole, *long, "-n", 4, steps=last))
    check((folder / "final" / "weights.safetensors").read_bytes() == (whole / "final" / "weights.safetensors").read_bytes(),
          "the weights differ")
    return f"after step {saved[0]}"


def zero_runs(folder, launches):
    """Ids of the launchers, or of the ranks: both have the folder on their command line. Others that have it come and go."""
    found = []
    for process in processes_of(folder):
        try:
            is_one = os.readlink(f"/proc/{process}/exe").endswith("zero-run")
            if is_one and (b"--hosts" in pathlib.Path(f"/proc/{process}/cmdline").read_bytes()) == launches:
                found.append(process)
        except OSError:
            pass
    return found


def rank_processes(folder):
    return zero_runs(folder, launches=False)


def tell_launcher(process, folder):
    os.kill(zero_runs(folder, launches=True)[0], signal.SIGTERM)


def tell_one_rank(process, folder):
    os.kill(rank_processes(folder)[1], signal.SIGUSR1)


def told_twice():
    """A second signal does not wait for anything; what was saved before stays."""
    folder = out("twice")

    def meanwhile(process):
        # Step 4 has begun, and takes a minute.
        while not (folder / "metrics.jsonl").exists() or (folder / "metrics.jsonl").read_text().count("\n") < 3:
            check(process.poll() is None, "ended too early")
            time.sleep(0.02)
        time.sleep(0.3)
        tell_launcher(process, folder)
        time.sleep(0.3)
        tell_launcher(process, folder)
        told.append(time.time())

    whole, fixed, told = out("twice-whole"), ["--lr-schedule", "constant"], []
    done = suite.launch(2, 2, *flags(folder, *fixed, "--save-every", 2, steps=60), code=143, meanwhile=meanwhile,
                        fault="step.begin@rank=0,step=4:delay=60s")
    in_time(done.ended - told[0])
    no_orphans(folder)
    suite.launch(2, 2, *flags(folder, *fixed, "--save-every", 2, "--resume", "auto", steps=4))
    suite.tool("zero-run", *flags(whole, *fixed, "-n", 4, steps=4))
    check((folder / "final" / "weights.safetensors").read_bytes() == (whole / "final" / "weights.safetensors").read_bytes(),
          "the weights differ")


def launcher_killed():
    folder = out("orphans")

    def meanwhile(process):
        while len(rank_processes(folder)) < 4 or not (folder / "metrics.jsonl").exists():
            check(process.poll() is None, "ended too early")
            time.sleep(0.02)
        for launcher in zero_runs(folder, launches=True):
            os.kill(launcher, signal.SIGKILL)

    suite.launch(2, 2, *flags(folder, steps=1000), code=None, meanwhile=meanwhile, fault="step.begin@rank=0:delay=50ms")
    no_orphans(folder)


def refused():
    """Ranks that differ, too few of them, and an environment that says something else."""
    run = suite.bin / "zero-run"
    two = lambda *words: suite.hosts.inside(["mpirun", "--host", suite.hosts.list(2, 2), "--bind-to", "none", *words])
    folder = out("refused")
    done = suite.job(two("-np", 3, run, *flags(folder), ":", "-np", 1, run, other, *flags(folder)[1:]), code=10)
    done.says("rank 3 has another plan than rank 0")
    done = suite.job(two("-np", 2, run, *flags(folder), ":", "-np", 2, run, *flags(folder), "--seed", 7), code=10)
    done.says("ranks 2, 3 have other")
    done = suite.job(two("-np", 2, run, *flags(folder), ":", "-np", 2, run, *flags(folder), "--no-final"), code=10)
    done.says("ranks 2, 3 have other options")
    trained = out("trained")
    suite.tool("zero-run", *flags(trained, "-n", 4, steps=2))
    done = suite.job(two("-np", 3, run, *flags(folder), ":", "-np", 1, run, *flags(folder), "--weights", trained / "final"), code=10)
    done.says("rank 3 has other weights than rank 0")
    done = suite.job(two("-np", 3, run, *flags(folder)), code=10)
    done.says("the plan is for 4 ranks but 3 were started")
    check("zero-compile --world-size 3" in done.err, done.err)
    done = suite.job(two("-np", 4, "-x", "RANK=0", "-x", "WORLD_SIZE=2", run, *flags(folder)), code=2)
    check("OMPI_COMM_WORLD_SIZE=4" in done.errors()[0] and "WORLD_SIZE=2" in done.errors()[0], done.err)
    check(not folder.exists(), "a refused run made its folder")
    # Four ranks on hosts of 1, 2 and 1: the plan's nodes are spread.
    spread = f"{suite.hosts.address(0)}:1,{suite.hosts.address(1)}:2,{suite.hosts.address(2)}:1"
    done = suite.job(suite.hosts.inside([run, *flags(folder), "--hosts", spread]), code=10)
    done.says("the plan has ranks 0 and 1 on one node, but they run on different machines")


def unreachable():
    folder = out("unreachable")
    with Hosts(2) as hosts:
        hosts.cut(1)
        spread = f"{hosts.address(0)}:2,{hosts.address(1)}:2"
        done = suite.job(hosts.inside([suite.bin / "zero-run", *flags(folder, "--init-timeout", 5), "--hosts", spread]), code=7,
                         cluster=hosts)
        done.says("not all ")
        check(hosts.address(1) in done.err, done.err)
    no_orphans(folder)
    return in_time(done.ended - done.began, 10 + DEATH)


if not suite.args.quick:
    suite.args.jobs = 1  # times are measured
def one_rank():
    """One host with one rank is a job as well: it has started, whoever computes, and outlives the time that starting may take."""
    single, folder = suite.compile(model / f"{suite.exports('gpt2')[0]}.onnx", suite.dir / "one.plan"), out("one")
    arguments = [single, *flags(folder, "--init-timeout", 3, steps=3)[1:]]
    suite.launch(1, 1, *arguments, fault="step.begin@step=2:delay=5s")
    check(len((folder / "metrics.jsonl").read_text().splitlines()) == 3, "not all steps")
    suite.launch(1, 1, *arguments, "--overwrite", "--comm", "inproc", code=2).says("--hosts starts a process for each rank")
    suite.launch(1, 1, single, *flags(folder, "--overwrite", "--init-timeout", "1e9", steps=1)[1:])


suite.run([
    ("one rank", one_rank),
    ("F1 killed between collectives", lambda: killed("killed-begin", "step.begin@rank=2,step=5:SIGKILL", 5, 7, 9)),
    ("F1 under mpirun", killed_under_mpirun),
    ("F1 a host cut off, noticed there first", lambda: cut_off(0)),
    ("F1 a host cut off, noticed here first", lambda: cut_off(2)),
    ("F2 killed inside a collective", lambda: killed("killed", "coll.reducescatter@rank=2,step=5:SIGKILL", 5, 7, 9)),
    ("F2 killed and resumed", killed_and_resumed),
    ("F3 fails alone", fails_alone),
    ("F4 crash", crash),
    ("F5 stopped", stopped),
    ("F6 slow", slow),
    ("F7 SIGTERM to the launcher", lambda: saves_and_ends("term", tell_launcher)),
    ("F9 a second signal", told_twice),
    ("F10 SIGUSR1 to one rank", lambda: saves_and_ends("usr1", tell_one_rank)),
    ("F12 launcher killed", launcher_killed),
    ("F34-F36 refused", refused),
    ("F49 out of memory", out_of_memory),
    ("F53 out of step", out_of_step),
    ("F54 a host that cannot be reached", unreachable),
])
suite.finish()
