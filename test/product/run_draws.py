#!/usr/bin/env python3
"""Models whose forward pass draws numbers: exported in both ways, compared with fixed numbers in their place, drawn anew in each step of a training, of
the distribution that torch's are; and functions of dropout, which no module's number switches off."""
import random

from product import by_exporter, expect, needs, quiet_torch, raises, silent, suite

needs("torch", "transformers", "onnx", "safetensors")
torch = quiet_torch()
import numpy
import onnx
import zero_compile
from torch import nn
from torch.nn import functional
from torch.nn.functional import scaled_dot_product_attention as attend_by_name
from torch.utils.checkpoint import checkpoint
from zero_compile.exporting import check, export as exporting

suite = suite(__doc__)


class Model(nn.Module):
    """`function` of x and what a layer makes of it."""

    def __init__(self, function):
        super().__init__()
        self.layer, self.function = nn.Linear(6, 6), function

    def forward(self, x):
        return self.function(x, self.layer(x))


def noise(x, h):
    mean, width = h.chunk(2, -1)
    return (mean + torch.randn_like(mean) * (0.5 * width).exp()).square().mean()


def times(x, h):
    """Of a diffusion: a time and a noise for each row, of the rows' number."""
    time, of = torch.randint(0, 50, (x.shape[0],)), torch.randn(x.shape)
    share = torch.linspace(0.9, 0.1, 50)[time].unsqueeze(-1)
    return (h * share + of * torch.rand(x.shape[0], 1)).square().mean()


def masks(x, h):
    kept = torch.bernoulli(torch.full_like(h, 0.8)) * torch.empty(h.shape[0], 1).bernoulli_(0.9).div_(0.9)
    return (h * kept + h * (torch.rand_like(h) > 0.5)).square().mean()


def in_place(x, h):
    return sum((h * drawn).square().mean() for drawn in (torch.empty_like(h).normal_(1.0, 0.5), torch.empty_like(h).uniform_(-1, 2), torch.empty_like(h).exponential_(2.0)))


def classes(x, h):
    hard, soft = (functional.gumbel_softmax(h, tau=0.7, hard=how) for how in (True, False))
    chosen = torch.distributions.Categorical(logits=h.detach()).sample()
    return (hard * h + soft).square().mean() + h.gather(1, chosen.unsqueeze(1)).mean()


def distributions(x, h):
    drawn = torch.distributions.Normal(h, functional.softplus(h) + 0.1).rsample() + torch.distributions.Laplace(h, 0.5).rsample()
    return drawn.square().mean() + torch.normal(h, 0.3).square().mean() + torch.randint_like(h, 2, 5).mul(h).mean()


def mixed(x, h):
    """Rows with others, mixup's."""
    share = torch.rand(())
    return (share * h + (1 - share) * h[torch.randperm(h.shape[0])]).square().mean()


def slopes(x, h):
    """Of negative numbers, each its own."""
    return nn.RReLU(0.1, 0.4)(h).square().mean() + functional.rrelu(h, 0.2, 0.3).square().mean()


MODELS = (noise, times, masks, in_place, classes, distributions, mixed, slopes)


def exported(function, exporter=None, fixed_batch=False, compared=True):
    """(path, notes)"""
    torch.manual_seed(1)
    notes, path = [], suite.dir / f"{getattr(function, '__name__', 'model')}-{exporter}.onnx"
    zero_compile.export(Model(function), {"x": torch.randn(8, 6)}, path, exporter=exporter, notes=notes.append, fixed_batch=fixed_batch, check=compared)
    return path, notes


def losses(path, steps, *flags, rows=8, dim=True):
    data = path.with_suffix(".safetensors")
    check.write_batch(data, {"x": torch.randn(rows, 6, generator=torch.Generator().manual_seed(2))})
    plan = suite.compile(path, path.with_suffix(".plan"), *(["--dim", f"batch={rows}"] if dim else []), "--optimizer", "sgd", "--lr", 0, *flags)
    return [m["loss"] for m in suite.train(plan, path.with_suffix(".run"), "--overwrite", "--data", data, "--steps", steps)]


def drawn(function, exporter):
    """What was compared; a training's numbers are others in each step, by the seed."""
    path, notes = exported(function, exporter, fixed_batch=function is mixed)
    expect(any("drawn anew" in note and "run_draws.py:" in note for note in notes), notes)
    expect(any("fixed numbers" in note and "2 gradients" in note for note in notes), notes)
    one, again, other = (losses(path, 3, "--seed", seed, dim=function is not mixed) for seed in (1, 1, 2))
    expect(one == again != other and len(set(one)) == 3, f"{one}, {again}, {other}")


