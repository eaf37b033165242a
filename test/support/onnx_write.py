"""Writes ONNX models by hand: a Protobuf encoder for the dozen messages a test graph needs. Standard library only.

Field numbers are those of onnx.proto (ONNX 1.15). Weights live in one external file, each range contiguous and page-aligned.
"""
import contextlib
import math
import os
import random
import struct
import threading
from array import array

FLOAT, INT32, INT64, BOOL = 1, 6, 7, 9
ELEMENT_BYTES = {FLOAT: 4, INT32: 4, INT64: 8, BOOL: 1}
ALIGNMENT = 4096


def varint(n):
    n &= (1 << 64) - 1
    out = bytearray()
    while n >= 0x80:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    out.append(n)
    return bytes(out)


def number(field, value):
    return varint(field << 3) + varint(value)


def data(field, value):
    if isinstance(value, str):
        value = value.encode()
    return varint(field << 3 | 2) + varint(len(value)) + value


def tensor(shape, dtype, values, name=None):
    """TensorProto with raw data."""
    code = {FLOAT: "f", INT32: "i", INT64: "q", BOOL: "?"}[dtype]
    out = b"".join(number(1, d) for d in shape) + number(2, dtype)
    return out + (data(8, name) if name else b"") + data(9, struct.pack(f"<{len(values)}{code}", *values))


def value_info(name, dtype, shape):
    """A dimension is a number or a symbol's name."""
    dims = b"".join(data(1, data(2, d) if isinstance(d, str) else number(1, d)) for d in shape)
    return data(1, name) + data(2, data(1, number(1, dtype) + data(2, dims)))


