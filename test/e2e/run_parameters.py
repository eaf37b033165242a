#!/usr/bin/env python3
"""The parameters that --list-parameters finds without a flag are those of exports.json, for every export; ties that an
exporter lost or invented are told, and --tie, --untie and --trainable undo them; a changed weight file is noticed."""
import json, pathlib, re, shutil, subprocess, sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "compiler" / "import" / "Inputs"))
from e2e import ROOT, Case, Suite, close, write_safetensors  # noqa: E402
from model import linear, node, weight  # noqa: E402
from onnx_write import FLOAT, tensor  # noqa: E402

suite = Suite(__doc__)
# Not to be imported, or (folded batch norms under the names of the weights) not to be trained as exports.json says.
EXCEPT = {("gpt2", "dynamo23_sdpa_dropout"), ("resnet", "dynamo20opt")}


def listing(model, *flags):
    """{name: (role, tied, evidence)}, stderr"""
    command = [str(suite.bin / "zero-compile"), str(model), "--list-parameters", *flags]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    if done.returncode:
        raise Case(f"{' '.join(command)}: exit code {done.returncode}: {done.stderr[-800:]}")
    rows = [line.split(maxsplit=5) for line in done.stdout.splitlines()[1:-1]]
    return {row[0]: (row[3], row[4], row[5]) for row in rows}, done.stderr


def found(model, export, trainable):
    dims = ["--dim", "batch=2", "--dim", "seq=16"] if export.endswith("_dynbatch") else []
    rows, _ = listing(suite.models / model / f"{export}.onnx", *dims)
    got, wanted = {name for name, row in rows.items() if row[0] == "trainable"}, set(trainable)
    if got != wanted:
        raise Case(f"not expected: {sorted(got - wanted)}; missing: {sorted(wanted - got)}")
    if any(not row[2] or row[2] == "-" for row in rows.values()):
        raise Case("a parameter has no evidence")
    return f"{len(got)}"


def expect(text, *parts):
    for part in parts:
        if part not in text:
            raise Case(f"'{part}' is not in: {text}")


def lost_ties():
    for model, first, second in (("gpt2", "model.lm_head.weight", "val_188"), ("bert", "model.cls.predictions.decoder.weight", "val_142")):
        path = suite.models / model / "dynamo20opt.onnx"
        _, errors = listing(path)
        expect(errors, f"'{second}' is a copy of '{first}', transposed", f"--tie '{first}={second}'", "folded parameter")
        rows, errors = listing(path, "--tie", f"{first}={second}")
        if second in rows or rows[first][1] != second or "is a copy" in errors:
            raise Case(f"not tied: {rows[first]}, {errors}")
    _, errors = listing(suite.models / "gpt2" / "dynamo18.onnx")
    if errors:
        raise Case(f"a warning without reason: {errors}")


def overlapping():
    """Said once of a file, however many lie over each other."""
    path = suite.dir / "shared.onnx"
    subprocess.run([sys.executable, ROOT / "test/support/make_gpt.py", path, "--layers", "2", "--hidden", "64", "--heads", "2", "--vocab", "256", "--seq", "8",
                    "--seed", "0", "--shared"], check=True, capture_output=True)
    _, errors = listing(path)
    told = re.findall(r"the bytes of '\S+' overlap those of '\S+' in 'shared.onnx.data', as (\d+) more do", errors)
    if len(told) != 1 or errors.count("overlap") != 1 or int(told[0]) < 2:
        raise Case(errors)


def invented_ties():
    path = suite.models / "gpt2" / "dynamo20opt_freshinit.onnx"
    name = "model.transformer.h.0.ln_1.weight"
    _, errors = listing(path)
    expect(errors, f"'{name}' stands in 5 layers and all its elements are 1", f"--untie '{name}'")
    rows, errors = listing(path, "--untie", name)
    if [row for row in rows if row.startswith(name)] != [f"{name}#{k}" for k in range(1, 6)] or f"'{name}' stands" in errors:
        raise Case(f"not taken apart: {list(rows)}, {errors}")


