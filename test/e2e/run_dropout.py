#!/usr/bin/env python3
"""Dropout policies on exports with dropout: off is the model without it, the same seed gives the same bits (recomputed or not, at
any stage), another seed others, and ranks that see the same samples drop different elements."""
import json, pathlib, re, struct, sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from e2e import Case, Suite, close, same

suite = Suite(__doc__)
gpt2 = suite.models / "gpt2"


def losses(export, name, *flags, world=1, data=gpt2 / "inputs.safetensors", steps=3):
    plan = suite.compile(gpt2 / f"{export}.onnx", suite.dir / f"{name}.plan", "--world-size", world, *flags)
    metrics = suite.train(plan, suite.dir / name, "-n", world, "--data", data, "--steps", steps)
    return [m["loss"] for m in metrics]


def off_is_without(export):
    flags = ("--dropout", "off", "--lr", "1e-3", "--weight-decay", "0.01")
    expected = json.loads((gpt2 / "golden.json").read_text())["loss_adamw"][:3]
    return f"{close('loss', losses(export, f'{export}-off', *flags, world=2), expected, 1e-5):.1e}"


def seeds(export):
    first = losses(export, f"{export}-1", "--dropout", "force", "--seed", 1)
    same("the same seed, recomputed", losses(export, f"{export}-1c", "--dropout", "force", "--seed", 1,
                                             "--checkpoint-activations", "block"), first)
    if losses(export, f"{export}-2", "--dropout", "force", "--seed", 2)[0] == first[0]:
        raise Case("another seed drops the same elements")
    if losses(export, f"{export}-0", "--dropout", "off")[0] == first[0]:
        raise Case("dropout is not active")
    stages = [losses(export, f"{export}-z{stage}", "--dropout", "force", "--seed", 1, "--zero-stage", stage, world=2)
              for stage in (0, 3)]
    same("stage 3", stages[1], stages[0])


def as_plain_operations(export):
    """Attention draws what its plain operations draw, which ranks that share samples compute."""
    alone, shared = (losses(export, f"{export}-t{world}", "--dropout", "force", "--seed", 1, *flags, world=world)
                     for world, flags in ((1, ()), (2, ("--tensor-parallel", 2))))
    table = suite.tool("zero-run", "inspect", suite.dir / f"{export}-t1.plan", "--kernels")
    if "attention" not in table or re.search(r"^softmax ", table, re.M):
        raise Case(f"attention is plain operations: {table}")
    return f"{close('loss', shared, alone, 1e-5):.1e}"


def repeated_rows(path):
    """The first row of every input, eight times."""
    data = (gpt2 / "inputs.safetensors").read_bytes()
    length = int.from_bytes(data[:8], "little")
    header, body, out = json.loads(data[8:8 + length]), data[8 + length:], b""
    for name in [n for n in header if n != "__metadata__"]:
        begin, end = header[name]["data_offsets"]
        rows = header[name]["shape"][0]
        row = body[begin:begin + (end - begin) // rows] * 8
        header[name] = {"dtype": header[name]["dtype"], "shape": [8, *header[name]["shape"][1:]],
                        "data_offsets": [len(out), len(out) + len(row)]}
        out += row
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + out)


def ranks_differ(export):
    data = suite.dir / f"{export}-rows.safetensors"
    repeated_rows(data)
    # The mean over two ranks with one mask would be rank 0's own loss.
    alone, both = (losses(export, f"{export}-r{world}", "--dropout", "force", "--seed", 1, world=world, data=data, steps=1)[0]
                   for world in (1, 2))
    if abs(alone - both) < 1e-6:
        raise Case(f"both ranks drop the same elements: {alone} and {both}")
    close("loss without dropout", [losses(export, f"{export}-n{world}", "--dropout", "off", world=world, data=data, steps=1)[0]
                                   for world in (2,)],
          [losses(export, f"{export}-n1", "--dropout", "off", data=data, steps=1)[0]], 1e-6)


cases = []
for e in ("ts17_dropout", "dynamo23_dropout"):
    cases += [(f"{e} off", lambda e=e: off_is_without(e)), (f"{e} seeds", lambda e=e: seeds(e)),
              (f"{e} ranks", lambda e=e: ranks_differ(e)), (f"{e} as plain operations", lambda e=e: as_plain_operations(e))]
suite.run(cases)
suite.finish()
