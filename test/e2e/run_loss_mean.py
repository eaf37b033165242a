#!/usr/bin/env python3
"""--loss-mean global: with unequal numbers of ignored labels, any ranks x micro-steps give the losses, norms and weights of one
rank with the whole batch (which is PyTorch's mean over it); stage, offload and precision stay what they are; a rank whose labels
are all ignored does no harm; losses that weigh the same everywhere are not touched, others that are no mean are refused."""
import pathlib, random, sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "compiler" / "import" / "Inputs"))
from e2e import Case, Suite, close, read_safetensors, same, write_safetensors
from model import f, i, model, node
from onnx_write import FLOAT, tensor

suite = Suite(__doc__)
rng = random.Random(5)
SAMPLES, IN, OUT, STEPS = 16, 6, 4, 3
WEIGHTS = [rng.uniform(-0.5, 0.5) for _ in range(IN * OUT)]
CLASSES = [0.5, 2.0, 1.25, 0.75]
#            unequal, and none at all in the third quarter
LABELS = [0, 1, 2, 3, -100, 2, -100, -100, -100, -100, -100, -100, 1, -100, 3, 3]
DATA = write_safetensors(suite.dir / "data.safetensors", {
    "x": ("F32", [SAMPLES, IN], [rng.uniform(-1, 1) for _ in range(SAMPLES * IN)]), "labels": ("I64", [SAMPLES], LABELS),
    "t": ("F32", [SAMPLES, OUT], [rng.uniform(-1, 1) for _ in range(SAMPLES * OUT)])})


def write(name, nodes, extra_inputs=(), initializers=(), outputs=None):
    path = suite.dir / f"{name}.onnx"
    path.write_bytes(model([node("MatMul", ["x", "w"], ["y"], "/mm"), *nodes], [f("x", "n", IN), *extra_inputs], outputs or [f("loss")],
                           [tensor([IN, OUT], FLOAT, WEIGHTS, "w"), *initializers]))
    return path


def entropy(inputs, output="loss", **attributes):
    return node("SoftmaxCrossEntropyLoss", inputs, [output], f"/{output}", ignore_index=-100, **attributes)


LABELLED = [i("labels", "n")]
MODELS = {
    "plain": write("plain", [entropy(["y", "labels"])], LABELLED),
    "class weights": write("classes", [entropy(["y", "labels", "cw"])], LABELLED, [tensor([OUT], FLOAT, CLASSES, "cw")]),
    # as exporters decompose it: the sum of what counts over how much that is, scaled
    "decomposed": write("decomposed", [
        entropy(["y", "labels"], "each", reduction="none"), node("ReduceSum", ["each"], ["sum"], keepdims=0),
        node("Equal", ["labels", "ignored"], ["is"]), node("Not", ["is"], ["counts"]), node("Cast", ["counts"], ["one"], to=FLOAT),
        node("ReduceSum", ["one"], ["count"], keepdims=0), node("Div", ["sum", "count"], ["mean"]), node("Mul", ["mean", "two"], ["loss"])],
        LABELLED, [tensor([1], 7, [-100], "ignored"), tensor([], FLOAT, [2.0], "two")]),
}


def run(model, name, world, rows, accumulation, mean, *flags, data=DATA, dims=None, steps=STEPS):
    """losses, norms, weights"""
    plan = suite.compile(model, suite.dir / f"{name}.plan", "--world-size", world, *(dims or ["--dim", f"n={rows}"]), "--grad-accumulation",
                         accumulation, "--lr", "0.05", "--loss-mean", mean, *flags)
    out = suite.dir / f"{name}.run"
    metrics = suite.train(plan, out, "--data", data, "--steps", steps, "--nvme-dir", suite.dir)
    weights = {n: v for n, (_, _, v) in read_safetensors(out / "final" / "weights.safetensors").items()}
    return [m["loss"] for m in metrics], [m["grad_norm"] for m in metrics], weights


def compare(name, got, expected, tolerance):
    worst = max(close(f"{name} loss", got[0], expected[0], tolerance), close(f"{name} norm", got[1], expected[1], tolerance))
    for key in expected[2]:
        for a, b in zip(got[2][key], expected[2][key]):
            if abs(a - b) > tolerance * max(1, abs(b)) * 10:
                raise Case(f"{name}: {key} is {a} instead of {b}")
    return f"{worst:.1e}"


