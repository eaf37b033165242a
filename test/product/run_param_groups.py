#!/usr/bin/env python3
"""--param-groups against torch's optimizers with param_groups: losses and weights of some steps, with a schedule and clipping."""
import json

from product import expect, needs, quiet_torch, silent, suite

needs("torch", "onnx", "safetensors")
torch = quiet_torch()
import zero_compile
from zero_compile.exporting import check

suite = suite(__doc__)
STEPS, RATE = 6, 0.02


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.third = torch.nn.Linear(6, 16), torch.nn.Linear(16, 16), torch.nn.Linear(16, 4)
        self.norm = torch.nn.LayerNorm(16)

    def forward(self, x, y):
        x = self.norm(torch.tanh(self.first(x)))
        return torch.nn.functional.mse_loss(self.third(torch.tanh(self.second(x))), y)


RULES = {"adamw": (torch.optim.AdamW, {"weight_decay": 0.1}), "adam": (torch.optim.Adam, {"weight_decay": 0.05}),
         "sgd": (torch.optim.SGD, {"weight_decay": 0.1}), "momentum": (torch.optim.SGD, {"momentum": 0.9, "weight_decay": 0.1})}
GROUPS = [{"params": ["*.bias", "norm.*"], "weight_decay": 0}, {"params": "first.*", "lr_scale": 0.1}, {"params": "second.weight", "lr_scale": 3,
                                                                                                        "weight_decay": 0.5}]


def settings(name, decay):
    """(scale, decay)"""
    if name == "second.weight":
        return 3, 0.5
    return 0.1 if name.startswith("first.") else 1, 0 if name.endswith(".bias") or name.startswith("norm.") else decay


def against_torch(rule):
    kind, numbers = RULES[rule]
    torch.manual_seed(0)
    model, batch = Model(), {"x": torch.randn(4, 6), "y": torch.randn(4, 4)}
    path = suite.dir / f"{rule}.onnx"
    with silent():
        zero_compile.export(model, batch, path)
    (suite.dir / "groups.json").write_text(json.dumps(GROUPS))
    check.write_batch(suite.dir / "batch.safetensors", batch)
    plan = zero_compile.compile(path, suite.dir / f"{rule}.plan", dim="batch=4", optimizer=rule, lr=RATE, clip_grad_norm=0.3,
                                param_groups=suite.dir / "groups.json", world_size=1, zero_stage=2, lr_schedule="linear:warmup=2,end=0.1", **numbers)
    got = [m["loss"] for m in zero_compile.train(plan, suite.dir / f"{rule}-run", data=suite.dir / "batch.safetensors", steps=STEPS)]
    rates = [json.loads(line)["lr"] for line in (suite.dir / f"{rule}-run/metrics.jsonl").read_text().splitlines()]
    parameters = [(p, *settings(name, numbers["weight_decay"])) for name, p in model.named_parameters()]
    optimizer = kind([{"params": [p], "lr": RATE * scale, "weight_decay": decay} for p, scale, decay in parameters],
                     **{k: v for k, v in numbers.items() if k != "weight_decay"})
    expected = []
    for rate in rates:
        for group, (_, scale, _) in zip(optimizer.param_groups, parameters):
            group["lr"] = rate * scale
        optimizer.zero_grad()
        loss = model(**batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.3)
        optimizer.step()
        expected.append(loss.item())
    worst = max(abs(a - b) / b for a, b in zip(got, expected))
    expect(len(got) == STEPS and worst < 1e-5, f"{got} instead of {expected}")
    state, _ = zero_compile.import_weights(suite.dir / f"{rule}-run")
    for name, parameter in model.named_parameters():
        expect(torch.allclose(torch.from_numpy(state[name].copy()), parameter, rtol=1e-5, atol=1e-6), name)
    return f"{worst:.0e}"


suite.run([(rule, lambda r=rule: against_torch(r)) for rule in RULES])
suite.finish()
