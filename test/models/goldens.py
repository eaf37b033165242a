"""PyTorch's numbers for a model: losses and norms of eight steps by each rule, in float32 and float64."""

import contextlib
import platform

import numpy as np
import onnx
import onnxruntime as ort
import onnxscript
import torch
import transformers
from torch.overrides import TorchFunctionMode

from specs import BATCH, HALVES, STEPS, batch_norms, fresh, half_batch

REL_TOL = 1e-5
ADAMW = dict(lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01)
SGD = dict(lr=0.1)
CLIP = 0.1


def relative(a, b):
    return abs(a - b) / max(abs(b), 1e-12)


class Promote(TorchFunctionMode):
    """Replace every explicit float32 cast in the model code by float64."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func is torch.Tensor.float:
            func = torch.Tensor.double
        swap = lambda v: torch.float64 if v is torch.float32 else v
        args = tuple(swap(a) for a in args)
        kwargs = {k: swap(v) for k, v in (kwargs or {}).items()}
        return func(*args, **kwargs)


@contextlib.contextmanager
def precision(dtype):
    if dtype == torch.float32:
        yield
        return
    torch.set_default_dtype(dtype)
    try:
        with Promote():
            yield
    finally:
        torch.set_default_dtype(torch.float32)


def global_norm(params):
    return torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(p.grad) for p in params if p.grad is not None]))


class OrtAdamW(torch.optim.Optimizer):
    """The rule of ONNX Runtime's training artifacts: adam_mode 1, eps 1e-6 beside the uncorrected sqrt(v), no decay."""

    def __init__(self, params):
        super().__init__(params, {})

    @torch.no_grad()
    def step(self):
        for p in (p for g in self.param_groups for p in g["params"] if p.grad is not None):
            s = self.state[p]
            s["t"] = s.get("t", 0) + 1
            s["m"] = 0.9 * s.get("m", torch.zeros_like(p)) + 0.1 * p.grad
            s["v"] = 0.999 * s.get("v", torch.zeros_like(p)) + 0.001 * p.grad**2
            rate = 1e-3 * (1 - 0.999 ** s["t"]) ** 0.5 / (1 - 0.9 ** s["t"])
            p.sub_(rate * s["m"] / (s["v"].sqrt() + 1e-6))


OPTIMIZERS = {
    "adamw": lambda params: torch.optim.AdamW(params, foreach=False, **ADAMW),
    "sgd": lambda params: torch.optim.SGD(params, foreach=False, **SGD),
    "ort": OrtAdamW,
}


def trajectory(spec, inputs, kind, dtype, clip=None):
    wrapper = fresh(spec, inputs).to(dtype)
    params = dict(wrapper.named_parameters())
    optimizer = OPTIMIZERS[kind](list(params.values()))
    divisor = 1 if kind == "ort" else HALVES  # ORT sums the gradients it accumulates
    losses, norms, first, none = [], [], {}, []
    for step in range(STEPS):
        optimizer.zero_grad(set_to_none=True)
        total = 0.0
        for half in range(HALVES):
            with precision(dtype):
                loss = wrapper(*half_batch(inputs, step, half, dtype))
            assert loss.dtype == dtype and loss.dim() == 0, (loss.dtype, loss.shape)
            (loss / divisor).backward()
            total += loss.item() / HALVES
        losses.append(total)
        norms.append(global_norm(params.values()).item())
        if step == 0:
            none = [n for n, p in params.items() if p.grad is None]
            first = {
                n: {"l2": torch.linalg.vector_norm(p.grad).item(), "first4": p.grad.flatten()[:4].tolist()}
                for n, p in params.items()
                if p.grad is not None
            }
        if clip is not None:
            torch.nn.utils.clip_grad_norm_(params.values(), clip)
        optimizer.step()
    final = {n: torch.linalg.vector_norm(p.detach()).item() for n, p in params.items()}
    return dict(loss=losses, norm=norms, first=first, none=none, final=final)


def directional_derivative_error(spec, inputs):
    """Autograd against a central difference, f64: shows that no gradient is cut in the model."""
    wrapper = fresh(spec, inputs).double()
    params = [p for p in wrapper.parameters()]
    batch = half_batch(inputs, 0, 0, torch.float64)
    with precision(torch.float64):
        wrapper(*batch).backward()
    grads = [torch.zeros_like(p) if p.grad is None else p.grad.clone() for p in params]
    norm = torch.sqrt(sum((g * g).sum() for g in grads))
    start = {k: v.clone() for k, v in wrapper.state_dict().items()}
    errors = []
    for eps in (1e-5, 1e-6, 1e-7, 1e-8):  # kinks and curvature fade with eps, rounding grows
        values = []
        for sign in (1, -1):
            wrapper.load_state_dict(start)
            with torch.no_grad():
                for p, g in zip(params, grads):
                    p.add_(g / norm, alpha=sign * eps)
                with precision(torch.float64):
                    values.append(wrapper(*batch).item())
        errors.append(abs((values[0] - values[1]) / (2 * eps) / norm.item() - 1))
    return min(errors)


