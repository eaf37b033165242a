#!/usr/bin/env python3
"""Forward-only plans and `zero-run eval`: the loss of the fixtures at their first weights is PyTorch's; stages, ranks, tiers and
devices change nothing, not even the files of outputs; outputs are those of the formulas; each loss has its perplexity; a checkpoint
evaluates to what the step that follows it sees; the report has one gather and no gradients; what must be refused."""
import json, math, pathlib, random, sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "compiler" / "import" / "Inputs"))
from e2e import MODELS, Case, Suite, close, read_safetensors, same, write_safetensors
from model import f, i, model, node
from onnx_write import FLOAT, INT64, tensor, value_info

suite = Suite(__doc__)
rng = random.Random(11)
ROWS, BATCH, IN, HIDDEN, OUT = 22, 4, 5, 6, 3
X = [[rng.uniform(-1, 1) for _ in range(IN)] for _ in range(ROWS)]
LABELS = [rng.choice([0, 1, 2, -100]) for _ in range(ROWS)]
W1 = [[rng.uniform(-1, 1) for _ in range(HIDDEN)] for _ in range(IN)]
W2 = [[rng.uniform(-1, 1) for _ in range(OUT)] for _ in range(HIDDEN)]


def flat(rows):
    return [v for row in rows for v in row]


DATA = write_safetensors(suite.dir / "data.safetensors", {"x": ("F32", [ROWS, IN], flat(X)), "labels": ("I64", [ROWS], LABELS)})


def write_mlp(name, loss=True):
    """relu(x W1) W2: logits, its best class, whether it is positive, its sum over the batch, and the loss."""
    nodes = [node("MatMul", ["x", "w1"], ["a"], "/one"), node("Relu", ["a"], ["h"], "/relu"),
             node("MatMul", ["h", "w2"], ["logits"], "/two"), node("ArgMax", ["logits"], ["best"], "/best", axis=1, keepdims=0),
             node("Greater", ["logits", "zero"], ["positive"], "/positive"),
             node("ReduceSum", ["logits", "axis"], ["sums"], "/sums", keepdims=0)]
    outputs = [f("logits", "n", OUT), value_info("best", INT64, ["n"]), value_info("positive", 9, ["n", OUT]), f("sums", OUT)]
    inputs = [f("x", "n", IN)]
    if loss:
        nodes.append(node("SoftmaxCrossEntropyLoss", ["logits", "labels"], ["loss"], "/loss", ignore_index=-100))
        outputs.append(f("loss"))
        inputs.append(i("labels", "n"))
    path = suite.dir / f"{name}.onnx"
    path.write_bytes(model(nodes, inputs, outputs, [
        tensor([IN, HIDDEN], FLOAT, flat(W1), "w1"), tensor([HIDDEN, OUT], FLOAT, flat(W2), "w2"),
        tensor([], FLOAT, [0.0], "zero"), tensor([1], INT64, [0], "axis")]))
    return path


MLP, BARE = write_mlp("mlp"), write_mlp("bare", loss=False)


def evaluate(plan, *flags, code=0):
    """The report; all losses here are cross-entropies."""
    out = suite.tool("zero-run", "eval", plan, "--quiet", *flags, code=code)
    if code:
        return None
    report = json.loads(out.splitlines()[-1])
    if report["loss"] is None:
        same("perplexity without a loss", report.get("perplexity"), None)
    else:
        close("perplexity", [report.get("perplexity")], [math.exp(report["loss"])], 1e-12)
    return report


def plan_of(model, name, world, stage, *flags):
    return suite.compile(model, suite.dir / f"{name}-{world}-{stage}{''.join(map(str, flags)).replace('/', '')}.plan", "--forward-only",
                         "--world-size", world, "--zero-stage", stage, *flags)


#===-- the fixtures ------------------------------------------------------------

