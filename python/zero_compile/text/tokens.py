"""Text to a file of tokens, in the format of llm.c that zero-run reads: streamed, within bounded memory, whole or not at all.

A document is a file of text, a line of a .jsonl file or a row of a .parquet file; behind each stands the end-of-text token.

Where a tokenizer cuts text into words, each is encoded once (words.py); elsewhere the text is encoded some paragraphs at a time, a document
being cut behind an empty line where it is long."""
import collections
import concurrent.futures.process
import contextlib
import ctypes
import glob
import itertools
import json
import multiprocessing
import os
import pathlib
import re
import shlex
import signal
import struct
import tempfile
import time

from .. import outputs
from ..errors import BAD_INPUT, IO, MISMATCH, OTHER, USAGE, ZeroError, need
from .chats import Template
from .reading import BLOCK, Progress, read, reader
from .words import CONTEXT, END, JOIN, Words, splits

HEADER = 256  # int32 of llm.c's header: magic, version, count
FORMATS = {2: (20240520, 1), 4: (20240801, 7)}  # bytes of a token: magic, version
LARGEST = 2**31 - 1  # tokens that llm.c can count; beyond, the count is -1 and an int64 follows, as zero-run knows
OFTEN = 500  # blocks
END_NAMES = ("<|endoftext|>", "</s>", "<|end_of_text|>", "<eos>", "<|eos|>", "[SEP]")


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
    size = 1 + max(codec.get_vocab(with_added_tokens=True).values(), default=-1)  # ids may leave some out
    if vocabulary is not None and size > vocabulary:
        raise ZeroError(MISMATCH, f"the tokenizer has tokens up to {size - 1}, the model a vocabulary of {vocabulary}", where=str(path),
                        help="take the tokenizer that belongs to the model")
    end_ids = end_of_text(codec, path, end)
    width = 2 if size <= 65536 else 4
    report = Progress(paths, progress)
    template = Template(path.parent)
    documents = itertools.chain.from_iterable(read(file, text_field, report, template) for file in paths)
    try:
        with Output(output, width, val, [*paths, path]) as out:
            for blob in encode(path, codec, documents, end_ids, width, workers):
                out.add(blob)
                report.show(out.count)
            if not any(path.stat().st_size for path in paths):  # documents that are nothing but their end
                raise ZeroError(BAD_INPUT, "the corpus is empty: there is no text in it", where=str(paths[0]))
            summary = out.finish(str(paths[0]))
    except OSError as problem:
        raise ZeroError(IO, problem.strerror or str(problem), where=str(problem.filename or output)) from problem
    seconds = time.monotonic() - began
    return {**summary, "vocabulary": size, "documents": report.documents, "bytes": report.done, "seconds": seconds,
            "megabytes_per_second": report.done / 1e6 / max(seconds, 1e-9)}


def look(tokenizer, files, text_field):
    """Errors: the first text of a file cannot be read, of which `write` would say so later."""
    template = Template(tokenizer_file(tokenizer).parent)
    for path in expand(files):
        next(read(path, text_field, Progress([path], False), template), None)


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
        if path.is_dir():
            raise ZeroError(BAD_INPUT, "it is a folder, not a file of text", where=str(path), help=f"{shlex.quote(str(path / '*.txt'))} names files in it")
        if not path.is_file():
            raise ZeroError(BAD_INPUT, "it is no regular file" if path.exists() else "there is no such file", where=str(path))
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
            own = own.get("content") if isinstance(own, dict) else own
        except (ValueError, AttributeError, RecursionError) as problem:
            raise ZeroError(BAD_INPUT, f"no JSON object: {problem}", where=str(beside)) from problem
        names += [own] if isinstance(own, str) and own else []
    for name in names or END_NAMES:
        if codec.token_to_id(name) is not None:
            return [codec.token_to_id(name)]
    raise ZeroError(USAGE, f'the tokenizer has no token "{asked}"' if asked else "the tokenizer does not say which token ends a text",
                    where=str(path), help='--end TOKEN names it, --end "" puts nothing between documents')


# Encoding: blocks of whole words go to processes and come back in order.

WORD_BREAK = re.compile(r"(?<=\S) (?=\S)")


# A mark in the text, and how far behind where it begins one may cut, the best first.
MARKS = (("\n\n", 2), ("\n", 1), (" ", 0), (" ", 1))
AROUND, TESTED = 400, 16  # characters on either side of a place, and places, on which a mark is tested
PROBES = ("It is so.", "And so on, 12 (a)  b.")


