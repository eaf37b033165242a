#!/usr/bin/env python3
"""Processes that end: the two programs as Python calls them, interrupted, and what they warn of; exports of models that end the process."""
import contextlib, json, os, pathlib, signal, subprocess, sys, time

from product import expect, needs, quiet_torch, suite, zero

needs("torch", "onnx", "safetensors")
torch = quiet_torch()
from torch.nn import functional
import zero_compile
from zero_compile import programs
from zero_compile.exporting import check

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


MORTAL = """
import ctypes, os, pathlib, signal, sys, time, torch

class Mortal(torch.nn.Module):
    def __init__(self, how, in_torch):
        super().__init__()
        self.layer, self.how, self.in_torch = torch.nn.Linear(4, 3), how, in_torch

    def forward(self, x, y):
        if self.in_torch or torch.jit.is_tracing() or torch.compiler.is_exporting():
            {"fault": lambda: ctypes.string_at(0), "exit": lambda: os._exit(7), "sys.exit": lambda: sys.exit(7), "memory": lambda: bytearray(1 << 60),
             "waits": lambda: (pathlib.Path("waits").write_text(str(os.getpid())), [time.sleep(0.1) for _ in range(6000)])}.get(self.how, lambda: signal.raise_signal(getattr(signal, self.how)))()
        return torch.nn.functional.cross_entropy(self.layer(x), y)

def __getattr__(name):
    where, _, how = name.partition("_")
    return lambda: (Mortal(how, where == "torch"), {"x": torch.randn(4, 4), "y": torch.tensor([0, 1, 2, 0])})
"""


def mortal():
    """A folder with the module, and one for temporary files."""
    folder = suite.dir / "mortal"
    folder.mkdir(exist_ok=True)
    (folder / "mortal.py").write_text(MORTAL)
    os.environ["TMPDIR"] = str(folder / "tmp")
    (folder / "tmp").mkdir(exist_ok=True)
    return folder


def left(folder):
    return [path.name for path in (*folder.iterdir(), *(folder / "tmp").iterdir()) if "zero" in path.name or "model" in path.name]


def ended(name, code, *words):
    """An error with its place, and nothing left."""
    folder = mortal()
    try:
        said = zero("export", f"mortal:{name}", "-o", "model.onnx", folder=folder, code=code)
    finally:
        del os.environ["TMPDIR"]
    expect(all(word in said for word in words), said)
    expect(not left(folder), f"{left(folder)} is left")


def told_to_end(number, code):
    """The one that computes ends with the one that was told."""
    folder = mortal()
    job = subprocess.Popen([sys.executable, "-m", "zero_compile", "export", "mortal:traced_waits", "-o", "model.onnx"], cwd=folder, stderr=subprocess.DEVNULL)
    del os.environ["TMPDIR"]
    waits, deadline = folder / "waits", time.time() + 120
    while not (waits.exists() and waits.read_text()) and job.poll() is None and time.time() < deadline:
        time.sleep(0.05)
    child = int(waits.read_text())
    waits.unlink()
    job.send_signal(number)
    expect(job.wait(60) == code, f"exit code {job.returncode}")
    while pathlib.Path(f"/proc/{child}").exists() and time.time() < deadline:
        time.sleep(0.05)
    expect(not pathlib.Path(f"/proc/{child}").exists() and not left(folder), f"{left(folder)} is left")


suite.run([(f"{name}: {code}", lambda case=(name, code, *words): ended(*case)) for name, code, *words in (
    ("torch_fault", 3, "torch's computation of the model ended the process: segmentation fault (signal 11)", "mortal.py:11", "help:"),
    ("traced_fault", 4, "the exporter torchscript ended the process: segmentation fault (signal 11)", "mortal.py:11", "--exporter dynamo"),
    ("traced_SIGABRT", 4, "aborted (signal 6)", "mortal.py:12"), ("traced_exit", 4, "the exporter torchscript ended the process, with code 7"),
    ("torch_sys.exit", 3, "ends the program, with code 7", "mortal.py:11"), ("traced_SIGKILL", 137, "was ended: killed (signal 9)"), ("torch_memory", 5, "MemoryError"))])
suite.run([(f"told by {number:d}", lambda number=number, code=code: told_to_end(number, code))
           for number, code in ((signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL))])
suite.run([(f"{number:d} {how}", lambda number=number, how=how: interrupted(number, how))
           for number, how in ((signal.SIGINT, "iterating"), (signal.SIGINT, "between"), (signal.SIGTERM, "between"), (signal.SIGINT, "waiting"),
                               (signal.SIGTERM, "waiting"), (signal.SIGHUP, "iterating"), (signal.SIGINT, "begun"), (0, "ending"))])
suite.run([(f.__name__, f) for f in (twice, warnings_are_passed_on)])
suite.finish()
