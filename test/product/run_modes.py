#!/usr/bin/env python3
"""Modules whose second use in a step, mode, hooks or memory exporters do not see: batch norms applied twice or in eval mode beside others, hooks that the first forward
pass registers, parameters of scripted functions, branches on what a step or another batch changes, and what Python keeps. Trained beside torch, and taken home."""
import copy
import json

from product import beside_torch, expect, needs, quiet_torch, raises, silent, suite, zero

needs("torch", "transformers", "onnx", "safetensors")
torch = quiet_torch()
import torch.utils.checkpoint
import transformers
import zero_compile
import zero_compile.tasks
from torch import nn
from torch.nn import functional
from functions import Classifier

suite = suite(__doc__)
EXPORTERS = ("torchscript", "dynamo")


def floats(seed, **shapes):
    generator = torch.Generator().manual_seed(seed)
    return {name: torch.randn(5, *shape, generator=generator) for name, shape in shapes.items()}


def beside(name, model, exporter, data):
    """beside_torch, and what comes home is what torch's model is then."""
    torch.manual_seed(1)
    with silent():
        apart = beside_torch(suite, f"{name}-{exporter}", model, data, exporter=exporter, rate=0.05)
    home, _ = zero_compile.import_weights(suite.dir / f"{name}-{exporter}-run")
    for key, value in model.state_dict().items():
        expect(torch.allclose(torch.as_tensor(home[key]), value, rtol=1e-4, atol=1e-5), f"{key} comes home as {home[key]}, not as {value}")
    return apart


def batch_norms_of_few_rows():
    """LeViT's loss of two rows is noise in torch itself, of eight it is not."""
    folder = suite.dir / "levit"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"model_type": "levit", "hidden_sizes": [16, 32, 48], "num_attention_heads": [2, 2, 2],
                                                    "key_dim": [8, 8, 8], "depths": [1, 1, 1], "image_size": 32, "num_labels": 10}))
    details = zero("export", "hf", folder, "--task", "image-classification", "-o", suite.dir / "levit.onnx")
    expect(details["inputs"] == ["pixel_values", "labels"], details)


class Siamese(nn.Module):
    """One norm follows the statistics of both; `evaluates`: a teacher's, in eval mode, stands for one of them."""

    def __init__(self, evaluates):
        super().__init__()
        self.layer, self.norm, self.evaluates = nn.Linear(4, 6), nn.BatchNorm1d(6), evaluates
        self.teacher = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6)).requires_grad_(False)
        self.teacher[1].running_mean.normal_()

    def train(self, mode=True):
        super().train(mode)
        self.teacher.eval()
        return self

    def forward(self, a, b):
        other = self.teacher(b) if self.evaluates else self.norm(self.layer(b).relu())
        return (self.norm(self.layer(a)) - other).square().mean()


def norms(evaluates, exporter):
    torch.manual_seed(1)
    return beside("eval" if evaluates else "twice", Siamese(evaluates).train(), exporter, [floats(k, a=(4,), b=(4,)) for k in range(3)])


class Followed(nn.Module):
    """Statistics of rows' norms, and of norms that are no modules, which train or evaluate, as the same one does beside a module's; of 16 bits, in 32."""

    def __init__(self):
        super().__init__()
        self.layer, self.rows, self.still = nn.Conv1d(2, 4, 2), nn.InstanceNorm1d(4, affine=True, track_running_stats=True, momentum=0.3), nn.InstanceNorm1d(4, track_running_stats=True)
        self.norm, self.scale = nn.BatchNorm1d(4), nn.Parameter(torch.rand(4))
        for name in ("mean", "fixed_mean"):
            self.register_buffer(name, torch.randn(4))
        for name in ("width", "fixed_width"):
            self.register_buffer(name, torch.rand(4) + 0.5)
        self.still.running_mean.normal_()

    def train(self, mode=True):
        super().train(mode)
        self.still.eval()
        return self

    def forward(self, a):
        h = self.still(self.rows(self.layer(a)).tanh())
        moved = functional.batch_norm(h, self.mean, self.width, self.scale, None, True, 0.2)
        fixed = functional.batch_norm(h, self.fixed_mean, self.fixed_width, None, self.scale, False)
        return (moved.sin() * fixed).mean() + self.norm(h.to(torch.bfloat16)).float().pow(3).mean()


