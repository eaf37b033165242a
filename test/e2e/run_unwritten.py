#!/usr/bin/env python3
"""Nothing is made of memory that nobody wrote: runs have the same bits where new memory is full of NaN, or of large numbers, as where the system
zeroes it. What is only multiplied by zero is seen by the one, what is added by both."""
import json, pathlib, sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "compiler" / "import" / "Inputs"))
from e2e import Case, Suite, same, write_safetensors  # noqa: E402
from model import f, linear, node  # noqa: E402
from onnx_write import FLOAT, tensor  # noqa: E402

suite = Suite(__doc__)
FILLS = (255, 90)  # NaN, and 1.5e16 or (in 16 bits) as large


def filled(fill):
    """The environment of a program whose new memory is full of that byte; None: of the system's zeros."""
    library = next(suite.bin.parent.rglob("libfill_memory.so"), None)
    if library is None:
        raise Case("libfill_memory.so is not built")
    return {} if fill is None else {"LD_PRELOAD": str(library), "ZC_FILL": str(fill)}


def bits(plan, data, name, fill, world):
    out = suite.dir / f"{name}-{fill}"
    suite.tool("zero-run", plan, "-n", world, "--data", data, "--steps", 2, "--quiet", "--threads", 2, "--out", out, environment=filled(fill))
    suite.tool("zero-run", "export", out / "final", "--safetensors", out / "w.safetensors")
    return [json.loads(line)["loss"] for line in (out / "metrics.jsonl").read_text().splitlines()], (out / "w.safetensors").read_bytes()


def unwritten(name, path, data, world, *flags):
    plan = suite.compile(path, suite.dir / f"{name}.plan", "--world-size", world, *flags)
    losses, weights = bits(plan, data, name, None, world)
    for fill in FILLS:
        got = bits(plan, data, name, fill, world)
        same(f"losses, memory full of {fill}", got[0], losses)
        same(f"weights, memory full of {fill}", got[1], weights)


def is_seen():
    """That memory is full of something: a run's own has as many pages from the start."""
    plan = suite.compile(suite.models / "mlp/ts17.onnx", suite.dir / "seen.plan")
    resident = []
    for fill in (None, 255):
        out = suite.dir / f"seen-{fill}"
        told = suite.tool("zero-run", plan, "--data", suite.models / "mlp/inputs.safetensors", "--steps", 1, "--quiet", "--no-final", "--out", out,
                          environment=filled(fill))
        resident.append(json.loads(told.splitlines()[-1])["resident_memory"])
    if not resident[1] > resident[0]:
        raise Case(f"{resident} bytes")


def narrowing(channels):
    """Convolutions down to images of one element, whose windows see padding more than anything else; and of a volume."""
    path, data = suite.dir / f"narrow{channels}.onnx", suite.dir / f"narrow{channels}.safetensors"
    if path.exists():
        return path, data
    value = lambda i: ((i * 37) % 101 - 50) / (25 * channels)  # noqa: E731
    weights, nodes, last = [], [], "x"
    for k, (inner, dims) in enumerate([(3, 2), (channels, 2), (channels, 2), (channels, 2), (channels, 2)]):
        shape = [channels, inner] + [3] * dims
        count = channels * inner * 3 ** dims
        weights.append(tensor(shape, FLOAT, [value(i) for i in range(count)], f"c{k}.weight"))
        nodes += [node("Conv", [last, f"c{k}.weight"], [f"h{k}"], f"/c{k}", strides=[2, 2], pads=[1, 1, 1, 1]), node("Tanh", [f"h{k}"], [f"t{k}"], f"/t{k}")]
        last = f"t{k}"
    weights.append(tensor([16, 16, 3, 3, 3], FLOAT, [value(i) for i in range(16 * 16 * 27)], "v.weight"))
    nodes += [node("Conv", ["z", "v.weight"], ["u"], "/v", strides=[2, 2, 2], pads=[1] * 6), node("ReduceMean", ["u"], ["a"], "/a", keepdims=0),
              node("ReduceMean", [last], ["b"], "/b", keepdims=0), node("Add", ["a", "b"], ["loss"], "/loss")]
    path.write_bytes(linear(nodes=nodes, inputs=[f("x", 2, 3, 16, 8), f("z", 2, 16, 3, 3, 3)], initializers=weights))
    write_safetensors(data, {"x": ("F32", [4, 3, 16, 8], [value(i) * channels for i in range(4 * 3 * 128)]),
                             "z": ("F32", [4, 16, 3, 3, 3], [value(i) * channels for i in range(4 * 16 * 27)])})
    return path, data


cases = [("memory is filled", is_seen)]
for precision in ("fp32", "bf16", "fp16"):
    cases += [(f"{model} {precision}", lambda model=model, precision=precision: unwritten(f"{model}-{precision}", suite.models / model / "ts17.onnx",
                                                                                       suite.models / model / "inputs.safetensors", 1, "--precision", precision))
              for model in ("gpt2", "bert", "llama", "vit", "resnet")]
for channels in (16, 64):
    narrowing(channels)
    cases += [(f"narrow images of {channels} channels, {precision}", lambda channels=channels, precision=precision: unwritten(f"narrow{channels}-{precision}", *narrowing(channels), 1,
                                                                                                                        "--precision", precision)) for precision in ("fp32", "bf16")]
cases += [("gpt2 over ranks, all on the host", lambda: unwritten("ranks", suite.models / "gpt2/ts17.onnx", suite.models / "gpt2/inputs.safetensors", 2, "--zero-stage", 3,
                                                                 "--precision", "bf16", "--offload-optimizer", "host", "--offload-param", "host"))]
suite.run(cases)
suite.finish()
