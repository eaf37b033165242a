#!/usr/bin/env python3
"""--delay-update: losses, norms and trained weights of a one-step delayed update against PyTorch's (delay/), within 1e-5; the same
bits at every stage, on every tier, device and number of chunks, and over resumption; ordinary steps with the bits of the plan
without delay; the bytes of the links; and that Adam waits for no forward: in the plan by its waits, in a run by its trace."""
import collections, itertools, json, pathlib, re, subprocess, sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from e2e import SEED, Case, Suite, close, read_safetensors, same, same_bits

suite = Suite(__doc__)
HERE = pathlib.Path(__file__).resolve().parent
GOLDEN = json.loads((HERE / "delay/golden.json").read_text())["models"]
RULES = {"adamw": ["--optimizer", "adamw", "--lr", "1e-3", "--weight-decay", "0.01"],
         "adamw_clip": ["--optimizer", "adamw", "--lr", "1e-3", "--weight-decay", "0.01", "--clip-grad-norm", "0.1"],
         "sgd": ["--optimizer", "sgd", "--lr", "0.1"]}
PLACES = [(stage, optimizer, param) for optimizer in ("host", "nvme") for stage, param in
          ((1, "none"), (2, "none"), (3, "none"), (3, "host"), (3, "nvme"))]
STEPS = 6
SMALL = ("--bucket-size", "8KiB")


def place(stage, optimizer, param):
    return "--zero-stage", stage, "--offload-optimizer", optimizer, "--offload-param", param


def delayed(after):
    return "--delay-update", "--delay-after", after


def train(name, model, world, flags, *run, steps=STEPS, device="cpu"):
    """Metrics, and the exported weights."""
    name = re.sub(r"[^\w.-]+", "_", name)
    folder = suite.models / model
    plan = suite.compile(folder / "ts17.onnx", suite.dir / f"{name}.plan", "--world-size", world, *flags)
    out = suite.dir / name
    metrics = suite.train(plan, out, "-n", world, "--device", device, "--data", folder / "inputs.safetensors", "--steps", steps,
                          "--nvme-dir", suite.dir, *run)
    suite.tool("zero-run", "export", out / "final", "--safetensors", out / "exported.safetensors")
    return [m["loss"] for m in metrics], [m["grad_norm"] for m in metrics], (out / "exported.safetensors").read_bytes()


