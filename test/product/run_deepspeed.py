#!/usr/bin/env python3
"""--config as DeepSpeed's tutorials have it, trained: losses and rates step by step against torch's optimizers and DeepSpeed's formulas
of the rate (runtime/lr_schedules.py of 0.19), or refused with exit code 4. None trains otherwise without a word."""
import json, math

from product import expect, needs, quiet_torch, silent, suite

needs("torch", "onnx")
from e2e import close

torch = quiet_torch()
import zero_compile
from zero_compile.exporting import check

suite = suite(__doc__)
STEPS, ROWS, WIDTH, CLASSES = 12, 2, 12, 7


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm, self.last = torch.nn.Linear(WIDTH, 24), torch.nn.LayerNorm(24), torch.nn.Linear(24, CLASSES)

    def forward(self, x, labels):
        return torch.nn.functional.cross_entropy(self.last(self.norm(torch.tanh(self.first(x)))), labels)


def make():
    torch.manual_seed(3)
    return Model()


def data(samples):
    """Something to be learned: which of a few directions a vector lies in most."""
    generator = torch.Generator().manual_seed(4)
    x, directions = torch.randn(samples, WIDTH, generator=generator), torch.randn(WIDTH, CLASSES, generator=generator)
    return {"x": x, "labels": (x @ directions).argmax(1)}


# Shares of the way from the least rate to the full one; `n` counts the scheduler's steps from 0: one after each step of the optimizer, so
# that a run's first step has n = -1, before its first.
def rise(n, warmup, kind):
    warmup = max(2, warmup)
    return 1.0 if n >= warmup else math.log(n + 1) / math.log(warmup) if kind == "log" else n / warmup


def warmup_lr(least, most, warmup, kind="log"):
    return lambda n: least if n < 0 else least + (most - least) * rise(n, warmup, kind)


def warmup_decay_lr(least, most, warmup, total, kind="log"):
    fall = lambda n: max(0.0, (total - n) / max(1.0, total - max(2, warmup)))
    return lambda n: least if n < 0 else least + (most - least) * (rise(n, warmup, kind) if n < max(2, warmup) else fall(n))


def warmup_cosine_lr(full, total, warmup, kind="log", start=0.0, end=0.0001):
    warmup = max(2, warmup)

    def rate(n):
        if n < 0:
            return 0.0
        if n < warmup:
            return full * (start + (1 - start) * rise(n, warmup, kind))
        done = min(1.0, (n - warmup + 1) / max(1, total - warmup))
        return full * max(0.0, end + (1 - end) * (1 + math.cos(math.pi * done)) / 2)
    return rate


def one_cycle(least, most, up, down, every, fall):
    def rate(n):
        if n < up + down:  # a cycle's step k ends at k + 1
            at = n + 1
            share = at / up if at <= up else max(0.0, 1 - (at - up) / down)
            return least + (most - least) * share
        return least / (1 + fall * (n - up - down + 1) / every) if every else least
    return rate


def constant(rate):
    return lambda n: rate


ADAM = lambda parameters, rate: torch.optim.AdamW(parameters, lr=rate, weight_decay=0.0)
MEGATRON = {"type": "Adam", "params": {"lr": 0.015, "betas": [0.9, 0.95], "eps": 1e-8, "weight_decay": 0.1}}
AS_MEGATRON = lambda parameters, rate: torch.optim.AdamW(parameters, lr=rate, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)
OFFLOAD = {"stage": 3, "offload_optimizer": {"device": "cpu", "pin_memory": True}, "offload_param": {"device": "cpu", "pin_memory": True},
           "overlap_comm": True, "contiguous_gradients": True, "sub_group_size": 1e9, "reduce_bucket_size": "auto",
           "stage3_prefetch_bucket_size": "auto", "stage3_param_persistence_threshold": "auto", "stage3_max_live_parameters": 1e9,
           "stage3_max_reuse_distance": 1e9, "stage3_gather_16bit_weights_on_model_save": True}
EXACT, SIXTEEN, QUANTIZED = 1e-5, 2e-2, 5e-2

