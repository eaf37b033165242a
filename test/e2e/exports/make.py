#!/usr/bin/env python3
"""Makes the exports of this folder and PyTorch's losses on them: small models of families that other fixtures lack.

    python make.py [NAME ...]        # torch 2.13, transformers 5.23, onnx, safetensors

Per model: NAME.onnx, NAME.safetensors (12 rows of every graph input), and its entry of golden.json. A step takes four rows,
as two halves of two: two ranks, or two micro-steps; its loss is the mean of the halves'. Stack traces are taken out of
dynamo's files, which are three times as large with them; the other metadata stays.
"""
import contextlib
import io
import json
import os
import pathlib
import sys
import warnings

os.environ["HF_HUB_OFFLINE"] = "1"
warnings.filterwarnings("ignore")
import onnx  # noqa: E402
import torch  # noqa: E402
from torch.nn.functional import cross_entropy  # noqa: E402
import transformers as hf  # noqa: E402
from safetensors.torch import save_file  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
STEPS, HALF = 3, 2
ROWS = STEPS * 2 * HALF
VOCABULARY = 97
TOKENS = dict(vocab_size=VOCABULARY, pad_token_id=0, bos_token_id=1, eos_token_id=2)
LAYER = dict(hidden_size=32, intermediate_size=48, num_attention_heads=4)
NO_CACHE = dict(use_cache=False)


