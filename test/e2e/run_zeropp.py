#!/usr/bin/env python3
"""ZeRO++ (arXiv 2306.10209): bytes on each link against the formulas, in the report and as zero-run counts them; hpZ and the ways of
collectives against plain ZeRO-3, bit for bit; losses of quantized communication close to plain ones; runs that are continued."""
import itertools, json, pathlib, re, subprocess, sys

SUPPORT = pathlib.Path(__file__).resolve().parents[1] / "support"
sys.path.insert(0, str(SUPPORT))
from e2e import Case, Suite

suite = Suite(__doc__)
INPUTS = suite.dir / "inputs.safetensors"
QW, HP, HC = ("--quantize-weights", "int8"), ("--hierarchical",), ("--hierarchical-collectives",)
QG4, QG8, EF = ("--quantize-gradients", "int4"), ("--quantize-gradients", "int8"), ("--quantize-error-feedback",)
WIDTH = {"fp32": 4, "bf16": 2}
WEIGHT_BLOCK, GRADIENT_BLOCK = 512, 128


def make_gpt(name, *flags):
    path = suite.dir / f"{name}.onnx"
    subprocess.run([sys.executable, SUPPORT / "make_gpt.py", path, *map(str, flags)], capture_output=True, text=True, check=True)
    return path


MODELS = {"small": make_gpt("small", "--layers", 2, "--hidden", 48, "--heads", 4, "--vocab", 101, "--seq", 16, "--batch", 2,
                            "--seed", 1, "--inputs", INPUTS, "--rows", 64),
          "g124m": make_gpt("g124m", "--preset", "g124m")}


def compile_flags(model, world, local, *flags):
    return (MODELS[model], "--world-size", world, "--ranks-per-node", local, "--zero-stage", 3, *flags)


def report(*args):
    return json.loads(suite.tool("zero-compile", *compile_flags(*args), "--dry-run", "--json"))


def expect(what, got, wanted):
    if got != wanted:
        raise Case(f"{what}: {got} instead of {wanted}")


