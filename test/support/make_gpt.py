#!/usr/bin/env python3
"""Writes a GPT training graph of any size as ONNX, as PyTorch's TorchScript exporter (opset 17) would, with the loss inside.

  make_gpt.py OUT.onnx --preset g124m --seed 0          # real weights: normal deviates, std 0.02
  make_gpt.py OUT.onnx --preset 1t                      # 128 layers x 25,600: 4 TB of weights in a sparse file, in a second
  make_gpt.py OUT.onnx --layers 32 --hidden 4096 --heads 32 --vocab 32000 --seq 2048 --llama --seed 0 --shared   # 7B in 0.5 GB
  make_gpt.py OUT.onnx --layers 2 --hidden 64 --heads 4 --vocab 100 --seq 16 --batch batch --inputs in.safetensors --rows 8

Beside OUT.onnx lies OUT.onnx.data, where the weights are; without --seed it is sparse (zeros that occupy no disk). Inputs
`input_ids` and `labels`, int64 [batch, seq]; output `loss`. Prints one JSON object with the counts. Standard library only.
"""
import argparse
import json
import math
import random
import sys
from array import array

from onnx_write import FLOAT, INT64, Graph, value_info, write_safetensors

# layers, hidden, heads, vocabulary, sequence length, batch
# (7.5b and 1t: the sizes of the ZeRO papers; 7,500,006,400 and 1,007,988,403,200 parameters)
PRESETS = {
    "g5m": (4, 256, 4, 8192, 128, 4),
    "g124m": (12, 768, 12, 50257, 256, 4),
    "g124m-b2": (12, 768, 12, 50257, 256, 2),
    "g350m": (24, 1024, 16, 50257, 128, 4),
    "bert": (12, 768, 12, 30522, 128, 8),  # BERT-base's sizes, with --bidirectional
    "7.5b": (23, 5120, 40, 50400, 1024, 1),
    "1t": (128, 25600, 160, 50257, 1024, 1),
}


def linear(g, x, scope, rows, columns, std, bias=True):
    """torch.nn.Linear on a rank-3 input: Transpose of the weight, MatMul, Add."""
    name = scope.strip("/").replace("/", ".")
    weight = g.parameter(f"{name}.weight", [rows, columns], std)
    y = g.op("MatMul", [x, g.op("Transpose", [weight], scope, perm=[1, 0])], scope)
    return g.op("Add", [g.parameter(f"{name}.bias", [rows], 0), y], scope) if bias else y


def layer_norm(g, x, scope, hidden):
    name = scope.strip("/").replace("/", ".")
    scale, shift = g.parameter(f"{name}.weight", [hidden], None), g.parameter(f"{name}.bias", [hidden], 0)
    return g.op("LayerNormalization", [x, scale, shift], scope, axis=-1, epsilon=1e-5)


def head_scale(g, q, scope):
    """sqrt(1 / sqrt(head width)), computed from the shape of q as the exporter does."""
    last = g.op("Slice", [g.op("Shape", [q], scope), g.constant([-1], scope), g.constant([2**63 - 1], scope)], scope)
    root = g.op("Sqrt", [g.op("Cast", [last], scope, to=FLOAT)], scope)
    return g.op("Cast", [g.op("Div", [g.constant([1.0], scope, FLOAT), root], scope)], scope, to=FLOAT)


def causal_mask(g, q, k, scope):
    """0 on and below the diagonal, -inf above: [seq, seq] from the shapes of q and k."""
    minus1, minus2 = g.constant([-1], scope), g.constant([-2], scope)
    sizes = [g.op("Slice", [g.op("Shape", [t], scope), minus2, minus1], scope) for t in (q, k)]
    ones = g.op("Expand", [g.constant([1.0], scope, FLOAT, []), g.op("Concat", sizes, scope, axis=0)], scope)
    lower = g.op("Trilu", [ones], scope, upper=0)
    zero = g.constant([0.0], scope, FLOAT, [])
    above = g.op("Equal", [lower, zero], scope)
    return g.op("Where", [above, g.constant([float("-inf")], scope, FLOAT, []), zero], scope)


