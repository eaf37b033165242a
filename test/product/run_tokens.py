#!/usr/bin/env python3
"""zero tokens: what it writes is what the tokenizer gives for each document, of every kind of tokenizer and file; memory; refusals."""
import json, os, pathlib, random, signal, struct, subprocess, sys, time

from product import ROOT, expect, needs, raises, suite, zero

needs("tokenizers", "numpy")
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers
from e2e import Skip
from zero_compile.text import tokens, words

suite = suite(__doc__)
END = "<|endoftext|>"
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace("{1,3}", "")
O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}|"
         r" ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
BYTES = pre_tokenizers.ByteLevel.alphabet()


def text(seed, length, strange=True):
    """Words, code, numbers, runs of white space, letters of other scripts."""
    draw = random.Random(seed)
    parts = ["the", "training", "plan's", "It'll", "x_1", "f(a,", "b);", "3.14", "2024", "--flag", "\n", "\n\n", "\t", "  ", "    ", "\r\n", "...",
             "\"quoted\"", "A.B", "don't"] + (["caf\u00e9", "\u4e2d\u6587\u5b57", "\u00b2", "\u00a0", "\U0001f600", END, "e\u0301"] if strange else [])
    return "".join(draw.choice(parts) + draw.choice(["", " ", " ", " "]) for _ in range(length))


def trained(model, trainer, pre=None, normalizer=None):
    made = Tokenizer(model)
    if pre:
        made.pre_tokenizer = pre
    if normalizer:
        made.normalizer = normalizer
    made.train_from_iterator([text(seed, 2000) for seed in range(4)], trainer)
    return made


def bpe(pre=None, normalizer=None, alphabet=(), size=700):
    return trained(models.BPE(unk_token=None if alphabet else "<unk>"), trainers.BpeTrainer(vocab_size=size, special_tokens=[END, "<unk>"], show_progress=False,
                                                          initial_alphabet=list(alphabet)), pre, normalizer)


def split(expression):
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(expression), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


