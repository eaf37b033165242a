"""The `zero` command: export, tokens, import, train. stdout is for machines (one JSON object), stderr for people; exit codes are those of
docs/cli.md."""
import argparse
import difflib
import importlib
import json
import math
import os
import pathlib
import shlex
import sys
import traceback

from . import __version__, errors, supervised
from .errors import BAD_INPUT, INTERNAL, IO, OVER_BUDGET, USAGE, ZeroError

EXAMPLES = """examples:
  zero export hf ./gpt2 --task causal-lm --seq 1024 -o model.onnx
  zero export my_module:make_model -o model.onnx
  zero tokens --tokenizer ./gpt2 books/*.txt -o data.bin --val 0.01
  zero-compile model.onnx --dim batch=8 -o model.plan && zero-run model.plan --tokens data.bin --out runs/gpt2
  zero import runs/gpt2 --hf ./gpt2 -o ./trained
  zero train ./gpt2 --data books/*.txt --seq 1024 --steps 1000 -o ./trained     all of it"""


class Parser(argparse.ArgumentParser):
    def error(self, message):
        raise ZeroError(USAGE, message, help=f"{self.prog} --help")


def add_export(commands):
    export = commands.add_parser("export", help="a model as an ONNX training graph")
    export.add_argument("source", nargs="+", metavar="SOURCE",
                        help="hf FOLDER: a local Hugging Face model; hf config.json: one that is initialised; MODULE:FUNCTION: a function "
                             "that returns (model, batch) or (model, batch, loss)")
    export.add_argument("-o", "--output", default="model.onnx")
    export.add_argument("--task", help="causal-lm, masked-lm, seq2seq, image-classification, ... (what the configuration says)")
    export.add_argument("--seq", type=positive, metavar="N", help="tokens (or samples of sound) per row (128)")
    export.add_argument("--image-size", type=positive, metavar="N", help="pixels (what the configuration says, else 224)")
    export.add_argument("--exporter", choices=["torchscript", "dynamo"], help="only this one (the first that works)")
    export.add_argument("--no-dropout", action="store_true", help="all probabilities of dropout 0 (as the configuration says)")
    export.add_argument("--fixed-batch", action="store_true",
                        help="of MODULE:FUNCTION: the batch keeps its number of rows, where a loss compares rows with each other")
    export.add_argument("--no-check", action="store_true", help="do not compare a step with torch's")
    common(export)


def add_tokens(commands):
    words = commands.add_parser("tokens", help="text to a file of tokens")
    words.add_argument("text", nargs="+", metavar="FILE", help="text (a document each), .jsonl (a line each, text or a chat), .parquet (a row each)")
    words.add_argument("--tokenizer", required=True, help="tokenizer.json, or the folder that holds it")
    words.add_argument("-o", "--output", default="data.bin")
    words.add_argument("--val", type=float, metavar="SHARE", help="the last share of the tokens goes into OUTPUT.val.bin")
    words.add_argument("--end", metavar="TOKEN", help='behind each document (the tokenizer\'s own; "": none)')
    words.add_argument("--text-field", default="text", metavar="NAME", help="field or column that holds the text, or chats: lists of {role, content} (text)")
    words.add_argument("--vocabulary", type=positive, metavar="N", help="the model's: a tokenizer with more tokens is refused")
    words.add_argument("--workers", type=positive, metavar="N", help="processes (one per core, at most 8)")


def add_import(commands):
    home = commands.add_parser("import", help="a run's weights under the model's own names")
    home.add_argument("run", help="a run's folder (its newest checkpoint), or a checkpoint")
    home.add_argument("--hf", metavar="FOLDER", help="the Hugging Face model that was exported; without it OUTPUT is a .safetensors file")
    home.add_argument("-o", "--output", required=True)
    home.add_argument("--model", metavar="FILE", help="where the exported model is now")
    home.add_argument("--trust-remote-code", action="store_true", help="run code that the model's folder brings")


