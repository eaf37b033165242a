#!/usr/bin/env python3
"""What a forward pass keeps for the next one, in buffers and in parameters that do not train: exported in both ways, trained beside torch with several
ranks, each of which has its own, and taken home."""
import copy

from product import beside_torch, expect, needs, quiet_torch, silent, suite

needs("torch", "transformers", "onnx", "safetensors")
torch = quiet_torch()
import zero_compile
from torch import nn
from torch.nn import functional
from zero_compile.exporting import check
from functions import Model, batches, pooled

suite = suite(__doc__)
RATE = 0.05


def normed(h, given):
    """By power iterations, one of them used twice."""
    m = given["model"]
    return m.linear(h).square().mean() + m.line(h.mT).square().mean() + functional.relu(1 - m.linear(h.detach() / 2)).mean() + m.wide(h.mT).tanh().square().mean()


def with_norms(m):
    m.linear, m.line = nn.utils.spectral_norm(nn.Linear(8, 4)), nn.utils.spectral_norm(nn.Conv1d(8, 4, 2), n_power_iterations=2)
    m.wide = nn.utils.parametrizations.spectral_norm(nn.ConvTranspose1d(8, 4, 2))


def averaged(h, given):
    """In place, by another tensor, through data; and how often, which counts."""
    m = given["model"]
    m.centre.mul_(0.9).add_(pooled(h).detach().mean(0), alpha=0.1)
    m.count += 1
    with torch.no_grad():
        m.scale = m.scale * 0.5 + h.abs().max() * 0.5
        m.table.data[given["labels"][:1] % 3] = 0.5
    return ((h - m.centre) / m.scale).square().mean() * (1 + m.count.clamp(max=3) / 3) + m.table.mean() * h.mean()


def with_averages(m):
    for name, value in (("centre", torch.zeros(8)), ("count", torch.tensor(0)), ("scale", torch.tensor(1.0)), ("table", torch.zeros(3, 2))):
        m.register_buffer(name, value)


def quantized(h, given):
    """A codebook that follows what is nearest (van den Oord 2017)."""
    m, z = given["model"], h.reshape(-1, 8)
    nearest = functional.one_hot(torch.cdist(z.detach(), m.book).argmin(1), 5).type(z.dtype)
    found = nearest @ m.book
    with torch.no_grad():
        m.sizes.mul_(0.9).add_(nearest.sum(0), alpha=0.1)
        m.sums.mul_(0.9).add_(nearest.t() @ z, alpha=0.1)
        m.book.copy_(m.sums / (m.sizes + 1e-2).unsqueeze(1))
    return functional.mse_loss(found.detach(), z) / 4 + (z + (found - z).detach()).square().mean()


def with_book(m):
    for name, value in (("book", torch.randn(5, 8)), ("sizes", torch.zeros(5)), ("sums", torch.randn(5, 8))):
        m.register_buffer(name, value)


def taught(h, given):
    """By what follows the student's weights, and with a centre (DINO)."""
    m = given["model"]
    with torch.no_grad():
        for own, slow in zip(m.student.parameters(), m.teacher.parameters()):
            slow.data = slow.data * 0.9 + own.data * 0.1
        said = m.teacher(h.detach())
    loss = -((said - m.centre).mul(4).softmax(-1).detach() * (m.student(h) * 2).log_softmax(-1)).sum(-1).mean()
    with torch.no_grad():
        m.centre.mul_(0.9).add_(said.mean((0, 1)), alpha=0.1)
    return loss


def with_teacher(m):
    m.student, m.teacher = nn.Linear(8, 4), nn.Linear(8, 4).requires_grad_(False)
    m.register_buffer("centre", torch.zeros(4))


def valued(h, given):
    """Deep Q-learning: what the values are compared with follows them, and gets no gradient though it might."""
    m, action = given["model"], given["labels"][:, None] % 4
    with torch.no_grad():
        for own, slow in zip(m.student.parameters(), m.teacher.parameters()):
            slow.data.copy_(0.9 * slow.data + 0.1 * own.data)
        target = given["image"][:, 0, 0, 0] + 0.9 * m.teacher(h[:, 1]).gather(1, m.student(h[:, 1]).argmax(1, keepdim=True)).squeeze(1)
    return functional.smooth_l1_loss(m.student(h[:, 0]).gather(1, action).squeeze(1), target)


def with_target(m):
    m.student, m.teacher = nn.Linear(8, 4), nn.Linear(8, 4)


