#!/usr/bin/env python3
"""Validation while training: with `--with-eval` the training's losses, weights and planned peak are what they are without, and
val_loss is `zero-run eval` of the checkpoint saved at the same step, over stages, tiers, ranks, micro-steps, precisions, devices
and processes; dropout and batch norm evaluate; of which losses a perplexity is told; the best checkpoint, early stopping, going on after
a stop inside an evaluation; what must be refused."""
import json, math, pathlib, shutil, subprocess, sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "compiler" / "import" / "Inputs"))
from e2e import Case, Skip, Suite, close, same, write_safetensors, read_safetensors
from model import f, linear, node

suite = Suite(__doc__)
GPT2 = suite.models / "gpt2"
STEPS, EVERY = 4, 2


def cut(name, model, rows):
    """The last `rows` samples of a model's inputs."""
    tensors = read_safetensors(suite.models / model / "inputs.safetensors")
    out = {}
    for key, (dtype, shape, values) in tensors.items():
        each = math.prod(shape[1:])
        out[key] = (dtype, [rows, *shape[1:]], values[-rows * each:])
    return write_safetensors(suite.dir / f"{name}.safetensors", out)


HELD_OUT = cut("held-out", "gpt2", 11)  # five batches of two, and one sample that fills none


def evaluate(plan, weights, *flags):
    out = suite.tool("zero-run", "eval", plan, "--quiet", "--weights", weights, "--nvme-dir", suite.dir, *flags)
    return json.loads(out.splitlines()[-1])["loss"]


def arenas(plan):
    return [line for line in suite.tool("zero-run", "inspect", plan).splitlines() if line.startswith("arena")]


def losses(metrics):
    return [(m["loss"], m["grad_norm"]) for m in metrics]


def vals(metrics):
    return {m["step"]: m["val_loss"] for m in metrics if "val_loss" in m}


def weights_of(folder):
    return (folder / "weights.safetensors").read_bytes()


#===-- bits ---------------------------------------------------------------------


def compare(name, model, held_out, data, flags, eval_flags, run=()):
    """-> val_losses, by step."""
    work = suite.dir / name.replace(" ", "-").replace("/", "")
    work.mkdir()
    plain = suite.compile(model, work / "plain.plan", *flags)
    both = suite.compile(model, work / "both.plan", *flags, "--with-eval")
    forward = suite.compile(model, work / "forward.plan", "--forward-only", *eval_flags)
    common = ("--data", data, "--steps", STEPS, "--save-every", EVERY, "--nvme-dir", suite.dir, "--threads", 1, *run)
    without = suite.train(plain, work / "without", *common)
    metrics = suite.train(both, work / "with", *common, "--eval-data", held_out, "--eval-every", EVERY)
    same(f"{name}: losses with evaluation", losses(metrics), losses(without))
    if weights_of(work / "with/final") != weights_of(work / "without/final"):
        raise Case("other weights")
    same(f"{name}: the planned arenas", arenas(both), arenas(plain))
    same(f"{name}: evaluated steps", sorted(vals(metrics)), [2, 4])
    for step, loss in vals(metrics).items():
        alone = evaluate(forward, work / f"with/step-{step}", "--data", held_out, "--threads", 1)
        if alone != loss:
            raise Case(f"val_loss {loss} after step {step}, zero-run eval says {alone}")
        same(f"{name}: samples", (metrics[step - 1]["val_samples"], metrics[step - 1]["val_left_out"]), (11, 0))
        if abs(math.exp(loss) - metrics[step - 1].get("val_perplexity", 0)) > 1e-6 * math.exp(loss):
            raise Case(f"{metrics[step - 1]}")
    return tuple(vals(metrics).values())