TOKENIZERS = {
    "gpt2": lambda: bpe(pre_tokenizers.ByteLevel(add_prefix_space=False), alphabet=BYTES),
    "llama3": lambda: bpe(split(LLAMA3), alphabet=BYTES),
    "qwen2": lambda: bpe(split(QWEN2), normalizers.NFC(), alphabet=BYTES),
    "o200k": lambda: bpe(split(O200K), alphabet=BYTES),
    "lower case": lambda: bpe(pre_tokenizers.ByteLevel(add_prefix_space=False), normalizers.BertNormalizer(), alphabet=BYTES),
    "bert": lambda: trained(models.WordPiece(unk_token="[UNK]"), trainers.WordPieceTrainer(vocab_size=500, special_tokens=["[UNK]", END], show_progress=False),
                            pre_tokenizers.BertPreTokenizer(), normalizers.BertNormalizer()),
    "unigram": lambda: trained(models.Unigram(), trainers.UnigramTrainer(vocab_size=300, special_tokens=[END, "<unk>"], unk_token="<unk>", show_progress=False),
                               pre_tokenizers.Metaspace(prepend_scheme="always")),
    "spans words": lambda: bpe(size=600),  # no pre-tokenizer: merges over spaces
    "llama2": lambda: bpe(normalizer=normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")]), size=600),
}


def read(path):
    raw = pathlib.Path(path).read_bytes()
    magic, version, count = struct.unpack("<3i", raw[:12])
    form = {20240520: "H", 20240801: "I"}[magic]
    expect(version == {"H": 1, "I": 7}[form], f"version {version}")
    values = list(struct.unpack(f"<{count}{form}", raw[1024:]))
    return values


def saved(name):
    path = suite.dir / f"{name.replace(' ', '-')}.json"
    if not path.exists():
        TOKENIZERS[name]().save(str(path))
    return path


def documents(name):
    """Documents of all three kinds of files, of a few thousand characters: small enough not to be cut."""
    tokenizer, folder = saved(name), suite.dir / f"{name.replace(' ', '-')}-files"
    folder.mkdir()
    texts = [text(seed, 800, seed % 2 == 0) for seed in range(9)]
    (folder / "a.txt").write_bytes(texts[0].encode())
    (folder / "b.txt").write_bytes(texts[1].encode())
    (folder / "c.jsonl").write_text("".join(json.dumps({"text": t, "n": 1}) + "\n" for t in texts[2:5]))
    files = [folder / "*.txt", folder / "c.jsonl"]
    try:
        import pyarrow, pyarrow.parquet
        pyarrow.parquet.write_table(pyarrow.table({"text": texts[5:]}), folder / "d.parquet")
        files.append(folder / "d.parquet")
    except ImportError:
        texts = texts[:5]
    made = tokens.write(tokenizer, files, folder / "out.bin", workers=1)
    codec = Tokenizer.from_file(str(tokenizer))
    want = []
    for each in texts:
        want += codec.encode(each, add_special_tokens=False).ids + [codec.token_to_id(END)]
    got = read(folder / "out.bin")
    expect(got == want, f"{len(got)} tokens, {len(want)} expected; different from {next((i for i, (a, b) in enumerate(zip(got, want)) if a != b), None)}")
    expect(made["documents"] == len(texts) and made["tokens"] == len(want), made)


def large_document(name):
    """One of several blocks, through processes, with a share for validation."""
    tokenizer, path = saved(name), suite.dir / f"large-{name}.txt"
    whole = text(77, 200_000)
    path.write_bytes(whole.encode())
    output = suite.dir / f"large-{name}.bin"
    made = tokens.write(tokenizer, [path], output, val=0.1, workers=2)
    want = Tokenizer.from_file(str(tokenizer)).encode(whole, add_special_tokens=False).ids
    got = read(output) + read(made["val_path"])
    expect(got[:-1] == want, "other tokens than of the whole")
    expect(abs(made["val_tokens"] - len(got) / 10) <= 1, made)


def conversations():
    """Chats are the text that the tokenizer's own template makes of them; without one they are refused, and so is a field that holds none."""
    try:
        import transformers
    except ImportError:
        raise Skip("no transformers, whose templates they are")
    folder = suite.dir / "chats"
    folder.mkdir()
    Tokenizer.from_file(str(saved("gpt2"))).save(str(folder / "tokenizer.json"))
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": END}
    chats = [[{"role": "user", "content": f"is {n} odd?"}, {"role": "assistant", "content": "it's odd" if n % 2 else "no"}] for n in range(5)]
    lines = folder / "chats.jsonl"
    lines.write_text("".join(json.dumps({"messages": chat, "n": 1}) + "\n" for chat in chats))
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    with raises(3, "chats.jsonl:1", "--text-field messages"):
        tokens.write(folder, [lines], folder / "out.bin")
    with raises(3, "chats.jsonl:1", "no chat template"):
        tokens.look(folder, [lines], "messages")
    template = "{% for m in messages %}{{m['role']}}: {{m['content']}}\n{% endfor %}"
    (folder / "tokenizer_config.json").write_text(json.dumps({**config, "chat_template": template}))
    made = tokens.write(folder, [lines], folder / "out.bin", text_field="messages")
    own = transformers.AutoTokenizer.from_pretrained(folder)
    want = [token for chat in chats for token in (*own.encode(own.apply_chat_template(chat, tokenize=False)), own.eos_token_id)]
    expect(read(folder / "out.bin") == want and made["documents"] == len(chats), made)


def without_white_space():
    """A document that may be cut nowhere is searched once: four times the text takes four times as long, not sixteen."""
    seconds = {}
    for known in (None, [("\n\n", 2)]):
        for blocks in (256, 1024):
            pieces = [("x" * tokens.BLOCK, False)] * blocks + [("", True)]
            began = time.process_time()
            expect([len(block) for block in tokens.blocks(pieces, known)] == [blocks * tokens.BLOCK + 1], "it was cut")
            seconds[blocks] = time.process_time() - began
        expect(seconds[1024] < 9 * max(seconds[256], 0.02), seconds)


def numbered_with_gaps():
    """How wide ids are, and whether a model has them, is said by the largest, not by their number."""
    folder = suite.dir / "gaps"
    folder.mkdir()
    made = Tokenizer(models.WordLevel({"a": 0, "[UNK]": 1, END: 2, "b": 69999}, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.save(str(folder / "tokenizer.json"))
    (folder / "t.txt").write_text("a b a b\n")
    summary = tokens.write(folder, [folder / "t.txt"], folder / "o.bin", end=END)
    expect(read(folder / "o.bin") == [0, 69999, 0, 69999, 2] and summary["vocabulary"] == 70000, summary)
    with raises(10, "69999", "a vocabulary of 4"):
        tokens.write(folder, [folder / "t.txt"], folder / "p.bin", end=END, vocabulary=4)


def short_documents():
    """Thousands of them go to processes as well, and come back in order."""
    tokenizer, path = saved("gpt2"), suite.dir / "short.jsonl"
    texts = [text(seed, 40) for seed in range(2000)]
    path.write_text("".join(json.dumps({"text": each}) + "\n" for each in texts))
    pools, pool = [], tokens.concurrent.futures.ProcessPoolExecutor
    tokens.concurrent.futures.ProcessPoolExecutor = lambda *given, **named: pools.append(pool(*given, **named)) or pools[-1]
    try:
        made = tokens.write(tokenizer, [path], suite.dir / "short.bin", workers=2)
    finally:
        tokens.concurrent.futures.ProcessPoolExecutor = pool
    codec = Tokenizer.from_file(str(tokenizer))
    want = [token for each in texts for token in codec.encode(each, add_special_tokens=False).ids + [codec.token_to_id(END)]]
    expect(len(pools) == 1 and made["documents"] == len(texts), f"{len(pools)} pools, {made}")
    expect(read(suite.dir / "short.bin") == want, "other tokens")


def rare_letters():
    """Between long stretches of ASCII one that is not, a special token, or a letter of private use: near breaks, far from them, at both ends."""
    tokenizer, path, draw = saved("gpt2"), suite.dir / "rare.txt", random.Random(5)
    rare = ["\u00e9", " \u00a0", "\u00a0 ", END, END + " ", " " + END, "  \u4e2d  ", "\ue000", "\u00e9 b \u00e9", "\x00", "\n\u00e9\n", "'\u00e9's"]
    whole = rare[0] + "".join(text(seed, draw.randrange(1, 1200), strange=False) + rare[seed % len(rare)] for seed in range(120))
    path.write_bytes(whole.encode())
    tokens.write(tokenizer, [path], suite.dir / "rare.bin", workers=1)
    want = Tokenizer.from_file(str(tokenizer)).encode(whole, add_special_tokens=False).ids
    expect(read(suite.dir / "rare.bin")[:-1] == want, "other tokens than of the whole")


LETTERS = "stdlmrevaXSTLQ5 7\n\n\r\t  ''\'\'._/(\"<|>-\x7f\x00\u00e9\u00a0\u0301\u4e2d"  # what the rules of tokenizers are about


def letters(seed, length):
    """In any order: each next to each."""
    draw = random.Random(seed)
    return "".join(draw.choice(LETTERS) for _ in range(length))


def any_order(name):
    """Words of a tokenizer whose tokens join whatever its rule leaves in one piece; then with tables that hold next to nothing, so that words
    are lost."""
    tokenizer = TOKENIZERS[name]()
    kind = trainers.WordPieceTrainer if name == "bert" else trainers.BpeTrainer
    tokenizer.train_from_iterator([letters(seed, 30_000) for seed in range(4)], kind(
        vocab_size=4000, special_tokens=[END, "[UNK]"], initial_alphabet=BYTES, show_progress=False))
    description = json.loads(tokenizer.to_str())
    expect(words.splits(tokenizer, description, letters(9, 30_000)) is not None, "its words are not taken apart")
    kept = words.BUCKETS, words.WORDS, words.PIECES, words.KEPT
    for words.BUCKETS, words.WORDS, words.PIECES, words.KEPT in (kept, (4, 40, 60, 5)):
        try:
            codec = words.Words(tokenizer, "uint16", description, [1, 2])
            for seed in range(20, 40):
                texts = [letters(seed, 3000), "", letters(seed + 1, 10)]
                got = codec.encode(b"".join(each.encode() + words.END for each in texts))
                want = [token for each in texts for token in tokenizer.encode(each, add_special_tokens=False).ids + [1, 2]]
                expect(list(memoryview(got).cast("H")) == want, f"other tokens than of the whole, seed {seed}")
        finally:
            words.BUCKETS, words.WORDS, words.PIECES, words.KEPT = kept
    expect(codec.table.counts.all() and len(codec.words.older) > 0, "nothing was lost")


def refused():
    tokenizer, folder = saved("gpt2"), suite.dir / "refused"
    folder.mkdir()
    good, bad, empty = folder / "good.txt", folder / "bad.txt", folder / "empty.txt"
    good.write_text("a text")
    empty.write_text("")
    head = ("x" * 99 + "\n").encode() * 3000
    bad.write_bytes(head + b"caf\xe9 au lait")
    output = folder / "o.bin"
    with raises(3, "not UTF-8", f"byte {len(head) + 3}"):
        tokens.write(tokenizer, [good, bad], output)
    bad.write_bytes(head + "\u00e9".encode()[:1])
    with raises(3, "not UTF-8", f"byte {len(head)}"):
        tokens.write(tokenizer, [bad], output)
    lines = folder / "bad.jsonl"
    lines.write_text('{"text": "a"}\n{"text": }\n')
    with raises(3, "bad.jsonl:2:10"):
        tokens.write(tokenizer, [lines], output)
    lines.write_text('{"text": "a"}\n{"body": "b"}\n')
    with raises(3, "bad.jsonl:2", "--text-field"):
        tokens.write(tokenizer, [lines], output)
    lines.write_text('{"text": "a"}\n{"text": "b \\ud83d"}\n')
    with raises(3, "bad.jsonl:2", "half of a pair", "character 2"):
        tokens.write(tokenizer, [lines], output)
    for strange in ("1" * 5000, "[" * 100000 + "]" * 100000):
        lines.write_text('{"text": "a"}\n{"text": "b", "n": ' + strange + '}\n')
        with raises(3, "bad.jsonl:2", "no JSON that Python reads"):
            tokens.write(tokenizer, [lines], output)
    for end in (None, ""):
        with raises(3, "corpus is empty"):
            tokens.write(tokenizer, [empty], output, end=end)
    with raises(3, "no file matches"):
        tokens.write(tokenizer, [folder / "none*.txt"], output)
    os.mkfifo(suite.dir / "texts")
    for path, says in ((folder, "it is a folder"), (suite.dir / "texts", "no regular file"), (folder / "none", "no such file")):
        with raises(3, says, str(path)):
            tokens.write(tokenizer, [path], output)
    own = suite.dir / "own"
    own.mkdir()
    (own / "tokenizer.json").write_bytes(tokenizer.read_bytes())
    for damaged in ("[]", "[" * 100000):
        (own / "tokenizer_config.json").write_text(damaged)
        with raises(3, "tokenizer_config.json"):
            tokens.write(own, [good], output)
    with raises(10, "a vocabulary of 100", "699"):
        tokens.write(tokenizer, [good], output, vocabulary=100)
    with raises(2, "<none>"):
        tokens.write(tokenizer, [good], output, end="<none>")
    with raises(3, "no tokenizer"):
        tokens.write(good, [good], output)
    expect(sorted(p.name for p in folder.iterdir()) == ["bad.jsonl", "bad.txt", "empty.txt", "good.txt"], "something was left")


def endings():
    """Text is text whatever its name ends in; what is none, or more than that, is refused by name."""
    tokenizer, folder = saved("gpt2"), suite.dir / "endings"
    folder.mkdir()
    for name in ("GFDL-1.3", "README", "code.py", "page.rst"):
        (folder / name).write_text("a text")
        expect(tokens.write(tokenizer, [folder / name], folder / "o.bin")["documents"] == 1, name)
    (folder / "table.csv").write_text("a,b\n")
    (folder / "other.dat").write_bytes(b"text\0")
    for name, words in (("table.csv", "another ending"), ("other.dat", "bytes of 0"), ("o.bin", "bytes of 0")):
        expect(words in zero("tokens", "--tokenizer", tokenizer, folder / name, "-o", folder / "p.bin", code=4), name)


def over_what_is_read():
    folder = suite.dir / "over"
    folder.mkdir()
    for name in ("t.bin", "u.val.bin"):
        (folder / name).write_text("a b c d " * 200)
    for words in (("t.bin", "-o", folder / "t.bin"), ("u.val.bin", "-o", folder / "u.bin", "--val", 0.1)):
        expect("a file that is read" in zero("tokens", "--tokenizer", saved("gpt2"), folder / words[0], *words[1:], code=2), "another error")
    expect({p.name: p.read_text() for p in folder.iterdir()} == {"t.bin": "a b c d " * 200, "u.val.bin": "a b c d " * 200}, "it was written over")


def many_tokens():
    """What llm.c can count is as it writes it; more is counted in an int64."""
    expect(tokens.header(2, 5) == struct.pack("<6i", 20240520, 1, 5, 0, 0, 0), "the header of few tokens")
    expect(tokens.header(4, 2**31) == struct.pack("<4iq", 20240801, 7, -1, 0, 2**31), "the header of many")


def full_disk():
    """No space: exit code 6, and nothing is left."""
    folder = suite.dir / "full"
    folder.mkdir()
    (folder / "t.txt").write_text(text(1, 100_000))
    limit = "import resource,signal,sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536)); " \
            "from zero_compile.cli import main; sys.exit(main())"
    done = subprocess.run([sys.executable, "-c", limit, "tokens", "--tokenizer", saved("gpt2"), "t.txt", "-o", "t.bin"], cwd=folder, capture_output=True, text=True)
    expect(done.returncode == 6, f"exit code {done.returncode}: {done.stderr}")
    expect([p.name for p in folder.iterdir()] == ["t.txt"], "something was left")


def damaged_page():
    """Its file is named, and the row behind which it is."""
    try:
        import pyarrow, pyarrow.parquet
    except ImportError:
        raise Skip("no pyarrow here")
    path = suite.dir / "damaged.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"text": [text(seed, 50) for seed in range(600)]}), path, use_dictionary=False, data_page_size=4096, compression="snappy")
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2:len(raw) // 2 + 4000] = bytes(4000)
    path.write_bytes(raw)
    said = zero("tokens", "--tokenizer", saved("gpt2"), path, "-o", suite.dir / "damaged.bin", code=3)
    expect("is damaged" in said and "damaged.parquet: behind row" in said and "None" not in said, said)


def works(child):
    """Not gone, nor ended where nobody fetches what became of it: a container's number 1 may not."""
    try:
        return pathlib.Path(f"/proc/{child}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def ended_from_outside():
    """By a signal to it, to one that works for it, or in an instant: nothing is left running, and, but in an instant, no file."""
    folder, tokenizer = suite.dir / "ended", saved("spans words")
    folder.mkdir()
    (folder / "t.txt").write_text(text(3, 300_000) * 40)
    for how, code in (("asked", 143), ("worker", 1), ("killed", -signal.SIGKILL)):
        job = subprocess.Popen([sys.executable, "-m", "zero_compile", "tokens", "--tokenizer", tokenizer, "t.txt", "-o", "t.bin", "--workers", "2"], cwd=folder,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        children, deadline = [], time.time() + 300
        while len(children) < 2 and time.time() < deadline:
            time.sleep(0.05)
            children = pathlib.Path(f"/proc/{job.pid}/task/{job.pid}/children").read_text().split()
        time.sleep(0.5)
        expect(len(children) == 2 and job.poll() is None, f"{how}: {children}, it has ended with {job.poll()}")
        if how == "worker":
            os.kill(int(children[0]), signal.SIGKILL)
        else:
            job.send_signal(signal.SIGTERM if how == "asked" else signal.SIGKILL)
        said = job.communicate(timeout=300)[1]
        expect(job.returncode == code and "Traceback" not in said, f"{how}: exit code {job.returncode}: {said}")
        expect(how != "worker" or "a process was killed" in said and "--workers" in said, said)
        deadline = time.time() + 300
        while any(map(works, children)) and time.time() < deadline:
            time.sleep(0.05)
        expect(not any(map(works, children)), f"{how}: one works on")
        expect(how == "killed" or [p.name for p in folder.iterdir()] == ["t.txt"], f"{how}: something was left")


def result_that_cannot_be_written():
    """Of a full disk exit code 6, and not what Python ends with where it cannot flush; of a reader that has gone none."""
    folder = suite.dir / "told"
    folder.mkdir()
    (folder / "t.txt").write_text(text(1, 1000))
    words = [sys.executable, "-m", "zero_compile", "tokens", "--tokenizer", saved("gpt2"), "t.txt", "-o", "t.bin"]
    buffered = {key: value for key, value in os.environ.items() if key != "PYTHONUNBUFFERED"}
    with open("/dev/full", "w") as full:
        done = subprocess.run(words, cwd=folder, stdout=full, stderr=subprocess.PIPE, text=True, env=buffered)
    expect(done.returncode == 6 and "No space left" in done.stderr and "Exception" not in done.stderr, f"exit code {done.returncode}: {done.stderr}")
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(words, cwd=folder, stdout=writer, stderr=subprocess.PIPE, text=True, env=buffered)
    os.close(writer)
    expect(done.returncode == 0 and not done.stderr, f"exit code {done.returncode}: {done.stderr}")


def read_by_zero_run():
    """zero-run takes the file as it is."""
    folder = suite.dir / "run"
    folder.mkdir()
    (folder / "t.txt").write_text("a b c d " * 200)
    zero("tokens", "--tokenizer", saved("gpt2"), folder / "t.txt", "-o", folder / "t.bin", "--end", "")
    model = ROOT / "examples/gpt/gpt.onnx"
    plan = suite.compile(model, folder / "gpt.plan", "--dim", "batch=2")
    count = len(read(folder / "t.bin"))
    got = suite.tool("zero-run", plan, "--tokens", folder / "t.bin", "--shift-labels", "--steps", 1, "--quiet", "--out", folder / "r",
                     code=0 if max(read(folder / "t.bin")) < 256 else 3)
    expect(count > 400 and (max(read(folder / "t.bin")) < 256 or "vocabulary" in got), got[-300:])


def help_of_commands():
    """On terminals of any width: argparse fails where it cannot break a line of the usage."""
    for command in ((), ("export",), ("tokens",), ("import",), ("train",)):
        for width in (40, 80, 200):
            done = subprocess.run([sys.executable, "-m", "zero_compile", *command, "--help"], capture_output=True, text=True,
                                  env={**os.environ, "COLUMNS": str(width), "PYTHONPATH": str(ROOT / "python")})
            expect(done.returncode == 0 and done.stdout.startswith("usage: zero"), f"zero {' '.join(command)} --help: {done.stderr[-200:]}")
    done = subprocess.run([sys.executable, "-m", "zero_compile", "--version"], capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": str(ROOT / "python")})
    expect(done.returncode == 0 and done.stdout.startswith("zero 0."), f"zero --version: {done.stdout}{done.stderr[-200:]}")


def slips():
    for words, text in ((["trian"], 'did you mean "train"?'), (["train", "x", "--dta", "y"], 'did you mean "--data"?'),
                        (["tokens", "--vla=0.1"], 'did you mean "--val"?'), (["import", "x", "--xyzzy"], "zero import --help")):
        got = zero(*words, code=2)
        expect(text in got and "unknown" in got, got)


cases = [(f"documents, {name}", lambda n=name: documents(n)) for name in TOKENIZERS]
some = lambda names, count: [name for name, in suite.draw([(name,) for name in names], count, covering_values=False)]  # noqa: E731
cases += [(f"letters in any order, {name}", lambda n=name: any_order(n)) for name in some(("gpt2", "llama3", "qwen2", "o200k", "bert"), 2)]
cases += [(f"a large document, {name}", lambda n=name: large_document(n)) for name in some(("gpt2", "llama3", "bert", "unigram", "spans words", "llama2"), 3)]
suite.run(cases + [(f.__name__, f) for f in (short_documents, conversations, without_white_space, numbered_with_gaps, rare_letters, refused, endings, over_what_is_read, many_tokens, full_disk, damaged_page, ended_from_outside, result_that_cannot_be_written, read_by_zero_run, help_of_commands, slips)])
suite.finish()
