"""What the benchmarks run and compare; run.sh builds first and explains the arguments. Standard library only.

A measurement is {"bench", "value", "unit", "limit", "ratio"} and what is needed to judge it: its peers' figures of the same
rounds, and `foreign_cores`, the CPU other processes took meanwhile (above 0.1: do not trust it). Seconds are medians over
all timed steps of all rounds; peers and this project alternate, in reversed order every second round.
"""
import argparse
import functools
import glob
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import checkpoints
import collectives
import kernels
import memory
import models
import optimizer
import product
import scale
import tiers

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("ZC_BUILD", os.path.join(ROOT, "build/release"))
BIN = os.path.join(BUILD, "bin")
PEERS = os.path.join(ROOT, "test/bench/peers")
PYTHONS = (os.path.join(os.environ.get("PEERS_HOME", os.path.expanduser("~/.cache/peers")), "v/bin/python"),
           os.path.join(ROOT, "build/torch/bin/python"))
TORCH = os.environ.get("ZC_TORCH_PYTHON") or next(filter(os.path.exists, PYTHONS), None)
WARM_UP, TIMED = 2, 5
# layers, width, vocabulary, sequence length, global batch of the model most benchmarks train
G124M = (12, 768, 50257, 256, 4)
results = []


def flops_of_step():
    """Of all matrix products of a training step of G124M, causal attention counted whole."""
    layers, d, vocab, seq, batch = G124M
    return 6 * (layers * 12 * d * d + vocab * d) * batch * seq + 12 * layers * d * seq * seq * batch


def emit(bench, value, unit, limit=None, ratio=None, **more):
    row = {"bench": bench, "value": value, "unit": unit, "limit": limit, "ratio": ratio, **more}
    results.append(row)
    print(json.dumps(row), flush=True)


def busy():
    """CPU seconds all processes of the machine have taken."""
    v = [int(x) for x in open("/proc/stat").readline().split()[1:9]]
    return (sum(v) - v[3] - v[4]) / os.sysconf("SC_CLK_TCK")


patience = [60]  # seconds


def wait_until_idle():
    """A minute at most; on a machine that was not idle then, a few seconds from there on."""
    end = time.time() + patience[0]
    while time.time() < end:
        before, at = busy(), time.time()
        time.sleep(0.5)
        if (busy() - before) / (time.time() - at) < 0.15:
            return
    patience[0] = 5


def execute(command, env=None):
    """-> (stdout, cores that other processes took meanwhile). Raises with the end of stderr when the command fails."""
    wait_until_idle()
    before, at, own = busy(), time.time(), os.times()
    p = subprocess.run(command, env=dict(os.environ, **(env or {})), capture_output=True, text=True, cwd=folder)
    now = os.times()
    own = now.children_user + now.children_system - own.children_user - own.children_system
    if p.returncode:
        raise RuntimeError(f"{os.path.basename(command[0])}: exit code {p.returncode}: {p.stderr.strip()[-600:]}")
    return p.stdout, round(max(0.0, (busy() - before - own) / (time.time() - at)), 3)


@functools.lru_cache(maxsize=None)
def python_with(*modules):
    """The first of the peers' pythons that has all of these; None where none has."""
    for python in (TORCH, *PYTHONS):
        if python and os.path.exists(python) and subprocess.run([python, "-c", "import " + ", ".join(modules)], capture_output=True,
                                                                env=dict(os.environ, DS_ACCELERATOR="cpu")).returncode == 0:
            return python


def tool(name, *arguments, **env):
    return execute([os.path.join(BIN, name), *map(str, arguments)], env)


def trace_events(path):
    """Of a run's trace.json: what each queue did when -> [{"queue", "name", "step", "begin", "seconds"}]."""
    trace = json.load(open(path))
    events = trace["traceEvents"] if isinstance(trace, dict) else trace
    queues = {e["tid"]: e["args"]["name"] for e in events if e.get("name") == "thread_name"}
    return [{"queue": queues[e["tid"]], "name": e["name"], "step": e["args"]["step"], "begin": e["ts"] / 1e6, "seconds": e["dur"] / 1e6}
            for e in events if e.get("ph") == "X"]


def graph(preset, *more):
    path = os.path.join(folder, preset + ".onnx")
    if not os.path.exists(path):
        execute([sys.executable, os.path.join(ROOT, "test/support/make_gpt.py"), path, "--preset", preset, *more])
    return path


