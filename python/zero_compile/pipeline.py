"""`zero train`: from a model's folder and text to a trained folder, by the commands a person would type, which are printed."""
import json
import math
import os
import pathlib
import shlex
import sys

from . import outputs, programs, tasks, weights
from .errors import BAD_INPUT, MISMATCH, PREEMPTED, USAGE, ZeroError
from .exporting import export as exporting
from .text import tokens

RATE = 1e-3  # of learning, unless another is given


def run(options):
    """`options` as `zero train --help` lists them; the summary, a dict."""
    output = pathlib.Path(options.output)
    outputs.check_folder(output)
    named = output.resolve() if output.name in ("", "..") else output  # "." has no name of its own
    work = named.with_name(named.name + ".work")
    check(options, work / "run")  # before anything that takes time
    work.mkdir(parents=True, exist_ok=True)
    remember(options, work / "options.json")
    model, vocabulary = export(options, work)
    data = text(options, work, vocabulary)
    plan, ranks = compile(options, work, model)
    summary = train(options, work, plan, ranks, data)
    taken = work / "run"
    if data["val"]:
        loss = summary["val_loss"]
        if options.keep_best and (taken / "best/manifest.json").is_file():
            taken, loss = taken / "best", summary["best_val_loss"]
        if loss is None:
            note("the validation loss is not finite")
        else:
            summary["perplexity"] = math.exp(min(loss, 700))
            note(f"validation loss {loss:.4f}, perplexity {summary['perplexity']:.2f}" + (", the best" if options.keep_best else ""))
    echo(["zero", "import", taken, "--hf", options.folder, *given(options, "--trust-remote-code"), "-o", output])
    count, unused = weights.to_hf(taken, options.folder, output, trust_code=options.trust_remote_code)
    summary.update(tensors=count, unused=unused, path=str(output), work=str(work))
    return summary


def check(options, run):
    if run.exists() and not options.resume:
        raise ZeroError(USAGE, "an earlier zero train has left a run there", where=str(run),
                        help=f"--resume goes on with it; to begin anew, remove {shlex.quote(str(run.parent))}")
    programs.find("zero-compile"), programs.find("zero-run")
    for path in [options.folder, *tokens.expand(options.data)]:
        if run.parent.resolve() in [place := pathlib.Path(path).resolve(), *place.parents]:  # where files are made anew
            raise ZeroError(USAGE, "what is trained on lies in the folder for what lies between", where=str(path), help="name another folder: -o OUTPUT")
    if options.val is not None and not 0 < options.val < 1:
        raise ZeroError(USAGE, f"--val {options.val:g} is not between 0 and 1")
    given = [flag for flag, value in (("--eval-every", options.eval_every), ("--keep-best", options.keep_best)) if value]
    if given and not options.val:
        raise ZeroError(USAGE, f"{given[0]} needs something to evaluate on", help="--val 0.05 sets a share of the text aside")
    if not options.byte_level and not options.tokenizer and not (pathlib.Path(options.folder) / "tokenizer.json").is_file():
        tasks.read_config(options.folder)  # is it a model's at all?
        raise ZeroError(USAGE, "there is no tokenizer.json in the model's folder", where=str(options.folder),
                        help="--tokenizer FILE, or --byte-level to train on bytes")
    if not options.byte_level and not options.resume:
        tokens.look(options.tokenizer or options.folder, options.data, options.text_field)


def remember(options, file):
    """What the files in the folder for what lies between are made of: --resume takes them as they are, and so goes on with nothing else."""
    path = lambda name: name and os.path.abspath(name)
    now = {"model": path(options.folder), "--data": [path(name) for name in options.data], "--tokenizer": path(options.tokenizer),
           "--byte-level": options.byte_level, "--text-field": options.text_field, "--val": options.val, "--seq": options.seq,
           "--seed": options.seed, "--no-dropout": options.no_dropout}
    if options.resume and file.is_file():
        try:
            before = dict(json.loads(file.read_text(encoding="utf-8")))
        except (ValueError, TypeError) as error:
            raise ZeroError(BAD_INPUT, f"what the run began with cannot be read: {error}", where=str(file),
                            help=f"to begin anew, remove {shlex.quote(str(file.parent))}")
        for name, value in now.items():
            if before.get(name) != value:
                raise ZeroError(MISMATCH, f"the run began with {name} {json.dumps(before.get(name))}, not {json.dumps(value)}", where=str(file),
                                help=f"--resume goes on with what it began with; to begin anew, remove {shlex.quote(str(file.parent))}")
        options.lr = before.get("--lr", RATE) if options.lr is None else options.lr
        keep({**now, "--lr": options.lr}, file)
        return
    options.lr = RATE if options.lr is None else options.lr
    for name in ("model.onnx", "model.onnx.data", "data.bin", "data.val.bin"):  # of other options, left by what came no further
        (file.parent / name).unlink(missing_ok=True)
    keep({**now, "--lr": options.lr}, file)


def keep(what, file):
    whole = file.with_suffix(".new")
    whole.write_text(json.dumps(what, indent=1) + "\n", encoding="utf-8")
    outputs.put(whole, file)


