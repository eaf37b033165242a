#!/usr/bin/env python3
"""--param-groups: a step's weights have, parameter by parameter, the bits of a run in which all have that parameter's settings, for each
optimizer; the same bits over stages, buckets, tiers, tensor parallelism with its stages, and a delayed update with its; frozen ones stay;
the more special glob wins for each number by itself; what must be refused."""
import json, pathlib, subprocess, sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from e2e import Case, Suite, read_safetensors, same

suite = Suite(__doc__)
MODEL = suite.models / "gpt2/ts17.onnx"
DATA = suite.models / "gpt2/inputs.safetensors"
RATE, SCALE, DECAY = 0.03125, 0.25, 0.5  # powers of two, so that rate and scale multiply exactly
GROUPS = [{"params": ["*bias*", "*.ln_*"], "weight_decay": 0},
          {"params": "*.h.0.*", "lr_scale": SCALE},
          {"params": "*.wpe.*", "weight_decay": 0.125, "lr_scale": 0}]


def groups_file(name, content):
    path = suite.dir / f"{name}.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


FILE = groups_file("groups", GROUPS)


def settings(name):
    """(scale, decay) as a person reads the file."""
    if ".wpe." in name:
        return 0.0, 0.125
    return SCALE if ".h.0." in name else 1.0, 0.0 if "bias" in name or ".ln_" in name else DECAY


def weights(name, flags, decay=DECAY, steps=1, run=()):
    plan = suite.compile(MODEL, suite.dir / f"{name}.plan", "--weight-decay", decay, *flags)
    suite.train(plan, suite.dir / name, "--data", DATA, "--steps", steps, "--threads", 1, "--nvme-dir", suite.dir, *run)
    suite.tool("zero-run", "export", suite.dir / name / "final", "--safetensors", suite.dir / f"{name}.safetensors")
    return read_safetensors(suite.dir / f"{name}.safetensors")


def each_alone(rule):
    """The first step of every parameter is that of a run where all have its rate and decay."""
    got = weights(f"{rule}-groups", ("--optimizer", rule, "--lr", RATE, "--param-groups", FILE))
    alone = {}
    for name in got:
        scale, decay = settings(name)
        if (scale, decay) not in alone:
            alone[scale, decay] = weights(f"{rule}-{scale}-{decay}", ("--optimizer", rule, "--lr", RATE * scale), decay)
        same(f"{name} at rate x {scale}, decay {decay}", got[name], alone[scale, decay][name])
    if len(alone) != 5:
        raise Case(f"the settings are {sorted(alone)}")


GROUPED = ("--optimizer", "adamw", "--lr", RATE / 16, "--clip-grad-norm", "0.5", "--param-groups", FILE)
HOST = ("--offload-optimizer", "host")
NVME = ("--offload-optimizer", "nvme", "--offload-param", "nvme")
SHAPES = {
    "one": [("--zero-stage", 0), ("--zero-stage", 3, "--bucket-size", "4KiB"), ("--zero-stage", 2, *HOST), ("--zero-stage", 3, *NVME),
            ("--zero-stage", 3, "--tile-linear", "4KiB")],
    "two": [("--world-size", 2, "--zero-stage", stage, *more) for stage, more in ((0, ()), (1, ()), (2, ()), (3, ()), (3, NVME))],
    "parts": [("--world-size", 2, "--tensor-parallel", 2, "--zero-stage", stage) for stage in (0, 3)],
    "delayed": [("--world-size", 2, "--zero-stage", stage, "--delay-update", "--delay-after", 1, *HOST) for stage in (1, 3)],
    "half": [("--world-size", 2, "--zero-stage", stage, "--precision", "bf16", *more) for stage, more in ((0, ()), (3, HOST))],
}


def shapes(name):
    first = None
    for at, flags in enumerate(SHAPES[name]):
        got = weights(f"{name}-{at}", (*GROUPED, *flags), steps=4, run=("-n", 2) if "--world-size" in flags else ())
        first = first or got
        if got != first:
            raise Case(f"{' '.join(map(str, flags))}: other bits than {' '.join(map(str, SHAPES[name][0]))}")


