#!/usr/bin/env python3
"""Derivatives where finite differences cannot see them, at kinks, poles and saturated values, of samples at positions and of Fourier
transforms, of recurrent layers, and of what torch.export's trace alone says: one step of SGD with rate 1 on w,
where h = x w with x = 1 element by element, against the gradients that torch gives."""
import cmath, math, pathlib, sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "compiler" / "import" / "Inputs"))
from e2e import Case, Suite, read_safetensors, write_safetensors
from model import f, ints, linear, node  # noqa: E402
from onnx_write import FLOAT, data, number, tensor  # noqa: E402

suite = Suite(__doc__)


def same_numbers(name, got, wanted, tolerance=2e-6):
    if len(got) != len(wanted) or not all(abs(a - b) <= tolerance * max(1, abs(b)) for a, b in zip(got, wanted)):
        raise Case(f"{name}: {[float(f'{v:.7g}') for v in got]} instead of torch's {wanted}")


def numbers(name, values, shape=None):
    return tensor([len(values)] if shape is None else shape, FLOAT, values, name)


def step(name, nodes, w, gradient, *flags, shape=None, outputs=("loss",), inputs=(), loss=None, initializers=(), fixed=(), tolerance=2e-6, **kinds):
    """`nodes` compute "y" of "h", of which the loss is the sum, or what `flags` make a loss of."""
    stem, shape = name.replace(" ", "-").replace(",", ""), shape or [len(w)]
    path, batch = suite.dir / f"{stem}.onnx", suite.dir / f"{stem}.safetensors"
    nodes = [node("Mul", ["x", "w"], ["h"], "/h"), *nodes]
    if not flags:
        nodes.append(node("ReduceSum", ["y"], ["loss"], "/sum", keepdims=0))
    path.write_bytes(linear(nodes=nodes, inputs=[f("x", *shape), *(f(n, *shape) for n, _ in inputs)],
                            outputs=[f("y", *shape) if flags else f("loss")],
                            initializers=[numbers("w", w, shape), *initializers], **kinds))
    write_safetensors(batch, {"x": ("F32", shape, [1.0] * len(w)), **{n: ("F32", shape, v) for n, v in (*inputs, *fixed)}})
    plan = suite.compile(path, suite.dir / f"{stem}.plan", "--optimizer", "sgd", "--momentum", "0", "--lr", "1", "--trainable", "w", *flags)
    metrics = suite.train(plan, suite.dir / stem, "--data", batch, "--steps", 1)
    weights = suite.dir / f"{stem}-after.safetensors"
    suite.tool("zero-run", "export", suite.dir / stem / "final", "--safetensors", weights)
    after = read_safetensors(weights)["w"][2]
    same_numbers(name, [a - b for a, b in zip(w, after)], gradient, tolerance)
    if loss is not None:
        same_numbers(name + ", the loss", [metrics[0]["loss"]], [loss])


def traced(call, *arguments, **attributes):
    """A node beside which torch.export says what it was."""
    return node(*arguments, **attributes) + data(9, data(1, "pkg.torch.onnx.fx_node") + data(2, f"%y : [num_users=1] = call_function[target=torch.ops.aten.{call}](args = ())"))


def second(name, nodes, w, gradient, loss, **kinds):
    """The loss is the square of the derivative of y's sum by x: its gradient is one of second derivatives."""
    strings = lambda key, *values: data(5, data(1, key) + b"".join(data(9, v) for v in values) + number(20, 8))  # noqa: E731
    derive = (data(1, "x") + data(2, "gx") + data(3, "/gradient") + data(4, "Gradient") + strings("xs", "x") +
              data(5, data(1, "y") + data(4, "s") + number(20, 3)) + data(7, "ai.onnx.preview.training"))
    nodes = [*nodes, node("ReduceSum", ["out"], ["s"], "/s", keepdims=0), derive, node("Mul", ["gx", "gx"], ["y"], "/square")]
    step(name, nodes, w, gradient, loss=loss, extra=data(8, data(1, "ai.onnx.preview.training") + number(2, 1)), opset=20, **kinds)


def unknown_second():
    """A derivative that is not there is told, with its node: it must not count as one of zero."""
    norm = [node("LayerNormalization", ["h", "one"], ["out"], "/norm")]
    try:
        second("unknown", norm, W, W, 0, initializers=[numbers("one", [1.0] * 4)])
    except Case as refusal:
        if "exit code 4" in str(refusal) and "graph.layer_norm_grad" in str(refusal) and 'node "/norm"' in str(refusal):
            return str(refusal).splitlines()[1].strip()
        raise
    raise Case("the derivative of a layer norm's gradient was made up")


