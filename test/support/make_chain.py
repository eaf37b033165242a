#!/usr/bin/env python3
"""Writes a chain of element-wise nodes as an ONNX training graph: loss = mean(f(...f(x * w))), to see how compiling grows.

  make_chain.py OUT.onnx --nodes 1000000 [--op Neg] [--elements 64] [--blocks B]

With --blocks B, B products with a weight of their own stand in the chain at equal distances. Beside OUT.onnx lies OUT.onnx.data,
where the weights are: a sparse file of zeros. Standard library only.
"""
import argparse

from onnx_write import FLOAT, Graph, value_info


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("out")
    a.add_argument("--nodes", type=int, required=True)
    a.add_argument("--op", default="Neg")
    a.add_argument("--elements", type=int, default=64)
    a.add_argument("--blocks", type=int, default=1)
    a = a.parse_args()
    g = Graph("chain")
    g.inputs = [value_info("x", FLOAT, [a.elements])]
    g.outputs = [value_info("loss", FLOAT, [])]
    x, every = "x", max(1, a.nodes // a.blocks)
    for i in range(a.nodes):
        x = g.op("Mul", [x, g.parameter(f"w{i // every}.weight", [a.elements], None)]) if i % every == 0 else g.op(a.op, [x])
    g.op("ReduceMean", [x], outputs=["loss"], keepdims=0)
    g.write(a.out, None)


if __name__ == "__main__":
    main()
