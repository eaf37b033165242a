#!/usr/bin/env python3
"""A checkpoint belongs to the model: what one plan saved another one goes on from, whatever their world sizes, ZeRO stages, tiers,
bucket sizes, tilings and precisions of storage. Losses after loading are within 1e-5 of a run that nobody disturbed, on the same
global batches, and a rank needs no more memory to load than to train. The same plan goes on with the same bits."""
import itertools, json, pathlib, sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from e2e import Case, Suite, close, same

suite = Suite(__doc__)
folder = suite.models / "gpt2"
SAVED, MIDDLE, STEPS, BATCH = 3, 2, 5, 24  # BATCH: micro-steps times ranks, alike for all
TIERS = {"none": (), "host": ("--offload-optimizer", "host"),
         "nvme": ("--offload-optimizer", "nvme", "--offload-param", "nvme")}


def name_of(config):
    return "-".join(map(str, config)).replace(" ", "")


def plan_of(config):
    world, stage, tier, bucket, *more = config
    path = suite.dir / f"{name_of(config)}.plan"
    flags = TIERS[tier] if tier != "nvme" or stage == 3 else ("--offload-optimizer", "nvme")
    return suite.once(path, lambda: suite.compile(
        folder / "ts17.onnx", path, "--world-size", world, "--zero-stage", stage, "--bucket-size", bucket, "--grad-accumulation", BATCH // world,
        *(() if "--lr" in more else ("--lr", "1e-3")), "--weight-decay", "0.01", "--clip-grad-norm", "0.1", *flags, *more))


def train(config, out, *flags):
    return suite.train(plan_of(config), out, "-n", config[0], "--threads", 1, "--data", folder / "inputs.safetensors", "--lr-schedule",
                       "constant", "--nvme-dir", suite.dir, *flags)


REFERENCE = [m["loss"] for m in train((1, 0, "none", "1MiB"), suite.dir / "reference", "--steps", STEPS)]


def saved(config):
    out = suite.dir / f"{name_of(config)}-saved"
    suite.once(out, lambda: train(config, out, "--steps", SAVED, "--save-every", MIDDLE))
    return out


def reshard(source, target, checkpoint="", step=SAVED):
    """The run's folder is as good as its newest checkpoint."""
    out = suite.dir / f"{name_of(source)}-{checkpoint}-to-{name_of(target)}"
    metrics = train(target, out, "--steps", STEPS, "--resume", saved(source) / checkpoint)
    if [m["step"] for m in metrics] != list(range(step + 1, STEPS + 1)):
        raise Case(f"steps {[m['step'] for m in metrics]}")
    return f"{close('loss', [m['loss'] for m in metrics], REFERENCE[step:], 1e-5):.1e}"


def same_plan(config):
    """Interrupted or not, the bits are the same; and all plans of a world size write the same weights and moments."""
    whole, parts = suite.dir / f"{name_of(config)}-whole", suite.dir / f"{name_of(config)}-parts"
    train(config, whole, "--steps", STEPS)
    train(config, parts, "--steps", STEPS, "--resume", saved(config) / "final")
    for file in ("weights", "moment1", "moment2"):
        same(file, (parts / "final" / f"{file}.safetensors").read_bytes(), (whole / "final" / f"{file}.safetensors").read_bytes())
        same(file, (whole / "final" / f"{file}.safetensors").read_bytes(), STATES.setdefault((config[0], file), (whole / "final" / f"{file}.safetensors").read_bytes()))


STATES = {}


def refused(what, flags, words, code=10):
    def run():
        error = suite.tool("zero-run", plan_of((2, 1, "none", "4KiB", *flags[0])), "--threads", 1, "--data", flags[1], "--steps", STEPS, "--quiet",
                           "--resume", saved((2, 1, "none", "4KiB")), "--out", suite.dir / f"refused {what}", *flags[2], code=code)
        if words not in error:
            raise Case(error)
    return f"refused: {what}", run


def memory():
    """Loading eight ranks' checkpoint by three takes no more than the arenas and a fixed rest."""
    source, target = (8, 3, "none", "4KiB"), (3, 3, "none", "1MiB")
    out = suite.dir / "memory"
    text = suite.tool("zero-run", plan_of(target), "--threads", 1, "--data", folder / "inputs.safetensors", "--steps", SAVED + 1, "--quiet", "--lr-schedule", "constant",
                      "--resume", saved(source), "--out", out)
    fresh = suite.tool("zero-run", plan_of(target), "--threads", 1, "--data", folder / "inputs.safetensors", "--steps", 1, "--quiet", "--out", suite.dir / "fresh")
    resumed, started = (json.loads(t.splitlines()[-1])["resident_memory"] for t in (text, fresh))
    if resumed > 1.2 * started + 16e6:
        raise Case(f"{resumed} bytes to go on, {started} to begin")
    return f"{resumed / started:.2f}"


CONFIGS = [(world, stage, tier, bucket) for world in (1, 2, 3, 4, 8) for stage in range(4)
           for tier, bucket in (("none", "4KiB"), ("host", "1MiB"), ("nvme", "16KiB")) if stage > 0 or tier == "none"]
SPECIAL = [(2, 3, "none", "4KiB", "--tile-linear", "2KiB"), (4, 3, "none", "4KiB", "--quantize-weights", "int8", "--hierarchical", "--ranks-per-node", "2")]
def pairs(configs, stride, start, count):
    """Each with another one; drawn so that every world size, stage, tier and bucket size saves, and goes on."""
    mapped = [(*config, *configs[(i * stride + start) % len(configs)]) for i, config in enumerate(configs)]
    return [(of[:4], of[4:]) for of in suite.draw(mapped, count)]


suite.run([(f"{name_of(a)} to {name_of(b)}", lambda a=a, b=b: reshard(a, b))
           for a, b in (*pairs(CONFIGS, 23, 11, 12), (SPECIAL[0], CONFIGS[-1]), (CONFIGS[-1], SPECIAL[0]))])
PLAIN = [config for config in CONFIGS if config[2] == "none"]  # every world size and stage, to and from
suite.run([(f"{name_of(a)}, step-{MIDDLE}, to {name_of(b)}", lambda a=a, b=b: reshard(a, b, f"step-{MIDDLE}", MIDDLE)) for a, b in pairs(PLAIN, 7, 9, 8)])
suite.run([(f"same bits {name_of(config)}", lambda c=config: same_plan(c)) for config in suite.draw(CONFIGS, 8)])
INPUTS = folder / "inputs.safetensors"
suite.run([refused("rate", (("--lr", "2e-3"), INPUTS, ()), "learning rate 0.001, here it is 0.002"),
           refused("optimizer", (("--optimizer", "sgd"), INPUTS, ()), "optimizer adamw, here it is sgd"),
           refused("seed", ((), INPUTS, ("--seed", 5)), "give --seed"),
           refused("order", ((), INPUTS, ("--shuffle",)), "--shuffle off, here it is on"),
           ("memory", memory)])
suite.finish()
