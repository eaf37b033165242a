#!/usr/bin/env python3
"""Makes ONNX Runtime's training artifacts from ts17.onnx, and takes eight AdamW steps with that runtime's own API.

    python ort_artifacts.py [--models FOLDER] [MODEL ...]      # default: mlp gpt2 of this folder

Needs onnxruntime-training 1.19.2 with onnx < 1.17, numpy < 2 and an importable torch.
Writes FOLDER/MODEL/ort/ and adds loss_ort and ort_training to golden.json.
"""

import argparse
import json
import shutil
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnxruntime.training import artifacts
from onnxruntime.training.api import CheckpointState, Module, Optimizer
from safetensors.numpy import load_file

STEPS, BATCH, HALF = 8, 4, 2


OPTIONAL_OUTPUTS = {
    "LayerNormalization": ("mean", "inv_std_dev"),
    "SoftmaxCrossEntropyLoss": ("log_prob",),
}


def complete_optional_outputs(model):
    """ORT's gradient builders read optional outputs that the exporters omit."""
    changed = {}
    for n in model.graph.node:
        if n.op_type in OPTIONAL_OUTPUTS and len(n.output) == 1:
            n.output.extend(f"{n.output[0]}_{suffix}" for suffix in OPTIONAL_OUTPUTS[n.op_type])
            changed[n.op_type] = changed.get(n.op_type, 0) + 1
    return changed


def make_artifacts(folder, golden):
    """-> trained parameters, how many nodes of which operator were completed."""
    out = folder / "ort"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    model = onnx.load(str(folder / "ts17.onnx"))
    changed = complete_optional_outputs(model)
    trainable = [t.name for t in model.graph.initializer if t.name in golden["parameters"]]
    artifacts.generate_artifacts(
        model,
        requires_grad=trainable,
        optimizer=artifacts.OptimType.AdamW,
        artifact_directory=str(out),
    )
    return trainable, changed


def train(folder):
    """Losses of the steps, by ONNX Runtime."""
    out = folder / "ort"
    state = CheckpointState.load_checkpoint(str(out / "checkpoint"))
    module = Module(str(out / "training_model.onnx"), state, str(out / "eval_model.onnx"))
    optimizer = Optimizer(str(out / "optimizer_model.onnx"), module)
    optimizer.set_learning_rate(1e-3)
    data = load_file(str(folder / "inputs.safetensors"))
    order = [i for i in module.input_names() if i in data]
    losses = []
    module.train()
    for step in range(STEPS):
        total = 0.0
        for half in range(BATCH // HALF):
            start = step * BATCH + half * HALF
            total += float(np.asarray(module(*[data[i][start : start + HALF] for i in order]))) * HALF / BATCH
        losses.append(total)
        optimizer.step()
        module.lazy_reset_grad()
    return losses


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="MODEL", default=["mlp", "gpt2"])
    parser.add_argument("--models", type=Path, default=Path(__file__).resolve().parent, help="default: the folder of this script")
    args = parser.parse_args()
    for name in args.names:
        folder = args.models / name
        golden = json.loads((folder / "golden.json").read_text())
        trainable, changed = make_artifacts(folder, golden)
        golden["loss_ort"] = train(folder)
        golden["ort_training"] = {
            "onnxruntime-training": onnxruntime.__version__,
            "onnx": onnx.__version__,
            "source": "ts17.onnx",
            "nodes_given_optional_outputs": changed,
            "optimizer": "AdamWOptimizer lr 1e-3, beta 0.9/0.999, eps 1e-6, weight_decay 0, adam_mode 1",
            "gradient": "SUM over the two half-batches (ORT accumulates without dividing)",
        }
        (folder / "golden.json").write_text(json.dumps(golden, indent=1) + "\n")
        size = sum(f.stat().st_size for f in (folder / "ort").rglob("*") if f.is_file())
        print(name, "trainable", len(trainable), "bytes", size, golden["loss_ort"], flush=True)


if __name__ == "__main__":
    main()