def golden(model, rule, after, world, stage, optimizer, param):
    """The weights at the end are the optimizer's, which the parameters have not become yet."""
    name = f"golden {model} {rule} after {after} W={world} stage {stage} {optimizer}/{param}"

    def run():
        flags = [*RULES[rule], *delayed(after), *place(stage, optimizer, param), *SMALL, "--grad-accumulation", 2 // world]
        losses, norms, _ = train(name, model, world, flags, steps=8)
        expected = GOLDEN[model][f"{rule} after {after}"]
        worst = close("loss", losses, expected["loss"], 1e-5), close("grad_norm", norms, expected["grad_norm"], 1e-5)
        weights = read_safetensors(suite.dir / re.sub(r"[^\w.-]+", "_", name) / "exported.safetensors")
        names = list(expected["final_weight_l2_f64"])
        lengths = [sum(x * x for x in weights[n][2]) ** 0.5 for n in names]
        return worst, close("weights", lengths, [expected["final_weight_l2_f64"][n] for n in names], 1e-5)

    return name, run


def bits(model, world, flags, other, device="cpu", plain=place(3, "host", "none")):
    """`flags` change numbers; `other` must not, nor the device: against `plain`, step by step."""
    name = " ".join(map(str, ["bits", model, f"W={world}", device, *flags, *other]))

    def case():
        key = " ".join(map(str, ("plain", model, world, *flags)))
        expected = suite.once(key, lambda: train(key, model, world, [*flags, *plain, *SMALL], device="sync"))
        same_bits(train(name, model, world, [*flags, *other, *SMALL], device=device), expected)

    return name, case


def plain(world, optimizer):
    """A delay that never begins, and one that does."""
    flags = [*place(3, optimizer, "none"), *SMALL, "--clip-grad-norm", "0.1"]
    a = train(f"plain {world} {optimizer}", "gpt2", world, flags)
    b = train(f"never {world} {optimizer}", "gpt2", world, [*flags, *delayed(STEPS)])
    c = train(f"soon {world} {optimizer}", "gpt2", world, [*flags, *delayed(3)])
    for what, x, y in zip(("loss", "grad_norm", "weights"), a, b):
        same(what, y, x)
    same("the first four losses", c[0][:4], a[0][:4])
    if c[0][4] == a[0][4] or c[2] == a[2]:
        raise Case("nothing is delayed")


def resumed(world, stage, optimizer, param, precision, after):
    """Saved in the delayed state: weights, and parameters that are older than them."""
    name = f"resumed W{world} {stage} {optimizer} {param} {precision} {after}"
    flags = [*delayed(after), *place(stage, optimizer, param), "--precision", precision, *SMALL]
    straight = train(f"{name} straight", "gpt2", world, flags)
    train(name, "gpt2", world, flags, "--save-every", 3, steps=3)
    again = train(name, "gpt2", world, flags, "--resume", "auto")
    for what, a, b in zip(("loss", "grad_norm", "weights"), again, straight):
        same(what, a, b)


def traffic(stage, optimizer, param, after):
    """Every step, ordinary or delayed, moves what the report says; 2 b down and 2 b up per parameter of the rank's share."""
    model, name = suite.models / "gpt2", f"traffic-{stage}-{optimizer}-{param}-{after}"
    flags = ["--world-size", 2, *delayed(after), *place(stage, optimizer, param), *SMALL]
    report = json.loads(suite.tool("zero-compile", model / "ts17.onnx", *flags, "--dry-run", "--json"))
    plan = suite.compile(model / "ts17.onnx", suite.dir / f"{name}.plan", *flags)
    last = suite.tool("zero-run", plan, "-n", 2, "--data", model / "inputs.safetensors", "--steps", STEPS, "--quiet", "--out",
                      suite.dir / name, "--nvme-dir", suite.dir).splitlines()[-1]
    for link, moved in json.loads(last)["traffic"].items():
        if link in ("h2d", "d2h", "nvme_read", "nvme_write", "gather") and moved != STEPS * report["traffic"][link]:
            raise Case(f"{link} moved {moved} bytes in {STEPS} steps, the report says {report['traffic'][link]} per step")
    share = report["tiers"]["host"]["model_state_bytes"]["gradients"]
    if param == "none" and not report["traffic"]["d2h"] == report["traffic"]["h2d"] == share:
        raise Case(f"{report['traffic']} is not a share of {share} each way")


STEP = re.compile(r'plan\.step "(\w+)" queue = (\w+) .* waits = \[(.*?)\](?: \{(?:bytes = \d+ : i64, )?(publishes)?)?')
WAIT = re.compile(r"#plan\.wait<(\w+) (\w+) (\d+) ago (\d+)>")


class Waits:
    """Two steps of training, as the plan's queues and waits order them."""

    def __init__(self, plan):
        section, self.steps = None, {"micro": [], "update": []}  # kernel, queue, place on it, waits
        self.publishing, counts = [], collections.Counter()  # places in the update
        for line in suite.tool("zero-translate", "--plan-to-mlir", plan).splitlines():
            if "plan.section " in line:
                section = line.split("plan.section ")[1].split()[0]
            found = STEP.search(line)
            if found:
                kernel, queue, waits, publishes = found.groups()
                if publishes:
                    self.publishing.append(len(self.steps[section]))
                self.steps[section].append((kernel, queue, counts[section, queue], WAIT.findall(waits)))
                counts[section, queue] += 1
        self.counts = counts

    def reached(self, iteration, section, index):
        """Every step that is over when this one begins: (iteration, section, queue, place)."""
        place = {(s, q, n): waits for s in self.steps for _, q, n, waits in self.steps[s]}
        _, queue, number, _ = self.steps[section][index]
        seen, work = set(), [(iteration, section, queue, number)]
        while work:
            here = work.pop()
            i, s, q, n = here
            before = (i, s, q, n - 1) if n > 0 else (i, "micro", q, self.counts["micro", q] - 1) if s == "update" \
                else (i - 1, "update", q, self.counts["update", q] - 1)
            if before[3] < 0 and before[1] == "micro":
                before = (i - 1, "update", q, self.counts["update", q] - 1)
            after = [(i - int(ago), where, queue, int(number)) for where, queue, number, ago in place[s, q, n]]
            for step in [before, *after]:
                if step[0] >= 0 and step[3] >= 0 and step not in seen:
                    seen.add(step)
                    work.append(step)
        return seen


def waits(world, stage, optimizer, param, precision):
    """Of the updates of a step none is over by its waits when the next step's forward ends; without delay all are."""
    counts = []
    for name, flags in (("plain", ()), ("late", delayed(0))):
        plan = suite.compile(suite.models / "gpt2/ts17.onnx", suite.dir / f"waits-{name}-{world}-{stage}-{optimizer}-{param}.plan",
                             "--world-size", world, *place(stage, optimizer, param), "--precision", precision, *SMALL, *flags)
        order = Waits(plan)
        updates = [(s, queue, number) for s in order.steps for kernel, queue, number, _ in order.steps[s] if kernel == "adamw"]
        loss = [k for k, step in enumerate(order.steps["micro"]) if step[0].startswith("cross_entropy")]
        seen = order.reached(1, "micro", loss[0])
        counts.append(sum((0, *update) in seen for update in updates))
    # Weights that go home as they are do so when their own update is over; what is converted, copied or read from a file first
    # waits its turn behind the other updates.
    seen = order.reached(1, "update", order.publishing[0])
    before = sum((0, *update) in seen for update in updates)
    if (optimizer, param, precision) == ("host", "none", "fp32") and not 0 < before < len(updates):
        raise Case(f"{before} of {len(updates)} updates are over when the first of them is published")
    if not updates or counts != [len(updates), 0]:
        raise Case(f"of {len(updates)} updates {counts[0]} and, delayed, {counts[1]} are over")
    return f"{len(updates)} updates"


def trace():
    """With a slow file every update of a delayed step ends after the next step's forward has; without delay none does."""
    model, late = suite.models / "gpt2", []
    for name, flags in (("plain", ()), ("late", delayed(0))):
        plan = suite.compile(model / "ts17.onnx", suite.dir / f"trace-{name}.plan", "--offload-optimizer", "nvme", *SMALL, *flags)
        suite.tool("zero-run", plan, "--out", suite.dir / f"trace-{name}", "--quiet", "--data", model / "inputs.safetensors", "--steps", 4, "--nvme-dir",
                   suite.dir, "--trace", "2:3", environment={"ZERO_LINK": "nvme_read=500KB/s"})
        events = json.loads((suite.dir / f"trace-{name}/trace.json").read_text())["traceEvents"]
        spans = [e for e in events if e.get("ph") == "X"]
        loss = [e["ts"] + e["dur"] for e in spans if e["name"].startswith("cross_entropy") and e["args"]["step"] == 3]
        updates = [e["ts"] + e["dur"] for e in spans if e["name"] == "adamw" and e["args"]["step"] == 2]
        late.append((sum(end > loss[0] for end in updates), len(updates)))
    (plain_late, _), (delayed_late, count) = late
    if plain_late != 0 or delayed_late < count / 2 or count < 8:
        raise Case(f"{late} updates end after the next step's loss")
    return f"{late}"


def warned():
    """That parameters in a file leave little to hide is said in two lines."""
    command = [suite.bin / "zero-compile", suite.models / "gpt2/ts17.onnx", *delayed(0), *place(3, "host", "nvme"), "--dry-run"]
    text = subprocess.run(list(map(str, command)), capture_output=True, text=True).stderr
    if "hides little" not in text or len(text.splitlines()) != 2 or "node" in text:  # a remark on the plan, not on a node
        raise Case(text[:500])


turns = itertools.islice(itertools.cycle(PLACES), SEED % len(PLACES), None)
suite.run([golden(*of, *next(turns)) for of in suite.draw(itertools.product(GOLDEN, RULES, (0, 2), (1, 2)), 12)])

COMMON = [(*delayed(1),), (*delayed(0), "--clip-grad-norm", "0.1", "--precision", "bf16"), (*delayed(2), "--grad-accumulation", 2)]
cases = [bits("gpt2", world, flags, place(*where), device)
         for world, flags, where, device in suite.draw(itertools.product((1, 2), COMMON, PLACES, ("cpu", "sync")), 24)]
cases += [bits("gpt2", 2, COMMON[k % 3], [*place(3, *tiers), *other]) for k, (tiers, other) in enumerate((
    (("host", "none"), ("--offload-ratio", 0.5)), (("host", "host"), ("--offload-ratio", 0.3)), (("nvme", "host"), ("--prefetch", "none")),
    (("host", "none"), ("--residency", "16KiB")), (("nvme", "nvme"), ("--offload-activation", "host", "--checkpoint-activations", "block")),
    (("host", "none"), ("--tile-linear", "2KiB"))))]
nodes = ("--ranks-per-node", 2, "--hierarchical-collectives", *delayed(1))
cases += [bits("gpt2", 4, nodes, place(stage, "host", "none"), plain=place(2, "host", "none")) for stage in (2, 3)]
suite.run(cases)
suite.run([(f"plain W={world} {tier}", lambda a=(world, tier): plain(*a)) for world, tier in ((1, "host"), (2, "nvme"))])
suite.run([("resumed W={} stage {} {}/{} {} after {}".format(*a), lambda a=a: resumed(*a)) for a in (
    (1, 3, "host", "none", "fp32", 0), (2, 2, "host", "none", "bf16", 1), (2, 3, "nvme", "nvme", "fp32", 2),
    (2, 3, "host", "host", "bf16", 0), (2, 1, "nvme", "none", "fp32", 5))])
suite.run([("traffic stage {} {}/{} after {}".format(*a), lambda a=a: traffic(*a)) for a in (
    (2, "host", "none", 0), (3, "host", "none", 3), (2, "nvme", "none", 3), (3, "nvme", "nvme", 2))])
suite.run([("waits W={} stage {} {}/{} {}".format(*a), lambda a=a: waits(*a)) for a in (
    (1, 3, "host", "none", "fp32"), (2, 1, "host", "none", "bf16"), (2, 3, "host", "host", "fp32"), (2, 3, "nvme", "none", "bf16"),
    (2, 3, "nvme", "host", "fp32"))])
suite.run([("warned", warned), ("trace", trace)])
suite.finish()
