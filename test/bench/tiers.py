"""What bench.py measures of memory tiers: tiling (C11) and overlap (C10). Each function takes bench.py's module."""
import json
import os
import statistics
import sys


def run(bench, plan, data, out, *flags, **env):
    """-> (rows of metrics, the run's last line, foreign cores)."""
    text, foreign = bench.tool("zero-run", plan, "-n", flags[0], "--data", data, "--quiet", "--out", out, *flags[1:], **env)
    rows = [json.loads(line) for line in open(os.path.join(out, "metrics.jsonl"))]
    return rows, json.loads(text.splitlines()[-1]), foreign


def median_step(rows):
    return statistics.median(row["step_seconds"] for row in rows[1:])


#===-- tiling (C11) ---------------------------------------------------------===#


def linear(bench, name, *flags):
    onnx, data = (os.path.join(bench.folder, name + end) for end in (".onnx", ".safetensors"))
    bench.execute([sys.executable, os.path.join(bench.ROOT, "test/support/make_linear.py"), onnx, "--data", data, *map(str, flags)])
    return onnx, data


def tiling(bench):
    """A linear of 64K inputs in a device of 2 GiB, which its weight of 4 GiB does not fit; and where both fit, tiles beside the
    whole, alternating."""
    onnx, data = linear(bench, "linear-64k", "--inputs", 65536, "--outputs", 16384, "--rows", 16)
    flags = ["--optimizer", "sgd", "--offload-param", "nvme", "--offload-optimizer", "nvme", "--device-mem", "2GiB"]
    untiled = os.path.join(bench.folder, "untiled.plan")
    try:
        bench.tool("zero-compile", onnx, "-o", untiled, *flags)
        fits = True
    except RuntimeError:
        fits = False
    plan = os.path.join(bench.folder, "tiled.plan")
    bench.tool("zero-compile", onnx, "-o", plan, *flags, "--tile-linear", "256MiB")
    rows, last, foreign = run(bench, plan, data, os.path.join(bench.folder, "run"), 1, "--steps", 2, "--threads", 2,
                              "--nvme-dir", bench.folder)
    peak = last["peak_bytes"]["device"]["measured"]
    bench.emit("C11 hidden 64K", round(peak / 2**30, 3), "GiB", 2, round(peak / 2**31, 3), untiled_fits=fits,
               step_seconds=round(rows[-1]["step_seconds"], 2), loss=rows[-1]["loss"], foreign_cores=foreign)
    os.remove(onnx + ".data")
    onnx, data = linear(bench, "linear-8k", "--inputs", 8192, "--outputs", 4096, "--rows", 512, "--seed", 0)
    plans = {}
    for name, more in (("tiled", ["--tile-linear", "16MiB"]), ("untiled", [])):
        plans[name] = os.path.join(bench.folder, f"8k-{name}.plan")
        bench.tool("zero-compile", onnx, "-o", plans[name], "--optimizer", "sgd", "--world-size", 2, "--zero-stage", 3, *more)

    def contender(name):
        def measure():
            rows, _, foreign = run(bench, plans[name], data, os.path.join(bench.folder, "run"), 2, "--steps", 6, "--threads", 1,
                                   )
            return [row["step_seconds"] for row in rows[-5:]], rows[-1]["loss"], foreign
        return measure

    race = bench.compete({name: contender(name) for name in plans})
    bench.report_race("C11 tiled", race, "tiled", 1.1)


#===-- overlap (C10) --------------------------------------------------------===#

BATCHES = (2, 4, 8, 10, 14, 16)
PAPER = (1.29, 1.19, 1.09, 1.055, 1.01, 1.02)  # ZeRO-Infinity, gains of prefetching and overlap
STEPS = 6


def busy_seconds(bench, plan, data, out, **env):
    """Of the sync device, which runs one step of the plan after the other -> (seconds of a step, queue -> seconds, last line)."""
    rows, last, _ = run(bench, plan, data, out, 1, "--steps", STEPS, "--threads", 1, "--nvme-dir", bench.folder, "--device", "sync",
                        "--trace", f"2:{STEPS}", **env)
    trace = json.load(open(os.path.join(out, "trace.json")))
    events = trace["traceEvents"] if isinstance(trace, dict) else trace
    names = {e["tid"]: e["args"]["name"] for e in events if e.get("name") == "thread_name"}
    busy = {}
    for e in events:
        if e.get("ph") == "X":
            busy[names[e["tid"]]] = busy.get(names[e["tid"]], 0) + e["dur"] / 1e6 / (STEPS - 1)
    return median_step(rows), busy, last


