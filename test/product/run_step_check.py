#!/usr/bin/env python3
"""What zero export's comparison with torch finds: gradients that point elsewhere, what Python decided while tracing, state that a forward
pass changes; and which modules train."""
from product import expect, needs, quiet_torch, raises, suite

needs("torch", "onnx", "safetensors")
torch = quiet_torch()
import numpy
from torch.nn import functional
import zero_compile
from zero_compile.exporting import check, export as exporting, steps
from functions import Classifier

suite = suite(__doc__)


def export(model, batch=None, **options):
    """(record, notes) of an export that is compared with torch."""
    torch.manual_seed(1)
    notes = []
    batch = batch or {"x": torch.randn(4, 4), "y": torch.tensor([0, 1, 2, 0])}
    return zero_compile.export(model, batch, suite.dir / "model.onnx", notes=notes.append, **options), notes


def reverse(x):
    """The gradient is turned by a hook, of which exporters know nothing."""
    x = x.clone()
    x.register_hook(lambda gradient: -gradient)
    return x


class Swapped(torch.autograd.Function):
    """Its backward is no product with the gradient, element by element."""

    @staticmethod
    def forward(context, x):
        return x.clone()

    @staticmethod
    def backward(context, gradient):
        return gradient.flip(-1)


class Adversarial(Classifier):
    """Domain-adversarial training's reversal of the gradient: the loss and the gradient's norm are those of a model without."""

    def __init__(self, by):
        super().__init__()
        self.by = by

    def features(self, x):
        return self.by(super().features(x))


def reversed_gradient():
    with raises(10, "not the gradient of 'layer.weight', 'layer.bias'", "points the other way", "torch.autograd.Function"):
        export(Adversarial(reverse))
    with raises(10, "not the gradient of 'layer.weight', 'layer.bias'", "torch.autograd.Function"):
        export(Adversarial(Swapped.apply))
    expect(not (suite.dir / "model.onnx").exists(), "a file was left")
    _, notes = export(Classifier())
    expect(any("4 gradients" in note for note in notes), notes)


class Averaging(Classifier):
    """A moving average of the features, as of a codebook or a centre."""

    def __init__(self):
        super().__init__()
        self.register_buffer("centre", torch.zeros(5))

    def features(self, x):
        h = super().features(x)
        if self.training:
            self.centre.mul_(0.9).add_(h.detach().mean(0), alpha=0.1)
        return h - self.centre


class Growing(Classifier):
    """A buffer that has another shape afterwards."""

    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(1, 5))

    def features(self, x):
        h = super().features(x)
        self.seen = torch.cat([self.seen, h.detach()])[-9:]
        return h - self.seen.mean(0)


class Teacher(Classifier):
    """A norm that evaluates, whose statistics follow by hand."""

    def __init__(self):
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(5).eval()

    def features(self, x):
        h = super().features(x)
        self.norm.running_mean.mul_(0.9).add_(h.detach().mean(0), alpha=0.1)
        return h + self.norm(h)


class ByNumpy(Averaging):
    """What tensors do not say is not in the trace: the buffer's new value is a constant there."""

    def features(self, x):
        h = Classifier.features(self, x)
        self.centre.copy_(torch.from_numpy(0.9 * self.centre.numpy() + 0.1 * h.detach().mean(0).numpy()))
        return h + 0 * self.centre


def changed_state():
    """Buffers that a forward pass changes go from step to step, if tensors say how and in one shape; in eval mode they stay what they are."""
    _, notes = export(Averaging())
    expect(any("changed by each step" in note and "'centre'" in note for note in notes), notes)
    _, notes = export(Teacher())
    expect(any("changed by each step" in note and "'norm.running_mean'" in note for note in notes), notes)
    with raises(4, "the forward pass changes", "'seen'", "shape"):
        export(Growing())
    with raises(10, "keeps 'centre' differently from torch", "run_step_check.py:", "numpy's functions by torch's"):
        export(ByNumpy(), exporter="torchscript")
    spectral = Classifier()
    torch.nn.utils.parametrizations.spectral_norm(spectral.layer)
    spectral.layer.parametrizations.eval()
    _, notes = export(spectral)
    expect(not any("changed by each step" in note for note in notes), notes)


