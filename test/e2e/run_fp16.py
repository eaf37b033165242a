#!/usr/bin/env python3
"""--precision fp16: losses, norms, loss scales and skipped steps against PyTorch with DeepSpeed's loss scale (fp16/, with the script
that made it); the same bits at every stage, on every tier and device, in every order, and over a resumption across skipped steps;
an overflow on one rank skips the step on all; a scale that cannot fall ends the run with exit code 8; evaluation."""
import json, pathlib, re, sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from e2e import Case, Suite, close, read_safetensors, same, write_safetensors

suite = Suite(__doc__)
HERE = pathlib.Path(__file__).resolve().parent
GOLDEN = json.loads((HERE / "fp16/golden.json").read_text())
RULES = {"adamw": ["--optimizer", "adamw", "--lr", "1e-3", "--weight-decay", "0.01"],
         "adamw_clip": ["--optimizer", "adamw", "--lr", "1e-3", "--weight-decay", "0.01", "--clip-grad-norm", "0.1"],
         "sgd": ["--optimizer", "sgd", "--lr", "0.1"]}
SCALE = ["--loss-scale-window", GOLDEN["window"], "--loss-scale-hysteresis", GOLDEN["hysteresis"]]
# Skips the first steps, and one now and then.
ROUGH = ["--precision", "fp16", "--initial-loss-scale", 2**21, "--loss-scale-window", 2, "--bucket-size", "8KiB"]
NUMERIC = 8


def compiled(name, model, world, *flags):
    return suite.compile(suite.models / model / "ts17.onnx", suite.dir / f"{name}.plan", "--world-size", world, *flags)


def train(name, model, world, flags, *run, steps=8, device="cpu", data=None):
    """Metrics, and the exported weights; `name` is the folder's."""
    name = re.sub(r"[^\w.-]+", "_", name)
    out = suite.dir / name
    metrics = suite.train(compiled(name, model, world, *flags), out, "-n", world, "--device", device, "--data",
                          data or suite.models / model / "inputs.safetensors", "--steps", steps, "--nvme-dir", suite.dir, *run)
    suite.tool("zero-run", "export", out / "final", "--safetensors", out / "exported.safetensors")
    return metrics, out / "exported.safetensors"


def column(metrics, name):
    return [m[name] for m in metrics]