LINKS = ("h2d", "d2h", "nvme_read", "nvme_write")


def throttle(bench, last, seconds):
    """-> (ZERO_LINK such that each link that is used needs `seconds` a step, the machine file that says so)."""
    traffic = last["traffic"]
    rates = {link: int(traffic[link] / STEPS / seconds) for link in LINKS if traffic.get(link, 0) > 0}
    machine = os.path.join(bench.folder, "machine.json")
    with open(machine, "w") as out:
        json.dump({f"{link}_bandwidth": rate for link, rate in rates.items()}, out)
    return ",".join(f"{link}={rate}/s" for link, rate in rates.items()), machine


def overlap(bench):
    """Hidden over hideable time: one step after the other takes t_sync, of which all but the busiest queue's work could be hidden.
    Each link is so slow that it needs half as long as compute: gradients are there for no more than two thirds of a step and the
    next step begins with the last of them, so a link that needs as long as compute cannot be hidden by any order. The compiler is told
    the rates, as bench-io would tell it. Then prefetching, over the size of the micro-batch, on a link that at a batch of 2 needs 0.3
    of compute."""
    onnx, data = (os.path.join(bench.folder, "overlap" + end) for end in (".onnx", ".safetensors"))
    bench.execute([sys.executable, os.path.join(bench.ROOT, "test/support/make_gpt.py"), onnx, "--layers", "12", "--hidden", "256",
                   "--heads", "4", "--vocab", "2048", "--seq", "64", "--batch", "batch", "--seed", "0", "--inputs", data, "--rows", "16"])
    out = os.path.join(bench.folder, "run")

    def compiled(name, batch, *flags):
        plan = os.path.join(bench.folder, f"overlap-{name}-{batch}.plan")
        bench.tool("zero-compile", onnx, "-o", plan, "--dim", f"batch={batch}", "--bucket-size", "2MiB", *flags)
        return plan

    for optimizer, param in (("host", "none"), ("host", "host"), ("nvme", "nvme")):
        name = f"{optimizer}-{param}"
        plan = compiled(name, 8, "--offload-optimizer", optimizer, "--offload-param", param)
        _, busy, last = busy_seconds(bench, plan, data, out)
        links, machine = throttle(bench, last, 0.5 * busy["compute"])
        plan = compiled(name, 8, "--offload-optimizer", optimizer, "--offload-param", param, "--machine", machine)
        sequential, busy, _ = busy_seconds(bench, plan, data, out, ZERO_LINK=links)
        seconds, foreign = [], 0.0
        for _ in range(max(3, bench.rounds)):
            rows, _, others = run(bench, plan, data, out, 1, "--steps", STEPS, "--threads", 1, "--nvme-dir", bench.folder,
                                  ZERO_LINK=links)
            seconds += [row["step_seconds"] for row in rows[1:]]
            foreign = max(foreign, others)
        hideable, hidden = sequential - max(busy.values()), sequential - statistics.median(seconds)
        bench.emit(f"C10 overlap {optimizer}/{param}", round(hidden / hideable, 3), "of hideable", 0.9, round(hidden / hideable / 0.9, 3),
                   step_seconds=round(statistics.median(seconds), 4), sync_seconds=round(sequential, 4),
                   queues={queue: round(s, 4) for queue, s in busy.items()}, links=links, foreign_cores=foreign)
    _, busy, last = busy_seconds(bench, compiled("prefetch", BATCHES[0], "--offload-param", "host"), data, out)
    links, machine = throttle(bench, last, 0.3 * busy["compute"])
    for batch, paper in zip(BATCHES, PAPER):
        plans = {p: compiled(f"prefetch-{p}", batch, "--offload-param", "host", "--prefetch", p, "--machine", machine)
                 for p in ("none", "auto")}

        def contender(name):
            def measure():
                rows, last, foreign = run(bench, plans[name], data, out, 1, "--steps", STEPS, "--threads", 1, ZERO_LINK=links)
                return [row["step_seconds"] for row in rows[1:]], last["loss"], foreign
            return measure

        race = bench.compete({name: contender(name) for name in plans})
        gain = race["none"][0] / race["auto"][0]
        bench.emit(f"C10 prefetch batch {batch}", round(gain, 3), "x", paper, round(gain / paper, 3),
                   step_seconds=round(race["auto"][0], 4), foreign_cores=max(v[1] for v in race.values()))