class Constrained(Classifier):
    """Its weights keep a norm, or follow others, by what forward writes into them."""

    def __init__(self, by):
        super().__init__()
        self.by, self.table, self.slow = by, torch.nn.Embedding(3, 5, max_norm=1.0 if by == "max_norm" else None), torch.nn.Linear(4, 5)
        self.slow.load_state_dict(self.layer.state_dict())
        self.slow.requires_grad_(False)
        self.scale, self.mean_scale = torch.nn.Parameter(torch.ones(5)), torch.nn.Parameter(torch.ones(5), requires_grad=False)
        with torch.no_grad():
            self.table.weight.mul_(0.1)
            self.layer.weight.copy_(functional.normalize(self.layer.weight, dim=1))

    def forward(self, x, y):
        if self.by == "data":
            self.layer.weight.data = functional.normalize(self.layer.weight.data, dim=1)
        if self.by == "magnitude":
            self.layer.weight.data *= self.layer.weight.abs() > self.layer.weight.abs().mean()
        if self.by == "average":
            with torch.no_grad():
                self.slow.weight.mul_(0.9).add_(self.layer.weight, alpha=0.1)
        if self.by == "copy":
            self.mean_scale.data = 0.5 * self.mean_scale.data + 0.5 * self.scale.data
        return functional.cross_entropy(self.head(self.features(x) * self.scale + self.table(y) + self.slow(x) * self.mean_scale), y)


def written_parameters():
    """What a forward pass writes into parameters that train is refused, though it changes nothing in the first."""
    for by, name in (("max_norm", "table"), ("data", "layer"), ("magnitude", "layer")):
        with raises(4, "the forward pass changes", f"'{name}.weight'", "by the optimizer alone", "weight * mask"):
            export(Constrained(by))
    export(Constrained("nothing"))
    _, notes = export(Constrained("average"))
    expect(any("changed by each step" in note and "'slow.weight'" in note for note in notes), notes)
    _, notes = export(Constrained("copy"))  # 1 is the mean of 1 and 1, until one of them moves
    expect(any("changed by each step" in note and "'mean_scale'" in note for note in notes), notes)


class Grouped(Classifier):
    """What is best of a group of answers, two rows each; a judge in 16 bits says so (Shao 2024)."""

    def __init__(self):
        super().__init__()
        self.judge = torch.nn.Linear(4, 6, dtype=torch.bfloat16).requires_grad_(False)

    def forward(self, x, y):
        with torch.no_grad():
            q, k, v = self.judge(x.to(torch.bfloat16)).view(1, 1, -1, 3, 2).unbind(3)
            worth = functional.scaled_dot_product_attention(q, k, v, is_causal=True).float().sum(-1).view(-1, 2)
        better = (worth - worth.mean(1, keepdim=True)).sign() * torch.tensor([0.5, 1.0])
        return (functional.cross_entropy(self.head(self.features(x)), y, reduction="none") * better.view(-1)).mean()


def rows_in_groups():
    """Where torch takes no row more, twice as many are compared."""
    for exporter in ("torchscript", "dynamo"):
        export(Grouped(), exporter=exporter)


class Queue(Classifier):
    """Of what came before; the place of the next is a buffer's."""

    def __init__(self, place):
        super().__init__()
        self.place = place
        self.register_buffer("queue", torch.zeros(6, 5))
        self.register_buffer("next", torch.zeros(1, dtype=torch.long))

    def features(self, x):
        h = super().features(x)
        before = self.queue.clone()
        self.queue[self.place(self.next)] = h.detach().mean(0)
        self.next[0] = (self.next[0] + 1) % 6
        return h + before[1] + 2 * before[2] + before.mean(0)


