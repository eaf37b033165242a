"""Text to tokens by looking words up: what a tokenizer gives for a word is computed once.

Tokenizers made for text cut it into pieces first and encode each by itself. Where that is so (`splits` tests it, on the vocabulary and
on text), there are places at which text may be cut and its parts be encoded by themselves: before a space or a line break that follows
no white space, and, where the tokenizer's own rule for pieces is known, between letters that it never leaves in one piece (`Breaks`).
What lies between two such places is a word here, a piece or two. numpy finds the words of a block and looks all of them up at once;
what is new is cut by the tokenizer's rule, and a new piece encoded."""
import array
import itertools
import json
import operator
import os
import re
import sys

from ..errors import need

END = b"\xff"  # stands behind each document of a block: a byte that UTF-8 does not have
JOIN = b"\xfe"  # stands behind what a block begins with of the one before: another such byte
CONTEXT = 64  # characters of it
WORDS, PIECES, KEPT = 15_000, 40_000, 64  # in each of the two generations that a process remembers, of so many bytes at most
SAMPLE = 50_000  # characters on which words are compared with the whole
LONGEST, MOST = 16, 4  # bytes of a word, and its tokens, that the table holds
OFTEN = 16  # blocks; in one of so many, words that came first are replaced, else those that came last
BUCKETS = 17  # bits of the number of its buckets, of two words each


class Remembered(dict):
    """key -> its tokens as bytes; those of new keys from `make`, a list to a list. What is full, with `most` keys, becomes the older generation,
    and what is asked for again comes back from there: frequent keys stay, however many rare ones pass. Long ones are made each time."""

    def __init__(self, make, most):
        super().__init__()
        self.make, self.most, self.older = make, most, {}

    def all(self, keys):
        """Tokens of each, in order."""
        new = [key for key in dict.fromkeys(keys) if key not in self]
        if new:
            if len(self) + len(new) > self.most:
                kept = {key: self[key] for key in keys if key in self}
                self.older = dict(self)
                self.clear()
                self.update(kept)
            self.update((key, self.older[key]) for key in new if key in self.older)
            unknown = [key for key in new if key not in self.older]
            self.update(zip(unknown, self.make(unknown)))
        found = operator.itemgetter(*keys)(self) if len(keys) > 1 else [self[key] for key in keys]  # the lookups in one call
        for key in new:
            if len(key) > KEPT:
                del self[key]
        return found


class Table:
    """Short words, looked up many at a time. A word is a column of two integers, its bytes behind which zeros stand; where both places of
    its bucket are taken, one is lost, which is encoded anew when it comes again."""

    def __init__(self, numpy, kind):
        slots = 2 << BUCKETS
        self.numpy, self.turn = numpy, 0
        self.low, self.high = numpy.zeros(slots, numpy.uint64), numpy.zeros(slots, numpy.uint64)
        self.counts, self.tokens = numpy.zeros(slots, numpy.uint8), numpy.zeros((slots, MOST), kind)
        masks = [(1 << 8 * n) - 1 for n in range(9)]
        self.masks = [numpy.array(mask, numpy.uint64) for mask in (masks[:8] + [masks[8]] * 9, [0] * 8 + masks)]

    def keys(self, block, begins, lengths):
        """[2, words], of what is longer its first bytes."""
        numpy = self.numpy
        aligned = numpy.frombuffer(block + bytes(32 - len(block) % 8), "<u8")
        at, shift = begins >> 3, ((begins & 7) << 3).astype(numpy.uint64)
        parts, back = [aligned.take(at + i) for i in range(3)], numpy.uint64(64) - shift  # numpy shifts by 64 to 0
        lengths = numpy.minimum(lengths, LONGEST)
        return numpy.stack([(parts[i] >> shift | parts[i + 1] << back) & self.masks[i].take(lengths) for i in range(2)])

    def find(self, keys):
        """Places of words, and which of them are there."""
        low, high = keys
        numpy = self.numpy
        places = ((low * numpy.uint64(0x9E3779B97F4A7C15) + high * numpy.uint64(0xC2B2AE3D27D4EB4F)) * numpy.uint64(0xD6E8FEB86659FD93)
                  >> numpy.uint64(64 - BUCKETS)).astype(numpy.int64) << 1
        found = (self.low.take(places) == low) & (self.high.take(places) == high)
        others = numpy.flatnonzero(~found)
        places[others] += 1
        found[others] = (self.low.take(places[others]) == low[others]) & (self.high.take(places[others]) == high[others])
        return places, found

    def take(self, places, counts):
        return self.tokens.take(places, axis=0)[self.numpy.arange(MOST) < counts[:, None]]

    def put(self, keys, places, tokens, first, counts):
        """Words whose second `places` are given and whose tokens begin at `first`."""
        numpy = self.numpy
        self.turn += 1
        places = places - (self.counts.take(places - 1) == 0) if self.turn % OFTEN else places - 1
        self.low[places], self.high[places], self.counts[places] = keys[0], keys[1], counts  # of several, the last everywhere
        self.tokens[places] = tokens.take(first[:, None] + numpy.arange(MOST), mode="clip")


