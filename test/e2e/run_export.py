#!/usr/bin/env python3
"""Trained weights go out and come back: an exported model, compiled again, starts with the very loss the run would have had
next; so does the original with the exported safetensors as --weights, and a run that is resumed. What exporters rearranged is
undone. Where onnxruntime is
installed it must open the export and give that loss within 1e-5."""
import json, pathlib, shutil, struct, sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "compiler" / "import" / "Inputs"))
from e2e import Case, Suite, read_safetensors, same, write_safetensors
from model import f, model, node
from onnx_write import FLOAT, INT64, data, number

try:
    import numpy, onnxruntime  # here: they change the environment
except ImportError:
    onnxruntime = None

suite = Suite(__doc__)
# The fixtures' 32 rows are eight steps; the ninth sees the rows of the first again.
EPOCH = 8


def onnxruntime_loss(model, data, rows):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    raw = data.read_bytes()
    length = int.from_bytes(raw[:8], "little")
    header, arrays = json.loads(raw[8:8 + length]), {}
    for name, entry in header.items():
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        dtype = {"I64": numpy.int64, "F32": numpy.float32}[entry["dtype"]]
        arrays[name] = numpy.frombuffer(raw[begin:end], dtype).reshape(entry["shape"])
    names = [i.name for i in session.get_inputs()]
    losses = [float(session.run(None, {n: arrays[n][r:r + 2] for n in names})[0]) for r in rows]
    return sum(losses) / len(losses)


def beside(name, source, checkpoint, exported, flags, data, expected):
    """Into the model's own folder, whose files stay as they are: external data after the new model's name."""
    before = {file.name: file.read_bytes() for file in source.iterdir()}
    suite.tool("zero-run", "export", checkpoint, "--onnx", source / "trained.onnx")
    for file, raw in before.items():
        if (source / file).read_bytes() != raw:
            raise Case(f"{file} was touched")
    new = sorted(file.name for file in source.iterdir() if file.name not in before)
    if new != ["trained.onnx", "trained.onnx.data"][:len(before)]:
        raise Case(f"{new} beside {sorted(before)}")
    if len(new) == 2:
        same("external data", (source / new[1]).read_bytes(), next(f for f in exported.iterdir() if f.name != "new.onnx").read_bytes())
        again = suite.compile(source / "trained.onnx", suite.dir / f"{name}-beside.plan", *flags)
        got = suite.train(again, suite.dir / f"{name}-beside", *data, "--steps", 1)
        same("first loss of the model in its own folder", [got[0]["loss"]], expected)
        # What is no data is not replaced by data; data are.
        plan = pathlib.Path(shutil.copy(again, source / "other.onnx.data"))
        said = suite.tool("zero-run", "export", checkpoint, "--onnx", source / "other.onnx", code=2)
        if "is a plan, and would be replaced" not in said:
            raise Case(said)
        same("a plan beside the model", plan.read_bytes(), again.read_bytes())
        suite.tool("zero-run", "export", checkpoint, "--onnx", source / "trained.onnx")


def roundtrip(model, export, stage):
    folder, name = suite.models / model, f"{model}-{export}"
    data = ["-n", 2, "--data", folder / "inputs.safetensors"]
    flags = ["--world-size", 2, "--zero-stage", stage, "--lr", "1e-2"]
    # A copy, so that the export's external data has another folder to go to than the fixtures'.
    source = suite.dir / name
    source.mkdir()
    for file in folder.glob(f"{export}.onnx*"):
        shutil.copy(file, source / file.name)
    plan = suite.compile(source / f"{export}.onnx", suite.dir / f"{name}.plan", *flags)
    straight = suite.train(plan, suite.dir / f"{name}-straight", *data, "--steps", EPOCH + 2)
    short = suite.dir / f"{name}-short"
    suite.train(plan, short, *data, "--steps", EPOCH, "--save-every", 5)
    expected = [straight[EPOCH]["loss"]]

    exported = suite.dir / f"{name}-exported"
    exported.mkdir()
    suite.tool("zero-run", "export", short / "final", "--onnx", exported / "new.onnx")
    again = suite.compile(exported / "new.onnx", suite.dir / f"{name}-again.plan", *flags)
    got = suite.train(again, suite.dir / f"{name}-again", *data, "--steps", 1)
    same("first loss of the exported model", [got[0]["loss"]], expected)

    beside(name, source, short / "final", exported, flags, data, expected)

    weights = suite.dir / f"{name}.safetensors"
    suite.tool("zero-run", "export", short / "final", "--safetensors", weights)
    got = suite.train(plan, suite.dir / f"{name}-weights", *data, "--steps", 1, "--weights", weights)
    same("first loss with --weights", [got[0]["loss"]], expected)

    resumed = suite.train(plan, short, *data, "--steps", EPOCH + 2, "--resume", "auto")
    same("resumed losses", [m["loss"] for m in resumed], [m["loss"] for m in straight])
    same("resumed weights", (short / "final/weights.safetensors").read_bytes(),
         (suite.dir / f"{name}-straight/final/weights.safetensors").read_bytes())
    if not onnxruntime:
        return "no onnxruntime here"
    loss = onnxruntime_loss(exported / "new.onnx", folder / "inputs.safetensors", (0, 2))
    if abs(loss - expected[0]) > 1e-5 * abs(loss):
        raise Case(f"onnxruntime gives {loss}, not {expected[0]}")
    return f"onnxruntime {abs(loss - expected[0]) / loss:.0e}"


