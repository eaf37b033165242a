#!/usr/bin/env python3
"""Models that pick rows by a mask, exported, compiled and trained beside torch: the forms in which mixtures of experts and losses of masked
tokens are written, experts without a token and with all, ranks, bf16; and what is refused."""
import json

from product import beside_torch, expect, needs, quiet_torch, raises, suite

needs("torch", "transformers", "onnx", "safetensors")
torch = quiet_torch()
from torch import nn
from torch.nn import functional
import zero_compile
from zero_compile.exporting import check

suite = suite(__doc__)
EXPERTS, WIDTH, CLASSES = 3, 8, 5
STEPS, ROWS = 4, 8


class Routed(nn.Module):
    """x [N, WIDTH] through `route`, which gives each row to experts."""

    def __init__(self, route):
        super().__init__()
        self.into, self.gate, self.head = nn.Linear(6, WIDTH), nn.Linear(WIDTH, EXPERTS), nn.Linear(WIDTH, CLASSES)
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(WIDTH, 12), nn.SiLU(), nn.LayerNorm(12), nn.Linear(12, WIDTH))
                                     for _ in range(EXPERTS))
        self.route = route

    def forward(self, x, labels, bias):
        h = self.into(x)
        shares = (self.gate(h) + bias).softmax(-1)
        z = self.head(h + self.route(self, h.flatten(0, -2), shares.flatten(0, -2)).reshape(h.shape))
        return functional.cross_entropy(z.flatten(0, -2), labels.flatten())


def by_mask(self, x, shares):
    share, chosen = shares.max(-1)
    out = torch.zeros_like(x)
    for index, expert in enumerate(self.experts):
        mask = chosen == index
        out[mask] = out[mask] + share[mask, None] * expert(x[mask])
    return out


def put_in(self, x, shares):
    share, chosen = shares.max(-1)
    out = torch.zeros_like(x)
    for index, expert in enumerate(self.experts):
        mask = chosen == index
        out = out.masked_scatter(mask.unsqueeze(-1), expert(x[mask]))
    return out * share.unsqueeze(-1)


def accumulated(self, x, shares):
    share, chosen = shares.max(-1)
    out = torch.zeros_like(x)
    for index, expert in enumerate(self.experts):
        mask = chosen == index
        out = out.index_put((mask,), share[mask, None] * expert(x[mask]), accumulate=True)
    return out


def added_at(self, x, shares):
    share, chosen = shares.topk(2, -1)
    out = torch.zeros_like(x)
    sel = functional.one_hot(chosen, EXPERTS).permute(2, 1, 0)
    for index, expert in enumerate(self.experts):
        place, row = torch.where(sel[index])
        out.index_add_(0, row, expert(x[row]) * share[row, place, None])
    return out


def of_those_chosen(self, x, shares):
    """A loop over the experts that some row chose, which is one over all."""
    share, chosen = shares.topk(2, -1)
    out = torch.zeros_like(x)
    sel = functional.one_hot(chosen, EXPERTS).permute(2, 1, 0)
    for index in torch.greater(sel.sum(dim=(-1, -2)), 0).nonzero():
        place, row = torch.where(sel[index].squeeze(0))
        rows = x[None, row].reshape(-1, x.shape[-1])
        out.index_add_(0, row, self.experts[index](rows) * share[row, place, None])
    for index in sel.sum(dim=(-1, -2)).nonzero().flatten().tolist():
        place, row = torch.where(sel[index])
        out.index_add_(0, row, self.experts[index](x[row]) * share[row, place, None])
    return out


def of_more(self, x, shares):
    """Rows that come to one expert several times; a loop over a place more than there are experts, which no row can choose."""
    share, chosen = shares.topk(2, -1)
    out = torch.zeros_like(x)
    rest = functional.one_hot((shares < share[:, :1]).long(), 2).permute(2, 1, 0)
    place, row = torch.where(rest[1])
    out.index_add_(0, row, x[row].sin() * shares[row, place, None])
    tables, sel = torch.stack([expert[3].weight for expert in self.experts]), functional.one_hot(chosen, EXPERTS + 1).permute(2, 1, 0)
    for index in torch.greater(sel.sum(dim=(-1, -2)), 0).nonzero():
        place, row = torch.where(sel[index[0]])
        out.index_add_(0, row, x[row] @ tables[index[0]] @ tables[index[0]].T * share[row, place, None])
    return out