W = [0.5, -1.0, 2.0, 0.25]
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
# As exporters write torch's binary_cross_entropy_with_logits.
LOGITS = [node("Sigmoid", ["h"], ["p"], "/p"), node("Sub", ["one", "p"], ["q"], "/q"), node("Log", ["p"], ["logp"], "/logp"), node("Log", ["q"], ["logq"], "/logq"),
          node("Sub", ["one", "t"], ["u"], "/u"), node("Mul", ["t", "logp"], ["a"], "/a"), node("Mul", ["u", "logq"], ["b"], "/b"),
          node("Add", ["a", "b"], ["ab"], "/ab"), node("Neg", ["ab"], ["each"], "/each"), node("Mul", ["each", "quarter"], ["y"], "/y")]
ONES = [numbers("one", [1.0], []), numbers("quarter", [0.25], [])]
cases += [(f"exported bce with {name} logits", lambda name=name, w=w, g=g, loss=loss: step(f"exported bce with {name} logits", LOGITS, w, g, inputs=[TARGETS],
                                                                                      initializers=ONES, loss=loss))
          for name, w, g, loss in (("no", [0.0] * 4, [-0.125, 0.125, -0.125, 0.125], 0.6931472),
                                   ("far", [200.0, 3.0, -200.0, -16.0], [0.0, 0.2381435, -0.25, 2.8133780e-8], 50.76214))]
# As torch.export writes binary_cross_entropy, of whose logarithms none is below -100 and no derivative infinite.
FLOORED = [node("Sigmoid", ["h"], ["p"], "/p"), node("Neg", ["p"], ["n"], "/n"), node("Add", ["n", "one"], ["q"], "/q"), node("Log", ["q"], ["logq"], "/logq"),
           node("Max", ["logq", "floor"], ["no"], "/no"), node("Log", ["p"], ["logp"], "/logp"), node("Max", ["logp", "floor"], ["yes"], "/yes"),
           node("Sub", ["t", "one"], ["u"], "/u"), node("Mul", ["u", "no"], ["a"], "/a"), node("Mul", ["t", "yes"], ["b"], "/b"),
           node("Sub", ["a", "b"], ["each"], "/each"), node("Mul", ["each", "quarter"], ["y"], "/y")]
cases += [("exported bce of saturated sigmoids", lambda: step("exported bce of saturated sigmoids", FLOORED, [40.0, 1.0, -120.0, 40.0], [0.0, 0.1827646, 0.0, 0.0],
                                                              inputs=[TARGETS], initializers=[*ONES, numbers("floor", [-100.0], [])], loss=50.328316))]
