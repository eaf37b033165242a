"""The models of this folder: how each is built, its inputs, which exports are made of it, and its starting point."""

import dataclasses
import logging
import os
import warnings

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
warnings.filterwarnings("ignore")

from typing import Callable

import torch
import transformers

transformers.utils.logging.set_verbosity_error()
logging.getLogger("torch.onnx").setLevel(logging.ERROR)
torch.set_num_threads(1)

STEPS, BATCH, HALVES = 8, 4, 2
HALF = BATCH // HALVES
IGNORE = -100


@dataclasses.dataclass
class Spec:
    """One model: how to build it, its inputs, and which exports to make."""

    build: Callable  # build(attn_implementation, dropout) -> module returning a loss or an output with .loss
    inputs: Callable  # inputs(generator, rows) -> {name: tensor}, in call order
    exports: tuple
    dynamic: dict = dataclasses.field(default_factory=dict)  # {input: {axis: name}} for *_dynbatch
    attention: bool = True  # False: the class takes no attn_implementation


EXPORTS = {
    "ts17": dict(dynamo=False, opset=17),
    "ts17_dropout": dict(dynamo=False, opset=17, dropout=0.1),
    "ts17_dynbatch": dict(dynamo=False, opset=17, dynamic=True),
    "dynamo18": dict(opset=18),
    "dynamo18_external": dict(opset=18, external=True),
    "dynamo20opt": dict(opset=20, optimize=True),
    "dynamo20opt_freshinit": dict(opset=20, optimize=True, fresh=True),
    "dynamo20_dynbatch": dict(opset=20, dynamic=True),
    "dynamo23": dict(opset=23),
    "dynamo23_sdpa": dict(opset=23, attn="sdpa"),
    "dynamo23_dropout": dict(opset=23, dropout=0.1),
    "dynamo23_sdpa_dropout": dict(opset=23, attn="sdpa", dropout=0.1),
    "dynamo23opt_sdpa": dict(opset=23, attn="sdpa", optimize=True),
}
STANDARD = ("ts17", "dynamo18", "dynamo23", "dynamo20opt")


def skewed_tokens(gen, rows, seq, vocab, low=1):
    """Token ids with a skewed distribution, so that eight steps visibly lower the loss."""
    u = torch.rand(rows, seq, generator=gen)
    return (low + (vocab - low) * u**3).long().clamp(max=vocab - 1)


