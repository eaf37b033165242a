"""The optimizer phase (C6) beside what memory allows and beside DeepSpeed's. Takes bench.py's module."""
import os
import statistics
import sys
import time

from partner import Partner

ELEMENTS = 32 << 20
ROUNDS = 9
# bytes a parameter: kernels; and of the phase on one rank the gradient's landing, the update and the parameter's way home, each read
# and written once (the norm takes what has just landed)
KERNELS = {"adamw fp32": 28, "adamw bf16": 28, "adamw fp32 copy": 32, "norm fp32": 4, "norm bf16": 2}
PHASES = {"fp32": 8 + 28 + 8, "bf16": 4 + 28 + 4}


def python_of_deepspeed(bench):
    python = bench.python_with("torch", "deepspeed")
    if not python:
        print("bench: no python with DeepSpeed (peers/setup.sh makes one): its optimizer is not measured", file=sys.stderr)
    return python


def own_phases(bench, threads):
    """precision -> function giving the seconds of the phase in a few training steps. One thread: all work of the queues to and from
    the host and on it, one after the other. More: from the first gradient that leaves to the last parameter that is back."""
    onnx, data = (os.path.join(folder, "phase" + end) for end in (".onnx", ".safetensors"))
    bench.execute([sys.executable, os.path.join(bench.ROOT, "test/support/make_linear.py"), onnx, "--inputs", "8192", "--outputs",
                   str(ELEMENTS // 8192), "--rows", "1", "--data", data])
    out = os.path.join(folder, "run-phase")

    def measured(plan):
        bench.tool("zero-run", plan, "-n", 1, "--threads", threads, "--device", "sync" if threads == 1 else "cpu", "--data", data,
                   "--steps", 6, "--trace", "3:6", "--quiet", "--overwrite", "--out", out)
        events = bench.trace_events(os.path.join(out, "trace.json"))
        phases = []
        for step in range(3, 7):
            mine = [e for e in events if e["step"] == step and e["queue"] in ("d2h", "host_compute", "h2d")]
            if threads == 1:
                phases.append(sum(e["seconds"] for e in mine))
            else:
                phases.append(max(e["begin"] + e["seconds"] for e in mine) - min(e["begin"] for e in mine))
        return statistics.median(phases)

    functions = {}
    for precision in PHASES:
        plan = os.path.join(folder, f"phase-{precision}.plan")
        bench.tool("zero-compile", onnx, "-o", plan, "--precision", precision, "--zero-stage", 2, "--offload-optimizer", "host",
                   "--clip-grad-norm", 1)
        functions[precision] = lambda plan=plan: measured(plan)
    return functions


def adam(bench):
    """Kernels: GB/s over those of an update in place, and over DeepSpeed's. The phase: over the same, and DeepSpeed's seconds over
    its. All on as many parameters and threads, one after the other in each round."""
    global folder
    folder = bench.folder
    deepspeed = python_of_deepspeed(bench)
    for threads in sorted({1, min(2, len(os.sched_getaffinity(0)))}):
        with Partner(folder, os.path.join(bench.BIN, "bench_adam"), str(threads), str(ELEMENTS)) as ours:
            partners, races = [ours], {name: (ours.seconds, name) for name in ("stream", *KERNELS)}
            if deepspeed:
                theirs = Partner(folder, deepspeed, os.path.join(bench.ROOT, "test/bench/peer_adam.py"), str(threads), str(ELEMENTS))
                partners.append(theirs)
                races.update({"peer " + name: (theirs.seconds, name) for name in ("deepspeed", "torch", *(f"phase {p}" for p in PHASES))})
            races.update({f"phase {p}": (run, None) for p, run in own_phases(bench, threads).items()})
            try:
                race(bench, threads, partners, races)
            finally:
                for partner in partners[1:]:
                    partner.__exit__()


def race(bench, threads, partners, races):
    seconds = {name: [] for name in races}
    bench.wait_until_idle()
    before, at, own = bench.busy(), time.time(), os.times()
    cpu = sum(p.cpu_seconds() for p in partners)
    for round_ in range(-1, max(ROUNDS, bench.rounds)):
        for name in races if round_ % 2 else reversed(races):
            function, argument = races[name]
            taken = function(argument) if argument else function()
            if round_ >= 0:
                seconds[name].append(taken)
    now = os.times()
    cpu = sum(p.cpu_seconds() for p in partners) - cpu
    cpu += sum(getattr(now, f) - getattr(own, f) for f in ("user", "system", "children_user", "children_system"))
    foreign = round(max(0.0, (bench.busy() - before - cpu) / (time.time() - at)), 3)
    report(bench, threads, {name: statistics.median(v) for name, v in seconds.items()}, foreign)


def report(bench, threads, median, foreign):
    rate = lambda name, size: round(size * ELEMENTS / median[name] / 1e9, 2)
    stream = rate("stream", 8)
    peers = {"stream": stream, **{name: rate("peer " + name, 28) for name in ("deepspeed", "torch") if "peer " + name in median}}
    for name, size in KERNELS.items():
        value, bench_name = rate(name, size), "C6 " + name
        bench.emit(bench_name, value, "GB/s", 0.9, round(value / stream, 3), threads=threads, foreign_cores=foreign,
                   peers=peers if name.startswith("adamw") else {"stream": stream})
    if "deepspeed" in peers:
        value = round(median["peer deepspeed"] / median["adamw fp32"], 3)
        bench.emit("C6 kernel over DeepSpeed's", value, "x", 1.0, value, threads=threads, foreign_cores=foreign)
    for precision, size in PHASES.items():
        name = "phase " + precision
        value = rate(name, size)
        bench.emit("C6 " + name, value, "GB/s", 0.9, round(value / stream, 3), threads=threads, foreign_cores=foreign,
                   peers={"stream": stream}, seconds=round(median[name], 4))
        if "peer " + name in median:
            value = round(median["peer " + name] / median[name], 3)
            bench.emit(f"C6 {name} over DeepSpeed's", value, "x", 1.3, round(value / 1.3, 3), threads=threads,
                       foreign_cores=foreign, seconds=round(median[name], 4), peers={"deepspeed": round(median["peer " + name], 4)})