def marks(words, sample):
    """Those of MARKS at which encoding the parts, the second in the sight of the first, gives what encoding the whole gives, in the sample and
    between PROBES."""
    def agrees(head, tail):
        return words.whole([head + tail])[0] == words.whole([head])[0] + words.after(head[-CONTEXT:], tail)

    def holds(mark, behind):
        places = [found.start() + behind for found in re.finditer(re.escape(mark), sample)]
        return agrees(PROBES[0] + mark[:behind], mark[behind:] + PROBES[1]) and all(
            agrees(sample[max(0, at - AROUND):at], sample[at:at + AROUND]) for at in places[::max(1, len(places) // TESTED)])

    return [each for each in MARKS if holds(*each)]


def blocks(pieces, known):
    """UTF-8 of about BLOCK characters each, words.END behind each document; a document is cut only where encoding the parts gives what
    encoding the whole gives: before the space between two words, or, for other tokenizers, at one of the marks `known`, the next block
    beginning with what stands before."""
    held, work, size, searched = "", [], 0, 0
    for text, ends in pieces:
        held += text
        cut = len(held)
        if not ends:
            cut = last_break(held, known, searched)
            searched = 0 if cut else len(held)
            if cut == 0:
                continue
        work.append(held[:cut].encode() + END if ends else held[:cut].encode())
        size += cut + 1
        before = "" if ends or known is None else held[max(0, cut - CONTEXT):cut]
        held, searched = held[cut:], 0
        if size >= BLOCK:
            yield b"".join(work)
            work, size = [before.encode() + JOIN] if before else [], 0
    if work:
        yield b"".join(work)


def last_break(text, known, searched):
    """Position of the last place to cut at; 0 where there is none. What has been `searched` is not again."""
    if known is not None:
        if len(text) < BLOCK:
            return 0
        found = [(mark, text.rfind(mark, max(0, searched - 1)) + behind) for mark, behind in known if text.find(mark, max(0, searched - 1)) >= 0]
        return max((at for mark, at in found if mark == "\n\n"), default=max((at for _, at in found), default=0))
    first = max(0, searched - 1)
    at = text.rfind(" ", first)
    while at > first and not WORD_BREAK.match(text, at):
        at = text.rfind(" ", first, at)
    return at if at > 0 and WORD_BREAK.match(text, at) else 0


_worker = None


PR_SET_PDEATHSIG = 1  # of prctl(2)


def begin_worker(parent, *setting):
    """In a process of its own, which ends with the one that it works for, however that ends, and by no signal that is meant for that one."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(AttributeError, OSError, TypeError):  # elsewhere than on Linux
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent and multiprocessing.get_start_method() == "fork":
        os._exit(1)
    start_worker(*setting)


def start_worker(codec, description, width, end_ids, breaks):
    global _worker
    words = Words(codec, f"uint{8 * width}", description, end_ids, breaks)
    _worker = words.encode_whole if breaks is None else words.encode


def work_on(block):
    return _worker(block)


def give_back_memory():
    """To the system what blocks of changing sizes left in pieces, where the C library can."""
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (AttributeError, OSError, TypeError):
        pass


def encode(path, codec, pieces, end_ids, width, workers):
    """Bytes of tokens, in order."""
    pieces, first, size = iter(pieces), [], 0
    for piece in pieces:  # as much as is worth a second process, also where documents are short
        first.append(piece)
        size += len(piece[0]) + 1
        if size >= BLOCK:
            break
    sample = "".join(text for text, _ in first)
    description = {**json.loads(path.read_text(encoding="utf-8")), "model": None}  # which is long, and in the codec
    breaks = splits(codec, description, sample)
    known = marks(Words(codec, f"uint{8 * width}", description), sample) if breaks is None else None
    todo = blocks(itertools.chain(first, pieces), known)
    workers = workers or min(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1, 8)
    setting = (codec, description, width, end_ids, breaks)
    if workers == 1 or size < BLOCK:
        start_worker(*setting)
        yield from map(work_on, todo)
        return
    with concurrent.futures.ProcessPoolExecutor(workers, initializer=begin_worker, initargs=(os.getpid(), *setting)) as pool:
        waiting = collections.deque()
        try:
            for number, block in enumerate(todo):
                if number % OFTEN == 0:
                    give_back_memory()
                waiting.append(pool.submit(work_on, block))
                if len(waiting) > workers + 2:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        except concurrent.futures.process.BrokenProcessPool as problem:
            raise ZeroError(OTHER, f"a process was killed, as where there is less memory than {workers} of them need",
                            help="--workers N takes fewer") from problem
        finally:
            for future in waiting:
                future.cancel()


def header(width, count):
    magic, version = FORMATS[width]
    return struct.pack("<3iiq", magic, version, count if count <= LARGEST else -1, 0, count if count > LARGEST else 0)


class Output:
    """The file and, with a share for validation, the other one: temporaries until both are whole."""

    def __init__(self, path, width, share, inputs):
        self.path, self.width, self.share, self.count = path, width, share, 0
        for target in [path, self.held()] if share else [path]:
            outputs.check(target, inputs)
        path.parent.mkdir(parents=True, exist_ok=True)

    def held(self):
        return self.path.with_name(f"{self.path.stem}.val.bin")

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
            targets.append(self.held())
            summary.update(val_tokens=held, val_path=str(targets[1]))
            self.move_tail(held)
        for file, count in zip(self.files, [self.count - held, held]):
            file.seek(0)
            file.write(header(self.width, count))
            file.flush()
            os.fsync(file.fileno())
        for file, target in zip(self.files, targets):
            outputs.put(file.name, target)
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
