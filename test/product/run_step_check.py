#!/usr/bin/env python3
"""What zero export's comparison with torch finds: gradients that point elsewhere, what Python decided while tracing, state that a forward
pass changes; and which modules train."""
from product import expect, needs, quiet_torch, raises, suite

needs("torch", "onnx", "safetensors")
torch = quiet_torch()
from torch.nn import functional
import zero_compile

suite = suite(__doc__)


class Classifier(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.head = torch.nn.Linear(4, 5), torch.nn.Linear(5, 3)

    def features(self, x):
        return self.layer(x).tanh()

    def forward(self, x, y):
        return functional.cross_entropy(self.head(self.features(x)), y)


def export(model, batch=None, **options):
    """(record, notes) of an export that is compared with torch."""
    torch.manual_seed(1)
    notes = []
    batch = batch or {"x": torch.randn(4, 4), "y": torch.tensor([0, 1, 2, 0])}
    return zero_compile.export(model, batch, suite.dir / "model.onnx", notes=notes.append, **options), notes


class Reverse(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        return x.clone()

    @staticmethod
    def backward(context, gradient):
        return -gradient


class Adversarial(Classifier):
    """Domain-adversarial training's reversal of the gradient: the loss and the gradient's norm are those of a model without."""

    def features(self, x):
        return Reverse.apply(super().features(x))


def reversed_gradient():
    with raises(10, "not the gradient of 'layer.weight', 'layer.bias'", "points the other way", "torch.autograd.Function"):
        export(Adversarial())
    expect(not (suite.dir / "model.onnx").exists(), "a file was left")
    _, notes = export(Classifier())
    expect(any("4 gradients" in note for note in notes), notes)


suite.run([(f.__name__, f) for f in (reversed_gradient,)])
suite.finish()