class Words:
    """A tokenizer over blocks: UTF-8 of documents, END behind each, cut where one word ends. `kind`: numpy's of the tokens, uint16 or uint32;
    `table`: `breaks`, where they are known already."""

    def __init__(self, codec, kind, description, end=(), table=None):
        numpy = self.numpy = need("numpy", "zero tokens")
        self.kind, self.codec, self.model = numpy.dtype(kind), codec, codec.model
        self.form = "H" if self.kind.itemsize == 2 else "I"
        self.batch = getattr(codec, "encode_batch_fast", codec.encode_batch)  # fast: without places in the text
        self.end, self.cut, self.letters = array.array(self.form, end).tobytes(), cutter(description), {}
        self.words, self.pieces = Remembered(self.spell, WORDS), Remembered(self.whole, PIECES)
        if self.cut and takes_letters(description):
            self.letters = {byte: letter for letter, byte in byte_letters().items()}
            self.pieces = Remembered(self.spell_pieces, PIECES)
        special = [token["content"] for token in description.get("added_tokens") or []]
        self.special = re.compile("|".join(map(re.escape, special)).encode()) if special else None
        self.begins = os.path.commonprefix(special).encode() if special else b"\0"  # text without it has no special token
        self.breaks = breaks(numpy, description, spelled(codec, description)) if table is None else table
        self.table = Table(numpy, self.kind)
        self.last, self.before = (numpy.isin(numpy.arange(256), list(ends)) for ends in (WHITE_LAST, WHITE_BEFORE))

    def whole(self, texts):
        return [array.array(self.form, made.ids).tobytes() for made in self.batch(texts, add_special_tokens=False)] if texts else []

    def after(self, before, text):
        """Tokens of the text where it goes on with a document of which `before` stands before it: what a tokenizer puts before a text it does
        not put here."""
        made = self.codec.encode(before + text, add_special_tokens=False)
        return array.array(self.form, [token for token, (begin, _) in zip(made.ids, made.offsets) if begin >= len(before)]).tobytes()

    def spell_pieces(self, pieces):
        tokenize = self.model.tokenize
        return [array.array(self.form, [token.id for token in tokenize(piece.translate(self.letters))]).tobytes() for piece in pieces]

    def spell(self, words):
        """Tokens of words, given as UTF-8."""
        result = [self.end] * len(words)
        plain = [at for at, word in enumerate(words) if self.cut and self.is_plain(word)]
        cuts = [self.cut(words[at].decode()) for at in plain]
        tokens = iter(self.pieces.all(list(itertools.chain.from_iterable(cuts))))
        for at, cut in zip(plain, cuts):
            result[at] = b"".join(itertools.islice(tokens, len(cut)))
        known = set(plain)
        others = [at for at, word in enumerate(words) if at not in known and word != END]
        for at, tokens in zip(others, self.whole([words[at].decode() for at in others])):
            result[at] = tokens
        return result

    def is_plain(self, word):
        """Printable ASCII without special tokens, which `cut` knows."""
        return not word.translate(None, PLAIN) and not (self.begins in word and self.special.search(word))

    def encode(self, block):
        """Tokens of a block, as bytes."""
        numpy = self.numpy
        if not block:
            return b""
        raw = numpy.frombuffer(block, numpy.uint8)
        begins = self.find(block, raw)
        ends = numpy.append(begins[1:], len(raw))
        fits = ends - begins <= LONGEST
        if 0 in block:  # which the table cannot tell from what stands behind a word
            fits[numpy.searchsorted(begins, numpy.flatnonzero(raw == 0), "right") - 1] = False
        keys = self.table.keys(block, begins, ends - begins)
        places, known = self.table.find(keys)
        known &= fits
        counts = self.table.counts.take(places)
        missed = numpy.flatnonzero(~known)
        if not len(missed):
            return self.table.take(places, counts).tobytes()
        made = self.words.all([block[begin:end] for begin, end in zip(begins[missed].tolist(), ends[missed].tolist())])
        new = numpy.frombuffer(b"".join(made), self.kind)
        numbers = numpy.fromiter(map(len, made), numpy.int64, len(made)) // self.kind.itemsize
        old = self.table.take(places[known], counts[known])
        counts = counts.astype(numpy.int64)
        counts[missed] = numbers
        is_old = numpy.repeat(known, counts)
        result = numpy.empty(len(is_old), self.kind)
        result[is_old], result[~is_old] = old, new
        short = fits[missed] & (numbers <= MOST) & (numbers > 0)
        self.table.put(keys[:, missed[short]], places[missed[short]], new, (numpy.cumsum(numbers) - numbers)[short], numbers[short])
        return result.tobytes()

    def encode_whole(self, block):
        """`encode` for tokenizers whose words are not known: each document, or part of one, as it is."""
        before, joined, behind = block.partition(JOIN)
        *documents, rest = (behind if joined else block).split(END)
        texts = [text.decode() for text in documents] + ([rest.decode()] if rest else [])
        made = [self.after(before.decode(), texts.pop(0))] if joined and texts else []
        made += self.whole(texts)
        return b"".join(tokens + (self.end if at < len(documents) else b"") for at, tokens in enumerate(made))

    def find(self, block, raw):
        """Where words begin."""
        numpy = self.numpy
        pairs = raw[:-1].astype(numpy.uint16) << 8
        pairs |= raw[1:]
        at = numpy.flatnonzero(self.breaks.take(pairs)) + 1
        if not block.isascii():
            before, behind = raw.take(at - 1), raw.take(at)
            at = at[~(self.last.take(before) & self.before.take(raw.take(at - 2, mode="wrap")) & (behind != END[0]))]
        return numpy.concatenate([[0], at])


