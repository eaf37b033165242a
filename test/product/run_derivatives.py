#!/usr/bin/env python3
"""Losses that take gradients themselves: penalties of a gradient, equations of derivatives, forces, inner steps; trained beside torch. What is refused."""
from product import beside_torch, needs, quiet_torch, raises, silent, suite

needs("torch", "transformers", "onnx", "safetensors")
torch = quiet_torch()
import zero_compile
from torch import nn
from torch.nn import functional
from functions import batches, pooled
from torch.autograd import grad

suite = suite(__doc__)


class Model(nn.Module):
    def __init__(self, function, critic):
        super().__init__()
        self.layer, self.function, self.critic = nn.Linear(8, 8), function, critic()

    def forward(self, x, image, labels, word, columns, lengths, size):
        return self.function(self.layer(x), dict(x=x, image=image, labels=labels), self.critic)


def critic():
    return nn.Sequential(nn.Linear(8, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))


def normed():
    return nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.GELU(), nn.Linear(16, 1))


class Recurrent(nn.Module):
    """A layer of each kind, and a cell, over the halves of a row."""

    def __init__(self):
        super().__init__()
        self.lstm, self.gru = nn.LSTM(4, 2, bidirectional=True, batch_first=True), nn.GRU(4, 3, bias=False)
        self.rnn, self.cell, self.line = nn.RNN(3, 3), nn.LSTMCell(3, 3), nn.Linear(3, 1)

    def forward(self, x):
        h = self.gru(self.lstm(x.unflatten(-1, (2, 4)))[0].transpose(0, 1))[0]
        return self.line(self.cell(self.rnn(h)[0][1])[0])


def of_batches():
    return nn.Sequential(nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4), nn.SiLU(), nn.AvgPool2d(2), nn.BatchNorm2d(4, track_running_stats=False), nn.MaxPool2d(2, 1),
                         nn.Softplus(), nn.Flatten(), nn.Linear(16, 8), nn.BatchNorm1d(8, affine=False), nn.Tanh(), nn.Linear(8, 1))


def of_images():
    return nn.Sequential(nn.Conv2d(2, 4, 3, padding=1), nn.GroupNorm(2, 4), nn.SiLU(), nn.Conv2d(4, 4, 3, 2, 1), nn.InstanceNorm2d(4), nn.Softplus(), nn.Flatten(), nn.Linear(48, 1))


def field():
    return nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 1))


def classes():
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 8))


def penalty(h, given, of):
    """Of a critic's gradient between what is real and what is made (Gulrajani 2017)."""
    real, made, share = given["x"].mean(1), pooled(h), given["x"][:, 0, :1].sigmoid()
    between = (share * real + (1 - share) * made.detach()).requires_grad_(True)
    said = of(between)
    (slope,) = grad(said, between, grad_outputs=torch.ones_like(said), create_graph=True, retain_graph=True, only_inputs=True)
    return of(made).mean() - of(real).mean() + 10 * (slope.norm(2, dim=1) - 1).square().mean() + 1


def regularized(h, given, of):
    image = given["image"].detach().requires_grad_()
    said = of(image)
    (slope,) = grad(said.sum(), image, create_graph=True)
    return functional.softplus(-said).mean() + 5 * slope.square().sum([1, 2, 3]).mean() + h.square().mean()


def equation(h, given, of):
    """Burgers'; the second derivative is a gradient of a gradient."""
    at = given["x"][:, 0, :2].clone().requires_grad_(True)
    u = of(at)
    first = grad(u, at, torch.ones_like(u), create_graph=True)[0]
    second = grad(first[:, :1], at, torch.ones_like(u), create_graph=True)[0][:, :1]
    return (first[:, 1:] + u * first[:, :1] - 0.01 * second).square().mean() + h.square().mean()


def forces(h, given, of):
    place = given["x"][:, :, :3].clone().requires_grad_(True)
    far = ((place[:, :, None] - place[:, None]).square().sum(-1) + 0.1).sqrt()
    energy = of(torch.stack([far, 1 / far], -1)).sum((1, 2, 3))
    return (grad(energy.sum(), place, create_graph=True)[0] + given["x"][:, :, 3:6]).square().mean() + energy.square().mean() / 9 + h.square().mean()


def inner_steps(h, given, of):
    """A step on some rows before the loss of others, with and without its own gradient (Finn 2017)."""
    own, total = dict(of.named_parameters()), 0
    for whole in (True, False):
        loss = functional.cross_entropy(torch.func.functional_call(of, own, (given["x"][:, 0],)), given["labels"])
        slopes = grad(loss, list(own.values()), create_graph=whole)
        moved = {name: p - 0.1 * slope for (name, p), slope in zip(own.items(), slopes)}
        total = total + functional.cross_entropy(torch.func.functional_call(of, moved, (h[:, 1],)), given["labels"])
    return total


def attacked(h, given, of):
    """By the sign of a gradient, which has none itself."""
    x = given["x"].mean(1).requires_grad_()
    (slope,) = grad(functional.cross_entropy(of(x), given["labels"]), x)
    return functional.cross_entropy(of((x + 0.1 * slope.sign()).detach()), given["labels"]) + h.square().mean()


def sampled(h, given, of):
    """Langevin's steps down an energy."""
    x = given["x"][:, 0].clone()
    for _ in range(3):
        x = x.detach().requires_grad_(True)
        x = x - 0.1 * grad(of(x).sum(), x)[0]
    return of(pooled(h)).mean() - of(x.detach()).mean() + 1


MODELS = {"penalty": (penalty, critic), "penalty through a norm": (penalty, normed), "penalty of recurrent layers": (penalty, Recurrent),
          "regularized": (regularized, of_images), "regularized through batch norms and pools": (regularized, of_batches), "equation": (equation, field),
          "forces": (forces, field), "inner steps": (inner_steps, classes), "attacked": (attacked, classes), "sampled": (sampled, critic)}


def beside(name, **options):
    torch.manual_seed(1)
    return beside_torch(suite, f"{name.replace(' ', '-')}-{options.get('ranks', 1)}", Model(*MODELS[name]), batches(), rate=0.05, **options)


def backward(h, given, of):
    of(h).mean().backward()
    return of(h).mean() * of[0].weight.grad.mean()


def at_once(h, given, of):
    x = given["x"].mean(1).requires_grad_()
    y = of(x)
    return grad(y, x, torch.eye(4).reshape(4, 4, 1), is_grads_batched=True)[0].square().mean()


def refused():
    for function, words in ((backward, ("takes a gradient itself", "create_graph")), (at_once, ("is_grads_batched", "one after the other"))):
        with raises(4, "run_derivatives.py:", *words), silent():
            zero_compile.export(Model(function, critic), batches()[0], suite.dir / "refused.onnx")


suite.run([(name, lambda name=name: beside(name)) for name in MODELS])
suite.run([(f"{name}, 2 ranks, stage 3", lambda name=name: beside(name, ranks=2, stage=3)) for name in MODELS])
suite.run([(f.__name__, f) for f in (refused,)])
suite.finish()