class Columns(Queue):
    """Two at a time, where they are due (MoCo's, He 2020)."""

    def features(self, x):
        h = Classifier.features(self, x)
        before, begin = self.queue.T.clone(), int(self.next)
        with torch.no_grad():
            self.queue.T[:, begin:begin + 2] = torch.stack([h.mean(0), h.std(0)], 1)
            self.next[0] = (begin + 2) % 6
        each = h[range(x.shape[0]), (x[:, 0] > 0).long()]  # of rows that are as many as the batch has
        return h + before[:, 0] + 2 * before[:, 3] + before.mean(1) + torch.arange(len(h))[:, None] / len(h) + each[:, None]


def second_steps():
    """What Python takes from a buffer is the first step's in all, which the first one alone does not show; int() can be kept as a tensor."""
    with raises(10, "(in the second step)", "run_step_check.py:", "by tensors alone"):
        export(Queue(lambda place: place.item()), exporter="torchscript")
    _, notes = export(Queue(lambda place: int(place)))
    expect("int() and len() of tensors are tensors in the export" in notes, notes)
    _, notes = export(Columns(None), exporter="torchscript")
    expect("int() and len() of tensors are tensors in the export" in notes, notes)


class Sized(Classifier):
    """Python computes with sizes that no batch changes, and a norm of torch's checks them; or with a buffer's value (`counts`)."""

    def __init__(self, counts):
        super().__init__()
        self.table, self.counts = torch.nn.Parameter(torch.randn(1, 9, 5)), counts
        self.register_buffer("factor", torch.tensor(2))

    def features(self, x):
        side, columns = int(self.table.shape[1] ** 0.5), int(x.shape[1] / 2)
        h = super().features(x) + self.table[:, side] * (int(self.factor) if self.counts else columns)
        return torch.nn.functional.multi_head_attention_forward(h, h, h, 5, 1, torch.eye(5).repeat(3, 1), None, None, None, False, 0.0, torch.eye(5), None)[0]


def sizes_that_stay():
    for counts in (False, True):
        _, notes = export(Sized(counts), exporter="torchscript")
        expect(any("fixed in the export" in note or "are tensors in the export" in note for note in notes) == counts, notes)


class Gated(Classifier):
    """Behind a gate that begins closed gradients are 0, wrong ones too; one layer never gets any."""

    def __init__(self, behind):
        super().__init__()
        self.gate, self.inner, self.dead, self.behind = torch.nn.Parameter(torch.zeros(())), torch.nn.Linear(5, 5), torch.nn.Linear(5, 5), behind

    def features(self, x):
        h = super().features(x)
        return h + self.gate * self.behind(self.inner(h)) + self.dead(h).clamp(-1e-9, -1e-10)


def behind_zeros():
    """It is opened a little, in copies."""
    with raises(10, "not the gradient of", "'inner.weight'", "moved by noise"):
        export(Gated(reverse))
    model = Gated(torch.tanh)
    _, notes = export(model)
    said = next(note for note in notes if note.startswith("loss"))
    expect("2 of 0 again" in said and said.endswith("gradients are 0: 'dead.weight', 'dead.bias'") and model.gate == 0, said)
    _, notes = export(Classifier())
    expect(not any(" 0" in note.partition("gradients (")[2] for note in notes if note.startswith("loss")), notes)


def not_taken():
    """Models that cannot be copied, and a mean of all steps."""
    uncopied = Classifier()
    uncopied.file = open(__file__)
    with raises(4, "cannot be copied", "Classifier"):
        export(uncopied)
    model = Normed()
    model.other.momentum = None
    with raises(4, "momentum None", "'other'"):
        export(model)
    model.other.eval()
    export(model)


def closures():
    """What closes over a part of the model is of the copy in a copy: hooks, forwards that are replaced, functions in lists and partials."""
    import functools

    def hooked(model):
        model.layer.register_forward_pre_hook(lambda module, given: given[0] + model.layer.bias[:1])

    def replaced(model):
        inner = model.layer.forward

        def again(x, part=model.layer):
            return inner(x) * part.bias.sum().exp()

        model.layer.forward = again

    def listed(model):
        def count(depth):
            return model.layer.bias.sum() if depth == 0 else count(depth - 1)

        model.parts = [functools.partial(lambda scale, x: x * scale * count(2).exp(), 2.0)]
        model.layer.register_forward_hook(lambda module, given, result: model.parts[0](result))

    for change in (hooked, replaced, listed):
        model = Classifier()
        change(model)
        _, notes = export(model)
        expect(any(note.startswith("loss") for note in notes), notes)