HOST = ("--offload-optimizer", "host", "--offload-param", "host")
# name, flags of both plans, of the one that trains, of zero-run; those of one group have one result.
VARIANTS = [
    ("one rank", 1, "A", (), (), ()),
    ("one rank, all on host", 1, "A", (), HOST, ()),
    ("stage 0", 2, "B", ("--zero-stage", 0), (), ()),
    ("stage 2, optimizer on host", 2, "B", ("--zero-stage", 2), ("--offload-optimizer", "host"), ()),
    ("stage 3, small buckets", 2, "B", ("--zero-stage", 3, "--bucket-size", "16KiB"), (), ("--device", "sync")),
    ("stage 3, all on nvme, activations on host", 2, "B", ("--zero-stage", 3),
     ("--offload-optimizer", "nvme", "--offload-param", "nvme", "--offload-activation", "host"), ()),
    ("stage 3, recomputed, clipped, on streams", 2, "C", ("--zero-stage", 3), ("--checkpoint-activations", "block", "--clip-grad-norm", 1),
     ("--device", "fake")),
    ("micro-steps", 2, "D", ("--zero-stage", 1), ("--grad-accumulation", 2), ()),
    ("micro-steps block by block", 2, "D", ("--zero-stage", 3), ("--grad-accumulation", 2, "--micro-order", "vertical", *HOST), ()),
    ("bf16", 2, "E", ("--zero-stage", 3, "--precision", "bf16"), (), ()),
    ("bf16, optimizer on nvme", 2, "E", ("--zero-stage", 2, "--precision", "bf16"), ("--offload-optimizer", "nvme"), ()),
    ("fp16", 1, "F", ("--precision", "fp16"), (), ()),
    ("labels weigh", 2, "G", ("--zero-stage", 3, "--loss-mean", "global"), (), ()),
    ("quantized weights", 2, "H", ("--zero-stage", 3, "--quantize-weights", "int8"), (), ()),
    ("tiles", 1, "A", ("--tile-linear", "16KiB"), (), ()),
]
found = {}


def variant(name, world, group, shared, training, run):
    shared = ("--world-size", world, *shared)
    result = compare(name, GPT2 / "ts17.onnx", HELD_OUT, GPT2 / "inputs.safetensors", (*shared, "--lr", "1e-2", *training), shared, run)
    if found.setdefault(group, result) != result:
        raise Case(f"{result}, another variant has {found[group]}")


def delayed(name, world, *flags, run=()):
    """A delayed update: what is evaluated is what the next step computes with, the weights of the step before where the delay has begun."""
    work, after, steps = suite.dir / name.replace(" ", "-"), 2, 5
    work.mkdir()
    flags = ("--world-size", world, "--lr", "1e-2", "--delay-update", "--delay-after", after, *flags)
    plain = suite.compile(GPT2 / "ts17.onnx", work / "plain.plan", *flags)
    both = suite.compile(GPT2 / "ts17.onnx", work / "both.plan", *flags, "--with-eval")
    precision = flags[flags.index("--precision"):][:2] if "--precision" in flags else ()
    forward = suite.compile(GPT2 / "ts17.onnx", work / "forward.plan", "--forward-only", "--world-size", world, *precision)
    common = ("--data", GPT2 / "inputs.safetensors", "--steps", steps, "--nvme-dir", suite.dir, "--threads", 1, *run)
    without = suite.train(plain, work / "without", *common)
    evaluated = (*common, "--save-every", 1, "--eval-data", HELD_OUT, "--eval-every", 1, "--keep-best")
    metrics = suite.train(both, work / "with", *evaluated)
    same("losses", losses(metrics), losses(without))
    same("weights", weights_of(work / "with/final"), weights_of(work / "without/final"))
    same("the planned arenas", arenas(both), arenas(plain))
    found = vals(metrics)
    same("evaluated steps", sorted(found), list(range(1, steps + 1)))
    alone = {step: evaluate(forward, work / f"with/step-{step}", "--data", HELD_OUT, "--threads", 1) for step in found}
    for step, loss in found.items():
        same(f"after step {step}", [loss], [alone[step if step <= after else step - 1]])
        published = work / f"with/step-{step}/published.safetensors"
        same(f"published at step {step}", [loss], [evaluate(forward, published, "--data", HELD_OUT, "--threads", 1)])
    if found[steps] == alone[steps]:
        raise Case("nothing is delayed")
    best = min(found, key=found.get)
    same("best", (work / "with/best/published.safetensors").read_bytes(), (work / f"with/step-{best}/published.safetensors").read_bytes())
    for step in range(after + 2, steps + 1):  # going on from a delayed state
        shutil.rmtree(work / f"with/step-{step}")
    for name in ("best", "final"):
        shutil.rmtree(work / "with" / name)
    again = suite.train(both, work / "with", *evaluated, "--resume", "auto")
    same("resumed", (losses(again), vals(again)), (losses(metrics), found))