CLIP = [numbers("low", [-1.0], []), numbers("high", [1.0], [])]
SIX = [numbers("low", [0.0], []), numbers("high", [6.0], [])]
clip = node("Clip", ["h", "low", "high"], ["y"], "/clip")
cases += [
    ("clamp at its bounds", lambda: step("clamp at its bounds", [clip], [-1.0, 1.0, -1.5, 1.5, 0.0], [1.0, 1.0, 0.0, 0.0, 1.0],
                                         initializers=CLIP, loss=0.0)),
    ("clamp of crossed bounds", lambda: step("clamp of crossed bounds", [node("Clip", ["h", "high", "low"], ["y"], "/clip")], [-1.0, 1.0, -1.5, 1.5, 0.0],
                                             [0.0] * 5, initializers=CLIP, loss=-5.0)),
    ("clamp from below", lambda: step("clamp from below", [node("Clip", ["h", "low"], ["y"], "/clip")], [-1.0, 1.0, -1.5], [1.0, 1.0, 0.0],
                                      initializers=CLIP[:1], loss=-1.0)),
    ("clamp written as Max and Min", lambda: step("clamp written as Max and Min", [traced("clamp.Tensor", "Max", ["h", "low"], ["m"], "/max"),
                                                                                   traced("clamp.Tensor", "Min", ["m", "high"], ["y"], "/min")],
                                                  [-1.0, 1.0, -1.5, 1.5, 0.0], [1.0, 1.0, 0.0, 0.0, 1.0], initializers=CLIP, loss=0.0)),
    ("clamp_min written as Max", lambda: step("clamp_min written as Max", [traced("clamp_min.Tensor", "Max", ["h", "low"], ["y"], "/max")], [-1.0, 1.0, -1.5],
                                              [1.0, 1.0, 0.0], initializers=CLIP[:1], loss=-1.0)),
    ("maximum", lambda: step("maximum", [traced("maximum.default", "Max", ["h", "low"], ["y"], "/max")], [-1.0, 1.0, -1.5], [0.5, 1.0, 0.0],
                             initializers=CLIP[:1], loss=-1.0)),
    ("clamp by attributes", lambda: step("clamp by attributes", [node("Clip", ["h"], ["y"], "/clip", min=-1.0, max=1.0)], [-1.0, 1.0, -1.5, 0.5],
                                         [1.0, 1.0, 0.0, 1.0], opset=10, loss=-0.5)),
    ("relu6 at its bounds", lambda: step("relu6 at its bounds", [clip], [0.0, 6.0, 3.0, 7.0, -1.0], [0.0, 0.0, 1.0, 0.0, 0.0], initializers=SIX, loss=15.0)),
    ("relu6 by attributes", lambda: step("relu6 by attributes", [node("Clip", ["h"], ["y"], "/clip", min=0.0, max=6.0)], [0.0, 6.0, 3.0], [0.0, 0.0, 1.0],
                                         opset=10, loss=9.0)),
    ("hardtanh at its bounds", lambda: step("hardtanh at its bounds", [traced("hardtanh.default", "Clip", ["h", "low", "high"], ["y"], "/clip")],
                                            [-1.0, 1.0, -1.5, 1.5, 0.0], [0.0, 0.0, 0.0, 0.0, 1.0], initializers=CLIP, loss=0.0)),
    ("hardswish", lambda: step("hardswish", [node("HardSwish", ["h"], ["y"], "/act")], [-3.0, 3.0, 0.0, 2.0], [0.0, 1.0, 0.5, 1.1666667], loss=4.6666667)),
    ("hardsigmoid", lambda: step("hardsigmoid", [node("HardSigmoid", ["h"], ["y"], "/act", alpha=1 / 6)], [-3.0, 3.0, 0.0, 2.0],
                                 [0.0, 0.0, 0.1666667, 0.1666667], loss=2.3333333)),
    ("fmod, the dividend", lambda: step("fmod, the dividend", [node("Mod", ["h", "b"], ["y"], "/mod", fmod=1)], [-7.0, 7.0, 0.0, 5.5, -2.5], [1.0] * 5,
                                        initializers=[numbers("b", [3.0, -3.0, 2.0, 2.0, 1.0])], loss=1.0)),
    ("fmod, the divisor", lambda: step("fmod, the divisor", [node("Mod", ["a", "h"], ["y"], "/mod", fmod=1)], [3.0, -3.0, 2.0, 2.0, 1.0],
                                       [2.0, 2.0, 0.0, -2.0, 2.0], initializers=[numbers("a", [-7.0, 7.0, 0.0, 5.5, -2.5])], loss=1.0)),
    ("the slope of tanh", lambda: second("the slope of tanh", [node("Tanh", ["h"], ["out"], "/act")], W, [0.3326806, 0.1845583, -0.05702554, 0.3877097],
                                         0.4061964)),
    ("the slope of silu", lambda: second("the slope of silu", [node("Sigmoid", ["h"], ["gate"], "/gate"), node("Mul", ["h", "gate"], ["out"], "/act")], W,
                                         [0.7107887, 0.03327686, 5.196097, 0.2322896], 4.925672)),
    ("the slope of gelu", lambda: second("the slope of gelu", [node("Gelu", ["h"], ["out"], "/act")], W, [1.019786, -0.05420274, 3.773429, 0.3068911],
                                         4.936212)),
    ("the slope of gelu, tanh", lambda: second("the slope of gelu, tanh", [node("Gelu", ["h"], ["out"], "/act", approximate="tanh")], W,
                                               [1.019267, -0.05394529, 3.781142, 0.3068567], 4.943632)),
]
# Of equal ones: max(dim) gives all to the one whose index it returns, amax shares.
EQUAL = [1.0, 2.0, 2.0, -1.0]
cases += [(name, lambda name=name, nodes=nodes, w=w, g=g: step(name, nodes, w, g, loss=2.0)) for name, nodes, w, g in (
    ("max along a dimension, traced", [traced("max.dim", "ReduceMax", ["h"], ["y"], "/max", axes=[0], keepdims=0)], EQUAL, [0.0, 1.0, 0.0, 0.0]),
    ("min along a dimension, traced", [traced("min.dim", "ReduceMin", ["h"], ["m"], "/min", axes=[0]), node("Neg", ["m"], ["y"], "/neg")], [-v for v in EQUAL], [0.0, -1.0, 0.0, 0.0]),
    ("max along a dimension beside its index", [node("ReduceMax", ["h"], ["m"], "/max", axes=[0], keepdims=0), node("ArgMax", ["h"], ["i"], "/index", axis=0, keepdims=0),
                                                node("Cast", ["i"], ["at"], "/at", to=1), node("Mul", ["m", "at"], ["y"], "/y")], EQUAL, [0.0, 1.0, 0.0, 0.0]),
    ("amax", [node("ReduceMax", ["h"], ["y"], "/max", axes=[0], keepdims=0)], EQUAL, [0.0, 0.5, 0.5, 0.0]),
    ("amax, traced", [traced("amax.default", "ReduceMax", ["h"], ["y"], "/max", axes=[0], keepdims=0)], EQUAL, [0.0, 0.5, 0.5, 0.0]))]
# torch's std as exporters write it: where all elements are the same its derivative is 0.
STD = [node("ReduceMean", ["h"], ["mean"], "/mean", axes=[0]), node("Sub", ["h", "mean"], ["d"], "/d"), node("Mul", ["d", "d"], ["square"], "/2"),
       node("ReduceMean", ["square"], ["v"], "/v", axes=[0], keepdims=0), node("Mul", ["v", "four"], ["sum"], "/sum"),
       node("Div", ["sum", "three"], ["variance"], "/variance"), node("Sqrt", ["variance"], ["y"], "/std")]
