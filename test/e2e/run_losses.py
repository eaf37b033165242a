#!/usr/bin/env python3
"""--loss-op against what the formulas give (torch's functionals, by hand), on forward-only graphs; what it must refuse;
class weights, ignored and wrong labels of the standard's losses."""
import math, pathlib, random, sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "compiler" / "import" / "Inputs"))
from e2e import Suite, close, write_safetensors
from model import f, i, linear, node, weight  # noqa: E402

suite = Suite(__doc__)
rng = random.Random(7)
ROWS, IN, OUT = 4, 4, 3
X = [[rng.uniform(-1, 1) for _ in range(IN)] for _ in range(ROWS)]
T = [[rng.uniform(0, 1) for _ in range(OUT)] for _ in range(ROWS)]
LABELS = [2, -100, 0, 1]
WEIGHTS = [0.5, 2.0, 1.5]
LOGITS = [[sum(0.1 * (k + 1) * v for k, v in enumerate(row)) * (1 + c) for c in range(OUT)] for row in X]


def data(labels):
    flat = lambda rows: [v for row in rows for v in row]  # noqa: E731
    return write_safetensors(suite.dir / f"data{abs(hash(tuple(labels)))}.safetensors",
                       {"x": ("F32", [ROWS, IN], flat(X)), "t": ("F32", [ROWS, OUT], flat(T)),
                        "labels": ("I64", [ROWS], labels)})


# Before the cases run side by side.
FILES = {tuple(labels): data(labels) for labels in (LABELS, [0, 1, 3, 0], [0, 1, -1, 0])}


def weights():
    """w[k][c] = 0.1 (k + 1)(c + 1), so that x w = LOGITS"""
    values = [0.1 * (k + 1) * (c + 1) for k in range(IN) for c in range(OUT)]
    from onnx_write import FLOAT, tensor
    return tensor([IN, OUT], FLOAT, values, "w")


def model(name, *nodes, inputs=(), outputs=None, initializers=()):
    path = suite.dir / f"{name}.onnx"
    path.write_bytes(linear(nodes=[node("MatMul", ["x", "w"], ["y"], "/mm"), *nodes], inputs=[f("x", ROWS, IN), *inputs],
                            outputs=outputs or [f("y", ROWS, OUT)], initializers=[weights(), *initializers]))
    return path


def run(name, path, *flags, labels=LABELS, code=0):
    plan = suite.compile(path, suite.dir / f"{name}.plan", "--optimizer", "sgd", "--lr", "0.5", *flags)
    if code:
        suite.tool("zero-run", plan, "--data", FILES[tuple(labels)], "--steps", 1, "--quiet", "--overwrite", "--out", suite.dir / name,
                   code=code)
        return None
    return suite.train(plan, suite.dir / name, "--data", FILES[tuple(labels)], "--steps", 1, "--overwrite")[0]["loss"]


def log_softmax(row):
    top = max(row)
    return [v - top - math.log(sum(math.exp(u - top) for u in row)) for v in row]


def nll(weighted=False, rows=None):
    """Per row: (weight, loss); ignored rows weigh 0."""
    rows = rows or [log_softmax(r) for r in LOGITS]
    pairs = [(0.0 if t < 0 else WEIGHTS[t] if weighted else 1.0, -r[t] if t >= 0 else 0.0) for r, t in zip(rows, LABELS)]
    return [(w, w * v) for w, v in pairs]


def mean(pairs):
    return sum(v for _, v in pairs) / sum(w for w, _ in pairs)


def over(formula):
    values = [formula(x, t) for row, target in zip(LOGITS, T) for x, t in zip(row, target)]
    return sum(values) / len(values)


APPENDED = {
    "cross_entropy:y:labels": lambda: mean(nll()),
    "mse:y:t": lambda: over(lambda x, t: (x - t) ** 2),
    "l1:y:t": lambda: over(lambda x, t: abs(x - t)),
    "smooth_l1:y:t": lambda: over(lambda x, t: (x - t) ** 2 / 2 if abs(x - t) < 1 else abs(x - t) - 0.5),
    "bce_with_logits:y:t": lambda: over(lambda x, t: max(x, 0) - x * t + math.log1p(math.exp(-abs(x)))),
}


def appended(spec):
    got = run(spec.split(":")[0], model(spec.split(":")[0], ), "--loss-op", spec)
    return f"{close(spec, [got], [APPENDED[spec]()], 2e-6):.1e}"


def after(name, op, spec, expected):
    path = model(name, node(op, ["y"], ["z"], axis=1) if op == "LogSoftmax" else node(op, ["y"], ["z"]), outputs=[f("z", ROWS, OUT)])
    return f"{close(name, [run(name, path, '--loss-op', spec)], [expected], 2e-6):.1e}"


def weighted(reduction, expected):
    name = f"weighted-{reduction}"
    loss = node("SoftmaxCrossEntropyLoss", ["y", "labels", "cw"], ["l"], "/loss", reduction=reduction, ignore_index=-100)
    from onnx_write import FLOAT, tensor
    nodes = [loss, node("ReduceSum", ["l"], ["loss"], keepdims=0)]
    path = model(name, *nodes, inputs=[i("labels", ROWS)], outputs=[f("loss")], initializers=[tensor([OUT], FLOAT, WEIGHTS, "cw")])
    worst = close(name, [run(name, path)], [expected], 2e-6)
    run(name, path, labels=[0, 1, 3, 0], code=3)
    run(name, path, labels=[0, 1, -1, 0], code=3)
    return f"{worst:.1e}"


def refused():
    path = model("refused")
    for spec in ("nope:y:t", "mse", "mse:y", "mse:nothing:t", "mse:y:x", "cross_entropy:y:x"):
        suite.tool("zero-compile", path, "--loss-op", spec, "--dry-run", code=2)
    suite.tool("zero-compile", path, "--loss-op", "mse:x:t", "--dry-run", code=2)  # nothing trained
    suite.tool("zero-compile", path, "--dry-run", code=2)  # no loss


def of_one_element():
    """A loss whose dimensions are kept is one where it is named: a sample's logit would look the same."""
    path = model("kept", node("ReduceSum", ["y"], ["loss"], "/sum", keepdims=1), outputs=[f("loss", 1, 1)])
    suite.tool("zero-compile", path, "--dry-run", code=2)
    suite.tool("zero-compile", path, "--loss", "loss", "--dry-run")


log_rows = [log_softmax(row) for row in LOGITS]
sigmoid = lambda v: 1 / (1 + math.exp(-v))  # noqa: E731
cases = [(spec, lambda s=spec: appended(s)) for spec in APPENDED]
cases += [
    ("nll", lambda: after("nll", "LogSoftmax", "nll:z:labels", mean(nll()))),
    ("bce", lambda: after("bce", "Sigmoid", "bce:z:t", over(lambda x, t: -(t * math.log(sigmoid(x)) + (1 - t) * math.log(1 - sigmoid(x)))))),
    ("class weights, mean", lambda: weighted("mean", mean(nll(True)))),
    ("class weights, sum", lambda: weighted("sum", sum(v for _, v in nll(True)))),
    ("class weights, none", lambda: weighted("none", sum(v for _, v in nll(True)))),
    ("refused", refused), ("a loss of one element", of_one_element),
]
suite.run(cases)
suite.finish()