def hooks_of_parameters():
    """They are no part of the graph, and torch's copies of a parameter have none."""
    for hook in ("register_hook", "register_post_accumulate_grad_hook"):
        model = Classifier()
        handle = getattr(model.layer.weight, hook)(lambda value: None)
        with raises(4, "hooks on gradients", "'layer.weight'"):
            export(model)
        handle.remove()
        export(model)


class Normed(Classifier):
    def __init__(self):
        super().__init__()
        self.norm, self.other = torch.nn.BatchNorm1d(5), torch.nn.BatchNorm1d(5)

    def features(self, x):
        return self.other(self.norm(super().features(x)))


def modes():
    """A batch norm in eval mode stays in it, as in torch; a model all in eval mode is exported in training mode; both are as before."""
    model = Normed()
    model.norm.eval()
    model.norm.running_mean.normal_()
    export(model, exporter="torchscript")
    expect([m.training for m in model.modules()] == [True, True, True, False, True], "another mode afterwards")
    _, notes = export(model.eval())
    expect(any("in eval mode" in note for note in notes) and not any(m.training for m in model.modules()), notes)


class Drawn(Classifier):
    """Of a distribution whose draws have a derivative that nothing here has."""

    def forward(self, x, y):
        return super().forward(x, y) + torch.distributions.Beta(x.exp(), x.exp() + 1).rsample().mean()


class Packed(Classifier):
    def forward(self, x, y):
        packed = torch.nn.utils.rnn.pack_padded_sequence(x.unsqueeze(-1), torch.tensor([4, 3, 2, 1]), batch_first=True)
        return super().forward(x, y) + packed.data.sum()


def not_exported():
    """Draws and packed sequences are refused with their place, complex parameters by name; a dropout, which is compared without, is no state that changes."""
    with raises(4, "draws of a Gamma, Beta,", "run_step_check.py:", "Kumaraswamy"):
        export(Drawn())
    with raises(4, "a packed sequence (", "run_step_check.py:", "mask"):
        export(Packed())
    model = Classifier()
    model.phase = torch.nn.Parameter(torch.ones(3, dtype=torch.cfloat))
    with raises(4, "complex parameters: 'phase'", "view_as_complex"):
        export(model)
    model = Classifier()
    model.head = torch.nn.Sequential(torch.nn.Dropout(0.1), model.head)
    _, notes = export(model)
    expect(not any("changed by" in note for note in notes), notes)


class Decided(Classifier):
    """Python looks at the data: at its sum, or at the longest row."""

    def __init__(self, by):
        super().__init__()
        self.by = by

    def forward(self, x, y, lengths):
        if self.by == "sum":
            return super().forward(x, y) * (2 if x.sum().item() > 0 else 3)
        longest = int(lengths.max())
        mask = (torch.arange(longest)[None] < lengths[:, None]).float()
        return super().forward(torch.nn.functional.pad(x[:, :longest] * mask, (0, 4 - longest)), y)


def decided_by_python():
    """A value of the traced data differs on others; where it was taken is said, a line each."""
    torch.manual_seed(3)
    batch = {"x": torch.randn(4, 4), "y": torch.tensor([0, 1, 2, 0]), "lengths": torch.tensor([1, 2, 4, 3])}
    for by in ("sum", "length"):
        notes = []
        with raises(10, "differs from torch", "run_step_check.py:", "is fixed in the export"):
            zero_compile.export(Decided(by), batch, suite.dir / "decided.onnx", notes=notes.append, exporter="torchscript")
        expect(sum("took from a tensor here is fixed" in note for note in notes) == 1, notes)
        expect(not (suite.dir / "decided.onnx").exists(), "a file was left")


