"""How compiling grows: CPU seconds of the process (not the clock: other work beside it counts little) and the memory it takes. Of twice the
layers, instructions, where valgrind is installed: seconds grow faster as soon as a model leaves a cache that others have a share of."""
import os, subprocess, sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from instructions import can_count, instructions

MOST_SECONDS, MOST_MB, MOST_PLAN_MB = 2, 120, 4  # C12: of 1T parameters on 512 ranks
CASES = (  # name, model, flags, limit in CPU seconds, limit in MB
    ("chain of a million nodes", ("chain", "--nodes", "999999"), (), 5, 1500),
    ("100,000 operations, selective recomputation and a budget", ("chain", "--nodes", "25000", "--op", "Tanh", "--blocks", "100"),
     ("--checkpoint-activations", "selective", "--device-mem", "6MB"), 10, None),
    ("1T on 512 ranks", ("gpt", "--preset", "1t"), ("--world-size", "512", "--zero-stage", "3", "--precision", "bf16"), MOST_SECONDS, MOST_MB),
    ("1T on 512 ranks, all on nvme", ("gpt", "--preset", "1t"),
     ("--world-size", "512", "--zero-stage", "3", "--precision", "bf16", "--offload-optimizer", "nvme", "--offload-param", "nvme"), 4, None),
    ("1T on 4096 ranks, all of ZeRO++", ("gpt", "--preset", "1t"),
     ("--world-size", "4096", "--ranks-per-node", "8", "--zero-stage", "3", "--precision", "bf16", "--quantize-weights", "int8",
      "--quantize-gradients", "int4", "--hierarchical", "--hierarchical-collectives"), None, None),
)
GROWING = (  # twice the layers: how many times as long
    ("layers", ()),
    ("tiled layers", ("--tile-linear", "8192")),
    ("layers, selective recomputation", ("--checkpoint-activations", "selective")),
)
MOST_GROWTH, MOST_GROWTH_OF_SECONDS = 2.05, 2.5


def model(bench, script, *arguments):
    path = os.path.join(bench.folder, "-".join(("scale", script, *arguments)).replace("/", "_") + ".onnx")
    if not os.path.exists(path):
        subprocess.run([sys.executable, os.path.join(bench.ROOT, f"test/support/make_{script}.py"), path, *arguments], check=True, capture_output=True)
    return path


def compiled(bench, path, plan, flags):
    """What the process used."""
    child = subprocess.Popen([os.path.join(bench.BIN, "zero-compile"), path, "-o", plan, *flags], stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise RuntimeError(f"{path} {' '.join(flags)}: exit code {child.returncode}")
    return used


def grow(bench, name, flags):
    plan, flags = os.path.join(bench.folder, "scale.plan"), ("--zero-stage", "3", "--world-size", "4", *flags)
    gpts = [model(bench, "gpt", *f"--seed 0 --layers {layers} --hidden 64 --heads 2 --vocab 256 --seq 16 --batch 2".split()) for layers in (200, 400)]
    seconds, counts = [compiled(bench, gpt, plan, flags).ru_utime for gpt in gpts], []
    if can_count():
        counts = [instructions([os.path.join(bench.BIN, "zero-compile"), gpt, "-o", plan, *flags]) for gpt in gpts]
        bench.emit(f"scale: 400 {name}", round(counts[1] / 1e9, 2), "G instructions")
        bench.emit(f"scale: 400 {name} / 200", round(counts[1] / counts[0], 3), "x instructions", limit=MOST_GROWTH)
    bench.emit(f"scale: 400 {name}", round(seconds[1], 2), "CPU s")
    bench.emit(f"scale: 400 {name} / 200", round(seconds[1] / seconds[0], 2), "x seconds", limit=None if counts else MOST_GROWTH_OF_SECONDS)


def scale(bench):
    for name, flags in GROWING:
        grow(bench, name, flags)
    for name, (script, *arguments), flags, most_seconds, most_mb in CASES:
        plan = os.path.join(bench.folder, "scale.plan")
        used = compiled(bench, model(bench, script, *arguments), plan, flags)
        bench.emit(f"scale: {name}", round(used.ru_utime + used.ru_stime, 2), "CPU s", limit=most_seconds)
        bench.emit(f"scale: {name}", round(used.ru_maxrss * 1024 / 1e6), "MB", limit=most_mb)
        bench.emit(f"scale: {name}", round(os.path.getsize(plan) / 1e6, 2), "MB of plan",
                   limit=MOST_PLAN_MB if name.endswith("512 ranks") or "4096" in name else None)
        os.unlink(plan)
