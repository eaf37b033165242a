"""Text as a stream of documents: (text, whether its document ends here), a block or less at a time, with places for what is wrong."""
import codecs
import json
import re
import sys
import time

from ..errors import BAD_INPUT, UNSUPPORTED, ZeroError, need
from .chats import is_chat

LONE = re.compile("[\ud800-\udfff]")  # what JSON can say and UTF-8 cannot
BLOCK = 1 << 17  # characters, or bytes, that are read together


class Progress:
    """A line on a terminal, twice a second."""

    def __init__(self, paths, shown):
        self.total = sum(path.stat().st_size for path in paths)
        self.shown = sys.stderr.isatty() if shown is None else shown
        self.done = self.documents = 0
        self.began = self.last = time.monotonic()

    def show(self, tokens):
        now = time.monotonic()
        if self.shown and (now - self.last > 0.5 or self.done >= self.total):
            self.last = now
            print(f"\r{self.done / 1e6:.0f} of {self.total / 1e6:.0f} MB  {tokens:,} tokens  {self.done / 1e6 / (now - self.began):.1f} MB/s ",
                  end="\n" if self.done >= self.total else "", file=sys.stderr, flush=True)


def read_text(path, field, report, template):
    """One document. A character that a block ends within waits for the next block."""
    decoder, at = codecs.getincrementaldecoder("utf-8")(), 0
    with open(path, "rb") as file:
        while raw := file.read(BLOCK):
            pending = len(decoder.getstate()[0])
            try:
                text = decoder.decode(raw)
            except UnicodeDecodeError as problem:
                raise not_utf8(path, at - pending + problem.start, problem) from problem
            at += len(raw)
            report.done += len(raw)
            yield text, False
        try:
            decoder.decode(b"", True)
        except UnicodeDecodeError as problem:
            raise not_utf8(path, at - len(decoder.getstate()[0]), problem) from problem
    report.documents += 1
    yield "", True


def not_utf8(path, at, problem, line=None):
    where = f"{path}: byte {at}" if line is None else f"{path}:{line}: byte {at} of the line"
    return ZeroError(BAD_INPUT, f"not UTF-8: {problem.reason}", where=where, help="iconv -f LATIN1 -t UTF-8 changes a text's encoding")


def read_jsonl(path, field, report, template):
    with open(path, "rb") as file:
        for number, raw in enumerate(file, 1):
            report.done += len(raw)
            if not raw.strip():
                continue
            try:
                record = json.loads(raw.decode("utf-8"))
            except UnicodeDecodeError as problem:
                raise not_utf8(path, problem.start, problem, number) from problem
            except json.JSONDecodeError as problem:
                raise ZeroError(BAD_INPUT, f"no JSON: {problem.msg}", where=f"{path}:{number}:{problem.colno}") from problem
            except (ValueError, RecursionError) as problem:  # numbers of thousands of digits, brackets within brackets
                raise ZeroError(BAD_INPUT, f"no JSON that Python reads: {problem}", where=f"{path}:{number}") from problem
            record = record if isinstance(record, dict) else {}
            yield from document(record.get(field), field, f"{path}:{number}", report, template, record)


def read_parquet(path, field, report, template):
    parquet = need("pyarrow.parquet", "reading .parquet")
    try:
        file = parquet.ParquetFile(path, pre_buffer=False, buffer_size=1 << 20)  # not a group of rows at once, which has any size
    except Exception as problem:
        raise ZeroError(BAD_INPUT, f"no Parquet file: {problem}", where=str(path)) from problem
    with file:
        if field not in file.schema_arrow.names:
            raise ZeroError(BAD_INPUT, f'no column "{field}"; there are: {", ".join(file.schema_arrow.names)}', where=str(path),
                            help="--text-field names it")
        row, size, rows = 0, path.stat().st_size, max(1, file.metadata.num_rows)
        batches = (batch.column(0).to_pylist() for batch in file.iter_batches(batch_size=256, columns=[field], use_threads=False))
        while texts := next_of(batches, f"{path}: behind row {row}"):
            for text in texts:
                row += 1
                yield from document(text, field, f"{path}: row {row}", report, template)
            report.done += size * len(texts) // rows


def next_of(batches, where):
    """The next of pyarrow's, or None behind the last; errors of its own kinds, among them OSError of a damaged page, are the input's."""
    try:
        return next((batch for batch in batches if batch), None)
    except Exception as problem:
        raise ZeroError(BAD_INPUT, f"the Parquet file is damaged: {problem}", where=where) from problem


def document(text, field, where, report, template, record={}):
    if is_chat(text):
        text = template.text(text, where)
    if not isinstance(text, str):
        others = ", ".join(f"--text-field {name}" for name, value in record.items() if isinstance(value, str) or is_chat(value))
        raise ZeroError(BAD_INPUT, f'no text in "{field}"', where=where, help="there is text in " + others if others else "--text-field names the field that holds the text, or a chat")
    if not text.isascii() and (lone := LONE.search(text)):
        raise ZeroError(BAD_INPUT, f'no Unicode text in "{field}": half of a pair, {ascii(lone[0])[1:-1]}, at character {lone.start()}', where=where)
    report.documents += 1
    for at in range(0, len(text), BLOCK):
        yield text[at:at + BLOCK], False
    yield "", True


READERS = {".txt": read_text, ".md": read_text, ".jsonl": read_jsonl, ".parquet": read_parquet}  # anything else that is text is one document
TABLES = (".json", ".csv", ".tsv")  # text whose structure nobody means to train on


def reader(path):
    """How `path` is read. Errors: unsupported, where it is no text or more than that."""
    ending = path.suffix.lower()
    if ending in READERS:
        return READERS[ending]
    if ending in TABLES:
        raise ZeroError(UNSUPPORTED, f'it does not look for the texts in a "{ending}"', where=str(path),
                        help="a document per line goes into a .jsonl; a copy with another ending is read as it is")
    with open(path, "rb") as file:
        if b"\0" in file.read(BLOCK):
            raise ZeroError(UNSUPPORTED, "it is no text: it has bytes of 0", where=str(path), help="it reads text, .jsonl and .parquet")
    return read_text


def read(path, field, report, template):
    """The documents of a file: of a table those in the column `field`, of which a chat is written by `template`."""
    return reader(path)(path, field, report, template)
