#!/usr/bin/env python3
"""Losses and gradient norms of every golden export against PyTorch's, within 1e-5 relative: two ranks, and one rank with two
micro-steps; sgd, adamw, adamw with clipping; the ZeRO stages take turns. The dynamic exports run at other batches and
another length as well, where the same tokens must give the same losses however they are cut."""
import itertools, json, pathlib, sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from e2e import Case, MODELS, Suite, close

OPTIMIZERS = {  # flags, keys of golden.json: loss, norm, reliable steps
    "sgd": (["--optimizer", "sgd", "--lr", "0.1"], "loss_sgd", "grad_norm_sgd", "sgd"),
    "adamw": (["--optimizer", "adamw", "--lr", "1e-3", "--weight-decay", "0.01"], "loss_adamw", "grad_norm", "adamw"),
    "clip": (["--optimizer", "adamw", "--lr", "1e-3", "--weight-decay", "0.01", "--clip-grad-norm", "0.1"],
             "loss_adamw_clip", "grad_norm_adamw_clip", "adamw_clip"),
}

suite = Suite(__doc__)


def golden(model, export, optimizer, world, accumulation, stage):
    flags, loss, norm, reliable = OPTIMIZERS[optimizer]
    folder = suite.models / model
    expected = json.loads((folder / "golden.json").read_text())
    name = f"{model}-{export}-{optimizer}-w{world}"
    dims = ["--dim", "batch=2", "--dim", "seq=16"] if export.endswith("_dynbatch") else []
    plan = suite.compile(folder / f"{export}.onnx", suite.dir / f"{name}.plan", "--world-size", world,
                         "--grad-accumulation", accumulation, "--zero-stage", stage, *dims, *flags)
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


cases = []
stages = itertools.cycle(range(4))
for model in MODELS:
    for export in suite.exports(model):
        for optimizer in OPTIMIZERS:
            stage = next(stages)
            for world, accumulation in ((2, 1), (1, 2)):
                arguments = (model, export, optimizer, world, accumulation, stage)
                cases.append(("{}/{} {} W={} G={} stage {}".format(*arguments), lambda a=arguments: golden(*a)))
for export in suite.exports("gpt2"):
    if export.endswith("_dynbatch"):
        cases.append((f"gpt2/{export} batches 1, 2, 4, seq 24", lambda e=export: cuts(e)))
suite.run(cases)
suite.finish()
