#!/usr/bin/env python3
"""Models that bring their training along: ONNX Runtime's artifacts against its own losses, and training_info (Gradient with
x - r g, Adam, Momentum) against the formulas."""
import json, pathlib, shutil, struct, subprocess, sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "compiler" / "import" / "Inputs"))
from e2e import Case, Suite, close, same
from model import FLOAT, INT64, data, f, linear, node, number, tensor  # noqa: E402
from onnx_write import write_safetensors  # noqa: E402

suite = Suite(__doc__)


def artifacts(model):
    folder = suite.models / model
    expected = json.loads((folder / "golden.json").read_text())["loss_ort"]
    runs = []
    for world, stage in ((1, 0), (2, 0), (2, 3)):
        name = f"ort-{model}-{world}-{stage}"
        plan = suite.compile(folder / "ort" / "training_model.onnx", suite.dir / f"{name}.plan", "--lr", "1e-3", "--world-size", world,
                             "--grad-accumulation", 2 // world, "--zero-stage", stage)
        metrics = suite.train(plan, suite.dir / name, "-n", world, "--data", folder / "inputs.safetensors", "--steps", 8)
        runs.append([m["loss"] for m in metrics])
    same("stage 3", runs[2], runs[1])
    return f"{max(close('loss', run, expected, 1e-5) for run in runs):.1e}"


def broken():
    """No checkpoint, half a checkpoint, another model's checkpoint."""
    folder = suite.dir / "broken"
    folder.mkdir()
    source = suite.models / "mlp" / "ort"
    shutil.copy(source / "training_model.onnx", folder)
    compile = lambda code, *flags: suite.tool("zero-compile", folder / "training_model.onnx", "--dry-run", *flags, code=code)  # noqa: E731
    compile(3)
    content = (source / "checkpoint").read_bytes()
    for size in (0, 4, 8, 12, 100, len(content) // 2):
        (folder / "checkpoint").write_bytes(content[:size])
        compile(3)
    for at in range(8, 80):  # offsets and sizes of tables
        (folder / "checkpoint").write_bytes(content[:at] + bytes([content[at] ^ 0xFF]) + content[at + 1:])
        done = suite_run(folder)
        if done not in (0, 3, 4):
            raise Case(f"byte {at} changed: exit code {done}")
    shutil.copy(suite.models / "gpt2" / "ort" / "checkpoint", folder / "other")
    compile(3, "--ort-checkpoint", "other")
    compile(3, "--ort-checkpoint", "../broken/checkpoint")
    (folder / "checkpoint").write_bytes(content)
    compile(0)


def suite_run(folder):
    import subprocess
    return subprocess.run([str(suite.bin / "zero-compile"), str(folder / "training_model.onnx"), "--dry-run"], capture_output=True, timeout=600).returncode


X = [[0.5, -1.0, 2.0, 0.25], [1.5, 0.75, -0.5, 1.0]]
GRADIENT = [sum(row[k] for row in X) / 6 for k in range(4)]  # of the mean of x w, [2, 4] x [4, 3], for every column
W0 = 0.5
RATE = 0.01


def with_training(algorithm, bindings, initializers=()):
    graph = b"".join(data(1, n) for n in algorithm) + data(2, "a") + b"".join(data(5, t) for t in initializers)
    info = data(2, graph) + b"".join(data(4, data(1, k) + data(2, v)) for k, v in bindings.items())
    return linear(extra=data(8, data(1, "ai.onnx.preview.training") + number(2, 1)) + data(20, info), outputs=[f("y", 2, 3)])


def gradient():
    body = data(1, "w") + data(2, "g") + data(3, "/g") + data(4, "Gradient")
    body += data(5, data(1, "xs") + data(9, "w") + number(20, 8)) + data(5, data(1, "y") + data(4, "loss") + number(20, 3))
    return body + data(7, "ai.onnx.preview.training")


def scalar(name, value, dtype=FLOAT):
    return tensor([], dtype, [value], name)


TRAINING = "ai.onnx.preview.training"
ZEROS = [tensor([4, 3], FLOAT, [0.0] * 12, n) for n in ("v", "h")]


def sgd(w, g, t, state):
    return w - RATE * g


def momentum(w, g, t, state):
    state["v"] = 0.9 * state.get("v", 0) + g
    return w - RATE * state["v"]


def adam(w, g, t, state):
    state["v"] = 0.9 * state.get("v", 0) + 0.1 * g
    state["h"] = 0.999 * state.get("h", 0) + 0.001 * g * g
    rate = RATE * (1 - 0.999 ** t) ** 0.5 / (1 - 0.9 ** t)
    return w - rate * state["v"] / (state["h"] ** 0.5 + 1e-3)


def adams(start, *attributes, count="t", grows=True, one=1):
    """Of each of `attributes` an Adam of its own; T is `count`, of which t is stored as `start` and t1 is one more."""
    names = ["", "2"][:len(attributes)]
    nodes = [gradient(), node("Add", ["t", "one"], ["t1"])]
    for n, given in zip(names, attributes):
        nodes.append(node("Adam", ["r", count, "w", "g", "v", "h"], ["n" + n, "nv" + n, "nh" + n], domain=TRAINING,
                          **{"alpha": 0.9, "beta": 0.999, "epsilon": 1e-3, **given}))
    bindings = {"w": "n", "v": "nv" + names[-1], "h": "nh" + names[-1]}
    return with_training(nodes, {**bindings, **({"t": "t1"} if grows else {})},
                         [scalar("r", RATE), scalar("t", start, INT64), scalar("one", one, INT64), *ZEROS])


MODELS = {
    "sgd": (sgd, lambda: with_training([gradient(), node("Mul", ["r", "g"], ["s"]), node("Sub", ["w", "s"], ["n"])], {"w": "n"}, [scalar("r", RATE)])),
    "momentum": (momentum, lambda: with_training(
        [gradient(), node("Momentum", ["r", "t", "w", "g", "v"], ["n", "nv"], domain=TRAINING, alpha=0.9, beta=1.0, norm_coefficient=0.0, mode="standard")],
        {"w": "n", "v": "nv"}, [scalar("r", RATE), scalar("t", 1, INT64), ZEROS[0]])),
    "adam": (adam, lambda: with_training(
        [gradient(), node("Adam", ["r", "t", "w", "g", "v", "h"], ["n", "nv", "nh"], domain=TRAINING, alpha=0.9, beta=0.999, epsilon=1e-3),
         node("Add", ["t", "one"], ["t1"])],
        {"w": "n", "v": "nv", "h": "nh", "t": "t1"}, [scalar("r", RATE), scalar("t", 1, INT64), scalar("one", 1, INT64), *ZEROS])),
    "adam after the count": (adam, lambda: adams(0, {}, count="t1")),
}


def own(name):
    rule, model = MODELS[name]
    path, inputs = suite.dir / f"{name}.onnx", suite.dir / f"{name}.safetensors"
    path.write_bytes(model())
    write_safetensors(inputs, {"x": ("F32", [2, 4], b"".join(struct.pack("<4f", *row) for row in X))})
    weights, states, expected = [W0] * 4, [{} for _ in range(4)], []
    for t in range(1, 7):
        expected.append(sum(g * w * 3 for g, w in zip(GRADIENT, weights)))
        weights = [rule(w, g, t, state) for w, g, state in zip(weights, GRADIENT, states)]
    plan = suite.compile(path, suite.dir / f"{name}.plan")
    metrics = suite.train(plan, suite.dir / name, "--data", inputs, "--steps", 6)
    return f"{close('loss', [m['loss'] for m in metrics], expected, 1e-5):.1e}"


def numbers_of_an_own_rule():
    """What flags say of a rule that the model has with its numbers changes nothing, and is told of."""
    path = suite.dir / "numbers.onnx"
    path.write_bytes(MODELS["sgd"][1]())
    for flags, told in ((("--weight-decay", 0.1), "--weight-decay changes nothing: the model brings its own update rule, sgd"),
                        (("--momentum", 0.5), "--momentum changes nothing: the model brings its own update rule"),
                        (("--optimizer", "sgd", "--weight-decay", 0.1), None), (("--lr", 0.1, "--clip-grad-norm", 1), None)):
        done = subprocess.run([str(suite.bin / "zero-compile"), str(path), "--dry-run", *map(str, flags)], capture_output=True, text=True)
        if done.returncode != 0 or ((told or "changes nothing") in done.stderr) != bool(told):
            raise Case(f"{flags}: exit code {done.returncode}: {done.stderr}")


def two_adams():
    """One per parameter, with numbers of their own."""
    both = gradient().replace(data(9, "w"), data(9, "w") + data(9, "u")).replace(data(2, "g"), data(2, "g") + data(2, "gu"))
    nodes = [both, node("Add", ["t", "one"], ["t1"])]
    for k, alpha in (("w", 0.9), ("u", 0.5)):
        nodes.append(node("Adam", ["r", "t", k, "g" if k == "w" else "gu", "v" + k, "h" + k], ["n" + k, "nv" + k, "nh" + k], domain=TRAINING, alpha=alpha))
    graph = b"".join(data(1, n) for n in nodes) + data(2, "a") + b"".join(data(5, t) for t in (
        scalar("r", RATE), scalar("t", 1, INT64), scalar("one", 1, INT64), *(tensor([4, 3], FLOAT, [0.0] * 12, n) for n in ("vw", "vu", "hw", "hu"))))
    info = data(2, graph) + b"".join(data(4, data(1, k) + data(2, v)) for k, v in (("w", "nw"), ("u", "nu"), ("t", "t1")))
    return linear(nodes=[node("Mul", ["w", "u"], ["wu"]), node("MatMul", ["x", "wu"], ["y"], "/mm"), node("ReduceMean", ["y"], ["loss"], "/mean", keepdims=0)],
                  initializers=[tensor([4, 3], FLOAT, [W0] * 12, n) for n in ("w", "u")], outputs=[f("y", 2, 3)],
                  extra=data(8, data(1, "ai.onnx.preview.training") + number(2, 1)) + data(20, info))


def refused():
    path = suite.dir / "refused.onnx"
    bad = {3: [with_training([gradient()], {"nothing": "g"}), with_training([gradient()], {"w": "nothing"})],
           4: [with_training([gradient(), node("Add", ["w", "g"], ["n"])], {"w": "n"}),
               with_training([gradient()], {}),
               with_training([gradient(), node("Adagrad", ["r", "t", "w", "g", "v"], ["n", "nv"], domain=TRAINING)], {"w": "n"}, [scalar("r", RATE)]),
               # T of the first step is 0, where ONNX corrects nothing; 2; stays; grows by 2
               adams(0, {}), adams(1, {}, count="t1"), adams(1, {}, grows=False), adams(1, {}, one=2), two_adams(),
               # the gradient at v
               with_training([gradient().replace(data(1, "w"), data(1, "v")), node("Mul", ["r", "g"], ["s"]), node("Sub", ["w", "s"], ["n"])], {"w": "n"},
                             [scalar("r", RATE), ZEROS[0]])]}
    for code, models in bad.items():
        for content in models:
            path.write_bytes(content)
            suite.tool("zero-compile", path, "--dry-run", code=code)


cases = [(f"artifacts of {model}", lambda m=model: artifacts(m)) for model in ("mlp", "gpt2")]
cases += [("broken artifacts", broken)] + [(f"training_info: {name}", lambda n=name: own(n)) for name in MODELS]
cases += [("flags about an own rule", numbers_of_an_own_rule), ("refused", refused)]
suite.run(cases)
suite.finish()
