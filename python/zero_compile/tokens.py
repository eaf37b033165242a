"""Text to a file of tokens, in the format of llm.c that zero-run reads: streamed, within bounded memory, whole or not at all.

A document is a file of text, a line of a .jsonl file or a row of a .parquet file; behind each stands the end-of-text token.

Speed. Tokenizers made for text cut it into words first and encode each by itself. Where that is so (`WordCache` tests it, on the text
at hand), a word is encoded once and looked up from then on, which is several times as fast as encoding all text and gives the same
tokens; elsewhere the text is encoded some paragraphs at a time, a document being cut behind an empty line where it is long."""
import array
import collections
import concurrent.futures
import glob
import itertools
import json
import operator
import os
import pathlib
import re
import struct
import sys
import tempfile
import time

from .errors import BAD_INPUT, IO, MISMATCH, USAGE, ZeroError, need
from .reading import BLOCK, Progress, read, reader

HEADER = 256  # int32 of llm.c's header: magic, version, count
FORMATS = {2: (20240520, 1), 4: (20240801, 7)}  # bytes of a token: magic, version
LARGEST = 2**31 - 1  # tokens that llm.c can count; beyond, the count is -1 and an int64 follows, as zero-run knows
END_NAMES = ("<|endoftext|>", "</s>", "<|end_of_text|>", "<eos>", "<|eos|>", "[SEP]")
CACHED = 75_000  # words, and as many pieces of them, in each of the two generations that a process remembers
SAMPLE = 50_000  # characters on which words are compared with the whole


def write(tokenizer, files, output, val=None, end=None, text_field="text", vocabulary=None, workers=None, progress=None):
    """Tokenises `files` (paths or globs) into `output`, the last share `val` of it into NAME.val.bin; returns a summary.

    end: the token behind each document (its text; "" for none); else the tokenizer's own. vocabulary: the model's, where known."""
    began, paths = time.monotonic(), expand(files)
    path, output = tokenizer_file(tokenizer), pathlib.Path(output)
    if output.suffix != ".bin":
        raise ZeroError(USAGE, f'"{output}" does not end in .bin, which is how zero-run knows the format')
    if val is not None and not 0 < val < 1:
        raise ZeroError(USAGE, f"--val {val:g} is not between 0 and 1")
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # processes share the cores
    codec = load(path)
    size = codec.get_vocab_size(with_added_tokens=True)
    if vocabulary is not None and size > vocabulary:
        raise ZeroError(MISMATCH, f"the tokenizer has {size} tokens, the model a vocabulary of {vocabulary}", where=str(path),
                        help="take the tokenizer that belongs to the model")
    end_ids = end_of_text(codec, path, end)
    width = 2 if size <= 65536 else 4
    report = Progress(paths, progress)
    documents = itertools.chain.from_iterable(read(file, text_field, report) for file in paths)
    try:
        with Output(output, width, val) as out:
            for blob in encode(path, codec, documents, end_ids, width, workers):
                out.add(blob)
                report.show(out.count)
            if not any(path.stat().st_size for path in paths):  # documents that are nothing but their end
                raise ZeroError(BAD_INPUT, "the corpus is empty: there is no text in it", where=str(paths[0]))
            summary = out.finish(str(paths[0]))
    except OSError as problem:
        raise ZeroError(IO, f"{problem.strerror}", where=str(problem.filename or output)) from problem
    seconds = time.monotonic() - began
    return {**summary, "vocabulary": size, "documents": report.documents, "bytes": report.done, "seconds": seconds,
            "megabytes_per_second": report.done / 1e6 / max(seconds, 1e-9)}


def expand(files):
    paths = []
    for name in map(str, files):
        found = sorted(glob.glob(name, recursive=True)) if glob.has_magic(name) and not os.path.exists(name) else [name]
        if not found:
            raise ZeroError(BAD_INPUT, "no file matches", where=name)
        paths += map(pathlib.Path, found)
    if not paths:
        raise ZeroError(USAGE, "no text is given", help="zero tokens --tokenizer tokenizer.json *.txt -o data.bin")
    for path in paths:
        if not path.is_file():
            raise ZeroError(BAD_INPUT, "there is no such file", where=str(path))
        reader(path)
    return paths


