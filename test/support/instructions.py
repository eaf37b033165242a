"""How many instructions a command takes, counted by valgrind: no other program on the machine changes them."""
import os, re, shutil, subprocess


def can_count():
    return shutil.which("valgrind") is not None


def instructions(command):
    """Raises RuntimeError where the command fails."""
    valgrind = ["valgrind", "--tool=cachegrind", "--cache-sim=no", f"--cachegrind-out-file={os.devnull}"]
    done = subprocess.run([*valgrind, *map(str, command)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=600)
    count = re.search(r"I +refs: +([\d,]+)", done.stderr)
    if done.returncode or not count:
        raise RuntimeError(f"exit code {done.returncode}: {done.stderr[-1500:]}")
    return int(count[1].replace(",", ""))
