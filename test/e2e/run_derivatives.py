#!/usr/bin/env python3
"""Derivatives where finite differences cannot see them, at kinks, poles and saturated values: one step of SGD with rate 1 on w,
where h = x w with x = 1 element by element, against the gradients that torch gives."""
import pathlib, sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "compiler" / "import" / "Inputs"))
from e2e import Case, Suite, read_safetensors, write_safetensors
from model import f, ints, linear, node  # noqa: E402
from onnx_write import FLOAT, tensor  # noqa: E402

suite = Suite(__doc__)


def same_numbers(name, got, wanted, tolerance=2e-6):
    if len(got) != len(wanted) or not all(abs(a - b) <= tolerance * max(1, abs(b)) for a, b in zip(got, wanted)):
        raise Case(f"{name}: {[float(f'{v:.7g}') for v in got]} instead of torch's {wanted}")


def numbers(name, values, shape=None):
    return tensor([len(values)] if shape is None else shape, FLOAT, values, name)


def step(name, nodes, w, gradient, *flags, shape=None, outputs=("loss",), inputs=(), loss=None, initializers=(), fixed=(), **kinds):
    """`nodes` compute "y" of "h", of which the loss is the sum, or what `flags` make a loss of."""
    stem, shape = name.replace(" ", "-").replace(",", ""), shape or [len(w)]
    path, data = suite.dir / f"{stem}.onnx", suite.dir / f"{stem}.safetensors"
    nodes = [node("Mul", ["x", "w"], ["h"], "/h"), *nodes]
    if not flags:
        nodes.append(node("ReduceSum", ["y"], ["loss"], "/sum", keepdims=0))
    path.write_bytes(linear(nodes=nodes, inputs=[f("x", *shape), *(f(n, *shape) for n, _ in inputs)],
                            outputs=[f("y", *shape) if flags else f("loss")],
                            initializers=[numbers("w", w, shape), *initializers], **kinds))
    write_safetensors(data, {"x": ("F32", shape, [1.0] * len(w)), **{n: ("F32", shape, v) for n, v in (*inputs, *fixed)}})
    plan = suite.compile(path, suite.dir / f"{stem}.plan", "--optimizer", "sgd", "--momentum", "0", "--lr", "1", "--trainable", "w", *flags)
    metrics = suite.train(plan, suite.dir / stem, "--data", data, "--steps", 1)
    weights = suite.dir / f"{stem}-after.safetensors"
    suite.tool("zero-run", "export", suite.dir / stem / "final", "--safetensors", weights)
    after = read_safetensors(weights)["w"][2]
    same_numbers(name, [a - b for a, b in zip(w, after)], gradient)
    if loss is not None:
        same_numbers(name + ", the loss", [metrics[0]["loss"]], [loss])


IDENTITY = [node("Identity", ["h"], ["y"], "/y")]
SIGMOID = [node("Sigmoid", ["h"], ["y"], "/y")]
TARGETS = ("t", [1.0, 0.0, 1.0, 0.0])

cases = [
    ("bce with logits of 0", lambda: step("bce with logits of 0", IDENTITY, [0.0] * 4, [-0.125, 0.125, -0.125, 0.125],
                                          "--loss-op", "bce_with_logits:y:t", fixed=[TARGETS], loss=0.6931472)),
    ("bce with far logits", lambda: step("bce with far logits", IDENTITY, [200.0, 3.0, -200.0, -16.0], [0.0, 0.2381435, -0.25, 2.8133780e-8],
                                         "--loss-op", "bce_with_logits:y:t", fixed=[TARGETS], loss=50.76214)),
    ("bce of saturated sigmoids", lambda: step("bce of saturated sigmoids", SIGMOID, [40.0, 1.0, -120.0, 120.0], [0.0, 0.1827646, 0.0, 0.0],
                                               "--loss-op", "bce:y:t", fixed=[TARGETS], loss=50.328316)),
    ("norms of rows of zeros", lambda: step("norms of rows of zeros", [node("ReduceL2", ["h"], ["y"], "/norm", axes=[1])],
                                            [0.0, 0.0, 3.0, 4.0], [0.0, 0.0, 0.6, 0.8], shape=[2, 2], loss=5.0)),
    ("norm of a scalar", lambda: step("norm of a scalar", [node("ReduceL2", ["h", "none"], ["y"], "/norm", noop_with_empty_axes=1)],
                                      [0.0, -2.0], [0.0, -1.0], initializers=[ints("none", [])], opset=18, loss=2.0)),
]
suite.run(cases)
suite.finish()
