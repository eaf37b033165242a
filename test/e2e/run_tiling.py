#!/usr/bin/env python3
"""Linears in tiles: losses, norms and weights are those of the untiled run, over models, stages, world sizes, precisions and the
tier of the parameters; no gather and no working memory is larger than tiles need; checkpoints and exports have whole weights, which
tiled and untiled runs read from each other. Weights that are no linear's alone stay whole, with a remark."""
import itertools, json, pathlib, subprocess, sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from e2e import Case, Suite, close, same, same_bits

STEPS = 4
suite = Suite(__doc__)


def result(model, world, flags, name, steps=STEPS, device="cpu", more=()):
    folder = suite.models / model
    plan = suite.compile(folder / "ts17.onnx", suite.dir / f"{name}.plan", "--world-size", world, "--bucket-size", "16KiB", *flags)
    out = suite.dir / name
    metrics = suite.train(plan, out, "-n", world, "--device", device, "--data", folder / "inputs.safetensors", "--steps", steps,
                          "--nvme-dir", suite.dir, *more)
    suite.tool("zero-run", "export", out / "final", "--safetensors", out / "exported.safetensors")
    return [m["loss"] for m in metrics], [m["grad_norm"] for m in metrics], (out / "exported.safetensors").read_bytes()


def case(model, world, stage, tile, param="none", device="cpu", common=(), other=()):
    """Against the untiled plan of stage 3. `common` flags change numbers, so that has them too; `other` ones must not."""
    flags = ["--zero-stage", stage, *common, *other]
    if tile:
        flags += ["--tile-linear", tile]
    if param != "none":
        flags += ["--offload-param", param, "--offload-optimizer", param]
    name = " ".join(map(str, [model, f"W={world} stage {stage} tile {tile}", param, device, *common, *other]))

    def run():
        untiled = "_".join(map(str, ("untiled", model, world, *common)))
        expected = suite.once(untiled, lambda: result(model, world, ["--zero-stage", 3, *common], untiled))
        same_bits(result(model, world, flags, name.replace(" ", "_"), device=device), expected)

    return name, run


CLIP = ("--clip-grad-norm", "0.1")
COMMON = [CLIP, ("--grad-accumulation", "2"), ("--precision", "bf16"), ("--optimizer", "momentum")]
PLACES = [(0, "none"), (1, "none"), (2, "none"), (3, "none"), (3, "host"), (3, "nvme")]  # stages and tiers of parameters
everything = [case(model, world, stage, tile, param, common=CLIP)
              for model, world, tile, (stage, param) in suite.draw(itertools.product(("gpt2", "llama"), (1, 2), ("1KiB", "6000"), PLACES), 10)]
everything += [case(model, 2, 3, "2KiB", common=common) for model in ("gpt2", "llama") for common in COMMON[1:]]
everything += [case("gpt2", 2, 3, "1KiB", common=CLIP, device="sync"),
               case("gpt2", 2, 3, "1KiB", "nvme", common=CLIP, other=("--checkpoint-activations", "block", "--prefetch", "none")),
               case("llama", 2, 3, "3KiB", common=CLIP, other=("--checkpoint-activations", "block", "--hierarchical", "--ranks-per-node", 1))]
suite.run(everything)


def linear(rows):
    """One linear of 512 x 512, 1 MiB -> model, inputs."""
    model, data = suite.dir / f"linear-{rows}.onnx", suite.dir / f"linear-{rows}.safetensors"
    script = pathlib.Path(__file__).resolve().parents[1] / "support/make_linear.py"
    subprocess.run([sys.executable, script, model, "--inputs", "512", "--outputs", "512", "--rows", str(rows), "--seed", "0",
                    "--data", data], check=True)
    return model, data


def memory():
    """What is gathered and reduced at a time is a few tiles; no more is gathered in all."""
    model, _ = linear(4)
    flags = ["--world-size", 2, "--zero-stage", 3, "--optimizer", "sgd", "--dry-run", "--json"]
    whole, tiled = (json.loads(suite.tool("zero-compile", model, *flags, *more)) for more in ((), ("--tile-linear", "64KiB")))
    peaks = [report["tiers"]["device"]["peak_bytes"] for report in (tiled, whole)]
    if peaks[1] - peaks[0] < 1.5 * 2**20 or whole["parameters"] != tiled["parameters"]:
        raise Case(f"peaks {peaks}, parameters {tiled['parameters']} and {whole['parameters']}")
    if not 2 * 2**20 <= tiled["traffic"]["gather"] <= whole["traffic"]["gather"]:
        raise Case(f"{tiled['traffic']} beside {whole['traffic']}")
    return f"peaks {peaks}"


