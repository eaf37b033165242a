"""Small ONNX models for tests. `model(...)` gives the bytes; `python model.py 'EXPRESSION' OUT` writes those of an expression."""
import os
import sys

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(here, "..", "..", "..", "support"))
from onnx_write import BOOL, Body, FLOAT, INT64, Ref, attribute, data, number, tensor, value_info  # noqa: E402


def node(kind, inputs, outputs, name="", domain="", **attributes):
    body = b"".join(data(1, i) for i in inputs) + b"".join(data(2, o) for o in outputs)
    body += data(3, name) + data(4, kind) + b"".join(data(5, attribute(k, v)) for k, v in attributes.items())
    return body + (data(7, domain) if domain else b"")


def f(name, *shape):
    return value_info(name, FLOAT, list(shape))


def i(name, *shape):
    return value_info(name, INT64, list(shape))


def weight(name, *shape, value=0.5):
    count = 1
    for d in shape:
        count *= d
    return tensor(list(shape), FLOAT, [value] * count, name)


def ints(name, values, shape=None):
    return tensor([len(values)] if shape is None else shape, INT64, values, name)


def model(nodes, inputs, outputs, initializers=(), opset=17, ir=8, extra=b"", value_infos=(), of_graph=b""):
    """`extra`: fields of the model, `of_graph`: of the graph."""
    graph = b"".join(data(1, n) for n in nodes) + data(2, "g") + b"".join(data(5, t) for t in initializers)
    graph += b"".join(data(11, v) for v in inputs) + b"".join(data(12, v) for v in outputs)
    graph += b"".join(data(13, v) for v in value_infos)
    return number(1, ir) + data(7, graph + of_graph) + data(8, data(1, "") + number(2, opset)) + extra


def body(nodes, inputs, outputs):
    """A subgraph; its values need no types."""
    graph = b"".join(data(1, n) for n in nodes) + data(2, "body")
    return Body(graph + b"".join(data(11, data(1, v)) for v in inputs) + b"".join(data(12, data(1, v)) for v in outputs))


def function(name, inputs, outputs, nodes, attributes=(), opset=17, **defaults):
    """A function of domain "local", for `extra`. `defaults`: attributes that need not be given."""
    parts = data(1, name) + b"".join(data(4, v) for v in inputs) + b"".join(data(5, v) for v in outputs)
    parts += b"".join(data(6, a) for a in attributes) + b"".join(data(7, n) for n in nodes)
    parts += b"".join(data(11, attribute(k, v)) for k, v in defaults.items())
    return data(25, parts + data(9, data(1, "") + number(2, opset)) + data(9, data(1, "local") + number(2, 1)) +
                data(10, "local"))


def linear(**changes):
    """loss = mean(x W)"""
    parts = dict(nodes=[node("MatMul", ["x", "w"], ["y"], "/mm"), node("ReduceMean", ["y"], ["loss"], "/mean", keepdims=0)],
                 inputs=[f("x", 2, 4)], outputs=[f("loss")], initializers=[weight("w", 4, 3)])
    return model(**{**parts, **changes})


if __name__ == "__main__":
    with open(sys.argv[2], "wb") as out:
        out.write(eval(sys.argv[1]))