def add_train(commands):
    train = commands.add_parser("train", help="all in one: export, tokens, compile, train, import")
    train.add_argument("folder", help="Hugging Face model, or config.json")
    train.add_argument("--data", nargs="+", required=True, metavar="FILE")
    train.add_argument("-o", "--output", default="trained", help="the trained folder (trained); intermediate files go to OUTPUT.work")
    train.add_argument("--tokenizer", help="(the folder's own)")
    train.add_argument("--byte-level", action="store_true", help="each byte of the files is a token")
    train.add_argument("--text-field", default="text", metavar="NAME")
    train.add_argument("--val", type=float, metavar="SHARE", help="the last share of the text is not trained on, but evaluated on at the end")
    train.add_argument("--eval-every", type=positive, metavar="N", help="evaluate after every N-th step too")
    train.add_argument("--keep-best", action="store_true", help="the trained folder gets the weights of the lowest validation loss")
    train.add_argument("--seq", type=positive, default=128, metavar="N")
    train.add_argument("--batch", type=positive, default=8, metavar="N", help="rows per rank and step (8)")
    train.add_argument("--steps", type=positive, metavar="N")
    train.add_argument("--epochs", type=number(1e-9), default=1.0, help="when --steps is not given (1)")
    train.add_argument("--lr", type=number(0), help="(0.001; with --resume what it was)")
    train.add_argument("--lr-schedule", default="cosine", choices=["constant", "linear", "cosine", "wsd"])
    train.add_argument("--warmup", type=whole, default=0, metavar="N")
    train.add_argument("--world-size", type=positive, default=1, metavar="N")
    train.add_argument("--zero-stage", type=int, default=0, choices=range(4))
    train.add_argument("--no-dropout", action="store_true")
    train.add_argument("--no-check", action="store_true")
    train.add_argument("--resume", action="store_true", help="go on with what an interrupted zero train has left in OUTPUT.work")
    train.add_argument("--compile-flags", type=shell_words, default="", metavar="FLAGS", help='more flags of zero-compile: --compile-flags "--precision bf16"')
    train.add_argument("--run-flags", type=shell_words, default="", metavar="FLAGS", help='more flags of zero-run: --run-flags "--save-every 100"')
    common(train)


def parser():
    top = Parser(prog="zero", description="Own models into zero-compile, own text into zero-run, own weights out again.",
                 epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter)
    top.add_argument("--version", action="version", version=f"zero {__version__}")
    commands = top.commands = top.add_subparsers(dest="command", required=True, parser_class=Parser)
    for add in (add_export, add_tokens, add_import, add_train):
        add(commands)
    return top


def parse(arguments):
    """The options. A slip in a command's or a flag's name is said before what is missing because of it."""
    top, words = parser(), joined(sys.argv[1:] if arguments is None else arguments)
    if words and not words[0].startswith("-"):
        if words[0] not in top.commands.choices:
            raise unknown("command", words[0], top.commands.choices, "zero --help")
        flags = top.commands.choices[words[0]]._option_string_actions
        for flag in (word.partition("=")[0] for word in words[1:] if word.startswith("--") and word != "--"):
            if not any(known.startswith(flag) for known in flags):
                raise unknown("flag", flag, flags, f"zero {words[0]} --help")
    return top.parse_args(words)


def joined(words):
    """--run-flags "--quiet" as --run-flags=--quiet: what follows these is their value, though it begins with dashes."""
    result = []
    for word in words:
        if result and result[-1] in ("--compile-flags", "--run-flags"):
            result[-1] += "=" + word
        else:
            result.append(word)
    return result


def unknown(what, name, known, help):
    near = difflib.get_close_matches(name, known, 1)
    return ZeroError(USAGE, f'unknown {what} "{name}"', help=f'did you mean "{near[0]}"?' if near else help)


def common(command):
    command.add_argument("--seed", type=int, default=0, help="of what is initialised (0)")
    command.add_argument("--trust-remote-code", action="store_true", help="run code that the model's folder brings")


def positive(text):
    if not text.isdigit() or int(text) == 0:
        raise argparse.ArgumentTypeError(f'"{text}" is not a whole number above 0')
    return int(text)


def whole(text):
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f'"{text}" is not a whole number from 0')
    return int(text)


def number(least):
    """What zero-run would refuse once the model is exported is refused before."""
    def read(text):
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not least <= value <= 1e9:
            raise argparse.ArgumentTypeError(f'"{text}" is not a number from {least:g} to 1e+09')
        return value
    return read


def shell_words(text):
    try:
        return shlex.split(text)
    except ValueError as problem:  # a quote that is not closed
        raise argparse.ArgumentTypeError(f"{text!r} are no words of a shell: {problem}") from problem


def say(text):
    print(text, file=sys.stderr, flush=True)