def right_padding(gen, rows, seq):
    """0/1 mask; every second row (from the first) is padded at the right."""
    lengths = torch.randint(seq // 2, seq, (rows,), generator=gen)
    lengths[1::2] = seq
    return (torch.arange(seq)[None] < lengths[:, None]).long()


def lm_inputs(vocab, seq):
    def make(gen, rows):
        mask = right_padding(gen, rows, seq)
        ids = skewed_tokens(gen, rows, seq, vocab) * mask
        return {"input_ids": ids, "attention_mask": mask, "labels": torch.where(mask == 1, ids, IGNORE)}

    return make


def mlm_inputs(vocab, seq, mask_id):
    def make(gen, rows):
        mask = right_padding(gen, rows, seq)
        ids = skewed_tokens(gen, rows, seq, vocab, low=4) * mask
        chosen = (torch.rand(rows, seq, generator=gen) < 0.3) & (mask == 1)
        chosen[:, 1] = True
        labels = torch.where(chosen, ids, IGNORE)
        return {"input_ids": torch.where(chosen, mask_id, ids), "attention_mask": mask, "labels": labels}

    return make


def image_inputs(size, classes, channels=3, name="pixel_values"):
    def make(gen, rows):
        labels = torch.randint(0, classes, (rows,), generator=gen)
        patterns = torch.randn(classes, channels, size, size, generator=gen)
        noise = torch.randn(rows, channels, size, size, generator=gen)
        return {name: 0.5 * patterns[labels] + noise, "labels": labels}

    return make


def hf(cls_name, config_name, dropout_fields=(), **fields):
    """Builder for a transformers class: no hub, all dropout probabilities set explicitly."""

    def build(attn, dropout):
        values = dict(fields, **{f: dropout for f in dropout_fields})
        config = getattr(transformers, config_name)(**values)
        cls = getattr(transformers, cls_name)
        return cls._from_config(config, attn_implementation=attn) if attn else cls._from_config(config)

    build.config = {"class": cls_name, **fields, **{f: 0.0 for f in dropout_fields}}
    return build


class Mlp(torch.nn.Module):
    def __init__(self, features=16, hidden=32, classes=10):
        super().__init__()
        self.fc1 = torch.nn.Linear(features, hidden)
        self.fc2 = torch.nn.Linear(hidden, classes)

    def forward(self, x, labels):
        return torch.nn.functional.cross_entropy(self.fc2(self.fc1(x).relu()), labels)


def build_mlp(attn, dropout):
    return Mlp()


build_mlp.config = {"class": "Linear(16,32)-ReLU-Linear(32,10)-cross_entropy"}


def mlp_inputs(gen, rows):
    labels = torch.randint(0, 10, (rows,), generator=gen)
    centers = torch.randn(10, 16, generator=gen)
    return {"x": centers[labels] + 0.5 * torch.randn(rows, 16, generator=gen), "labels": labels}


def batch_seq(*names):
    return {n: {0: "batch", 1: "seq"} for n in names}


SPECIAL = dict(bos_token_id=1, eos_token_id=2, pad_token_id=0)
LM_DYNAMIC = batch_seq("input_ids", "attention_mask", "labels")

MODELS = {
    "mlp": Spec(build_mlp, mlp_inputs, STANDARD, attention=False),
    "gpt2": Spec(
        hf(
            "GPT2LMHeadModel",
            "GPT2Config",
            ("resid_pdrop", "embd_pdrop", "attn_pdrop"),
            vocab_size=131,
            n_positions=32,
            n_embd=32,
            n_layer=2,
            n_head=4,
            use_cache=False,
            **SPECIAL,
        ),
        lm_inputs(131, 16),
        STANDARD
        + (
            "dynamo23_sdpa",
            "ts17_dropout",
            "dynamo23_dropout",
            "dynamo23_sdpa_dropout",
            "ts17_dynbatch",
            "dynamo20_dynbatch",
            "dynamo20opt_freshinit",
        ),
        LM_DYNAMIC,
    ),
    "llama": Spec(
        hf(
            "LlamaForCausalLM",
            "LlamaConfig",
            ("attention_dropout",),
            vocab_size=149,
            hidden_size=48,
            intermediate_size=80,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=64,
            tie_word_embeddings=False,
            use_cache=False,
            **SPECIAL,
        ),
        lm_inputs(149, 16),
        STANDARD + ("dynamo23_sdpa", "dynamo23opt_sdpa", "dynamo18_external"),
        LM_DYNAMIC,
    ),
    "bert": Spec(
        hf(
            "BertForMaskedLM",
            "BertConfig",
            ("hidden_dropout_prob", "attention_probs_dropout_prob"),
            vocab_size=113,
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=64,
            max_position_embeddings=40,
            pad_token_id=0,
        ),
        mlm_inputs(113, 24, mask_id=3),
        STANDARD,
        LM_DYNAMIC,
    ),
    "resnet": Spec(
        hf(
            "ResNetForImageClassification",
            "ResNetConfig",
            embedding_size=16,
            hidden_sizes=[16, 32],
            depths=[2, 1],
            layer_type="basic",
            num_labels=10,
        ),
        image_inputs(32, 10),
        STANDARD,
        attention=False,
    ),
    "vit": Spec(
        hf(
            "ViTForImageClassification",
            "ViTConfig",
            ("hidden_dropout_prob", "attention_probs_dropout_prob"),
            hidden_size=48,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=96,
            image_size=32,
            patch_size=8,
            num_labels=10,
        ),
        image_inputs(32, 10),
        STANDARD,
    ),
}


class Loss(torch.nn.Module):
    """forward(*inputs) -> scalar loss only."""

    def __init__(self, model, names):
        super().__init__()
        self.model = model
        self.names = tuple(names)

    def forward(self, *inputs):
        out = self.model(**dict(zip(self.names, inputs)))
        return out if isinstance(out, torch.Tensor) else out.loss


def fresh(spec, names, attn="eager", dropout=0.0, perturb=True):
    """The same starting point every time.

    `perturb` adds N(0, 0.02) to all rank <= 1 parameters: a fresh transformers model has
    all biases zero and all norm scales one, and an exporter that merges equal
    initializers would tie them (see dynamo20opt_freshinit).
    """
    assert torch.get_default_dtype() == torch.float32, "initial values must not depend on the precision under test"
    torch.manual_seed(1234)
    model = spec.build(attn if spec.attention else None, dropout).float()
    wrapper = Loss(model, names)
    if perturb:
        gen = torch.Generator().manual_seed(4321)
        with torch.no_grad():
            for p in wrapper.parameters():
                if p.dim() <= 1:
                    p.add_(0.02 * torch.randn(p.shape, generator=gen))
    return wrapper.train()


def cast(t, dtype):
    return t.to(dtype) if t.is_floating_point() else t


def half_batch(inputs, step, half, dtype=torch.float32):
    start = step * BATCH + half * HALF
    return [cast(t[start : start + HALF], dtype) for t in inputs.values()]


def batch_norms(wrapper):
    kind = torch.nn.modules.batchnorm._BatchNorm
    return {n: m for n, m in wrapper.named_modules() if isinstance(m, kind)}