def given(options, *names):
    """Those flags of `zero train`, as the command that does the part takes them."""
    words = []
    for name in names:
        value = getattr(options, name.strip("-").replace("-", "_"))
        words += [] if value in (None, False) else [name] if value is True else [name, value]
    return words


def echo(command):
    print("$ " + (command if isinstance(command, str) else shlex.join(map(str, command))), file=sys.stderr, flush=True)


def note(text):
    print("  " + text, file=sys.stderr, flush=True)


def export(options, work):
    path = work / "model.onnx"
    echo(["zero", "export", "hf", options.folder, "--task", "causal-lm", *given(options, "--seq", "--seed", "--no-dropout", "--no-check", "--trust-remote-code"), "-o", path])
    model, task, config = tasks.load(options.folder, "causal-lm", options.seed, options.trust_remote_code, not options.no_dropout, note)
    weights.check_class(model, options.folder, options.trust_remote_code)
    if options.resume and path.is_file():
        note("it is there")
        return path, tasks.vocabulary(config)
    batch = tasks.batch(task, config, 2, options.seq)
    exporting.export(model, batch, path, loss=tasks.forward(model, task), task=task, check=not options.no_check, notes=note)
    return path, tasks.vocabulary(config)


def text(options, work, vocabulary):
    """{"train": flags of zero-run, "val": the same of what is evaluated on, or []}"""
    if options.byte_level:
        if vocabulary < 256:
            raise ZeroError(MISMATCH, f"bytes have 256 values, the model a vocabulary of {vocabulary}", where=str(options.folder))
        if not options.val:
            return {"train": ["--tokens", *tokens.expand(options.data), "--byte-level"], "val": []}
        note(f"the last {options.val:g} of the bytes are evaluated on")
        first, last = split_bytes(tokens.expand(options.data), options.val, work)
        return {"train": ["--tokens", first, "--byte-level"], "val": ["--eval-tokens", last]}
    tokenizer = options.tokenizer or options.folder
    output = work / "data.bin"
    echo(["zero", "tokens", "--tokenizer", tokenizer, *options.data, *given(options, "--val", "--text-field"), "-o", output])
    held = output.with_name("data.val.bin")
    if options.resume and output.is_file() and (held.is_file() or not options.val):
        note("it is there")
        return {"train": ["--tokens", output], "val": ["--eval-tokens", held] if options.val else []}
    made = tokens.write(tokenizer, options.data, output, val=options.val, text_field=options.text_field, vocabulary=vocabulary)
    note(f"{made['tokens']:,} tokens of {made['documents']:,} documents, {made['megabytes_per_second']:.1f} MB/s")
    return {"train": ["--tokens", output], "val": ["--eval-tokens", made["val_path"]] if options.val else []}


def split_bytes(files, share, work):
    """All files as one, and of it the last share by itself: (the first part's file, the last one's)."""
    total = sum(path.stat().st_size for path in files)
    left, parts = total - max(1, int(total * share)), (work / "bytes.train", work / "bytes.val")
    if left <= 0:
        raise ZeroError(BAD_INPUT, f"{total} bytes are too few to set {share:g} of them aside", where=str(files[0]))
    with open(parts[0], "wb") as first, open(parts[1], "wb") as last:
        for path in files:
            with open(path, "rb") as source:
                while raw := source.read(1 << 20):
                    first.write(raw[:left])
                    last.write(raw[left:])
                    left = max(0, left - len(raw))
    return parts


def compile(options, work, model):
    plan = work / "model.plan"
    flags = ["--dim", f"batch={options.batch}", "--world-size", options.world_size, "--zero-stage",
             options.zero_stage, "--lr", options.lr, *(["--with-eval"] if options.val else []), *options.compile_flags]
    programs.call("zero-compile", model, *flags, "-o", plan, echo=echo)
    return plan, options.world_size


def train(options, work, plan, ranks, data):
    flags = [*data["train"], *data["val"], *(["--eval-every", options.eval_every] if options.eval_every else []),
             *(["--keep-best"] if options.keep_best else []), "--shuffle", "--lr-schedule", options.lr_schedule, "--warmup", options.warmup]
    flags += ["--steps", options.steps] if options.steps else ["--epochs", options.epochs]
    flags += ["--resume", "auto", "--lr", options.lr] if options.resume else []
    command = [programs.find("zero-run"), plan, "-n", ranks, *flags, "--out", work / "run", *options.run_flags]
    echo(programs.shown(list(map(str, command))))
    return json.loads(visible(command))


def visible(command):
    """The last line on stdout of a program whose stderr a person sees. Who stops this process stops that one, which saves its state and
    says so, before this one ends."""
    words = list(map(str, command))
    output, code = programs.attended(words)
    if code == PREEMPTED:
        raise ZeroError(code, "stopped, and saved", where=programs.shown(words), help="the same command with --resume goes on")
    if code:
        raise programs.failure(words, code, "see above" if code > 0 else "")
    return output.splitlines()[-1]