# name: configuration, ranks, micro-steps, torch's rule, the rate, how far losses may be apart, norm that is clipped to
EQUAL = {
    "getting started": ({"train_batch_size": 8, "gradient_accumulation_steps": 1, "zero_optimization": True, "fp16": {"enabled": True},
                         "optimizer": {"type": "Adam", "params": {"lr": 0.015}}}, 4, 1, ADAM, constant(0.015), SIXTEEN, None),
    "cifar": ({"train_batch_size": 4, "steps_per_print": 2000, "wall_clock_breakdown": False,
               "optimizer": {"type": "Adam", "params": {"lr": 0.001, "betas": [0.8, 0.999], "eps": 1e-8, "weight_decay": 3e-7}},
               "scheduler": {"type": "WarmupLR", "params": {"warmup_min_lr": 0, "warmup_max_lr": 0.01, "warmup_num_steps": 6}}}, 2, 1,
              lambda p, rate: torch.optim.AdamW(p, lr=rate, betas=(0.8, 0.999), eps=1e-8, weight_decay=3e-7), warmup_lr(0, 0.01, 6), EXACT, None),
    "gradient accumulation": ({"train_batch_size": 12, "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 3,
                               "gradient_clipping": 0.2, "optimizer": MEGATRON}, 2, 3, AS_MEGATRON, constant(0.015), EXACT, 0.2),
    "zero stage 2": ({"zero_optimization": {"stage": 2, "contiguous_gradients": True, "overlap_comm": True, "reduce_scatter": True,
                      "reduce_bucket_size": 5e8, "allgather_bucket_size": 5e8}, "optimizer": MEGATRON}, 2, 1, AS_MEGATRON, constant(0.015), EXACT, None),
    "zero-offload": ({"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}, "optimizer":
                      {"type": "Adam", "params": {"adam_w_mode": False, "lr": 0.01, "weight_decay": 0.1}}}, 2, 1,
                     lambda p, rate: torch.optim.Adam(p, lr=rate, weight_decay=0.1), constant(0.01), EXACT, None),
    "infinity": ({"zero_optimization": OFFLOAD, "bf16": {"enabled": True}, "optimizer": MEGATRON}, 2, 1, AS_MEGATRON, constant(0.015), SIXTEEN, None),
    "transformers' auto": ({"zero_optimization": OFFLOAD, "bf16": {"enabled": "auto"}, "train_batch_size": "auto", "gradient_clipping": "auto",
                            "train_micro_batch_size_per_gpu": "auto", "gradient_accumulation_steps": "auto",
                            "optimizer": {"type": "AdamW", "params": {"lr": "auto", "betas": "auto", "eps": "auto", "weight_decay": "auto"}},
                            "scheduler": {"type": "WarmupDecayLR", "params": {"warmup_min_lr": 0.0, "warmup_max_lr": 0.02, "warmup_num_steps": 3,
                                                                              "total_num_steps": 10}}}, 2, 1, ADAM,
                           warmup_decay_lr(0, 0.02, 3, 10), EXACT, 1.0),
    "linear warm-up": ({"optimizer": MEGATRON, "scheduler": {"type": "WarmupLR", "params": {"warmup_min_lr": 0.001, "warmup_num_steps": 5,
                                                                                         "warmup_type": "linear"}}}, 1, 1, AS_MEGATRON,
                       warmup_lr(0.001, 0.015, 5, "linear"), EXACT, None),
    "linear decay": ({"optimizer": MEGATRON, "scheduler": {"type": "WarmupDecayLR", "params": {
        "total_num_steps": 9, "warmup_min_lr": 0.002, "warmup_max_lr": 0.02, "warmup_num_steps": 4, "warmup_type": "linear"}}}, 1, 1, AS_MEGATRON,
        warmup_decay_lr(0.002, 0.02, 4, 9, "linear"), EXACT, None),
    "cosine": ({"optimizer": {"type": "AdamW", "params": {"lr": 0.02}}, "scheduler": {"type": "WarmupCosineLR", "params": {
        "total_num_steps": 10, "warmup_num_steps": 4, "warmup_type": "linear", "warmup_min_ratio": 0.1, "cos_min_ratio": 0.05}}}, 1, 1, ADAM,
        warmup_cosine_lr(0.02, 10, 4, "linear", 0.1, 0.05), EXACT, None),
    "one cycle": ({"optimizer": {"type": "SGD", "params": {"lr": 0.001, "momentum": 0.9}}, "scheduler": {"type": "OneCycle", "params": {
        "cycle_first_step_size": 4, "cycle_second_step_size": 3, "decay_step_size": 2, "cycle_min_lr": 0.02, "cycle_max_lr": 0.1,
        "decay_lr_rate": 0.5}}}, 1, 1, lambda p, rate: torch.optim.SGD(p, lr=rate, momentum=0.9), one_cycle(0.02, 0.1, 4, 3, 2, 0.5), EXACT, None),
    "zero++": ({"zero_optimization": {"stage": 3, "reduce_bucket_size": 10000000, "reduce_scatter": True, "zero_quantized_weights": True,
                "zero_hpz_partition_size": 2, "zero_quantized_gradients": True, "contiguous_gradients": True, "overlap_comm": True},
                "optimizer": MEGATRON}, 4, 1, AS_MEGATRON, constant(0.015), QUANTIZED, None),
}
REFUSED = {
    "1-bit Adam": {"optimizer": {"type": "OneBitAdam", "params": {"lr": 4e-4, "freeze_step": 23000}}},
    "1-bit LAMB": {"optimizer": {"type": "OneBitLamb", "params": {"lr": 11e-3}}},
    "LAMB": {"optimizer": {"type": "Lamb", "params": {"lr": 11e-3, "max_coeff": 0.3, "min_coeff": 0.01}}},
    "range test": {"scheduler": {"type": "LRRangeTest", "params": {"lr_range_test_min_lr": 0.0001, "lr_range_test_step_size": 200}}},
    "one cycle of Adam": {"optimizer": MEGATRON, "scheduler": {"type": "OneCycle", "params": {"cycle_min_lr": 0.0001, "cycle_max_lr": 0.001}}},
    "curriculum": {"curriculum_learning": {"enabled": True, "curriculum_type": "seqlen"}},
    "progressive layers": {"progressive_layer_drop": {"enabled": True, "theta": 0.5, "gamma": 0.001}},
    "sparse attention": {"sparse_attention": {"mode": "fixed", "block": 16}},
    "pipeline": {"pipeline": {"stages": 2}},
    "MoQ": {"quantize_training": {"enabled": True}},
    "AMP": {"amp": {"enabled": True, "opt_level": "O1"}},
}


