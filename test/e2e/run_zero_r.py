#!/usr/bin/env python3
"""ZeRO-R's activations in parts (arXiv 1910.02054), by --dry-run, of GPTs of 8192 columns with MP 16 in fp16: what is kept of the 100B model
with and without Pa and Pa+cpu (section 6.1), and the largest models by configuration (figure 6)."""
import json, pathlib, subprocess, sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from e2e import ROOT, Case, Suite

suite = Suite(__doc__)
SEQ, HIDDEN, MP = 1024, 8192, 16
COMMON = ("--world-size", 400, "--ranks-per-node", 16, "--tensor-parallel", MP, "--precision", "fp16", "--checkpoint-activations", "block",
          "--machine", "v100-32")
PARTS, HOST = ("--partition-activations",), ("--offload-activation", "host")


def model(layers, batch):
    path = suite.dir / f"gpt-{layers}-{batch}.onnx"
    suite.once(path, lambda: subprocess.run([sys.executable, ROOT / "test/support/make_gpt.py", path, "--layers", str(layers), "--hidden", str(HIDDEN), "--heads",
                                             "64", "--vocab", "50257", "--seq", str(SEQ), "--batch", str(batch)], check=True, capture_output=True))
    return path


def report(layers, batch, *flags):
    return json.loads(suite.tool("zero-compile", model(layers, batch), *COMMON, *flags, "--dry-run", "--json"))


def hundred():
    """125 layers, batch 32: one checkpoint per layer is 67 GB (the paper's 33 GB are one for two layers), 1/16 of that in parts, none on
    the device with Pa+cpu, where one block's are at a time."""
    layers, batch = 125, 32
    block = 2 * batch * SEQ * HIDDEN
    whole, parts, host = (report(layers, batch, "--zero-stage", 2, *flags)["tiers"] for flags in ((), PARTS, (*PARTS, *HOST)))
    saved = [whole["device"]["peak_bytes"] - tiers["device"]["peak_bytes"] for tiers in (parts, host)]
    kept = layers * block
    for name, got, wanted in (("Pa", saved[0], kept * (MP - 1) / MP), ("Pa+cpu", saved[1], kept)):
        if abs(got - wanted) > 0.05 * kept:
            raise Case(f"{name}: {got / 1e9:.2f} GB, {wanted / 1e9:.2f} expected")
    there = host["host"]["activations"]  # and what the last norm, the head and the loss keep, which is not recomputed
    if not kept / MP <= there <= kept / MP + 6 * block:
        raise Case(f"on the host: {there / 1e9:.2f} GB, {kept / MP / 1e9:.2f} of checkpoints")
    return f"{kept / 1e9:.1f} GB of checkpoints; {saved[0] / 1e9:.1f} fewer in parts, {saved[1] / 1e9:.1f} with the host"


# Gradients added up in fp32, as Megatron's were: with two bytes each the paper's 60B of C2 (4 + 12/25 bytes of state for each of 3.75B
# parameters, 1/16 of the checkpoints) take 18 of 32 GB, and 98B fit; with four its stage 1 is told.
CONFIGURATIONS = {"C1": (40, "--zero-stage", 1), "C2": (60, "--zero-stage", 1, *PARTS), "C3": (50, "--zero-stage", 2),
                  "C4": (140, "--zero-stage", 2, *PARTS), "C5": (150, "--zero-stage", 2, *PARTS, *HOST)}
LASTING = ("--grad-accumulation", 2, "--grad-accum-dtype", "fp32")  # gradients are there through the step, as the paper's are: of one micro-step few are at a time
MEMORY, BATCH = 32e9, 16  # of a V100; per model-parallel group


def billions(layers):
    return 12 * layers * HIDDEN**2 / 1e9


def largest(name):
    """Layers that fit: the peak grows by the same with each, so two models tell, and the answer is tried."""
    _, *flags = CONFIGURATIONS[name]
    peak = lambda layers: report(layers, BATCH, *flags, *LASTING)["tiers"]["device"]["peak_bytes"]
    few, more = 12, 24
    low, high = peak(few), peak(more)
    layers = few + int((MEMORY - low) * (more - few) / (high - low))
    if peak(layers) > MEMORY * 1.01:
        raise Case(f"{name}: {layers} layers take {peak(layers) / 1e9:.1f} GB")
    return layers


found = {}


def configuration(name):
    found[name] = billions(largest(name))
    if not 1 <= found[name] / CONFIGURATIONS[name][0] <= 1.25:
        raise Case(f"{name}: {found[name]:.0f}B fit, the paper has {CONFIGURATIONS[name][0]}B")
    return f"{found[name]:.0f}B, the paper {CONFIGURATIONS[name][0]}B"


def ordered():
    order = sorted(found, key=found.get)
    if order != ["C1", "C3", "C2", "C4", "C5"]:
        raise Case(f"largest models: {found}")


suite.run([("100B: checkpoints", hundred)])
suite.run([(f"largest model of {name}", lambda name=name: configuration(name)) for name in CONFIGURATIONS])
suite.run([("their order", ordered)])
suite.finish()
