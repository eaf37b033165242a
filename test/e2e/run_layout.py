#!/usr/bin/env python3
"""--layout: chains of convolutions channels last train as PyTorch does and as the model's order does, within 1e-5 in fp32; the same bits
at every stage and tier and with recomputation; how many transposes are left; where nothing is turned around; evaluation."""
import itertools, json, pathlib, re, subprocess, sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from e2e import ROOT, Case, Suite, close, read_safetensors, same

suite = Suite(__doc__)
LAYOUTS = ("auto", "nchw")
RESNET = suite.models / "resnet"


def made(name, *flags):
    path = suite.dir / f"{name}.onnx"
    subprocess.run([sys.executable, ROOT / "test/support/make_resnet.py", path, "--seed", "1", "--inputs", suite.dir / f"{name}.safetensors", *flags],
                   check=True, capture_output=True)
    return path, suite.dir / f"{name}.safetensors"


MODELS = {"resnet": (RESNET / "ts17.onnx", RESNET / "inputs.safetensors"),
          "bottlenecks": made("bottlenecks", "--depth", "50", "--stages", "2", "--image", "40", "--batch", "4", "--classes", "10", "--rows", "16"),
          **{name: tuple(ROOT / f"test/e2e/exports/{name}.{kind}" for kind in ("onnx", "safetensors")) for name in ("convnext", "denoiser")}}


def kernels(plan):
    """How many steps a kernel has, and whether some are channels last."""
    table = suite.tool("zero-run", "inspect", plan, "--kernels")
    counts = {line.split()[0]: int(line.split()[-1]) for line in table.splitlines() if re.match(r"^[a-z_]+ .* \d+$", line)}
    return counts, "channels_last" in suite.tool("zero-run", "inspect", plan, "--text")


def train(name, model, flags, world=1, device="cpu", steps=3, layout="auto"):
    name = re.sub(r"[^\w.-]+", "_", name)
    onnx, data = MODELS[model]
    plan = suite.compile(onnx, suite.dir / f"{name}.plan", "--world-size", world, "--layout", layout, *flags)
    if kernels(plan)[1] != (layout == "auto"):
        raise Case(f"channels last: {kernels(plan)[1]}")
    out = suite.dir / name
    metrics = suite.train(plan, out, "-n", world, "--device", device, "--data", data, "--steps", steps, "--threads", 1, "--nvme-dir", suite.dir)
    suite.tool("zero-run", "export", out / "final", "--safetensors", out / "exported.safetensors")
    weights = {n: values for n, (_, _, values) in read_safetensors(out / "exported.safetensors").items()}
    return [m["loss"] for m in metrics], [m["grad_norm"] for m in metrics], weights


def golden(layout, world, stage):
    name = f"resnet {layout} W={world} stage {stage} as PyTorch"

    def run():
        expected = json.loads((RESNET / "golden.json").read_text())
        reliable = expected["reliable_steps"]["sgd"]
        accumulation = 2 // world
        got = train(name, "resnet", ["--zero-stage", stage, "--grad-accumulation", accumulation, "--optimizer", "sgd", "--lr", "0.1"], world, steps=8,
                    layout=layout)
        return [close(key, got[i][:reliable], expected[key][:reliable], 1e-5) for i, key in enumerate(("loss_sgd", "grad_norm_sgd"))]

    return name, run


def against_nchw(model, precision, tolerance, *flags):
    """One step: what follows multiplies what rounding left. In the norm one relu whose operand falls on the other side of zero is 1e-4."""
    def run():
        runs = [train(f"{model} {precision} {layout}", model, ["--precision", precision, "--lr", "1e-4", *flags], steps=1, layout=layout)
                for layout in LAYOUTS]
        return [close(what, a, b, max(tolerance, least)) for what, least, a, b in zip(("loss", "grad_norm"), (0, 1e-3), *runs)]

    return f"{model} {precision} as in the model's order", run


