#!/usr/bin/env python3
"""Runs a program and notes the most memory that it had resident, in bytes, in a file of its own of FOLDER.

  resident.py FOLDER PROGRAM ARGUMENT...        # under mpirun too: one file per process
"""
import os
import sys


def peak(command, **more):
    """Exit code and peak of a program, started by itself so that no other one's memory counts."""
    child = os.posix_spawn(command[0], command, {**os.environ, **more})
    _, status, usage = os.wait4(child, 0)
    return os.waitstatus_to_exitcode(status), usage.ru_maxrss * 1024


if __name__ == "__main__":
    code, resident = peak(sys.argv[2:])
    with open(os.path.join(sys.argv[1], str(os.getpid())), "w") as f:
        f.write(str(resident))
    sys.exit(code)