def whole_batch(kind, flags=("--optimizer", "sgd")):
    stem = f"{MODELS[kind].stem}{''.join(flags).replace('-', '')}"
    expected = run(MODELS[kind], f"{stem}-whole", 1, SAMPLES, 1, "rank", *flags)
    worst = []
    for world, accumulation in ((4, 1), (1, 4), (2, 2), (8, 1), (1, 1)):
        rows = SAMPLES // (world * accumulation)
        got = run(MODELS[kind], f"{stem}-{world}-{accumulation}", world, rows, accumulation, "global", "--zero-stage", 2, *flags)
        worst.append(compare(f"W={world} G={accumulation}", got, expected, 2e-6))
    other = run(MODELS[kind], f"{stem}-rank", 2, SAMPLES // 2, 1, "rank", *flags)
    if abs(other[0][0] - expected[0][0]) < 1e-3 * expected[0][0]:
        raise Case("the mean over ranks is the same here: the case shows nothing")
    return max(worst)


def gpt2():
    """With unequal labels, against one rank with all rows."""
    folder = suite.models / "gpt2"
    tensors = {name: value for name, value in read_safetensors(folder / "inputs.safetensors").items()}
    dtype, shape, labels = tensors["labels"]
    length = shape[1]
    labels = [-100 if (at // length) % 4 == 1 and at % length > 3 or (at // length) % 4 == 2 and at % 3 else v for at, v in enumerate(labels)]
    data = write_safetensors(suite.dir / "gpt2.safetensors", {**tensors, "labels": (dtype, shape, labels)})
    path, sizes = folder / "ts17_dynbatch.onnx", lambda rows: ["--dim", f"batch={rows}", "--dim", f"seq={length}"]
    clip = ("--clip-grad-norm", "0.1", "--optimizer", "sgd")
    expected = run(path, "gpt2-whole", 1, 8, 1, "rank", *clip, data=data, dims=sizes(8))
    got = run(path, "gpt2-global", 4, 2, 1, "global", "--zero-stage", 3, *clip, data=data, dims=sizes(2))
    remark = compare("gpt2", got, expected, 1e-5)
    bits = [run(path, f"gpt2-{k}", 2, 2, 2, "global", *clip, *flags, data=data, dims=sizes(2), steps=2) for k, flags in enumerate((
        ("--zero-stage", 0), ("--zero-stage", 1), ("--zero-stage", 2), ("--zero-stage", 3), ("--zero-stage", 3, "--bucket-size", "4KiB"),
        ("--zero-stage", 3, "--offload-optimizer", "host"), ("--zero-stage", 3, "--offload-optimizer", "nvme", "--offload-param", "host"),
        ("--zero-stage", 1, "--offload-optimizer", "host", "--offload-ratio", "0.5"), ("--zero-stage", 3, "--checkpoint-activations", "block")))]
    for other in bits[1:]:
        for name, a, b in zip(("losses", "norms", "weights"), other, bits[0]):
            same(name, a, b)
    return remark


def unclipped_offload():
    """Without clipping the factor still waits for the weights."""
    kinds = [run(MODELS["plain"], f"unclipped-{k}", 2, 4, 2, "global", *flags) for k, flags in enumerate((
        ("--zero-stage", 0), ("--zero-stage", 2, "--offload-optimizer", "host"), ("--zero-stage", 3, "--offload-optimizer", "nvme")))]
    for other in kinds[1:]:
        same("bits", other, kinds[0])


def bf16():
    expected = run(MODELS["plain"], "bf16-fp32", 4, 4, 1, "global")
    got = run(MODELS["plain"], "bf16", 4, 4, 1, "global", "--precision", "bf16", "--zero-stage", 3)
    return f"{close('loss', got[0], expected[0], 0.02):.1e} from fp32"


def same_weight():
    """Means over what is equally much on every rank are the same plan."""
    bare = write("bare", [], outputs=[f("y", "n", OUT)])
    for spec in ("mse:y:t", "l1:y:t"):
        one, two = (run(bare, f"{spec[:2]}-{mean}", 2, 4, 1, mean, "--loss-op", spec) for mean in ("rank", "global"))
        same(spec, two, one)


def no_label_in_a_step():
    """A step of samples whose labels are all ignored has no loss, and what is learned goes on; the mean of a rank has no such thing, and
    says what helps."""
    inputs = read_safetensors(DATA)
    kind, shape, _ = inputs["labels"]
    data = write_safetensors(suite.dir / "unlabelled.safetensors", {**inputs, "labels": (kind, shape, [1] * 4 + [-100] * 4 + [2] * 8)})
    global_, rank = (suite.compile(MODELS["plain"], suite.dir / f"unlabelled-{mean}.plan", "--world-size", 2, "--dim", "n=2", "--loss-mean", mean)
                     for mean in ("global", "rank"))
    metrics = suite.train(global_, suite.dir / "unlabelled", "--data", data, "--steps", 4)
    same("losses", [m["loss"] is None for m in metrics], [False, True, False, False])
    same("norm", metrics[1]["grad_norm"], 0)
    said = suite.tool("zero-run", rank, "-n", 2, "--data", data, "--steps", 4, "--out", suite.dir / "unlabelled-rank", code=8)
    if "--loss-mean global" not in said:
        raise Case(said)


def refused():
    add = [entropy(["y", "labels"], "a"), node("ReduceMean", ["y"], ["b"], keepdims=0), node("Add", ["a", "b"], ["loss"])]
    summed = [entropy(["y", "labels"], reduction="sum")]
    for name, nodes in (("two losses", add), ("a sum", summed)):
        path = write(name.replace(" ", "-"), nodes, LABELLED)
        suite.tool("zero-compile", path, "--dim", "n=4", "--dry-run")
        suite.tool("zero-compile", path, "--dim", "n=4", "--dry-run", "--loss-mean", "global", code=4)
        suite.tool("zero-compile", path, "--dim", "n=4", "--dry-run", "--loss-mean", "global", "--forward-only", code=4)
    suite.tool("zero-compile", MODELS["plain"], "--dim", "n=4", "--dry-run", "--loss-mean", "both", code=2)
    suite.tool("zero-compile", suite.models / "mlp" / "ort" / "training_model.onnx", "--dry-run", "--loss-mean", "global", code=4)


ADAM = ("--optimizer", "adamw", "--clip-grad-norm", "0.3")
suite.run([(kind, lambda k=kind: whole_batch(k)) for kind in MODELS])
suite.run([("plain, AdamW, clipped", lambda: whole_batch("plain", ADAM)), ("gpt2", gpt2), ("unclipped offload", unclipped_offload), ("bf16", bf16), ("no label in a step", no_label_in_a_step),
           ("same weight", same_weight), ("refused", refused)])
suite.finish()