def text(rows, generator, length=12):
    ids = torch.randint(3, VOCABULARY, (rows, length), generator=generator)
    ends = torch.randint(length // 2, length, (rows, 1), generator=generator)
    ends[1::2] = length
    mask = (torch.arange(length)[None] < ends).long()
    return {"input_ids": ids * mask, "attention_mask": mask, "labels": torch.where(mask == 1, ids, -100)}


def classes(rows, generator):
    """Token classes; those of the padding count too, so that it is seen what padding_idx leaves out."""
    return {**text(rows, generator), "labels": torch.randint(0, 5, (rows, 12), generator=generator)}


def pairs(rows, generator):
    """Source and target; some targets are shorter."""
    labels = torch.randint(3, VOCABULARY, (rows, 8), generator=generator)
    labels[::2, -2:] = -100
    return {**text(rows, generator), "labels": labels}


def images(rows, generator):
    return {"pixel_values": torch.randn(rows, 3, 32, 32, generator=generator),
            "labels": torch.randint(0, 10, (rows,), generator=generator)}


def segments(rows, generator):
    labels = torch.randint(0, 5, (rows, 32, 32), generator=generator)
    labels[:, 0, :4] = 255
    return {"pixel_values": torch.randn(rows, 3, 32, 32, generator=generator), "labels": labels}


def spectra(rows, generator):
    return {"input_features": torch.randn(rows, 16, 32, generator=generator),
            "labels": torch.randint(3, VOCABULARY, (rows, 8), generator=generator)}


def waves(rows, generator):
    return {"input_values": torch.randn(rows, 600, generator=generator),
            "labels": torch.randint(0, 4, (rows,), generator=generator)}


class Recurrent(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.layer = torch.nn.Embedding(VOCABULARY, 16), torch.nn.LSTM(16, 12, batch_first=True)
        self.head = torch.nn.Linear(12, 5)

    def forward(self, input_ids, attention_mask, labels):
        states = self.layer(self.table(input_ids))[0] * attention_mask[..., None]
        return cross_entropy(self.head(states).flatten(0, 1), labels.flatten())


class InvertedBottlenecks(torch.nn.Module):
    """As in MobileNet v2: narrow, wide and per channel, narrow; a batch norm after each."""

    def __init__(self):
        super().__init__()

        def layer(channels, out, kernel=1, stride=1, groups=1, last=False):
            parts = [torch.nn.Conv2d(channels, out, kernel, stride, kernel // 2, groups=groups, bias=False),
                     torch.nn.BatchNorm2d(out)]
            return parts + ([] if last else [torch.nn.ReLU6()])

        self.stem = torch.nn.Sequential(*layer(3, 8, 3, 2))
        self.blocks = torch.nn.ModuleList(
            torch.nn.Sequential(*layer(8, 24), *layer(24, 24, 3, groups=24), *layer(24, 8, last=True)) for _ in range(2))
        self.head = torch.nn.Linear(8, 10)

    def forward(self, pixel_values, labels):
        x = self.stem(pixel_values)
        for block in self.blocks:
            x = x + block(x)
        return cross_entropy(self.head(x.mean((2, 3))), labels)


class Denoiser(torch.nn.Module):
    """Residual blocks as in diffusion models: group norms with scale and bias, without, and of each channel by itself."""

    def __init__(self):
        super().__init__()
        self.stem = torch.nn.Conv2d(3, 16, 3, 2, 1)

        def block(*norms):
            return torch.nn.Sequential(*(layer for norm in norms for layer in (norm, torch.nn.SiLU(), torch.nn.Conv2d(16, 16, 3, 1, 1))))

        self.blocks = torch.nn.ModuleList([block(torch.nn.GroupNorm(4, 16), torch.nn.GroupNorm(8, 16, affine=False)),
                                           block(torch.nn.InstanceNorm2d(16, affine=True), torch.nn.GroupNorm(1, 16))])
        self.norm, self.head = torch.nn.GroupNorm(4, 16), torch.nn.Linear(16, 10)

    def forward(self, pixel_values, labels):
        x = self.stem(pixel_values)
        for block in self.blocks:
            x = x + block(x)
        return cross_entropy(self.head(torch.nn.functional.silu(self.norm(x)).mean((2, 3))), labels)


class Expert(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.wide, self.narrow = torch.nn.Linear(16, 24), torch.nn.Linear(24, 16)

    def forward(self, x):
        return self.narrow(torch.nn.functional.silu(self.wide(x)))


class Routed(torch.nn.Module):
    """Experts that see the tokens which the router gives them, as models without a library of experts write it."""

    def __init__(self):
        super().__init__()
        self.table, self.router = torch.nn.Embedding(VOCABULARY, 16), torch.nn.Linear(16, 5)
        self.experts, self.head = torch.nn.ModuleList(Expert() for _ in range(5)), torch.nn.Linear(16, 7)

    def forward(self, input_ids, attention_mask, labels):
        x = self.table(input_ids)
        logits = self.head(x + self.route(x, self.router(x).softmax(-1)))
        return self.loss(logits, labels % 7, attention_mask == 1)


class RoutedByMask(Routed):
    """One expert a token; the loss of the tokens that are no padding."""

    def route(self, x, shares):
        share, chosen = shares.max(-1)
        out = torch.zeros_like(x)
        for index, expert in enumerate(self.experts):
            mask = chosen == index
            out[mask] = out[mask] + share[mask].unsqueeze(-1) * expert(x[mask])
        return out

    def loss(self, logits, labels, mask):
        return cross_entropy(logits[mask], labels[mask]) + 0.01 * (logits[mask] ** 2).mean()


class RoutedByPosition(Routed):
    """Two experts a token, as Mixtral's were written: sums at positions."""

    def route(self, x, shares):
        flat = x.flatten(0, 1)
        share, chosen = shares.flatten(0, 1).topk(2, -1)
        share, out = share / share.sum(-1, keepdim=True), torch.zeros_like(flat)
        chosen = torch.nn.functional.one_hot(chosen, 5).permute(2, 1, 0)
        for index, expert in enumerate(self.experts):
            place, token = torch.where(chosen[index])
            out.index_add_(0, token, expert(flat[token]) * share[token, place, None])
        return out.reshape(x.shape)

    def loss(self, logits, labels, mask):
        return cross_entropy(logits.flatten(0, 1), labels.flatten())


class RoutedInPlace(RoutedByPosition):
    """The same, rows put back where they were; the loss of picked tokens by hand."""

    def route(self, x, shares):
        flat = x.flatten(0, 1)
        share, chosen = shares.flatten(0, 1).topk(2, -1)
        out = torch.zeros_like(flat)
        for index, expert in enumerate(self.experts):
            token, place = torch.where(chosen == index)
            out[token] += share[token, place, None] * expert(flat[token])
        return out.reshape(x.shape)

    def loss(self, logits, labels, mask):
        picked = logits.log_softmax(-1).gather(-1, labels[..., None])[mask]
        return -picked.sum() / picked.shape[0]


# name: class, configuration, its fields, inputs, arguments of forward, exporter, flags of zero-compile. A class of this
# file takes no configuration. Exporters: TorchScript's or dynamo's with an opset; "opt" optimized, "-open" with open
# dimensions batch, length and (labels of another length) target, "-f64" in double precision.
MODELS = {
    "bloom": ("BloomForCausalLM", "BloomConfig", dict(hidden_size=32, n_layer=1, n_head=4, **TOKENS), text, NO_CACHE, "ts17", []),
    "mistral": ("MistralForCausalLM", "MistralConfig",
                dict(num_hidden_layers=1, num_key_value_heads=2, head_dim=8, sliding_window=5, max_position_embeddings=32,
                     **LAYER, **TOKENS), text, NO_CACHE, "dynamo20opt", []),
    "mixtral": ("MixtralForCausalLM", "MixtralConfig",
                dict(num_hidden_layers=1, num_key_value_heads=2, num_local_experts=4, num_experts_per_tok=2,
                     experts_implementation="batched_mm", router_aux_loss_coef=0.02, max_position_embeddings=32,
                     **LAYER, **TOKENS), text, dict(output_router_logits=True, **NO_CACHE), "dynamo20opt", []),
    "t5": ("T5ForConditionalGeneration", "T5Config",
           dict(vocab_size=VOCABULARY, d_model=32, d_kv=8, d_ff=48, num_layers=1, num_heads=4, decoder_start_token_id=0),
           pairs, NO_CACHE, "ts17", []),
    "whisper": ("WhisperForConditionalGeneration", "WhisperConfig",
                dict(num_mel_bins=16, d_model=32, encoder_layers=1, decoder_layers=1, encoder_attention_heads=4,
                     decoder_attention_heads=4, encoder_ffn_dim=48, decoder_ffn_dim=48, max_source_positions=16,
                     max_target_positions=12, decoder_start_token_id=1, **TOKENS), spectra, NO_CACHE, "dynamo18", []),
    "wav2vec2": ("Wav2Vec2ForSequenceClassification", "Wav2Vec2Config",
                 dict(vocab_size=20, num_hidden_layers=1, conv_dim=(16, 16), conv_kernel=(10, 3), conv_stride=(5, 4),
                      num_conv_pos_embeddings=8, num_conv_pos_embedding_groups=4, num_labels=4, classifier_proj_size=16,
                      apply_spec_augment=False, num_feat_extract_layers=2, **LAYER), waves, {}, "ts17", []),
    "convnext": ("ConvNextForImageClassification", "ConvNextConfig",
                 dict(hidden_sizes=[16, 32], depths=[1, 1], num_stages=2, num_labels=10), images, {}, "dynamo18", []),
    "segformer": ("SegformerForSemanticSegmentation", "SegformerConfig",
                  dict(num_encoder_blocks=2, depths=[1, 1], sr_ratios=[2, 1], hidden_sizes=[16, 32], patch_sizes=[7, 3],
                       strides=[4, 2], num_attention_heads=[1, 2], mlp_ratios=[2, 2], decoder_hidden_size=16, num_labels=5,
                       classifier_dropout_prob=0.0, drop_path_rate=0.0), segments, {}, "ts17", []),
    "llama": ("LlamaForCausalLM", "LlamaConfig",
              dict(num_hidden_layers=1, num_key_value_heads=2, max_position_embeddings=32, tie_word_embeddings=False,
                   **LAYER, **TOKENS), text, NO_CACHE, "dynamo23opt-open", ["--dim", "batch=2", "--dim", "length=12"]),
    "phi3": ("Phi3ForCausalLM", "Phi3Config",
             dict(num_hidden_layers=1, num_key_value_heads=2, max_position_embeddings=32, hidden_size=64, intermediate_size=48,
                  num_attention_heads=4, **TOKENS), text, NO_CACHE, "dynamo18", []),
    "bart": ("BartForConditionalGeneration", "BartConfig",
             dict(d_model=32, encoder_layers=1, decoder_layers=1, encoder_attention_heads=4, decoder_attention_heads=4,
                  encoder_ffn_dim=48, decoder_ffn_dim=48, max_position_embeddings=16, decoder_start_token_id=2, **TOKENS),
             pairs, NO_CACHE, "ts14-open", ["--dim", "batch=2", "--dim", "length=12", "--dim", "target=8"]),
    "lstm": (Recurrent, None, {}, classes, {}, "dynamo20opt-open", ["--dim", "batch=2", "--dim", "length=12"]),
    "bottlenecks": (InvertedBottlenecks, None, {}, images, {}, "ts17-f64", []),
    "denoiser": (Denoiser, None, {}, images, {}, "ts17", []),
    "routed_by_mask": (RoutedByMask, None, {}, text, {}, "ts17-open", ["--dim", "batch=2", "--dim", "length=12"]),
    "routed_by_position": (RoutedByPosition, None, {}, text, {}, "dynamo20opt-open", ["--dim", "batch=2", "--dim", "length=12"]),
    "routed_in_place": (RoutedInPlace, None, {}, text, {}, "dynamo18-open", ["--dim", "batch=2", "--dim", "length=12"]),
    "roberta": ("RobertaForTokenClassification", "RobertaConfig",
                dict(num_hidden_layers=1, max_position_embeddings=16, num_labels=5, vocab_size=VOCABULARY, pad_token_id=0,
                     **LAYER), classes, {}, "dynamo18", []),
}


class Loss(torch.nn.Module):
    """forward(*inputs) -> the loss alone"""

    def __init__(self, model, names, arguments):
        super().__init__()
        self.model, self.names, self.arguments = model, tuple(names), arguments

    def forward(self, *inputs):
        result = self.model(**dict(zip(self.names, inputs)), **self.arguments)
        return result if isinstance(result, torch.Tensor) else result.loss


def without_dropout(config):
    """Every field that is a probability of leaving something out."""
    for name in dir(config):
        if any(word in name for word in ("dropout", "pdrop", "layerdrop")) and isinstance(getattr(config, name), float):
            setattr(config, name, 0.0)
    return config


def build(name):
    """The same starting point every time; vectors are moved, so that no two are equal and merged by an exporter."""
    cls, configuration, fields, inputs, arguments, exporter, _ = MODELS[name]
    torch.manual_seed(1234)
    model = (getattr(hf, cls)._from_config(without_dropout(getattr(hf, configuration)(**fields))) if configuration
             else cls())
    rows = inputs(ROWS, torch.Generator().manual_seed(99))
    generator = torch.Generator().manual_seed(4321)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() <= 1:
                parameter.add_(0.02 * torch.randn(parameter.shape, generator=generator))
    if exporter.endswith("-f64"):
        model, rows = model.double(), {key: v.double() if v.is_floating_point() else v for key, v in rows.items()}
    return Loss(model, rows, arguments).train(), rows


def losses(name, optimizer):
    module, rows = build(name)
    rule = optimizer(module.parameters())
    result = []
    for step in range(STEPS):
        rule.zero_grad()
        total = 0.0
        for half in range(2):
            first = (2 * step + half) * HALF
            loss = module(*(values[first:first + HALF] for values in rows.values()))
            (loss / 2).backward()
            total += loss.item() / 2
        result.append(total)
        rule.step()
    return result


def open_dimensions(rows):
    """Per input: dimension -> name. Labels may be of another length."""
    length = next(iter(rows.values())).shape[1]
    return {key: {0: "batch", **({1: "length" if v.shape[1] == length else "target"} if v.dim() == 2 else {})}
            for key, v in rows.items()}


def export(name, exporter, path):
    module, rows = build(name)
    arguments = tuple(values[:HALF] for values in rows.values())
    common = dict(input_names=list(rows), output_names=["loss"])
    exporter, _, form = exporter.partition("-")
    if form == "open":
        names = open_dimensions(rows)
        common |= dict(dynamic_axes=names) if exporter[:2] == "ts" else dict(dynamic_shapes=(tuple(names.values()),))
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        if exporter[:2] == "ts":
            torch.onnx.export(module, arguments, path, dynamo=False, opset_version=int(exporter[2:]), do_constant_folding=False,
                              training=torch.onnx.TrainingMode.TRAINING, **common)
            return
        torch.onnx.export(module, arguments, path, dynamo=True, opset_version=int(exporter[6:8]), external_data=False,
                          optimize=exporter.endswith("opt"), verbose=False, **common)
    model = onnx.load(path)
    for node in model.graph.node:
        kept = [entry for entry in node.metadata_props
                if entry.key in ("pkg.torch.onnx.fx_node", "pkg.onnxscript.rewriter.rule_name")]
        del node.metadata_props[:]
        node.metadata_props.extend(kept)
    onnx.save(model, path)


def main():
    torch.set_num_threads(1)
    golden_file = HERE / "golden.json"
    golden = json.loads(golden_file.read_text()) if golden_file.exists() else {}
    for name in sys.argv[1:] or MODELS:
        exporter, flags = MODELS[name][5:]
        golden[name] = {
            "exporter": exporter, "flags": flags,
            "sgd": losses(name, lambda p: torch.optim.SGD(p, lr=0.05)),
            "adamw": losses(name, lambda p: torch.optim.AdamW(p, lr=1e-3, weight_decay=0.01)),
        }
        save_file({key: values.contiguous() for key, values in build(name)[1].items()}, HERE / f"{name}.safetensors")
        export(name, exporter, str(HERE / f"{name}.onnx"))
        golden_file.write_text(json.dumps(golden, indent=1, sort_keys=True) + "\n")
        print(name, (HERE / f"{name}.onnx").stat().st_size, golden[name]["sgd"])


if __name__ == "__main__":
    main()