def large():
    """Products that libraries sum agree to rounding."""
    model, data = linear(128)
    losses = []
    for name, more in (("whole", []), ("tiled", ["--tile-linear", "100KiB"])):
        plan = suite.compile(model, suite.dir / f"large-{name}.plan", "--world-size", 2, "--zero-stage", 3, "--lr", "1e-3", *more)
        metrics = suite.train(plan, suite.dir / f"large-{name}", "-n", 2, "--data", data, "--steps", STEPS)
        losses.append([m["loss"] for m in metrics])
    return f"{close('loss', *losses, 1e-6):.1e}"


def whole_weights():
    """A tiled run's checkpoint has the model's tensors; an untiled plan starts from them, and the other way round."""
    folder = suite.models / "gpt2"
    names = {}
    for name, flags in (("tiled", ["--tile-linear", "1KiB"]), ("untiled", [])):
        out = suite.dir / f"weights-{name}"
        plan = suite.compile(folder / "ts17.onnx", suite.dir / f"weights-{name}.plan", "--world-size", 2, "--zero-stage", 3, *flags)
        suite.train(plan, out, "-n", 2, "--data", folder / "inputs.safetensors", "--steps", 2)
        suite.tool("zero-run", "export", out / "final", "--onnx", out / "trained.onnx")
        names[name] = (plan, out)
    (tiled, tiled_out), (untiled, untiled_out) = names["tiled"], names["untiled"]
    same("onnx", (tiled_out / "trained.onnx").read_bytes(), (untiled_out / "trained.onnx").read_bytes())
    same("weights", (tiled_out / "final/weights.safetensors").read_bytes(), (untiled_out / "final/weights.safetensors").read_bytes())
    losses = []
    for plan, other in ((tiled, untiled_out), (untiled, tiled_out)):
        out = suite.dir / f"again-{plan.stem}"
        metrics = suite.train(plan, out, "-n", 2, "--data", folder / "inputs.safetensors", "--steps", 2, "--weights",
                              other / "final/weights.safetensors")
        losses.append([m["loss"] for m in metrics])
    same("losses", *losses)


def resumed():
    """Two steps, a checkpoint, two more: the bits of four."""
    folder = suite.models / "llama"
    plan = suite.compile(folder / "ts17.onnx", suite.dir / "resumed.plan", "--world-size", 2, "--zero-stage", 3, "--tile-linear", "2KiB",
                         "--offload-optimizer", "nvme", "--offload-param", "nvme")
    run = ["-n", 2, "--data", folder / "inputs.safetensors", "--nvme-dir", suite.dir]
    straight = suite.train(plan, suite.dir / "straight", *run, "--steps", 4)
    out = suite.dir / "halves"
    suite.train(plan, out, *run, "--steps", 2, "--save-every", 2)
    suite.train(plan, out, *run, "--steps", 4, "--resume", "auto")
    halves = {m["step"]: m["loss"] for m in map(json.loads, (out / "metrics.jsonl").read_text().splitlines())}
    same("loss", [halves[m["step"]] for m in straight], [m["loss"] for m in straight])


def slots():
    """Tiles whose gradients leave through slots of the staging fit a device of a third of the weight: compute waits for slots there."""
    path = suite.dir / "linear.onnx"
    subprocess.run([sys.executable, pathlib.Path(__file__).resolve().parents[1] / "support" / "make_linear.py", path, "--inputs", "4096",
                    "--outputs", "1024", "--rows", "16"], check=True, stdout=subprocess.DEVNULL)
    flags = ["--optimizer", "sgd", "--offload-param", "nvme", "--offload-optimizer", "nvme", "--device-mem", "6MB", "--dry-run"]
    suite.tool("zero-compile", path, *flags, code=5)
    suite.tool("zero-compile", path, *flags, "--tile-linear", "1MiB")


def refusals():
    model = suite.models / "gpt2" / "ts17.onnx"
    suite.tool("zero-compile", model, "--tile-linear", "nothing", "--dry-run", code=2)
    suite.tool("zero-compile", model, "--tile-linear", "0", "--dry-run", code=2)
    suite.tool("zero-compile", model, "--tile-linear", "auto", "--dry-run")
    text = suite.tool("zero-run", "inspect", suite.compile(model, suite.dir / "inspect.plan", "--tile-linear", "1KiB"), "--text")
    if "matmul_part" not in text:
        raise Case("nothing was tiled")


suite.run([("memory", memory), ("large", large), ("whole weights", whole_weights), ("resumed", resumed), ("slots", slots),
           ("refusals", refusals)])
suite.finish()