def plan(preset, name, *flags, seed=0, rows=4):
    """Compiles once; -> the plan's path. The inputs lie beside it as PRESET.safetensors: of G124M one batch, which is trained again and again."""
    inputs = os.path.join(folder, preset + ".safetensors")
    more = [] if seed is None else ["--seed", str(seed), "--inputs", inputs, "--rows", str(rows)]
    path = os.path.join(folder, f"{preset}-{name}.plan")
    if not os.path.exists(path):
        tool("zero-compile", graph(preset, *more), "-o", path, *flags)
    return path


MPIRUN = ["mpirun", "--bind-to", "none", "--oversubscribe", "-np"]


def steps(path, preset, ranks, threads, count=WARM_UP + TIMED, mpi=False):
    """Runs the plan, with ranks as threads or as processes -> (seconds of the timed steps, all losses, foreign cores)."""
    out = os.path.join(folder, "run")
    start = [*MPIRUN, str(ranks), os.path.join(BIN, "zero-run")] if mpi else [os.path.join(BIN, "zero-run"), "-n", str(ranks)]
    _, foreign = execute([*start, path, "--threads", str(threads), "--data", os.path.join(folder, preset + ".safetensors"),
                          "--steps", str(count), "--quiet", "--overwrite", "--out", out],
                         {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"})
    rows = [json.loads(line) for line in open(os.path.join(out, "metrics.jsonl"))][-count:]
    return [r["step_seconds"] for r in rows[WARM_UP:]], [r["loss"] for r in rows], foreign


def peer(preset, script, *arguments, threads=1, python=None):
    """One of the peers' scripts, with the weights and the data of our plan of the preset -> function giving (seconds, losses, foreign cores)."""
    python = python or TORCH

    def run():
        start = os.path.join(folder, preset)
        out, foreign = execute([python, os.path.join(PEERS, script), *map(str, arguments)],
                               {"PYTHONPATH": PEERS, "OMP_NUM_THREADS": str(threads), "DS_ACCELERATOR": "cpu", "GPT_WEIGHTS": start + ".onnx",
                                "GPT_DATA": start + ".safetensors", "PATH": os.path.dirname(python) + ":" + os.environ["PATH"]})
        row = json.loads([line for line in out.splitlines() if line.startswith("{")][-1])
        return [row["step_ms"] / 1e3], row["losses"], foreign
    return run


def same_losses(losses, ours, allowed):
    """The largest relative difference of our losses from a peer's of the same step; raises where one is too large: what computes something
    else has no figure."""
    differences = {n: max(models.apart(losses[ours], other)) for n, other in losses.items() if n != ours}
    for name, difference in differences.items():
        if not difference <= allowed:
            raise RuntimeError(f"losses {losses[ours]}, {name} has {losses[name]}: a relative difference of {allowed} is allowed")
    return float(f"{max(differences.values()):.1e}") if differences else None


def compete(contenders, at_least=1, losses=None):
    """name -> function; -> name -> (median seconds, foreign cores). `losses`: name -> what the last run of each says of them."""
    seconds, foreign, names = {n: [] for n in contenders}, {n: 0.0 for n in contenders}, list(contenders)
    for _ in range(max(at_least, rounds)):
        for name in names:
            taken, of_steps, others = contenders[name]()
            seconds[name] += taken
            if losses is not None:
                losses[name] = of_steps
            foreign[name] = max(foreign[name], others)
        names.reverse()
    return {n: (statistics.median(v), foreign[n]) for n, v in seconds.items()}


def limits_with(threads):
    """-> name -> value, of now."""
    out, foreign = execute([os.path.join(BIN, "bench_limits"), str(threads)])
    rows = [json.loads(line) for line in out.splitlines()]
    for row in rows:
        emit(row["bench"], row["value"], row["unit"], threads=threads, foreign_cores=foreign)
    return {row["bench"]: row["value"] for row in rows}


def limits():
    for threads in sorted({1, min(2, len(os.sched_getaffinity(0)))}):
        limits_with(threads)


def matrix_floor(kind):
    """Seconds of G124M's matrix products on two threads at the rate that the best library has now."""
    rates = limits_with(2)
    return round(flops_of_step() / max(rates.get(f"gemm_{kind}_{library}", 0) for library in ("openblas", "onednn")) / 1e9, 3)


def report_race(bench, race, ours, limit, **more):
    value, foreign = race[ours]
    others = {n: round(v[0], 4) for n, v in race.items() if n != ours}
    ratio = round(value / min(others.values()), 3) if others else None
    emit(bench, round(value, 4), "s", limit, ratio, peers=others, foreign_cores=foreign, **more)


PLAIN = ("--lr", "1e-4")  # as the peers
ROUNDED_PARAMETERS = "torch-bf16"  # updates are rounded: its losses are its own


def step_time(bench, precision, variants):
    """One rank, two threads, B=4: variants are (name, mode, dtype) of the peers' gpt.py. The limit is the matrix products'."""
    path, losses = plan("g124m", precision + "-w1", "--precision", precision, *PLAIN), {}
    contenders = {"zero-run": lambda: steps(path, "g124m", 1, 2)}
    if TORCH:
        contenders.update({name: peer("g124m", "gpt.py", "g124m", mode, 2, 4, dtype, threads=2) for name, mode, dtype in variants})
    race = compete(contenders, losses=losses)
    losses.pop(ROUNDED_PARAMETERS, None)
    difference = same_losses(losses, "zero-run", models.SAME_LOSS[precision])
    report_race(bench, race, "zero-run", matrix_floor(precision), loss_difference=difference, must=models.must("gpt2-124m", precision))


def c1():
    step_time("C1", "fp32", [("torch-eager", "eager", "fp32"), ("torch-compile", "compile", "fp32")])


def c1b():
    step_time("C1b", "bf16", [("torch-autocast", "eager", "amp"), ("torch-autocast-compile", "compile", "amp"), (ROUNDED_PARAMETERS, "eager", "bf16")])


def two_ranks(stage, mpi=False, on_host=False):
    flags = ("--offload-optimizer", "host", "--offload-param", "host") if on_host else ()
    path = plan("g124m-b2", f"w2-z{stage}" + "-host" * on_host, "--world-size", 2, "--zero-stage", stage, *PLAIN, *flags)
    return lambda: steps(path, "g124m-b2", 2, 1, mpi=mpi)


def c2():
    contenders, losses = {"zero-3": two_ranks(3)}, {}
    if TORCH:
        contenders.update({n: peer("g124m-b2", "fsdp.py", "g124m", n, 2, 2) for n in ("ddp", "fsdp2")})
    if deepspeed := python_with("torch", "deepspeed"):
        contenders["deepspeed-zero-3"] = peer("g124m-b2", "dszero.py", "g124m", 3, "none", 2, 2, python=deepspeed)
    else:
        print("bench: no python with DeepSpeed (peers/setup.sh makes one): its ZeRO-3 is not measured", file=sys.stderr)
    race = compete(contenders, losses=losses)
    difference = same_losses(losses, "zero-3", models.SAME_LOSS["fp32"])
    value, foreign = race.pop("zero-3")
    emit("C2", round(value, 4), "s", matrix_floor("fp32"), None, peers={n: round(v[0], 4) for n, v in race.items()},
         ratios={n: round(value / v[0], 3) for n, v in race.items()}, musts={"ddp": 0.8, "fsdp2": 0.55, "deepspeed-zero-3": 0.45},
         loss_difference=difference, foreign_cores=foreign)


def c3():
    race = compete({"zero-3": two_ranks(3), "zero-0": two_ranks(0)})
    report_race("C3", race, "zero-3", 1.04)


def host():
    """All model state on the host over all of it resident, at ZeRO-3 on two ranks."""
    race = compete({"host": two_ranks(3, on_host=True), "resident": two_ranks(3)})
    report_race("host", race, "host", 1.1)


def tensor_parallel():
    """Two ranks that share four samples over two that have two samples each, at ZeRO-3."""
    shared = plan("g124m", "t2", "--world-size", 2, "--tensor-parallel", 2)
    race = compete({"model-2": lambda: steps(shared, "g124m", 2, 1), "zero-3": two_ranks(3)})
    report_race("tensor-parallel", race, "model-2", 1.15)


def mpi():
    """Two ranks of one host as processes over the same as threads, per stage."""
    for stage in (0, 3):
        race = compete({"mpi": two_ranks(stage, mpi=True), "inproc": two_ranks(stage)})
        report_race(f"mpi stage {stage}", race, "mpi", 1.15)


def c4():
    """Model-state bytes against the papers' formulas: fp32 4+4+8, bf16 2+2+12 bytes a parameter, cut by stage. Two micro-steps: with one
    no gradient lasts until all are there."""
    path = graph("g124m", "--seed", "0", "--inputs", os.path.join(folder, "g124m.safetensors"), "--rows", "4")
    world = 4
    for precision, (p, g, o) in (("fp32", (4, 4, 8)), ("bf16", (2, 2, 12))):
        for stage in range(4):
            out, _ = tool("zero-compile", path, "--world-size", world, "--zero-stage", stage, "--precision", precision,
                          "--grad-accumulation", 2, "--dry-run", "--json")
            report = json.loads(out)
            cut = [1 / world if stage >= s else 1 for s in (3, 2, 1)]
            want = report["parameters"] * (p * cut[0] + g * cut[1] + o * cut[2])
            tiers = report["tiers"].values()
            have = sum(sum(t["model_state_bytes"].values()) for t in tiers)
            padding = sum(t["padding"] for t in tiers)
            emit(f"C4 {precision} stage {stage}", have, "bytes", round(want), round(have / want, 6), padding=padding)


def c12():
    path, out = graph("1t"), os.path.join(folder, "1t.plan")
    seconds = []
    for _ in range(5):
        at = time.time()
        tool_pid = os.fork()
        if tool_pid == 0:  # a process of its own, so that its peak is not mixed with earlier children's
            try:
                null = os.open(os.devnull, os.O_WRONLY)
                os.dup2(null, 1)
                exe = os.path.join(BIN, "zero-compile")
                os.execv(exe, [exe, path, "-o", out, "--world-size", "512", "--zero-stage", "3", "--precision", "bf16"])
            finally:
                os._exit(127)
        _, status, usage = os.wait4(tool_pid, 0)
        if status:
            raise RuntimeError(f"zero-compile: exit code {os.waitstatus_to_exitcode(status)}")
        seconds.append(time.time() - at)
    value = round(statistics.median(seconds), 3)
    megabytes, of_plan = round(usage.ru_maxrss * 1024 / 1e6), round(os.path.getsize(out) / 1e6, 2)
    for name, have, unit, most in (("seconds", value, "s", scale.MOST_SECONDS), ("memory", megabytes, "MB", scale.MOST_MB),
                                   ("plan", of_plan, "MB", scale.MOST_PLAN_MB)):
        emit("C12 " + name, have, unit, most, round(have / most, 3))


def c13():
    """Dispatch: a step of a graph whose kernels do almost nothing, over its plan steps (an upper bound of the cost of one).
    Allocations: calls of malloc and its kin, of all threads, during 400 steps."""
    onnx, inputs = os.path.join(folder, "tiny.onnx"), os.path.join(folder, "tiny.safetensors")
    execute([sys.executable, os.path.join(ROOT, "test/support/make_gpt.py"), onnx, "--layers", "4", "--hidden", "8", "--heads", "1",
             "--vocab", "16", "--seq", "2", "--batch", "1", "--seed", "0", "--inputs", inputs])
    path = os.path.join(folder, "tiny-w1.plan")
    tool("zero-compile", onnx, "-o", path)
    report = json.loads(tool("zero-compile", onnx, "--dry-run", "--json")[0])
    seconds, _, foreign = steps(path, "tiny", 1, 1, 500)
    value = round(statistics.median(seconds) / report["plan_steps"] * 1e9)
    emit("C13 dispatch", value, "ns", 500, round(value / 500, 3), plan_steps=report["plan_steps"], foreign_cores=foreign)
    counter = glob.glob(os.path.join(BUILD, "**", "libcount_malloc.so"), recursive=True)[0]
    out, _ = tool("zero-run", path, "-n", 1, "--threads", 1, "--data", inputs, "--steps", 402, "--quiet", "--out", os.path.join(folder, "malloc"),
                  LD_PRELOAD=counter)
    value = json.loads(out.splitlines()[-1])["steady_allocations"] / 400
    emit("C13 allocations", value, "per step", 0, None)


def fio(kind, path):
    """GB/s of fio at the NVMe tier's block (1 MiB), depth (16) and bytes (512 MiB, which bench-io moves four times
    as well, the last three counted: whatever lies below the disk is warm for both)."""
    out, _ = execute(["fio", "--name=peer", "--filename=" + path, "--rw=" + kind, "--size=512m", "--loops=4", "--bs=1m", "--iodepth=16",
                      "--ioengine=io_uring", "--direct=1", "--fixedbufs=1", "--registerfiles=1", "--overwrite=1",
                      "--output-format=json"])
    return json.loads(out)["jobs"][0][kind]["bw_bytes"] / 1e9


def nvme():
    """C9: the NVMe tier, checksums included, beside fio on the same disk, alternating."""
    ours, theirs = {"read": [], "write": []}, {"read": [], "write": []}
    peer_file, foreign = os.path.join(folder, "fio"), 0.0
    for _ in range(max(5, rounds)):
        out, others = tool("zero-run", "bench-io", folder)
        foreign = max(foreign, others)
        for kind in ours:
            ours[kind].append(json.loads(out)[f"nvme_{kind}_bandwidth"] / 1e9)
            if shutil.which("fio"):
                theirs[kind].append(fio(kind, peer_file))
    for kind, values in ours.items():
        value = round(statistics.median(values), 3)
        peers = {"fio": round(statistics.median(theirs[kind]), 3)} if theirs[kind] else {}
        ratio = round(value / peers["fio"], 3) if peers else None
        emit("C9 nvme " + kind, value, "GB/s", 0.9, ratio, peers=peers, foreign_cores=foreign)
    tiers.nvme_step(sys.modules[__name__])


ZEROPP = ("--quantize-weights", "int8", "--hierarchical", "--quantize-gradients", "int4")


def zeropp():
    """ZeRO++: kernels, bytes, and steps over a slow link."""
    zeropp_kernels()
    zeropp_bytes()
    zeropp_link()


def zeropp_kernels():
    """Kernels of quantized pieces beside the triad, alternating in one process: bytes that must move over the time."""
    for threads in sorted({1, min(2, len(os.sched_getaffinity(0)))}):
        out, foreign = execute([os.path.join(BIN, "bench_quantize"), str(threads)])
        for row in map(json.loads, out.splitlines()):
            emit("zeropp " + row["bench"], row["value"], "GB/s", 0.8, row["ratio"], threads=threads, cached=row["cached"],
                 peers={"triad": row["triad"]}, foreign_cores=foreign)


def zeropp_bytes():
    """What is sent between nodes of one rank each, of 16-bit plain ZeRO-3's 3M."""
    onnx = os.path.join(folder, "zeropp.onnx")
    execute([sys.executable, os.path.join(ROOT, "test/support/make_gpt.py"), onnx, "--preset", "g124m"])
    sent = [json.loads(tool("zero-compile", onnx, "--world-size", 4, "--ranks-per-node", 1, "--zero-stage", 3, "--precision", "bf16", *flags,
                            "--dry-run", "--json")[0])["traffic"]["inter_node"]
            for flags in ((), ZEROPP)]
    emit("zeropp between nodes", round(3 * sent[1] / sent[0], 4), "M", 0.7725, round(3 * sent[1] / sent[0] / 0.7725, 3))


def zeropp_link(rate="400mbit"):
    """Steps of a GPT of 25M parameters on two hosts of two ranks over a link of 400 Mbit/s, beside plain ZeRO-3's. Needs what
    test/cluster needs."""
    sys.path.insert(0, os.path.join(ROOT, "test/cluster"))
    from hosts import Hosts, NotAllowed
    onnx, inputs = os.path.join(folder, "g25m.onnx"), os.path.join(folder, "g25m.safetensors")
    execute([sys.executable, os.path.join(ROOT, "test/support/make_gpt.py"), onnx, "--layers", "6", "--hidden", "512", "--heads", "8",
             "--vocab", "12288", "--seq", "64", "--batch", "1", "--seed", "0", "--inputs", inputs, "--rows", "16"])
    try:
        cluster = Hosts(2, rate)
    except NotAllowed as why:
        return print(f"bench: no hosts can be made here, steps over a link are not measured: {why}", file=sys.stderr)

    def contender(name, *flags):
        path, out = os.path.join(folder, f"g25m-{name}.plan"), os.path.join(folder, "run-link")
        tool("zero-compile", onnx, "-o", path, "--world-size", 4, "--ranks-per-node", 2, "--zero-stage", 3, *flags)

        def run():
            command = [os.path.join(BIN, "zero-run"), path, "--threads", "1", "--data", inputs, "--steps", "4", "--quiet", "--overwrite", "--out", out]
            _, foreign = execute(cluster.mpirun(2, 2, command), cluster.environment(ZERO_FAULT=""))
            rows = [json.loads(line) for line in open(os.path.join(out, "metrics.jsonl"))][-4:]
            return [r["step_seconds"] for r in rows[1:]], rows[-1]["loss"], foreign
        return run

    with cluster:
        race = compete({"plain": contender("plain"), "hierarchical collectives": contender("hc", "--hierarchical-collectives"),
                        "hpz+qwz": contender("hpqw", *ZEROPP[:3]), "zero++": contender("all", *ZEROPP)})
    plain = race["plain"][0]
    for name, limit in (("hierarchical collectives", None), ("hpz+qwz", 0.6), ("zero++", 0.45)):
        value, foreign = race[name]
        emit(f"zeropp step, {name}, {rate}", round(value, 3), "s", limit, round(value / plain, 3), peers={"zero-3": round(plain, 3)},
             foreign_cores=foreign)


BENCHES = {"limits": limits, "C1": c1, "C1b": c1b, "C2": c2, "C3": c3, "host": host, "tensor-parallel": tensor_parallel, "mpi": mpi,
           "zeropp": zeropp, "C4": c4, "C12": c12, "C13": c13, "nvme": nvme}
BENCHES.update((name, functools.partial(function, sys.modules[__name__])) for name, function in {
    "kernels": kernels.kernels, "collectives": collectives.collectives, "memory": memory.memory, "adam": optimizer.adam, "tiling": tiers.tiling,
    "overlap": tiers.overlap, "scale": scale.scale, "checkpoints": checkpoints.checkpoints, "tokens": product.tokens,
    "validation": product.validation, "models": models.models, "products": models.products}.items())



def table():
    rows = [("bench", "value", "unit", "limit", "ratio", "peers")]
    show = lambda v: "-" if v is None else str(v)
    for r in results:
        peers = ", ".join(f"{n} {v}" for n, v in r.get("peers", {}).items())
        name = r["bench"] + (f" x{r['threads']}" if "threads" in r else "")
        rows.append((name, show(r["value"]), r["unit"], show(r["limit"]), show(r["ratio"]), peers or "-"))
    widths = [max(len(row[i]) for row in rows) for i in range(6)]
    for row in rows:
        print("  ".join(cell.ljust(w) for cell, w in zip(row, widths)).rstrip(), file=sys.stderr)


def main():
    global folder, rounds, options
    a = argparse.ArgumentParser(usage="test/bench/run.sh [NAME...] [--rounds N] [--models M,M] [--precisions P,P]")
    a.add_argument("names", nargs="*", metavar="NAME", help=" ".join(BENCHES))
    a.add_argument("--rounds", type=int, default=1, help="5 steps are timed in each")
    a.add_argument("--dir", help="where models and plans go, about 1 GB (default: the temporary folder)")
    some = lambda known: lambda text: [n if n in known else a.error(f"no {n}; there are: {' '.join(known)}") for n in text.split(",")]
    a.add_argument("--models", type=some(models.MODELS), default=models.MODELS, metavar="M,M", help="of `models`: " + " ".join(models.MODELS))
    a.add_argument("--precisions", type=some(models.PRECISIONS), default=models.PRECISIONS, metavar="P,P", help="of `models`: fp32 bf16")
    options = a.parse_args()
    unknown = [n for n in options.names if n not in BENCHES]
    if unknown:
        sys.exit(f"bench: no benchmark {', '.join(unknown)}; there are: {' '.join(BENCHES)}")
    rounds = options.rounds
    if not TORCH:
        print("bench: no python in ZC_TORCH_PYTHON, PEERS_HOME or build/torch: peers are not measured", file=sys.stderr)
    if os.sched_getscheduler(0) in (os.SCHED_RR, os.SCHED_FIFO):
        print("bench: threads of one real-time priority wait until another's slice (100 ms) is over: what queues do beside each other "
              "(C3, host, overlap, nvme) is measured without it, by nice -n -18", file=sys.stderr)
    failed = False
    with tempfile.TemporaryDirectory(prefix="zc-bench", dir=options.dir) as folder:
        for name in options.names or BENCHES:
            try:
                BENCHES[name]()
            except Exception as e:
                failed = True
                print(json.dumps({"bench": name, "failed": f"{type(e).__name__}: {e}"}), flush=True)
    table()
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
