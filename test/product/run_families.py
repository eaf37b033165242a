#!/usr/bin/env python3
"""Hugging Face configurations by family: exported, compiled, two steps trained with the losses of torch, and the weights back in a
folder that from_pretrained opens, every parameter with torch's value of the same two steps; and the same steps by two ranks that share
the work on a sample (--tensor-parallel 2). Some of the ten most unlike each other; ZC_FAMILIES=all tries all of families.py."""
import json, os, re

from product import expect, needs, quiet_torch, silent, suite, torch_steps

needs("torch", "transformers", "onnx", "safetensors")
from e2e import close
from families import FAMILIES, QUICK

torch = quiet_torch()
from zero_compile import tasks, weights
from zero_compile.exporting import check, export as exporting, graph

suite = suite(__doc__)
ROWS, LENGTH, RATE = 2, 16, 0.02
DEPTHWISE = {"convnext"}  # grouped convolutions are computed whole
AMPLIFY = {"resnet"}  # batch norms: rounding grows from step to step (test/e2e/README.md)


def cut_in_two(name, path, folder, expected):
    """Two ranks, each with a part of the weights: torch's losses still."""
    plan = folder / "two.plan"
    text = suite.tool("zero-compile", path, "--dim", f"batch={ROWS}", "--optimizer", "sgd", "--lr", RATE, "--world-size", 2, "--tensor-parallel", 2,
                      "--explain-sharding", "-o", plan)
    share = float(re.search(r"parameters are cut over 2 ranks \(([\d.]+) %\)", text)[1])
    expect(share >= 90 or name in DEPTHWISE, f"only {share} % of the parameters are cut over two ranks")
    metrics = suite.train(plan, folder / "two", "-n", 2, "--data", folder / "data.safetensors", "--steps", 2)
    close("loss of two ranks", [m["loss"] for m in metrics], expected, 1e-4 if name in AMPLIFY else 1e-5)
    return f"{share:.0f} % cut in two"


def family(name):
    task, fields = FAMILIES[name]
    folder = suite.dir / name
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"model_type": name, **fields}))
    model, task, config = tasks.load(folder, task, dropout=False, notes=lambda text: None)
    batches = [tasks.batch(task, config, ROWS, LENGTH, 32, seed) for seed in range(2)]
    path = folder / "model.onnx"
    with silent():
        details = exporting.export(model, batches[0], path, loss=tasks.forward(model, task), task=task)
    plan = suite.compile(path, folder / "model.plan", "--dim", f"batch={ROWS}", "--optimizer", "sgd",
                         "--lr", RATE)
    check.write_batch(folder / "data.safetensors", {key: torch.cat([b[key] for b in batches]) for key in batches[0]})
    metrics = suite.train(plan, folder / "run", "--data", folder / "data.safetensors", "--steps", 2)
    loss = tasks.forward(model, task)
    expected = torch_steps(torch.optim.SGD(model.parameters(), lr=RATE), batches, lambda batch: loss(model, batch))
    worst = close("loss", [m["loss"] for m in metrics], expected, 1e-4 if name in AMPLIFY else 1e-5)

    shared = cut_in_two(name, path, folder, expected)
    with silent():
        weights.to_hf(folder / "run", folder, folder / "trained")
        again, info = type(model).from_pretrained(folder / "trained", output_loading_info=True)
    for key in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        expect(not info[key], f"{key}: {sorted(info[key])[:5]}")
    learned, difference = dict(again.named_parameters()), 0.0
    for first in graph.tie_groups(model):
        want = dict(model.named_parameters())[first].detach()
        difference = max(difference, float((learned[first].detach() - want).abs().max() / want.abs().max().clamp(min=1)))
    for key, want in model.state_dict().items():  # running statistics
        if key in dict(model.named_buffers()) and want.is_floating_point():
            difference = max(difference, float((again.state_dict()[key] - want).abs().max()))
    expect(difference < (1e-3 if name in AMPLIFY else 2e-5), f"weights differ by {difference:.1e} from torch's")
    return f"{details['exporter'].split(',')[0]}, loss {worst:.0e}, weights {difference:.0e}, {shared}"


names = FAMILIES if os.environ.get("ZC_FAMILIES") == "all" or suite.args.filter else [name for name, in suite.draw([(name,) for name in QUICK], 6, covering_values=False)]
suite.run([(name, lambda n=name: family(n)) for name in names])
suite.finish()
