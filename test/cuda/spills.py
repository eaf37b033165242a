#!/usr/bin/env python3
"""Kernels whose registers do not suffice, as ptxas reported them in build/cuda/run.log, are those of spills.txt, and store no more bytes
than stand there for the GPU. A line that no kernel of a GPU needs is told too. Of what a block may share no kernel of ours takes more for its
reductions than is left for them (kSharedByReductions): one that is launched with all the rest would be refused, on a GPU alone."""
import os, pathlib, re, subprocess, sys

HERE = pathlib.Path(__file__).resolve().parent
ENTRY = re.compile(r"Compiling entry function '(\S+)' for 'sm_(\w+)'")
SPILL = re.compile(r"(\d+) bytes spill stores, (\d+) bytes spill loads")
SHARED = re.compile(r"Used \d+ registers.* (\d+) bytes smem")
OURS = "_ZN2zc"  # CUB's sort launches itself


def report(log):
    """{GPU: kernels}, {(mangled name, GPU): bytes} of those that spill, and of those that share."""
    kernels, spilled, shared, current = {}, {}, {}, None
    for line in log.splitlines():
        if found := ENTRY.search(line):
            current = found[1], found[2]
            kernels.setdefault(found[2], set()).add(found[1])
        elif (found := SPILL.search(line)) and current and found[1] != "0":
            spilled[current] = int(found[1])
        elif (found := SHARED.search(line)) and current and current[0].startswith(OURS):
            shared[current] = int(found[1])
    return kernels, spilled, shared


def limits(text):
    """[(part of a name, {GPU: most bytes})]: "NAME  GPU BYTES, GPU BYTES  # why"."""
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    parts = [line.split("  #")[0].rsplit("  ", 1) for line in lines]
    return [(name.strip(), {gpu: int(most) for gpu, most in (entry.split() for entry in each.split(","))}) for name, each in parts]


def wrong(kernels, spilled, allowed):
    """What is not as it stands in the list."""
    said, needed = [], set()
    for (name, gpu), count in spilled.items():
        own = [(part, most[gpu]) for part, most in allowed if part in name and gpu in most]
        needed |= {(part, gpu) for part, _ in own}
        if not own or count > max(most for _, most in own):
            said.append(f"{name} on sm_{gpu}: {count} bytes, " + (f"{max(most for _, most in own)} are allowed" if own else "none are allowed"))
    said += [f"\"{part}\" spills nothing on sm_{gpu} any more" for part, most in allowed for gpu in most if gpu in kernels and (part, gpu) not in needed]
    return said


def left_to_reductions():
    """Bytes, as Launch.h has it."""
    return int(re.search(r"kSharedByReductions = (\d+)", (HERE.parents[1] / "kernels/cuda/Launch.h").read_text())[1])


def check_itself():
    """That too many bytes, another kernel, another GPU and a line too many are seen, and nothing else; what a kernel of ours shares."""
    log = "".join(f"Compiling entry function '{name}' for 'sm_90'\n    0 bytes stack frame, {count} bytes spill stores, {count} bytes spill loads\n"
                  for name, count in (("one", 8), ("two", 16), ("three", 0)))
    kernels, spilled, _ = report(log)
    used = "ptxas info    : Used 8 registers, used 1 barriers, 2048 bytes smem, 4 bytes cmem[0]\n"
    *_, shared = report("".join(f"Compiling entry function '{name}' for 'sm_90'\n{used}" for name in (OURS + "one", "two")))
    if shared != {(OURS + "one", "90"): 2048}:
        raise SystemExit(f"spills.py: {shared}")
    expected = {"one  90 8  # a\ntwo  90 16, 80 4  # b": 0, "one  90 4  # a\ntwo  90 16  # b": 1, "one  90 8  # a": 1, "one  80 8  # a\ntwo  90 16  # b": 1,
                "one  90 8  # a\ntwo  90 16  # b\nthree  90 4  # c": 1}
    found = {text: len(wrong(kernels, spilled, limits(text))) for text in expected}
    if found != expected:
        raise SystemExit(f"spills.py: {found}")


check_itself()
log = pathlib.Path(os.environ.get("ZC_BUILD", HERE.parents[1] / "build/cuda")) / "run.log"
if not log.exists():
    print(f"no {log}: test/run.sh cuda makes it")
    sys.exit(77)
kernels, spilled, shared = report(log.read_text(errors="replace"))
if not kernels:
    print(f"0 kernels in {log}: it was built without -DZC_CUDA_VERBOSE=ON")
    print("0 passed, 1 failed")
    sys.exit(1)
names = subprocess.run(["c++filt"], input="\n".join(name for name, _ in spilled), capture_output=True, text=True).stdout.splitlines()
named = {}
for name, ((_, gpu), count) in zip(names, spilled.items()):
    named[name, gpu] = max(count, named.get((name, gpu), 0))
if "--list" in sys.argv:  # to write spills.txt anew
    print("\n".join(f"{count:5} sm_{gpu} {name}" for (name, gpu), count in sorted(named.items())))
said = wrong(kernels, named, limits((HERE / "spills.txt").read_text()))
most = left_to_reductions()
said += [f"{name} on sm_{gpu} shares {count} bytes, {most} are left to reductions" for (name, gpu), count in shared.items() if count > most]
for line in said:
    print(f"FAIL  {line[:400]}")
count = sum(map(len, kernels.values()))
print(f"{count} kernels for {', '.join('sm_' + gpu for gpu in sorted(kernels))}, {len(spilled)} spill, {max(shared.values(), default=0)} bytes are shared at most, "
      f"{len(said)} are not as they should be")
print(f"{count - len(said)} passed, {len(said)} failed")
sys.exit(1 if said else 0)