def write(name, config):
    path = suite.dir / f"{name.replace(' ', '-')}.json"
    path.write_text(json.dumps(config))
    return path


def torch_run(rule, rate, batches, micro, clip, skipped):
    model, losses, rates = make(), [], [rate(step - 1) for step in range(STEPS)]
    optimizer = rule(model.parameters(), rates[0])
    for step in range(STEPS):
        optimizer.param_groups[0]["lr"] = rates[step]
        optimizer.zero_grad()
        parts = [model(**batches[step * micro + g]) for g in range(micro)]
        loss = sum(parts) / micro
        loss.backward()
        if clip:
            torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
        if not skipped[step]:
            optimizer.step()
        losses.append(loss.item())
    return losses, rates


def equal(name):
    config, ranks, micro, rule, rate, tolerance, clip = EQUAL[name]
    plan = suite.dir / f"{name.replace(' ', '-')}.plan"
    suite.compile(MODEL, plan, "--dim", f"batch={ROWS}", "--world-size", ranks, "--config", write(name, config))
    rows = ROWS * ranks
    whole = data(rows * micro * STEPS)
    check.write_batch(plan.with_suffix(".safetensors"), whole)
    metrics = suite.train(plan, plan.with_suffix(".run"), "-n", ranks, "--data", plan.with_suffix(".safetensors"), "--steps", STEPS)
    batches = [{key: value[at:at + rows] for key, value in whole.items()} for at in range(0, len(whole["x"]), rows)]
    skipped = [m["skipped"] for m in metrics]  # of fp16 while the scale of the loss, which begins high, comes down, as in DeepSpeed
    expect(sum(skipped) < (STEPS // 2 if "fp16" in config else 1), f"{sum(skipped)} steps were skipped")
    losses, rates = torch_run(rule, rate, batches, micro, clip, skipped)
    for step, (m, want) in enumerate(zip(metrics, rates), 1):
        expect(abs(m["lr"] - want) <= 1e-9 * max(want, 1e-3), f"rate {m['lr']} of step {step} instead of {want}")
    worst = close("loss", [m["loss"] for m in metrics], losses, tolerance)
    expect(losses[0] - losses[-1] > 3 * tolerance * losses[0], "too little was trained to be compared")
    return f"{worst:.0e}"


def refused(name):
    plan = suite.dir / "refused.plan"
    text = suite.tool("zero-compile", MODEL, "--dim", f"batch={ROWS}", "--config", write(name, REFUSED[name]), "-o", plan, code=4)
    section = next(key for key in REFUSED[name] if key != "optimizer" or len(REFUSED[name]) == 1)
    expect(section in text and not plan.exists(), text)


MODEL = suite.dir / "model.onnx"
with silent():
    zero_compile.export(make(), data(4), MODEL)
suite.run([(f"equal: {name}", lambda n=name: equal(n)) for name in EQUAL] + [(f"refused: {name}", lambda n=name: refused(n)) for name in REFUSED])
suite.finish()