def tokenizer_file(path):
    path = pathlib.Path(path)
    path = path / "tokenizer.json" if path.is_dir() else path
    if not path.is_file():
        raise ZeroError(BAD_INPUT, "there is no such tokenizer", where=str(path), help="it is a tokenizer.json of Hugging Face's tokenizers")
    return path


def load(path):
    tokenizers = need("tokenizers", "zero tokens")
    try:
        codec = tokenizers.Tokenizer.from_file(str(path))
    except Exception as problem:
        raise ZeroError(BAD_INPUT, f"no tokenizer: {problem}", where=str(path)) from problem
    codec.no_padding()
    codec.no_truncation()
    return codec


def end_of_text(codec, path, asked):
    """Its tokens: one, or none."""
    if asked == "":
        return []
    names = [asked] if asked else []
    beside = path.with_name("tokenizer_config.json")
    if not names and beside.is_file():
        try:
            own = json.loads(beside.read_text(encoding="utf-8")).get("eos_token")
        except ValueError as problem:
            raise ZeroError(BAD_INPUT, f"no JSON: {problem}", where=str(beside)) from problem
        names += [own.get("content") if isinstance(own, dict) else own] if own else []
    for name in names or END_NAMES:
        if codec.token_to_id(name) is not None:
            return [codec.token_to_id(name)]
    raise ZeroError(USAGE, f'the tokenizer has no token "{asked}"' if asked else "the tokenizer does not say which token ends a text",
                    where=str(path), help='--end TOKEN names it, --end "" puts nothing between documents')


# Encoding: blocks of whole words go to processes and come back in order.

WORD_BREAK = re.compile(r"(?<=\S) (?=\S)")


def blocks(pieces, by_words):
    """Lists of (text, whether its document ends), each list about BLOCK characters; a document is cut only where encoding the parts
    gives what encoding the whole gives: before the space between two words, or, for other tokenizers, behind an empty line."""
    held, work, size = "", [], 0
    for text, ends in pieces:
        held += text
        cut = len(held)
        if not ends:
            cut = last_break(held, by_words)
            if cut == 0:
                continue
        work.append((held[:cut], ends))
        size += cut + 64
        held = held[cut:]
        if size >= BLOCK:
            yield work
            work, size = [], 0
    if work:
        yield work


def last_break(text, by_words):
    """Position of the last place to cut at; 0 where there is none."""
    if not by_words:
        if len(text) < BLOCK:
            return 0
        return max(text.rfind(mark) + len(mark) if mark in text else 0 for mark in (("\n\n",) if "\n\n" in text else ("\n", " ")))
    at = text.rfind(" ")
    while at > 0 and not WORD_BREAK.match(text, at):
        at = text.rfind(" ", 0, at)
    return max(at, 0)


class Remembered(dict):
    """text -> its tokens as bytes, from `make` where it is new. What is full becomes the older generation, and what is asked for
    again comes back from there: frequent words stay, however many rare ones pass."""

    def __init__(self, make):
        super().__init__()
        self.make, self.older = make, {}

    def __missing__(self, text):
        tokens = self.older.get(text)
        if tokens is None:
            tokens = self.make(text)
        if len(self) >= CACHED:
            self.older = dict(self)
            self.clear()
        self[text] = tokens
        return tokens

    def joined(self, texts):
        if len(texts) < 2:
            return self[texts[0]] if texts else b""
        return b"".join(operator.itemgetter(*texts)(self))  # the lookups in one call