def lost_parameters():
    """What an optimizing exporter took away is told in one warning, by number and name; what is trained elsewhere is not lost."""
    gone = {("gpt2", "dynamo20opt"): (1, ["model.transformer.wpe.weight"]), ("vit", "dynamo20opt"): (1, ["model.vit.embeddings.cls_token"]),
            ("bert", "dynamo20opt"): (2, ["model.bert.embeddings.position_embeddings.weight"]),
            ("gpt2", "dynamo20opt_freshinit"): (17, ["model.transformer.wpe.weight", "model.transformer.h.0.attn.c_attn.bias", "and 9 more"]),
            ("resnet", "dynamo20opt"): (16, ["model.resnet.embedder.embedder.normalization.weight"]), ("llama", "dynamo20opt"): None,
            ("gpt2", "dynamo18"): None, ("mlp", "dynamo20opt"): None}
    for (model, export), lost in gone.items():
        _, errors = listing(suite.models / model / f"{export}.onnx")
        if not lost and "of the exported model" in errors:
            raise Case(f"{model} {export}: {errors}")
        if lost:
            count, names = lost
            expect(errors, f"warning: {count} parameter{'s' * (count > 1)} of the exported model", *names, "optimize=False", "zero export")
    _, errors = listing(suite.models / "gpt2" / "dynamo20opt.onnx", "--trainable", "+embedding_1")
    if "of the exported model" in errors:
        raise Case(f"trained in a constant: {errors}")