class Counted(Classifier):
    """By len() of the rows: a penalty so small that no comparison finds it, and of a model that draws the loss."""

    def __init__(self, draws):
        super().__init__()
        self.draws = draws

    def forward(self, x, y):
        if self.draws:
            z = self.head(self.features(x + 0.1 * torch.randn_like(x)))
            return functional.cross_entropy(z, y, reduction="sum") / len(x)
        return super().forward(x, y) + 1e-7 * self.layer.weight.square().sum() / len(y)


class Neighbours(Classifier):
    """A sparse matrix that stays."""

    def __init__(self):
        super().__init__()
        self.register_buffer("near", (torch.rand(5, 5) > 0.5).float().to_sparse())

    def features(self, x):
        return torch.sparse.mm(self.near, super().features(x).T).T + x @ (self.near @ self.layer.weight).T


def rows_that_len_counts():
    """They stay open, though the first export would pass."""
    for draws in (False, True):
        _, notes = export(Counted(draws))
        expect("int() and len() of tensors are tensors in the export" in notes and not any("is fixed" in note for note in notes), notes)
    export(Neighbours(), exporter="torchscript")


def amplified_rounding():
    """A gradient beyond the usual bound may be about as far from torch's as one that is as good; a wrong one is much further."""
    want = numpy.random.default_rng(0).standard_normal((5, 4))
    off = 0.01 * abs(want).max() * numpy.random.default_rng(1).standard_normal(want.shape)
    most = 0.1 * steps.norm([want])
    for step, told in ((want + off[::-1], True), (want - 2 * off, True), (-want, False), (want * 1.5, False), (want + 30 * off, False)):
        expect(check.is_rounding(step, want + off, want, most) is told, f"{told}: {step} for {want}")
    expect(not check.is_rounding(-want, -want + off, want, most), "what torch itself cannot tell is not accepted")


class Narrow(Normed):
    """Names fp32 itself, so that it cannot be computed in double."""

    def features(self, x):
        return super().features(x.float())


class Bent(Narrow):
    """Many rows of ReLU, of which rounding puts some on the other side."""

    def __init__(self):
        super().__init__()
        self.wide = torch.nn.Linear(4, 512)

    def features(self, x):
        return super().features(functional.relu(self.wide(x.float().repeat(64, 1))).view(len(x), -1, 4).mean(1))


def as_good_gradients():
    """Of gradients further away than rounding takes most, those are told that a model with almost these weights has: with or without one in double."""
    torch.manual_seed(5)
    batch = {"x": torch.randn(6, 4), "y": torch.tensor([0, 1, 2, 0, 1, 2])}
    for kind in (Normed, Narrow, Bent):
        wrapper = exporting.wrap(kind(), list(batch), None)
        _, own = steps.loss_and_gradients(wrapper, batch)
        for twin in check.nudged(wrapper, check.NUDGED):
            _, near = steps.take(twin, batch)
        expect(check.more_than_rounding(wrapper, batch, near, own, list(own)) == [], f"{kind}: a gradient of almost the same weights is wrong")
        for name in own:
            wrong = {**own, name: own[name] * 1.02 + 0.02 * steps.floor(own)}
            expect(check.more_than_rounding(wrapper, batch, wrong, own, [name]) == [name], f"{kind}: a gradient of {name} two hundredths off is rounding")


def norms_amplify():
    limits, steps.GRADIENT, check.AMPLIFIED = (steps.GRADIENT, check.AMPLIFIED), 0, 0
    try:
        with raises(10, "not the gradient of", "batch norms amplify rounding"):
            export(Normed())
    finally:
        steps.GRADIENT, check.AMPLIFIED = limits


suite.run([(f.__name__, f) for f in (reversed_gradient, changed_state, written_parameters, rows_in_groups, second_steps, sizes_that_stay, not_taken, closures, hooks_of_parameters, behind_zeros, modes, not_exported, decided_by_python, rows_that_len_counts, amplified_rounding, as_good_gradients, norms_amplify)])
suite.finish()