def put_at(self, x, shares):
    share, chosen = shares.topk(2, -1)
    out = torch.zeros_like(x)
    for index, expert in enumerate(self.experts):
        row, place = torch.where(chosen == index)
        out[row] += share[row, place, None] * expert(x[row])
    return out


class Picked(nn.Module):
    """A loss over rows that a mask picks; `bias` decides how many."""

    def __init__(self, loss):
        super().__init__()
        self.layer, self.loss = nn.Linear(6, CLASSES), loss

    def forward(self, x, labels, bias):
        return self.loss(self.layer(x), labels, labels + bias[..., 0].round().long() > 1)


class Missing(nn.Module):
    """Rows that the mask leaves out are no numbers, and `then` makes infinities of others."""

    def __init__(self, then):
        super().__init__()
        self.layer, self.head, self.then = nn.Linear(6, CLASSES), nn.Linear(CLASSES, CLASSES), then

    def forward(self, x, labels, bias):
        mask = labels + bias[..., 0].round().long() > 1
        x = torch.where(mask[:, None], x, float("nan"))
        counts = torch.where(mask, labels + 1, 0)
        return self.head(self.then(self.layer(x[mask]), counts[mask][:, None])).square().mean()


MISSING = {
    "nothing": lambda z, counts: z,
    "a quotient": lambda z, counts: z / counts,
    "a norm": lambda z, counts: z / (counts * z.square()).sum(-1, keepdim=True).sqrt(),
    "a logarithm": lambda z, counts: (z.square() * counts + 1e-3 * counts).log(),
    "an exponential": lambda z, counts: (z.detach() + z + 100 * (1 - counts.sign())).exp(),
    "a masked softmax": lambda z, counts: z.masked_fill(counts < 1, float("-inf")).softmax(-1),
}

LOSSES = {
    "cross entropy": lambda z, labels, mask: functional.cross_entropy(z[mask], labels[mask]),
    "cross entropy of probabilities": lambda z, labels, mask: functional.cross_entropy(z[mask], (0.9 * functional.one_hot(labels, CLASSES) + 0.02)[mask]),
    "mean": lambda z, labels, mask: z[mask].mean(),
    "mean of squares": lambda z, labels, mask: (z[mask] ** 2).mean(),
    "sum over count": lambda z, labels, mask: z[mask].exp().sum() / z[mask].shape[0],
    "sum of logarithms": lambda z, labels, mask: z[z > 0].log().sum(),
    "largest": lambda z, labels, mask: z[mask].amax(0).sum(),
    "softmax over rows": lambda z, labels, mask: (z[mask].softmax(0) ** 2).sum() + z[mask].logsumexp(0).sum(),
    "mean of two masks": lambda z, labels, mask: (z[mask] @ z[labels < 3].T).square().mean(),
    "centred": lambda z, labels, mask: (z[mask] - z[mask].mean(0)).square().sum(),
    "product over rows": lambda z, labels, mask: (z[mask].T @ z[mask]).square().mean().sqrt(),
}


def batches(length, biases):
    """Rows of one batch for each step: `biases` of the router send all rows to one expert, or pick none and all."""
    generator = torch.Generator().manual_seed(5)
    shape = (ROWS,) if length is None else (ROWS, length)
    for step in range(STEPS):
        bias = torch.tensor(biases[step % len(biases)], dtype=torch.float32).expand(*shape, EXPERTS)
        yield {"x": torch.randn(*shape, 6, generator=generator), "labels": torch.randint(0, CLASSES, shape, generator=generator),
               "bias": bias.contiguous()}


def trained(name, model, length, biases, **options):
    return beside_torch(suite, name, model, list(batches(length, biases)), **options)


def routed(route, **options):
    torch.manual_seed(1)
    ROUTER = [[0, 0, 0], [50, 0, 0], [0, -50, 50], [0, 0, 0]]
    return trained(f"{route.__name__}-{'-'.join(map(str, options.values()))}", Routed(route), options.pop("length", 3), ROUTER, **options)


def picked(name, length=None):
    """Few rows, and all of them."""
    torch.manual_seed(1)
    return trained(f"{name.replace(' ', '-')}-{length}", Picked(LOSSES[name]), length, [[0, 0, 0], [9, 0, 0], [1, 0, 0]])


def missing(name):
    torch.manual_seed(1)
    return trained(f"missing-{name.replace(' ', '-')}", Missing(MISSING[name]), None, [[0, 0, 0], [9, 0, 0], [1, 0, 0]])


