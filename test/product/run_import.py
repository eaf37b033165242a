#!/usr/bin/env python3
"""zero import of what was trained: which checkpoint, weights of another model, a full disk; and the model that goes home."""
import json, os, subprocess, sys

from product import expect, needs, quiet_torch, raises, suite, zero

needs("torch", "transformers", "onnx", "safetensors")
torch = quiet_torch()
from zero_compile import weights
from zero_compile.exporting import check

suite = suite(__doc__)
WORDS = 50


def full_disk(*command):
    """No file may grow: exit code 6, and nothing is left."""
    folder = suite.dir / "full"
    folder.mkdir(exist_ok=True)
    limit = "import resource, signal, sys, zero_compile.weights as w; from zero_compile.cli import main; real = w.state_dict\n" \
            "def then(*of):\n  state = real(*of)\n  signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n" \
            "  return state\nw.state_dict = then\nsys.exit(main())"
    done = subprocess.run([sys.executable, "-c", limit, *map(str, command)], cwd=folder, capture_output=True, text=True)
    expect(done.returncode == 6 and "Traceback" not in done.stderr, f"exit code {done.returncode}: {done.stderr}")
    expect(not list(folder.iterdir()), f"{list(folder.iterdir())} are left")


def newest_checkpoint():
    """Of a run that was gone on with and has not ended again, not the `final` of before; of one step both, the `final`."""
    folder, newest = suite.dir / "newest", weights.checkpoint_of
    for name, step in (("final", 4), ("step-2", 2), ("step-4", 4)):
        (folder / name).mkdir(parents=True)
        (folder / name / "manifest.json").write_text(json.dumps({"step": step}))
    expect(newest(folder).name == "final", newest(folder))
    (folder / "step-4").rename(folder / "step-10")
    expect(newest(folder).name == "step-10", newest(folder))
    for damaged in ("{}", '{"step": 1e999}'):
        (folder / "final/manifest.json").write_text(damaged)
        with raises(3, "after which step"):
            newest(folder)


def import_of_another_model():
    """Weights whose shapes differ: a table of which."""
    folder = suite.dir / "small"
    folder.mkdir()
    fields = dict(model_type="gpt2", vocab_size=WORDS, n_embd=16, n_layer=1, n_head=2, n_positions=16)
    (folder / "config.json").write_text(json.dumps(fields))
    zero("export", "hf", folder, "--task", "causal-lm", "--seq", 8, "-o", suite.dir / "small.onnx")
    plan = suite.compile(suite.dir / "small.onnx", suite.dir / "small.plan", "--dim", "batch=2")
    batch = {"input_ids": torch.randint(0, WORDS, (2, 8)), "labels": torch.randint(0, WORDS, (2, 8))}
    check.write_batch(suite.dir / "small.safetensors", batch)
    suite.train(plan, suite.dir / "small-run", "--data", suite.dir / "small.safetensors", "--steps", 1)
    other = suite.dir / "larger"
    other.mkdir()
    (other / "config.json").write_text(json.dumps({**fields, "n_embd": 32}))
    text = zero("import", suite.dir / "small-run", "--hf", other, "-o", suite.dir / "mixed", code=10)
    expect(f"transformer.wte.weight: ({WORDS}, 16) instead of ({WORDS}, 32)" in text, text)
    expect(not (suite.dir / "mixed").exists(), "a folder was left")
    llama = dict(model_type="llama", vocab_size=WORDS, hidden_size=16, num_hidden_layers=1, num_attention_heads=3)
    (other / "config.json").write_text(json.dumps(llama))
    expect("refuses the configuration" in zero("import", suite.dir / "small-run", "--hf", other, "-o", suite.dir / "mixed", code=3), "another error")
    (other / "config.json").write_text(json.dumps({**llama, "num_attention_heads": 2}))
    text = zero("import", suite.dir / "small-run", "--hf", other, "-o", suite.dir / "mixed", code=10)
    expect("GPT2LMHeadModel" in text and "another kind, llama" in text, text)
    full_disk("import", suite.dir / "small-run", "--hf", folder, "-o", "home")
    full_disk("import", suite.dir / "small-run", "-o", "home.safetensors")
    for read in (suite.dir / "small-run/final/weights.safetensors", suite.dir / "read.safetensors"):
        if not read.exists():
            os.link(suite.dir / "small-run/final/weights.safetensors", read)
        kept = read.read_bytes()
        expect("a file that is read" in zero("import", suite.dir / "small-run", "-o", read, code=2), "another error")
        expect(read.read_bytes() == kept, "it was written over")
    expect("no checkpoint" in zero("import", folder, "-o", suite.dir / "a.safetensors", code=3), "another error")
    # The model itself goes home, and its loss is zero-run's.
    zero("import", suite.dir / "small-run", "--hf", folder, "-o", suite.dir / "home")
    import transformers
    again = transformers.GPT2LMHeadModel.from_pretrained(suite.dir / "home").eval()
    with torch.no_grad():
        want = float(again(**batch).loss)
    plan = suite.compile(suite.dir / "small.onnx", suite.dir / "small-eval.plan", "--dim", "batch=2", "--forward-only")
    got = json.loads(suite.tool("zero-run", "eval", plan, "--data", suite.dir / "small.safetensors", "--weights",
                                suite.dir / "small-run/final", "--quiet").splitlines()[-1])["loss"]
    expect(abs(got - want) < 1e-5 * want, f"{got} instead of {want}")


suite.run([(f.__name__, f) for f in (newest_checkpoint, import_of_another_model)])
suite.finish()
