"""Models of one function, and what they are given: shared by the scripts that try functions of torch."""
import torch
from torch import nn
from torch.nn import functional

STEPS, ROWS = 4, 4
SHAPES = {"x": (3, 8), "image": (2, 6, 7)}  # floats; "labels", "word", "lengths" and "size" are integers


class Model(nn.Module):
    """`function` of h, which is a layer's of x, and of what else its arguments name."""

    def __init__(self, function, width=8):
        super().__init__()
        self.layer, self.centres, self.function = nn.Linear(8, width), nn.Parameter(torch.randn(5, width)), function

    def forward(self, x, image, labels, word, columns, lengths, size):
        return self.function(self.layer(x), dict(image=image, labels=labels, word=word, columns=columns, lengths=lengths, size=size, model=self))


class Classifier(nn.Module):
    """Of features that others compute otherwise."""

    def __init__(self):
        super().__init__()
        self.layer, self.head = nn.Linear(4, 5), nn.Linear(5, 3)

    def features(self, x):
        return self.layer(x).tanh()

    def forward(self, x, y):
        return functional.cross_entropy(self.head(self.features(x)), y)


def batches():
    generator = torch.Generator().manual_seed(7)
    draw = lambda low, high, *shape: torch.randint(low, high, (ROWS, *shape), generator=generator)  # noqa: E731
    return [{**{name: torch.randn(ROWS, *shape, generator=generator) for name, shape in SHAPES.items()}, "labels": draw(0, 8), "word": draw(1, 8, 2),
             "columns": torch.stack([draw(0, 8), draw(0, 3), draw(0, 5)], 1), "lengths": draw(2, 4), "size": draw(0, 3)} for _ in range(STEPS)]


def pooled(h):
    return h.mean(1)
