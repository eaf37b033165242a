"""Errors with the exit codes of the two programs (docs/cli.md)."""
import importlib
import os
import signal

OTHER, USAGE, BAD_INPUT, UNSUPPORTED, OVER_BUDGET, IO, MISMATCH, INTERNAL, PREEMPTED = 1, 2, 3, 4, 5, 6, 10, 70, 75
PACKAGE = os.path.dirname(__file__) + os.sep  # all rooms of it lie below


class ZeroError(Exception):
    """What went wrong, where it was, and what helps."""

    def __init__(self, code, message, where=None, help=None):
        super().__init__(message)
        self.code, self.message, self.where, self.help = code, message, where, help

    def __str__(self):
        # What a program said begins as it says so: "error[Z0312]: ...".
        text = self.message if self.message.startswith("error[") else f"error: {self.message}"
        if self.where:
            text += f"\n  --> {self.where}"
        if self.help:
            text += f"\n  = help: {self.help}"
        return text


def is_own(file):
    """Is a file of Python's a person's, no library's and none of this package?"""
    libraries = "site-packages", "dist-packages", os.path.dirname(os.__file__) + os.sep, PACKAGE
    return os.path.isfile(file) and not any(part in file for part in libraries)


def of_signal(number):
    """"killed (signal 9)"."""
    return f"{(signal.strsignal(number) or 'unknown').lower()} (signal {number})"


def wants_memory(problem):
    return isinstance(problem, MemoryError) or "can't allocate memory" in str(problem)  # the latter torch's


def need(module, purpose):
    """Imports what only some commands need."""
    try:
        return importlib.import_module(module)
    except ImportError as problem:
        name = module.partition(".")[0]
        raise ZeroError(OTHER, f'{purpose} needs the Python package "{name}": {problem}',
                        help=f"pip install {name}") from problem
