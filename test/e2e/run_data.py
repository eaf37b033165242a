#!/usr/bin/env python3
"""What a plan knows of its data: how labels are made, which tokens and labels there are, files of tokens of every kind."""
import pathlib, struct, subprocess, sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from e2e import Case, Suite, write_safetensors

suite = Suite(__doc__)
ROWS, LENGTH, WORDS = 2, 16, {"gpt2": 131, "llama": 149, "bert": 113}
TOKENS = [(i * 37 + i // 7) % 100 for i in range(400)]
PLANS = {model: suite.dir / f"{model}.plan" for model in WORDS}


def raw(name, form, values=TOKENS, header=b""):
    path = suite.dir / name
    path.write_bytes(header + struct.pack(f"<{len(values)}{form}", *values))
    return path


def npy(name, descr, form, shape):
    text = str({"descr": descr, "fortran_order": False, "shape": shape}).ljust(117) + "\n"
    return raw(name, form, header=b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode())


LLMC = raw("llmc.bin", "H", header=struct.pack("<256i", 20240520, 1, len(TOKENS), *[0] * 253))


def training(name, model, *flags, code=0, quiet=False):
    """Stderr of a run, and its losses' text."""
    out = suite.dir / name
    command = [suite.bin / "zero-run", PLANS[model], *flags, "--steps", 2, "--threads", 1, "--out", out, *["--quiet"] * quiet]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=600)
    if done.returncode != code:
        raise Case(f"exit code {done.returncode}: {done.stderr[-600:]}")
    return done.stderr, "" if code else [line.split('"loss":')[1].split(",")[0] for line in (out / "metrics.jsonl").read_text().splitlines()]


def says(text, *parts):
    for part in parts:
        if part not in text:
            raise Case(f"no {part!r} in {text[-600:]!r}")


def kinds():
    """The same tokens, however they are kept, give the same losses."""
    want = training("llmc", "gpt2", "--tokens", LLMC)[1]
    for name, file, flags in (("u16", raw("a.bin", "H"), ["--token-type", "uint16"]), ("u32", raw("b.bin", "I"), ["--token-type", "uint32"]),
                              ("i32", raw("c.bin", "i"), ["--token-type", "int32"]), ("i64", raw("d.bin", "q"), ["--token-type", "int64"]),
                              ("2-D", npy("e.npy", "<i4", "i", (25, LENGTH)), []), ("u8", npy("f.npy", "|u1", "B", (400,)), [])):
        got = training(name, "gpt2", "--tokens", file, *flags)[1]
        if got != want:
            raise Case(f"{name}: {got}, not {want}")


def rows():
    """Rows of an array are documents: none is read on into the next, and the start says what is left out."""
    text, got = training("rows", "gpt2", "--tokens", npy("rows.npy", "<i4", "i", (20, 20)))
    says(text, "20 rows, 20 samples of 16 tokens, 80 tokens left out")
    firsts = [token for row in range(20) for token in TOKENS[row * 20:row * 20 + LENGTH]]
    want = training("firsts", "gpt2", "--tokens", raw("firsts.bin", "i", firsts), "--token-type", "int32")[1]
    if got != want:
        raise Case(f"{got}, not {want}")
    says(training("short", "gpt2", "--tokens", npy("short.npy", "<i4", "i", (50, 8)), code=3)[0], "its rows have 8 tokens each, a sample needs 16")


def shifts():
    for model in ("gpt2", "llama"):
        says(training(f"{model}-shifts", model, "--tokens", LLMC)[0], "labels are the tokens, which the graph shifts")
        says(training(f"{model}-twice", model, "--tokens", LLMC, "--shift-labels", code=2)[0], "the graph shifts its labels itself")
    says(training("copies", "bert", "--tokens", LLMC, quiet=True)[0], "the graph does not shift them", "--shift-labels")
    says(training("follow", "bert", "--tokens", LLMC, "--shift-labels")[0], "labels are the tokens that follow")


def vocabulary():
    """Told before the first step, though no step would reach it."""
    for model, words in WORDS.items():
        bad = raw(f"{model}-bad.bin", "H", TOKENS[:-1] + [words])
        says(training(f"{model}-bad", model, "--tokens", bad, "--token-type", "uint16", code=3)[0],
             f"token {words} at position 399 (byte 798) is not below the vocabulary of {words}", f"{model}-bad.bin")
        if (suite.dir / f"{model}-bad").exists():
            raise Case("it has begun")


def labels():
    def data(kind, last):
        ids = [t % 100 for t in range(8 * LENGTH)]
        return write_safetensors(suite.dir / f"{kind}{last}.safetensors",
                                 {"input_ids": (kind, [8, LENGTH], ids), "attention_mask": (kind, [8, LENGTH], [1] * 8 * LENGTH),
                                  "labels": (kind, [8, LENGTH], ids[:-1] + [last])})

    says(training("labels", "gpt2", "--data", data("I64", 131), code=3)[0], 'label 131 of sample 7, position 15, of "labels"', "131", "-100")
    wide, narrow = (training(kind, "gpt2", "--data", data(kind, -100))[1] for kind in ("I64", "I32"))
    if wide != narrow:
        raise Case(f"{narrow} of int32, {wide} of int64")


def ids(name, change):
    """Eight samples for gpt2, of which input_ids are changed and labels are not."""
    plain = [t % 100 for t in range(8 * LENGTH)]
    return write_safetensors(suite.dir / f"{name}.safetensors",
                             {"input_ids": ("I64", [8, LENGTH], change(plain)), "attention_mask": ("I64", [8, LENGTH], [1] * 8 * LENGTH),
                              "labels": ("I64", [8, LENGTH], plain)})


def cut_vocabulary():
    """Also where the table is cut between ranks an index is checked before the first step; a negative one counts from the end."""
    words = WORDS["gpt2"]
    for name, last, code in (("whole", words, 3), ("whole", -words - 1, 3), ("cut", words, 3), ("cut", -words - 1, 3), ("cut", -words, 0)):
        PLANS.setdefault(name, suite.dir / f"{name}.plan")
        suite.compile(suite.models / "gpt2/ts17.onnx", PLANS[name], *(("--world-size", 2, "--tensor-parallel", 2) if name == "cut" else ()))
        data = ids(f"{name}{last}", lambda plain: plain[:-1] + [last])
        text, _ = training(f"{name}{last}", name, "--data", data, "-n", 2 if name == "cut" else 1, code=code)
        if code:
            says(text, f"{last} of sample 7, position 15, of \"input_ids\"")
        if code and (suite.dir / f"{name}{last}").exists():
            raise Case("it has begun")


def padding_from_the_end():
    """The row of a padding index gets no gradient either where an id names it from the end of the table: the weights are the same bits."""
    words, found = WORDS["gpt2"], {}
    for name, flags in (("padded", ()), ("padded-cut", ("--world-size", 2, "--tensor-parallel", 2))):
        PLANS[name] = suite.dir / f"{name}.plan"
        suite.compile(suite.models / "gpt2/ts17.onnx", PLANS[name], "--padding-idx", "*wte.weight=5", *flags)
        for sign, change in (("front", lambda plain: plain), ("end", lambda plain: [t - words if t == 5 else t for t in plain])):
            training(f"{name}-{sign}", name, "--data", ids(sign, change), "-n", 2 if flags else 1)
            found[name, sign] = (suite.dir / f"{name}-{sign}/final/weights.safetensors").read_bytes()
        if found[name, "front"] != found[name, "end"]:
            raise Case(f"{name}: other weights")


for model, plan in PLANS.items():
    suite.compile(suite.models / model / "ts17.onnx", plan)
suite.run([("kinds of files", kinds), ("rows", rows), ("who shifts labels", shifts), ("vocabulary", vocabulary), ("labels", labels),
           ("a vocabulary that is cut", cut_vocabulary), ("padding from the end", padding_from_the_end)])
suite.finish()