FOUR = [numbers("four", [4.0], []), numbers("three", [3.0], [])]
cases += [
    ("the deviation of what is constant", lambda: step("the deviation of what is constant", STD, [0.5] * 4, [0.0] * 4, initializers=FOUR, loss=0.0)),
    ("the deviation of other numbers", lambda: step("the deviation of other numbers", STD, W, [0.01692244, -0.3892162, 0.4230611, -0.05076733], initializers=FOUR, loss=1.2311072)),
    ("a plane that is constant, normalized", lambda: step("a plane that is constant, normalized", [
        node("MeanVarianceNormalization", ["h"], ["n"], "/n"), node("Mul", ["n", "c"], ["y"], "/y")], [0.5] * 4, [-2.0, -1.0, 0.0, 3.0], shape=[1, 1, 2, 2],
        initializers=[numbers("c", [1e-9, 2e-9, 3e-9, 6e-9], [1, 1, 2, 2])], loss=0.0)),
    ("a row of zeros, normalized", lambda: step("a row of zeros, normalized", [node("LpNormalization", ["h"], ["y"], "/n")], [0.0, 0.0, 3.0, 4.0],
                                                [1.0, 1.0, 0.032, -0.024], shape=[2, 2], loss=1.4)),
    ("zeros, quantized and back", lambda: step("zeros, quantized and back", [node("DynamicQuantizeLinear", ["h"], ["q", "scale", "zero"], "/q"),
                                                                              node("DequantizeLinear", ["q", "scale", "zero"], ["y"], "/d")], [0.0] * 4, [1.0] * 4, loss=0.0)),
]
PICKED = [numbers("c", [1.0, -2.0, 3.0, 0.5])]
weighted = lambda op: [node(op, ["h"], ["p"], "/p", axis=0), node("Mul", ["p", "c"], ["out"], "/weighted")]  # noqa: E731
cubed = lambda op, inputs, **attributes: [node(op, inputs, ["part"], "/part", **attributes), node("Mul", ["part", "part"], ["square"], "/2"),  # noqa: E731
                                          node("Mul", ["square", "part"], ["out"], "/3")]
