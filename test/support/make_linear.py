#!/usr/bin/env python3
"""Writes one linear as an ONNX training graph: loss = mean((x W^T + b - target)^2).

  make_linear.py OUT.onnx --inputs 65536 --outputs 16384 --rows 16 [--seed S]    # without a seed the weight is a sparse file of zeros

Beside OUT.onnx lie OUT.onnx.data, where the weights are, and with --data FILE two samples of inputs. Standard library only.
"""
import argparse
import random
from array import array

from onnx_write import FLOAT, Graph, value_info, write_safetensors


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("out")
    a.add_argument("--inputs", type=int, required=True)
    a.add_argument("--outputs", type=int, required=True)
    a.add_argument("--rows", type=int, required=True)
    a.add_argument("--seed", type=int)
    a.add_argument("--data", metavar="FILE")
    a = a.parse_args()
    g = Graph("linear")
    g.inputs = [value_info("x", FLOAT, [a.rows, a.inputs]), value_info("target", FLOAT, [a.rows, a.outputs])]
    g.outputs = [value_info("loss", FLOAT, [])]
    weight = g.parameter("linear.weight", [a.outputs, a.inputs], 0.02)
    # The input is scaled by a parameter, so that its gradient is needed too.
    x = g.op("Mul", ["x", g.parameter("scale.weight", [a.inputs], None)], "/scale")
    y = g.op("MatMul", [x, g.op("Transpose", [weight], "/linear", perm=[1, 0])], "/linear")
    difference = g.op("Sub", [g.op("Add", [g.parameter("linear.bias", [a.outputs], 0), y], "/linear"), "target"])
    g.op("ReduceMean", [g.op("Mul", [difference, difference])], outputs=["loss"], keepdims=0)
    g.write(a.out, a.seed)
    if a.data:
        rng = random.Random(0)
        deviates = lambda n: (array("f", (rng.gauss(0, 1) for _ in range(4096))) * -(-n // 4096))[:n].tobytes()
        write_safetensors(a.data, {name: ("F32", (2 * a.rows, n), deviates(2 * a.rows * n))
                                   for name, n in (("x", a.inputs), ("target", a.outputs))})


if __name__ == "__main__":
    main()