@contextlib.contextmanager
def replaced(path):
    """A file to write, which takes the place of `path` when it is whole: who reads beside it has the old one or the new one, never half of one."""
    new = f"{path}.{os.getpid()}-{threading.get_ident()}.new"
    try:
        with open(new, "wb") as f:
            yield f
        os.replace(new, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.remove(new)
        raise


def aligned(size):
    return -(-size // ALIGNMENT) * ALIGNMENT


class Body(bytes):
    """An encoded GraphProto, as an attribute."""


class Ref(str):
    """The name of the function's attribute that gives the value (of type `kind`, as in AttributeProto)."""
    kind = 2


def attribute(name, value):
    """int, float, string, a list of one of them, Body, Ref, or bytes (an encoded TensorProto)."""
    out = data(1, name)
    if isinstance(value, Ref):
        return out + data(21, str(value)) + number(20, value.kind)
    if isinstance(value, Body):
        return out + data(6, bytes(value)) + number(20, 5)
    if isinstance(value, int):
        return out + number(3, value) + number(20, 2)
    if isinstance(value, float):
        return out + varint(2 << 3 | 5) + struct.pack("<f", value) + number(20, 1)
    if isinstance(value, list) and value and isinstance(value[0], float):
        return out + b"".join(varint(7 << 3 | 5) + struct.pack("<f", v) for v in value) + number(20, 6)
    if isinstance(value, list) and value and isinstance(value[0], str):
        return out + b"".join(data(9, v) for v in value) + number(20, 8)
    if isinstance(value, list):
        return out + b"".join(number(8, v) for v in value) + number(20, 7)
    if isinstance(value, str):
        return out + data(4, value) + number(20, 3)
    return out + data(5, value) + number(20, 4)


class Graph:
    """Collects nodes and initializers; `write` gives the .onnx and its data file."""

    def __init__(self, name):
        self.name, self.nodes, self.inputs, self.outputs = name, [], [], []
        self.initializers = []  # name, shape, standard deviation (None: ones, 0: zeros)
        self.counts = {}

    def op(self, kind, inputs, scope="", outputs=None, count=1, **attributes):
        """Adds a node, named as exporters do (`/scope/Kind_3`); returns its output name, or a list of `count` names."""
        stem = f"{scope}/{kind}"
        seen = self.counts.get(stem, 0)
        self.counts[stem] = seen + 1
        name = f"{stem}_{seen}" if seen else stem
        outputs = outputs or [f"{name}_output_{i}" for i in range(count)]
        body = b"".join(data(1, i) for i in inputs) + b"".join(data(2, o) for o in outputs)
        body += data(3, name) + data(4, kind) + b"".join(data(5, attribute(k, v)) for k, v in attributes.items())
        self.nodes.append(body)
        return outputs[0] if len(outputs) == 1 else outputs

    def constant(self, values, scope="", dtype=INT64, shape=None):
        shape = [len(values)] if shape is None else shape
        return self.op("Constant", [], scope, value=tensor(shape, dtype, values))

    def parameter(self, name, shape, std):
        self.initializers.append((name, shape, std))
        return name

    def elements(self):
        return sum(math.prod(shape) for _, shape, _ in self.initializers)

    def own_ranges(self):
        """Offset of each parameter; (offset, elements, deviation) of each range of the file."""
        offset, ranges = 0, []
        for _, shape, std in self.initializers:
            ranges.append((offset, math.prod(shape), std))
            offset += aligned(4 * math.prod(shape))
        return [offset for offset, _, _ in ranges], ranges

    def shared_ranges(self):
        bytes_of, within = {}, []
        for _, shape, std in self.initializers:
            at, end = bytes_of.get(std, (0, 0))
            within.append(at)
            bytes_of[std] = at + ALIGNMENT, max(end, at + aligned(4 * math.prod(shape)))
        firsts, offset = {}, 0
        for std, (_, end) in bytes_of.items():
            firsts[std] = offset
            offset += end
        offsets = [firsts[std] + at for (_, _, std), at in zip(self.initializers, within)]
        return offsets, [(firsts[std], end // 4, std) for std, (_, end) in bytes_of.items()]

    def write(self, path, seed=None, opset=17, producer="test/support/make_gpt.py", shared=False):
        """Without a seed the data file is sparse (all zeros, no block written); with one it holds normal deviates. `shared`: parameters of
        one deviation lie in one range, each a page further than the last, so that a model of billions has a file of its largest tensor."""
        location = os.path.basename(path) + ".data"
        encoded = []
        offsets, ranges = self.shared_ranges() if shared else self.own_ranges()
        for (name, shape, _), offset in zip(self.initializers, offsets):
            where = ("location", location), ("offset", str(offset)), ("length", str(4 * math.prod(shape)))
            body = b"".join(number(1, d) for d in shape) + number(2, FLOAT) + data(8, name)
            body += b"".join(data(13, data(1, k) + data(2, v)) for k, v in where) + number(14, 1)
            encoded.append(data(5, body))
        with replaced(path + ".data") as f:
            f.truncate(max((offset + aligned(4 * count) for offset, count, _ in ranges), default=0))
            if seed is not None:
                fill(f, ranges, seed)
        graph = b"".join(data(1, n) for n in self.nodes) + data(2, self.name) + b"".join(encoded)
        graph += b"".join(data(11, v) for v in self.inputs) + b"".join(data(12, v) for v in self.outputs)
        model = number(1, 8) + data(2, producer) + data(7, graph) + data(8, data(1, "") + number(2, opset))
        with replaced(path) as f:
            f.write(model)


def fill(f, ranges, seed):
    """Normal deviates, quickly: stretches of a table of 64 Ki of them, each from a random place."""
    rng, stretch = random.Random(seed), 4096
    table = [rng.gauss(0, 1) for _ in range(1 << 16)]
    scaled = {}
    for offset, count, std in ranges:
        if std is None or std == 0:
            block = lambda n: array("f", [1.0 if std is None else 0.0]) * n
        else:
            values = scaled.setdefault(std, array("f", (std * t for t in table)))
            block = lambda n: values[(at := rng.randrange(len(values) - n)):at + n]
        f.seek(offset)
        for start in range(0, count, stretch):
            block(min(stretch, count - start)).tofile(f)


def write_safetensors(path, arrays):
    """arrays: name -> (dtype name, shape, bytes)."""
    header, at = [], 0
    for name, (dtype, shape, raw) in arrays.items():
        header.append(f'"{name}":{{"dtype":"{dtype}","shape":{list(shape)},"data_offsets":[{at},{at + len(raw)}]}}')
        at += len(raw)
    text = ("{" + ",".join(header) + "}").encode()
    text += b" " * (-len(text) % 8)
    with replaced(path) as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for _, _, raw in arrays.values():
            f.write(raw)
