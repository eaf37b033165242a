#!/usr/bin/env python3
"""Writes a ResNet training graph as ONNX, as PyTorch's exporter (opset 17) would from torchvision's, with the loss inside.

  make_resnet.py OUT.onnx --depth 50 --image 224 --batch 8 --seed 0 --inputs in.safetensors --rows 16
  make_resnet.py OUT.onnx --depth 18 --stages 1    # only the first of the four stages

Beside OUT.onnx lies OUT.onnx.data, where the weights are; without --seed it is sparse (zeros). Inputs `x`, float32
[batch, 3, image, image], and `labels`, int64 [batch]; output `loss`. Standard library only.
"""
import argparse
import random
from array import array

from onnx_write import FLOAT, INT64, Graph, value_info, write_safetensors

# Blocks of each stage, and whether a block is a bottleneck (1x1, 3x3, 1x1 to four times the width).
DEPTHS = {18: ([2, 2, 2, 2], False), 50: ([3, 4, 6, 3], True)}


def convolution(g, x, scope, outputs, inputs, kernel, stride=1):
    """Without a bias; He's initialization."""
    name = scope.strip("/").replace("/", ".")
    weight = g.parameter(f"{name}.weight", [outputs, inputs, kernel, kernel], (2 / (outputs * kernel * kernel))**0.5)
    return g.op("Conv", [x, weight], scope, dilations=[1, 1], group=1, kernel_shape=[kernel] * 2, pads=[kernel // 2] * 4,
                strides=[stride] * 2)


def batch_norm(g, x, scope, channels):
    name = scope.strip("/").replace("/", ".")
    of = lambda what, value: g.parameter(f"{name}.{what}", [channels], value)
    inputs = [x, of("weight", None), of("bias", 0), of("running_mean", 0), of("running_var", None)]
    return g.op("BatchNormalization", inputs, scope, count=3, epsilon=1e-5, momentum=0.9, training_mode=1)[0]


def block(g, x, scope, inputs, width, stride, bottleneck):
    outputs = 4 * width if bottleneck else width
    layers = [(width, 1, 1), (width, 3, stride), (outputs, 1, 1)] if bottleneck else [(width, 3, stride), (outputs, 3, 1)]
    y, channels = x, inputs
    for i, (to, kernel, step) in enumerate(layers, 1):
        y = batch_norm(g, convolution(g, y, f"{scope}/conv{i}", to, channels, kernel, step), f"{scope}/bn{i}", to)
        channels = to
        if i < len(layers):
            y = g.op("Relu", [y], scope)
    if stride != 1 or inputs != outputs:
        x = batch_norm(g, convolution(g, x, f"{scope}/down/conv", outputs, inputs, 1, stride), f"{scope}/down/bn", outputs)
    return g.op("Relu", [g.op("Add", [y, x], scope)], scope), outputs


def build(a):
    g, (blocks, bottleneck) = Graph("main_graph"), DEPTHS[a.depth]
    g.inputs = [value_info("x", FLOAT, [a.batch, 3, a.image, a.image]), value_info("labels", INT64, [a.batch])]
    g.outputs = [value_info("loss", FLOAT, [])]
    x = g.op("Relu", [batch_norm(g, convolution(g, "x", "/conv1", 64, 3, 7, 2), "/bn1", 64)])
    x = g.op("MaxPool", [x], kernel_shape=[3, 3], pads=[1] * 4, strides=[2, 2])
    channels = 64
    for stage in range(a.stages):
        for i in range(blocks[stage]):
            stride = 2 if stage > 0 and i == 0 else 1
            x, channels = block(g, x, f"/layer{stage + 1}.{i}", channels, 64 << stage, stride, bottleneck)
    x = g.op("Flatten", [g.op("GlobalAveragePool", [x])], axis=1)
    weight, bias = g.parameter("fc.weight", [a.classes, channels], 0.02), g.parameter("fc.bias", [a.classes], 0)
    logits = g.op("Gemm", [x, weight, bias], "/fc", alpha=1.0, beta=1.0, transB=1)
    g.op("SoftmaxCrossEntropyLoss", [logits, "labels"], outputs=["loss"], reduction="mean")
    return g


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("out")
    a.add_argument("--depth", type=int, choices=DEPTHS, default=50)
    a.add_argument("--stages", type=int, choices=(1, 2, 3, 4), default=4)
    a.add_argument("--image", type=int, default=224)
    a.add_argument("--batch", type=int, default=8)
    a.add_argument("--classes", type=int, default=1000)
    a.add_argument("--seed", type=int)
    a.add_argument("--inputs", metavar="FILE", help="also write random x and labels as safetensors")
    a.add_argument("--rows", type=int, default=8)
    a = a.parse_args()
    build(a).write(a.out, a.seed)
    if a.inputs:
        rng, count = random.Random(a.seed or 0), a.rows * 3 * a.image**2
        table = array("f", (rng.gauss(0, 1) for _ in range(65537)))  # a prime: no two images are alike
        labels = array("q", (rng.randrange(a.classes) for _ in range(a.rows)))
        write_safetensors(a.inputs, {"x": ("F32", (a.rows, 3, a.image, a.image), (table * -(-count // len(table)))[:count].tobytes()),
                                     "labels": ("I64", (a.rows,), labels.tobytes())})


if __name__ == "__main__":
    main()
