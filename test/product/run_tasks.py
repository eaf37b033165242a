#!/usr/bin/env python3
"""Hugging Face models whose loss is not what their task says at first: labels that the model does not shift, regressions, several labels a row; and models with code
of their own."""
import json, os

from product import expect, needs, quiet_torch, raises, silent, suite, zero

needs("torch", "transformers", "onnx", "safetensors")
torch = quiet_torch()
from torch.nn import functional
import zero_compile
import transformers
from zero_compile import tasks
from zero_compile.exporting import check

suite = suite(__doc__)
WORDS, BERT = 50, dict(model_type="bert", vocab_size=50, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=24, max_position_embeddings=32)
BART = dict(model_type="bart", vocab_size=WORDS, d_model=16, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2, decoder_attention_heads=2,
            encoder_ffn_dim=24, decoder_ffn_dim=24, max_position_embeddings=32)
XLNET = dict(model_type="xlnet", vocab_size=WORDS, d_model=16, n_layer=1, n_head=2, d_inner=24)
GPT = dict(model_type="gpt2", vocab_size=WORDS, n_embd=16, n_layer=1, n_head=2, n_positions=32)


def opened(name, task, fields):
    folder = suite.dir / name
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(fields))
    return tasks.load(folder, task, dropout=False, notes=lambda text: None)


def first_loss(name, model, task, batch):
    """Of a run."""
    path = suite.dir / f"{name}.onnx"
    with silent():
        zero_compile.export(model, batch, path, loss=tasks.forward(model, task), task=task)
    check.write_batch(path.with_suffix(".safetensors"), batch)
    plan = suite.compile(path, path.with_suffix(".plan"), "--dim", "batch=2")
    return suite.train(plan, suite.dir / f"{name}-run", "--data", path.with_suffix(".safetensors"), "--steps", 1)[0]["loss"]


def next_tokens():
    """Whether a model shifts its labels or not, its loss is that of the next token."""
    for name, fields in (("bart", BART), ("xlnet", XLNET), ("gpt2", GPT)):
        model, task, config = opened(name, "causal-lm", fields)
        batch = tasks.batch(task, config, 2, 8)
        modes = [module.training for module in model.modules()]
        got = first_loss(name, model, task, batch)
        expect(modes == [module.training for module in model.modules()], "other modes")
        with torch.no_grad():
            logits = model(input_ids=batch["input_ids"], attention_mask=torch.ones_like(batch["input_ids"])).logits
        want = functional.cross_entropy(logits[:, :-1].flatten(0, 1), batch["input_ids"][:, 1:].flatten()).item()
        expect(abs(got - want) < 1e-5 * want, f"{name}: {got} instead of {want}")


def classes_of_any_name():
    """An architecture whose name ends in no task's word has the task that transformers makes it for."""
    fields = dict(model_type="bert-generation", architectures=["BertGenerationDecoder"])
    expect(tasks.task_of(fields, None) == "causal-lm", tasks.task_of(fields, None))
    fields = dict(model_type="flaubert", architectures=["FlaubertWithLMHeadModel"])  # ends as if it were causal
    expect(tasks.task_of(fields, None) == "masked-lm", tasks.task_of(fields, None))
    with raises(2, "names no architecture that tells the task"):
        tasks.task_of({**fields, "architectures": ["FlaubertModel"]}, None)


def labels_of_rows():
    """One label is a regression, as in transformers; several may be one, or each of its own."""
    squares = lambda logits, labels: functional.mse_loss(logits.squeeze(-1), labels)
    cases = {"one": (dict(num_labels=1), squares), "regression": (dict(num_labels=3, problem_type="regression"), squares),
             "several": (dict(num_labels=3, problem_type="multi_label_classification"), functional.binary_cross_entropy_with_logits),
             "classes": (dict(num_labels=3), functional.cross_entropy)}
    for name, (fields, loss) in cases.items():
        model, task, config = opened(name, "sequence-classification", {**BERT, **fields})
        batch = tasks.batch(task, config, 2, 8)
        got = first_loss(name, model, task, batch)
        with torch.no_grad():
            want = loss(model(**{key: value for key, value in batch.items() if key != "labels"}).logits, batch["labels"]).item()
        expect(got > 0 and abs(got - want) < 1e-5 * want, f"{name}: {got} instead of {want}")


