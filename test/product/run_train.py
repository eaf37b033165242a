#!/usr/bin/env python3
"""zero train: from a configuration, a tokenizer and text to a folder that from_pretrained opens, with torch's losses on the way; the five
lines of README.md and docs/own-model.md in a clean environment; what is refused."""
import json, os, pathlib, random, re, shutil, signal, subprocess, sys, time

from product import ROOT, expect, needs, quiet_torch, raises, suite, torch_steps, zero

needs("torch", "transformers", "onnx", "safetensors", "tokenizers")
torch = quiet_torch()
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from zero_compile import cli, pipeline, programs, tasks

suite = suite(__doc__)
SEQ, BATCH, STEPS, RATE = 32, 4, 12, 3e-3


def folder(name, **fields):
    """A small GPT-2, a tokenizer trained on the text, and the text."""
    made = suite.dir / name
    made.mkdir()
    dice = random.Random(7)  # not a document of ours: what is in its last window would change with it
    words = ["".join(dice.choices("abcdefghijklmnopqrstuvwxyz", k=dice.randint(1, 9))) for _ in range(300)]
    text = " ".join(dice.choices(words, weights=[1 / (i + 1) for i in range(300)], k=6000))
    (made / "text.txt").write_text(text)
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.train_from_iterator([text], trainers.BpeTrainer(vocab_size=400, special_tokens=["<|endoftext|>"], show_progress=False,
                                                              initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet())))
    tokenizer.save(str(made / "tokenizer.json"))
    config = dict(model_type="gpt2", vocab_size=400, n_embd=32, n_layer=2, n_head=4, n_positions=SEQ, bos_token_id=0, eos_token_id=0)
    (made / "config.json").write_text(json.dumps({**config, **fields}))
    return made


