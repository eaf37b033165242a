#!/usr/bin/env python3
"""What a forward pass writes in place: to tensors, to views of them, by masks, by places; exported in both ways, trained beside torch."""
from product import beside_torch, needs, quiet_torch, suite

needs("torch", "transformers", "onnx", "safetensors")
torch = quiet_torch()
from torch.nn import functional
from functions import Model, batches, pooled

suite = suite(__doc__)


def rows_of_view(h, given):
    """Added to rows of what is seen under another shape; some come twice."""
    y, z = h * 1.0, torch.zeros(h.shape[0], 3, 8)
    y.view(-1, 8).index_add_(0, torch.arange(h.shape[0]) * 3, pooled(h).tanh())
    z.view(h.shape[0], -1).index_add_(1, torch.tensor([0, 5, 7, 5]), h[:, 0, :4])
    return y.square().mean() + (z * h).mean() + z.square().mean()


def columns(h, given):
    y = h.clone()
    y[:, 0] = pooled(h).sin()
    y[:, :, 1] = 0
    y[:, 1:, 2:4] *= 2
    y[..., 3].mul_(2).add_(h[..., 4])
    y[:, [0, 1]] = y[:, [1, 0]]
    y[:, ::2] = y[:, ::2].flip(1)
    return (y * torch.arange(3.0)[:, None]).square().mean() + y[:, 0].mean()


def seen_before_written(h, given):
    """A view that is there already has what is written later, whoever writes it."""
    y = h * 2
    z, first = y.transpose(1, 2), y[:, 0]
    y[:, 1] = 0.5
    z[:, 2:4].add_(1.0)
    flat = z.reshape(z.shape[0], -1)
    y.masked_fill_(y > 1, 0.25)
    return (z.sin() * y.transpose(1, 2)).mean() + flat.square().mean() + first.square().mean()


def masks(h, given):
    y, z = h.clone(), pooled(h).clone()
    y[y > 0.5] = 0
    y.view(-1)[(h < -0.5).view(-1)] = 1.0
    y[given["labels"] > 3] = 0.1
    y[:, 0].masked_fill_(y[:, 0] > 0, 0.3)
    y.flatten(1).clamp_(max=1.0)
    z[z == z.max(-1, keepdim=True)[0]] = 0
    return y.square().mean() + y.mean() + z.square().mean()


def mask_and_source(h, given):
    """What a mask picks itself, a source of as many rows as are needed, and one that does not know how many."""
    mask, rows = h > 0.2, given["word"].eq(3) | given["word"].eq(5)
    rows = torch.cat([rows, rows[:, :1]], 1)
    picked = h.masked_scatter(mask, (h * 2)[mask]).square().mean() + torch.zeros_like(h).masked_scatter_(mask, h.tanh()[mask]).mean()
    return picked + h.masked_scatter(rows.unsqueeze(-1).expand_as(h), h.flatten(0, 1) * 2 + 1).square().mean() + \
        torch.zeros_like(h).masked_scatter(mask, given["model"].centres.flatten()[None].expand(h.shape[0], -1)).square().mean()


def by_places(h, given):
    y, z, row = torch.zeros_like(h), h.clone(), torch.arange(h.shape[0])
    y.index_put_((row, given["labels"] % 3), pooled(h), accumulate=True)
    z.index_copy_(1, torch.tensor([2, 0]), h[:, :2].sin())
    z.index_fill_(2, torch.tensor([1, 3]), 0.25)
    z[:, 0].scatter_add_(1, given["word"], pooled(h)[:, :2])
    z[row, :, given["labels"]] = pooled(h)[:, :3].cos()  # with a slice between
    z[row, given["labels"] % 3, :] *= 2
    return y.square().mean() + (z * h).mean() + z.square().mean()


def unseen(h, given):
    """What is written without a gradient, which goes on as if it were not; and into what another function gave."""
    y, out = h * 2, torch.empty_like(h)
    with torch.no_grad():
        y[:, 0].mul_(0.5)
        y.view(-1, 24)[:, 3] = 1
        torch.mul(h, 2, out=out)
    y.detach()[:, 1].add_(1)
    return y.square().mean() + (out * h).mean()


def on_the_diagonal(h, given):
    y = h[0, :, :3] @ h[0, :, :3].T
    y.diagonal().add_(1.0)
    torch.diagonal(y).mul_(2)
    return y.square().mean() + functional.relu(h.view(-1, 8).mul(1.0).view(h.shape), inplace=True).mean()


def words(h, given):
    """Of the labels those before, as decoders have it."""
    before = given["word"].new_zeros(given["word"].shape)
    before[:, 1:] = given["word"][:, :-1].clone()
    before[:, 0] = 3
    before.masked_fill_(before == 2, 0)
    return (functional.embedding(before % 5, given["model"].centres) * h[:, :2]).mean()


FUNCTIONS = {f.__name__.replace("_", " "): f for f in (rows_of_view, columns, seen_before_written, masks, mask_and_source, by_places, unseen, on_the_diagonal, words)}
NOT_BY_DYNAMO = ("unseen", "on the diagonal")


def beside(name, exporter, **options):
    torch.manual_seed(1)
    return beside_torch(suite, f"{name.replace(' ', '-')}-{exporter}", Model(FUNCTIONS[name]), batches(), exporter=exporter, **options)


suite.run([(f"{name} {exporter}", lambda name=name, exporter=exporter: beside(name, exporter)) for name in FUNCTIONS for exporter in ("torchscript", "dynamo")
           if exporter == "torchscript" or name not in NOT_BY_DYNAMO])
suite.run([(f"{name}, 2 ranks, stage 3", lambda name=name: beside(name, None, ranks=2, stage=3)) for name in FUNCTIONS])
suite.finish()