plane = [node("Unsqueeze", ["h", "axes"], ["plane"], "/plane")]
AXES = ints("axes", [0, 1])
cases += [
    ("the slope of softmax", lambda: second("the slope of softmax", weighted("Softmax"), W, [0.2395756, 0.3469224, 0.2437646, 0.3495288], 1.197866,
                                            initializers=PICKED)),
    ("the slope of log softmax", lambda: second("the slope of log softmax", weighted("LogSoftmax"), W, [2.935151, -7.747025, 0.8807378, 2.096596], 10.91952,
                                                initializers=PICKED)),
    ("the slope of a slice", lambda: second("the slope of a slice", cubed("Slice", ["h", "from", "to"]), W, [0.0, -54.0, 1728.0, 0.0], 585.0,
                                            initializers=[ints("from", [1]), ints("to", [3])])),
    ("the slope of a gather", lambda: second("the slope of a gather", cubed("Gather", ["h", "at"]), W, [0.0, -216.0, 0.0, 0.05273438], 36.0022,
                                             initializers=[ints("at", [1, 1, 3])])),
    ("the slope of max pool", lambda: second("the slope of max pool", [*plane, *cubed("MaxPool", ["plane"], kernel_shape=[2], strides=[2])], W,
                                             [1.6875, 0.0, 1728.0, 0.0], 576.1406, initializers=[AXES])),
    ("the slope of average pool", lambda: second("the slope of average pool", [*plane, *cubed("AveragePool", ["plane"], kernel_shape=[2], strides=[2])], W,
                                                 [-0.07910156, -0.1054688, 40.44562, 27.83139], 14.6525, initializers=[AXES])),
    ("the slope of a convolution", lambda: second("the slope of a convolution", [*plane, *cubed("Conv", ["plane", "k"])], W,
                                                  [-45.0, -227.25, 512.4979, -192.5587], 196.9344, initializers=[AXES, numbers("k", [1.0, -0.5], [1, 1, 2])])),
    ("a slope whose slope is not known", unknown_second),
]
# Two positions in an image of 2 x 3, within and beyond it; at its edges; and what the image gets: mode, padding, align_corners, then the
# gradient and the loss of each.
SAMPLES = [
    ("bilinear", "zeros", 0, [2.1, 1.7, 0.0, 0.0], 1.16, [0.375, -0.25, -6.0, 4.0], 2.125, [0.12, 0.08, 0.0, 0.48, 0.32, 0.0], -0.06),
    ("bilinear", "zeros", 1, [0.575, 1.4, -7.5, -1.5], 3.27, [2.5, -0.25, -8.0, -5.0], 8.5, [0.14, 0.21, 0.57, 0.26, 0.39, 0.03], 0.915),
    ("bilinear", "border", 0, [2.1, 1.7, 0.0, 0.0], 9.16, [0.0, 0.0, 0.0, 0.0], 8.5, [0.12, 0.08, 2.0, 0.48, 0.32, 0.0], 3.94),
    ("bilinear", "border", 1, [0.575, 1.4, 0.0, -5.0], 8.52, [0.0, 0.0, 0.0, 0.0], 8.5, [0.14, 0.21, 1.9, 0.26, 0.39, 0.1], 3.68),
    ("bilinear", "reflection", 0, [2.1, 1.7, -18.0, 0.0], 2.56, [0.0, 0.0, 0.0, 0.0], 8.5, [0.12, 1.18, 0.9, 0.48, 0.32, 0.0], 0.64),
    ("bilinear", "reflection", 1, [0.575, 1.4, -11.0, 2.0], 0.82, [0.0, 0.0, 0.0, 0.0], 8.5, [0.14, 1.54, 0.57, 0.26, 0.46, 0.03], -0.45),
    ("nearest", "zeros", 0, [0.0, 0.0, 0.0, 0.0], 0.5, [0.0, 0.0, 0.0, 0.0], 8.0, [0.0, 0.0, 0.0, 1.0, 0.0, 0.0], 0.25),
    ("nearest", "zeros", 1, [0.0, 0.0, 0.0, 0.0], 3.0, [0.0, 0.0, 0.0, 0.0], 8.5, [0.0, 0.0, 0.0, 0.0, 1.0, 0.0], -0.5),
    ("nearest", "border", 0, [0.0, 0.0, 0.0, 0.0], 8.5, [0.0, 0.0, 0.0, 0.0], 8.5, [0.0, 0.0, 2.0, 1.0, 0.0, 0.0], 4.25),
    ("nearest", "border", 1, [0.0, 0.0, 0.0, 0.0], 11.0, [0.0, 0.0, 0.0, 0.0], 8.5, [0.0, 0.0, 2.0, 0.0, 1.0, 0.0], 3.5),
    ("nearest", "reflection", 0, [0.0, 0.0, 0.0, 0.0], -3.5, [0.0, 0.0, 0.0, 0.0], 8.5, [0.0, 2.0, 0.0, 1.0, 0.0, 0.0], -1.75),
    ("nearest", "reflection", 1, [0.0, 0.0, 0.0, 0.0], -1.0, [0.0, 0.0, 0.0, 0.0], 8.5, [0.0, 2.0, 0.0, 0.0, 1.0, 0.0], -2.5),
    ("bicubic", "zeros", 0, [3.6342, 1.9446, 1.966477, -0.8169356], 1.070257, [-0.1538086, 0.1259766, -10.54688, 7.054688], 3.143066, [0.144, 0.092, -0.134685, 0.6624, 0.4232, -0.04819725], -0.4076659),
    ("bicubic", "zeros", 1, [0.7317586, 2.339897, -11.25827, -0.7185797], 4.134165, [2.25, -0.375, 3.0, -0.75], 8.5, [0.1806219, 0.1887293, 0.6065248, 0.3578656, 0.5562541, -0.05720695], 0.8401601),
    ("bicubic", "border", 0, [3.35718, 2.33046, 0.0, 0.9], 10.4237, [-0.8481445, 0.1904297, -3.902344, 2.226562], 10.40869, [0.107712, 0.08096, 2.203328, 0.504288, 0.37904, -0.275328], 3.903112),
    ("bicubic", "border", 1, [0.8027728, 2.153036, -2.775403, -4.494291], 9.284953, [1.875, -0.1875, 9.0, -3.75], 8.5, [0.1291797, 0.14893, 1.976203, 0.2588202, 0.47657, 0.01029728], 3.709931),
    ("bicubic", "reflection", 0, [3.35718, 2.33046, -27.96542, 0.3370172], 1.652463, [0.0, 0.0, 0.0, 0.0], 12.57227, [-0.1332293, 1.634504, 1.034726, 0.5410418, 0.1420587, -0.2191005], 0.1039129),
    ("bicubic", "reflection", 1, [1.389431, 2.422875, -15.24887, 0.6680044], 0.5692737, [0.0, 0.0, 0.0, 0.0], 8.5, [-0.08929637, 1.739206, 0.6173404, 0.3287964, 0.476794, -0.07284037], -0.8146319),
]
W6 = [0.5, -1.0, 2.0, 0.25, -0.5, 1.5]
POSITIONS, EDGES = [-0.4, 0.3, 1.7, -0.9], [-1.0, 1.0, 1.0, -1.0]


def sampled(name, x, grid, mode, padding, corners, w, shape, gradient, loss, **kinds):
    nodes = [node("GridSample", [x, grid], ["s"], "/sample", mode=mode, padding_mode=padding, align_corners=corners), node("Mul", ["s", "c"], ["y"], "/y")]
    step(name, nodes, w, gradient, shape=shape, loss=loss, opset=16, **{**kinds, "initializers": [*kinds["initializers"], numbers("c", [1.0, 2.0])]})