def followed(exporter):
    torch.manual_seed(1)
    return beside("followed", Followed().train(), exporter, [floats(k, a=(2, 6)) for k in range(3)])


class Checkpointed(nn.Module):
    """A checkpoint's norm follows each batch twice, as the backward pass computes it again."""

    def __init__(self):
        super().__init__()
        self.layer, self.norm, self.last, self.head = nn.Linear(4, 6), nn.BatchNorm1d(6), nn.BatchNorm1d(6, momentum=0.4), nn.Linear(6, 3)

    def forward(self, a):
        h = a
        for reentrant, part in ((False, lambda x: self.norm(self.layer(x)).tanh()), (True, lambda x: self.last(x.sin()))):
            h = torch.utils.checkpoint.checkpoint(part, h, use_reentrant=reentrant)
        return self.head(h).square().mean()


def checkpointed(exporter):
    torch.manual_seed(1)
    return beside("checkpointed", Checkpointed(), exporter, [floats(k, a=(4,)) for k in range(3)])


class Half(nn.Module):
    """In 16 bits, all of it or where autocast says so: tables, attention, norms, statistics."""

    def __init__(self, kind):
        super().__init__()
        self.table, self.layer, self.norm, self.head, self.kind = nn.Embedding(9, 8), nn.Linear(8, 24), nn.LayerNorm(8), nn.Linear(8, 3), kind
        self.line, self.batch = nn.Conv1d(8, 8, 3, padding=1), nn.BatchNorm1d(8)
        if not kind:
            self.to(torch.bfloat16)

    def forward(self, x, y, scale):
        with torch.autocast("cpu", torch.bfloat16, bool(self.kind)):
            q, k, v = self.layer(self.table(x)).unflatten(-1, (2, 12)).transpose(1, 2).chunk(3, -1)
            h = functional.scaled_dot_product_attention(q, k, v, scale=0.5).transpose(1, 2).flatten(2)
            h = self.norm(self.layer(h).chunk(3, -1)[0]) * scale + h.std(1, keepdim=True) / 4
            return functional.cross_entropy(self.head(self.batch(self.line(h.mT)).tanh().mean(-1)).float(), y)


def half(kind, exporter):
    torch.manual_seed(1)
    generator, kind_of_input = torch.Generator().manual_seed(2), torch.float32 if kind else torch.bfloat16
    data = [{"x": torch.randint(0, 9, (6, 5), generator=generator), "y": torch.randint(0, 3, (6,), generator=generator),
             "scale": (torch.rand(6, 1, 1, generator=generator) + 0.5).to(kind_of_input)} for _ in range(3)]
    with silent():
        return beside_torch(suite, f"half-{kind}-{exporter}", Half(kind).train(), data, exporter=exporter, rate=0.05, precision="bf16")


class Aligned(nn.Module):
    """Sums over many steps, in a plan of 16 bits."""

    def __init__(self):
        super().__init__()
        self.scores = nn.Linear(5, 7)

    def forward(self, x, y):
        lengths = torch.full((x.shape[0],), 280), torch.full((x.shape[0],), 6)
        return functional.ctc_loss(functional.log_softmax(self.scores(x), -1).transpose(0, 1), y, *lengths)


def aligned(exporter):
    torch.manual_seed(1)
    generator = torch.Generator().manual_seed(2)
    data = [{"x": torch.randn(4, 280, 5, generator=generator), "y": torch.randint(1, 7, (4, 6), generator=generator)} for _ in range(2)]
    with silent():
        return beside_torch(suite, f"aligned-{exporter}", Aligned().train(), data, exporter=exporter, rate=0.05, precision="bf16")


