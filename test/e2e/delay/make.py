#!/usr/bin/env python3
"""Makes golden.json: losses and norms of a one-step delayed update in PyTorch (ZeRO-Offload, arXiv 2101.06840, section 5.2),
on the fixtures' models and data.

    python make.py FOLDER_WITH_MODELS        # with generate.py and what it imports: torch, transformers, onnx, onnxruntime

Forward and backward of step t compute with parameters that have the gradients of steps 1 to t-2; the optimizer goes on with
weights of its own, which have them all. The first `after` steps are ordinary: their result becomes the parameters at once. A step
is the mean of two halves of a batch (two ranks, or two micro-steps). The plain f32 trajectory is compared with the fixtures'.
"""
import json
import pathlib
import sys

shared = pathlib.Path(sys.argv[1]).resolve()
sys.path.insert(0, str(shared))
import generate as fixtures  # noqa: E402
import torch  # noqa: E402
from safetensors.torch import load_file  # noqa: E402

RULES = {"adamw": None, "adamw_clip": fixtures.CLIP, "sgd": None}
NEVER = fixtures.STEPS + 1  # delayed after more steps than there are


def trajectory(spec, inputs, rule, after, dtype):
    wrapper = fixtures.fresh(spec, inputs).to(dtype)
    parameters = [p for p in wrapper.parameters()]  # what forward and backward see
    weights = [torch.nn.Parameter(p.detach().clone()) for p in parameters]  # what the optimizer works on
    optimizer = torch.optim.SGD(weights, **fixtures.SGD) if rule == "sgd" else torch.optim.AdamW(weights, **fixtures.ADAMW)
    losses, norms = [], []
    for step in range(1, fixtures.STEPS + 1):
        wrapper.zero_grad(set_to_none=True)
        total = 0.0
        for half in range(fixtures.HALVES):
            with fixtures.precision(dtype):
                loss = wrapper(*fixtures.half_batch(inputs, step - 1, half, dtype))
            (loss / fixtures.HALVES).backward()
            total += loss.item() / fixtures.HALVES
        losses.append(total)
        norms.append(fixtures.global_norm(parameters).item())
        before = [w.detach().clone() for w in weights]
        for weight, parameter in zip(weights, parameters):
            weight.grad = parameter.grad
        if RULES[rule] is not None:
            torch.nn.utils.clip_grad_norm_(weights, RULES[rule])
        optimizer.step()
        with torch.no_grad():
            for parameter, old, new in zip(parameters, before, weights):
                parameter.copy_(new if step <= after else old)
    names = [name for name, _ in wrapper.named_parameters()]
    return losses, norms, {n: torch.linalg.vector_norm(w.detach()).item() for n, w in zip(names, weights)}


def golden(model):
    spec, inputs = fixtures.MODELS[model], load_file(shared / model / "inputs.safetensors")
    inputs = {name: inputs[name] for name in spec.inputs(torch.Generator(), 1)}  # in call order
    fixture = json.loads((shared / model / "golden.json").read_text())
    entry = {}
    for rule in RULES:
        plain = trajectory(spec, inputs, rule, NEVER, torch.float32)
        expected = fixture[f"loss_{rule}"]
        assert all(fixtures.relative(a, b) <= 1e-6 for a, b in zip(plain[0], expected)), (model, rule, plain[0], expected)
        for after in (0, 2):
            loss, norm, _ = trajectory(spec, inputs, rule, after, torch.float32)
            loss64, norm64, final64 = trajectory(spec, inputs, rule, after, torch.float64)
            agree = [fixtures.relative(a, b) <= 1e-5 and fixtures.relative(c, d) <= 1e-4
                     for a, b, c, d in zip(loss, loss64, norm, norm64)]
            assert all(agree) and loss != plain[0], (model, rule, after, agree)
            entry[f"{rule} after {after}"] = {"loss": loss, "grad_norm": norm, "final_weight_l2_f64": final64}
    return entry


if __name__ == "__main__":
    goldens = {model: golden(model) for model in ("mlp", "gpt2")}
    path = pathlib.Path(__file__).resolve().parent / "golden.json"
    path.write_text(json.dumps({"torch": torch.__version__, "models": goldens}, indent=1) + "\n")
