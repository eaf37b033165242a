#!/usr/bin/env python3
"""Budgets: a plan that does not fit names flags that do, and these then do; where none do, the smallest memory it names is
enough with the flags it names. What a budget leaves over keeps parameters gathered: fewer bytes on the links, the same bits."""
import itertools, json, pathlib, re, subprocess, sys, tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from e2e import Case, Suite, same

suite = Suite(__doc__)
ON_THE_DEVICE = ("--offload-optimizer", "none", "--offload-param", "none", "--offload-activation", "none")  # fewer plans to try


def report(model, *flags):
    return json.loads(suite.tool("zero-compile", suite.models / model / "ts17.onnx", *flags, "--dry-run", "--json"))


def peaks(model, *flags):
    return {tier: values["peak_bytes"] for tier, values in report(model, *flags)["tiers"].items()}


def refused(model, *flags):
    """The error's text; exit code 5."""
    done = subprocess.run([suite.bin / "zero-compile", suite.models / model / "ts17.onnx", *map(str, flags), "--dry-run"],
                          capture_output=True, text=True)
    if done.returncode != 5:
        raise Case(f"{flags}: exit code {done.returncode} instead of 5\n{done.stderr}")
    return done.stderr


def with_changes(flags, text):
    """`flags` as a dict, with those of `text` in place of their own."""
    words = text.split()
    return {**flags, **dict(zip(words[::2], words[1::2]))}


def flat(flags):
    return [word for flag in flags.items() for word in flag]


def cheapest(model, world, stage, share, host=None):
    """`share` of the least that the flags need as the device's budget; `host` bytes of the host's."""
    flags = {"--world-size": world, "--zero-stage": stage}
    least = int(re.search(r"the plan needs (\d+) bytes", refused(model, *flat(flags), "--device-mem", 1))[1])
    budget = int(least * share)
    budgets = ["--device-mem", budget] + (["--host-mem", host] if host else [])
    text = refused(model, *flat(flags), *budgets)
    if f"{budget}" not in text or "node" not in text or "are missing of" not in text:
        raise Case(text)
    if found := re.search(r"= help: (--.*) fits \(", text):
        suite.tool("zero-compile", suite.models / model / "ts17.onnx", *flat(with_changes(flags, found[1])), *budgets,
                   "-o", suite.dir / f"{model}-{world}-{stage}-{share}-{host}.plan")
        return found[1]
    found = re.search(r"smallest device memory found is (\d+) bytes, with (--.*);", text)
    if not found:
        raise Case(text)
    changed = flat(with_changes(flags, found[2]))
    budgets[1] = int(found[1])
    report(model, *changed, *budgets)
    budgets[1] -= 1
    refused(model, *changed, *budgets)
    return f"nothing fits; {found[1]} bytes would"


def leaving(tier, *flags):
    """Where a tier may hold next to nothing, what was put there is moved away together; and that fits."""
    given = {"--world-size": 2, "--zero-stage": 3, **dict(zip(flags[::2], flags[1::2]))}
    budget = [f"--{tier}-mem", 4096]
    found = re.search(r"= help: (--.*) fits \(", refused("gpt2", *flat(given), *budget))
    if not found:
        raise Case("nothing found")
    report("gpt2", *flat(with_changes(given, found[1])), *budget)
    return found[1]