def frozen():
    """And `false` trains what a flag would not; flags and groups are one list."""
    file = groups_file("frozen", [{"params": "*.h.1.*", "frozen": True}, {"params": "*.h.1.ln_1.*", "frozen": False, "lr_scale": 2}])
    rows = {row.split()[0]: row for row in suite.tool("zero-compile", MODEL, "--list-parameters", "--param-groups", file, "--frozen", "*wpe*").splitlines()[1:-1]}
    for name, row in rows.items():
        wanted = "frozen" if ".wpe." in name or ".h.1." in name and ".ln_1." not in name else "trainable"
        if row.split()[3] != wanted:
            raise Case(row)
    text = next(row for name, row in rows.items() if name.endswith("h.1.ln_1.weight"))
    for word in ("not frozen by '*.h.1.ln_1.*' of", "learning rate x 2 by '*.h.1.ln_1.*' of", "frozen.json"):
        if word not in text:
            raise Case(f"'{word}' is not in: {text}")


def special():
    """The longer glob wins, each number by itself; --no-decay wins over a file."""
    file = groups_file("special", [{"params": "*.h.0.ln_1.weight", "lr_scale": 0.5}, {"params": "*.h.*", "lr_scale": 0.125, "weight_decay": 0.25},
                                   {"params": "*.h.0.*", "lr_scale": 0.75}])
    ir = suite.tool("zero-compile", MODEL, "--param-groups", file, "--no-decay", "*.h.1.mlp.c_fc.weight", "--compile-to", "grad")
    updates = {line.split("@")[1].split(",")[0].strip('"'): line for line in ir.splitlines() if "graph.update @" in line}
    for ending, scale, decay in (("h.0.ln_1.weight", "5.000000e-01", "2.500000e-01"), ("h.0.ln_1.bias", "7.500000e-01", "2.500000e-01"),
                                 ("h.1.ln_1.bias", "1.250000e-01", "2.500000e-01"), ("h.1.mlp.c_fc.weight", "1.250000e-01", "0.000000e+00"),
                                 ("wte.weight", None, "1.000000e-02")):
        line = next(line for name, line in updates.items() if name.endswith(ending))
        if f"weight_decay = {decay}" not in line or (f"lr_scale = {scale}" in line) != (scale is not None) or ("lr_scale" in line) != (scale is not None):
            raise Case(line)


BAD = [
    ("nothing", [{"params": "*.no.such", "lr_scale": 1}], "no parameter matches '*.no.such'"),
    ("frozen nothing", [{"params": "*.no.such", "frozen": True}], "no parameter matches '*.no.such'"),
    ("not trained", [{"params": "*.wpe.*", "lr_scale": 1}, {"params": "*.wpe.*", "frozen": True}], "that matches '*.wpe.*' is trained"),
    ("no json", '[{"params": "*",\n "lr_scale": 1,}]', "no JSON: line 2, column"),
    ("twice", '[{"params": "*", "lr_scale": 1, "lr_scale": 2}]', "\"lr_scale\" is given twice"),
    ("no array", {"params": "*"}, "no JSON array of groups"),
    ("empty", [], "no JSON array of groups"),
    ("no object", [3], "group 1: it is no object"),
    ("unknown", [{"params": "*", "lr_scale": 1}, {"params": "*", "lr_scales": 1}], "did you mean \"lr_scale\"?"),
    ("a rate", [{"params": "*", "lr": 1}], "\"lr_scale\" multiplies"),
    ("negative", [{"params": "*", "weight_decay": -0.1}], "\"weight_decay\" is -0.1, not a number of 0 or more"),
    ("text", [{"params": "*", "lr_scale": "1"}], "\"lr_scale\" is \"1\", not a number"),
    ("infinite", '[{"params": "*", "lr_scale": 1e999}]', "no JSON"),
    ("deep", '[{"params": "*", "lr_scale": ' + "[" * 100000 + "]" * 100000 + "}]", "arrays and objects in more than 64 levels"),
    ("no params", [{"lr_scale": 1}], "it has no \"params\""),
    ("numbers", [{"params": [1], "lr_scale": 1}], "\"params\" is not a glob"),
    ("says nothing", [{"params": "*"}], "it says nothing"),
    ("contradiction", [{"params": "*.wpe.*", "frozen": True, "lr_scale": 1}], "have no update"),
    ("bad glob", [{"params": "a[", "lr_scale": 1}], "is not a glob"),
]