class Probe(nn.Module):
    """Of transformers 5, whose first forward pass registers hooks that collect hidden states, and notes that in an attribute."""

    def __init__(self):
        super().__init__()
        config = transformers.BertConfig(hidden_size=16, num_hidden_layers=3, num_attention_heads=2, intermediate_size=24, vocab_size=32, max_position_embeddings=16,
                                         hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
        self.encoder, self.head = transformers.BertModel(config, add_pooling_layer=False), nn.Linear(16, 3)

    def states(self, x):
        return self.encoder(input_ids=x, output_hidden_states=True).hidden_states

    def forward(self, x, y):
        return functional.cross_entropy(self.head(self.states(x)[-2][:, 0]), y)


def hooks(exporter):
    torch.manual_seed(1)
    model, generator = Probe().train(), torch.Generator().manual_seed(2)
    with torch.no_grad():
        for p in model.encoder.parameters():
            p *= 3  # layers that are apart
    data = [{"x": torch.randint(0, 32, (4, 6), generator=generator), "y": torch.randint(0, 3, (4,), generator=generator)} for _ in range(3)]
    apart = beside("hidden-states", model, exporter, data)
    expect(len(model.states(data[0]["x"])) == 4, f"the model has {len(model.states(data[0]['x']))} hidden states afterwards")
    return apart


class Observer(nn.Module):
    """As QAT's: the first batch's statistic is copied, later ones move it. `begun`: the first is behind it."""

    def __init__(self, begun):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.register_buffer("seen", torch.tensor(begun))
        self.register_buffer("mean", torch.zeros(4))

    def forward(self, x):
        h = self.layer(x)
        with torch.no_grad():
            if self.seen:
                self.mean.mul_(0.9).add_(h.mean(0), alpha=0.1)
            else:
                self.mean.copy_(h.mean(0))
                self.seen.copy_(torch.tensor(True))
        return (h - self.mean).square().mean() + h.pow(4).mean()


def first_batches():
    """What Python decided of the first batch is another thing in the second step: found by a step of other data."""
    with silent(), raises(10, "in the second step", "run_modes.py:"):
        zero_compile.export(Observer(False), floats(0, x=(4,)), suite.dir / "observer.onnx", exporter="torchscript", notes=lambda text: None)
    return beside("observer", Observer(True), "torchscript", [floats(k, x=(4,)) for k in range(3)])


class Averaged(nn.Module):
    """Of what torch.optim averages: the first step copies, which Python decides of a count, and the teacher is the student then."""

    def __init__(self, begun):
        super().__init__()
        self.layer = nn.Linear(4, 3)
        self.slow = torch.optim.swa_utils.AveragedModel(self.layer, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9))
        if begun:
            self.slow.update_parameters(self.layer)

    def forward(self, x):
        with torch.no_grad():
            self.slow.update_parameters(self.layer)
            target = self.slow(x)
        h = self.layer(x)
        return functional.mse_loss(h, target) + h.square().mean()


def averaged():
    with silent(), raises(10, "in the second step", "run_modes.py:"):
        zero_compile.export(Averaged(False), floats(0, x=(4,)), suite.dir / "averaged.onnx", exporter="torchscript", notes=lambda text: None)
    return beside("averaged", Averaged(True), "torchscript", [floats(k, x=(4,)) for k in range(3)])


@torch.jit.script_if_tracing
def relative(size: int, table):
    if table.shape[0] != 2 * size - 1:
        found = table * 2
    else:
        found = table
    return found[torch.arange(size)[:, None] - torch.arange(size)[None] + (size - 1)]


class Scripted(nn.Module):
    def __init__(self):
        super().__init__()
        self.positions, self.layer = nn.Parameter(torch.randn(5, 4)), nn.Linear(4, 4)

    def forward(self, x):
        return torch.einsum("bhc,hkc->bhk", self.layer(x), relative(x.shape[1], self.positions)).square().mean()


