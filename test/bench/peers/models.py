"""Nine models of transformers at real sizes, for ../models.py: exported for this project, and trained by torch.
models.py export MODEL FOLDER                writes FOLDER/model.onnx and FOLDER/batch.safetensors; needs this project's python/ and programs
models.py train MODEL fp32|bf16 PEER THREADS answers each "STEPS" on stdin with {"seconds": [...], "losses": [...]}, a number per step, and
                                             goes on from there; PEER: eager compile eager-channels-last compile-channels-last
All of a model are initialised with one seed and train on one batch, without dropout, with AdamW(1e-4, weight decay 0.01)."""

import json, os, sys, tempfile, time, warnings
import torch
from zero_compile import tasks
from zero_compile.exporting import check, export as exporting

# task, batch, sequence length (images: 224 x 224), configuration beside transformers' defaults
MODELS = {
    "gpt2-124m": ("causal-lm", 4, 256, dict(model_type="gpt2")),
    "bert-base": ("masked-lm", 8, 128, dict(model_type="bert")),
    "vit-base": ("image-classification", 8, 0, dict(model_type="vit", num_labels=1000)),
    "llama-110m": ("causal-lm", 4, 256, dict(model_type="llama", hidden_size=768, intermediate_size=2432, num_hidden_layers=12,
                                             num_attention_heads=12, num_key_value_heads=4, tie_word_embeddings=True)),
    "resnet-50": ("image-classification", 8, 0, dict(model_type="resnet", num_labels=1000)),
    "t5-small": ("seq2seq", 8, 128, dict(model_type="t5", decoder_start_token_id=0)),
    "mobilenet-v2": ("image-classification", 8, 0, dict(model_type="mobilenet_v2", tf_padding=False, num_labels=1000)),
    "convnext-tiny": ("image-classification", 8, 0, dict(model_type="convnext", num_labels=1000)),
    # The scan is a loop over the sequence in eager torch, and in every export of it.
    "mamba-130m": ("causal-lm", 2, 64, dict(model_type="mamba", hidden_size=768, num_hidden_layers=24)),
}


def load(name):
    """(model in training mode, task, configuration)"""
    task, _, _, fields = MODELS[name]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "config.json")
        with open(path, "w") as file:
            json.dump(fields, file)
        return tasks.load(path, task, seed=0, dropout=False, notes=lambda text: None)


def batch(name, config, rows=None):
    task, B, length, _ = MODELS[name]
    return tasks.batch(task, config, rows or B, length, image_size=None if length else 224)


def export(name, folder):
    """Traced, and compared with torch, on fewer rows than are trained: the batch is open in the graph."""
    model, task, config = load(name)
    path = os.path.join(folder, "model.onnx")
    exporting.export(model, batch(name, config, 2), path, loss=tasks.forward(model, task), task=task,
                     notes=lambda text: print(f"{name}: {text}", file=sys.stderr))
    check.write_batch(os.path.join(folder, "batch.safetensors"), batch(name, config))


def train(name, dtype, peer, threads):
    """torch's way: attention fused where the model has it so, the optimizer too."""
    torch.set_num_threads(int(threads))
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer
    model, _, config = load(name)
    try:
        model.set_attn_implementation("sdpa")
    except ValueError:
        pass  # it has none, or no other
    inputs = batch(name, config)
    if peer.endswith("channels-last"):
        model = model.to(memory_format=torch.channels_last)
        inputs["pixel_values"] = inputs["pixel_values"].contiguous(memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.01, fused=True)
    loss_of = exporting.wrap(model, list(inputs), None)
    if peer.startswith("compile"):
        loss_of = torch.compile(loss_of)

    def step():
        begin = time.perf_counter()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=dtype == "bf16"):
            loss = loss_of(*inputs.values())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return time.perf_counter() - begin, loss.item()

    for line in sys.stdin:
        seconds, losses = zip(*(step() for _ in range(int(line))))
        print(json.dumps({"seconds": seconds, "losses": losses}), file=answers, flush=True)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    {"export": export, "train": train}[sys.argv[1]](*sys.argv[2:])