MOMENTS = {  # of what is drawn: its mean, and that of its square
    "normal": (lambda x: torch.randn_like(x), 0, 1), "uniform": (lambda x: torch.rand(x.shape), 1 / 2, 1 / 3),
    "integers": (lambda x: torch.randint(2, 6, x.shape).float(), 3.5, 13.5), "chances": (lambda x: torch.bernoulli(torch.full_like(x, 0.3)), 0.3, 0.3),
    "exponential": (lambda x: torch.empty_like(x).exponential_(2.0), 0.5, 0.5), "between": (lambda x: torch.empty_like(x).uniform_(-1, 3), 1, 7 / 3),
    "slopes": (lambda x: functional.rrelu(-torch.ones_like(x), 0.1, 0.5, training=True), -0.3, 0.09 + 0.16 / 12),
    "classes": (lambda x: torch.multinomial(torch.tensor([[0.2, 0.3, 0.5]]).expand(x.shape[0], -1), 6, True).float(), 1.3, 2.3),
}


def moments(name, exporter):
    draw, first, second = MOMENTS[name]
    for power, want in ((1, first), (2, second)):
        path, _ = exported(lambda x, h: (draw(x) ** power).mean() + 0 * h.mean() + 1e-6 * h.square().mean(), exporter, compared=False)
        got = losses(path, 1, rows=4096)[0]
        expect(abs(got - want) < 0.05 * max(1, second), f"the mean of the power {power} is {got} instead of {want}")


def wrong_gradient():
    """It is found beside what is drawn."""
    def turned(x, h):
        h = h * 1.0
        h.register_hook(lambda gradient: -gradient)
        return noise(x, h)

    with raises(10, "not the gradient of"):
        exported(turned)


def functions_of_dropout():
    """They are compared without it, and kept in the graph."""
    def dropped(x, h):
        h = functional.dropout(h, 0.4)
        rows = checkpoint(lambda h: functional.scaled_dot_product_attention(h, h, h, dropout_p=0.2), h.unsqueeze(0), use_reentrant=False)
        flat = functional.dropout1d(h, 0.2) + functional.dropout2d(h, 0.2) + functional.feature_alpha_dropout(h, 0.2, training=True)
        return functional.dropout(rows.squeeze(0), p=0.3, training=True).square().mean() + h.mean() + flat.square().mean()

    for exporter in exporting.EXPORTERS:
        path, _ = exported(dropped, exporter)
        one, other, off = losses(path, 2, "--seed", 1), losses(path, 2, "--seed", 2), losses(path, 2, "--dropout", "off")
        expect(one != other and one[0] != one[1] and off[0] == off[1], f"{one}, {other}, {off}")


def numbers_of_python():
    """A trace would keep them: refused, with the line, as long as any are drawn."""
    def depth(p, draw):
        return lambda x, h: (h.tanh() if p and draw() < p else h).square().mean()

    for p in (0.1, 0.9):
        with raises(4, "Python's random draws", "run_draws.py:"):
            exported(depth(p, random.random))
        with raises(4, "Python's random draws", "run_draws.py:"):
            exported(depth(p, lambda: random.randint(0, 1)))
        with raises(4, "numpy.random draws"):
            exported(depth(p, numpy.random.rand))
    exported(depth(0, random.random))

    def seeded():  # as sparse attention chooses its blocks: the same in all steps
        numpy.random.seed(3)
        return numpy.random.rand()

    exported(depth(0.9, seeded))


def numbers_of_a_seed():
    """That the forward pass gives itself: they are the same in all steps of torch, where zero-run would draw others."""
    def own(x, h):
        return (h + torch.randn(h.shape, generator=torch.Generator().manual_seed(7))).square().mean()

    def forked(x, h):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(3)
            return (h + torch.randn(h.shape)).square().mean()

    def filled(x, h):
        return (h + torch.empty_like(h).normal_(generator=torch.Generator().manual_seed(7))).square().mean()

    for draw in (own, forked, filled):
        with raises(4, "gives the same numbers in every step", "run_draws.py:"):
            exported(draw)


class Recurs(nn.Module):
    """Dropout between the layers of recurrent ones, and of whole channels."""

    def __init__(self):
        super().__init__()
        self.long, self.gated = nn.LSTM(8, 6, 3, dropout=0.3, bidirectional=True, batch_first=True), nn.GRU(12, 5, 2, dropout=0.2, batch_first=True)
        self.channels = nn.Dropout1d(0.2)

    def forward(self, x, labels):
        h, (_, cell) = self.long(x)
        h, last = self.gated(self.channels(h))
        return functional.cross_entropy(h.mean(1), labels) + last.square().mean() + cell.square().mean()


def dropout_between_layers(exporter):
    """3 of them between layers, one of channels: exported, compared without, and drawn."""
    torch.manual_seed(1)
    batch = {"x": torch.randn(4, 7, 8), "labels": torch.tensor([0, 2, 1, 4])}
    path = suite.dir / f"recurs-{exporter}.onnx"
    with silent():
        zero_compile.export(Recurs(), batch, path, exporter=exporter)
    drops = [node for node in onnx.load(path).graph.node if node.op_type == "Dropout"]
    expect(len(drops) == 4, f"{len(drops)} of 4 dropouts")


