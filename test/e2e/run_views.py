#!/usr/bin/env python3
"""--views: attention and programs that read and write inside of the tensors of linear layers have the bits of those on copies of their own, at every
stage and tier, in bf16, accumulated, recomputed, on ranks that share samples; how many copies are left; a plan whose view leaves its
operand is refused."""
import itertools, pathlib, re, sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from e2e import ROOT, Case, Suite, read_safetensors, same_bits

suite = Suite(__doc__)
COPIES = ("slice", "transpose", "concat")
EXPORTS = ROOT / "test/e2e/exports"
MODELS = {name: (suite.models / name / "ts17.onnx", suite.models / name / "inputs.safetensors") for name in ("gpt2", "llama", "bert", "vit")}
MODELS.update({name: (EXPORTS / f"{name}.onnx", EXPORTS / f"{name}.safetensors") for name in ("t5", "phi3")})
REFUSED = 3


def kernels(plan):
    """How many steps a kernel has, and whether some see through views."""
    table = suite.tool("zero-run", "inspect", plan, "--kernels")
    counts = {line.split()[0]: int(line.split()[-1]) for line in table.splitlines() if re.match(r"^[a-z_]+ .* \d+$", line)}
    return counts, "\"views\"" in suite.tool("zero-run", "inspect", plan, "--text")


def train(name, model, views, flags, world, device):
    name = re.sub(r"[^\w.-]+", "_", f"{name} {views}")
    onnx, data = MODELS[model]
    plan = suite.compile(onnx, suite.dir / f"{name}.plan", "--world-size", world, "--views", views, *flags)
    if kernels(plan)[1] != (views == "on"):
        raise Case(f"views: {kernels(plan)[1]}")
    out = suite.dir / name
    metrics = suite.train(plan, out, "-n", world, "--device", device, "--data", data, "--steps", 3, "--threads", 2, "--nvme-dir", suite.dir)
    suite.tool("zero-run", "export", out / "final", "--safetensors", out / "exported.safetensors")
    weights = {n: values for n, (_, _, values) in read_safetensors(out / "exported.safetensors").items()}
    return [m["loss"] for m in metrics], [m["grad_norm"] for m in metrics], list(weights.items())


def bits(model, *flags, group="", world=2, device="cpu"):
    """off, then on: the same bits, in a group those of its stage 0."""
    name = " ".join(map(str, ["bits", model, world, device, *flags]))

    def run():
        off, on = (train(name, model, views, flags, world, device) for views in ("off", "on"))
        same_bits(on, off)
        if group:
            plain = f"plain {model} {world}"
            same_bits(on, suite.once(plain, lambda: train(plain, model, "off", ("--zero-stage", 0), world, "sync")))

    return name, run


def copies(name, model, *flags):
    """A step's slices, transposes and concats, off and on. What rotates heads has to have them before it does."""
    def run():
        counts = [kernels(suite.compile(MODELS[model][0], suite.dir / f"copies_{name}_{views}.plan", "--views", views, *flags))[0] for views in ("off", "on")]
        off, on = ([c.get(kernel, 0) for kernel in COPIES] for c in counts)
        if on != LEFT[name] or sum(off) <= sum(on):
            raise Case(f"{on} of {COPIES} are left, of {off}")
        return f"{on} of {COPIES} are left, of {off}; steps {[sum(c.values()) for c in counts]}"

    return f"copies {name}", run


LEFT = {"gpt2": [1, 0, 0], "recomputed": [1, 0, 0], "selective": [1, 0, 0], "forward": [1, 0, 0], "gpt2 of a GPU": [1, 0, 0], "llama": [11, 4, 0], "phi3": [2, 1, 1], "bert": [0, 0, 0], "vit": [3, 2, 1], "t5": [1, 4, 0]}


def refused():
    """An offset and a size changed in a plan's text: the view leaves its operand."""
    plan = suite.compile(MODELS["gpt2"][0], suite.dir / "sound.plan", "--world-size", 2, "--zero-stage", 3)
    text = suite.tool("zero-translate", "--plan-to-mlir", plan)
    found = re.search(r"views = array<i64: (\d+), (\d+), 4, (\d+), ", text)
    if not found:
        raise Case("no views in the plan's text")
    for damaged in (f"views = array<i64: {found[1]}, 999999999, 4, {found[3]}, ", f"views = array<i64: {found[1]}, {found[2]}, 4, 9{found[3]}, "):
        (suite.dir / "bad.mlir").write_text(text.replace(found[0], damaged, 1))
        message = suite.tool("zero-translate", "--mlir-to-plan", suite.dir / "bad.mlir", "-o", suite.dir / "bad.plan", code=REFUSED)
        if "leaves tensor" not in message or '"attention"' not in message:
            raise Case(message)


suite.run([copies(model, model) for model in MODELS] +
          [copies("recomputed", "gpt2", "--checkpoint-activations", "block"), copies("selective", "gpt2", "--checkpoint-activations", "selective"),
           copies("forward", "gpt2", "--forward-only"), copies("gpt2 of a GPU", "gpt2", "--target", "cuda"), ("bad views", refused)])
KINDS = [*((("--zero-stage", stage), "fp32", 2) for stage in (0, 2, 3)), (("--zero-stage", 1, "--precision", "bf16"), "", 2), (("--grad-accumulation", 2), "", 1)]
suite.run([bits(model, *flags, group=group, world=world) for model, (flags, group, world) in suite.draw(itertools.product(MODELS, KINDS), 12)])
suite.run([bits("gpt2", "--zero-stage", 3, "--offload-param", "host", "--offload-optimizer", "nvme", group="fp32"),
           bits("gpt2", "--zero-stage", 3, group="fp32", device="sync"),
           bits("gpt2", "--checkpoint-activations", "block", group="fp32"), bits("gpt2", "--checkpoint-activations", "selective", group="fp32"),
           bits("gpt2", "--checkpoint-activations", "block", "--offload-activation", "host", group="fp32"),
           bits("gpt2", "--precision", "fp16", "--loss-scale", "16")] +
          [bits(model, "--target", "cuda", "--zero-stage", 3, "--precision", precision, device=device)
           for model, (precision, device) in suite.draw(itertools.product(MODELS, (("fp32", "fake"), ("bf16", "cpu"))), 5)] +
          [bits(model, "--tensor-parallel", 2, "--zero-stage", 1) for model in ("gpt2", "llama", "bert")])
suite.finish()
