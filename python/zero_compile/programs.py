"""zero-compile and zero-run as Python calls them: found, started, and read while they work."""
import atexit
import json
import math
import os
import pathlib
import queue
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

from .errors import USAGE, ZeroError, of_signal

SAME_REQUEST = 0.5  # seconds: a process group and whoever passes on what it was told tell twice


def find(program):
    """Its path: $ZC_BIN, $PATH, or the build of the clone that this package is installed from (pip install -e)."""
    clone = pathlib.Path(__file__).resolve().parents[2]
    for folder in (os.environ.get("ZC_BIN"), clone / "build/release/bin"):
        if folder and os.access(pathlib.Path(folder) / program, os.X_OK):
            return str(pathlib.Path(folder) / program)
    found = shutil.which(program)
    if not found:
        raise ZeroError(USAGE, f'"{program}" is not on PATH', help="build it, or set ZC_BIN to the folder that holds it")
    return found


def flags(options):
    """{"world_size": 4, "trainable": ["a", "b"], "shuffle": True} as --world-size 4 --trainable a --trainable b --shuffle."""
    result = []
    for name, value in options.items():
        flag = "--" + name.replace("_", "-")
        for each in value if isinstance(value, (list, tuple)) else [value]:
            if each is True:
                result.append(flag)
            elif each is not None and each is not False:
                result += [flag, str(each)]
    return result


def shown(command):
    """The command as a person would type it."""
    return shlex.join([os.path.basename(command[0]), *command[1:]])


def call(program, *arguments, echo=None, warn=True):
    """Runs it to its end; its stdout. What it says on stderr is the error where it fails; its warnings are passed on, if they are wanted."""
    command = [find(program), *map(str, arguments)]
    if echo:
        echo(shown(command))
    done = subprocess.run(command, capture_output=True, text=True, errors="replace")
    rest = warned(done.stderr) if warn or done.returncode else ""
    if done.returncode:
        raise failure(command, done.returncode, rest)
    return done.stdout


def warned(stderr):
    """Passes the warnings in it on, each with the indented lines that belong to it; the other lines."""
    warnings, rest, of_warning = [], [], False
    for line in stderr.splitlines(keepends=True):
        of_warning = bool(re.match(r"(\[rank \d+\] )?warning", line)) or of_warning and line.startswith(" ")
        (warnings if of_warning else rest).append(line)
    print(*warnings, sep="", end="", file=sys.stderr, flush=True)
    return "".join(rest)


def attended(command):
    """(stdout, exit code) of a program that goes on for long and whose stderr a person sees. It has a session of its own: a terminal's
    Ctrl-C comes here, and is passed on once, as are requests to end; then its end is waited for."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, encoding="utf-8", start_new_session=True)
    told = {}

    def pass_on(number, _):
        if time.monotonic() - told.get(number, -math.inf) > SAME_REQUEST:
            told[number] = time.monotonic()
            process.send_signal(number)

    if threading.current_thread() is not threading.main_thread():  # which alone is told of signals
        return process.communicate()[0], process.returncode
    before = {number: signal.signal(number, pass_on) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        return process.communicate()[0], process.returncode
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def failure(command, code, stderr):
    """The error of a program that ended with this code, or was ended by the signal of this number, negative (docs/cli.md)."""
    name = os.path.basename(command[0])
    text = stderr.strip() or (f"{name} ended with code {code}" if code > 0 else f"{name} was ended: {of_signal(-code)}")
    if begin := re.search(r"^error(\[Z\d+\])?: ", text, re.M):  # after notes and warnings
        text = text[begin.start():]
    return ZeroError(code if code > 0 else 128 - code, text[len("error: "):] if text.startswith("error: ") else text, where=shown(command))


def in_notebook():
    """Its stderr, which is no terminal, is shown to a person all the same."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return shell is not None and hasattr(shell, "kernel")