class LeavesOut(nn.Module):
    """How much an alpha dropout leaves out: of each element 0 or 1, if what is kept and what is left out are torch's."""

    def __init__(self):
        super().__init__()
        self.layer, self.drops, self.of_channels = nn.Linear(8, 8), nn.AlphaDropout(0.3), nn.FeatureAlphaDropout(0.3)

    def forward(self, x):
        h = self.layer(x) + 4
        scale, low = (0.7 * (1 + 0.3 * 1.7580993408473766**2)) ** -0.5, -1.7580993408473766
        kept, left = scale * h - scale * low * 0.3, scale * low - scale * low * 0.3
        shares = [((dropped - kept) / (left - kept)) for dropped in (self.drops(h), self.of_channels(h))]
        return sum(share.mean() + (share - share.square()).square().sum() for share in shares)


def alpha_dropout():
    torch.manual_seed(1)
    batch = {"x": torch.randn(16, 200, 8)}
    check.write_batch(suite.dir / "shares.safetensors", batch)
    for exporter in exporting.EXPORTERS:
        path = suite.dir / f"shares-{exporter}.onnx"
        with silent():
            zero_compile.export(LeavesOut(), batch, path, exporter=exporter, check=False)  # of nothing left out all gradients are 0
        plan = suite.compile(path, path.with_suffix(".plan"), "--dim", "batch=16", "--lr", 0)
        share = suite.train(plan, f"{path}-run", "--data", suite.dir / "shares.safetensors", "--steps", 1)[0]["loss"]
        expect(abs(share - 0.6) < 0.05, f"{share} of 2 * 0.3 left out by {exporter}")


class Attends(torch.nn.Module):
    """No dropout but that of the fused attention: within torch's own module, called by its name, by the name that a file has imported, with a mask."""

    def __init__(self):
        super().__init__()
        self.inner, self.outer, self.dropout = torch.nn.MultiheadAttention(8, 2, dropout=0.3, batch_first=True), torch.nn.Linear(8, 3), 0.3

    def forward(self, x, labels):
        x, _ = self.inner(x, x, x, need_weights=False)
        q, mask = x.unsqueeze(1), torch.tensor([[True, False, True, True]]).expand(4, -1)
        for how in (dict(is_causal=True), dict(attn_mask=mask), dict(attn_mask=mask.float(), scale=0.3)):
            q = q + functional.scaled_dot_product_attention(q, q, q, dropout_p=self.dropout, **how)
        groups = q.expand(-1, 4, -1, -1) * torch.arange(1, 5).view(4, 1, 1)
        q = attend_by_name(groups, q.expand(-1, 2, -1, -1), q.expand(-1, 2, -1, -1), dropout_p=self.dropout, enable_gqa=True)
        return functional.cross_entropy(self.outer(q.mean((1, 2))), labels)


def dropout_of_attention(exporter):
    torch.manual_seed(1)
    batch, real = {"x": torch.randn(2, 4, 8), "labels": torch.tensor([0, 2])}, functional.scaled_dot_product_attention
    check.write_batch(suite.dir / "attends.safetensors", batch)
    path, losses = suite.dir / f"attends-{exporter}.onnx", []
    with silent():
        zero_compile.export(Attends(), batch, path, exporter=exporter)
    expect(functional.scaled_dot_product_attention is real, "torch's function is another afterwards")
    drops = [node for node in onnx.load(path).graph.node if node.op_type == "Dropout"]
    expect(len(drops) == 5, f"{len(drops)} of 5 dropouts")
    for seed in (1, 1, 2):
        plan = suite.compile(path, path.with_suffix(".plan"), "--dim", "batch=2", "--seed", seed)
        losses += [suite.train(plan, f"{path}-{len(losses)}", "--data", suite.dir / "attends.safetensors", "--steps", 1)[0]["loss"]]
    expect(losses[0] == losses[1] != losses[2], losses)


suite.run([(f"{function.__name__} {exporter}", lambda function=function, exporter=exporter: drawn(function, exporter))
           for function, exporter in by_exporter(suite, MODELS)])
suite.run([(f"moments, {name}, {exporter}", lambda name=name, exporter=exporter: moments(name, exporter))
           for name, exporter in by_exporter(suite, MOMENTS)])
DROPOUTS = (dropout_of_attention, dropout_between_layers)
suite.run([(f"{f.__name__} {exporter}", lambda f=f, exporter=exporter: f(exporter))
           for f, exporter in by_exporter(suite, DROPOUTS)] +
          [(f.__name__, f) for f in (wrong_gradient, functions_of_dropout, numbers_of_python, numbers_of_a_seed, alpha_dropout)])
suite.finish()