def scripted(exporter):
    torch.manual_seed(1)
    return beside("scripted", Scripted(), exporter, [floats(k, x=(3, 4)) for k in range(3)])


def scripted_module():
    """A module that is scripted as a whole is in no trace."""
    model = nn.Sequential(torch.jit.script(nn.Linear(4, 3)))
    with silent(), raises(4, "the module itself, without torch.jit.script"):
        zero_compile.export(model, floats(0, x=(4,)), suite.dir / "whole.onnx", lambda model, batch: model(batch["x"]).square().mean(), notes=lambda text: None)


class Clipped(nn.Module):
    """Weights that a forward pass clips: no mask of pruned ones, whatever a step's noise."""

    def __init__(self, most):
        super().__init__()
        self.layer, self.most = nn.Linear(4, 3), most
        with torch.no_grad():
            self.layer.weight.mul_(3)

    def forward(self, x):
        with torch.no_grad():
            self.layer.weight.clamp_(-self.most, self.most)
        return self.layer(x).square().mean()


def clipped():
    for seed in range(6):
        torch.manual_seed(seed)
        model = Clipped(1.0)
        before = copy.deepcopy(model.state_dict())
        with silent(), raises(4, "the forward pass changes", "'layer.weight'"):
            zero_compile.export(model, floats(seed, x=(4,)), suite.dir / "clipped.onnx", notes=lambda text: None)
        expect(all(torch.equal(value, before[key]) for key, value in model.state_dict().items()), "the model is another afterwards")


class Counting(Classifier):
    """State of Python's: a ramp over the steps, a moving average in a plain tensor, or numbers that nothing depends on; what it kept of its last passes."""

    def __init__(self, by):
        super().__init__()
        self.by, self.step, self.c, self.beta = by, 0, torch.zeros(5), 1.0
        self.history, self.seen = [], {"pair": (None,)}

    def features(self, x):
        h = super().features(x)
        self.step += 1
        self.history.append(h)
        self.seen["pair"] = (h, h)
        self.last = h
        if self.by == "step":
            self.beta = min(1, self.step / 100)
        if self.by == "tensor":
            self.c = 0.9 * self.c + 0.1 * h.mean(0).detach()
        if self.by == "in place":
            self.c.mul_(0.9).add_(0.1 * h.mean(0).detach())
        return self.beta * h - self.c


def state_that_is_no_buffer():
    """What the passes before left is found by a second one; nothing of it is in the model afterwards, which may hold its last passes."""
    batch = {"x": torch.randn(4, 4), "y": torch.tensor([0, 1, 2, 0])}
    notes = []
    for by in ("step", "tensor", "in place", "nothing"):
        model = Counting(by)
        model(**batch)
        before = dict(vars(model))
        kept = (model.c.clone(), len(model.history), model.seen["pair"])
        if by == "nothing":
            notes.clear()
            zero_compile.export(model, batch, suite.dir / "counting.onnx", notes=notes.append)
            expect(any("'step'" in note and "each forward pass" in note for note in notes), notes)
            model.drop = torch.nn.Dropout(0.3)  # whose probability the comparison, and no forward pass, makes 0
            notes.clear()
            zero_compile.export(model, batch, suite.dir / "counting.onnx", notes=notes.append)
            expect(any("'step'" in note for note in notes) and not any("drop.p" in note for note in notes), notes)
        else:
            with raises(4, "depends on those before it", "'step'" if by == "step" else "loss", "as an input"):
                zero_compile.export(model, batch, suite.dir / "counting.onnx", notes=notes.append)
        expect(vars(model).keys() == before.keys() and all(vars(model)[name] is value for name, value in before.items()), f"other attributes: {by}")
        expect(torch.equal(kept[0], model.c) and kept[1] == len(model.history) and kept[2] is model.seen["pair"], f"another state: {by}")