def export(options):
    from . import outputs
    from .exporting import export as exporting, steps
    if options.source[0] == "hf":
        from . import tasks
        if options.fixed_batch:
            raise ZeroError(USAGE, "--fixed-batch is for MODULE:FUNCTION: no loss of these tasks compares rows")
        if len(options.source) != 2:
            raise ZeroError(USAGE, "one folder or config.json follows hf", help="zero export hf FOLDER -o model.onnx")
        outputs.check(options.output, tasks.files(options.source[1]))
        model, task, config = tasks.load(options.source[1], options.task, options.seed, options.trust_remote_code,
                                         not options.no_dropout, say)
        batch = tasks.batch(task, config, exporting.rows_to_trace(model), options.seq or 128, options.image_size)
        loss = tasks.forward(model, task)
    else:
        if len(options.source) != 1 or ":" not in options.source[0]:
            raise ZeroError(USAGE, f'"{" ".join(options.source)}" is neither "hf FOLDER" nor "MODULE:FUNCTION"')
        for name in ("task", "seq", "image_size", "trust_remote_code"):
            if getattr(options, name):
                raise ZeroError(USAGE, f"--{name.replace('_', '-')} is for a model of hf; MODULE:FUNCTION says all of its own")
        errors.need("torch", "exporting").manual_seed(options.seed)
        model, batch, loss = make(options.source[0])
        outputs.check(options.output, filter(None, [getattr(sys.modules[options.source[0].partition(":")[0]], "__file__", None)]))
        task = None
        if options.no_dropout and hasattr(model, "modules"):  # of what is no module export says so
            steps.without_any_dropout(model)
    record = exporting.export(model, batch, options.output, loss=loss, exporter=options.exporter, check=not options.no_check, task=task,
                              notes=say, fixed_batch=options.fixed_batch)
    return {key: value for key, value in record.items() if key != "constants"}  # thousands of names that the exporter made


def make(name):
    """(model, batch, loss or None) from MODULE:FUNCTION; the module may lie in the working directory."""
    module, _, function = name.partition(":")
    sys.path.insert(0, os.getcwd())
    try:
        with supervised.stage(BAD_INPUT, "the module", 'what it does as a script belongs under if __name__ == "__main__"'):
            made = getattr(importlib.import_module(module), function)()
    except ZeroError:
        raise
    except Exception as problem:  # of whoever wrote the module
        raise ZeroError(BAD_INPUT, f"{type(problem).__name__}: {problem}", where=name + own_place(problem)) from problem
    if not isinstance(made, tuple) or len(made) not in (2, 3):
        raise ZeroError(BAD_INPUT, "the function returns neither (model, batch) nor (model, batch, loss)", where=name)
    return made if len(made) == 3 else (*made, None)


def own_place(problem):
    """": FILE:LINE" of the last line of the person's own code on the way to `problem`; empty where there is none."""
    if isinstance(problem, SyntaxError):
        return f": {problem.filename}:{problem.lineno}"
    own = [frame for frame in traceback.extract_tb(problem.__traceback__) if errors.is_own(frame.filename)]
    return f": {own[-1].filename}:{own[-1].lineno}" if own else ""


def tokens(options):
    from .text import tokens as room
    return room.write(options.tokenizer, options.text, options.output, options.val, options.end, options.text_field,
                      options.vocabulary, options.workers)


def bring_home(options):
    from . import weights
    if options.hf:
        count, unused = weights.to_hf(options.run, options.hf, options.output, options.model, options.trust_remote_code)
    else:
        if pathlib.Path(options.output).suffix != ".safetensors":
            raise ZeroError(USAGE, f'"{options.output}" does not end in .safetensors', help="--hf FOLDER writes a folder")
        state, details = weights.to_file(options.run, options.output, options.model)
        count, unused = len(state), details["unused"]
    return {"tensors": count, "unused": unused, "path": str(options.output)}


def train(options):
    from . import pipeline
    return pipeline.run(options)


COMMANDS = {"export": export, "tokens": tokens, "import": bring_home, "train": train}
COMPUTES = "export", "train"  # with a person's model


def tell(result):
    """On stdout. What was not taken there Python would write again as it ends, and end with 120; a reader that has gone is nobody's error."""
    try:
        print(json.dumps(result), flush=True)
    except OSError as problem:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(problem, BrokenPipeError):
            raise


def main(arguments=None):
    """The console script; its exit code."""
    def begin():
        options = parse(arguments)
        work = lambda: told_of(lambda: tell(COMMANDS[options.command](options)))
        return supervised.run(work) if options.command in COMPUTES else work()

    if not sys.stderr.isatty():
        os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")  # transformers' own, which lines of a log are not for
    supervised.end_by_signals()
    return told_of(begin)


def told_of(work):
    """Exit code of `work()`, None being 0; an error is said."""
    try:
        return work() or 0
    except ZeroError as problem:
        say(str(problem))
        return problem.code
    except OSError as problem:
        say(str(ZeroError(IO, problem.strerror or str(problem), where=str(problem.filename or ""))))
        return IO
    except KeyboardInterrupt:
        return 130
    except MemoryError:
        say(str(ZeroError(OVER_BUDGET, "out of memory")))
        return OVER_BUDGET
    except Exception as problem:
        traceback.print_exc()
        say(str(ZeroError(INTERNAL, f"{type(problem).__name__}: {problem}", help="this is a defect of zero; please report it with the lines above")))
        return INTERNAL