class Words:
    """A tokenizer that encodes each word once. A word is what stands before a space that follows no white space; its own space leads it.
    Printable ASCII is cut into pieces as the tokenizer itself would, where that is known: there are fewer pieces than words."""

    def __init__(self, codec, width, description):
        self.form, self.model, self.letters = "H" if width == 2 else "I", codec.model, {}
        self.batch = getattr(codec, "encode_batch_fast", codec.encode_batch)  # fast: without places in the text
        self.cut, self.words, self.pieces = cutter(description), Remembered(self.whole), Remembered(self.whole)
        if self.cut and takes_letters(description):
            self.letters = {byte: letter for letter, byte in byte_letters().items()}
            self.pieces = Remembered(self.piece)
        special = [token["content"] for token in description.get("added_tokens") or []]
        self.other = re.compile("|".join([r"[^ -~\t\n\r]", *map(re.escape, special)]))  # what `cut` does not know
        self.begins = os.path.commonprefix(special) if special else "\0"  # text without it has no special token

    def whole(self, text):
        return array.array(self.form, self.batch([text], add_special_tokens=False)[0].ids).tobytes()

    def piece(self, text):
        return array.array(self.form, [token.id for token in self.model.tokenize(text.translate(self.letters))]).tobytes()

    def encode(self, text):
        if not self.cut:
            return self.by_words(text)
        if self.plain(text):
            return self.pieces.joined(self.cut(text))
        result, begin = [], 0
        while begin < len(text):
            end = next_break(text, begin + SECTION)
            section = text[begin:end]
            result += [self.pieces.joined(self.cut(section))] if self.plain(section) else self.mixed(section)
            begin = end
        return b"".join(result)

    def plain(self, text):
        """Whether `cut` knows all of the text; `other` says the same, and takes longer."""
        if not text.isascii():
            return False
        if self.begins and self.begins not in text:
            return not text.encode().translate(None, PLAIN)
        return not self.other.search(text)

    def mixed(self, text):
        """The words with something other in them by themselves, what stands between them in pieces."""
        done, match = 0, self.other.search(text)
        while match:
            begin = max(done, last_break(text[:match.start() + 1], True))
            end = next_break(text, match.end())
            while (match := self.other.search(text, end)) and match.start() < end + NEAR:
                end = next_break(text, match.end())
            yield self.pieces.joined(self.cut(text[done:begin]))
            yield self.by_words(text[begin:end])
            done = end
        yield self.pieces.joined(self.cut(text[done:]))

    def by_words(self, text):
        if MARK in text:
            return self.whole(text)
        # A space behind white space belongs to the word that follows: it is set aside while splitting.
        text = re.sub(r"\s +", lambda spaces: spaces[0][0] + MARK * (len(spaces[0]) - 1), text)
        first, *rest = text.split(" ")
        return self.words.joined([word.replace(MARK, " ") for word in [first, *map(" ".__add__, rest)]])


def next_break(text, at):
    """The first position from `at` on before which a word ends; the text's end where there is none."""
    while 0 <= (at := text.find(" ", at)):
        if not text[at - 1].isspace():
            return at
        at += 1
    return len(text)


SECTION = 2000  # characters that are looked at together where a text is not ASCII throughout
NEAR = 20  # characters between two words that are not, which are taken with them
PLAIN = bytes([*range(32, 127), *b"\t\n\r"])
MARK = "\ue000"
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
POSSESSIVE = sys.version_info >= (3, 11)
ASCII = {r"\p{L}": "A-Za-z", r"\p{N}": "0-9", r"\p{Lu}": "A-Z", r"\p{Ll}": "a-z", r"\p{M}": "", r"\p{Lt}": "", r"\p{Lm}": "", r"\p{Lo}": "",
         r"\s": " \\t\\n\\r"}