def piece(elements, bits, block):
    """Bytes of a quantized piece: values, and a scale of 4 bytes per block."""
    return -(-elements * bits // 8 // 4) * 4 + 4 * -(-elements // block)


def formulas(shards, world, local, width, flags):
    """(bytes between nodes, bytes inside nodes) that a rank sends per step."""
    nodes, near, far = world // local, local - 1, world - local
    two = nodes > 1 and local > 1
    inter = intra = 0
    for s in shards:
        gathered = piece(s, 8, WEIGHT_BLOCK) if QW[0] in flags else width * s
        if two and HC[0] in flags:  # between nodes first, then what came in, inside
            forward = (gathered * (nodes - 1), gathered * nodes * near)
        else:
            forward = (gathered * far, gathered * near)
        backward = (0, gathered * nodes * near) if HP[0] in flags and nodes > 1 else forward
        if QG4[0] in flags:
            q = piece(s, 4 if "int4" in flags else 8, GRADIENT_BLOCK)
            reduced = (q * (nodes - 1), q * nodes * near) if two else (q * far, q * near)
        elif two and HC[0] in flags:
            reduced = (width * s * (nodes - 1), width * s * nodes * near)
        else:
            reduced = (width * s * far, width * s * near)
        inter += forward[0] + backward[0] + reduced[0]
        intra += forward[1] + backward[1] + reduced[1]
    return inter, intra


def shards_of(*args):
    ir = suite.tool("zero-compile", *compile_flags(*args), "--compile-to", "shard")
    return [int(p) // args[1] for p in re.findall(r"zero.bucket @\S+ : \S+ padded = (\d+)", ir)]


title = lambda flags: " ".join(f.replace("--", "") for f in flags) or "plain"


def links(model, world, local, precision, combinations):
    """Combinations of techniques."""
    common = (model, world, local, "--precision", precision)
    shards = shards_of(*common)
    for flags in combinations:
        got = report(*common, *flags)["traffic"]
        expect(f"{title(flags)}: between nodes, inside", (got["inter_node"], got["intra_node"]),
               formulas(shards, world, local, WIDTH[precision], flags))


def papers():
    """One rank per node, 16 bits: 3M, and of it 0.5M + 0 + 0.25M = 0.75M; each technique alone; scales at most 3 %. Ranks that
    share a node send less: a gradient leaves it once, for all of them."""
    common = ("g124m", 4, 1, "--precision", "bf16")
    share, m = 3 / 4, 2 * 4 * sum(shards_of(*common))
    for flags, volume in (((), 3), (QW, 2), (HP, 2), (QG4, 2.25), (QW + HP, 1.5), (HP + QG4, 1.25), (QW + HP + QG4, 0.75)):
        got = report(*common, *flags)["traffic"]["inter_node"]
        if not volume * m * share <= got <= 1.03 * volume * m * share:
            raise Case(f"{title(flags)}: {got / share / m:.4f} M instead of {volume} M")
    plain, every = (report("g124m", 8, 4, "--precision", "bf16", *f, *HC)["traffic"]["inter_node"] for f in ((), QW + HP + QG4))
    if not plain / 4 <= every <= 1.03 * plain / 4:
        raise Case(f"nodes of 4: {every} of {plain} bytes are no quarter")


def secondary(local):
    """hpZ costs its secondary shards, 1 / ranks per node of the parameters, and less when they are quantized."""
    shards = shards_of("g124m", 8, local, "--precision", "bf16")
    peak = lambda *flags: report("g124m", 8, local, "--precision", "bf16", "--prefetch", "none", *flags)["tiers"]["device"]["peak_bytes"]
    kept = 2 * sum(shards) * 8 // local
    for flags, most in (((), kept), (QW, kept)):
        more = peak(*flags, *HP) - peak(*flags)
        if not 0 < more <= 1.02 * most:
            raise Case(f"{title(flags)}: hpZ takes {more} bytes for secondary shards of {kept}")


def run(name, world, local, *flags, steps=4):
    plan = suite.dir / f"{name}.plan"
    suite.tool("zero-compile", *compile_flags("small", world, local, "--bucket-size", "64KiB", *flags), "-o", plan)
    last = suite.tool("zero-run", plan, "-n", world, "--threads", 1, "--data", INPUTS, "--steps", steps, "--quiet", "--out",
                      suite.dir / name).splitlines()[-1]
    return json.loads(last), (suite.dir / name / "final/weights.safetensors").read_bytes()


def runs_as_planned(world, local, precision):
    """What zero-run counts is what the report says, for all techniques at once and each alone; hpZ changes no bit."""
    weights = {}
    for i, flags in enumerate(((), HP, QW, QW + HP, QG4, QG8 + EF, HC, HC + HP, QW + HP + QG4, QW + HP + QG4 + HC)):
        common = ("--precision", precision, "--grad-accumulation", 1 + i % 2, *flags)
        planned = report("small", world, local, "--bucket-size", "64KiB", *common)["traffic"]
        final, _ = run(f"count-{world}-{local}-{precision}-{i}", world, local, *common, steps=2)
        for counter, moved in final["traffic"].items():
            expect(f"{title(flags)}: {counter}", moved, 2 * planned[counter])
    for flags in ((), HP, QW, QW + HP, QW + HC, QW + HP + HC):
        final, weights[flags] = run(f"bits-{world}-{local}-{precision}-{title(flags)}", world, local, "--precision", precision, *flags)
    for one, other in (((), HP), (QW, QW + HP), (QW, QW + HP)):
        if weights[one] != weights[other]:
            raise Case(f"{title(other)} does not give the weights of {title(one)}")
    if world > 1 and weights[()] == weights[QW]:
        raise Case("quantized weights change nothing")


def stages_agree():
    """Collectives along one axis after the other: the same bits at every stage, and other ones than over all ranks."""
    weights = []
    for stage in range(4):
        plan = suite.dir / f"hc-{stage}.plan"
        suite.tool("zero-compile", MODELS["small"], "--world-size", 4, "--ranks-per-node", 2, "--zero-stage", stage, *HC,
                   "--bucket-size", "64KiB", "-o", plan)
        suite.tool("zero-run", plan, "-n", 4, "--threads", 1, "--data", INPUTS, "--steps", 3, "--quiet", "--out", suite.dir / f"hc-{stage}")
        weights.append((suite.dir / f"hc-{stage}/final/weights.safetensors").read_bytes())
    expect("stages with the same weights", len(set(weights)), 1)


def resumes(precision):
    """What gradients have lost is part of a run's state: stopped and continued is the same as never stopped."""
    flags, out = ("--precision", precision, *QW, *HP, *QG4, *EF), suite.dir / f"resumed-{precision}"
    plan = suite.dir / f"resumed-{precision}.plan"
    _, whole = run(f"whole-{precision}", 4, 2, *flags, steps=6)
    suite.tool("zero-compile", *compile_flags("small", 4, 2, "--bucket-size", "64KiB", *flags), "-o", plan)
    common = (plan, "-n", 4, "--threads", 1, "--data", INPUTS, "--quiet", "--out", out)
    suite.tool("zero-run", *common, "--steps", 3, "--save-every", 3)
    suite.tool("zero-run", *common, "--steps", 6, "--resume", out / "step-3")
    if (out / "final/weights.safetensors").read_bytes() != whole:
        raise Case("continued, the run ends in other weights")


def quality(precision):
    """40 steps: within 1 % of plain with techniques."""
    loss = lambda name, *flags: run(f"quality-{precision}-{name}", 4, 2, "--precision", precision, "--lr", "3e-3", *flags, steps=40)[0]["loss"]
    plain, off = loss("plain"), {}
    for name, flags in TECHNIQUES[precision]:
        off[name] = abs(loss(name, *flags) / plain - 1)
        if off[name] > 0.01:
            raise Case(f"{name}: {off[name]:.2%} off the loss of plain ZeRO-3")
    return ", ".join(f"{name} {x:.3%}" for name, x in off.items())


TECHNIQUES = {precision: suite.draw((("qw", QW), ("qg4", QG4), ("qg8", QG8), ("qg4ef", QG4 + EF), ("all", QW + HP + QG4), ("allef", QW + HP + QG4 + EF)), 3,
                                    covering_values=False) for precision in WIDTH}
MESHES = ((4, 2), (8, 4), (4, 4), (4, 1), (6, 2))
cases = [(f"links small W={w} of {l} {p}", lambda a=("small", w, l, p), c=[w_ + h + g + c for w_, h, g, c in suite.draw(
    itertools.product(((), QW), ((), HP), ((), QG4, QG8), ((), HC)), 8)]: links(*a, c)) for w, l in MESHES for p in WIDTH]
cases += [("the paper's volumes", papers)] + [(f"secondary shards, nodes of {l}", lambda l=l: secondary(l)) for l in (2, 4)]
cases += [(f"run W={w} of {l} {p}", lambda a=(w, l, p): runs_as_planned(*a))
          for w, l, p in ((4, 2, "fp32"), (8, 4, "bf16"), (3, 1, "fp32"), (2, 2, "bf16"), (1, 1, "fp32"))]
cases += [("stages agree", stages_agree)] + [(f"resumes {p}", lambda p=p: resumes(p)) for p in WIDTH]
cases += [(f"quality {p}", lambda p=p: quality(p)) for p in WIDTH]
suite.run(cases)
suite.finish()
