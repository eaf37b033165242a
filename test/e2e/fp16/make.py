#!/usr/bin/env python3
"""Makes golden.json: training in half precision in PyTorch, with DeepSpeed's dynamic loss scale, on the fixtures' models and data.

    python make.py FOLDER_WITH_MODELS   # with generate.py and what it imports: torch, transformers, onnx, onnxruntime; and deepspeed

Parameters and gradients are float16, the optimizer works on float32 weights, the loss is taken of float32 logits. A step is the
mean of two halves of a batch: of two ranks, whose gradients are added in float32, or of two micro-steps, each halved and then
added in float16. The scale begins so high that gradients overflow, and doubles so soon that they do again. It begins where it is
clear in every step whether it overflows: the largest gradient, as float32 has it, is a twentieth away from the largest float16.
"""
import copy
import json
import pathlib
import re
import sys

shared = pathlib.Path(sys.argv[1]).resolve()
sys.argv = sys.argv[:1]
sys.path.insert(0, str(shared))
import generate as fixtures  # noqa: E402
import torch  # noqa: E402
from deepspeed.runtime.fp16 import loss_scaler  # noqa: E402
from safetensors.torch import load_file  # noqa: E402

loss_scaler.dist.get_rank = lambda: 0  # it logs on rank 0 only
CLIPS = {"adamw": None, "adamw_clip": fixtures.CLIP, "sgd": None}
INITIAL = {"mlp": 2.0**20, "gpt2": 2.0**22, "llama": 2.0**22, "bert": 2.0**21}
WINDOW, HYSTERESIS, STEPS = 3, 2, 16
LARGEST = torch.finfo(torch.float16).max


class WideLoss(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func is torch.nn.functional.cross_entropy:
            args = (args[0].float(), *args[1:])
        return func(*args, **(kwargs or {}))


def gradients(wrapper, batch, scale):
    wrapper.zero_grad(set_to_none=True)
    with WideLoss():
        loss = wrapper(*[fixtures.cast(t, next(wrapper.parameters()).dtype) for t in batch])
    loss.backward(torch.tensor(scale))
    return loss.item(), [p.grad.clone() for p in wrapper.parameters()]


def step_gradients(wrapper, inputs, step, ranks, scale):
    """Mean loss; gradients as the optimizer is given them, times `scale`."""
    halves = [gradients(wrapper, fixtures.half_batch(inputs, step % fixtures.STEPS, h), scale) for h in range(fixtures.HALVES)]
    (a, first), (b, second) = halves
    if ranks == 2:
        return (a + b) / 2, [((x.float() + y.float()) / 2).to(x.dtype) for x, y in zip(first, second)]
    return (a + b) / 2, [x / 2 + y / 2 for x, y in zip(first, second)]


def is_clear(wrapper, inputs, step, ranks, scale, overflow):
    """Whether the halves' and the sum's gradients, in float32, are well on the side of the limit that `overflow` says."""
    wide = copy.deepcopy(wrapper).float()
    largest = 0.0
    for half in range(fixtures.HALVES):
        _, parts = gradients(wide, fixtures.half_batch(inputs, step % fixtures.STEPS, half), scale)
        largest = max(largest, max(g.abs().max().item() for g in parts))
    _, sums = step_gradients(wide, inputs, step, ranks, scale)
    largest = max(largest, max(g.abs().max().item() for g in sums))
    return largest > 1.05 * LARGEST if overflow else largest < 0.95 * LARGEST


def trajectory(model, inputs, rule, ranks, initial):
    """None where a step's overflow is not clear."""
    wrapper = fixtures.fresh(fixtures.MODELS[model], inputs)
    weights = [torch.nn.Parameter(p.detach().clone()) for p in wrapper.parameters()]
    wrapper = wrapper.half()
    optimizer = torch.optim.SGD(weights, **fixtures.SGD) if rule == "sgd" else torch.optim.AdamW(weights, **fixtures.ADAMW)
    scaler = loss_scaler.DynamicLossScaler(initial, WINDOW, 1, HYSTERESIS, False)
    steps = []
    for step in range(STEPS):
        scale = float(scaler.loss_scale)
        loss, grads = step_gradients(wrapper, inputs, step, ranks, scale)
        norm = torch.sqrt(sum((g.double() ** 2).sum() for g in grads)).item() / scale
        overflow = not all(g.isfinite().all() for g in grads)
        if not is_clear(wrapper, inputs, step, ranks, scale, overflow):
            return None
        steps.append({"loss": loss, "grad_norm": None if overflow else norm, "loss_scale": scale, "skipped": overflow})
        if not overflow:
            factor = 1.0 if CLIPS[rule] is None else min(1.0, CLIPS[rule] / (norm + 1e-6))
            for weight, grad in zip(weights, grads):
                weight.grad = grad.float() * (factor / scale)
            optimizer.step()
            with torch.no_grad():
                for parameter, weight in zip(wrapper.parameters(), weights):
                    parameter.copy_(weight)
        scaler.update_scale(overflow)
    names = [name for name, _ in wrapper.named_parameters()]
    return {"initial": initial, "steps": steps, "final_weight_l2": {n: torch.linalg.vector_norm(w.detach()).item() for n, w in zip(names, weights)}}


def golden(model):
    spec, inputs = fixtures.MODELS[model], load_file(shared / model / "inputs.safetensors")
    inputs = {name: inputs[name] for name in spec.inputs(torch.Generator(), 1)}  # in call order
    runs = {}
    for rule in CLIPS:
        for ranks in (1, 2):
            tried = (trajectory(model, inputs, rule, ranks, INITIAL[model] * m) for m in (1, 1.25, 1.5, 1.75, 1.125, 1.375, 1.625))
            runs[f"{rule} W={ranks}"] = next(run for run in tried if run)
    return runs


if __name__ == "__main__":
    goldens = {model: golden(model) for model in INITIAL}
    path = pathlib.Path(__file__).resolve().parent / "golden.json"
    head = {"torch": torch.__version__, "window": WINDOW, "hysteresis": HYSTERESIS, "models": goldens}
    # An object without objects is a line.
    text = re.sub(r"\{\s+([^{}\[\]]*?)\s+\}", lambda m: "{" + re.sub(r"\s*\n\s*", " ", m[1]) + "}", json.dumps(head, indent=1))
    path.write_text(text + "\n")