def windows(path):
    raw = pathlib.Path(path).read_bytes()[1024:]
    tokens = torch.frombuffer(bytearray(raw), dtype=torch.int16).long()
    return tokens[:len(tokens) // SEQ * SEQ].view(-1, SEQ)


def whole_way():
    """Against torch on the same windows: each step's loss, the perplexity at the end."""
    source = folder("gpt2")
    began = time.monotonic()
    made = zero("train", source, "--data", source / "text.txt", "-o", suite.dir / "trained", "--seq", SEQ, "--batch", BATCH, "--steps", STEPS,
                "--lr", RATE, "--lr-schedule", "constant", "--val", 0.1, "--no-dropout", "--run-flags=--quiet")
    seconds = time.monotonic() - began
    again, info = transformers.AutoModelForCausalLM.from_pretrained(suite.dir / "trained", output_loading_info=True)
    expect(not info["missing_keys"] and not info["unexpected_keys"], info)
    transformers.AutoTokenizer.from_pretrained(suite.dir / "trained")
    work = pathlib.Path(made["work"])
    held = windows(work / "data.val.bin")
    with torch.no_grad():
        losses = [again.eval()(input_ids=row, labels=row).loss.item() for row in held.split(1)]
    expect(len(losses) % BATCH, "the last batch is full")
    want = sum(losses) / len(losses)
    expect(abs(made["val_loss"] - want) < 1e-5 * want, f"validation loss {made['val_loss']} instead of {want}")
    return f"{seconds:.0f} s"


def best_kept():
    """Digits are evaluated on and letters trained on, so that the loss there rises: the folder has the best weights, not the last. Bytes,
    without a tokenizer."""
    source = folder("bytes")
    (source / "text.txt").write_bytes(b"abcdefgh" * 6125 + b"0123456789" * 100)
    (source / "tokenizer.json").unlink()
    made = zero("train", source, "--data", source / "text.txt", "-o", suite.dir / "best", "--seq", SEQ, "--batch", BATCH, "--steps", 12, "--lr", RATE,
                "--lr-schedule", "constant", "--byte-level", "--val", 0.02, "--eval-every", 3, "--keep-best", "--no-dropout", "--no-check", "--run-flags=--quiet")
    work, text = pathlib.Path(made["work"]), (source / "text.txt").read_bytes()
    held = (work / "bytes.val").read_bytes()
    expect(len(held) == int(len(text) * 0.02) and (work / "bytes.train").read_bytes() + held == text, "the bytes are cut elsewhere")
    seen = [json.loads(line)["val_loss"] for line in (work / "run/metrics.jsonl").read_text().splitlines() if "val_loss" in line]
    expect(len(seen) == 4 and made["best_val_loss"] == min(seen) < seen[-1], f"{seen}, {made}")
    rows = torch.frombuffer(bytearray(held), dtype=torch.uint8).long()
    rows = rows[:len(rows) // SEQ * SEQ].view(-1, SEQ)
    again = transformers.AutoModelForCausalLM.from_pretrained(suite.dir / "best").eval()
    with torch.no_grad():
        losses = [again(input_ids=row, labels=row).loss.item() for row in rows.split(1)]
    want = sum(losses) / len(losses)
    expect(abs(made["best_val_loss"] - want) < 1e-5 * want, f"best validation loss {made['best_val_loss']} instead of {want}")


def told_to_stop():
    """Ctrl-C, and SIGTERM to its group as by `timeout`, end it with the state saved and nothing left running; --resume goes on from there, at
    another rate if one is given."""
    source, out = folder("told"), suite.dir / "told-out"
    command = [sys.executable, "-m", "zero_compile", "train", source, "--data", source / "text.txt", "-o", out, "--seq", SEQ, "--batch", BATCH,
               "--steps", 1000000, "--no-check", "--run-flags", "--quiet --threads 1"]
    run = suite.dir / "told-out.work/run"
    metrics = run / "metrics.jsonl"
    seen = 0
    for number in (signal.SIGINT, signal.SIGTERM):
        job = subprocess.Popen(list(map(str, command + (["--resume", "--lr", "5e-4"] if seen else []))), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                               start_new_session=True)
        steps = lambda: len(metrics.read_text().splitlines()) if metrics.exists() else 0
        deadline = time.time() + 300
        while steps() < seen + 3 and job.poll() is None and time.time() < deadline:
            time.sleep(0.1)
        job.send_signal(number) if number == signal.SIGINT else os.killpg(job.pid, number)
        said = job.communicate(timeout=300)[1]
        expect(job.returncode == 75, f"exit code {job.returncode}: {said[-500:]}")
        expect("--resume goes on" in said, said[-500:])
        now = steps()
        rate = json.loads((run / f"step-{now}/manifest.json").read_text())["optimizer"]["lr"]
        expect(rate == (5e-4 if seen else 1e-3), f"a rate of {rate}")
        expect(now > seen and (run / f"step-{now}/manifest.json").is_file(), f"{now} steps, {sorted(p.name for p in run.iterdir())}")
        time.sleep(1)
        expect(steps() == now, "it trains on")
        seen = now


def interrupted():
    """What a run that broke off has left is said at once; --resume goes on with it, to the bits of a run that nobody disturbed."""
    source, out = folder("interrupted"), suite.dir / "whole"
    command = ("train", source, "--data", source / "text.txt", "-o", out, "--seq", SEQ, "--batch", BATCH, "--steps", 8, "--lr", RATE, "--no-check",
               "--run-flags", "--quiet --save-every 3")
    zero(*command)
    want = (out / "model.safetensors").read_bytes()
    shutil.rmtree(out)
    for gone in ("final", "step-6", "metrics.jsonl"):
        path = out.with_name("whole.work") / "run" / gone
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    data = out.with_name("whole.work") / "data.bin"
    before = data.stat().st_mtime_ns
    text = zero(*command, code=2)
    expect("--resume" in text and "whole.work" in text and data.stat().st_mtime_ns == before, text)
    text = zero(*command, "--resume", "--seed", 1, code=10)  # what lies there is of another
    expect("the run began with --seed 0, not 1" in text and "--resume" in text, text)
    options = data.with_name("options.json")
    kept = options.read_bytes()
    for damaged in (kept[:40], b"[1]", b"\xff"):
        options.write_bytes(damaged)
        text = zero(*command, "--resume", code=3)
        expect("options.json" in text and "to begin anew" in text, text)
    options.write_bytes(kept)
    zero(*command, "--resume")
    expect((out / "model.safetensors").read_bytes() == want, "other weights")
    expect(data.stat().st_mtime_ns == before, "the text was tokenised again")


def begun_otherwise():
    """What an attempt with other options left, which came no further than its text and model, is not gone on with."""
    source, out = folder("otherwise"), suite.dir / "otherwise-out"
    (source / "other.txt").write_text("zyx " * 2000)
    command = ("train", source, "-o", out, "--seq", SEQ, "--batch", BATCH, "--steps", 2, "--no-check", "--run-flags=--quiet")
    zero(*command, "--data", source / "other.txt", "--compile-flags=--typo", code=2)
    work = out.with_name("otherwise-out.work")
    data = (work / "data.bin").read_bytes()
    (source / "none.json").write_text("{}")
    told = zero(*command, "--data", source / "text.txt", "--val", 0.05, "--tokenizer", source / "none.json", code=3)  # before it has made any
    expect("none.json" in told and (work / "options.json").is_file() and not (work / "data.bin").exists(), told)
    (source / "none.json").write_bytes((source / "tokenizer.json").read_bytes())
    zero(*command, "--data", source / "text.txt", "--val", 0.05, "--tokenizer", source / "none.json", "--resume")
    expect((work / "data.bin").read_bytes() != data and (work / "data.val.bin").is_file(), "the other text was trained on")


def as_torch():
    """The same steps in torch, data in order: losses to 1e-5, perplexity to 1e-4."""
    source = folder("ordered")
    zero("export", "hf", source, "--task", "causal-lm", "--seq", SEQ, "--no-dropout", "-o", suite.dir / "o.onnx")
    zero("tokens", "--tokenizer", source, source / "text.txt", "-o", suite.dir / "o.bin")
    plan = suite.compile(suite.dir / "o.onnx", suite.dir / "o.plan", "--dim", f"batch={BATCH}", "--lr", RATE)
    metrics = suite.train(plan, suite.dir / "o-run", "--tokens", suite.dir / "o.bin", "--steps", STEPS)
    model, _, _ = tasks.load(source, "causal-lm", dropout=False, notes=lambda text: None)
    rule = torch.optim.AdamW(model.parameters(), lr=RATE)
    rows = windows(suite.dir / "o.bin")
    batches = [rows[step * BATCH:(step + 1) * BATCH] for step in range(STEPS)]
    expected = torch_steps(rule, batches, lambda batch: model(input_ids=batch, labels=batch).loss)
    worst = max(abs(metrics[step]["loss"] - loss) / loss for step, loss in enumerate(expected))
    expect(worst < 1e-5, f"losses differ by {worst:.1e}")
    return f"{worst:.0e}"


def refused():
    source = folder("refused", vocab_size=300)
    text = zero("train", source, "--data", source / "text.txt", "-o", suite.dir / "no", "--seq", SEQ, "--no-check", code=10)
    expect("tokens up to 399" in text and "vocabulary of 300" in text, text)
    (source / "tokenizer.json").unlink()
    expect("--byte-level" in zero("train", source, "--data", source / "text.txt", "-o", suite.dir / "no", "--seq", SEQ, "--no-check", code=2), "")
    expect(not (suite.dir / "no.work/data.bin").exists(), "it was not seen first that there is no tokenizer")
    expect("no such file" in zero("train", source, "--data", "none.txt", "-o", suite.dir / "no", code=3), "another error")
    expect("--val" in zero("train", source, "--data", source / "text.txt", "-o", suite.dir / "no", "--keep-best", code=2), "")
    expect("between 0 and 1" in zero("train", source, "--data", source / "text.txt", "-o", suite.dir / "no", "--val", 1.5, code=2), "")
    expect(not (suite.dir / "no").exists(), "a folder was left")
    for flags, says in ((("--epochs", -1), "--epochs"), (("--epochs", "nan"), "--epochs"), (("--lr", "fast"), "--lr"), (("--warmup", -1), "--warmup"),
                        (("--run-flags", "--out 'a"), "No closing quotation"), (("--compile-flags", '"'), "--compile-flags")):
        text = zero("train", source, "--data", source / "text.txt", "-o", suite.dir / "no", *flags, code=2)
        expect(says in text, text)
    lies = suite.dir / "no.work" / "text"
    lies.mkdir(parents=True, exist_ok=True)
    (lies / "data.bin").write_text("a text")
    for words in (("train", source, "--data", lies / "data.bin"), ("train", lies, "--data", source / "text.txt")):
        text = zero(*words, "-o", suite.dir / "no", "--byte-level", code=2)
        expect("the folder for what lies between" in text and (lies / "data.bin").read_text() == "a text", text)
    (suite.dir / "file").write_text("")
    expect("no folder" in zero("train", source, "--data", source / "text.txt", "-o", suite.dir / "file", code=2), "a file as the output")


def without_programs():
    """That they are not there is said before the model is exported."""
    source, out = folder("alone"), suite.dir / "alone-out"
    options = cli.parse(["train", str(source), "--data", str(source / "text.txt"), "-o", str(out)])
    real, programs.shutil.which = programs.shutil.which, lambda name: None
    build, programs.os.access = programs.os.access, lambda *_: False
    try:
        with raises(2, '"zero-compile" is not on PATH'):
            pipeline.run(options)
    finally:
        programs.shutil.which, programs.os.access = real, build
    expect(not out.with_name("alone-out.work").exists(), "it had begun")


def into_a_folder_that_is_there():
    """An empty one gets the files and stays what it is: mounted, or the working directory."""
    source, out = folder("into"), suite.dir / "into-out"
    out.mkdir()
    before = out.stat().st_ino
    zero("train", source, "--data", source / "text.txt", "-o", ".", "--seq", SEQ, "--batch", BATCH, "--steps", 1, "--no-check", "--run-flags=--quiet", folder=out)
    expect(out.stat().st_ino == before and out.with_name("into-out.work").is_dir(), "another folder")
    expect(not [path.name for path in out.iterdir() if path.name.startswith(".")], "something was left")
    transformers.AutoModelForCausalLM.from_pretrained(out)


def clean_environment(place):
    """An environment of its own, in which nothing of the sources is installed; what they need comes from the Python that runs this."""
    import venv
    venv.create(place / "env", with_pip=True)
    packages = next((place / "env/lib").glob("python*/site-packages"))
    for path in [*packages.glob("*setuptools*"), packages / "pkg_resources", packages / "_distutils_hack", packages / "distutils-precedence.pth"]:
        if path.exists():  # older than what torch's environment has, which makes wheels by itself
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    (packages / "needs.pth").write_text("\n".join(path for path in sys.path if path.endswith("site-packages")) + "\n")
    # pip reads 0 as: build in this environment.
    return {"PATH": f"{place}/env/bin:{suite.bin}:/usr/bin:/bin", "HOME": str(place), "HF_HUB_OFFLINE": "1", "PIP_NO_BUILD_ISOLATION": "0",
            "PIP_NO_INDEX": "1", "PIP_FORCE_REINSTALL": "1"}


def commands(page):
    return tuple(re.search(r"```sh\n(pip install .*?)```", (ROOT / page).read_text(), re.S)[1].replace(" && ", "\n").splitlines())


def five_lines(lines, name):
    """The way of a stranger, as README and docs/own-model.md begin with it: as it stands, but for sizes."""
    source, place = folder(f"five-{name}"), suite.dir / f"lines-{name}"
    (place / "books").mkdir(parents=True)
    (place / "books/a.txt").write_text((source / "text.txt").read_text())
    source.rename(place / "gpt2")
    shutil.copytree(ROOT / "python", place / "python", ignore=shutil.ignore_patterns("build", "*.egg-info", "__pycache__"))
    environment = clean_environment(place)
    for line in lines:
        line = re.sub(r"--seq \d+", f"--seq {SEQ}", re.sub(r"--steps \d+", "--steps 2", line))
        done = subprocess.run(["bash", "-c", line], cwd=place, env=environment, capture_output=True, text=True)
        expect(done.returncode == 0, f"{line}\n      {done.stderr[-800:]}")
    where = subprocess.run(["python", "-c", "import zero_compile; print(zero_compile.__file__)"], cwd="/", env=environment, capture_output=True, text=True)
    expect(where.stdout.startswith(str(place)), f"not the package that was installed: {where.stdout}{where.stderr}")
    transformers.AutoModelForCausalLM.from_pretrained(place / "trained")


def printed_whole():
    """The commands that it prints are those that it runs, with all that was asked."""
    options = cli.parse(["train", "m", "--data", "x", "--text-field", "messages", "--seed", "3", "--no-check"])
    words = pipeline.given(options, "--text-field", "--seed", "--val", "--no-dropout", "--no-check")
    expect(words == ["--text-field", "messages", "--seed", 3, "--no-check"], words)


PAGES = ("README.md", "docs/own-model.md")
suite.run([(f.__name__, f) for f in (whole_way, printed_whole, best_kept, told_to_stop, interrupted, begun_otherwise, without_programs, into_a_folder_that_is_there, as_torch, refused)] +
          [(f"five lines of {' and '.join(page for page in PAGES if commands(page) == lines)}", lambda lines=lines, at=at: five_lines(lines, at))
           for at, lines in enumerate(dict.fromkeys(map(commands, PAGES)))])  # once, where pages have the same ones
suite.finish()