PLAIN = bytes([*range(32, 127), *b"\t\n\r"])
# White space beyond ASCII, in UTF-8: its last byte, and the one before. Where both fit it may be some, and no word ends.
WHITE = "\x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
WHITE_LAST, WHITE_BEFORE = {letter.encode()[-1] for letter in WHITE}, {letter.encode()[-2] for letter in WHITE}
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
POSSESSIVE = sys.version_info >= (3, 11)
ASCII = {r"\p{L}": "A-Za-z", r"\p{N}": "0-9", r"\p{Lu}": "A-Z", r"\p{Ll}": "a-z", r"\p{M}": "", r"\p{Lt}": "", r"\p{Lm}": "", r"\p{Lo}": "",
         r"\s": " \\t\\n\\r"}


KINDS = ("[a-z]", "[A-Z]", "[0-9]", "[!-/:-@[-`{-~]", " ", "\n", "\r", "\t")  # of ASCII; letters that the rule names stand for themselves


def breaks(numpy, description, vocabulary):
    """[256 * 256]: whether a word may end with one byte where the next begins with the other. Where the rule for pieces is known, it cuts
    there whatever stands around; and no token joins over it, so none that merges or looks up does."""
    table = numpy.zeros((256, 256), bool)
    table[33:, [ord(" "), ord("\n")]] = True
    if cut := cutter(description):
        expression = rule_of(description)
        literal = {letter for letter in expression if letter.isprintable()}
        kinds = [[letter for letter in map(chr, range(127)) if re.match(members, letter) and letter not in literal] for members in KINDS]
        group = {letters[0]: letters for letters in [*kinds, *map(list, literal)] if letters and letters[0].isascii()}
        around = ["", "s", "X", "5", ".", " ", "\n", "\r", "\t", "'", "/"]
        for first, second in itertools.product(group, repeat=2):
            if always_cuts(cut, first, second, around):
                table[numpy.ix_(list(map(ord, group[first])), list(map(ord, group[second])))] = True
    raw = numpy.frombuffer(vocabulary, numpy.uint8)
    table[raw[:-1], raw[1:]] = False
    table[127] = False
    table[END[0], :] = table[:, END[0]] = True
    return table.ravel()