def repaired():
    """gpt2/dynamo20opt, with what its exporter broke put right: the tied head and the folded position embeddings."""
    golden = json.loads((suite.models / "gpt2" / "golden.json").read_text())
    worst = 0
    for world, stage in ((1, 0), (2, 3)):
        name = f"repaired-{world}"
        plan = suite.compile(suite.models / "gpt2" / "dynamo20opt.onnx", suite.dir / f"{name}.plan", "--tie",
                             "model.lm_head.weight=val_188", "--trainable", "+embedding_1", "--optimizer", "sgd", "--lr", "0.1",
                             "--world-size", world, "--grad-accumulation", 2 // world, "--zero-stage", stage)
        metrics = suite.train(plan, suite.dir / name, "-n", world, "--data", suite.models / "gpt2" / "inputs.safetensors", "--steps", 8)
        worst = max(worst, close("loss", [m["loss"] for m in metrics], golden["loss_sgd"], 1e-5),
                    close("grad_norm", [m["grad_norm"] for m in metrics], golden["grad_norm_sgd"], 1e-5))
    return f"{worst:.1e}"


def changed_weights():
    """docs/safety.md 8, case 43."""
    folder = suite.dir / "changed"
    folder.mkdir()
    for name in ("dynamo18_external.onnx", "dynamo18_external.onnx.data"):
        shutil.copy(suite.models / "llama" / name, folder)
    plan = suite.compile(folder / "dynamo18_external.onnx", folder / "m.plan")
    run = [plan, "--data", suite.models / "llama" / "inputs.safetensors", "--steps", 1, "--quiet"]
    suite.tool("zero-run", *run, "--out", folder / "out")
    weights = folder / "dynamo18_external.onnx.data"
    content = bytearray(weights.read_bytes())
    content[len(content) // 2] ^= 1
    weights.write_bytes(content)
    suite.tool("zero-run", *run, "--out", folder / "out2", code=10)
    weights.write_bytes(content[:-4])
    suite.tool("zero-run", *run, "--out", folder / "out3", code=10)


def refused():
    gpt2 = suite.models / "gpt2" / "dynamo20opt.onnx"
    for tie in ("nonsense", "model.lm_head.weight=nothing", "model.lm_head.weight=model.transformer.ln_f.weight", "val_188=val_188"):
        suite.tool("zero-compile", gpt2, "--list-parameters", "--tie", tie, code=2)
    suite.tool("zero-compile", gpt2, "--list-parameters", "--untie", "nothing", code=2)


def refused_without_sizes():
    """What is wrong with a flag is said, not that sizes are missing, which this table does without."""
    open_ = next(suite.models / "gpt2" / f"{name}.onnx" for name in suite.exports("gpt2") if "dynbatch" in name)
    text = suite.tool("zero-compile", open_, "--list-parameters", "--trainable", "none.*", code=2)
    if "no parameter matches 'none.*'" not in text:
        raise Case(text)


def names_of_plans():
    """Parameters may have names that programs and plans have of their own for other things, and train; the plan's text is one."""
    path, data, plan = suite.dir / "names.onnx", suite.dir / "names.safetensors", suite.dir / "names.plan"
    write_safetensors(data, {"x": ("F32", [2, 4], [0.5] * 8)})
    for name in ("s0", "s1", "device", "host", "bucket0", "bucket0.parameters", "micro", "update", "eval", "mesh", "loss_sum", "grad_norm", "w"):
        path.write_bytes(linear(nodes=[node("MatMul", ["x", name], ["y"], "/mm"), node("ReduceMean", ["y"], ["loss"], "/mean", keepdims=0)],
                                initializers=[weight(name, 4, 3)]))
        suite.compile(path, plan, "--trainable", name, "--offload-optimizer", "host", "--with-eval")
        losses = [step["loss"] for step in suite.train(plan, suite.dir / "names", "--data", data, "--steps", 2, "--overwrite")]
        if abs(losses[0] - 1) > 1e-6 or not losses[1] < losses[0]:
            raise Case(f"'{name}': losses {losses}")
        text, again = suite.dir / "names.mlir", suite.dir / "names-again.plan"
        suite.tool("zero-translate", "--plan-to-mlir", plan, "-o", text)
        suite.tool("zero-translate", "--mlir-to-plan", text, "-o", again)
        if again.read_bytes() != plan.read_bytes():
            raise Case(f"'{name}': the plan's text is not the plan")


def without_elements():
    """A parameter of no elements, alone in its bucket, is stored and read on one rank and over ranks."""
    path, data, plan = suite.dir / "none.onnx", suite.dir / "none.safetensors", suite.dir / "none.plan"
    write_safetensors(data, {"x": ("F32", [2, 4], [0.5] * 8)})
    path.write_bytes(linear(nodes=[node("Concat", ["w", "none"], ["all"], "/all", axis=0), node("MatMul", ["x", "all"], ["y"], "/mm"),
                                   node("ReduceMean", ["y"], ["loss"], "/mean", keepdims=0)],
                            initializers=[weight("w", 4, 3), weight("none", 0, 3)]))
    for world, flags in ((1, ()), (2, ("--world-size", 2, "--zero-stage", 3))):
        suite.compile(path, plan, "--trainable", "w", *flags)
        losses = [step["loss"] for step in suite.train(plan, suite.dir / "none", "--data", data, "--steps", 2, "--overwrite", "-n", world)]
        if not losses[1] < losses[0]:
            raise Case(f"{world} ranks: losses {losses}")


def scalar():
    """A float scalar is a constant of the graph, unless its name says that it trains."""
    path = suite.dir / "scalar.onnx"
    path.write_bytes(linear(nodes=[node("MatMul", ["x", "w"], ["y"], "/mm"), node("Mul", ["y", "scale"], ["z"], "/scaled"),
                                   node("ReduceMean", ["z"], ["loss"], "/mean", keepdims=0)], initializers=[weight("w", 4, 3), tensor([], FLOAT, [0.5], "scale")]))
    for flags, wanted in (((), {"w"}), (("--trainable", "+scale"), {"w", "scale"}), (("--trainable", "scale"), {"scale"})):
        rows, _ = listing(path, *flags)
        if {name for name, row in rows.items() if row[0] == "trainable"} != wanted:
            raise Case(f"{flags}: {rows}")
    suite.tool("zero-compile", path, "--list-parameters", "--trainable", "+s*", code=2)


cases = [("a scalar by its name", scalar), ("parameters without elements", without_elements), ("names that plans have", names_of_plans), ("a flag, refused without sizes", refused_without_sizes), ("lost ties", lost_ties), ("overlapping bytes", overlapping), ("invented ties", invented_ties), ("lost parameters", lost_parameters), ("repaired gpt2", repaired), ("changed weights", changed_weights),
         ("refused ties", refused)]
for file in sorted(suite.models.glob("*/exports.json")):
    for export, facts in json.loads(file.read_text())["exports"].items():
        if (file.parent.name, export) not in EXCEPT:
            arguments = (file.parent.name, export, facts["trainable"])
            cases.append((f"{file.parent.name}/{export}", lambda a=arguments: found(*a)))
suite.run(cases)
suite.finish()
