#!/usr/bin/env python3
"""Losses and gradient norms of every golden export against PyTorch's, within 1e-5 relative: two ranks, and one rank with two
micro-steps; sgd, adamw, adamw with clipping; the ZeRO stages take turns, each day others. The dynamic exports run at other batches and
another length as well, where the same tokens must give the same losses however they are cut. Vision models: exports of
batch norm in evaluation mode are trained under --batch-norm train; running statistics are PyTorch's; stages 0 and 3 give the
same bits."""
import itertools, json, pathlib, struct, sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from e2e import Case, MODELS, SEED, Suite, close, same

OPTIMIZERS = {  # flags, keys of golden.json: loss, norm, reliable steps
    "sgd": (["--optimizer", "sgd", "--lr", "0.1"], "loss_sgd", "grad_norm_sgd", "sgd"),
    "adamw": (["--optimizer", "adamw", "--lr", "1e-3", "--weight-decay", "0.01"], "loss_adamw", "grad_norm", "adamw"),
    "clip": (["--optimizer", "adamw", "--lr", "1e-3", "--weight-decay", "0.01", "--clip-grad-norm", "0.1"],
             "loss_adamw_clip", "grad_norm_adamw_clip", "adamw_clip"),
}

VISION = ("resnet", "vit")
FLAGS = {  # what an export needs to be the model in PyTorch
    ("resnet", "dynamo18"): ["--batch-norm", "train"],
    ("resnet", "dynamo23"): ["--batch-norm", "train"],
}

suite = Suite(__doc__)


def golden(model, export, optimizer, world, accumulation, stage):
    flags, loss, norm, reliable = OPTIMIZERS[optimizer]
    folder = suite.models / model
    expected = json.loads((folder / "golden.json").read_text())
    name = f"{model}-{export}-{optimizer}-w{world}"
    dims = ["--dim", "batch=2", "--dim", "seq=16"] if export.endswith("_dynbatch") else []
    plan = suite.compile(folder / f"{export}.onnx", suite.dir / f"{name}.plan", "--world-size", world, "--grad-accumulation",
                         accumulation, "--zero-stage", stage, *dims, *flags, *FLAGS.get((model, export), []))
    metrics = suite.train(plan, suite.dir / name, "-n", world, "--data", folder / "inputs.safetensors", "--steps", 8)
    steps = expected["reliable_steps"][reliable]
    worst = close("loss", [m["loss"] for m in metrics][:steps], expected[loss][:steps], 1e-5)
    worst_norm = close("grad_norm", [m["grad_norm"] for m in metrics][:steps], expected[norm][:steps], 1e-5)
    return f"loss {worst:.1e}, norm {worst_norm:.1e}"


def cuts(export):
    """Four samples of 24 tokens per step as 1 x 4, 2 ranks x 2, 4 micro-steps x 1."""
    text = suite.dir / f"{export}.txt"
    text.write_bytes(bytes((i * i * 7 + i) % 97 for i in range(2000)))
    losses = {}
    for batch, world, accumulation in ((4, 1, 1), (2, 2, 1), (1, 1, 4)):
        name = f"cut-{export}-{batch}"
        plan = suite.compile(suite.models / "gpt2" / f"{export}.onnx", suite.dir / f"{name}.plan", "--dim", f"batch={batch}",
                             "--dim", "seq=24", "--world-size", world, "--grad-accumulation", accumulation, "--lr", "1e-2")
        metrics = suite.train(plan, suite.dir / name, "-n", world, "--tokens", text, "--byte-level", "--steps", 6)
        losses[batch] = [m["loss"] for m in metrics]
    if not losses[4][-1] < losses[4][0]:
        raise Case(f"the loss does not fall: {losses[4]}")
    return f"{max(close('loss', losses[b], losses[4], 1e-5) for b in (2, 1)):.1e}"