def none_picked():
    """The sum over no rows is 0, the mean 0/0, as torch's; neither has a gradient."""
    batch = next(batches(None, [[0, 0, 0]]))
    check.write_batch(suite.dir / "none.safetensors", {**batch, "labels": torch.zeros_like(batch["labels"])})
    for name, code in (("mean", 8), ("sum of logarithms", 0)):
        model, path, out = Picked(LOSSES[name]), suite.dir / "none.onnx", suite.dir / f"none-{code}"
        with torch.no_grad():
            model.layer.weight.zero_(), model.layer.bias.fill_(-1)
        zero_compile.export(model, batch, path, check=False)
        plan = suite.compile(path, suite.dir / "none.plan", "--dim", f"batch={ROWS}", "--optimizer", "sgd", "--lr", 0.1)
        done = suite.tool("zero-run", plan, "--data", suite.dir / "none.safetensors", "--steps", 1, "--out", out, "--quiet", code=code)
        expect(code == 8 and "not finite" in done or code == 0 and json.loads((out / "metrics.jsonl").read_text().splitlines()[0])["loss"] == 0, done)


class Apart(nn.Module):
    """Norms of the rows that one expert sees, over these rows."""

    def __init__(self):
        super().__init__()
        self.layer, self.norm = nn.Linear(6, CLASSES), nn.BatchNorm1d(CLASSES)

    def forward(self, x, labels, bias):
        return self.norm(self.layer(x)[labels > 1]).square().mean()


def refused():
    data = next(batches(None, [[0, 0, 0]]))
    with raises(4, "a mask picked"):
        zero_compile.export(Apart(), data, suite.dir / "apart.onnx")
    turned = Picked(lambda z, labels, mask: torch.cat([z, z, z, z, z, z, z, z], 1)[mask].reshape(40, -1).sum(1).square().sum())
    half = Picked(lambda z, labels, mask: z[mask].sum() * torch.ones(z[mask].shape[0] // 2).sum())
    for model, words in ((turned, "which takes the rows that a mask picked apart"), (half, "is computed from the data")):
        with raises(4, words):
            zero_compile.export(model, data, suite.dir / "refused.onnx", exporter="torchscript")


class Undecided(nn.Module):
    """Of a router that begins at 0 all choices are equal."""

    def __init__(self, in_loss):
        super().__init__()
        self.layer, self.in_loss = nn.Linear(6, CLASSES), in_loss

    def forward(self, x, labels, bias):
        h = self.layer(x)
        chosen = h * torch.zeros_like(h).scatter(1, (h * 0).topk(2, 1).indices, 1.0)
        return (chosen if self.in_loss else chosen - chosen.detach()).square().mean() + h.mean() + (chosen - chosen.detach()).mean()


def equal_choices():
    """Which of them torch takes nobody says: not the first ones."""
    if bool((torch.zeros(9, CLASSES).topk(2, 1).indices == torch.arange(2)).all()):
        return "torch takes the first ones here"
    for in_loss, words in ((True, "differs from torch: loss"), (False, "trains differently from torch")):
        with raises(10, words, "of equal values"):
            zero_compile.export(Undecided(in_loss), next(batches(None, [[0, 0, 0]])), suite.dir / "undecided.onnx", exporter="torchscript")


FORMS = (by_mask, put_in, accumulated, added_at, of_those_chosen, of_more, put_at)
suite.run([(f"{form.__name__} {exporter}", lambda form=form, exporter=exporter: routed(form, exporter=exporter))
           for form, exporter in suite.draw([(form, exporter) for form in FORMS for exporter in ("torchscript", "dynamo")
                                             if (form, exporter) not in ((by_mask, "torchscript"), (of_more, "dynamo"))], len(FORMS))])
suite.run([(f"{form.__name__}, 2 ranks, stage 3, {precision}", lambda form=form, precision=precision: routed(form, ranks=2, stage=3, precision=precision))
           for form, precision in suite.draw(((by_mask, "fp32"), (added_at, "fp32"), (put_at, "bf16"), (by_mask, "bf16")), 2, covering_values=False)])
suite.run([(name, lambda name=name: picked(name)) for name in LOSSES] + [("cross entropy of tokens", lambda: picked("cross entropy", 3))])
suite.run([(f"rows that are not there, {name}", lambda name=name: missing(name)) for name in MISSING])
suite.run([("no rows", none_picked), ("norms of picked rows", refused), ("equal choices", equal_choices)])
suite.finish()