OWN_CONFIG = """
from transformers import PretrainedConfig
class OwnConfig(PretrainedConfig):
    model_type = "own-kind"
    def __init__(self, vocab_size=300, width=16, **rest):
        super().__init__(**rest)
        self.vocab_size, self.width = vocab_size, width
"""
OWN_MODEL = """
import torch
from transformers import PreTrainedModel
from transformers.modeling_outputs import CausalLMOutput
from .own_config import OwnConfig
class OwnForCausalLM(PreTrainedModel):
    config_class = OwnConfig
    def __init__(self, config):
        super().__init__(config)
        self.table, self.head = torch.nn.Embedding(config.vocab_size, config.width), torch.nn.Linear(config.width, config.vocab_size)
        self.post_init()
    def forward(self, input_ids, labels=None, attention_mask=None):
        logits = self.head(self.table(input_ids))
        loss = labels is not None and torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten())
        return CausalLMOutput(loss=loss, logits=logits)
"""
BESIDE = ("processor_config.json", "source.spm", "target_vocab.json", "vocab-src.json", "bpe.codes", "normalizer.json", "LICENSE")


def code_of_its_own():
    """Trained, and home again with its code and all that lies beside its weights, in one command and in steps."""
    os.environ["HF_MODULES_CACHE"] = str(suite.dir / "modules")
    folder = suite.dir / "own"
    folder.mkdir()
    fields = dict(model_type="own-kind", architectures=["OwnForCausalLM"], auto_map={"AutoConfig": "own_config.OwnConfig", "AutoModelForCausalLM": "own_model.OwnForCausalLM"})
    (folder / "config.json").write_text(json.dumps(fields))
    (folder / "own_config.py").write_text(OWN_CONFIG)
    (folder / "own_model.py").write_text(OWN_MODEL)
    (folder / "text.txt").write_text("abc def " * 500)
    for name in BESIDE + ("flax_model.msgpack", "tf_model.h5", ".hidden", "model.onnx_data"):
        (folder / name).write_text("{}")
    command = ("train", folder, "--data", folder / "text.txt", "--byte-level", "--seq", 8, "--steps", 2, "--run-flags=--quiet", "-o")
    expect("code of its own" in zero(*command, suite.dir / "own-out", code=4), "another error")
    made = zero(*command, suite.dir / "own-out", "--trust-remote-code")
    expect("code of its own" in zero("import", suite.dir / "own-out.work/run", "--hf", folder, "-o", suite.dir / "own-home", code=4), "another error")
    again = transformers.AutoModelForCausalLM.from_pretrained(made["path"], trust_remote_code=True)
    expect(type(again).__name__ == "OwnForCausalLM" and made["tensors"] == 3, made)
    there = {path.name for path in (suite.dir / "own-out").iterdir()}
    expect(there == {"config.json", "model.safetensors", "own_config.py", "own_model.py", "text.txt", *BESIDE}, there)
    (folder / "config.json").write_text(json.dumps({**fields, "auto_map": {"AutoConfig": "own_config.OwnConfig"}}))
    text = zero("import", suite.dir / "own-out.work/run", "--hf", folder, "-o", suite.dir / "own-home", "--trust-remote-code", code=10)
    expect('no class "OwnForCausalLM", nor has the folder' in text, text)


def files_beside():
    """Without trust no code goes along; what lies beside a file of another name than a model's is not the model's."""
    folder = suite.dir / "beside"
    folder.mkdir()
    for name in (*BESIDE, "code.py", "config.json", "gpt2.json", "large.dat"):
        (folder / name).write_text(json.dumps(GPT))
    os.truncate(folder / "large.dat", 65 << 20)
    zero("export", "hf", folder, "--task", "causal-lm", "--seq", 8, "-o", suite.dir / "beside.onnx")
    check.write_batch(suite.dir / "beside.safetensors", {"input_ids": torch.ones(2, 8, dtype=torch.int64), "labels": torch.ones(2, 8, dtype=torch.int64)})
    plan = suite.compile(suite.dir / "beside.onnx", suite.dir / "beside.plan", "--dim", "batch=2")
    suite.train(plan, suite.dir / "beside-run", "--data", suite.dir / "beside.safetensors", "--steps", 1)
    for name, want in (("", {*BESIDE, "gpt2.json"}), ("config.json", {*BESIDE, "gpt2.json"}), ("gpt2.json", set())):
        home = suite.dir / f"home-{name}"
        zero("import", suite.dir / "beside-run", "--hf", folder / name, "-o", home)
        there = {path.name for path in home.iterdir()} - {"config.json", "model.safetensors", "generation_config.json"}
        expect(there == want, f"{name}: {there}")


def nothing_to_learn():
    """Zeros would be compared with zeros."""
    model = torch.nn.Linear(4, 1)
    with raises(3, "are all 0"):
        zero_compile.export(model, {"x": torch.randn(4, 4), "y": torch.zeros(4, dtype=torch.int64)}, suite.dir / "nothing.onnx",
                            loss=lambda model, batch: functional.cross_entropy(model(batch["x"]), batch["y"]))


suite.run([(f.__name__, f) for f in (next_tokens, classes_of_any_name, labels_of_rows, code_of_its_own, files_beside, nothing_to_learn)])
suite.finish()