def unsaved(h, given):
    """In buffers that are in no state_dict, in place and by another tensor."""
    m = given["model"]
    with torch.no_grad():
        m.mean.mul_(0.9).add_(pooled(h).mean(0), alpha=0.1)
    m.width = 0.9 * m.width + 0.1 * h.detach().square().mean((0, 1))
    return ((h - m.mean) / (m.width + 1).sqrt()).pow(3).square().mean()


def with_unsaved(m):
    for name in ("mean", "width"):
        m.register_buffer(name, torch.zeros(8), persistent=False)


MODELS = {"unsaved": (unsaved, with_unsaved), "valued": (valued, with_target), "normed": (normed, with_norms), "averaged": (averaged, with_averages), "quantized": (quantized, with_book), "taught": (taught, with_teacher)}


def made(name):
    torch.manual_seed(1)
    function, extend = MODELS[name]
    model = Model(function)
    extend(model)
    return model


def torchs(model, data, ranks):
    """Losses of steps of sgd, each rank's of its own copy; the model is then what the first rank has."""
    losses, copies = [], [copy.deepcopy(model) for _ in range(ranks)]
    for batch in data:
        loss = 0
        for rank, each in enumerate(copies):
            each.zero_grad()
            part = each(**{key: value.chunk(ranks)[rank] for key, value in batch.items()}) / ranks
            part.backward()
            loss += part.item()
        losses.append(loss)
        with torch.no_grad():
            for of_all in zip(*(each.parameters() for each in copies)):
                if of_all[0].grad is not None:
                    step = RATE * sum(p.grad for p in of_all)
                    for p in of_all:
                        p -= step
    return losses, copies[0].state_dict()


def beside(name, exporter, ranks, stage):
    model, data = made(name), batches()
    before = copy.deepcopy(model.state_dict())
    path, notes = suite.dir / f"{name}-{exporter}-{ranks}.onnx", []
    with silent():
        zero_compile.export(model, data[-1], path, exporter=exporter, notes=notes.append)
    expect(any("changed by each step" in note for note in notes), notes)
    expect(all(torch.equal(value, before[key]) for key, value in model.state_dict().items()), "the model is another afterwards")
    plan = suite.compile(path, path.with_suffix(".plan"), "--dim", f"batch={4 // ranks}", "--world-size", ranks, "--zero-stage", stage, "--optimizer", "sgd",
                         "--momentum", 0, "--lr", RATE)
    check.write_batch(path.with_suffix(".safetensors"), {key: torch.cat([batch[key] for batch in data]) for key in data[0]})
    run = suite.dir / f"{path.stem}-run"
    losses = [m["loss"] for m in suite.train(plan, run, "-n", ranks, "--data", path.with_suffix(".safetensors"), "--steps", len(data))]
    expected, state = torchs(model, data, ranks)
    worst = max(abs(got - loss) / max(abs(loss), 1e-3) for got, loss in zip(losses, expected))
    expect(worst <= 2e-5, f"{losses} instead of {expected}")
    home, _ = zero_compile.import_weights(run)
    expect(home.keys() <= state.keys(), f"{home.keys() - state.keys()} come home")
    for key, value in state.items():
        expect(torch.allclose(torch.as_tensor(home[key]), value, rtol=1e-4, atol=1e-5), f"{key} comes home as {home[key]}, not as {value}")
    return f"{worst:.1e}"


def pruned(h, given):
    """Weights under a mask, which each step's forward pass puts on them, and whose gradients are not under it."""
    m = given["model"]
    m.linear.weight.data *= m.mask
    m.wide.weight.data.mul_(m.wide_mask)
    return m.wide(m.linear(h).tanh()).square().mean() + m.linear.weight.square().sum() / 9


def masks(ranks, stage):
    torch.manual_seed(1)
    model = Model(pruned)
    model.linear, model.wide = nn.Linear(8, 6), nn.Linear(6, 5)
    model.register_buffer("mask", (torch.arange(48).reshape(6, 8) % 3 > 0).float())
    model.register_buffer("wide_mask", (torch.arange(30).reshape(5, 6) % 2).float())
    return beside_torch(suite, f"masks-{ranks}", model, batches(), ranks=ranks, stage=stage, rate=RATE)


suite.run([(f"masks, {ranks} ranks, stage {stage}", lambda ranks=ranks, stage=stage: masks(ranks, stage)) for ranks, stage in ((1, 0), (2, 3))])
suite.run([(f"{name}, {exporter}", lambda name=name, exporter=exporter: beside(name, exporter, 1, 0)) for name in MODELS for exporter in ("torchscript", "dynamo")])
suite.run([(f"{name}, 2 ranks, stage 3", lambda name=name: beside(name, None, 2, 3)) for name in MODELS])
suite.finish()