def no_decay_of_nothing():
    """As a group's, a glob of --no-decay that is of nothing that trains is refused; one that is shows in the table."""
    for glob, more, words in (("*.no.such", (), "no parameter matches '*.no.such'"),
                              ("*.wpe.*", ("--frozen", "*.wpe.*"), "no parameter that matches '*.wpe.*' is trained"), ("a[", (), "is not a glob")):
        text = suite.tool("zero-compile", MODEL, "--no-decay", glob, *more, "-o", suite.dir / "no-decay.plan", code=2)
        if words not in text or "--no-decay" not in text or (suite.dir / "no-decay.plan").exists():
            raise Case(text)
    table = suite.tool("zero-compile", MODEL, "--no-decay", "*.wpe.*", "--list-parameters")
    if table.count("weight decay 0 by '*.wpe.*' of --no-decay") != 1:
        raise Case(table)


def refused(name, content, words):
    file = groups_file(f"bad-{name.replace(' ', '-')}", content)
    plan = file.with_suffix(".plan")
    text = suite.tool("zero-compile", MODEL, "--param-groups", file, "-o", plan, code=2)
    if words not in text or file.name not in text or plan.exists():
        raise Case(text)


def refused_elsewhere():
    text = suite.tool("zero-compile", MODEL, "--param-groups", suite.dir / "none.json", "-o", suite.dir / "elsewhere.plan", code=3)
    if "none.json" not in text:
        raise Case(text)
    text = suite.tool("zero-compile", MODEL, "--param-groups", FILE, "--forward-only", "-o", suite.dir / "elsewhere.plan", code=2)
    if "--param-groups" not in text:
        raise Case(text)


def unfrozen():
    """A run goes on with other groups, but not with what was frozen: its moments are not there, its weights are."""
    flags, runs = ("--data", DATA, "--threads", 1), suite.dir / "runs"
    for name, groups in (("cold", [{"params": "*.h.0.*", "frozen": True}]), ("other", [{"params": "*.h.1.*", "lr_scale": 2}])):
        suite.compile(MODEL, suite.dir / f"{name}.plan", "--param-groups", groups_file(name, groups))
    suite.train(suite.dir / "cold.plan", runs, *flags, "--steps", 1)
    before = (runs / "final/manifest.json").read_bytes()
    text = suite.tool("zero-run", suite.dir / "other.plan", *flags, "--steps", 2, "--out", runs, "--resume", "auto", code=10)
    if "was frozen in the run that saved this" not in text or (runs / "final/manifest.json").read_bytes() != before:
        raise Case(text)
    suite.train(suite.dir / "other.plan", suite.dir / "fresh", *flags, "--steps", 1, "--weights", runs / "final")


def told():
    """What a run that goes on does otherwise with a parameter is said, and kept in its checkpoints."""
    flags, runs = ("--data", DATA, "--threads", 1, "--save-every", 1), suite.dir / "told"
    for name, groups, more in (("first", [{"params": "*.ln_1.*", "lr_scale": 2}, {"params": "*.bias", "weight_decay": 0}], ()),
                               ("second", [{"params": "*.ln_1.*", "lr_scale": 0.5}, {"params": "*.wpe.*", "frozen": True}], ("--no-decay", "*.wte.*"))):
        suite.compile(MODEL, suite.dir / f"told-{name}.plan", "--param-groups", groups_file(f"told-{name}", groups), "--weight-decay", 0.25, *more)
    suite.train(suite.dir / "told-first.plan", runs, *flags, "--steps", 1)
    said = []
    for steps, plan in ((2, "second"), (3, "second")):
        done = subprocess.run([suite.bin / "zero-run", suite.dir / f"told-{plan}.plan", *map(str, flags), "--steps", str(steps), "--out", runs, "--resume", "auto"],
                              capture_output=True, text=True)
        if done.returncode:
            raise Case(done.stderr)
        said.append([line for line in done.stderr.splitlines() if "from here on" in line])
    for words in ("a learning rate times 0.5 instead of 2 of", "weight decay 0.25 instead of 0 of", "weight decay 0 instead of 0.25 of", "frozen of"):
        if sum(words in line for line in said[0]) != 1:
            raise Case(f"{words}: {said[0]}")
    if len(said[0]) != 4 or said[1]:
        raise Case(f"{said}")


suite.run([(f"each alone {rule}", lambda r=rule: each_alone(r)) for rule in ("adamw", "adam", "sgd", "momentum")])
suite.run([(f"bits {name}", lambda n=name: shapes(n)) for name in SHAPES])
suite.run([(f.__name__, f) for f in (frozen, special, no_decay_of_nothing, refused_elsewhere, unfrozen, told)])
suite.run([(f"refused {name}", lambda n=name, c=content, w=words: refused(n, c, w)) for name, content, words in BAD])
suite.finish()