for mode, padding, corners, at, at_loss, edge, edge_loss, image, image_loss in SAMPLES:
    how = (mode, padding, corners)
    name = f"{mode} samples, {padding}{', corners' * corners}"
    of = {"initializers": [numbers("image", [1.0, -2.0, 4.0, 0.5, 3.0, -1.0], [1, 1, 2, 3])]}
    to = {"initializers": [numbers("grid", POSITIONS, [1, 1, 2, 2])]}
    if mode == "bicubic":  # its weights are sums of large terms that cancel
        of["tolerance"] = to["tolerance"] = 2e-5
    if mode != "nearest":  # of which no position has a gradient
        cases += [
            (name, lambda n=name, h=how, g=at, l=at_loss, k=of: sampled(n, "image", "h", *h, POSITIONS, [1, 1, 2, 2], g, l, **k)),
            (name + ", edges", lambda n=name, h=how, g=edge, l=edge_loss, k=of: sampled(n + ", edges", "image", "h", *h, EDGES, [1, 1, 2, 2], g, l, **k)),
        ]
    cases.append((name + ", image", lambda n=name, h=how, g=image, l=image_loss, k=to: sampled(n + ", image", "h", "grid", *h, W6, [1, 1, 2, 3], g, l, **k)))
# What torch.export's trace says beside a node, and the node does not.
LABELS = [ints("labels", [2, 0])]
PROBABILITIES = [numbers("q", [0.2, 0.3, 0.5, 1.0, 0.0, 0.0], [2, 3])]
entropy = lambda labels, smoothing, *more, **attributes: [  # noqa: E731
    node("SoftmaxCrossEntropyLoss", ["h", labels, *more], ["y"], "/loss", **attributes) +
    data(9, data(1, "pkg.torch.onnx.fx_node") + data(2, f"%y : [num_users=1] = call_function[target=torch.ops.aten.cross_entropy_loss.default]"
                                                        f"(args = (%h, %t, None, 1, -100, {smoothing}), kwargs = {{}})"))]
SMOOTHED = (
    ("smoothed labels", entropy("labels", 0.1), [0.07097853, 0.00288962, -0.07386815, -0.3659153, 0.03092493, 0.3349903], 0.9882982, LABELS),
    ("smoothed labels with weights", entropy("labels", 0.2, "weights"), [0.02956705, -0.07237469, 0.04280764, -0.4389647, -0.02331824, 0.462283], 1.577676,
     [*LABELS, numbers("weights", [1.0, 2.0, 0.5])]),
    ("smoothed labels, one ignored", entropy("labels", 0.1, ignore_index=-100), [0.1419571, 0.00577924, -0.1477363, 0.0, 0.0, 0.0], 0.3913113,
     [ints("labels", [2, -100])]),
    ("probabilities as labels", entropy("q", 0.0), [-0.0123548, -0.1304437, 0.1427985, -0.3992486, 0.0475916, 0.351657], 1.521632, PROBABILITIES),
    ("smoothed probabilities", entropy("q", 0.1), [-0.01902147, -0.1321104, 0.1511319, -0.3659153, 0.03092493, 0.3349903], 1.528298, PROBABILITIES),
)
cases += [(name, lambda n=name, a=nodes, g=gradient, l=loss, i=initializers: step(n, a, W6, g, shape=[2, 3], loss=l, initializers=i))
          for name, nodes, gradient, loss, initializers in SMOOTHED]
cases += [("a traced detach", lambda: step("a traced detach", [traced("detach.default", "Identity", ["h"], ["d"], "/detach"), node("Mul", ["h", "d"], ["y"], "/y")],
                                           W, W, loss=5.3125)),
          ("a transform", lambda: step("a transform", [node("Reshape", ["h", "signal"], ["s"], "/signal"), node("DFT", ["s"], ["f"], "/dft", axis=1, onesided=1),
                                                       node("Mul", ["f", "f"], ["power"], "/power"), node("Mul", ["power", "c"], ["y"], "/y")], W6,
                                       [7.0, -12.0, 23.5, 3.0, -6.5, 18.0], loss=46.75, opset=17,
                                       initializers=[ints("signal", [1, 6, 1]), numbers("c", [1.0, 2.0])]))]


# Of 2 directions, 8 gates of 1 input and 2 hidden units, in quarters.
GATES = {"W": (1, [-5, -5, -1, -2, 3, 3, -1, -8, 1, -5, 1, 1, 0, 5, 4, -1]),
         "R": (2, [-5, -7, 2, 3, 2, -6, -1, 7, 3, -2, -1, 1, 6, 6, 4, -3, -2, 0, -2, 1, 2, 0, 3, 2, 0, 3, -1, 0, 2, 9, -6, -6]),
         "B": (0, [-3, 3, 4, 1, -1, -2, 2, -2, -2, 3, 6, 14, -6, -5, 7, -2, -2, 4, 4, 5, -6, 10, -2, 1, -7, -2, -2, -2, -4, 4, -1, 3])}