def attention(g, x, scope, hidden, heads, seq, causal):
    """scaled_dot_product_attention(is_causal=causal) in its exported form: q and k each scaled by the root of the scale."""
    qkv = linear(g, x, f"{scope}/qkv", 3 * hidden, hidden, 0.02)
    parts = g.op("Split", [qkv, g.constant([hidden] * 3, scope)], scope, count=3, axis=2)
    split = [g.op("Reshape", [p, g.constant([-1, seq, heads, hidden // heads], scope)], scope) for p in parts]
    q, v = (g.op("Transpose", [split[i]], scope, perm=[0, 2, 1, 3]) for i in (0, 2))
    k = g.op("Transpose", [split[1]], scope, perm=[0, 2, 1, 3])
    scale, mask = head_scale(g, q, scope), causal_mask(g, q, k, scope) if causal else None
    transposed = g.op("Transpose", [split[1]], scope, perm=[0, 2, 3, 1])
    q = g.op("Mul", [q, g.op("Sqrt", [scale], scope)], scope)
    transposed = g.op("Mul", [transposed, g.op("Sqrt", [scale], scope)], scope)
    scores = g.op("MatMul", [q, transposed], scope)
    scores = g.op("Add", [scores, mask], scope) if causal else scores
    y = g.op("MatMul", [g.op("Softmax", [scores], scope, axis=-1), v], scope)
    y = g.op("Transpose", [y], scope, perm=[0, 2, 1, 3])
    return g.op("Reshape", [y, g.constant([-1, seq, hidden], scope)], scope)


def rms_norm(g, x, scope, hidden):
    """As transformers' LlamaRMSNorm is exported."""
    scalar = lambda v: g.constant([v], scope, FLOAT, [])
    mean = g.op("ReduceMean", [g.op("Pow", [x, scalar(2.0)], scope)], scope, axes=[-1], keepdims=1)
    root = g.op("Sqrt", [g.op("Add", [mean, scalar(1e-5)], scope)], scope)
    y = g.op("Mul", [x, g.op("Div", [scalar(1.0), root], scope)], scope)
    return g.op("Mul", [g.parameter(f"{scope.strip('/').replace('/', '.')}.weight", [hidden], None), y], scope)


def rotations(g, seq, width):
    """cos and sin of [seq, width]."""
    angles = [row * 10000.0 ** (-2 * (i % (width // 2)) / width) for row in range(seq) for i in range(width)]
    return [g.constant([f(a) for a in angles], "/rotary", FLOAT, [seq, width]) for f in (math.cos, math.sin)]


def rotated(g, x, cos, sin, scope, width):
    """x cos + (its halves in the other order, the first of them negative) sin, of [batch, heads, seq, width]."""
    last = lambda begin, end: g.op("Slice", [x] + [g.constant([v], scope) for v in (begin, end, -1)], scope)
    turned = g.op("Concat", [g.op("Neg", [last(width // 2, 2**63 - 1)], scope), last(0, width // 2)], scope, axis=-1)
    return g.op("Add", [g.op("Mul", [x, cos], scope), g.op("Mul", [turned, sin], scope)], scope)


def llama_attention(g, x, scope, hidden, heads, seq, turns):
    qkv = linear(g, x, f"{scope}/qkv", 3 * hidden, hidden, 0.02, bias=False)
    parts = g.op("Split", [qkv, g.constant([hidden] * 3, scope)], scope, count=3, axis=2)
    q, k, v = (g.op("Transpose", [g.op("Reshape", [p, g.constant([-1, seq, heads, hidden // heads], scope)], scope)], scope, perm=[0, 2, 1, 3])
               for p in parts)
    q, k = (rotated(g, t, *turns, scope, hidden // heads) for t in (q, k))
    scale, mask = g.op("Sqrt", [head_scale(g, q, scope)], scope), causal_mask(g, q, k, scope)
    q, k = g.op("Mul", [q, scale], scope), g.op("Mul", [g.op("Transpose", [k], scope, perm=[0, 1, 3, 2]), scale], scope)
    y = g.op("MatMul", [g.op("Softmax", [g.op("Add", [g.op("MatMul", [q, k], scope), mask], scope)], scope, axis=-1), v], scope)
    return g.op("Reshape", [g.op("Transpose", [y], scope, perm=[0, 2, 1, 3]), g.constant([-1, seq, hidden], scope)], scope)


def llama_block(g, x, scope, a, turns):
    """Norms of squares, turned positions, a gate, no biases; the width inside is Llama 7B's, of 4096."""
    hidden, inner = a.hidden, max(1, 11008 * a.hidden // 4096)
    y = llama_attention(g, rms_norm(g, x, f"{scope}/norm1", hidden), scope, hidden, a.heads, a.seq, turns)
    x = g.op("Add", [x, linear(g, y, f"{scope}/out", hidden, hidden, 0.02, bias=False)], scope)
    y = rms_norm(g, x, f"{scope}/norm2", hidden)
    gate, up = (linear(g, y, f"{scope}/{name}", inner, hidden, 0.02, bias=False) for name in ("gate", "up"))
    gate = g.op("Mul", [gate, g.op("Sigmoid", [gate], scope)], scope)
    return g.op("Add", [x, linear(g, g.op("Mul", [gate, up], scope), f"{scope}/down", hidden, inner, 0.02, bias=False)], scope)


def gpt_block(g, x, scope, a):
    gelu = gelu_erf if a.gelu == "erf" else gelu_tanh
    y = attention(g, layer_norm(g, x, f"{scope}/norm1", a.hidden), scope, a.hidden, a.heads, a.seq, not a.bidirectional)
    x = g.op("Add", [x, linear(g, y, f"{scope}/out", a.hidden, a.hidden, 0.02)], scope)
    y = linear(g, layer_norm(g, x, f"{scope}/norm2", a.hidden), f"{scope}/up", 4 * a.hidden, a.hidden, 0.02)
    return g.op("Add", [x, linear(g, gelu(g, y, scope), f"{scope}/down", a.hidden, 4 * a.hidden, 0.02)], scope)


def gelu_erf(g, x, scope):
    scalar = lambda v: g.constant([v], scope, FLOAT, [])
    y = g.op("Erf", [g.op("Div", [x, scalar(2**0.5)], scope)], scope)
    y = g.op("Mul", [x, g.op("Add", [y, scalar(1.0)], scope)], scope)
    return g.op("Mul", [y, scalar(0.5)], scope)


def gelu_tanh(g, x, scope):
    scalar = lambda v: g.constant([v], scope, FLOAT, [])
    cube = g.op("Mul", [x, g.op("Mul", [x, x], scope)], scope)
    inner = g.op("Add", [x, g.op("Mul", [scalar(0.044715), cube], scope)], scope)
    y = g.op("Tanh", [g.op("Mul", [scalar((2 / 3.141592653589793)**0.5), inner], scope)], scope)
    y = g.op("Mul", [x, g.op("Add", [scalar(1.0), y], scope)], scope)
    return g.op("Mul", [scalar(0.5), y], scope)


def build(a):
    g, hidden = Graph("main_graph"), a.hidden
    batch = int(a.batch) if a.batch.isdigit() else a.batch
    g.inputs = [value_info(n, INT64, [batch, a.seq]) for n in ("input_ids", "labels")]
    g.outputs = [value_info("loss", FLOAT, [])]
    embed = g.parameter("embed.weight", [a.vocab, hidden], 0.02)
    x = g.op("Gather", [embed, "input_ids"], "/embed")
    if a.llama:
        turns = rotations(g, a.seq, hidden // a.heads)
        for i in range(a.layers):
            x = llama_block(g, x, f"/blocks.{i}", a, turns)
        x = rms_norm(g, x, "/norm", hidden)
    else:
        x = g.op("Add", [x, g.parameter("position.weight", [a.seq, hidden], 0.02)])
        for i in range(a.layers):
            x = gpt_block(g, x, f"/blocks.{i}", a)
        x = layer_norm(g, x, "/norm", hidden)
    if a.untied or a.llama:
        logits = linear(g, x, "/head", a.vocab, hidden, 0.02, bias=False)
    else:
        logits = g.op("MatMul", [x, g.op("Transpose", [embed], "/head", perm=[1, 0])], "/head")
    if a.cap:
        cap = lambda: g.constant([a.cap], "/cap", FLOAT, [])
        logits = g.op("Mul", [g.op("Tanh", [g.op("Div", [logits, cap()], "/cap")], "/cap"), cap()], "/cap")
    flat = g.op("Reshape", [logits, g.constant([-1, a.vocab])])
    labels = g.op("Reshape", ["labels", g.constant([-1])])
    if a.smoothing:
        smoothed_loss(g, flat, labels, a.smoothing)
        return g
    weights = [g.constant([0.5 + i % 7 / 7 for i in range(a.vocab)], "", FLOAT)] if a.class_weights else []
    g.op("SoftmaxCrossEntropyLoss", [flat, labels, *weights], outputs=["loss"], ignore_index=-100, reduction="mean")
    return g


def smoothed_loss(g, logits, labels, smoothing):
    """The loss of log_softmax, gather and mean, as training loops smooth labels by hand."""
    logs = g.op("LogSoftmax", [logits], axis=-1)
    own = g.op("GatherElements", [logs, g.op("Unsqueeze", [labels, g.constant([-1])])], axis=-1)
    of_all = g.op("ReduceMean", [logs], axes=[-1], keepdims=1)
    part = lambda x, share: g.op("Mul", [x, g.constant([share], "", FLOAT, [])])
    mean = g.op("ReduceMean", [g.op("Add", [part(own, 1 - smoothing), part(of_all, smoothing)])], keepdims=0)
    g.op("Neg", [mean], outputs=["loss"])


def write_inputs(a):
    rng = random.Random(a.seed or 0)
    rows = lambda: array("q", (rng.randrange(a.vocab) for _ in range(a.rows * a.seq))).tobytes()
    write_safetensors(a.inputs, {n: ("I64", (a.rows, a.seq), rows()) for n in ("input_ids", "labels")})


def arguments(argv):
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("out")
    a.add_argument("--preset", choices=PRESETS)
    for i, name in enumerate(("layers", "hidden", "heads", "vocab", "seq")):
        a.add_argument(f"--{name}", type=int, help=f"default of the preset, else {PRESETS['g5m'][i]}")
    a.add_argument("--batch", help="a number, or a name for a symbolic dimension")
    a.add_argument("--gelu", choices=("erf", "tanh"), default="tanh")
    a.add_argument("--bidirectional", action="store_true", help="every token sees every other, as in BERT")
    a.add_argument("--llama", action="store_true", help="Llama's blocks instead of GPT-2's: RMS norms, rotary positions, a gate, no biases; untied")
    a.add_argument("--untied", action="store_true", help="the head has its own weight")
    a.add_argument("--cap", type=float, help="logits x become cap tanh(x / cap), as in Gemma 2")
    a.add_argument("--smoothing", type=float, help="of labels, in a loss of single operations")
    a.add_argument("--class-weights", action="store_true", help="in the loss")
    a.add_argument("--seed", type=int, help="write real weights (normal deviates); without it the file is sparse")
    a.add_argument("--shared", action="store_true", help="parameters lie over each other in the file, which is as large as the largest")
    a.add_argument("--inputs", metavar="FILE", help="also write random input_ids and labels as safetensors")
    a.add_argument("--rows", type=int, default=8)
    a = a.parse_args(argv)
    defaults = PRESETS[a.preset or "g5m"]
    for name, value in zip(("layers", "hidden", "heads", "vocab", "seq", "batch"), defaults):
        if getattr(a, name) is None:
            setattr(a, name, str(value) if name == "batch" else value)
    if a.hidden % a.heads:
        sys.exit(f"make_gpt: {a.hidden} columns do not divide into {a.heads} heads")
    return a


def main():
    a = arguments(sys.argv[1:])
    g = build(a)
    g.write(a.out, a.seed, shared=a.shared)
    if a.inputs:
        write_inputs(a)
    print(json.dumps({"model": a.out, "parameters": g.elements(), "tensors": len(g.initializers), "nodes": len(g.nodes)}))


if __name__ == "__main__":
    main()