def bits(model, precision, *flags, device="cpu"):
    name = " ".join(map(str, ["bits", model, precision, device, *flags]))

    def run():
        plain = f"plain {model} {precision}"
        expected = suite.once(plain, lambda: train(plain, model, ["--precision", precision], 2, "sync"))
        for what, a, b in zip(("loss", "grad_norm", "weights"), train(name, model, ["--precision", precision, *flags], 2, device), expected):
            same(what, list(a.items()) if what == "weights" else a, list(b.items()) if what == "weights" else b)

    return name, run


def where():
    """The image is brought in and nothing else moves, though the model moves channels for its norms itself (ConvNeXt, and with others
    of its own SegFormer) or normalizes groups of channels; patches of a ViT, GPUs in fp32, and the flag leave the model's order."""
    def expect(transposes, turned, name, onnx, *flags):
        plan = suite.compile(onnx, suite.dir / f"where_{name}.plan", *flags)
        counts, got = kernels(plan)
        if got != turned or (transposes is not None and counts.get("transpose", 0) != transposes):
            raise Case(f"{name}: {counts.get('transpose', 0)} transposes, channels last: {got}")
    bottlenecks = MODELS["bottlenecks"][0]
    expect(1, True, "default", bottlenecks)
    expect(1, True, "bf16", bottlenecks, "--precision", "bf16")
    expect(2, True, "recomputed", bottlenecks, "--checkpoint-activations", "selective")
    expect(0, False, "nchw", bottlenecks, "--layout", "nchw")
    expect(0, False, "cuda", bottlenecks, "--target", "cuda")
    expect(1, True, "cuda in bf16", bottlenecks, "--target", "cuda", "--precision", "bf16")
    expect(1, True, "forward", bottlenecks, "--forward-only", "--batch-norm", "train")
    for name, transposes in (("convnext", 1), ("denoiser", 1), ("segformer", 22)):
        expect(transposes, True, name, ROOT / f"test/e2e/exports/{name}.onnx")
    expect(None, False, "vit", suite.models / "vit" / "ts17.onnx")


def evaluation():
    """With statistics that are given, too."""
    onnx, data = MODELS["bottlenecks"]
    outcomes = []
    for layout in LAYOUTS:
        plan = suite.compile(onnx, suite.dir / f"eval_{layout}.plan", "--with-eval", "--layout", layout)
        metrics = suite.train(plan, suite.dir / f"eval_{layout}", "--data", data, "--eval-data", data, "--eval-every", 1, "--steps", 1, "--threads", 1)
        outcomes.append([m["val_loss"] for m in metrics if "val_loss" in m])
        if not outcomes[-1]:
            raise Case(f"--layout {layout}: {metrics}")
    return close("val_loss", *outcomes, 1e-3)


suite.run([golden(layout, world, stage) for layout in LAYOUTS for world, stage in ((1, 0), (2, 0), (2, 3))])
suite.run([against_nchw(model, "fp32", 1e-5) for model in MODELS] + [against_nchw("bottlenecks", "bf16", 3e-2), against_nchw("bottlenecks", "fp16", 3e-2, "--loss-scale", "16")])
KINDS = [*((("--zero-stage", stage), "cpu") for stage in range(4)), *((("--zero-stage", 3), device) for device in ("sync", "fake")),
         (("--zero-stage", 3, "--offload-param", "host", "--offload-optimizer", "nvme"), "cpu"), (("--checkpoint-activations", "block"), "cpu"),
         (("--checkpoint-activations", "selective", "--offload-activation", "host"), "cpu")]
suite.run([bits("bottlenecks", precision, *flags, device=device) for precision, (flags, device) in suite.draw(itertools.product(("fp32", "bf16"), KINDS), 10)] +
          [bits("bottlenecks", "bf16", "--target", "cuda", "--zero-stage", 1, device="fake")])
suite.run([("what is turned around", where), ("evaluation", evaluation)])
suite.finish()