def recurrent(name, directions, gradient, loss, lengths=None, **attributes):
    """Of 3 steps of 2 sequences: the sums of all results, of the last ones twice, and of the last cells' squares."""
    nodes = [node("LSTM", ["h", *GATES, *(["lengths"] if lengths else [])], ["all", "last", "cell"], "/lstm", hidden_size=2, **attributes),
             node("Mul", ["cell", "cell"], ["square"], "/square"),
             *(node("ReduceSum", [x], [f"{x}_sum"], f"/{x}", keepdims=0) for x in ("all", "last", "square")),
             node("Sum", ["all_sum", *["last_sum"] * (2 if lengths else 0), "square_sum", *["square_sum"] * (not lengths)], ["y"], "/y")]
    if lengths:  # which the data say: "x" is 1 at each of the 3 steps
        nodes = [node("ReduceSum", ["x", "steps"], ["count"], "/count", keepdims=0), node("Sub", ["count", "missing"], ["reals"], "/reals"),
                 node("Cast", ["reals"], ["lengths"], "/lengths", to=6), *nodes]
    weights = [numbers(n, [v / 4 for v in values[:len(values) * directions // 2]], [directions, *([8, size] if size else [16])])
               for n, (size, values) in GATES.items()]
    step(name, nodes, [0.5, -1.0, 2.0, 0.25, -0.75, 1.5], gradient, shape=[3, 2, 1], loss=loss,
         initializers=[*weights, ints("steps", [0, 2]), numbers("missing", [3.0 - n for n in lengths or (3, 3)])])


cases += [("sequences of two lengths", lambda: recurrent("sequences of two lengths", 2, [-0.2981215, -1.113368, -0.2544379, -0.7384439, -4.878984, 0.0], 8.444275,
                                                         lengths=(3, 2), direction="bidirectional")),
          ("quantized and back", lambda: step("quantized and back", [node("QuantizeLinear", ["h", "scale", "zero"], ["q"], "/q"),
                                                                     node("DequantizeLinear", ["q", "scale", "zero"], ["d"], "/d"), node("Mul", ["d", "c"], ["y"], "/y")],
                                              [0.5, -1.0, 2.0, 0.26], [1.0, 2.0, 0.0, 4.0], loss=3.38, initializers=[
                                                  numbers("scale", [0.01], []), numbers("c", [1.0, 2.0, 3.0, 4.0]), number(2, 3) + data(8, "zero") + data(9, b"\xff")])),
          ("activations of a cell", lambda: recurrent(
              "activations of a cell", 1, [0.07596062, -1.106306, 0.02503435, 0.0, -1.543944, -0.1641983], 1.922094, clip=1.25, input_forget=1,
              activations=["HardSigmoid", "ScaledTanh", "LeakyRelu"], activation_alpha=[0.3, 0.9, 0.05], activation_beta=[0.4, 0.7]))]


def long_transform(n):
    """Of a number with factors it is made of short ones, of a prime one product: against the sums themselves."""
    w = [math.sin(3.0 * j) / n for j in range(n)]
    spectrum = [sum(w[j] * cmath.exp(-2j * math.pi * (j * k % n) / n) for j in range(n)) for k in range(n)]
    gradient = [sum(2 * z.real * math.cos(t) - 4 * z.imag * math.sin(t) for k, z in enumerate(spectrum) for t in [2 * math.pi * (j * k % n) / n])
                for j in range(n)]
    step(f"transform of {n}", [node("Reshape", ["h", "signal"], ["s"], "/signal"), node("DFT", ["s"], ["f"], "/dft", axis=1),
                               node("Mul", ["f", "f"], ["power"], "/power"), node("Mul", ["power", "c"], ["y"], "/y")], w, gradient,
         loss=sum(z.real ** 2 + 2 * z.imag ** 2 for z in spectrum), opset=17, initializers=[ints("signal", [1, n, 1]), numbers("c", [1.0, 2.0])])


def many_pieces(n, length, hop):
    """Of which a table would be large. By Parseval all parts squared are the pieces squared, `length` times."""
    w = [math.sin(0.3 * j) / 64 for j in range(n)]
    covered = [sum(1 for begin in range(0, n - length + 1, hop) if begin <= j < begin + length) for j in range(n)]
    step(f"pieces of {n}", [node("Reshape", ["h", "signal"], ["s"], "/signal"), node("STFT", ["s", "hop", "", "length"], ["f"], "/stft", onesided=0),
                            node("Mul", ["f", "f"], ["y"], "/power")],
         w, [2 * length * c * v for c, v in zip(covered, w)], loss=length * sum(c * v * v for c, v in zip(covered, w)), opset=17, ir=8, tolerance=1e-5,
         initializers=[ints("signal", [1, n, 1]), tensor([], 7, [hop], "hop"), tensor([], 7, [length], "length")])
    # And put back, where pieces overlap: the sum of squares of what all of an element's pieces make of it.
    places = (n - length) // hop + 1
    v = [math.sin(0.11 * j) / 8 for j in range(length * places)]  # [length, places]
    image = [0.0] * n
    for k in range(length):
        for p in range(places):
            image[k + p * hop] += v[k * places + p]
    step(f"pieces put back into {n}", [node("Reshape", ["h", "blocks"], ["b"], "/blocks"), node("Col2Im", ["b", "image", "block"], ["i"], "/fold", strides=[1, hop]),
                                       node("Mul", ["i", "i"], ["y"], "/power")],
         v, [2 * image[k + p * hop] for k in range(length) for p in range(places)], loss=sum(x * x for x in image), opset=18, ir=8, tolerance=1e-5,
         initializers=[ints("blocks", [1, length, places]), ints("image", [1, n]), ints("block", [1, length])])
    return f"{max(covered)} pieces over each other"


def long_resampling(n, size, mode, antialias=0):
    """Whose matrix of weights would be large: against that matrix. The last picture's rows and columns are resampled; `a` of a cubic is -0.75."""
    reach, stretch = {"linear": 1, "cubic": 2}[mode], min(1, size / n) if antialias else 1

    def weight(distance):
        t = abs(distance)
        if mode == "linear":
            return max(0.0, 1 - t)
        return (1.25 * t - 2.25) * t * t + 1 if t <= 1 else -0.75 * (((t - 5) * t + 8) * t - 4) if t < 2 else 0.0
    rows = []  # {element: weight}
    for i in range(size):
        at, row = (i + 0.5) * n / size - 0.5, {}
        around = range(math.floor(at - reach / stretch), math.ceil(at + reach / stretch) + 1)
        each = {j: weight((j - at) * stretch) for j in around}
        for j, w in each.items():
            row[min(max(j, 0), n - 1)] = row.get(min(max(j, 0), n - 1), 0) + w / (sum(each.values()) if antialias else 1)
        rows.append(row)
    w = [math.sin(0.7 * j) + (j % 5) / 5 for j in range(n)]
    y = [sum(w[j] * c for j, c in row.items()) for row in rows]
    gradient = [0.0] * n
    for value, row in zip(y, rows):
        for j, c in row.items():
            gradient[j] += 2 * value * c
    step(f"resampling {n} {size} {mode}", [node("Resize", ["h", "", "", "size"], ["z"], "/resize", mode=mode, antialias=antialias), node("Mul", ["z", "z"], ["y"], "/y")],
         w, gradient, shape=[1, 1, 1, n], loss=sum(v * v for v in y), opset=18, ir=8, initializers=[ints("size", [1, 1, 1, size])], tolerance=1e-5)


# One factor of 0 at a place has the product of the others; two have none.
cases += [(f"products at places, by {kind}", lambda kind=kind, at=at: step(f"products by {kind}", [node(kind, ["data", "at", "h"], ["y"], "/put", reduction="mul")],
                                                                           [0.0, 4.0, 0.0, 0.0, 0.0, 2.0], [8.0, 0.0, 3.0, 0.0, 0.0, 7.0], loss=14.0, opset=18, ir=8,
                                                                           initializers=[numbers("data", [2.0, 3.0, 5.0, 7.0]), tensor([6] + at, 7, [0, 0, 1, 2, 2, 3], "at")]))
          for kind, at in (("ScatterElements", []), ("ScatterND", [1]))]
cases += [(f"a transform of {n}", lambda n=n: long_transform(n)) for n in (67, 96, 134)]
def long_padding(mode, source, low, high):
    """Of a dimension that is longer than a table: a crop counts below 0."""
    n = 65600
    w = [math.sin(0.01 * j) for j in range(n)]
    picked = [source(j, n) for j in range(-low, n + high)]
    gradient = [0.0] * n
    for j in picked:
        gradient[j] += 2 * w[j]
    step(f"pad {mode} {low}", [node("Pad", ["h", "pads"], ["p"], "/pad", mode=mode), node("Mul", ["p", "p"], ["y"], "/power")], w, gradient,
         loss=sum(w[j] ** 2 for j in picked), opset=19, ir=9, tolerance=1e-5, initializers=[ints("pads", [low, high])])


cases += [(f"a long signal, padded by {mode}, {low} and {high}", lambda mode=mode, source=source, low=low, high=high: long_padding(mode, source, low, high))
          for mode, source, low, high in (("reflect", lambda j, n: -j if j < 0 else 2 * n - 2 - j if j >= n else j, 200, 300), ("edge", lambda j, n: min(max(j, 0), n - 1), 5, -7),
                                          ("wrap", lambda j, n: j % n, -3, 70))]
LSE = [node("ReduceLogSumExp", ["h"], ["y"], "/lse", axes=[0], keepdims=0)]
cases += [("the largest of a sum", lambda: step("the largest of a sum", LSE, [0.0, 0.0, 1.0], [0.2119416, 0.2119416, 0.5761169], loss=1.5514447, opset=13))]
cases += [("many pieces of a signal", lambda: many_pieces(4096, 256, 8))]
cases += [(f"a resampling from {row[0]} to {row[1]}, {row[2]}", lambda row=row: long_resampling(*row))
          for row in ((256, 512, "linear"), (300, 700, "cubic"), (400, 170, "linear", 1), (65536, 2, "linear", 0))]
suite.run(cases)
suite.finish()
