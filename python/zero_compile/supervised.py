"""Commands in which a person's model and torch's exporters compute: a fault of theirs, in C++, ends the process. A fork does the work, made before anything
large is imported, so that it costs neither time nor memory; who made it waits, passes signals on, says where the other one ended, and clears away what that
left. The two share a file: the fork writes what it is at, and Python's faulthandler the lines that were being run."""
import atexit
import contextlib
import ctypes
import faulthandler
import json
import os
import pathlib
import re
import shutil
import signal
import sys
import tempfile
import traceback

from .errors import OVER_BUDGET, ZeroError, is_own, of_signal

PASSED_ON = signal.SIGINT, signal.SIGTERM, signal.SIGHUP
FAULTS = signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGTRAP, signal.SIGSYS
DIES_WITH_PARENT = 1  # PR_SET_PDEATHSIG


class Told(SystemExit):
    """By a signal."""


def end_by(number, _):
    """What is begun is cleared away, as after an error."""
    signal.signal(number, signal.SIG_IGN)  # which may come twice: to this process, and to its group
    raise Told(128 + number)


def end_by_signals():
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, end_by)


class Report:
    """What the work says to who waits."""

    file, stages = None, []  # None: nobody waits

    @classmethod
    def write(cls, **entry):
        if cls.file:
            os.write(cls.file.fileno(), b"\n" + json.dumps(entry).encode() + b"\n")


@contextlib.contextmanager
def stage(code, what, help=None):
    """While `what` is done: if the process, or Python, ends in it, that is an error of this code."""
    Report.stages.append((code, what, help))
    Report.write(stage=Report.stages[-1])
    try:
        yield
    except SystemExit as problem:
        if isinstance(problem, Told):
            raise
        own = [frame for frame in traceback.extract_tb(problem.__traceback__) if is_own(frame.filename)]
        raise ZeroError(code, f"{what} ends the program, with code {problem.code!r}", where=f"{own[-1].filename}:{own[-1].lineno}" if own else None, help=help) from problem
    finally:
        Report.stages.pop()
        Report.write(stage=Report.stages[-1] if Report.stages else None)


@contextlib.contextmanager
def scratch(prefix, folder=None):
    """A folder for what lies between, which is removed however the work ends."""
    with tempfile.TemporaryDirectory(prefix=prefix, dir=folder) as made:
        Report.write(scratch=os.path.abspath(made))
        yield made


def run(work):
    """Exit code of `work()`, by a fork. Errors: the fork ended in the middle."""
    with tempfile.TemporaryFile() as file:
        kills, mask = oom_kills(), signal.pthread_sigmask(signal.SIG_BLOCK, (*PASSED_ON, signal.SIGCHLD))
        sys.stdout.flush(), sys.stderr.flush()
        child = os.fork()
        if child == 0:
            Report.file = file
            become(work, mask)
        try:
            status = waited(child)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        file.seek(0)
        said = file.read().decode(errors="replace")
        entries = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
        for entry in entries:
            if "scratch" in entry:
                shutil.rmtree(entry["scratch"], ignore_errors=True)
        if {"ended": True} in entries and os.WIFEXITED(status):
            return os.WEXITSTATUS(status)
        raise failure(status, next((entry["stage"] for entry in reversed(entries) if "stage" in entry), None), last_place(said), oom_kills() > kills)


def become(work, mask):
    """This process does the work and ends."""
    parent, libc = os.getppid(), ctypes.CDLL(None)
    libc.prctl(DIES_WITH_PARENT, signal.SIGTERM)
    faulthandler.enable(Report.file)
    code = 1
    try:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        code = work() if os.getppid() == parent else 128 + signal.SIGTERM
    except SystemExit as problem:
        code = problem.code
    finally:
        Report.write(ended=True)
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        libc.fflush(None)
        os._exit(code)


def waited(child):
    """Its status once it has ended. A terminal's signals come to the child by themselves, and another process's here alone."""
    while True:
        info = signal.sigwaitinfo((*PASSED_ON, signal.SIGCHLD))
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return status
        if info.si_signo != signal.SIGCHLD and info.si_code <= 0:
            os.kill(child, info.si_signo)


def failure(status, stage, place, for_memory):
    """The error of a process that ended so, while at `stage`, at a person's line `place`."""
    code, what, help = stage or (None, "the command", None)
    if os.WIFEXITED(status):
        return ZeroError(code or os.WEXITSTATUS(status), f"{what} ended the process, with code {os.WEXITSTATUS(status)}", where=place, help=help)
    number = os.WTERMSIG(status)
    how = of_signal(number)
    if number == signal.SIGKILL and for_memory:
        return ZeroError(OVER_BUDGET, f"out of memory: the system killed the process while it was at this: {what}",
                         help="an export holds a few copies of the model, and its comparison with torch (--no-check is without) a few more")
    if number not in FAULTS:
        return ZeroError(128 + number, f"{what} was ended: {how}", where=place)
    return ZeroError(code or 128 + number, f"{what} ended the process: {how}", where=place, help=help)


def last_place(said):
    """"FILE:LINE" of the innermost line of a person's own in faulthandler's traceback; None where there is none."""
    _, _, lines = said.partition("Current thread")
    own = [(file, line) for file, line in re.findall(r'^  File "(.+)", line (\d+) in ', lines, re.MULTILINE) if is_own(file)]
    return f"{own[0][0]}:{own[0][1]}" if own else None


def oom_kills():
    """How many processes the system has killed for want of memory, in this one's group where that counts them."""
    groups = [line.split(":", 2) for line in read("/proc/self/cgroup").splitlines()]
    files = [f"/sys/fs/cgroup{path}/memory.events" if kind == "" else f"/sys/fs/cgroup/memory{path}/memory.oom_control" for _, kind, path in groups
             if kind == "" or "memory" in kind.split(",")]
    for file in [*files, "/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control", "/proc/vmstat"]:
        found = re.search(r"^oom_kill (\d+)", read(file), re.MULTILINE)
        if found:
            return int(found[1])
    return 0


def read(file):
    try:
        return pathlib.Path(file).read_text()
    except OSError:
        return ""
