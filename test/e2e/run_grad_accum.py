#!/usr/bin/env python3
"""Gradients of 16 bits that are added up in fp32 (--grad-accum-dtype fp32): four micro-steps on one rank are the bits of four ranks with one
each, which without it they are not; within a world the same bits at every stage, placement, order, bucket size, overlap and update beside
backward; the first loss is that of gradients in 16 bits, and fp32 plans are what they are without the flag."""
import itertools, pathlib, sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from e2e import Case, Suite, same, same_bits

STEPS, WIDE = 3, ("--grad-accum-dtype", "fp32")
suite = Suite(__doc__)
folder = suite.models / "gpt2"
model = folder / "ts17.onnx"
numbers = itertools.count()


def result(world, accumulation, device, *flags, precision="bf16"):
    """Losses, norms, weights of a run of STEPS steps."""
    name = f"run{next(numbers)}"
    plan = suite.compile(model, suite.dir / f"{name}.plan", "--world-size", world, "--grad-accumulation", accumulation, "--precision", precision, *flags)
    return suite.bits(plan, suite.dir / name, "-n", world, "--threads", 1, "--device", device, "--data", folder / "inputs.safetensors",
                      "--steps", STEPS, "--nvme-dir", suite.dir)


def within(world, accumulation, device, *flags, plain=()):
    """What `plain` flags give step by step: another way over the links rounds otherwise."""
    expected = suite.once((world, accumulation, plain), lambda: result(world, accumulation, "sync", *WIDE, *plain))
    same_bits(result(world, accumulation, device, *WIDE, *flags), expected)


def ranks_are_micro_steps(precision):
    """Scales are powers of two, so that sums are the same whether they are scaled before or after."""
    ranks = result(4, 1, "sync", "--zero-stage", 2, *WIDE, precision=precision)
    steps = result(1, 4, "sync", *WIDE, precision=precision)
    same_bits(ranks, steps)
    rounded = result(1, 4, "sync", precision=precision)
    same("first loss", rounded[0][0], steps[0][0])
    if rounded[2] == steps[2]:
        raise Case("rounding each sum to 16 bits changes nothing: the test shows nothing")


def fp32_plans():
    plans = [suite.compile(model, suite.dir / f"fp32-{i}.plan", "--world-size", 2, "--zero-stage", 2, *flags) for i, flags in enumerate(((), WIDE))]
    inspected = [suite.tool("zero-translate", "--plan-to-mlir", plan).split("plan.command")[-1].split("\n", 1)[1] for plan in plans]
    same("plan", *inspected)


suite.run([(f"{precision}: four ranks are four micro-steps", lambda p=precision: ranks_are_micro_steps(p)) for precision in ("bf16", "fp16")])
suite.run([("fp32", fp32_plans)])
WORLDS = ((1, 1), (1, 3), (2, 1), (2, 2), (3, 2))
KINDS = {"": (), "small buckets": ("--bucket-size", "4KiB"), "host": ("--offload-optimizer", "host"), "nvme": ("--offload-optimizer", "nvme"),
         "clipped": ("--clip-grad-norm", "1e30")}
cases = [(f"W={w} G={g} stage {stage} {name}".strip(), lambda a=(w, g), s=stage, f=KINDS[name]: within(*a, "cpu", "--zero-stage", s, *f))
         for (w, g), stage, name in suite.draw([of for of in itertools.product(WORLDS, range(4), KINDS)
                                                if not (of[2] in ("host", "nvme") and of[1] == 0 and of[0][0] > 1)], 30)]
cases += [(f"W={w} G=2 {name}", lambda w=w, f=flags: within(w, 2, "cpu", *f))
          for w in (2,) for name, flags in (
              ("vertical", ("--zero-stage", 3, "--micro-order", "vertical", "--offload-param", "host")),
              ("parameters on host", ("--zero-stage", 3, "--offload-param", "host", "--offload-optimizer", "host")),
              ("half on the host", ("--zero-stage", 2, "--offload-optimizer", "host", "--offload-ratio", "0.5")),
              ("recomputed", ("--zero-stage", 1, "--checkpoint-activations", "block")))]
suite.run(cases)
for name, flags in (("quantized", ("--zero-stage", 2, "--quantize-gradients", "int8")),
                    ("hierarchical", ("--zero-stage", 1, "--ranks-per-node", 2, "--hierarchical-collectives")),
                    ("T=2", ("--zero-stage", 2, "--tensor-parallel", 2))):
    suite.run([(f"{name} {other}", lambda f=flags, d=device, m=more: within(4, 2, d, *f, *m, plain=f))
               for other, device, more in (("cpu", "cpu", ()), ("streams", "fake", ("--target", "cuda")), ("host", "cpu", ("--offload-optimizer", "host")))])
suite.finish()