def batch_norm_state(spec, inputs):
    """BatchNorm buffers after 0, 1 and 2 forwards on step 0, half 0 (see README: what ts17.onnx stores)."""
    wrapper = fresh(spec, inputs)
    norms = batch_norms(wrapper)
    states = {}
    for count in range(3 if norms else 0):
        if count:
            wrapper(*half_batch(inputs, 0, 0))
        states[str(count)] = {
            n: {"running_mean_first4": m.running_mean[:4].tolist(), "running_var_first4": m.running_var[:4].tolist()}
            for n, m in norms.items()
        }
    return states


def aliases(wrapper):
    """{alias: canonical name} of tied parameters."""
    canonical = {id(p): n for n, p in wrapper.named_parameters()}
    named = wrapper.named_parameters(remove_duplicate=False)
    return {n: canonical[id(p)] for n, p in named if canonical[id(p)] != n}


def golden(name, spec, inputs):
    adamw = trajectory(spec, inputs, "adamw", torch.float32)
    adamw64 = trajectory(spec, inputs, "adamw", torch.float64)
    sgd = trajectory(spec, inputs, "sgd", torch.float32)
    sgd64 = trajectory(spec, inputs, "sgd", torch.float64)
    ort64 = trajectory(spec, inputs, "ort", torch.float64)
    clip = trajectory(spec, inputs, "adamw", torch.float32, CLIP)
    clip64 = trajectory(spec, inputs, "adamw", torch.float64, CLIP)
    wrapper = fresh(spec, inputs)
    wrapper64 = fresh(spec, inputs).double()
    with torch.no_grad():
        first32 = fresh(spec, inputs)(*half_batch(inputs, 0, 0)).item()
        with precision(torch.float64):
            first64 = wrapper64(*half_batch(inputs, 0, 0, torch.float64)).item()
    assert relative(first32, first64) < REL_TOL, (first32, first64)
    spread, reliable = {}, {}
    for label, a, b in (("adamw", adamw, adamw64), ("sgd", sgd, sgd64), ("adamw_clip", clip, clip64)):
        for kind in ("loss", "norm"):
            spread[f"{label}_{kind}"] = max(map(relative, a[kind], b[kind]))
        agree = [relative(*l) <= 1e-5 and relative(*n) <= 1e-4 for l, n in zip(zip(a["loss"], b["loss"]), zip(a["norm"], b["norm"]))]
        reliable[label] = (agree + [False]).index(False)
    return {
        "model": name,
        "config": spec.build.config,
        "versions": versions(),
        "layout": {
            "steps": STEPS,
            "global_batch": BATCH,
            "halves": HALVES,
            "rows": "step s, half h uses rows [4s+2h, 4s+2h+2) of every array in inputs.safetensors",
            "gradient": "mean of the two half-batch gradients; reported loss = mean of the two half-batch losses",
            "batch_norm": "each half uses its own batch statistics",
        },
        "hyper": {
            "adamw": dict(ADAMW, decoupled=True, all_parameters=True),
            "sgd": dict(SGD, momentum=0.0, weight_decay=0.0),
            "clip": {"max_norm": CLIP, "coefficient": "min(1, max_norm / (norm + 1e-6)), on the mean gradient"},
        },
        "parameters": {n: list(p.shape) for n, p in wrapper.named_parameters()},
        "tied": aliases(wrapper),
        "no_grad_parameters": adamw["none"],
        "loss_first_half": first32,
        "loss_first_half_f64": first64,
        "loss_sgd": sgd["loss"],
        "loss_sgd_f64": sgd64["loss"],
        "loss_adamw": adamw["loss"],
        "loss_adamw_f64": adamw64["loss"],
        "loss_adamw_clip": clip["loss"],
        "loss_adamw_clip_f64": clip64["loss"],
        "loss_adamw_ort_rules_f64": ort64["loss"],
        "grad_norm": adamw["norm"],
        "grad_norm_f64": adamw64["norm"],
        "grad_norm_sgd": sgd["norm"],
        "grad_norm_sgd_f64": sgd64["norm"],
        "grad_norm_adamw_clip": clip["norm"],
        "grad_norm_adamw_clip_f64": clip64["norm"],
        "step0_grad": adamw["first"],
        "step0_grad_f64": adamw64["first"],
        "final_param_l2_adamw_f64": adamw64["final"],
        "batch_norm_after_forwards": batch_norm_state(spec, inputs),
        "f32_against_f64_max_rel": spread,
        "reliable_steps": reliable,
        "directional_derivative_error_f64": directional_derivative_error(spec, inputs),
    }


def versions():
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "onnx": onnx.__version__,
        "onnxscript": onnxscript.__version__,
        "onnxruntime": ort.__version__,
        "numpy": np.__version__,
    }