def state(model, export):
    """What one step at learning rate 0 leaves, as the exported state: {name: (dtype, shape, bytes)}."""
    name = f"state-{model}-{export}"
    plan = suite.compile(suite.models / model / f"{export}.onnx", suite.dir / f"{name}.plan", "--lr", "0")
    suite.train(plan, suite.dir / name, "--data", suite.models / model / "inputs.safetensors", "--steps", 1)
    file = suite.dir / f"{name}.safetensors"
    suite.tool("zero-run", "export", suite.dir / name, "--safetensors", file)
    return read_safetensors(file)


def statistics():
    """What batch norms have seen goes out with the weights: an exported model evaluates as the checkpoint does."""
    source, data = suite.models / "resnet/ts17.onnx", ["--data", suite.models / "resnet/inputs.safetensors"]
    plan, out = suite.compile(source, suite.dir / "statistics.plan", "--lr", "1e-2"), suite.dir / "statistics"
    suite.train(plan, out, *data, "--steps", 20)
    suite.tool("zero-run", "export", out, "--onnx", suite.dir / "statistics.onnx")
    evaluates = [suite.compile(model, suite.dir / f"statistics-{name}.plan", "--forward-only")
                 for name, model in (("before", source), ("after", suite.dir / "statistics.onnx"))]
    before, trained, exported = (json.loads(suite.tool("zero-run", "eval", evaluates[which], *data, *weights, "--quiet").splitlines()[-1])["loss"]
                                 for which, weights in ((0, []), (0, ["--weights", out / "final"]), (1, [])))
    same("loss", [exported], [trained])
    if trained == before:
        raise Case("training changed nothing")
    return f"{before} before, {trained} trained"


def names(model, rearranged, plain):
    """Transposes that the exporter folded are undone, its tables left out: the state is that of an export that left all as it was."""
    got, want = state(model, rearranged), state(model, plain)
    if got.keys() != want.keys():
        raise Case(f"missing {sorted(want.keys() - got.keys())}, unexpected {sorted(got.keys() - want.keys())}")
    for name in want:
        same(name, got[name], want[name])
    return f"{len(want)} tensors"


def tables():
    """External files that hold no parameter go out as well: a table of integers, what no node reads."""
    def external(name, kind, shape, values):
        (source / name).write_bytes(values)
        place = data(1, "location") + data(2, name)
        return b"".join(number(1, d) for d in shape) + number(2, kind) + data(8, name) + data(13, place) + number(14, 1)

    source, target = suite.dir / "tables", suite.dir / "tables-out"
    source.mkdir(), target.mkdir()
    floats = lambda count: struct.pack(f"<{count}f", *(0.25 * k for k in range(count)))
    (source / "model.onnx").write_bytes(model(
        [node("Gather", ["w", "order"], ["rows"]), node("MatMul", ["x", "rows"], ["y"]), node("ReduceMean", ["y"], ["loss"], keepdims=0)],
        [f("x", 2, 4)], [f("loss")],
        [external("w", FLOAT, (4, 3), floats(12)), external("order", INT64, (4,), struct.pack("<4q", 3, 1, 0, 2)), external("unread", FLOAT, (2,), floats(2))]))
    rows = write_safetensors(suite.dir / "tables.safetensors", {"x": ("F32", [8, 4], [0.1 * k for k in range(32)])})
    plan, out = suite.compile(source / "model.onnx", suite.dir / "tables.plan", "--lr", "1e-2"), suite.dir / "tables-run"
    trained = suite.train(plan, out, "--data", rows, "--steps", 5)
    for where, names in ((target, ["new.onnx", "order", "unread", "w"]),
                         (source, ["model.onnx", "new.onnx", "new.onnx.data.1", "new.onnx.data.2", "new.onnx.data.3", "order", "unread", "w"])):
        suite.tool("zero-run", "export", out, "--onnx", where / "new.onnx")
        same("files", sorted(path.name for path in where.iterdir()), names)
        again = suite.train(suite.compile(where / "new.onnx", suite.dir / "tables-again.plan", "--lr", "0"), suite.dir / f"{where.name}-again",
                            "--data", rows, "--steps", 1)
        short = suite.train(plan, suite.dir / f"{where.name}-six", "--data", rows, "--steps", 1, "--weights", out / "final")
        same("loss", [again[0]["loss"]], [short[0]["loss"]])
    return f"loss {trained[0]['loss']} -> {again[0]['loss']}"


def no_final():
    """What only measures leaves no checkpoint at its end; one that it saves on the way is there, and is the newest."""
    plan = suite.compile(suite.models / "mlp/ts17.onnx", suite.dir / "no-final.plan")
    out = suite.dir / "no-final"
    told = json.loads(suite.tool("zero-run", plan, "--out", out, "--quiet", "--data", suite.models / "mlp/inputs.safetensors", "--steps", 3,
                                 "--save-every", 2, "--no-final").splitlines()[-1])
    left = sorted(path.name for path in out.iterdir() if path.is_dir())
    if "final" in told or left != ["step-2"]:
        raise Case(f"{told}, folders {left}")
    suite.tool("zero-run", "export", out, "--safetensors", suite.dir / "no-final.safetensors")


suite.run([("no final", no_final), ("statistics", statistics), ("tables", tables), ("names/llama", lambda: names("llama", "dynamo20opt", "ts17"))] +
          [(f"{model}/{export}", lambda m=model, e=export, s=stage: roundtrip(m, e, s % 4))
           for stage, (model, export) in enumerate([("mlp", "dynamo20opt"), ("gpt2", "ts17"), ("llama", "dynamo18_external"),
                                                    ("resnet", "ts17"), ("llama", "dynamo23opt_sdpa")])])
suite.finish()