VARIANTS = [(1, 0), (1, 3), (2, 0), (2, 1), (2, 2), (2, 3), (4, 3), (2, 3, "--offload-param", "host"), (2, 3, "--offload-param", "nvme"),
            (1, 0, "--offload-param", "host"), (2, 3, "--quantize-weights", "none", "--prefetch", "none", "--bucket-size", "4KiB")]


def fixture(name):
    folder = suite.models / name
    golden = json.loads((folder / "golden.json").read_text())["loss_adamw_f64"][0]
    export = suite.exports(name)[0]
    losses = []
    for world, stage, *flags in VARIANTS:
        plan = plan_of(folder / f"{export}.onnx", f"{name}-{export}", world, stage, *flags)
        # The golden's first step is the first two batches.
        report = evaluate(plan, "--data", folder / "inputs.safetensors", "--steps", max(1, 2 // world), "--nvme-dir", suite.dir)
        if world < 4:
            losses.append(report["loss"])
        all_ = evaluate(plan, "--data", folder / "inputs.safetensors", "--nvme-dir", suite.dir, "--device", "sync")
        losses.append(all_["loss"])
        if all_["samples"] != 32 or all_["batches"] != 16 or all_["left_out"] != 0:
            raise Case(f"{all_}")
    same(f"{name}: losses over stages, ranks and tiers", len(set(losses)), 2)  # of the first step, of all
    return f"{close(name, [losses[0]], [golden], 1e-6):.1e} from PyTorch"


def other_export(name, export):
    """Every export of a model has its loss."""
    folder = suite.models / name
    golden = json.loads((folder / "golden.json").read_text())["loss_adamw_f64"][0]
    dims = ["--dim", "batch=2", "--dim", "seq=16"] if "dynbatch" in export else []
    report = evaluate(plan_of(folder / f"{export}.onnx", f"{name}-{export}", 2, 3, *dims), "--data", folder / "inputs.safetensors", "--steps", 1)
    return f"{close(name, [report['loss']], [golden], 1e-6):.1e}"


#===-- outputs -------------------------------------------------------------------


def oracle():
    hidden = [[max(0.0, sum(x * w for x, w in zip(row, column))) for column in zip(*W1)] for row in X]
    return [[sum(h * w for h, w in zip(row, column)) for column in zip(*W2)] for row in hidden]


def near(name, got, expected, tolerance=2e-6):
    if len(got) != len(expected) or any(abs(a - b) > tolerance * max(1, abs(b)) for a, b in zip(got, expected)):
        raise Case(f"{name}: {got[:6]} instead of {expected[:6]}")


def row_losses(logits):
    return [None if t < 0 else math.log(sum(math.exp(v) for v in row)) - row[t] for row, t in zip(logits, LABELS)]


def mean(values):
    counted = [v for v in values if v is not None]
    return sum(counted) / len(counted)


def outputs():
    files, logits = set(), oracle()
    for world, stage, *flags in VARIANTS:
        plan = plan_of(MLP, "outputs", world, stage, "--dim", f"n={BATCH}", *flags)
        file = suite.dir / f"{plan.stem}.safetensors"
        report = evaluate(plan, "--data", DATA, "--outputs", file, "--nvme-dir", suite.dir, "-n", world)
        if (report["samples"], report["left_out"], report["batches"]) != (ROWS, 0, 6) or report["outputs"] != str(file):
            raise Case(f"{report}")
        files.add(file.read_bytes())
    same("the files of outputs", len(files), 1)
    got = read_safetensors(file)
    shapes = {"logits": [ROWS, OUT], "best": [ROWS], "positive": [ROWS, OUT], "sums": [5, OUT], "loss": [5]}
    same("shapes", {name: shape for name, (_, shape, _) in got.items()}, shapes)
    near("logits", got["logits"][2], flat(logits))
    same("best", got["best"][2], [row.index(max(row)) for row in logits])
    same("positive", got["positive"][2], [v > 0 for v in flat(logits)])
    batches = [logits[at:at + BATCH] for at in range(0, 20, BATCH)]
    near("sums", got["sums"][2], [sum(column) for batch in batches for column in zip(*batch)])
    each = row_losses(logits)
    losses = [mean(each[at:at + BATCH]) for at in range(0, 20, BATCH)]
    near("losses", got["loss"][2], losses)
    last = mean(each[20:])  # of a batch that is filled up: two samples of the four that it has
    near("loss", [report["loss"]], [(sum(losses) * BATCH + last * 2) / ROWS])
    weighted = evaluate(plan_of(MLP, "weighted", 2, 3, "--dim", f"n={BATCH}", "--loss-mean", "global"), "--data", DATA)
    near("weighted loss", [weighted["loss"]], [mean(each)])


def each_sample_once():
    """However many samples a batch has, and however many ranks there are, the loss is the mean over all samples; with labels that are ignored
    that of all labels (--loss-mean global). A batch that no sample fills is one too."""
    labels = [abs(label) % OUT for label in LABELS]
    data = write_safetensors(suite.dir / "once.safetensors", {"x": ("F32", [ROWS, IN], flat(X)), "labels": ("I64", [ROWS], labels)})
    want = mean([math.log(sum(math.exp(v) for v in row)) - row[t] for row, t in zip(oracle(), labels)])
    for rows in (1, 3, 5, 8, 32):
        found = set()
        for world, stage, *flags in VARIANTS[:9]:
            report = evaluate(plan_of(MLP, f"once{rows}", world, stage, "--dim", f"n={rows}", *flags), "--data", data, "--nvme-dir", suite.dir)
            if (report["samples"], report["left_out"], report["batches"]) != (ROWS, 0, -(-ROWS // rows)):
                raise Case(f"{report}")
            found.add(report["loss"])
        same(f"losses of batches of {rows}", len(found), 1)
        near(f"loss of batches of {rows}", list(found), [want])
        ignoring = evaluate(plan_of(MLP, f"ignoring{rows}", 2, 3, "--dim", f"n={rows}", "--loss-mean", "global"), "--data", DATA)
        near(f"loss of labels in batches of {rows}", [ignoring["loss"]], [mean(row_losses(oracle()))])


def not_filled_up():
    """Where samples have a part in each other, or no label is ignored, an incomplete batch is said to be left out."""
    mixed = suite.dir / "mixed.onnx"
    mixed.write_bytes(model([node("ReduceMean", ["x"], ["centre"], axes=[0]), node("Sub", ["x", "centre"], ["apart"]), node("MatMul", ["apart", "w"], ["y"]),
                             node("SoftmaxCrossEntropyLoss", ["y", "labels"], ["loss"], ignore_index=-100)],
                            [f("x", "n", IN), i("labels", "n")], [f("loss")], [tensor([IN, OUT], FLOAT, flat(W1)[:IN * OUT], "w")]))
    counted = suite.dir / "counted.onnx"
    counted.write_bytes(model([node("MatMul", ["x", "w"], ["y"]), node("SoftmaxCrossEntropyLoss", ["y", "labels"], ["loss"])],
                              [f("x", "n", IN), i("labels", "n")], [f("loss")], [tensor([IN, OUT], FLOAT, flat(W1)[:IN * OUT], "w")]))
    data = write_safetensors(suite.dir / "counted.safetensors", {"x": ("F32", [ROWS, IN], flat(X)), "labels": ("I64", [ROWS], [0] * ROWS)})
    for path in (mixed, counted):
        report = evaluate(plan_of(path, path.stem, 1, 0, "--dim", f"n={BATCH}"), "--data", data)
        same(path.stem, (report["samples"], report["left_out"], report["batches"]), (20, 2, 5))
    few = write_safetensors(suite.dir / "three.safetensors", {"x": ("F32", [3, IN], flat(X[:3])), "labels": ("I64", [3], [0] * 3)})
    evaluate(plan_of(counted, "few", 1, 0, "--dim", f"n={BATCH}"), "--data", few, code=10)


def some_outputs():
    """No loss is asked for, so no labels are needed; a loss is appended; fewer samples than a batch."""
    data = write_safetensors(suite.dir / "x.safetensors", {"x": ("F32", [ROWS, IN], flat(X))})
    file = suite.dir / "some.safetensors"
    report = evaluate(plan_of(MLP, "some", 2, 3, "--dim", "n=32", "--outputs", "logits"), "--data", data, "--outputs", file)
    same("loss", (report["loss"], report["samples"], report["left_out"]), (None, ROWS, 0))
    same("outputs", list(read_safetensors(file)), ["logits"])
    near("logits", read_safetensors(file)["logits"][2], flat(oracle()))
    appended = plan_of(BARE, "appended", 1, 0, "--dim", "n=11", "--loss-op", "cross_entropy:logits:labels")
    report = evaluate(appended, "--data", DATA, "--out", suite.dir / "out", "--steps", 1)
    near("appended loss", [report["loss"]], [mean(row_losses(oracle())[:11])])
    same("eval.json", json.loads((suite.dir / "out" / "eval.json").read_text()), report)


#===-- checkpoints, the report, refusals -----------------------------------------


def checkpoint():
    """Trained for two steps, the third step's loss is that of the checkpoint on its data."""
    trained = suite.compile(MLP, suite.dir / "train.plan", "--dim", f"n={BATCH}", "--world-size", 2, "--zero-stage", 2, "--lr", "0.1")
    losses = [m["loss"] for m in suite.train(trained, suite.dir / "run", "--data", DATA, "--steps", 2, "--save-every", 1)]
    plan = plan_of(MLP, "checkpoint", 1, 3, "--dim", f"n={BATCH}")
    second = write_safetensors(suite.dir / "second.safetensors", {"x": ("F32", [8, IN], flat(X[8:16])), "labels": ("I64", [8], LABELS[8:16])})
    folder = suite.dir / "run" / "step-1"
    same("loss of the checkpoint", evaluate(plan, "--data", second, "--weights", folder)["loss"], losses[1])
    same("of its weights", evaluate(plan, "--data", second, "--weights", folder / "weights.safetensors")["loss"], losses[1])
    same("of the model", evaluate(plan, "--data", second)["loss"] == losses[1], False)
    frozen = suite.compile(MLP, suite.dir / "frozen.plan", "--dim", f"n={BATCH}", "--frozen", "w1")
    suite.train(frozen, suite.dir / "frozen-run", "--data", DATA, "--steps", 1)
    for of in ("frozen-run", "frozen-run/final/weights.safetensors"):
        evaluate(plan, "--data", second, "--weights", suite.dir / of)
    text = suite.tool("zero-run", "eval", plan, "--data", DATA, "--weights", run_of_another(), code=10)
    if '"w1" is missing' not in text or '"w2" is missing' not in text:
        raise Case(text)
    weights = folder / "weights.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"!")
    evaluate(plan, "--data", second, "--weights", folder, code=9)
    evaluate(trained, "--data", DATA, code=10)
    suite.tool("zero-run", plan, "--data", DATA, "--steps", 1, "--out", suite.dir / "none", code=10)
    same("folder of a refused run", (suite.dir / "none").exists(), False)


def run_of_another():
    """A run of a model that has no weight in common with MLP."""
    path = suite.dir / "another.onnx"
    path.write_bytes(model([node("MatMul", ["x", "w"], ["y"]), node("SoftmaxCrossEntropyLoss", ["y", "labels"], ["loss"], ignore_index=-100)],
                           [f("x", "n", IN), i("labels", "n")], [f("loss")], [tensor([IN, OUT], FLOAT, flat(W1)[:IN * OUT], "w")]))
    suite.train(suite.compile(path, suite.dir / "another.plan", "--dim", f"n={BATCH}"), suite.dir / "another-run", "--data", DATA, "--steps", 1)
    return suite.dir / "another-run"


def report():
    folder = suite.models / "gpt2"
    done = json.loads(suite.tool("zero-compile", folder / "ts17.onnx", "--forward-only", "--world-size", 4, "--zero-stage", 3,
                                 "--dry-run", "--json"))
    train = json.loads(suite.tool("zero-compile", folder / "ts17.onnx", "--world-size", 4, "--zero-stage", 3, "--dry-run", "--json"))
    state = done["tiers"]["device"]["model_state_bytes"]
    same("gradients and optimizer", (state["gradients"], state["optimizer"], done["forward_only"]), (0, 0, True))
    same("parameters", (state["parameters"], done["parameters"]), (train["tiers"]["device"]["model_state_bytes"]["parameters"], train["parameters"]))
    same("traffic", (done["traffic"]["gather"], done["traffic"]["reduce_scatter"], done["traffic"]["all_reduce"]),
         (train["traffic"]["gather"] // 2, 0, 0))
    ran = evaluate(plan_of(folder / "ts17.onnx", "report", 4, 3), "--data", folder / "inputs.safetensors", "--steps", 2)
    same("bytes gathered", ran["traffic"]["gather"], 2 * done["traffic"]["gather"])
    same("peak", ran["peak_bytes"]["device"]["planned"], done["tiers"]["device"]["peak_bytes"])
    if done["tiers"]["device"]["peak_bytes"] >= train["tiers"]["device"]["peak_bytes"] // 2:
        raise Case("evaluation takes as much as training")


def refused():
    for flags in (["--optimizer", "sgd"], ["--lr", "1"], ["--clip-grad-norm", "1"], ["--grad-accumulation", "2"], ["--hierarchical"],
                  ["--checkpoint-activations", "block"], ["--offload-optimizer", "host"], ["--offload-activation", "host"],
                  ["--trainable", "w*"], ["--outputs", "nothing"], ["--loss", "nothing"], ["--loss", "logits"]):
        suite.tool("zero-compile", MLP, "--dim", "n=4", "--forward-only", "--dry-run", *flags, code=2)
    suite.tool("zero-compile", MLP, "--dim", "n=4", "--outputs", "logits", "--dry-run", code=2)
    plan = plan_of(MLP, "refused", 2, 3, "--dim", f"n={BATCH}")
    file = suite.dir / "refused.safetensors"
    other = write_safetensors(suite.dir / "other.safetensors", {"w1": ("F32", [1], [0.0])})
    ignored = write_safetensors(suite.dir / "ignored.safetensors", {"x": ("F32", [4, IN], flat(X[:4])), "labels": ("I64", [4], [-100] * 4)})
    wrong = write_safetensors(suite.dir / "wrong.safetensors", {"x": ("F32", [4, IN], flat(X[:4])), "labels": ("I64", [4], [7] * 4)})
    for code, flags in ((2, []), (2, ["--data", DATA, "--shuffle"]), (2, ["--data", DATA, "--lr", "1"]), (3, ["--data", suite.dir / "missing"]),
                        (10, ["--data", DATA, "-n", "3"]), (10, ["--data", DATA, "--weights", other]),
                        (3, ["--data", DATA, "--weights", suite.dir]), (3, ["--data", DATA, "--weights", suite.dir / "missing"]),
                        (8, ["--data", ignored]), (3, ["--data", wrong]), (3, ["--data", other]),
                        (6, ["--data", DATA, "--outputs", "/proc/none/outputs"])):
        given = [] if "--outputs" in flags else ["--outputs", file]
        suite.tool("zero-run", "eval", plan, "--quiet", *flags, *given, code=code)
        left = list(suite.dir.glob("refused.safetensors*"))
        if left:
            raise Case(f"{flags} left {left}")
    suite.tool("zero-run", "eval", code=2)


suite.run([(f"{name}", lambda n=name: fixture(n)) for name in MODELS])
suite.run([(f"{name} {export}", lambda n=name, e=export: other_export(n, e)) for name in MODELS for export in suite.exports(name)[1:]])
suite.run([("outputs", outputs), ("each sample once", each_sample_once), ("not filled up", not_filled_up), ("some outputs", some_outputs), ("checkpoint", checkpoint), ("report", report), ("refused", refused)])
suite.finish()
