#!/usr/bin/env python3
"""Recomputation changes memory, not results: with --checkpoint-activations block losses, norms and weights are those of the
plan that keeps everything, and a deeper model's activations shrink."""
import json, pathlib, subprocess, sys

support = pathlib.Path(__file__).resolve().parents[1] / "support"
sys.path.insert(0, str(support))
from e2e import Case, Suite, same

suite = Suite(__doc__)


def result(model, export, world, stage, policy):
    folder, name = suite.models / model, f"{model}-{export}-{world}-{stage}-{policy}"
    plan = suite.compile(folder / f"{export}.onnx", suite.dir / f"{name}.plan", "--world-size", world, "--zero-stage",
                         stage, "--bucket-size", "4KiB", "--clip-grad-norm", "0.1", "--checkpoint-activations", policy)
    metrics = suite.train(plan, suite.dir / name, "-n", world, "--data", folder / "inputs.safetensors", "--steps", 4)
    weights = (suite.dir / name / "final" / "weights.safetensors").read_bytes()
    return [m["loss"] for m in metrics], [m["grad_norm"] for m in metrics], weights


def identical(model, export, world, stage):
    kept, recomputed = (result(model, export, world, stage, policy) for policy in ("none", "block"))
    for name, a, b in zip(("loss", "grad_norm", "weights"), recomputed, kept):
        same(name, a, b)


def smaller(layers):
    path = suite.dir / f"deep{layers}.onnx"
    subprocess.run([sys.executable, support / "make_gpt.py", path, "--layers", str(layers), "--hidden", "64", "--vocab",
                    "64", "--seq", "64", "--batch", "4"], check=True, stdout=subprocess.DEVNULL)
    size = {}
    for policy in ("none", "block"):
        report = suite.tool("zero-compile", path, "--checkpoint-activations", policy, "--dry-run", "--json")
        size[policy] = json.loads(report)["tiers"]["device"]["activations"]
    # One stream tensor per block is kept of about a dozen and more.
    if not size["block"] * 3 < size["none"]:
        raise Case(f"activations {size['block']} of {size['none']} bytes")
    return f"{size['none'] / size['block']:.1f} times less"


exports = [("mlp", "ts17"), ("gpt2", "ts17"), ("gpt2", "dynamo23_sdpa"), ("llama", "ts17"), ("llama", "dynamo23opt_sdpa"),
           ("gpt2", "ts17_dropout"), ("resnet", "ts17")]
suite.run([(f"{m}/{e} W={w} stage {s}", lambda m=m, e=e, w=w, s=s: identical(m, e, w, s))
           for m, e in exports for w, s in ((1, 0), (2, 3))] + [("12 layers", lambda: smaller(12))])
suite.finish()