def delayed_statistics():
    """What batch norms have seen stands beside published weights: the file alone evaluates as the run did."""
    work, data = suite.dir / "delayed-statistics", ("--data", suite.models / "resnet/inputs.safetensors", "--threads", 1)
    work.mkdir()
    model = suite.models / "resnet/ts17.onnx"
    both = suite.compile(model, work / "both.plan", "--lr", "1e-2", "--delay-update", "--offload-optimizer", "host", "--with-eval")
    forward = suite.compile(model, work / "forward.plan", "--forward-only")
    metrics = suite.train(both, work / "run", *data, "--steps", 4, "--save-every", 1, "--eval-data", data[1], "--eval-every", 1)
    for step, loss in vals(metrics).items():
        same(f"published at step {step}", [loss], [evaluate(forward, work / f"run/step-{step}/published.safetensors", *data)])


DELAYED = [("delayed", 1, "--offload-optimizer", "host"), ("delayed on nvme in bf16", 2, "--zero-stage", 3, "--offload-optimizer", "nvme",
                                                          "--offload-param", "host", "--precision", "bf16"),
           ("delayed, stage 2", 2, "--zero-stage", 2, "--offload-optimizer", "host", "--grad-accumulation", 2, "--bucket-size", "16KiB")]


def dropout():
    """It is exported, and active in training alone."""
    compare("dropout", GPT2 / "ts17_dropout.onnx", HELD_OUT, GPT2 / "inputs.safetensors", (), ())


def batch_norm():
    """Norms train with each batch's statistics and evaluate with the running ones, rank 0's, which training keeps in fp32."""
    held_out, folder = cut("resnet", "resnet", 8), suite.models / "resnet"
    for world, precision in ((1, "fp32"), (2, "fp32"), (1, "fp16"), (2, "bf16")):
        work = suite.dir / f"norms-{world}-{precision}"
        work.mkdir()
        flags = ("--world-size", world, "--batch-norm", "train", "--lr", "1e-3", "--precision", precision)
        plain = suite.compile(folder / "ts17.onnx", work / "plain.plan", *flags)
        both = suite.compile(folder / "ts17.onnx", work / "both.plan", *flags, "--with-eval")
        forward = suite.compile(folder / "ts17.onnx", work / "forward.plan", "--forward-only", "--world-size", world, "--precision", precision)
        run = ("--data", folder / "inputs.safetensors", "--steps", 3, "--threads", 1)
        without = suite.train(plain, work / "without", *run)
        metrics = suite.train(both, work / "run", *run, "--eval-data", held_out, "--eval-every", 1)
        same("losses", losses(metrics), losses(without))
        for file in (work / "without/final").glob("*.safetensors"):  # ranks' own statistics among them
            same(file.name, (work / "run/final" / file.name).read_bytes(), file.read_bytes())
        same("norms", [vals(metrics)[3]], [evaluate(forward, work / "run/final", "--data", held_out, "--threads", 1)])


def processes():
    if not shutil.which("mpirun") or not (suite.bin / "libzc_mpi.so").exists():
        raise Skip("there is no mpirun")
    plan = suite.compile(GPT2 / "ts17.onnx", suite.dir / "mpi.plan", "--world-size", 2, "--zero-stage", 3, "--with-eval")
    flags = ["--data", GPT2 / "inputs.safetensors", "--steps", STEPS, "--eval-data", HELD_OUT, "--eval-every", EVERY, "--keep-best", "--threads", 1]
    threads = suite.train(plan, suite.dir / "as-threads", *flags)
    command = [*suite.mpirun(2), suite.bin / "zero-run", plan, *flags, "--quiet",
               "--out", suite.dir / "as-processes"]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=600)
    if done.returncode:
        raise Case(done.stderr[-1500:])
    metrics = [json.loads(line) for line in (suite.dir / "as-processes/metrics.jsonl").read_text().splitlines()]
    same("processes", (losses(metrics), vals(metrics)), (losses(threads), vals(threads)))


#===-- perplexity ------------------------------------------------------------------


def spoken(*args):
    """What zero-run reports, and what it says to people."""
    done = subprocess.run([str(suite.bin / "zero-run"), *map(str, args)], capture_output=True, text=True, timeout=600)
    if done.returncode:
        raise Case(done.stderr[-1500:])
    return json.loads(done.stdout.splitlines()[-1]), done.stderr


