"""Damaged ONNX files: a model's bytes taken apart by onnx.proto's message numbers, one to three things changed, and put together again. What comes
out is mostly a file that parses and whose graph is wrong somewhere: that is what importers meet, and where fuzzed bytes seldom get."""
import math, random, struct

from onnx_write import data, number, varint

# Message fields of a message, by number (onnx.proto).
CHILDREN = {
    "Model": {7: "Graph", 8: "Opset", 20: "Training", 25: "Function"},
    "Training": {1: "Graph", 2: "Graph"},
    "Function": {7: "Node", 9: "Opset", 11: "Attribute"},
    "Graph": {1: "Node", 5: "Tensor", 11: "Value", 12: "Value", 13: "Value"},
    "Node": {5: "Attribute"},
    "Attribute": {5: "Tensor", 6: "Graph", 10: "Tensor", 11: "Graph"},
    "Value": {2: "Type"},
    "Type": {1: "TensorType", 4: "Sequence", 9: "Sequence"},
    "Sequence": {1: "Type"},
    "TensorType": {2: "Shape"},
    "Shape": {1: "Dimension"},
}
NODE_INPUT, NODE_OUTPUT, NODE_OP, NODE_DOMAIN = 1, 2, 4, 7
INTEGERS = (-1, 0, 1, 2, 3, 5, 17, 255, -2, 1 << 31, (1 << 63) - 1, -(1 << 63))
FLOATS = (0.0, -1.0, 1e-30, 1e30, float("inf"), float("-inf"), float("nan"))
TEXTS = (b"", b"x", b"\xff\xfe", b"SAME_UPPER", b"mean", b"a" * 300)


class Message:
    """Fields in order: [number, wire type, value]; the value of a known child is a Message, of others bytes or an int."""

    def __init__(self, kind, content):
        self.kind, self.fields = kind, []
        at = 0
        while at < len(content):
            key, at = take(content, at)
            field, wire = key >> 3, key & 7
            if wire == 0:
                value, at = take(content, at)
            elif wire == 2:
                size, at = take(content, at)
                value, at = content[at : at + size], at + size
                if field in CHILDREN.get(kind, {}):
                    value = Message(CHILDREN[kind][field], value)
            else:
                size = {1: 8, 5: 4}[wire]
                value, at = content[at : at + size], at + size
            self.fields.append([field, wire, value])

    def encode(self):
        out = []
        for field, wire, value in self.fields:
            if isinstance(value, Message):
                out.append(data(field, value.encode()))
            elif wire == 0:
                out.append(number(field, value))
            elif wire == 2:
                out.append(data(field, value))
            else:
                out.append(varint(field << 3 | wire) + value)
        return b"".join(out)

    def all(self):
        """This message and what is below it."""
        yield self
        for _, _, value in self.fields:
            if isinstance(value, Message):
                yield from value.all()

    def of(self, field):
        return [value for number, _, value in self.fields if number == field]


def take(content, at):
    value = shift = 0
    while True:
        byte = content[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def names_of(model):
    return sorted({value for node in model.all() if node.kind == "Node" for field in (NODE_INPUT, NODE_OUTPUT) for value in node.of(field)})


def changed(entry, message, choose, names, operators):
    """Another value for a field that is no message."""
    field, wire, value = entry
    if wire == 0:
        return choose.choice(INTEGERS + (value + 1, value - 1)) & (1 << 64) - 1
    if wire != 2:
        return (struct.pack("<d", choose.choice(FLOATS)) if wire == 1 else struct.pack("<f", max(min(choose.choice(FLOATS), 3e38), -3e38)))
    if message.kind == "Node" and field in (NODE_INPUT, NODE_OUTPUT):
        return choose.choice([b"", choose.choice(names), choose.choice(names), b"nobody"])
    if message.kind == "Node" and field == NODE_OP:
        return choose.choice(operators)
    if message.kind == "Node" and field == NODE_DOMAIN:
        return choose.choice([b"", b"com.microsoft", b"ai.onnx.preview.training", b"nobody"])
    if len(value) > 16 and choose.random() < 0.7:
        return choose.choice([value[: len(value) // 2], value[:-1], value + value[:8], value[4:]])
    return choose.choice(TEXTS + tuple(names[:3]))


def mutate(content, seed, operators):
    """The model's bytes with one to three changes, which depend on the seed alone; and what was changed."""
    choose = random.Random(seed)
    model = Message("Model", content)
    names, told = names_of(model) or [b"x"], []
    for _ in range(choose.choice((1, 1, 2, 3))):
        message = choose.choice([each for each in model.all() if each.fields and each.kind != "Model"] or [model])
        at = choose.randrange(len(message.fields))
        entry = message.fields[at]
        what = choose.random()
        told.append(f"{message.kind} field {entry[0]}")
        if what < 0.15:
            del message.fields[at]
        elif what < 0.22:
            message.fields.insert(choose.randrange(len(message.fields) + 1), list(entry))
        elif what < 0.28:
            message.fields.append(message.fields.pop(at))
        elif message.kind == "Node" and what < 0.34:
            message.fields.append([NODE_INPUT, 2, choose.choice(names + [b""])])
        elif isinstance(entry[2], Message):
            inner = entry[2]
            if inner.fields:
                below = choose.randrange(len(inner.fields))
                if not isinstance(inner.fields[below][2], Message):
                    inner.fields[below][2] = changed(inner.fields[below], inner, choose, names, operators)
        else:
            entry[2] = changed(entry, message, choose, names, operators)
    return model.encode(), told


def with_parameters(content):
    """The model with zeros for its inputs of fp32 and of known shapes, but for the first one where there are several: parameters, so that gradients
    are wanted."""
    model = Message("Model", content)
    for graph in model.of(7):
        known = [(entry, body) for entry in graph.fields if entry[0] == 11 and (body := zeros_for(entry[2]))]
        for entry, body in known[len(known) > 1 :]:
            graph.fields.remove(entry)
            graph.fields.append([5, 2, Message("Tensor", body)])
    return model.encode()


def zeros_for(value):
    """A tensor like this input, or nothing."""
    types = [each for each in value.all() if each.kind == "TensorType"]
    dims = [each.of(1) for each in value.all() if each.kind == "Dimension"]
    count = math.prod(d[0] if d else 1 << 20 for d in dims)
    if len(types) != 1 or types[0].of(1) != [1] or count > 1 << 16 or not value.of(1):
        return None
    return b"".join(number(1, d[0]) for d in dims) + number(2, 1) + data(8, value.of(1)[0]) + data(9, b"\0" * (4 * count))
