#!/usr/bin/env python3
"""Models with one to three things changed (test/support/onnx_mutate.py), of ONNX's node tests with a loss and parameters and of the exports in
test/models: compiled, or refused by one message with a code that says why; never a crash, a hang or an internal error. ZC_MUTATIONS: how many
(400; with test/run.sh --full 6,000); ZC_MUTATIONS_SEED: the first one's seed (0), of which every other is counted on."""
import os, pathlib, random, resource, subprocess, sys, tarfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from e2e import ROOT, Case, Suite
import onnx_mutate

suite = Suite(__doc__)
COUNT, FIRST = int(os.environ.get("ZC_MUTATIONS", "6000" if os.environ.get("ZC_FULL") else "400")), int(os.environ.get("ZC_MUTATIONS_SEED", "0"))
GROUP = 50  # of a case
REFUSED = (2, 3, 4, 5, 10)


def node_tests():
    with tarfile.open(ROOT / "test/conformance/onnx/node-tests-1.22.tar.xz") as archive:
        return {member.name: archive.extractfile(member).read() for member in archive if member.name.endswith("/model.onnx")}


NODES = node_tests()
NAMES = sorted(NODES)
EXPORTS = sorted(path for path in suite.models.glob("*/*.onnx") if path.stat().st_size < 400_000)
OPERATORS = sorted({op for content in NODES.values() for node in onnx_mutate.Message("Model", content).all() if node.kind == "Node"
                    for op in node.of(onnx_mutate.NODE_OP)})


def mutated(seed):
    """-> name, bytes, flags."""
    choose = random.Random(seed)
    if choose.random() < 0.15:
        name = choose.choice(EXPORTS)
        return name, *onnx_mutate.mutate(name.read_bytes(), seed, OPERATORS), ["--dim", "batch=2"]
    name = choose.choice(NAMES)
    content, told = onnx_mutate.mutate(onnx_mutate.with_parameters(NODES[name]), seed, OPERATORS)
    outputs = [value.of(1) for graph in onnx_mutate.Message("Model", content).of(7) for field, _, value in graph.fields
               if field == 12 and isinstance(value, onnx_mutate.Message)]
    output = outputs[0][0].decode(errors="replace").replace("\0", "") if outputs and outputs[0] else "y"
    return name, content, told, ["--trainable", "*", "--loss-op", f"mse:{output}:target_"]


def limits():
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (16 << 30, 16 << 30))


def compiles(seeds):
    def run():
        codes = {}
        for seed in seeds:
            name, content, told, flags = mutated(seed)
            path = suite.dir / f"{seed}.onnx"
            path.write_bytes(content)
            done = subprocess.run([suite.bin / "zero-compile", path, "--dry-run", *flags], capture_output=True, text=True, errors="replace",
                                  timeout=120, preexec_fn=limits)
            codes[done.returncode] = codes.get(done.returncode, 0) + 1
            if done.returncode != 0 and (done.returncode not in REFUSED or done.stderr.count("error[Z") < 1):
                raise Case(f"seed {seed}, {name}, {', '.join(told)} changed: exit code {done.returncode}: {done.stderr[-500:]}")
            path.unlink()
        return " ".join(f"{code}: {count}" for code, count in sorted(codes.items()))

    return f"seeds {seeds[0]} to {seeds[-1]}", run


suite.run([compiles(range(first, min(first + GROUP, FIRST + COUNT))) for first in range(FIRST, FIRST + COUNT, GROUP)])
suite.finish()