def compile(model, plan=None, **options):
    """zero-compile MODEL -o PLAN with each option as its flag (world_size=4 is --world-size 4); the plan's path."""
    plan = plan or str(pathlib.Path(model).with_suffix(".plan"))
    call("zero-compile", model, *flags(options), "-o", plan)
    return plan


class Attendance:
    """The runs under way. Each has a session of its own, so that a signal to this process reaches it once: Ctrl-C, a request to end and
    a terminal that closes are passed on, as is that this process ends. A script's own handlers stay in their place."""

    def __init__(self):
        self.runs, self.before = [], {}

    def add(self, run):
        if not self.runs:
            atexit.register(self.end)
        if run not in self.runs:
            self.runs.append(run)
        if not self.before and threading.current_thread() is threading.main_thread():  # which alone is told of signals
            self.before = {number: signal.signal(number, self.pass_on) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
                           if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler)}

    def remove(self, run):
        if run not in self.runs:
            return
        self.runs.remove(run)
        if self.runs:
            return
        atexit.unregister(self.end)
        if threading.current_thread() is threading.main_thread():
            while self.before:
                signal.signal(*self.before.popitem())

    def pass_on(self, number, _):
        for run in self.runs:
            run.tell()
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        raise SystemExit(128 + number)

    def end(self):
        for run in list(self.runs):
            run.stop()


attendance = Attendance()


class Run:
    """A training run under way. Iterating gives its metrics, a dict per step; `result` is the run's last line once it is over. Leaving
    the iteration early, or a `with` block, stops the run, which saves a checkpoint first; so do Ctrl-C and SIGTERM, of which a second one stops
    it at once."""

    def __init__(self, plan, out=None, progress=None, **options):
        self.out = pathlib.Path(out or pathlib.Path("runs") / pathlib.Path(plan).stem)
        self.command = [find("zero-run"), str(plan), "--out", str(self.out), "--log-format", "json", "--log-every", "1",
                        *flags(options)]
        self.progress = sys.stderr.isatty() or in_notebook() if progress is None else progress
        self.result, self.told, self.said = None, False, None
        self.errors = tempfile.TemporaryFile("w+", errors="replace")
        self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, stderr=self.errors, encoding="utf-8", start_new_session=True)
        # zero-run waits for no reader, and leaves out what stdout does not take.
        self.lines = queue.SimpleQueue()
        threading.Thread(target=self.read, daemon=True).start()
        attendance.add(self)

    def read(self):
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put(None)

    def left(self):
        """The lines that nobody has taken yet, to the last."""
        while (line := self.lines.get()) is not None:
            yield line
        self.lines.put(None)

    def __iter__(self):
        attendance.add(self)
        try:
            for line in self.left():
                record = self.take(line)
                if record is None:
                    continue
                if self.progress:
                    loss = math.nan if record["loss"] is None else record["loss"]
                    print(f"\rstep {record['step']}  loss {loss:.4f}", end="", file=sys.stderr, flush=True)
                yield record
            self.wait()
        finally:
            self.stop()

    def take(self, line):
        """A step's metrics; None of the last line, which is the run's."""
        record = json.loads(line)
        if "peak_bytes" not in record:
            return record
        self.result = record

    def wait(self):
        """Reads to the end; `result`."""
        attendance.add(self)
        try:
            for line in self.left():
                self.take(line)
            code = self.process.wait()
        finally:
            self.stop()
        if code:
            raise failure(self.command, code, self.said)
        return self.result

    def tell(self):
        """It is to end. Told again, it ends without saving."""
        self.told = True
        if self.process.poll() is None:
            self.process.terminate()

    def stop(self):
        attendance.add(self)  # a second Ctrl-C meanwhile is the run's too
        if not self.told:
            self.tell()
        self.process.wait()
        if self.said is None:
            if self.progress:
                print(file=sys.stderr)
            self.errors.seek(0)
            self.said = warned(self.errors.read())
        attendance.remove(self)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


def train(plan, out=None, **options):
    """zero-run PLAN with each option as its flag (nproc_per_node=2, tokens="data.bin", steps=100): a Run to iterate over."""
    return Run(plan, out, **options)
