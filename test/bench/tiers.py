"""What bench.py measures of memory tiers: tiling (C11), a step with its optimizer on NVMe (C9) and overlap (C10). Each function takes
bench.py's module."""
import json
import os
import statistics
import sys


def run(bench, plan, data, out, *flags, **env):
    """-> (rows of metrics, the run's last line, foreign cores)."""
    text, foreign = bench.tool("zero-run", plan, "-n", flags[0], "--data", data, "--quiet", "--overwrite", "--out", out, *flags[1:], **env)
    rows = [json.loads(line) for line in open(os.path.join(out, "metrics.jsonl"))]
    return rows, json.loads(text.splitlines()[-1]), foreign


STEPS = 6  # of a run, the first not counted


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


#===-- a step with its optimizer on NVMe (C9) -------------------------------===#


def gpt(bench, name, layers, hidden, vocab, seq, batch):
    onnx, data = (os.path.join(bench.folder, name + end) for end in (".onnx", ".safetensors"))
    bench.execute([sys.executable, os.path.join(bench.ROOT, "test/support/make_gpt.py"), onnx, "--layers", str(layers), "--hidden",
                   str(hidden), "--heads", str(hidden // 64), "--vocab", str(vocab), "--seq", str(seq), "--batch", str(batch),
                   "--seed", "0", "--inputs", data, "--rows", "16"])
    return onnx, data


CHUNK = 4 << 20  # bytes that a plan moves to or from the file at a time


def nvme_step(bench):
    """Seconds of a step over the larger of its I/O (as many bytes each way through the same tier, both at once and nothing else) and of
    its compute (which `sync` does alone), in turns. One rank, one thread for compute: the host's update and the file's checksums have
    the other core. The last model's tied embedding, a third of its parameters, has its gradient last and is used first: its update
    lies between two steps in any order."""
    machine, out = os.path.join(bench.folder, "nvme-machine.json"), os.path.join(bench.folder, "run")
    bench.tool("zero-run", "bench-io", bench.folder, "-o", machine)
    for name, vocab, batch in (("85M batch 4", 2048, 4), ("85M batch 1", 2048, 1), ("124M batch 4", 50257, 4)):
        onnx, data = gpt(bench, f"nvme-{vocab}-{batch}", 12, 768, vocab, 256, batch)
        plan = os.path.join(bench.folder, f"nvme-{vocab}-{batch}.plan")
        bench.tool("zero-compile", onnx, "-o", plan, "--offload-optimizer", "nvme", "--machine", machine)
        seconds, compute, io, foreign = [], [], {}, 0.0
        for _ in range(max(2, bench.rounds)):
            rows, last, others = run(bench, plan, data, out, 1, "--steps", STEPS, "--threads", 1, "--nvme-dir", bench.folder)
            seconds += [row["step_seconds"] for row in rows[1:]]
            foreign = max(foreign, others)
            moved = [last["traffic"]["nvme_" + way] // STEPS for way in ("read", "write")]
            text, _ = bench.tool("bench_nvme_file", bench.folder, *moved, CHUNK)
            for way, value in json.loads(text).items():
                io.setdefault(way, []).append(value)
            compute.append(busy_seconds(bench, plan, data, out, steps=3)[1]["compute"])
        io = {way: round(statistics.median(values), 3) for way, values in io.items()}
        value, compute = statistics.median(seconds), statistics.median(compute)
        bound = max(compute, io["both"])
        bench.emit(f"C9 step, optimizer on nvme, {name}", round(value / bound, 3), "of bound", 1.15, round(value / bound / 1.15, 3),
                   step_seconds=round(value, 3), compute_seconds=round(compute, 3), io_seconds=io, bytes=moved, foreign_cores=foreign)


#===-- overlap (C10) --------------------------------------------------------===#

BATCHES = (2, 4, 8, 10, 14, 16)
PAPER = (1.29, 1.19, 1.09, 1.055, 1.01, 1.02)  # ZeRO-Infinity, gains of prefetching and overlap


def busy_seconds(bench, plan, data, out, steps=STEPS, **env):
    """Of the sync device, which runs one step of the plan after the other -> (seconds of a step, queue -> seconds, last line)."""
    rows, last, _ = run(bench, plan, data, out, 1, "--steps", steps, "--threads", 1, "--nvme-dir", bench.folder, "--device", "sync",
                        "--trace", f"2:{steps}", **env)
    busy = {}
    for e in bench.trace_events(os.path.join(out, "trace.json")):
        busy[e["queue"]] = busy.get(e["queue"], 0) + e["seconds"] / (steps - 1)
    return median_step(rows), busy, last


LINKS = ("h2d", "d2h", "nvme_read", "nvme_write")


def throttle(bench, last, seconds, like=None):
    """-> (ZERO_LINK such that each link that is used needs `seconds` a step, or is as fast as `like`; the machine file that says so)."""
    traffic = last["traffic"]
    rates = {link: int(traffic[like or link] / STEPS / seconds) for link in LINKS if traffic.get(link, 0) > 0}
    machine = os.path.join(bench.folder, "machine.json")
    with open(machine, "w") as out:
        json.dump({f"{link}_bandwidth": rate for link, rate in rates.items()}, out)
    return ",".join(f"{link}={rate}/s" for link, rate in rates.items()), machine


def overlap(bench):
    """Hidden over hideable time: one step after the other takes t_sync, of which all but the busiest queue's work could be hidden.
    Each link is so slow that it needs half as long as compute: gradients are there for no more than two thirds of a step and the
    next step begins with the last of them, so a link that needs as long as compute cannot be hidden by any order. The compiler is told
    the rates, as bench-io would tell it; and once more not: it then plans for links about thirty times as fast."""
    onnx, data = gpt(bench, "overlap", 12, 256, 2048, 64, "batch")
    out = os.path.join(bench.folder, "run")

    def compiled(name, batch, *flags):
        plan = os.path.join(bench.folder, f"overlap-{name}-{batch}.plan")
        bench.tool("zero-compile", onnx, "-o", plan, "--dim", f"batch={batch}", "--bucket-size", "2MiB", *flags)
        return plan

    for optimizer, param in (("host", "none"), ("host", "host"), ("nvme", "nvme")):
        name = f"{optimizer}-{param}"
        flags = "--offload-optimizer", optimizer, "--offload-param", param
        plans = {"": compiled(name, 8, *flags)}
        _, busy, last = busy_seconds(bench, plans[""], data, out)
        links, machine = throttle(bench, last, 0.5 * busy["compute"])
        plans = {"": compiled(name + "-told", 8, *flags, "--machine", machine), ", links not known": plans[""]}
        seconds, sequential, queues, foreign = {which: [] for which in plans}, [], {}, 0.0
        for _ in range(max(3, bench.rounds)):
            alone, busy, _ = busy_seconds(bench, plans[""], data, out, ZERO_LINK=links)
            sequential.append(alone)
            for queue, value in busy.items():
                queues.setdefault(queue, []).append(value)
            for which, plan in plans.items():
                rows, _, others = run(bench, plan, data, out, 1, "--steps", STEPS, "--threads", 1, "--nvme-dir", bench.folder,
                                      ZERO_LINK=links)
                seconds[which] += [row["step_seconds"] for row in rows[1:]]
                foreign = max(foreign, others)
        busy = {queue: statistics.median(values) for queue, values in queues.items()}
        sequential = statistics.median(sequential)
        for which, values in seconds.items():
            median = statistics.median(values)
            share = (sequential - median) / (sequential - max(busy.values()))
            bench.emit(f"C10 overlap {optimizer}/{param}{which}", round(share, 3), "of hideable", 0.9, round(share / 0.9, 3),
                       step_seconds=round(median, 4), sync_seconds=round(sequential, 4),
                       queues={queue: round(s, 4) for queue, s in busy.items()}, links=links, foreign_cores=foreign)
    prefetch(bench, data, out, compiled)


def prefetch(bench, data, out, compiled):
    """The gain of loading parameters ahead of use, over the size of the micro-batch: seconds of a step whose loads are issued where they
    are needed over those of one that prefetches. Expected: from compute C and loads L of the same step, one after the other on `sync`,
    (C + L) / max(C, L). The link's rate makes L 0.3 C at a batch of 2, which the paper's gain there is of. `overlap`: `sync`, where
    updated parameters' way home is not hidden either, over prefetching."""
    _, busy, last = busy_seconds(bench, compiled("prefetch", BATCHES[0], "--offload-param", "host"), data, out)
    links, machine = throttle(bench, last, 0.3 * busy["compute"], like="h2d")
    for batch, paper in zip(BATCHES, PAPER):
        plans = {p: compiled(f"prefetch-{p}", batch, "--offload-param", "host", "--prefetch", p, "--machine", machine)
                 for p in ("none", "auto")}
        loads, computes = [], []

        def contender(name):
            def measure():
                rows, last, foreign = run(bench, plans[name], data, out, 1, "--steps", STEPS, "--threads", 1, ZERO_LINK=links)
                return [row["step_seconds"] for row in rows[1:]], last["loss"], foreign
            return measure

        def sequential():
            seconds, busy, last = busy_seconds(bench, plans["none"], data, out, ZERO_LINK=links)
            computes.append(busy["compute"])
            loads.append(busy["h2d"])
            return [seconds], last["loss"], 0.0

        race = bench.compete({**{name: contender(name) for name in plans}, "sync": sequential}, at_least=5)
        gain, (compute, load) = race["none"][0] / race["auto"][0], map(statistics.median, (computes, loads))
        bench.emit(f"C10 prefetch batch {batch}", round(gain, 3), "x", paper, round(gain / paper, 3),
                   expected=round((compute + load) / max(compute, load), 3), overlap=round(race["sync"][0] / race["auto"][0], 3),
                   compute_seconds=round(compute, 4), load_seconds=round(load, 4), step_seconds=round(race["auto"][0], 4),
                   foreign_cores=max(v[1] for v in race.values()))
