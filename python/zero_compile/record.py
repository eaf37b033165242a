"""What an export says of itself: the model's metadata_props, each a JSON value under a key "zero.NAME" (docs/own-model.md).

Reading needs no package: metadata_props are field 14 of the file's one message, and all else is passed over."""
import json

from .errors import BAD_INPUT, ZeroError

PREFIX = "zero."
METADATA_PROPS, BYTES = 14, 2  # field of onnx.ModelProto; protobuf's wire type of what has a length


def write(proto, record):
    """Into onnx.ModelProto `proto`, in place of an earlier record."""
    kept = [entry for entry in proto.metadata_props if not entry.key.startswith(PREFIX)]
    del proto.metadata_props[:]
    proto.metadata_props.extend(kept)
    for key in sorted(record):
        proto.metadata_props.add(key=PREFIX + key, value=json.dumps(record[key], sort_keys=True))


def read(path):
    """{key: value} of a model file; empty where this package did not write it."""
    try:
        with open(path, "rb") as file:
            entries = [dict(_strings(raw)) for raw in _fields(file, METADATA_PROPS)]
    except (OSError, ValueError, IndexError) as problem:
        raise ZeroError(BAD_INPUT, f"no ONNX model: {problem}", where=str(path)) from problem
    return {e.get(1, "")[len(PREFIX):]: json.loads(e.get(2, "null")) for e in entries if e.get(1, "").startswith(PREFIX)}


def _varint(file):
    value = shift = 0
    while True:
        byte = file.read(1)
        if not byte:
            return None
        value |= (byte[0] & 127) << shift
        if byte[0] < 128:
            return value
        shift += 7
        if shift > 63:
            raise ValueError("a number is longer than 64 bits")


def _fields(file, wanted):
    """Contents of the fields `wanted` of the message that the file is."""
    end = file.seek(0, 2)
    file.seek(0)
    while True:
        key = _varint(file)
        if key is None:
            return
        field, wire = key >> 3, key & 7
        if wire == 0:
            _varint(file)
        elif wire in (1, 5):
            file.seek(8 if wire == 1 else 4, 1)
        elif wire == BYTES:
            length = _varint(file)
            if length is None or file.tell() + length > end:
                raise ValueError("a field is longer than the file")
            if field == wanted:
                yield file.read(length)
            else:
                file.seek(length, 1)
        else:
            raise ValueError(f"wire type {wire} at byte {file.tell()}")


def _strings(raw):
    """(field, text) of a message that holds strings only."""
    import io
    file = io.BytesIO(raw)
    while True:
        key = _varint(file)
        if key is None:
            return
        if key & 7 != BYTES:
            raise ValueError("metadata_props holds something else than strings")
        yield key >> 3, file.read(_varint(file) or 0).decode()