def cutter(description):
    """text -> pieces as the tokenizer's own pre-tokenizer cuts printable ASCII; None where this one is not known."""
    if (description.get("normalizer") or {}).get("type") not in (None, "NFC", "NFD", "NFKC", "NFKD", "BertNormalizer"):
        return None
    rule = description.get("pre_tokenizer") or {}
    stages = rule.get("pretokenizers", []) if rule.get("type") == "Sequence" else [rule]
    kinds = [stage.get("type") for stage in stages]
    if kinds == ["BertPreTokenizer"]:
        return re.compile(r"[A-Za-z0-9]+|[^\sA-Za-z0-9]").findall
    if kinds == ["ByteLevel"] and not stages[0].get("add_prefix_space") and stages[0].get("use_regex", True):
        return re.compile(in_ascii(GPT2)).findall
    if kinds == ["Split", "ByteLevel"] and not stages[1].get("add_prefix_space") and not stages[1].get("use_regex", True):
        expression = (stages[0].get("pattern") or {}).get("Regex")
        if expression and stages[0].get("behavior") == "Isolated" and not stages[0].get("invert"):
            try:
                return re.compile(in_ascii(expression)).findall
            except re.error:
                pass
    return None


def in_ascii(expression):
    """The expression for text of printable ASCII: classes of Unicode as ranges, inside brackets and outside. A repetition that ends an
    alternative is possessive where Python knows that (3.11): what it matched is the match, and nothing is kept for going back."""
    result, inside, depth, at = "", False, 0, 0
    while at < len(expression):
        name = next((n for n in sorted(ASCII, key=len, reverse=True) if expression.startswith(n, at)), None)
        if name:
            result += ASCII[name] if inside else f"[{ASCII[name]}]" if ASCII[name] else "(?!)"
            at += len(name)
            continue
        if expression.startswith(r"\S", at) and not inside:
            result, at = result + f"[^{ASCII[chr(92) + 's']}]", at + 2
            continue
        if expression[at] == "\\":
            result, at = result + expression[at:at + 2], at + 2
            continue
        letter, at = expression[at], at + 1
        inside = letter == "[" or inside and letter != "]"
        if not inside:
            depth += (letter == "(") - (letter == ")")
            if letter == "+" and depth == 0 and expression[at:at + 1] in ("", "|") and result[-1:] not in "+*?}" and POSSESSIVE:
                letter = "++"
        result += letter
    return result


def spelling(description):
    """token -> the text it stands for, as far as white space goes."""
    if '"ByteLevel"' not in json.dumps(description.get("pre_tokenizer")):
        return lambda token: token.replace("\u2581", " ")
    table = byte_letters()
    return lambda token: bytes(table.get(letter, 63) for letter in token).decode("utf-8", "replace")


def takes_letters(description):
    """Whether the model gets a piece of ASCII as it stands, in the letters of GPT-2's table."""
    changed = (description.get("normalizer") or {}).get("type") == "BertNormalizer"  # others that `cutter` knows leave ASCII alone
    return not changed and '"ByteLevel"' in json.dumps(description.get("pre_tokenizer"))


