#!/usr/bin/env python3
"""Kernels whose registers do not suffice, as ptxas reported them in build/cuda/run.log, are those of spills.txt, and store no more bytes
than stand there for the GPU; so are those of which a thread has arrays in memory, since their places are computed. A line that no kernel needs is
told too. Of what a block may share no kernel of ours takes more for its
reductions than is left for them (kSharedByReductions): one that is launched with all the rest would be refused, on a GPU alone."""
import os, pathlib, re, subprocess, sys

HERE = pathlib.Path(__file__).resolve().parent
ENTRY = re.compile(r"Compiling entry function '(\S+)' for 'sm_(\w+)'")
SPILL = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
SHARED = re.compile(r"Used \d+ registers.* (\d+) bytes smem")
OURS = "_ZN2zc"  # CUB's sort launches itself
ARRAYS = "arrays"  # stands in the list where else a GPU does


def report(log):
    """{GPU: kernels}, {(mangled name, GPU): bytes} of those that spill, that keep arrays of a thread in memory, and that share."""
    kernels, spilled, kept, shared, current = {}, {}, {}, {}, None
    for line in log.splitlines():
        if found := ENTRY.search(line):
            current = found[1], found[2]
            kernels.setdefault(found[2], set()).add(found[1])
        elif (found := SPILL.search(line)) and current:
            frame, stored = int(found[1]), int(found[2])
            if stored:
                spilled[current] = stored
            if frame > (stored + 15) // 16 * 16:
                kept[current] = frame
        elif (found := SHARED.search(line)) and current and current[0].startswith(OURS):
            shared[current] = int(found[1])
    return kernels, spilled, kept, shared


def limits(text):
    """[(part of a name, {GPU: most bytes})]: "NAME  GPU BYTES, GPU BYTES  # why"."""
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    parts = [line.split("  #")[0].rsplit("  ", 1) for line in lines]
    return [(name.strip(), {gpu: int(most) for gpu, most in (entry.split() for entry in each.split(","))}) for name, each in parts]


def wrong(kernels, spilled, allowed):
    """What is not as it stands in the list."""
    said, needed = [], set()
    for (name, gpu), count in spilled.items():
        at = f"in {gpu}" if gpu == ARRAYS else f"on sm_{gpu}"
        own = [(part, most[gpu]) for part, most in allowed if part in name and gpu in most]
        needed |= {(part, gpu) for part, _ in own}
        if not own or count > max(most for _, most in own):
            said.append(f"{name} {at}: {count} bytes, " + (f"{max(most for _, most in own)} are allowed" if own else "none are allowed"))
    said += [f"\"{part}\" spills nothing on sm_{gpu} any more" for part, most in allowed for gpu in most
             if (gpu in kernels or gpu == ARRAYS) and (part, gpu) not in needed]
    return said


def left_to_reductions():
    """Bytes, as Launch.h has it."""
    return int(re.search(r"kSharedByReductions = (\d+)", (HERE.parents[1] / "kernels/cuda/Launch.h").read_text())[1])


def check_itself():
    """That too many bytes, another kernel, another GPU and a line too many are seen, and nothing else; what a kernel of ours shares."""
    log = "".join(f"Compiling entry function '{name}' for 'sm_90'\n    0 bytes stack frame, {count} bytes spill stores, {count} bytes spill loads\n"
                  for name, count in (("one", 8), ("two", 16), ("three", 0)))
    kernels, spilled, kept, _ = report(log)
    *_, arrays, _ = report(log.replace("0 bytes stack", "48 bytes stack"))
    if kept or set(arrays.values()) != {48} or len(arrays) != 3:
        raise SystemExit(f"spills.py: {kept}, {arrays}")
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
kernels, spilled, kept, shared = report(log.read_text(errors="replace"))
if not kernels:
    print(f"0 kernels in {log}: it was built without -DZC_CUDA_VERBOSE=ON")
    print("0 passed, 1 failed")
    sys.exit(1)
in_memory = [*spilled.items()] + [((name, ARRAYS), count) for (name, _), count in kept.items() if name.startswith(OURS)]
names = subprocess.run(["c++filt"], input="\n".join(name for (name, _), _ in in_memory), capture_output=True, text=True).stdout.splitlines()
named = {}
for name, ((_, gpu), count) in zip(names, in_memory):
    named[name, gpu] = max(count, named.get((name, gpu), 0))
if "--list" in sys.argv:  # to write spills.txt anew
    print("\n".join(f"{count:5} {gpu} {name}" for (name, gpu), count in sorted(named.items())))
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
