#!/usr/bin/env python3
"""The report against arithmetic: model state against the formulas of ZeRO (arXiv 1910.02054, section 5), traffic against its
2M, 2M, 2M, 3M, the planned peak against the arena that ran and against budgets, padding, and what the largest models take."""
import itertools, json, os, pathlib, re, resource, subprocess, sys

SUPPORT = pathlib.Path(__file__).resolve().parents[1] / "support"
sys.path.insert(0, str(SUPPORT))
from e2e import Case, Suite

# Bytes per element of parameters, gradients, optimizer state: fp32 Adam has two moments, bf16 fp32 master weights as well.
WIDE = "bf16 --grad-accum-dtype fp32"
WIDTHS = {"fp32": (4, 4, 8), "bf16": (2, 2, 12), WIDE: (2, 4, 12)}
PARTS = ("parameters", "gradients", "optimizer")
STEPS, SMALL = 3, ("--layers", 3, "--hidden", 48, "--heads", 4, "--vocab", 101, "--seq", 16, "--batch", 2)

suite = Suite(__doc__)


def make_gpt(name, *flags):
    """-> (path, elements of its parameters)"""
    path = suite.dir / f"{name}.onnx"
    done = subprocess.run([sys.executable, SUPPORT / "make_gpt.py", path, *map(str, flags)], capture_output=True, text=True, check=True)
    return path, json.loads(done.stdout)["parameters"]


INPUTS = suite.dir / "inputs.safetensors"
MODELS = {"small": make_gpt("small", *SMALL, "--seed", 1, "--inputs", INPUTS, "--rows", 64),
          **{preset: make_gpt(preset, "--preset", preset) for preset in ("g124m", "7.5b", "1t")}}


def expect(what, got, wanted):
    if got != wanted:
        raise Case(f"{what}: {got} instead of {wanted}")


def report(model, world, stage, precision, *flags):
    return suite.once((model, world, stage, precision, *flags), lambda: json.loads(suite.tool(
        "zero-compile", MODELS[model][0], "--world-size", world, "--zero-stage", stage, "--precision", *precision.split(), "--dry-run", "--json", *flags)))


def cut(stage, part):
    """Is this part of the model state partitioned at this stage?"""
    return stage >= 3 - PARTS.index(part)


LASTING = ("--grad-accumulation", 2)  # gradients then outlive a micro-step, and are the formulas'