def perplexity(name, model, data, held_out, *flags):
    """(val_loss, its perplexity or None), which are zero-run eval's of the last checkpoint as well."""
    both = suite.compile(model, suite.dir / f"{name}.plan", *flags, "--with-eval")
    forward = suite.compile(model, suite.dir / f"{name}-forward.plan", *flags, "--forward-only")
    _, said = spoken(both, "--data", data, "--steps", 2, "--eval-data", held_out, "--threads", 1, "--out", suite.dir / name)
    last = json.loads((suite.dir / name / "metrics.jsonl").read_text().splitlines()[-1])
    alone, said_alone = spoken("eval", forward, "--weights", suite.dir / name / "final", "--data", held_out, "--threads", 1)
    told = last.get("val_perplexity")
    same(f"{name}: zero-run eval", (alone["loss"], alone.get("perplexity")), (last["val_loss"], told))
    for text in (said, said_alone, suite.tool("zero-run", "inspect", both).replace("a likelihood", "(perplexity ")):
        if ("(perplexity " in text) != (told is not None):
            raise Case(f"{name}: perplexity {told}, but {text}")
    return last["val_loss"], told


def vocabulary_cut():
    """Cross-entropy of logits that are cut is several operations; that it is one is known from before."""
    given = (GPT2 / "ts17.onnx", GPT2 / "inputs.safetensors", HELD_OUT)
    whole, parts = perplexity("uncut", *given), perplexity("parts", *given, "--world-size", 2, "--tensor-parallel", 2)
    if "cross_entropy" in suite.tool("zero-run", "inspect", suite.dir / "parts.plan", "--kernels"):
        raise Case("the vocabulary is not cut: the case shows nothing")
    close("perplexity of the loss", [whole[1], parts[1]], [math.exp(whole[0]), math.exp(parts[0])], 1e-12)
    return f"{close('T = 2', parts, whole, 1e-5):.1e} from T = 1"


def squared_error():
    model = suite.dir / "squares.onnx"
    model.write_bytes(linear(nodes=[node("MatMul", ["x", "w"], ["y"], "/mm")], outputs=[f("y", 2, 3)]))
    data = write_safetensors(suite.dir / "squares.safetensors", {"x": ("F32", [4, 4], [0.1 * k for k in range(16)]),
                                                                 "t": ("F32", [4, 3], [0.2 * k for k in range(12)])})
    same("perplexity of a mean squared error", perplexity("squares", model, data, data, "--loss-op", "mse:y:t")[1], None)


#===-- best, early, on -----------------------------------------------------------

PLAN = suite.compile(GPT2 / "ts17.onnx", suite.dir / "plan.plan", "--world-size", 2, "--zero-stage", 2, "--with-eval", "--lr", "2e-2")
COMMON = ("--data", GPT2 / "inputs.safetensors", "--eval-data", HELD_OUT, "--threads", 1)


def early():
    """The loss on other samples rises after a few steps: the run ends, the best state is kept."""
    out = suite.dir / "early"
    text = suite.tool("zero-run", PLAN, *COMMON, "--out", out, "--steps", 200, "--eval-every", 1, "--early-stop", 3, "--keep-best", "--quiet")
    report = json.loads(text.splitlines()[-1])
    metrics = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    best = min(metrics, key=lambda m: m["val_loss"])
    same("the end", (len(metrics), report["stopped_early"], report["best_step"], report["best_val_loss"]),
         (best["step"] + 3, True, best["step"], best["val_loss"]))
    forward = suite.compile(GPT2 / "ts17.onnx", suite.dir / "early.plan", "--forward-only")
    same("best and final", [evaluate(forward, out / name, "--data", HELD_OUT, "--threads", 1) for name in ("best", "final")],
         [best["val_loss"], metrics[-1]["val_loss"]])
    # Going on finds that it is over; what is counted is in the checkpoint.
    again = suite.tool("zero-run", PLAN, *COMMON, "--out", out, "--steps", 200, "--eval-every", 1, "--early-stop", 3, "--keep-best", "--resume", "auto")
    same("again", json.loads(again.splitlines()[-1])["steps"], 0)
    return f"best of {len(metrics)} after {best['step']}"