def golden(model, rule, world):
    """Rounding to halves differs from PyTorch's, which step overflows does not. AdamW makes steps of rounding alone where a gradient
    vanishes, as that of a key's bias: weights may differ by more."""
    expected = GOLDEN["models"][model][f"{rule} W={world}"]
    flags = ["--precision", "fp16", *RULES[rule], *SCALE, "--initial-loss-scale", expected["initial"], "--grad-accumulation", 2 // world]
    metrics, exported = train(f"golden {model} {rule} {world}", model, world, flags, steps=len(expected["steps"]))
    for name in ("loss_scale", "skipped"):
        same(name, column(metrics, name), column(expected["steps"], name))
    if not any(column(metrics, "skipped")) or any(m["grad_norm"] is not None for m in metrics if m["skipped"]):
        raise Case("nothing is skipped, or a skipped step has a norm")
    worst = close("loss", column(metrics, "loss"), column(expected["steps"], "loss"), 2e-4)
    kept = [(m, e) for m, e in zip(metrics, expected["steps"]) if not e["skipped"]]
    norms = close("grad_norm", [m["grad_norm"] for m, _ in kept], [e["grad_norm"] for _, e in kept], 2e-3)
    weights, names = read_safetensors(exported), list(expected["final_weight_l2"])
    lengths = [sum(x * x for x in weights[n][2]) ** 0.5 for n in names]
    return worst, norms, close("weights", lengths, [expected["final_weight_l2"][n] for n in names], 5e-3)


def bits(model, world, flags, other, device="cpu", plain=("--zero-stage", 0)):
    """`flags` change numbers; `other` must not, nor the device: against `plain`, step by step."""
    name = " ".join(map(str, ["bits", model, f"W={world}", device, *flags, *other]))

    def result(name, flags, device):
        metrics, exported = train(name, model, world, [*ROUGH, *flags], device=device)
        return [column(metrics, n) for n in ("loss", "grad_norm", "loss_scale", "skipped")] + [exported.read_bytes()]

    def case():
        key = " ".join(map(str, ("plain", model, world, *flags)))
        expected, got = suite.once(key, lambda: result(key, (*flags, *plain), "sync")), result(name, (*flags, *other), device)
        for what, a, b in zip(("loss", "grad_norm", "loss_scale", "skipped", "weights"), got, expected):
            same(what, a, b)
        if sum(got[3]) < 4 or all(got[3]):
            raise Case(f"{sum(got[3])} of {len(got[3])} steps are skipped")

    return name, case


def resumed(world, *flags):
    """Stopped where steps are skipped and where they are not, the run goes on as if it had not been."""
    name, flags = f"resumed {world} {' '.join(flags)}", [*ROUGH, *flags]
    straight, weights = train(f"{name} straight", "gpt2", world, flags)
    for stop in (1, 3, 5, 6):
        again = f"{name} {stop}"
        train(again, "gpt2", world, flags, "--save-every", 1, steps=stop)
        metrics, exported = train(again, "gpt2", world, flags, "--resume", "auto")
        for what in ("loss", "grad_norm", "loss_scale", "skipped"):
            same(f"{what} after {stop}", column(metrics, what), column(straight, what))
        same(f"weights after {stop}", exported.read_bytes(), weights.read_bytes())


def one_rank_overflows():
    """Infinite inputs of one rank in one step (F39): skipped by all, without a trace in the weights."""
    tensors = read_safetensors(suite.models / "mlp" / "inputs.safetensors")
    dtype, shape, values = tensors["x"]
    row = shape[1]
    broken = list(values)
    broken[(2 * 4 + 3) * row] = 1e6  # step 3, rank 1 of two, its second row
    data = write_safetensors(suite.dir / "broken.safetensors", {**tensors, "x": (dtype, shape, broken)})
    flags = ["--precision", "fp16", "--zero-stage", 2, "--loss-scale-hysteresis", 1]
    metrics, exported = train("broken", "mlp", 2, flags, steps=6, data=data)
    same("skipped", column(metrics, "skipped"), [i == 2 for i in range(6)])
    same("loss_scale", column(metrics, "loss_scale"), [65536.0] * 3 + [32768.0] * 3)
    # The same without that step: the others' samples, in one run of five.
    rest = {n: (d, [s[0] - 4, *s[1:]], v[:8 * (len(v) // s[0])] + v[12 * (len(v) // s[0]):]) for n, (d, s, v) in tensors.items()}
    short, expected = train("rest", "mlp", 2, flags, steps=5, data=write_safetensors(suite.dir / "rest.safetensors", rest))
    same("loss", [m["loss"] for m in metrics if not m["skipped"]], column(short, "loss"))
    same("weights", read_safetensors(exported), read_safetensors(expected))


def ends(name, flags, steps, scales, words):
    plan = compiled(name, "mlp", 2, "--precision", "fp16", "--zero-stage", 3, *flags)
    out = suite.dir / name
    error = suite.tool("zero-run", plan, "-n", 2, "--data", suite.models / "mlp" / "inputs.safetensors", "--steps", steps + 50,
                       "--quiet", "--out", out, code=NUMERIC)
    metrics = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    if words not in error or len(metrics) != steps or not all(column(metrics, "skipped")) or (out / "final").exists():
        raise Case(f"{len(metrics)} steps, not {steps}, skipped {column(metrics, 'skipped')}: {error}")
    same("loss_scale", column(metrics, "loss_scale"), scales)


def fixed():
    """A fixed scale is a power of two that is divided out: with another one other numbers are lost, few of them."""
    a, _ = train("fixed", "gpt2", 2, ["--precision", "fp16", "--loss-scale", 1024])
    b, _ = train("dynamic", "gpt2", 2, ["--precision", "fp16", "--initial-loss-scale", 1024])
    same("all but the scale's rule", [column(a, n) for n in ("loss", "grad_norm", "loss_scale")],
         [column(b, n) for n in ("loss", "grad_norm", "loss_scale")])
    wide, _ = train("wide", "gpt2", 2, [])
    if "loss_scale" in wide[0]:
        raise Case("fp32 tells of a loss scale")
    return f"{close('loss', column(a, 'loss'), column(wide, 'loss'), 5e-3):.1e} from fp32"


def evaluated():
    data = suite.models / "gpt2" / "inputs.safetensors"
    train("trained", "gpt2", 2, ["--precision", "fp16", "--zero-stage", 3])
    losses = []
    for precision in ("fp16", "fp32"):
        plan = compiled(f"eval-{precision}", "gpt2", 2, "--forward-only", "--precision", precision)
        report = suite.tool("zero-run", "eval", plan, "-n", 2, "--data", data, "--weights", suite.dir / "trained" / "final")
        losses.append(json.loads(report.splitlines()[-1])["loss"])
    return close("loss", losses[:1], losses[1:], 1e-3)


def reported():
    """Memory and bytes sent are bf16's."""
    def of(precision):
        report = json.loads(suite.tool("zero-compile", suite.models / "gpt2" / "ts17.onnx", "--world-size", 4, "--zero-stage", 2, "--precision",
                                       precision, "--dry-run", "--json"))
        return report["traffic"], {tier: each["model_state_bytes"] for tier, each in report["tiers"].items()}

    same("the report", of("fp16"), of("bf16"))


def place(stage, optimizer, param="none", activation="none"):
    return "--zero-stage", stage, "--offload-optimizer", optimizer, "--offload-param", param, "--offload-activation", activation


COMMON = [(), ("--clip-grad-norm", "0.1", "--grad-accumulation", "2"), ("--loss-mean", "global", "--optimizer", "momentum")]
ORDERS = [("--micro-order", "vertical"), ("--checkpoint-activations", "block"), ("--tile-linear", "4KiB"), ("--prefetch", "none")]
cases = [(f"golden {model} {rule} W={world}", lambda a=(model, rule, world): golden(*a))
         for model in GOLDEN["models"] for rule in RULES for world in (1, 2)]
suite.run(cases)
every = [(world, *of) for world in (1, 2, 4) for of in (
    *((COMMON[1], ("--zero-stage", stage)) for stage in (0, 1, 2, 3)),
    *((flags, place(*where)) for flags in COMMON for where in ((1, "host"), (2, "nvme"), (3, "host", "host", "host"), (3, "nvme", "nvme", "nvme"))),
    ((), (*place(3, "host"), "--offload-ratio", "0.5")), *((COMMON[1], (*place(3, "host", "host"), *order)) for order in ORDERS))]
suite.run([bits("gpt2", *of) for of in suite.draw(every, 24)])
LATE, PLACES = ("--delay-update", "--delay-after", 2), ((1, "host"), (3, "nvme", "nvme"))
suite.run([bits("gpt2", 2, LATE, place(*where), plain=place(2, "host")) for where in PLACES])
QUANTIZED = ("--quantize-weights", "int8", "--quantize-gradients", "int4", "--ranks-per-node", "2", "--grad-accumulation", "2")
suite.run([bits("gpt2", 4, ("--hierarchical-collectives", "--ranks-per-node", "2"), ("--zero-stage", 3), plain=("--zero-stage", 2)),
           *(bits("gpt2", 4, QUANTIZED, (*place(3, "host", "nvme"), *order), plain=("--zero-stage", 3)) for order in ((), ("--micro-order", "vertical")))])
suite.run([("resumed plain", lambda: resumed(2, "--zero-stage", "2")),
           ("resumed nvme", lambda: resumed(1, "--offload-optimizer", "nvme", "--offload-param", "nvme")),
           ("resumed delayed", lambda: resumed(2, "--zero-stage", "3", "--offload-optimizer", "host", "--delay-update", "--delay-after", "2")),
           ("one rank overflows", one_rank_overflows),
           ("the floor", lambda: ends("floor", ["--initial-loss-scale", 2.0**100, "--min-loss-scale", 2.0**98], 4,
                                      [2.0**100] * 2 + [2.0**99, 2.0**98], "the smallest allowed")),
           ("a fixed scale", lambda: ends("overflowing", ["--loss-scale", 2.0**100], 100, [2.0**100] * 100, "which is fixed")),
           ("a fixed scale trains", fixed), ("evaluation", evaluated), ("report", reported)])
suite.finish()
