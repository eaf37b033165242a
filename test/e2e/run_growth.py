#!/usr/bin/env python3
"""Compiling takes work in proportion to the model: instructions, which valgrind counts and no other program on the machine changes. Between
100 and 200 layers there are twice as many as between 50 and 100, and what any compilation begins with is in neither. A scan of all
operations for each of them shows long before it takes most of the time: at 2.08, when it is a twentieth of 200 layers' work."""
import pathlib, random, subprocess, sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from e2e import ROOT, Case, Skip, Suite
from instructions import can_count, instructions
from onnx_write import FLOAT, Graph, value_info

suite = Suite(__doc__)
LAYERS, MOST = (50, 100, 200), 2.08
Z3 = "--world-size 4 --zero-stage 3"
FLAGS = {
    "one rank": "",
    "stage 3": Z3,
    "stage 2 and a norm": "--world-size 4 --zero-stage 2 --precision bf16 --clip-grad-norm 1",
    "small buckets": f"{Z3} --bucket-size 16KiB",
    "prefetching": f"{Z3} --bucket-size 64KiB --prefetch 1MB",
    "recomputed blocks on the host": f"{Z3} --checkpoint-activations block --offload-activation host",
    "selective recomputation": f"{Z3} --checkpoint-activations selective",
    "tiles": f"{Z3} --tile-linear 32KiB",
    "all on the host": f"{Z3} --offload-optimizer host --offload-param host",
    "all on nvme": f"{Z3} --offload-optimizer nvme --offload-param nvme",
    "blocks in turn": f"{Z3} --offload-optimizer host --offload-param host --grad-accumulation 4 --micro-order vertical",
    "gated layers": Z3,
    "a delayed update": f"{Z3} --offload-optimizer host --delay-update",
    "tensor parallelism": "--world-size 4 --tensor-parallel 2 --sequence-parallel --zero-stage 1",
    "ZeRO++": "--world-size 8 --ranks-per-node 2 --zero-stage 3 --quantize-weights int8 --quantize-gradients int4 --hierarchical --hierarchical-collectives",
    "fusion and views": f"{Z3} --fuse on --views on",
    "evaluation beside": f"{Z3} --with-eval",
    "forward only": "--forward-only",
    "layers without a period": "--checkpoint-activations block",
    "a value that all layers add": "--checkpoint-activations selective",
}
MODELS = {"gated layers": "--llama"}  # GPT-2's else


def without_period(graph, layers):
    """Products with functions between them, of which no order repeats."""
    draw, h = random.Random(1), graph.op("Tanh", ["x"])
    for _ in range(layers):
        h = graph.op("MatMul", [graph.op(draw.choice(("Tanh", "Sigmoid", "Relu", "Softplus")), [graph.op("MatMul", [h, "w1"])]), "w2"])
    return h


def added(graph, layers):
    first = h = graph.op("Relu", [graph.op("MatMul", [graph.op("MatMul", ["x", "w1"]), "w2"])])
    for _ in range(layers):
        h = graph.op("MatMul", [graph.op("Tanh", [graph.op("MatMul", [graph.op("Add", [h, first]), "w1"])]), "w2"])
    return h


# What makes them, and layers: these have few operations each, of which what grows too fast must be seen.
OTHERS = {"layers without a period": (without_period, (1000, 2000, 4000)), "a value that all layers add": (added, (250, 500, 1000))}


def model(layers, kind):
    path = suite.dir / f"{layers}{kind}.onnx"

    def make():
        subprocess.run([sys.executable, ROOT / "test/support/make_gpt.py", path, *f"--seed 0 --layers {layers} --hidden 64 --heads 2 --vocab 256 --seq 16 --batch 2 {kind}".split()],
                       check=True, capture_output=True)
        return path
    return suite.once(path.name, make)


def other(build, layers):
    graph = Graph("layers")
    graph.inputs, graph.outputs = [value_info("x", FLOAT, [4, 16])], [value_info("loss", FLOAT, [])]
    graph.parameter("w1", [16, 32], 0.02), graph.parameter("w2", [32, 16], 0.02)
    graph.op("ReduceMean", [build(graph, layers)], outputs=["loss"], keepdims=0)
    path = suite.dir / f"{build.__name__}{layers}.onnx"
    graph.write(str(path), 0)
    return path


def grows(name):
    if not can_count():
        raise Skip("valgrind is not installed")
    build, counts = OTHERS.get(name, (None, LAYERS))
    models = [other(build, layers) if build else model(layers, MODELS.get(name, "")) for layers in counts]
    few, some, many = (instructions([suite.bin / "zero-compile", path, *FLAGS[name].split(), "-o", "-"]) for path in models)
    growth = (many - some) / (some - few)
    if growth > MOST:
        raise Case(f"{few}, {some}, {many} instructions of {counts} layers: {growth:.3f} times as many more")
    return f"{growth:.3f}, {many / 1e9:.2f} G instructions of {counts[-1]} layers"


suite.run([(name, lambda name=name: grows(name)) for name, in suite.draw([(name,) for name in FLAGS], 2, covering_values=False)])
suite.finish()
