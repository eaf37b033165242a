#!/usr/bin/env python3
"""Recomputation changes memory, not results: with --checkpoint-activations block and selective, with and without a budget,
losses, norms and weights are those of the plan that keeps everything, and a deeper model's activations shrink. Running statistics that
the loss depends on are for backward what they were for forward."""
import json, pathlib, random, subprocess, sys

support = pathlib.Path(__file__).resolve().parents[1] / "support"
sys.path.insert(0, str(support))
from e2e import Case, Suite, same, write_safetensors
from onnx_write import FLOAT, Graph, value_info

suite = Suite(__doc__)


def flags_of(world, stage, policy):
    return ["--world-size", world, "--zero-stage", stage, "--bucket-size", "4KiB", "--clip-grad-norm", "0.1",
            "--checkpoint-activations", policy]


def report(path, *flags):
    got = json.loads(suite.tool("zero-compile", path, *flags, "--dry-run", "--json"))
    return got["tiers"]["device"], got["flops"]


def result(model, export, world, stage, policy, *more):
    folder, name = suite.models / model, f"{model}-{export}-{world}-{stage}-{policy}{len(more)}"
    plan = suite.compile(folder / f"{export}.onnx", suite.dir / f"{name}.plan", *flags_of(world, stage, policy), *more)
    metrics = suite.train(plan, suite.dir / name, "-n", world, "--data", folder / "inputs.safetensors", "--steps", 4)
    weights = (suite.dir / name / "final" / "weights.safetensors").read_bytes()
    return [m["loss"] for m in metrics], [m["grad_norm"] for m in metrics], weights


def identical(model, export, world, stage):
    kept = result(model, export, world, stage, "none")
    path = suite.models / model / f"{export}.onnx"
    (most, _), (least, _) = (report(path, *flags_of(world, stage, policy)) for policy in ("none", "selective"))
    between = ("--device-mem", (most["peak_bytes"] + least["peak_bytes"]) // 2, "--residency", "none")
    for policy in (["block"], ["selective"], ["selective", *between]):
        for name, a, b in zip(("loss", "grad_norm", "weights"), result(model, export, world, stage, *policy), kept):
            same(f"{' '.join(map(str, policy))}: {name}", a, b)


def deep(layers):
    path = suite.dir / f"deep{layers}.onnx"
    subprocess.run([sys.executable, support / "make_gpt.py", path, "--layers", str(layers), "--hidden", "64", "--vocab",
                    "64", "--seq", "64", "--batch", "4"], check=True, stdout=subprocess.DEVNULL)
    return path


def smaller(layers):
    path = deep(layers)
    policies = ("none", "selective", "block")
    size = {policy: report(path, "--checkpoint-activations", policy) for policy in policies}
    activations = {policy: size[policy][0]["activations"] for policy in policies}
    flops = [size[policy][1] for policy in policies]
    # One stream tensor per block is kept of about a dozen and more; selectively, also what large products made.
    if not activations["block"] * 3 < activations["none"] or not activations["selective"] * 2 < activations["none"]:
        raise Case(f"activations {activations}")
    if not flops[0] < flops[1] < flops[2]:
        raise Case(f"flops {flops}")
    return f"{activations['none'] / activations['block']:.1f} and {activations['none'] / activations['selective']:.1f} times less"


def least(layers):
    """With a budget as little is recomputed as fits: nothing where all fits, more for each smaller budget."""
    path = deep(layers)
    flags = ("--checkpoint-activations", "selective")
    (most, plain), (fewest, _) = report(path), report(path, *flags)
    before = plain
    for share in (0, 0.25, 0.5, 0.9):
        budget = int(most["peak_bytes"] - share * (most["peak_bytes"] - fewest["peak_bytes"]))
        tier, flops = report(path, *flags, "--device-mem", budget)
        if tier["peak_bytes"] > budget or (flops != plain if share == 0 else flops <= before):
            raise Case(f"budget {budget}: peak {tier['peak_bytes']}, {flops} flops after {before}")
        before = flops


ROWS, WIDTH = 6, 8


def network(name, of_stored):
    """Blocks that compute with the running statistics of their norm: those that are stored, or `of_stored` false, others as large, and
    those that follow the batch."""
    graph = Graph(name)
    graph.inputs, x = [value_info("x", FLOAT, [ROWS, WIDTH])], "x"
    for i in range(4):
        own = [graph.parameter(f"{what}.{i}", [WIDTH], std) for what, std in (("scale", None), ("bias", 0), ("mean", 0), ("variance", None))]
        stored = own[3] if of_stored else graph.parameter(f"other.{i}", [WIDTH], None)
        h = graph.op("MatMul", [x, graph.parameter(f"w.{i}", [WIDTH, WIDTH], 0.1)])
        gate = graph.op("Mul", [graph.op("Tanh", [h]), stored])
        y, mean, _ = graph.op("BatchNormalization", [h, *own], count=3, training_mode=1)
        x = graph.op("Add", [x, graph.op("Add", [gate, graph.op("Mul", [graph.op("Sub", [h, mean]), y])])])
    graph.op("ReduceMean", [graph.op("Mul", [x, x])], outputs=["loss"], keepdims=0)
    graph.outputs = [value_info("loss", FLOAT, [])]
    path = suite.dir / f"{name}.onnx"
    graph.write(str(path), seed=1)
    return path


def statistics():
    """The first step is that of a model with numbers of its own in the place of what is stored; recomputed, all steps are what they are."""
    draw, data = random.Random(2), suite.dir / "rows.safetensors"
    write_safetensors(data, {"x": ("F32", [ROWS * 4, WIDTH], [draw.gauss(0, 1) for _ in range(ROWS * 4 * WIDTH)])})

    def bits(of_stored, policy, steps):
        name = f"{'stored' if of_stored else 'other'}-{policy}-{steps}"
        plan = suite.compile(network(name, of_stored), suite.dir / f"{name}.plan", "--trainable", "w.*", "--optimizer", "sgd", "--lr", 0.01,
                             "--clip-grad-norm", 1e30, "--checkpoint-activations", policy)
        metrics = suite.train(plan, suite.dir / name, "--threads", 1, "--data", data, "--steps", steps)
        return [(m["loss"], m["grad_norm"]) for m in metrics]

    same("the first step", bits(True, "none", 1), bits(False, "none", 1))
    kept = bits(True, "none", 4)
    for policy in ("block", "selective"):
        same(policy, bits(True, policy, 4), kept)


exports = [("mlp", "ts17"), ("gpt2", "ts17"), ("gpt2", "dynamo23_sdpa"), ("llama", "ts17"), ("llama", "dynamo23opt_sdpa"),
           ("gpt2", "ts17_dropout"), ("resnet", "ts17")]
suite.run([(f"{m}/{e} W={w} stage {s}", lambda m=m, e=e, w=w, s=s: identical(m, e, w, s))
           for m, e in exports for w, s in ((1, 0), (2, 3))] + [("12 layers", lambda: smaller(12))])
suite.run([("least recomputation", lambda: least(12)), ("statistics that are computed with", statistics)])
suite.finish()