class Remembering(nn.Module):
    """What is in no parameter and no buffer: the last features, the first ones' mean, a list of losses, a teacher whose momentum Python counts."""

    def __init__(self, kind):
        super().__init__()
        self.layer, self.teacher, self.kind, self.kept, self.seen, self.count = nn.Linear(4, 4), nn.Linear(4, 4).requires_grad_(False), kind, None, [], 0
        self.teacher.load_state_dict(self.layer.state_dict())
        self.register_buffer("steps", torch.tensor(0))

    def forward(self, x, mask):
        h = self.layer(x)
        loss = h.square().mean()
        if self.kind == "last":
            before, self.kept = self.kept, h.detach()
            return loss if before is None else loss + (h - before).square().mean()
        if self.kind == "first":
            self.kept = x.mean(0) if self.kept is None else self.kept
            return (h - self.kept).square().mean()
        if self.kind == "list":
            self.seen.append(loss.item())
            return loss / (1e-3 + sum(self.seen) / len(self.seen))
        if self.kind == "counted":
            self.count += 1
            with torch.no_grad():
                for slow, fast in zip(self.teacher.parameters(), self.layer.parameters()):
                    slow.lerp_(fast, 1 / self.count)
            return (h - self.teacher(x)).square().mean() + loss
        if self.kind == "schedule":
            self.steps += 1
            return loss * (0.1 if self.steps.item() > 4 else 1.0)
        return loss if mask.all() else (h * mask).square().mean()


def remembered(kind, code, *words):
    torch.manual_seed(1)
    data = {**floats(1, x=(4,)), "mask": torch.ones(5, 4, dtype=torch.long)}
    with silent(), raises(code, *words):
        zero_compile.export(Remembering(kind), data, suite.dir / "remembering.onnx", exporter="torchscript", notes=lambda text: None)


def experts():
    """Of transformers, which sorts tokens by expert: refused with what helps, and as that says."""
    torch.manual_seed(1)
    model = transformers.OlmoeForCausalLM(transformers.OlmoeConfig(hidden_size=16, intermediate_size=24, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=2,
                                                                   vocab_size=32, num_experts=4, num_experts_per_tok=2, max_position_embeddings=16, pad_token_id=0, eos_token_id=1, use_cache=False))
    data = [{name: torch.randint(1, 32, (4, 8)) for name in ("input_ids", "labels")}]
    with silent(), raises(4, "zero_compile.tasks.dense_routing(model, print)"):
        zero_compile.export(model.train(), data[0], suite.dir / "experts.onnx", exporter="torchscript", notes=lambda text: None)
    zero_compile.tasks.dense_routing(model, lambda text: None)
    with silent():
        zero_compile.export(model, data[0], suite.dir / "experts.onnx", exporter="torchscript", notes=lambda text: None)


suite.run([(f"{name}, {exporter}", lambda run=run, exporter=exporter: run(exporter)) for exporter in EXPORTERS
           for name, run in (("a norm twice", lambda e: norms(False, e)), ("norms in eval mode", lambda e: norms(True, e)), ("hooks", hooks), ("scripted", scripted), ("statistics that are followed", followed), ("norms in a checkpoint", checkpointed),
                             ("16 bits", lambda e: half("", e)), ("alignment in 16 bits", aligned), ("autocast", lambda e: half("autocast", e)))])
suite.run([(f"remembered: {kind}", lambda kind=kind, code=code, words=words: remembered(kind, code, *words)) for kind, code, words in (
    ("last", 4, ("depends on those before it",)), ("first", 4, ("depends on those before it",)), ("list", 4, ("depends on those before it",)),
    ("counted", 4, ("depends on those before it", "'count'")), ("schedule", 10, ("in step 8",)), ("mask", 10, ("with other flags in it", "run_modes.py:")))])
suite.run([("first batches", first_batches), ("averaged", averaged), ("a scripted module", scripted_module), ("experts", experts), ("batch norms of few rows", batch_norms_of_few_rows), ("state that is no buffer", state_that_is_no_buffer), ("clipped", clipped)])
suite.finish()