def always_cuts(cut, first, second, around):
    """Does the rule cut between them, and is either side cut as it is alone?"""
    return all(cut(before + first + second + after) == cut(before + first) + cut(second + after) for before in around for after in around)


def spelled(codec, description):
    """The bytes that tokens stand for, as far as white space and ASCII go, END between them."""
    tokens = END.decode("latin-1").join(codec.get_vocab(with_added_tokens=True))
    if not in_letters(description):
        return tokens.replace("\u2581", " ").encode("utf-8").replace("\xff".encode("utf-8"), END)
    letters = {ord(letter): chr(byte) for letter, byte in byte_letters().items()}
    return tokens.translate(letters).encode("latin-1", "replace")


def splits(codec, description, sample):
    """The breaks between words that may be encoded one by one; None where they may not. Structure: nothing in the vocabulary spans a space
    inside, and no special token has or takes white space behind something; and the text at hand, encoded both ways, is the same."""
    added = description.get("added_tokens") or []
    if re.search(rb"[!-~] ", spelled(codec, description)) or any(token.get("rstrip") or re.search(r"\S\s", token["content"]) for token in added):
        return None
    words = Words(codec, "uint32", description)
    return words.breaks if all(words.encode(part.encode()) == words.whole([part])[0] for part in [sample[:SAMPLE], *PROBES]) else None


PROBES = ("a  b\n c\t d  \n\n  e. F, 1 2 (g) ' h's  ", "It's 12345 x2y I'LL don't(a_b) [c]\n\t\te;\n}\n\n  f() --g 'h' \"i\" j... k?! $l @m #n 3.14 ~/o\r\n p\n",
          " q\u00e9 r\u00b2 \u4e2d\u6587 s\u00a0t \U0001f600 \u0661\u0662 ", "".join(f"{chr(at)}\n{chr(at)} {chr(at)}\n\n{chr(at)}" for at in range(33, 127)))


def rule_of(description):
    """The expression of the pieces into which the tokenizer cuts text; None where it is not known."""
    if (description.get("normalizer") or {}).get("type") not in (None, "NFC", "NFD", "NFKC", "NFKD", "BertNormalizer"):
        return None
    rule = description.get("pre_tokenizer") or {}
    stages = rule.get("pretokenizers", []) if rule.get("type") == "Sequence" else [rule]
    kinds = [stage.get("type") for stage in stages]
    if kinds == ["BertPreTokenizer"]:
        return r"[\p{L}\p{N}]+|[^\s\p{L}\p{N}]"
    if kinds == ["ByteLevel"] and not stages[0].get("add_prefix_space") and stages[0].get("use_regex", True):
        return GPT2
    if kinds == ["Split", "ByteLevel"] and not stages[1].get("add_prefix_space") and not stages[1].get("use_regex", True):
        if stages[0].get("behavior") == "Isolated" and not stages[0].get("invert"):
            return (stages[0].get("pattern") or {}).get("Regex")
    return None


def cutter(description):
    """text -> pieces as the tokenizer's own pre-tokenizer cuts printable ASCII; None where this one is not known."""
    expression = rule_of(description)
    try:
        return re.compile(in_ascii(expression)).findall if expression else None
    except re.error:
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


def in_letters(description):
    """Are tokens written in the letters of GPT-2's table?"""
    return '"ByteLevel"' in json.dumps(description.get("pre_tokenizer"))


def takes_letters(description):
    """Whether the model gets a piece of ASCII as it stands, in the letters of GPT-2's table."""
    changed = (description.get("normalizer") or {}).get("type") == "BertNormalizer"  # others that `cutter` knows leave ASCII alone
    return not changed and in_letters(description)


def byte_letters():
    """letter -> byte: how GPT-2 writes bytes as text."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]  # bytes that its table writes as themselves; others follow 255
    table = {chr(byte): byte for byte in plain}
    table.update((chr(256 + at), byte) for at, byte in enumerate(byte for byte in range(256) if byte not in plain))
    return table
