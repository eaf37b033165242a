#!/usr/bin/env python3
"""Models of peft: their adapters train alone, go home into an adapter's folder that peft opens with zero-run's loss, and train on from
there; what does not fit is refused."""
import json

from product import expect, needs, quiet_torch, raises, silent, suite, zero

needs("torch", "transformers", "onnx", "safetensors", "peft")
torch = quiet_torch()
import peft, transformers
import zero_compile
from zero_compile import tasks
from zero_compile.exporting import check

suite = suite(__doc__)
WORDS, ROWS, LENGTH = 50, 2, 8
CONFIG = transformers.GPT2Config(vocab_size=WORDS, n_embd=32, n_layer=2, n_head=4, n_positions=16, use_cache=False, resid_pdrop=0.0,
                                 embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=0, eos_token_id=0)
BASE = suite.dir / "base"


def base(seed=0, folder=BASE):
    torch.manual_seed(seed)
    transformers.GPT2LMHeadModel(CONFIG).save_pretrained(folder)
    return folder


def opened(folder=BASE):
    return transformers.GPT2LMHeadModel.from_pretrained(folder, attn_implementation="eager")


KINDS = {
    "lora": peft.LoraConfig(r=4, target_modules=["c_attn"], task_type="CAUSAL_LM", fan_in_fan_out=True),
    "saved": peft.LoraConfig(r=2, target_modules=["c_attn"], task_type="CAUSAL_LM", fan_in_fan_out=True, modules_to_save=["ln_f"]),
    "ranks": peft.LoraConfig(r=3, lora_alpha=7, use_rslora=True, rank_pattern={"c_proj": 2}, target_modules=r".*h\.1\.(attn|mlp)\.c_(attn|proj)",
                             bias="lora_only", task_type="CAUSAL_LM", fan_in_fan_out=True),
    "dora": peft.LoraConfig(r=3, target_modules=["c_attn", "c_fc"], task_type="CAUSAL_LM", fan_in_fan_out=True, use_dora=True),
    "prompts": peft.PromptTuningConfig(num_virtual_tokens=4, task_type="CAUSAL_LM"),
}
BATCH = tasks.batch("causal-lm", CONFIG, ROWS, LENGTH)


def mask(model, inputs):
    return model(**inputs, attention_mask=torch.ones_like(inputs["input_ids"])).loss


def roles(path):
    rows = suite.tool("zero-compile", path, "--list-parameters", "--dim", f"batch={ROWS}").splitlines()[1:]
    return {row.split()[0]: row.split()[3] for row in rows if len(row.split()) > 4}


def trained(name, path, steps=3):
    """A run's folder."""
    plan = zero_compile.compile(path, suite.dir / f"{name}.plan", dim=f"batch={ROWS}", lr=0.01)
    check.write_batch(suite.dir / "batch.safetensors", BATCH)
    zero_compile.train(plan, suite.dir / f"{name}-run", data=suite.dir / "batch.safetensors", steps=steps).wait()
    return suite.dir / f"{name}-run"


def loss_of(name, path, run):
    plan = suite.compile(path, suite.dir / f"{name}-eval.plan", "--dim", f"batch={ROWS}", "--forward-only")
    text = suite.tool("zero-run", "eval", plan, "--data", suite.dir / "batch.safetensors", "--weights", run / "final", "--quiet")
    return json.loads(text.splitlines()[-1])["loss"]


def as_peft(adapter, path, name, run):
    """The folder is an adapter's, and peft's loss with it is zero-run's."""
    files = {file.name for file in adapter.iterdir()}
    expect({"adapter_model.safetensors", "adapter_config.json"} <= files and not {"model.safetensors", "config.json"} & files, files)
    fields = json.loads((adapter / "adapter_config.json").read_text())
    again = peft.PeftModel.from_pretrained(opened(fields["base_model_name_or_path"]), adapter).eval()
    with torch.no_grad():
        want = float(mask(again, BATCH))
        before = float(mask(opened().eval(), BATCH))
    got = loss_of(name, path, run)
    expect(abs(got - want) < 1e-5 * want, f"{got} instead of {want}")
    expect(want < before - 1e-4, f"nothing was learned: {before} to {want}")


def adapters(name):
    model = peft.get_peft_model(opened(), KINDS[name]).train()
    wanted = {n for n, p in model.named_parameters() if p.requires_grad}
    path = suite.dir / f"{name}.onnx"
    with silent():
        zero_compile.export(model, BATCH, path, loss=mask)
    found = {n for n, role in roles(path).items() if role == "trainable"}
    expect(wanted == found, f"{sorted(found)} instead of {sorted(wanted)}")
    run = trained(name, path)
    made = zero("import", run, "--hf", BASE, "-o", suite.dir / f"{name}-adapter")
    expect(made["path"].endswith(f"{name}-adapter"), made)
    as_peft(suite.dir / f"{name}-adapter", path, name, run)


def trains_on():
    """From the adapter's folder, which names its model, and back; nothing of the model has moved."""
    model = peft.get_peft_model(opened(), KINDS["lora"])
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                parameter.normal_(std=0.02)
    folder = suite.dir / "first-adapter"
    model.peft_config["default"].base_model_name_or_path = str(BASE)
    model.save_pretrained(folder)
    path = suite.dir / "on.onnx"
    zero("export", "hf", folder, "--task", "causal-lm", "--seq", LENGTH, "-o", path)
    expect(sum(role == "trainable" for role in roles(path).values()) == 4, roles(path))
    run = trained("on", path)
    zero("import", run, "--hf", folder, "-o", suite.dir / "second-adapter")
    as_peft(suite.dir / "second-adapter", path, "on", run)


def refused():
    model = peft.get_peft_model(opened(), KINDS["lora"]).train()
    path = suite.dir / "refused.onnx"
    with silent():
        zero_compile.export(model, BATCH, path, loss=mask, check=False)
    run = trained("refused", path, 1)
    other = base(1, suite.dir / "other")
    text = zero("import", run, "--hf", other, "-o", suite.dir / "no", code=10)
    expect("beside other weights" in text and "base_layer.weight" in text, text)
    expect(not (suite.dir / "no").exists(), "a folder was left")
    model.add_adapter("second", KINDS["lora"])
    with raises(4, "2 adapters", "second"):
        zero_compile.export(model, BATCH, suite.dir / "two.onnx", loss=mask, check=False)
    lonely = suite.dir / "lonely"
    lonely.mkdir()
    (lonely / "adapter_config.json").write_text('{"base_model_name_or_path": "somebody/somewhere"}')
    expect("is no folder here" in zero("export", "hf", lonely, "--task", "causal-lm", code=3), "another error")
    (lonely / "adapter_config.json").write_text("{")
    expect("no JSON" in zero("export", "hf", lonely, "--task", "causal-lm", code=3), "another error")


def would_be_lost():
    """What trains beside the adapter, and is no module to save, peft would not write."""
    model = peft.get_peft_model(opened(), KINDS["lora"]).train()
    model.base_model.model.transformer.ln_f.requires_grad_(True)
    path = suite.dir / "beside.onnx"
    with silent():
        zero_compile.export(model, BATCH, path, loss=mask, check=False)
    text = zero("import", trained("beside", path), "--hf", BASE, "-o", suite.dir / "lost", code=10)
    expect("would be lost" in text and "ln_f.weight" in text, text)


base()
suite.run([(f"adapters {name}", lambda n=name: adapters(n)) for name in KINDS])
suite.run([(f.__name__, f) for f in (trains_on, refused, would_be_lost)])
suite.finish()