def interrupted():
    """Killed, and stopped inside an evaluation: the same losses, none missing, as of a run that nobody disturbed."""
    flags = (*COMMON, "--steps", 6, "--eval-every", 2, "--save-every", 1, "--keep-best")
    whole = suite.train(PLAN, suite.dir / "whole", *flags)
    for fault, code in (("step.begin@n=9:SIGKILL", 137), ("step.begin@n=7:SIGTERM", 75), ("step.begin@n=11:SIGTERM", 75)):
        out = suite.dir / fault.replace("@", "-").replace(":", "-")
        suite.tool("zero-run", PLAN, *flags, "--out", out, "--quiet", code=code if code != 137 else -9, fault=fault)
        metrics = suite.train(PLAN, out, *flags, "--resume", "auto")
        same(fault, (losses(metrics), vals(metrics)), (losses(whole), vals(whole)))
        same(f"{fault}: best", weights_of(out / "best"), weights_of(suite.dir / "whole/best"))


def told_in_each():
    """Stopped in the evaluation, and again in that of the run that goes on: a step's line stays, and gets its evaluation in the end."""
    out, flags = suite.dir / "each", (*COMMON, "--steps", 4, "--eval-every", 2, "--no-final")
    whole = suite.train(PLAN, suite.dir / "each-whole", *flags)
    suite.tool("zero-run", PLAN, *flags, "--out", out, "--quiet", code=75, fault="step.begin@step=2:SIGTERM")
    before = lines_of(out)
    suite.tool("zero-run", PLAN, *flags, "--out", out, "--resume", "auto", "--quiet", code=75, fault="folder.make@n=1:SIGTERM")
    same("lines", lines_of(out), before)
    suite.tool("zero-run", PLAN, *flags, "--out", out, "--resume", "auto", "--quiet")
    same("evaluated", (losses(lines_of(out)), vals(lines_of(out))), (losses(whole), vals(whole)))


def best_that_is_not_saved():
    """The next one that is lower than what "best" holds is."""
    out, flags = suite.dir / "unsaved", (*COMMON, "--steps", 3, "--eval-every", 1, "--keep-best", "--ckpt-on-error", "warn", "--lr", "1e-4")
    said = suite.tool("zero-run", PLAN, *flags, "--out", out, "--quiet", fault="ckpt.manifest@n=2:ENOSPC")
    report = json.loads(said.splitlines()[-1])
    metrics = lines_of(out)
    if not metrics[0]["val_loss"] > metrics[1]["val_loss"] > metrics[2]["val_loss"]:
        raise Case(f"losses do not fall: {vals(metrics)}")
    same("best", (report["best_step"], json.loads((out / "best/manifest.json").read_text())["step"]), (3, 3))
    out = suite.dir / "unsaved-last"
    said = suite.tool("zero-run", PLAN, *flags, "--no-final", "--out", out, "--quiet", fault="ckpt.manifest@n=3:ENOSPC")
    same("best", (json.loads(said.splitlines()[-1])["best_step"], json.loads((out / "best/manifest.json").read_text())["step"]), (2, 2))


def lines_of(out):
    """What metrics.jsonl has; of an object in which a key stands twice a failure."""
    def once(pairs):
        if len(dict(pairs)) != len(pairs):
            raise Case(f"a key stands twice: {pairs}")
        return dict(pairs)
    return [json.loads(line, object_pairs_hook=once) for line in (out / "metrics.jsonl").read_text().splitlines()]