def byte_letters():
    """letter -> byte: how GPT-2 writes bytes as text."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]  # bytes that its table writes as themselves; others follow 255
    table = {chr(byte): byte for byte in plain}
    table.update((chr(256 + at), byte) for at, byte in enumerate(byte for byte in range(256) if byte not in plain))
    return table


def splits_words(codec, description, sample):
    """Whether words may be encoded one by one. Structure: nothing in the vocabulary spans a space inside, so no tokenizer that merges
    or looks up can join over it; and the text at hand, encoded both ways, is the same."""
    spelled = spelling(description)
    if any(re.search(r"\S ", spelled(token)) for token in codec.get_vocab(with_added_tokens=True)):
        return False
    words = Words(codec, 4, description)
    return all(words.encode(part) == words.whole(part) for part in [sample[:SAMPLE], *PROBES])


PROBES = ("a  b\n c\t d  \n\n  e. F, 1 2 (g) ' h's  ", "It's 12345 x2y I'LL don't(a_b) [c]\n\t\te;\n}\n\n  f() --g 'h' \"i\" j... k?! $l @m #n 3.14 ~/o\r\n p\n",
          " q\u00e9 r\u00b2 \u4e2d\u6587 s\u00a0t \U0001f600 \u0661\u0662 ")


_worker = None


def start_worker(path, width, by_words):
    global _worker
    _worker = Words(load(path), width, json.loads(path.read_text(encoding="utf-8"))), by_words


def work_on(block, end_bytes):
    words, by_words = _worker
    function = words.encode if by_words else words.whole
    return b"".join(function(text) + (end_bytes if ends else b"") for text, ends in block)


def encode(path, codec, pieces, end_ids, width, workers):
    """Bytes of tokens, in order."""
    pieces = iter(pieces)
    first = list(itertools.islice(pieces, 4))
    sample = "".join(text for text, _ in first)
    by_words = splits_words(codec, json.loads(path.read_text(encoding="utf-8")), sample)
    end_bytes = array.array("H" if width == 2 else "I", end_ids).tobytes()
    todo = blocks(itertools.chain(first, pieces), by_words)
    workers = workers or min(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1, 8)
    if workers == 1 or len(sample) < BLOCK // 2:
        start_worker(path, width, by_words)
        yield from (work_on(block, end_bytes) for block in todo)
        return
    with concurrent.futures.ProcessPoolExecutor(workers, initializer=start_worker, initargs=(path, width, by_words)) as pool:
        waiting = collections.deque()
        try:
            for block in todo:
                waiting.append(pool.submit(work_on, block, end_bytes))
                if len(waiting) > workers + 2:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


def header(width, count):
    magic, version = FORMATS[width]
    return struct.pack("<3iiq", magic, version, count if count <= LARGEST else -1, 0, count if count > LARGEST else 0)


class Output:
    """The file and, with a share for validation, the other one: temporaries until both are whole."""

    def __init__(self, path, width, share):
        self.path, self.width, self.share, self.count = path, width, share, 0
        path.parent.mkdir(parents=True, exist_ok=True)

    def __enter__(self):
        self.files = [tempfile.NamedTemporaryFile(dir=self.path.parent, prefix=f".{self.path.name}-", delete=False)]
        self.files[0].write(bytes(4 * HEADER))
        return self

    def add(self, blob):
        self.count += len(blob) // self.width
        self.files[0].write(blob)

    def finish(self, where):
        if self.count == 0:
            raise ZeroError(BAD_INPUT, "the corpus is empty: there is no token in it", where=where)
        held = max(1, int(self.count * self.share)) if self.share else 0
        if held >= self.count:
            raise ZeroError(BAD_INPUT, f"{self.count} tokens are too few to set {self.share:g} of them aside", where=where)
        summary = {"tokens": self.count - held, "path": str(self.path)}
        targets = [self.path]
        if held:
            targets.append(self.path.with_name(f"{self.path.stem}.val.bin"))
            summary.update(val_tokens=held, val_path=str(targets[1]))
            self.move_tail(held)
        for file, count in zip(self.files, [self.count - held, held]):
            file.seek(0)
            file.write(header(self.width, count))
            file.flush()
            os.fsync(file.fileno())
        mask = os.umask(0)
        os.umask(mask)
        for file, target in zip(self.files, targets):
            os.chmod(file.name, 0o666 & ~mask)
            os.replace(file.name, target)
        return summary

    def move_tail(self, held):
        """The last tokens into the second file."""
        source = self.files[0]
        self.files.append(tempfile.NamedTemporaryFile(dir=self.path.parent, prefix=f".{self.path.name}-", delete=False))
        self.files[1].write(bytes(4 * HEADER))
        source.flush()
        start = 4 * HEADER + (self.count - held) * self.width
        with open(source.name, "rb") as again:
            again.seek(start)
            while raw := again.read(1 << 20):
                self.files[1].write(raw)
        source.truncate(start)

    def __exit__(self, *_):
        for file in self.files:
            try:
                file.close()
            except OSError:  # a full disk, again
                pass
            if os.path.exists(file.name):
                os.unlink(file.name)
