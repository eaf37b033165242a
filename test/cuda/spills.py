#!/usr/bin/env python3
"""Kernels whose registers do not suffice, as ptxas reported them in build/cuda/run.log, are those of spills.txt, which says why."""
import os, pathlib, re, subprocess, sys

HERE = pathlib.Path(__file__).resolve().parent
log = pathlib.Path(os.environ.get("ZC_BUILD", HERE.parents[1] / "build/cuda")) / "run.log"
if not log.exists():
    print(f"no {log}: test/run.sh cuda makes it")
    sys.exit(77)
entry = re.compile(r"Compiling entry function '(\S+)' for '(\w+)'")
spill = re.compile(r"(\d+) bytes spill stores, (\d+) bytes spill loads")
kernels, spilled, current = set(), {}, None
for line in log.read_text(errors="replace").splitlines():
    if found := entry.search(line):
        current = found[1], found[2]
        kernels.add(current)
    elif (found := spill.search(line)) and current and found[1] != "0":
        spilled[current] = int(found[1])
if not kernels:
    print(f"0 kernels in {log}: it was built without -DZC_CUDA_VERBOSE=ON")
    print("0 passed, 1 failed")
    sys.exit(1)
allowed = [line.split("  #")[0].strip() for line in (HERE / "spills.txt").read_text().splitlines() if line and not line.startswith("#")]
names = subprocess.run(["c++filt"], input="\n".join(name for name, _ in spilled), capture_output=True, text=True).stdout.splitlines()
unknown = [f"{name} on {arch}: {spilled[mangled, arch]} bytes" for name, (mangled, arch) in zip(names, spilled)
           if not any(word in name for word in allowed)]
for line in unknown:
    print(f"FAIL  {line[:400]}")
print(f"{len(kernels)} kernels, {len(spilled)} spill, {len(unknown)} of them unexpectedly")
print(f"{len(kernels) - len(unknown)} passed, {len(unknown)} failed")
sys.exit(1 if unknown else 0)
