"""Models that pick rows by a mask, one per rule and refusal of rows.test: python rows.py NAME OUT"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "Inputs"))
from model import FLOAT, f, i, ints, model, node, tensor  # noqa: E402

# x [4, 3] and labels l [4]; m: the labels that are 1, p: their positions [n, 1], r: the rows of tanh(x) there [n, 3].
MASK = [node("Equal", ["l", "one"], ["m"]), node("NonZero", ["m"], ["pt"]), node("Transpose", ["pt"], ["p"], perm=[1, 0])]
ROWS = MASK + [node("Tanh", ["x"], ["t"]), node("GatherND", ["t", "p"], ["r"], "/pick")]
END = [node("ReduceSum", ["y"], ["loss"], keepdims=0)]
# Of pairs q [2, 4] that are 1, the second index of the position.
PAIRS = [node("Equal", ["q", "one"], ["m"]), node("NonZero", ["m"], ["pt"]), node("Gather", ["pt", "one_"], ["c"], axis=0),
         node("Gather", ["x", "c"], ["r"], axis=0), node("Unsqueeze", ["c", "minus"], ["p"])]
CONSTANTS = [ints("one", [1], []), ints("one_", [1], []), ints("zero", [0]), ints("first", [0], []), ints("minus", [-1]),
             ints("two", [2]), ints("pairs", [2, 6]), ints("twelve", [12, -1]), tensor([3], FLOAT, [1.0] * 3, "scale")]

NAMES = {
    "scatter": MASK + [node("GatherND", ["x", "p"], ["r"]), node("Tanh", ["r"], ["u"]), node("Reshape", ["u", "minus"], ["flat"]),
                       node("Unsqueeze", ["m", "minus"], ["m1"]), node("Shape", ["x"], ["s"]), node("Expand", ["m1", "s"], ["mx"]),
                       node("NonZero", ["mx"], ["qt"]), node("Transpose", ["qt"], ["q"], perm=[1, 0]), node("Shape", ["q"], ["qs"]),
                       node("Gather", ["qs", "zero"], ["n"]), node("Slice", ["flat", "zero", "n", "zero"], ["all"]),
                       node("ScatterND", ["x", "q", "all"], ["y"])] + END,
    "sum": ROWS + [node("ReduceSum", ["r"], ["loss"], keepdims=0)],
    "max": ROWS + [node("ReduceMax", ["r"], ["y"], axes=[0], keepdims=0)] + END,
    "mean": ROWS + [node("ReduceMean", ["r"], ["loss"], keepdims=0)],
    "product": ROWS + [node("Transpose", ["r"], ["rt"], perm=[1, 0]), node("MatMul", ["rt", "r"], ["y"])] + END,
    "softmax": ROWS + [node("Softmax", ["r"], ["s"], axis=0), node("CumSum", ["s", "first"], ["y"])] + END,
    "loss": ROWS + [node("GatherND", ["l", "p"], ["k"]),
                    node("SoftmaxCrossEntropyLoss", ["r", "k"], ["loss"], ignore_index=-100)],
    "probabilities": ROWS + [node("SoftmaxCrossEntropyLoss", ["r", "r"], ["loss"])],
    "loss_of_all_labels": ROWS + [node("GatherND", ["l", "p"], ["k"]), node("SoftmaxCrossEntropyLoss", ["r", "k"], ["loss"])],
    "count": ROWS + [node("ReduceSum", ["r"], ["s"], keepdims=0), node("Shape", ["r"], ["n"], end=1), node("Squeeze", ["n"], ["c"]),
                     node("Cast", ["c"], ["d"], to=1), node("Div", ["s", "d"], ["loss"])],
    "expanded": ROWS + [node("Shape", ["r"], ["n"], end=1), node("Concat", ["n", "two"], ["s"], axis=0),
                        node("ConstantOfShape", ["s"], ["z"]), node("Exp", ["z"], ["y"])] + END,
    "index_add": PAIRS + [node("ScatterND", ["x", "p", "r"], ["y"], reduction="add")] + END,
    "index_put": PAIRS + [node("ScatterND", ["x", "p", "r"], ["y"])] + END,
    "next": MASK + [node("Add", ["p", "one"], ["p1"]), node("GatherND", ["x", "p1"], ["r"])] + [node("ReduceSum", ["r"], ["loss"], keepdims=0)],
    "next_labels": MASK + [node("Add", ["p", "one"], ["p1"]), node("GatherND", ["l", "p1"], ["k"]), node("Cast", ["k"], ["y"], to=1)] + END,
    "compress": [node("Equal", ["l", "one"], ["m"]), node("Compress", ["x", "m"], ["y"], axis=0)] + END,
    "two_masks": ROWS + [node("Equal", ["l", "zero"], ["m2"]), node("NonZero", ["m2"], ["qt"]),
                         node("Transpose", ["qt"], ["q"], perm=[1, 0]), node("GatherND", ["x", "q"], ["r2"]),
                         node("Mul", ["r", "r2"], ["y"], "/meet")] + END,
    "all_rows": ROWS + [node("Mul", ["r", "x"], ["y"])] + END,
    "norm": ROWS + [node("Transpose", ["r"], ["rt"], perm=[1, 0]), node("Transpose", ["rt"], ["r2"], perm=[1, 0]),
                    node("LayerNormalization", ["r2", "wide"], ["y"], axis=0)] + END,
    "first": ROWS + [node("Gather", ["r", "two"], ["y"], axis=0)] + END,
    "apart": ROWS + [node("Reshape", ["r", "pairs"], ["y"])] + END,
    "again": ROWS + [node("Less", ["r", "scale"], ["small"]), node("NonZero", ["small"], ["y2"]), node("Cast", ["y2"], ["y"], to=1)] + END,
    "other_rows": ROWS + [node("ScatterND", ["x", "p", "t"], ["y"])] + END,
    "prefix": ROWS + [node("Shape", ["r"], ["n"], end=1), node("Slice", ["x", "zero", "n", "zero"], ["y"])] + END,
    "range": ROWS + [node("Shape", ["r"], ["n"], end=1), node("Squeeze", ["n"], ["c"]), node("Range", ["first", "c", "one"], ["k"]),
                     node("Cast", ["k"], ["y"], to=1)] + END,
    "sorted": ROWS + [node("TopK", ["r", "two"], ["y", "k"], axis=0)] + END,
    "two_means": ROWS + [node("Equal", ["l", "zero"], ["m2"]), node("NonZero", ["m2"], ["qt"]), node("Transpose", ["qt"], ["q"], perm=[1, 0]),
                         node("GatherND", ["t", "q"], ["r2"]), node("Transpose", ["r2"], ["rt"], perm=[1, 0]), node("MatMul", ["r", "rt"], ["y"]),
                         node("ReduceMean", ["y"], ["loss"], keepdims=0)],
    "trained": MASK + [node("MatMul", ["x", "w"], ["t"]), node("GatherND", ["t", "p"], ["r"]), node("Sqrt", ["r"], ["y"])] + END,
    "half": ROWS + [node("Shape", ["r"], ["n"], end=1), node("Div", ["n", "two"], ["h"]), node("ConstantOfShape", ["h"], ["y"])] + END,
    "at_most": ROWS + [node("Shape", ["r"], ["n"], end=1), node("Min", ["n", "two"], ["h"]), node("ConstantOfShape", ["h"], ["y"])] + END,
    "turned": ROWS + [node("Concat", ["r", "r", "r", "r"], ["r4"], axis=1), node("Reshape", ["r4", "twelve"], ["y"])] + END,
    "mean_of_none": ROWS + [node("ReduceMean", ["r"], ["c"], axes=[0]), node("Sub", ["r", "c"], ["y"])] + END,
    "largest_number": MASK + [node("GatherND", ["l", "p"], ["k"]), node("ReduceMax", ["k"], ["c"], axes=[0], keepdims=0),
                              node("Cast", ["c"], ["loss"], to=1)],
    "output": ROWS,
    "one": [node("Equal", ["o", "one"], ["m"]), node("NonZero", ["m"], ["p"]), node("Cast", ["p"], ["y"], to=1)] + END,
}

if __name__ == "__main__":
    name = sys.argv[1]
    inputs = [f("x", 4, 3), i("l", 4)] + ([i("q", 2, 4)] if name.startswith("index") else []) + ([i("o", 1)] if name == "one" else [])
    wide = [tensor([4, 3], FLOAT, [1.0] * 12, "wide"), tensor([3, 3], FLOAT, [1.0] * 9, "w")]
    with open(sys.argv[2], "wb") as out:
        out.write(model(NAMES[name], inputs, [f("r") if name == "output" else f("loss")], CONSTANTS + wide))