def staging():
    """Host buffers shrink to the host's budget: with the same flags less is enough than without one."""
    flags = ["--bucket-size", "64MiB", "--offload-optimizer", "nvme", "--offload-param", "nvme"]
    path = suite.dir / "wide.onnx"
    subprocess.run([sys.executable, pathlib.Path(__file__).resolve().parents[1] / "support" / "make_gpt.py", path, "--layers", "2",
                    "--hidden", "512", "--vocab", "512", "--seq", "16", "--batch", "1"], check=True, stdout=subprocess.DEVNULL)
    host = lambda *more: json.loads(suite.tool("zero-compile", path, *flags, *more, "--dry-run", "--json"))["tiers"]["host"]
    free = host()["peak_bytes"]
    tight = host("--host-mem", free // 8)["peak_bytes"]
    if not 0 < tight <= free // 8:
        raise Case(f"{tight} bytes of {free}")
    return f"{free} to {tight}"


def run(model, world, flags, name):
    folder = suite.models / model
    out = pathlib.Path(tempfile.mkdtemp(prefix=f"{name}-", dir=suite.dir))  # several cases have runs of that name, beside each other
    plan = suite.compile(folder / "ts17.onnx", suite.dir / f"{out.name}.plan", "--world-size", world, *flags)
    last = suite.tool("zero-run", plan, "--out", out, "--quiet", "-n", world, "--data", folder / "inputs.safetensors",
                      "--steps", 4, "--nvme-dir", suite.dir)
    suite.tool("zero-run", "export", out / "final", "--safetensors", out / "exported.safetensors")
    metrics = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    weights = (out / "exported.safetensors").read_bytes()
    return [(m["loss"], m["grad_norm"]) for m in metrics], weights, json.loads(last.splitlines()[-1])["traffic"]


def resident(model, world, flags, link):
    """Nothing, half and all of the parameters resident: the same bits, ever fewer bytes, counted as reported."""
    flags = ["--zero-stage", 3, "--bucket-size", "16KiB", "--clip-grad-norm", "0.1", *flags]
    everywhere = ["--world-size", world, *flags]
    without = report(model, *everywhere)
    state = sum(tier["model_state_bytes"]["parameters"] for tier in without["tiers"].values())
    before, reference = None, None
    for name, size in (("none", ["--residency", "none"]), ("half", ["--residency", state // 2]),
                       ("room", ["--device-mem", "1GB"])):
        planned = report(model, *everywhere, *size)
        got = run(model, world, [*flags, *size], f"{model}-{world}-{link}-{len(flags)}-{name}")
        reference = reference or got
        same(f"{name}: losses and norms", got[0], reference[0])
        same(f"{name}: weights", got[1], reference[1])
        moved = planned["traffic"][link]
        if got[2][link] != 4 * moved:
            raise Case(f"{name}: {link} moved {got[2][link]} bytes in 4 steps, the report says {moved} in one")
        if before is not None and not moved < before:
            raise Case(f"{name}: {link} moves {moved} bytes, {before} with fewer resident")
        before = moved
    if world > 1:  # once per step, after the update
        precision = flags[flags.index("--precision"):][:2] if "--precision" in flags else []
        padded = report(model, *everywhere[:2], "--bucket-size", "16KiB", *precision)["tiers"]["device"]["model_state_bytes"]["parameters"]
        if (gathered := report(model, *everywhere, "--device-mem", "1GB")["traffic"]["gather"]) != padded:
            raise Case(f"{gathered} bytes gathered with all resident, {padded} of parameters")


def nothing_without_room(model):
    """A budget that is just enough, or none: parameters are gathered as often as the formula says."""
    flags = ["--world-size", 2, "--zero-stage", 3, "--bucket-size", "16KiB"]
    free = report(model, *flags)
    tight = report(model, *flags, "--device-mem", free["tiers"]["device"]["peak_bytes"])
    room = report(model, *flags, "--device-mem", free["tiers"]["device"]["peak_bytes"] * 11 // 10)
    if not room["traffic"]["gather"] < tight["traffic"]["gather"] <= free["traffic"]["gather"]:
        raise Case(f"{[r['traffic']['gather'] for r in (free, tight, room)]} bytes gathered")
    if room["tiers"]["device"]["peak_bytes"] > free["tiers"]["device"]["peak_bytes"] * 11 // 10:
        raise Case("over budget")
    for part, size in free["tiers"]["device"]["model_state_bytes"].items():
        if (kept := room["tiers"]["device"]["model_state_bytes"][part]) != size:
            raise Case(f"model state: {kept} bytes of {part} instead of {size}")


def smallest(model, world, stage):
    """The dry run's smallest budgets are enough, and one byte less is not."""
    flags = {"--world-size": world, "--zero-stage": stage}
    table = suite.tool("zero-compile", suite.models / model / "ts17.onnx", *flat(flags), "--device-mem", "1GB", "--dry-run")
    found = re.search(r"smallest feasible --device-mem: (\d+) bytes with these flags, (\d+) with (--.*)", table)
    if not found:
        raise Case(table)
    for size, changed in ((int(found[1]), flags), (int(found[2]), with_changes(flags, found[3]))):
        report(model, *flat(changed), "--device-mem", size)
        refused(model, *flat(changed), "--device-mem", size - 1)


def host_instead_of_file(model, world, accumulation):
    """What --host-mem leaves keeps parameters out of the file: it is read less, with the same bits."""
    flags = ["--zero-stage", 3, "--bucket-size", "16KiB", "--grad-accumulation", accumulation, *("--offload-param", "nvme"),
             *("--offload-optimizer", "nvme")]
    free = report(model, "--world-size", world, *flags)
    host, state = (free["tiers"]["host"]["peak_bytes"], free["tiers"]["nvme"]["model_state_bytes"]["parameters"])
    reference, before = run(model, world, flags, f"file-{model}-{world}-{accumulation}"), free["traffic"]["nvme_read"]
    for room in (state // 2, 2 * state):
        budget = ["--host-mem", host + room]
        planned = report(model, "--world-size", world, *flags, *budget)
        got = run(model, world, [*flags, *budget], f"host-{model}-{world}-{accumulation}-{room}")
        same("losses and norms", got[0], reference[0])
        same("weights", got[1], reference[1])
        read, all_are_there = planned["traffic"]["nvme_read"], planned["tiers"]["nvme"]["model_state_bytes"]["parameters"] == 0
        if got[2]["nvme_read"] != 4 * read or not (read < before or read == before and all_are_there) or planned["tiers"]["host"]["peak_bytes"] > host + room:
            raise Case(f"reads {read} bytes after {before}, {got[2]['nvme_read']} in 4 steps; host {planned['tiers']['host']}")
        before = read


def chosen(*flags):
    """The flags that --auto says it took."""
    done = subprocess.run([suite.bin / "zero-compile", suite.models / "gpt2" / "ts17.onnx", "--auto", *map(str, flags)],
                          capture_output=True, text=True)
    found = re.search(r"note: --auto chose( --.*)?: \S+ s per step predicted", done.stderr)
    if done.returncode != 0 or not found:
        raise Case(f"exit code {done.returncode}: {done.stderr}")
    return (found[1] or "").split()


def automatic(world, budget):
    """Its plan is that of the flags it names; it fits, trains to the same bits, and no stage or recomputation in its place that
    fits is predicted to be faster."""
    plan, budgets = suite.dir / f"auto-{world}-{budget}.plan", ["--world-size", world, "--device-mem", budget]
    flags = chosen(*budgets, "-o", plan)
    again = suite.compile(suite.models / "gpt2" / "ts17.onnx", suite.dir / f"auto-{world}-{budget}-again.plan", *budgets, *flags)
    same("plan", suite.plan_hash(plan), suite.plan_hash(again))
    seconds = report("gpt2", *budgets, *flags)["predicted_step_seconds"]
    taken = dict(zip(flags[::2], flags[1::2]))
    for stage in (0, 1, 2, 3) if world > 1 else (0,):
        for recomputation in ("none", "selective", "block"):
            other = flat({**taken, "--zero-stage": stage, "--checkpoint-activations": recomputation})
            done = subprocess.run([suite.bin / "zero-compile", suite.models / "gpt2" / "ts17.onnx", *map(str, budgets + other), "--dry-run",
                                   "--json"], capture_output=True, text=True)
            if done.returncode == 0 and json.loads(done.stdout)["predicted_step_seconds"] < seconds:
                raise Case(f"{other} is faster than {flags}")
    plain, got = (run("gpt2", world, f, f"auto-{world}-{budget}-{len(f)}") for f in ([], [*budgets[2:], *flags]))
    same("losses and norms", got[0], plain[0])
    same("weights", got[1], plain[1])
    return " ".join(flags)


def automatic_leaves(budget, *given):
    flags = chosen("--world-size", 2, "--device-mem", budget, *given, "--dry-run")
    if set(given[::2]) & set(flags[::2]):
        raise Case(f"{flags} although {given}")


def automatic_over_ranks():
    """Where nothing fits a rank by itself, ranks share samples; it says so. The mesh that the choice names is the same plan."""
    budget = ["--device-mem", "250KB", "--world-size", 4, *ON_THE_DEVICE]
    suite.tool("zero-compile", suite.models / "gpt2" / "ts17.onnx", "--auto", *budget, "--tensor-parallel", 1, "--dry-run", code=5)
    flags = chosen(*budget, "-o", suite.dir / "auto-ranks.plan")
    if "--tensor-parallel" not in flags:
        raise Case(f"{flags}")
    at = flags.index("--tensor-parallel")
    mesh = f"data={4 // int(flags[at + 1])},model={flags[at + 1]}"
    again = suite.compile(suite.models / "gpt2" / "ts17.onnx", suite.dir / "auto-mesh.plan", *budget[:2], *ON_THE_DEVICE, "--mesh", mesh, *flags[:at],
                          *flags[at + 2:])
    same("plan", suite.plan_hash(suite.dir / "auto-ranks.plan"), suite.plan_hash(again))


def automatic_parts(budget):
    """Checkpoints in parts wait for the recomputation that is chosen, which is one; the flags named compile the same plan."""
    given = ["--world-size", 4, "--tensor-parallel", 2, "--partition-activations", "--bucket-size", "16KiB", "--device-mem", budget]
    flags = chosen(*given, "-o", suite.dir / f"auto-parts-{budget}.plan")
    if flags[flags.index("--checkpoint-activations") + 1] not in ("selective", "block"):
        raise Case(f"{flags}")
    again = suite.compile(suite.models / "gpt2" / "ts17.onnx", suite.dir / f"auto-parts-{budget}-again.plan", *given, *flags)
    same("plan", suite.plan_hash(suite.dir / f"auto-parts-{budget}.plan"), suite.plan_hash(again))
    return " ".join(flags)


def automatic_by_state():
    """What the model's state alone is too large for is not compiled: here stages 0 and 1 with all of it on the device."""
    model, budget = suite.models / "gpt2" / "ts17.onnx", ["--world-size", "2", "--device-mem", "200KB", "--bucket-size", "16KiB", "--dry-run"]
    done = subprocess.run([suite.bin / "zero-compile", model, "--auto", *budget], capture_output=True, text=True)
    found = re.search(r"plans tried fit, (\d+) more cannot hold the model's state", done.stderr)
    state = report("gpt2", "--world-size", 2)["tiers"]["device"]["model_state_bytes"]
    needs = [state["parameters"] / (2 if stage == 3 else 1) + state["optimizer"] / (2 if stage else 1) for stage in range(4)]
    if done.returncode != 0 or not found or int(found[1]) < 3 * sum(need > 200_000 for need in needs) or needs[0] < 200_000:
        raise Case(f"exit code {done.returncode}: {done.stderr}, {needs}")
    suite.tool("zero-compile", model, *budget, "--zero-stage", 0, "--checkpoint-activations", "block", code=5)
    return f"{found[1]} were not compiled"


def automatic_with_places(given, wanted):
    """Places that are given are those of every plan tried: the least that they leave open is chosen beside them. A dry run of the flags
    given and chosen fits."""
    given = given.split()
    flags = chosen(*given, "--dry-run")
    taken = dict(zip(flags[::2], flags[1::2]))
    if any(taken.get(flag) != value for flag, value in wanted.items()):
        raise Case(f"{flags} instead of {wanted}")
    report("gpt2", *given, *flags)
    return " ".join(flags)


def automatic_and_no_stage_fits():
    """A stage that is not given is one that takes what is offloaded, also where nothing fits."""
    text = refused("gpt2", "--auto", "--world-size", 2, "--offload-optimizer", "host", "--device-mem", "1KB", "--bucket-size", "16KiB")
    if "--device-mem allows 1000" not in text:
        raise Case(text)


def automatic_over_three_ranks():
    """Any number of ranks that divides those of a node may share samples."""
    path = suite.dir / "three.onnx"
    subprocess.run([sys.executable, pathlib.Path(__file__).resolve().parents[1] / "support" / "make_gpt.py", path, "--layers", "2",
                    "--hidden", "48", "--heads", "3", "--vocab", "96", "--seq", "16", "--batch", "2"], check=True, stdout=subprocess.DEVNULL)
    done = subprocess.run([suite.bin / "zero-compile", path, "--auto", "--world-size", "3", "--device-mem", "450KB", *ON_THE_DEVICE, "--dry-run"],
                          capture_output=True, text=True)
    if done.returncode or "--tensor-parallel 3" not in done.stderr:
        raise Case(f"exit code {done.returncode}: {done.stderr}")


def recomputed_for_the_host():
    """Where not the device but the host is short of what is kept, no more is recomputed than it takes there either."""
    flags = ["--checkpoint-activations", "selective", "--offload-activation", "host"]
    room = report("gpt2", *flags, "--device-mem", "10MB")
    short = report("gpt2", *flags, "--device-mem", "10MB", "--host-mem", room["tiers"]["host"]["peak_bytes"] - 1)
    everything = report("gpt2", *flags)
    if not room["flops"] < short["flops"] < everything["flops"]:
        raise Case(f"{room['flops']}, {short['flops']}, {everything['flops']} operations")


def automatic_without_budget():
    suite.tool("zero-compile", suite.models / "gpt2" / "ts17.onnx", "--auto", "--dry-run", code=2)
    suite.tool("zero-compile", suite.models / "gpt2" / "ts17.onnx", "--auto", "--target", "cuda", "--dry-run", code=2)  # of no GPU by name
    named = subprocess.run([suite.bin / "zero-compile", suite.models / "gpt2" / "ts17.onnx", "--auto", "--machine", "a100-80", "--dry-run", "--json"],
                           capture_output=True, text=True)
    if named.returncode or "80 GB of an a100-80" not in named.stderr or json.loads(named.stdout)["tiers"]["device"]["budget"] != 80 * 10**9:
        raise Case(f"exit code {named.returncode}: {named.stderr}{named.stdout[-2000:]}")
    suite.tool("zero-compile", suite.models / "gpt2" / "ts17.onnx", "--auto", "--device-mem", "30KB", *ON_THE_DEVICE, "--dry-run", code=5)


def flattened(*lists):
    """Of each of their products: the values of all."""
    return [tuple(value for part in parts for value in (part if isinstance(part, tuple) else (part,))) for parts in itertools.product(*lists)]


ALL = ("mlp", "gpt2", "llama")
cases = [(f"{model} W={world} stage {stage} {share:.0%}", lambda a=(model, world, stage, share): cheapest(*a))
         for model, world, stage, share in suite.draw(flattened(ALL, ((1, 0), (2, 0), (2, 3)), (0.9, 0.7, 0.5, 0.3)), 12)]
cases += [(f"{model} W={world} 70% and {host} on the host", lambda a=(model, world, 0, 0.7, host): cheapest(*a))
          for model, world, host in suite.draw(itertools.product(("gpt2", "llama"), (1, 2), ("60KB", "300KB")), 3)]
cases += [(f"smallest {model} W={world} stage {stage}", lambda a=(model, world, stage): smallest(*a))
          for model, world, stage in suite.draw(flattened(ALL, ((1, 0), (2, 2), (4, 3))), 4)]
cases += [(f"host instead of file {model} W={world} G={g}", lambda a=(model, world, g): host_instead_of_file(*a))
          for model, world, g in (("gpt2", 2, 1), ("llama", 1, 3))]
TIGHT = suite.draw([(2, "400KB"), (2, "250KB"), (2, "150KB")], 1, covering_values=False)  # which many plans are tried for
cases += [(f"auto W={world} {budget}", lambda a=(world, budget): automatic(*a)) for world, budget in ((1, "1MB"), (1, "450KB"), (2, "2MB"), *TIGHT)]
GIVEN = (("--zero-stage", "3"), ("--checkpoint-activations", "block"), ("--offload-optimizer", "host", "--zero-stage", "1"), ("--offload-optimizer", "host"))
cases += [(f"auto leaves {' '.join(given)}", lambda given=given: automatic_leaves("500KB", *given)) for given in suite.draw(GIVEN, 2, covering_values=False)]
cases += [(f"auto with {given}", lambda a=(given, wanted): automatic_with_places(*a)) for given, wanted in (
    ("--world-size 2 --device-mem 10MB --offload-param host", {"--zero-stage": "3", "--offload-optimizer": "none"}),
    ("--forward-only --device-mem 120KB --host-mem 10MB", {"--offload-param": "host"}),
    ("--forward-only --device-mem 10MB --offload-param host", {}),
    ("--device-mem 10MB --offload-optimizer host --offload-param nvme", {"--offload-activation": "none"}),
    ("--device-mem 10MB --offload-activation nvme", {"--offload-optimizer": "none", "--offload-param": "none"}),
    # Less than the whole state, which is not all there.
    ("--device-mem 600KB --host-mem 200KB --offload-optimizer host --offload-ratio 0.2 --bucket-size 16KiB", {"--offload-param": "none"}),
    ("--device-mem 500KB --host-mem 10MB --nvme-mem 100KB --offload-param nvme", {"--offload-optimizer": "host"}))]
cases += [("auto without", automatic_without_budget), ("auto by state", automatic_by_state), ("auto over ranks that share samples", automatic_over_ranks),
          ("auto over three ranks that share samples", automatic_over_three_ranks), ("auto, no stage fits", automatic_and_no_stage_fits),
          ("recomputed for the host", recomputed_for_the_host)]
cases += [(f"auto, checkpoints in parts, {budget}", lambda b=budget: automatic_parts(b)) for budget in ("1MB", "200KB")]
cases += [(f"leaving {tier} {' '.join(flags)}", lambda a=(tier, *flags): leaving(*a)) for tier, flags in (
    ("nvme", ("--offload-optimizer", "nvme", "--offload-param", "nvme")),
    ("nvme", ("--offload-optimizer", "nvme", "--offload-param", "nvme", "--offload-activation", "nvme")),
    ("host", ("--offload-optimizer", "nvme", "--offload-param", "host", "--offload-activation", "host")))]
cases += [("staging", staging), ("no room", lambda: nothing_without_room("gpt2"))]
RESIDENT = {"": (2, "gather"), " offloaded": (2, "h2d", "--offload-optimizer", "host", "--offload-param", "host"),
            " bf16 on nvme": (2, "nvme_read", "--precision", "bf16", "--offload-param", "nvme"), " one rank": (1, "h2d", "--offload-param", "host")}
for model, accumulation, kind in suite.draw(itertools.product(("gpt2", "llama"), (1, 3), RESIDENT), 6):
    world, link, *flags = RESIDENT[kind]
    cases.append((f"resident {model}{kind} G={accumulation}",
                  lambda a=(model, world, ["--grad-accumulation", accumulation, *flags], link): resident(*a)))
suite.run(cases)
suite.finish()