def stage_bits(model, export):
    """Losses and trained weights, running statistics too, at stages 0 and 3."""
    runs = []
    for stage in (0, 3):
        name = f"bits-{model}-{export}-{stage}"
        plan = suite.compile(suite.models / model / f"{export}.onnx", suite.dir / f"{name}.plan", "--world-size", 2, "--zero-stage",
                             stage, *FLAGS.get((model, export), []))
        metrics = suite.train(plan, suite.dir / name, "-n", 2, "--data", suite.models / model / "inputs.safetensors", "--steps", 4)
        weights = suite.dir / f"{name}.safetensors"
        suite.tool("zero-run", "export", suite.dir / name / "final", "--safetensors", weights)
        runs.append(([(m["loss"], m["grad_norm"]) for m in metrics], weights.read_bytes()))
    same("losses and norms of stage 3", runs[1][0], runs[0][0])
    same("weights of stage 3", runs[1][1], runs[0][1])


def tensors(path):
    data = path.read_bytes()
    header = int.from_bytes(data[:8], "little")
    table = json.loads(data[8:8 + header])
    return {name: struct.unpack(f"<{(entry['data_offsets'][1] - entry['data_offsets'][0]) // 4}f",
                                data[8 + header + entry["data_offsets"][0]:8 + header + entry["data_offsets"][1]])
            for name, entry in table.items() if name != "__metadata__" and entry["dtype"] == "F32"}


def running_statistics(export, world, state):
    """After one step, whose first two rows are rank 0's, the statistics that PyTorch has after `state` forwards."""
    name = f"statistics-{export}-{world}"
    folder = suite.models / "resnet"
    plan = suite.compile(folder / f"{export}.onnx", suite.dir / f"{name}.plan", "--world-size", world, "--zero-stage", 3,
                         *FLAGS.get(("resnet", export), []))
    suite.train(plan, suite.dir / name, "-n", world, "--data", folder / "inputs.safetensors", "--steps", 1)
    suite.tool("zero-run", "export", suite.dir / name / "final", "--safetensors", suite.dir / f"{name}.safetensors")
    got = tensors(suite.dir / f"{name}.safetensors")
    expected = json.loads((folder / "golden.json").read_text())["batch_norm_after_forwards"][state]
    worst = 0.0
    for module, buffers in expected.items():
        for statistic in ("running_mean", "running_var"):
            for a, b in zip(got[f"{module}.{statistic}"], buffers[f"{statistic}_first4"]):
                worst = max(worst, abs(a - b))
                if not abs(a - b) <= 1e-6 + 1e-5 * abs(b):
                    raise Case(f"{module}.{statistic}: {a} instead of {b}")
    return f"{worst:.1e}"


EXPORTS = [(model, export) for model in (*MODELS, *VISION)
           for export in (*suite.exports(model), *(e for m, e in FLAGS if m == model and e not in suite.exports(model)))]
cases = []
for number, (export, optimizer, (world, accumulation)) in enumerate(itertools.product(EXPORTS, OPTIMIZERS, ((2, 1), (1, 2)))):
    arguments = (*export, optimizer, world, accumulation, (SEED + number // 2) % 4)
    cases.append(("{}/{} {} W={} G={} stage {}".format(*arguments), lambda a=arguments: golden(*a)))
for export in suite.exports("gpt2"):
    if export.endswith("_dynbatch"):
        cases.append((f"gpt2/{export} batches 1, 2, 4, seq 24", lambda e=export: cuts(e)))
for model in VISION:
    for export in ("ts17", "dynamo18"):
        cases.append((f"{model}/{export} stages 0 and 3, the same bits", lambda a=(model, export): stage_bits(*a)))
for arguments in (("ts17", 1, "2"), ("ts17", 2, "2"), ("dynamo18", 1, "1"), ("dynamo23", 2, "1")):
    cases.append(("resnet/{} W={} running statistics".format(*arguments), lambda a=arguments: running_statistics(*a)))
suite.run(cases)
suite.finish()
