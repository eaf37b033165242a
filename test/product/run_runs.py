#!/usr/bin/env python3
"""The two programs as Python calls them: a run that is interrupted, what they warn of."""
import contextlib, json, os, pathlib, signal, subprocess, sys, time

from product import expect, needs, quiet_torch, suite

needs("torch", "onnx", "safetensors")
torch = quiet_torch()
from torch.nn import functional
import zero_compile
from zero_compile import check, programs

suite = suite(__doc__)


def exported(name):
    """(model, data) of a small model."""
    torch.manual_seed(0)
    batch = {"x": torch.randn(4, 8), "y": torch.tensor([0, 1, 2, 0])}
    path, data = suite.dir / f"{name}.onnx", suite.dir / f"{name}.safetensors"
    zero_compile.export(torch.nn.Linear(8, 3), batch, path, loss=lambda model, batch: functional.cross_entropy(model(batch["x"]), batch["y"]), notes=lambda text: None)
    check.write_batch(data, batch)
    return path, data


# As from a terminal: who runs tests in the background has them ignore these, and what they begin.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

SCRIPT = """
import sys, zero_compile
plan, data, out, how = sys.argv[1:]
run = zero_compile.train(plan, out, data=data, steps=1000000000)
if how in ("waiting", "begun", "ending"):
    print(1, flush=True)
    run.wait() if how == "waiting" else sys.stdin.readline()
    sys.exit()
for step in run:
    print(step["step"], flush=True)
    if how == "between" and step["step"] > 2:
        sys.stdin.read()
"""


def end_all(out):
    """What is left of a case that failed would train on for ever."""
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if str(out).encode() in (entry / "cmdline").read_bytes() and int(entry.name) != os.getpid():
                os.kill(int(entry.name), signal.SIGKILL)


def interrupted(number, how):
    """The signal goes to the whole group, as a terminal's does; the run gets one, and saves. 0: the script ends by itself."""
    name = f"{number}-{how}"
    path, data = exported(name)
    plan, out = zero_compile.compile(path, dim="batch=4"), suite.dir / f"{name}-run"
    job = subprocess.Popen([sys.executable, "-c", SCRIPT, plan, data, out, how], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                           text=True, start_new_session=True)
    try:
        for line in job.stdout:
            if int(line) > 2 or how in ("waiting", "begun", "ending"):
                break
        metrics, deadline = out / "metrics.jsonl", time.time() + 300
        while not (metrics.exists() and metrics.stat().st_size) and time.time() < deadline:
            time.sleep(0.05)
        time.sleep(0.2)
        if number:
            os.killpg(job.pid, number)
        said = job.communicate("\n", timeout=300)[1]
    finally:
        end_all(out)
    expect(job.returncode == (-signal.SIGINT if number == signal.SIGINT else number and 128 + number), f"exit code {job.returncode}: {said}")
    expect(number != signal.SIGINT or said.rstrip().endswith("KeyboardInterrupt"), said)
    saved = [p.name for p in out.glob("step-*") if (p / "manifest.json").is_file()]
    expect(len(saved) == 1, f"{sorted(p.name for p in out.iterdir())}: {said}")
    expect(json.loads((out / saved[0] / "manifest.json").read_text())["step"] > 2, saved)


TWICE = """
import os, signal, sys, time, zero_compile
from zero_compile import programs
plan, data, out = sys.argv[1:]
own = lambda *_: None
signal.signal(signal.SIGTERM, own)
run = zero_compile.train(plan, out, data=data, steps=1000000000)
steps, sent, real = iter(run), [], run.process.send_signal
next(steps)
assert signal.getsignal(signal.SIGTERM) is own and signal.getsignal(signal.SIGINT) == programs.attendance.pass_on
run.process.send_signal = sent.append  # a run that takes long to save
for count in (1, 2):
    try:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(9)
        sys.exit("no KeyboardInterrupt")
    except KeyboardInterrupt:
        assert len(sent) == count, sent
real(signal.SIGTERM)
steps.close()
assert len(sent) == 2 and signal.getsignal(signal.SIGINT) is signal.default_int_handler and not programs.attendance.runs
"""


def twice():
    """A second Ctrl-C is a second signal; a script's own handler is left alone, and Python's comes back."""
    path, data = exported("twice")
    plan = zero_compile.compile(path, dim="batch=4")
    done = subprocess.run([sys.executable, "-c", TWICE, plan, data, suite.dir / "twice-run"], capture_output=True, text=True, timeout=600)
    expect(done.returncode == 0, done.stderr)


def heard(function):
    """What it writes on stderr."""
    import io
    with contextlib.redirect_stderr(io.StringIO()) as said:
        function()
    return said.getvalue()


def warnings_are_passed_on():
    path, data = exported("warned")
    said = heard(lambda: zero_compile.compile(path, dim="batch=4", offload_ratio=0.5))
    expect(said.startswith("warning: ") and "--offload-ratio changes nothing" in said and said.count("\n") == 2, said)
    expect(heard(lambda: zero_compile.compile(path, dim="batch=4")) == "", "something without a reason")
    told = "warning: a\n  --> b\nsaved c\nwarning: d\nerror: e\n  = help: f\n"
    rest = []
    expect(heard(lambda: rest.append(programs.warned(told))) == "warning: a\n  --> b\nwarning: d\n" and rest == ["saved c\nerror: e\n  = help: f\n"], rest)
    program = suite.dir / "warning-run"
    program.write_text("#!/bin/sh\necho 'warning: of the run' >&2\necho '{\"peak_bytes\": 1}'\n")
    program.chmod(0o755)
    real, programs.find = programs.find, lambda name: str(program)
    try:
        expect(heard(lambda: zero_compile.train("a.plan").wait()) == "warning: of the run\n", "the run's warnings are lost")
    finally:
        programs.find = real


suite.run([(f"{number:d} {how}", lambda number=number, how=how: interrupted(number, how))
           for number, how in ((signal.SIGINT, "iterating"), (signal.SIGINT, "between"), (signal.SIGTERM, "between"), (signal.SIGINT, "waiting"),
                               (signal.SIGTERM, "waiting"), (signal.SIGHUP, "iterating"), (signal.SIGINT, "begun"), (0, "ending"))])
suite.run([(f.__name__, f) for f in (twice, warnings_are_passed_on)])
suite.finish()
