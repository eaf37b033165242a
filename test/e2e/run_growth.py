#!/usr/bin/env python3
"""Compiling takes work in proportion to the model: instructions, which valgrind counts and no other program on the machine changes. Between
100 and 200 layers there are twice as many as between 50 and 100, and what any compilation begins with is in neither. A scan of all
operations for each of them shows long before it takes most of the time: at 2.08, when it is a twentieth of 200 layers' work."""
import pathlib, subprocess, sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from e2e import ROOT, Case, Skip, Suite
from instructions import can_count, instructions

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
}
MODELS = {"gated layers": "--llama"}  # GPT-2's else


def model(layers, kind):
    path = suite.dir / f"{layers}{kind}.onnx"

    def make():
        subprocess.run([sys.executable, ROOT / "test/support/make_gpt.py", path, *f"--seed 0 --layers {layers} --hidden 64 --heads 2 --vocab 256 --seq 16 --batch 2 {kind}".split()],
                       check=True, capture_output=True)
        return path
    return suite.once(path.name, make)


def grows(name):
    if not can_count():
        raise Skip("valgrind is not installed")
    few, some, many = (instructions([suite.bin / "zero-compile", model(layers, MODELS.get(name, "")), *FLAGS[name].split(), "-o", "-"]) for layers in LAYERS)
    growth = (many - some) / (some - few)
    if growth > MOST:
        raise Case(f"{few}, {some}, {many} instructions of {LAYERS} layers: {growth:.3f} times as many more")
    return f"{growth:.3f}, {many / 1e9:.2f} G instructions of {LAYERS[-1]} layers"


suite.run([(name, lambda name=name: grows(name)) for name, in suite.draw([(name,) for name in FLAGS], 2, covering_values=False)])
suite.finish()