def state_formulas(model, precision, world, stage):
    got, elements = report(model, world, stage, precision, *LASTING), MODELS[model][1]
    expect("parameters", got["parameters"], elements)
    device = got["tiers"]["device"]
    state, slack = device["model_state_bytes"], 0
    # In W-ths of bytes: one division, at the end.
    exact = {p: elements * w * (1 if cut(stage, p) else world) for p, w in zip(PARTS, WIDTHS[precision])}
    expect("model state without padding", sum(state.values()) - device["padding"], sum(exact.values()) // world)
    for part in PARTS:
        if not 0 <= state[part] - exact[part] / world <= device["padding"] + 1:
            raise Case(f"{part}: {state[part]} bytes for {exact[part] / world}")
    once = report(model, world, stage, precision)["tiers"]["device"]  # of one micro-step: those that there are at the peak
    for part in PARTS:
        if once["model_state_bytes"][part] != state[part] and (part != "gradients" or once["model_state_bytes"][part] > state[part]):
            raise Case(f"{part} of one micro-step: {once['model_state_bytes'][part]} bytes, of two {state[part]}")
    for tier in (device, once):
        expect("sum of the parts", sum(tier["model_state_bytes"].values()) + tier["activations"] + tier["buffers"], tier["peak_bytes"])
    if model == "g124m" and device["padding"] > sum(state.values()) / 1000:
        raise Case(f"padding of {device['padding']} bytes")
    return f"{sum(state.values())} bytes, padding {device['padding']}"


def traffic(model, world, stage, precision):
    got = report(model, world, stage, precision)["traffic"]
    # Uncut, the parameters are all there, with their padding: the M of the papers.
    m = report(model, world, 0, precision)["tiers"]["device"]["model_state_bytes"]["parameters"]
    total = got["gather"] + got["reduce_scatter"] + got["all_reduce"]
    expect("traffic", total, 0 if world == 1 else 3 * m if stage == 3 else 2 * m)
    # A rank sends its part to each of the others.
    expect("sent", (got["intra_node"] + got["inter_node"]) * world, total * (world - 1))


def run_agrees(world, stage, accumulation):
    """What zero-run counts is what the report says, and its arena is the planned one."""
    flags = ("--bucket-size", "16KiB", "--grad-accumulation", accumulation)
    planned = report("small", world, stage, "fp32", *flags)
    name = f"run-{world}-{stage}-{accumulation}"
    plan = suite.compile(MODELS["small"][0], suite.dir / f"{name}.plan", "--world-size", world, "--zero-stage", stage, *flags)
    last = suite.tool("zero-run", plan, "-n", world, "--threads", 1, "--data", INPUTS, "--steps", STEPS, "--quiet", "--out",
                      suite.dir / name).splitlines()[-1]
    final = json.loads(last)
    for counter, moved in final["traffic"].items():
        expect(counter, moved, planned["traffic"][counter] * STEPS)
    peak, page = planned["tiers"]["device"]["peak_bytes"], resource.getpagesize()
    expect("planned peak", final["peak_bytes"]["device"]["planned"], peak)
    measured = final["peak_bytes"]["device"]["measured"]
    # A step's workspace is an allowance, of which a machine's kernels may need less: at most the largest is never touched.
    text = suite.tool("zero-translate", "--plan-to-mlir", plan)
    largest = max(map(int, re.findall(r"workspace = #plan\.operand<[^>]*tensor<(\d+)xui8>", text)), default=0)
    if stage == 1 and accumulation > 1 and world > 1:
        # Whole gradients are reserved, as the formula says, but micro-steps add to this rank's shard only.
        others = planned["tiers"]["device"]["model_state_bytes"]["gradients"] * (world - 1) / world
        if not peak - others - largest - page <= measured <= peak:
            raise Case(f"measured peak: {measured} instead of {peak - others - largest} to {peak}")
    else:
        whole = -(-peak // page) * page
        if not whole - largest - page <= measured <= whole:
            raise Case(f"measured peak: {measured} instead of {whole}, of which the largest workspace is {largest}")
    expect("steady allocations", final["steady_allocations"], 0)


def nodes(ranks_per_node):
    got = report("small", 4, 3, "fp32", "--ranks-per-node", ranks_per_node)["traffic"]
    expect("inter : intra", got["inter_node"] * (ranks_per_node - 1), got["intra_node"] * (4 - ranks_per_node))
    if not got["inter_node"]:
        raise Case("nothing is sent between nodes")


def budget(stage):
    peak = report("small", 2, stage, "fp32")["tiers"]["device"]["peak_bytes"]
    flags = (MODELS["small"][0], "--world-size", 2, "--zero-stage", stage, "-o")
    plan, none = suite.dir / f"fits-{stage}.plan", suite.dir / f"small-{stage}.plan"
    suite.tool("zero-compile", *flags, plan, "--device-mem", peak)
    suite.tool("zero-compile", *flags, none, "--device-mem", peak - 1, code=5)
    if none.exists():
        raise Case("a plan was left behind")


def near_live_bytes(model, world, stage):
    """The planned peak against the most bytes that live at once, which no plan is below."""
    ir = suite.tool("zero-compile", MODELS[model][0], "--world-size", world, "--zero-stage", stage, "--compile-to", "schedule")
    live = max(map(int, re.findall(r"plan.live_bytes = (\d+)", ir)))
    peak = int(re.search(r"plan.arena @device tier = +device bytes = (\d+)", ir).group(1))
    if not live <= peak <= 1.07 * live:
        raise Case(f"a peak of {peak} bytes for {live} live ones")
    return f"{peak / live:.4f}"


def papers(stage, gigabytes):
    state = report("7.5b", 64, stage, "bf16", *LASTING)["tiers"]["device"]["model_state_bytes"]
    got = sum(state.values()) / 1e9
    if abs(got - gigabytes) > 0.006 * gigabytes:
        raise Case(f"{got} GB instead of {gigabytes}")
    return f"{got:.3f} GB"


def trillion():
    """10 CPU s and 500 MB: limits of this project."""
    plan = suite.dir / "1t.plan"
    child = subprocess.Popen([suite.bin / "zero-compile", MODELS["1t"][0], "--world-size", "512", "--zero-stage", "3",
                              "--precision", "bf16", "-o", plan])
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    seconds, megabytes = usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024 / 1e6
    expect("exit code", child.returncode, 0)
    if seconds > 10 or megabytes > 500 or not plan.stat().st_size:
        raise Case(f"{seconds:.1f} s, {megabytes:.0f} MB, plan of {plan.stat().st_size} bytes")
    return f"{seconds:.1f} s, {megabytes:.0f} MB"


WORLDS = {"small": (1, 2, 3, 7, 64), "g124m": (1, 2, 3, 8, 48)}
cases = [(f"state {model} {precision} W={w} stage {stage}", lambda a=(model, precision, w, stage): state_formulas(*a))
         for model, precision, w, stage in suite.draw(((m, p, w, s) for m in WORLDS for p in WIDTHS for w in WORLDS[m] for s in range(4)), 40)]
cases += [(f"traffic {model} {precision} W={w} stage {stage}", lambda a=(model, w, stage, precision): traffic(*a))
          for model, precision, w, stage in suite.draw(itertools.product(WORLDS, ("fp32", "bf16"), (1, 2, 3, 8), range(4)), 20)]
cases += [(f"run W={w} stage {s} G={g}", lambda a=(w, s, g): run_agrees(*a)) for s in range(4) for w, g in ((1, 1), (2, 2), (3, 1))]
cases += [(f"nodes of {n}", lambda n=n: nodes(n)) for n in (1, 2)]
cases += [(f"budget stage {s}", lambda s=s: budget(s)) for s in (0, 3)]
cases += [(f"live bytes {m} W={w} stage {s}", lambda a=(m, w, s): near_live_bytes(*a))
          for m, w, s in suite.draw([(m, w, s) for m in ("small", "g124m", "7.5b") for w, s in ((1, 0), (2, 1), (2, 2), (2, 3))], 5)]
cases += [(f"7.5B stage {s}", lambda a=(s, gb): papers(*a)) for s, gb in ((1, 31.4), (2, 16.6), (3, 1.88))]
suite.run(cases)
suite.run([("1T", trillion)])  # alone: it is timed
suite.finish()