def goes_on_elsewhere():
    """From another folder's checkpoint: stopped in the evaluation that is due, what is said to be saved is there; the lowest loss of
    there is no `best` here. On other data, a step's line has the new evaluation alone. A finished run that had none gets one."""
    first, out, evaluated = suite.dir / "first", suite.dir / "elsewhere", (*COMMON, "--eval-every", 1, "--keep-best")
    told = suite.tool("zero-run", PLAN, *evaluated, "--out", first, "--steps", 200, "--early-stop", 3, "--quiet")
    best, last = json.loads(told.splitlines()[-1])["best_step"], len(lines_of(first))
    others = (*evaluated, "--eval-steps", 2, "--steps", last + 2)
    suite.tool("zero-run", PLAN, *others, "--out", out, "--resume", first / "final", code=75, fault="folder.make@n=1:SIGTERM")
    if not (out / f"step-{last}/manifest.json").is_file():
        raise Case(f"said to be saved, but there is {sorted(p.name for p in out.iterdir())}")
    suite.tool("zero-run", PLAN, *others, "--out", out, "--resume", "auto", "--quiet")
    same("steps", [m["step"] for m in lines_of(out)], [last, last + 1, last + 2])
    if best >= last:
        raise Case(f"the best of {last} steps is the last")
    for name, data in (("same-data", (*evaluated, "--steps", last + 2)), ("other-data", others)):
        to = suite.dir / name
        report = json.loads(suite.tool("zero-run", PLAN, *data, "--out", to, "--resume", first / "final").splitlines()[-1])
        here = min((m for m in lines_of(to) if "val_loss" in m), key=lambda m: m["val_loss"])
        same(f"{name}: best", (report["best_step"], report["best_val_loss"], json.loads((to / "best/manifest.json").read_text())["step"]),
             (here["step"], here["val_loss"], here["step"]))
    suite.tool("zero-run", PLAN, *others, "--out", first, "--resume", "auto", "--quiet")
    same("steps", [m["step"] for m in lines_of(first)], list(range(1, last + 3)))
    none = suite.dir / "none"
    suite.train(PLAN, none, "--data", GPT2 / "inputs.safetensors", "--threads", 1, "--steps", 3)
    report = json.loads(suite.tool("zero-run", PLAN, *evaluated, "--out", none, "--steps", 3, "--resume", "auto", "--quiet").splitlines()[-1])
    same("evaluated", (report["best_step"], [report["val_loss"]]), (3, list(vals(lines_of(none)).values())))
    same("best", weights_of(none / "best"), weights_of(none / "final"))


#===-- refusals --------------------------------------------------------------------


def refusals():
    out, data = suite.dir / "refused", ("--data", GPT2 / "inputs.safetensors", "--steps", 1)
    plain = suite.compile(GPT2 / "ts17.onnx", suite.dir / "no-eval.plan")
    wrong = read_safetensors(HELD_OUT)
    dtype, shape, values = wrong["labels"]
    far = write_safetensors(suite.dir / "far.safetensors", {**wrong, "labels": (dtype, shape, [*values[:20], 12345, *values[21:]])})
    others = write_safetensors(suite.dir / "others.safetensors", {"x": ("F32", [4, 2], [0.0] * 8)})
    cases = [
        (plain, ("--eval-data", HELD_OUT), 2, ["--with-eval"]),
        (PLAN, ("--eval-every", 2), 2, ["--eval-every", "--eval-data"]),
        (PLAN, ("--early-stop", 2), 2, ["--early-stop"]),
        (PLAN, ("--keep-best",), 2, ["--keep-best"]),
        (PLAN, ("--eval-data", HELD_OUT, "--eval-tokens", HELD_OUT), 2, ["exclude each other"]),
        (PLAN, ("--eval-data", far), 3, ["12345"]),
        (PLAN, ("--eval-data", others), 3, ["others.safetensors"]),
        (PLAN, ("--eval-data", suite.dir / "missing"), 3, ["missing"]),
        (PLAN, ("--eval-tokens", GPT2 / "ts17.onnx"), 2, ["--eval-tokens"]),
    ]
    for plan, flags, code, words in cases:
        error = suite.tool("zero-run", plan, *data, "--out", out, *flags, code=code)
        if not all(word in error for word in words) or (out / "metrics.jsonl").exists():
            raise Case(f"{flags}: {error}")
    error = suite.tool("zero-compile", GPT2 / "ts17.onnx", "--with-eval", "--forward-only", "-o", suite.dir / "refused.plan", code=2)
    if "forward-only" not in error:
        raise Case(error)


suite.run([(name, lambda given=(name, *rest): variant(*given)) for name, *rest in VARIANTS])
suite.run([(name, lambda given=(name, *rest): delayed(*given)) for name, *rest in DELAYED])
suite.run([("delayed statistics", delayed_statistics), ("dropout", dropout), ("batch norm", batch_norm), ("processes", processes), ("vocabulary cut", vocabulary_cut),
           ("squared error", squared_error), ("early", early), ("interrupted", interrupted), ("told in each", told_in_each), ("best that is not saved", best_that_is_not_saved),
           ("goes on elsewhere", goes_on_elsewhere), ("refusals", refusals)])
suite.finish()
