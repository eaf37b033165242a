#!/usr/bin/env python3
"""Where bytes live changes neither losses, norms nor weights: optimizer state, parameters and activations on device, host or
NVMe, with recomputation, prefetching, clipping, accumulation and both devices, against the plan that keeps all on the device. Traffic
over the links is that of ZeRO-Offload, and a budget on each tier is kept or named."""
import itertools, json, os, pathlib, re, sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from e2e import Case, Suite, same, same_bits

STEPS = 4
suite = Suite(__doc__)
TIERS = ("none", "host", "nvme")
NONE = ("none", "none", "none")


def result(model, world, stage, flags, device, name):
    folder = suite.models / model
    plan = suite.compile(folder / "ts17.onnx", suite.dir / f"{name}.plan", "--world-size", world, "--zero-stage", stage,
                         "--bucket-size", "16KiB", *flags)
    out = suite.dir / name
    metrics = suite.train(plan, out, "-n", world, "--device", device, "--data", folder / "inputs.safetensors", "--steps", STEPS,
                          "--nvme-dir", suite.dir)
    suite.tool("zero-run", "export", out / "final", "--safetensors", out / "exported.safetensors")
    weights = (out / "exported.safetensors").read_bytes()
    return [m["loss"] for m in metrics], [m["grad_norm"] for m in metrics], weights


def offload(optimizer, param, activation):
    return ["--offload-optimizer", optimizer, "--offload-param", param, "--offload-activation", activation]


def case(model, world, tiers, device="cpu", common=(), other=(), stage=3):
    """Against the plan without offload. `common` flags change numbers, so that has them too; `other` ones must not."""
    flags = [*common, *other, *offload(*tiers)]
    name = " ".join(map(str, [model, f"W={world} stage {stage}", "/".join(tiers), device, *common, *other]))

    def run():
        plain = "_".join(map(str, ("plain", model, world, *common)))
        expected = suite.once(plain, lambda: result(model, world, 3, [*common, *offload(*NONE)], "cpu", plain))
        same_bits(result(model, world, stage, flags, device, name.replace(" ", "_").replace("/", "-")), expected)

    return name, run


COMMON = [(), ("--clip-grad-norm", "0.1"), ("--grad-accumulation", "2", "--clip-grad-norm", "0.1"), ("--precision", "bf16"),
          ("--precision", "bf16", "--grad-accumulation", "2"), ("--optimizer", "momentum")]
everything = [case(model, world, tiers, device, ("--clip-grad-norm", "0.1"), ("--checkpoint-activations", policy, "--prefetch", prefetch))
              for model, world, policy, prefetch, device, *tiers in suite.draw(
                  itertools.product(("gpt2", "llama"), (1, 2, 4), ("none", "selective", "block"), ("none", "auto"), ("cpu", "sync"), TIERS, TIERS, TIERS), 40)]
everything += [case("gpt2", 2, tiers, common=common) for common, *tiers in suite.draw(itertools.product(COMMON, TIERS, TIERS, TIERS), 16)]
everything += [case("gpt2", 2, ("host", "none", "none"), common=("--clip-grad-norm", "0.1"), other=("--offload-ratio", "0.5")),
               case("gpt2", 2, ("nvme", "host", "none"), other=("--offload-ratio", "0.3"))]
everything += [case("gpt2", 2, (tier, "none", "host"), common=common, stage=stage)
               for stage, tier, common in suite.draw(itertools.product((1, 2), ("host", "nvme"), COMMON[:4]), 8)]
suite.run(everything)


def quantized():
    """With quantized collectives too: parameters, and gradients that are quantized on their way."""
    common = ("--quantize-weights", "int8", "--quantize-gradients", "int8", "--ranks-per-node", 1, "--grad-accumulation", 2)
    return [case("gpt2", 2, tiers, common=(*common, *precision)) for precision in ((), ("--precision", "bf16"))
            for tiers in (("host", "none", "none"), ("nvme", "nvme", "host"))]


def traffic(precision, width):
    """2 b down and 2 b up per parameter of the rank's share (fp32: 4 and 4), whatever the tier of the state."""
    model = suite.models / "gpt2" / "ts17.onnx"
    for tier in ("host", "nvme"):
        report = json.loads(suite.tool("zero-compile", model, "--world-size", 2, "--zero-stage", 2, "--precision", precision,
                                       "--offload-optimizer", tier, "--dry-run", "--json"))
        share = report["tiers"]["host"]["model_state_bytes"]["gradients"]
        for link in ("d2h", "h2d"):
            if report["traffic"][link] != share:
                raise Case(f"{link} moves {report['traffic'][link]} bytes, the share is {share}")
        if not share >= report["parameters"] * width / 2:
            raise Case(f"{share} bytes are less than half of {report['parameters']} parameters")


def through_file(model, world, common):
    """Of an optimizer in the file a step reads and writes the state once: gradients wait on the host. What has no room there is written
    in every micro-step, and read for the update and, with several, where they are added up. More room is for reading ahead. Bits stay."""
    path, times = suite.models / model / "ts17.onnx", 2 if "--grad-accumulation" in common else 1
    flags = ["--world-size", world, "--zero-stage", 3, "--bucket-size", "8KiB", "--offload-optimizer", "nvme", *common]
    tiers_of = lambda *more: json.loads(suite.tool("zero-compile", path, *flags, *more, "--dry-run", "--json"))["tiers"]
    peaks_of = lambda *more: {tier: values["peak_bytes"] for tier, values in tiers_of(*more).items()}
    free = tiers_of()
    gradients, state = free["host"]["model_state_bytes"]["gradients"], free["nvme"]["model_state_bytes"]
    if state["gradients"] or not gradients:
        raise Case(f"{gradients} bytes of gradients on the host, {state} in the file")
    refusal = suite.tool("zero-compile", path, *flags, "--host-mem", 1, "--dry-run", code=5)
    enough, least, in_file = free["host"]["peak_bytes"], int(re.search(r"needs (\d+) bytes but --host-mem ", refusal)[1]), []
    first = None
    for memory in (2 * enough, enough, (enough + least) // 2, least):
        name = "-".join(map(str, ("file", model, world, *common, memory)))
        plan, out = suite.compile(path, suite.dir / f"{name}.plan", *flags, "--host-mem", memory), suite.dir / name
        text = suite.tool("zero-run", plan, "-n", world, "--out", out, "--quiet", "--data", suite.models / model / "inputs.safetensors",
                          "--steps", STEPS, "--nvme-dir", suite.dir)
        planned = tiers_of("--host-mem", memory)
        kept, lower = (planned[tier]["model_state_bytes"]["gradients"] for tier in ("host", "nvme"))
        moved = [json.loads(text.splitlines()[-1])["traffic"][link] / STEPS for link in ("nvme_read", "nvme_write")]
        expected = [state["optimizer"] + lower * (times + (times > 1)), state["optimizer"] + lower * times]
        if kept + lower != gradients or planned["host"]["peak_bytes"] > memory or moved != expected:
            raise Case(f"gradients {kept} and {lower} of {gradients}, host {planned['host']} of {memory}, moved {moved}, not {expected}")
        metrics = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
        numbers = [(m["loss"], m["grad_norm"]) for m in metrics]
        first = first or numbers
        same("losses and norms", numbers, first)
        in_file.append(lower)
        tight = {tier: planned[tier]["peak_bytes"] for tier in ("host", "nvme")}  # with no room but for what goes where
        within = peaks_of("--host-mem", tight["host"], "--nvme-mem", tight["nvme"])
        if any(within[tier] > tight[tier] for tier in tight):
            raise Case(f"{within} within {tight}")
        if memory == 2 * enough and (planned["host"]["peak_bytes"] > enough) != (times > 1 or "--clip-grad-norm" in common):
            raise Case(f"host {planned['host']} of {memory}: what waits for all gradients reads its state ahead, and nothing else")
    if in_file[:2] != [0, 0] or not 0 < in_file[2] < in_file[3]:
        raise Case(f"{in_file} bytes of {gradients} in the file as memory gets less")
    return f"{in_file} bytes of {gradients} in the file"


def budget():
    """The sizes that the dry run asks for suffice, and so does what a refusal says is needed, where queues wait for each other to
    take less; one byte less than that is refused, by the tier's name."""
    model = suite.models / "gpt2" / "ts17.onnx"
    flags = ["--world-size", 2, "--zero-stage", 3, *offload("nvme", "nvme", "host"), "--checkpoint-activations", "block"]
    tiers = json.loads(suite.tool("zero-compile", model, *flags, "--dry-run", "--json"))["tiers"]
    need = {tier: tiers[tier]["peak_bytes"] for tier in ("device", "host", "nvme")}
    enough = [part for tier, size in need.items() for part in (f"--{tier}-mem", size)]
    suite.tool("zero-compile", model, *flags, *enough, "--dry-run")
    least = {}
    for tier, size in need.items():
        flag = f"--{tier}-mem"
        refusal = suite.tool("zero-compile", model, *flags, flag, 1, "--dry-run", code=5)
        least[tier] = int(re.search(rf"needs (\d+) bytes but {flag} ", refusal)[1])
        node = re.search(r'node "([^"]+)"', refusal)  # the update's peak too: one that uses its parameters
        if not node or node[1].encode() not in model.read_bytes():
            raise Case(refusal)
        if not 0 < least[tier] <= size:
            raise Case(f"at least {least[tier]} bytes of {tier} memory, {size} without a budget")
        suite.tool("zero-compile", model, *flags, flag, least[tier], "--dry-run")
        suite.tool("zero-compile", model, *flags, flag, least[tier] - 1, "--dry-run", code=5)
    several = suite.tool("zero-compile", model, *flags, "--device-mem", 1, "--nvme-mem", least["nvme"] - 4096, "--dry-run", code=5)
    if "--device-mem" not in several or ", and 4.00 KiB of --nvme-mem" not in several:
        raise Case(several)
    return f"{need}, at least {least}"


def explain():
    """Every placement once, the one asked for marked; its numbers are those of its report."""
    model = suite.models / "gpt2" / "ts17.onnx"
    flags = ["--world-size", 2, "--zero-stage", 3, *offload("host", "none", "none")]

    def explained(*more):
        table, *_ = suite.tool("zero-compile", model, *flags, *more, "--explain-offload").partition("> is the placement")
        return [line.split() for line in table.splitlines()[1:]]

    rows = explained()
    report = json.loads(suite.tool("zero-compile", model, *flags, "--dry-run", "--json"))
    chosen = [row[1:] for row in rows if row[0] == ">"]
    if len(rows) != 18 or len(chosen) != 1 or chosen[0][:4] != ["host", "none", "none", "-"]:
        raise Case(f"rows {rows}")
    share, links = report["parameters"] / 2, report["traffic"]["d2h"] + report["traffic"]["h2d"]
    if chosen[0][4:6] != [f"{report['tiers']['device']['peak_bytes'] / 1024:.2f}", "KiB"] or chosen[0][-2] != f"{links / share:.2f}":
        raise Case(f"{chosen[0]} is not {report['tiers']}")
    fitting = lambda *budget: {tuple(row[:3]): row[3] for row in (r[1:] if r[0] == ">" else r for r in explained(*budget))}
    fits = fitting("--device-mem", report["tiers"]["device"]["peak_bytes"])
    if fits["host", "none", "none"] != "yes" or fits["none", "none", "none"] != "no":
        raise Case(f"fits: {fits}")
    below = json.loads(suite.tool("zero-compile", model, *flags[:4], "--offload-optimizer", "nvme", "--dry-run", "--json"))["tiers"]["host"]["peak_bytes"] - 1
    fits = fitting("--host-mem", below)  # that plan is made to fit
    if fits["nvme", "none", "none"] != "yes":
        raise Case(f"fits within {below} bytes of the host: {fits}")
    if not 8 <= float(chosen[0][-2]) < 8.2:  # fp32: 4 down and 4 up, and padding
        raise Case(f"{chosen[0]}")


def together():
    """Ranks that fit each by itself but not all together are refused before the first step."""
    model = suite.models / "gpt2" / "ts17_dynbatch.onnx"
    all_memory = int(re.search(r"MemTotal: +(\d+) kB", pathlib.Path("/proc/meminfo").read_text())[1]) * 1024
    flags = lambda batch: ["--dim", f"batch={batch}", "--dim", "seq=16", "--world-size", 4]
    peak = lambda batch: json.loads(suite.tool("zero-compile", model, *flags(batch), "--dry-run", "--json"))["tiers"]["device"]["peak_bytes"]
    batch = 1024 * all_memory // (2 * peak(1024))
    plan = suite.compile(model, suite.dir / "together.plan", *flags(batch))
    text = suite.tool("zero-run", plan, "-n", 4, "--data", suite.models / "gpt2" / "inputs.safetensors", "--steps", 1, "--out",
                      suite.dir / "together", code=5)
    if not re.search(r"cannot map \d+ bytes of memory: the (machine has|control group allows) \d+", text) or "step 1/" in text:
        raise Case(text)


def machine():
    """A slower file makes a slower plan, as a slower rate beside it does; what is no rate is refused."""
    model, path = suite.models / "gpt2" / "ts17.onnx", suite.dir / "machine.json"
    seconds = []
    for rate in ("1e9", "1e6"):
        path.write_text('{"nvme_read_bandwidth": %s}' % rate)
        seconds.append(json.loads(suite.tool("zero-compile", model, "--offload-optimizer", "nvme", "--machine", path, "--dry-run",
                                             "--json"))["predicted_step_seconds"])
    if not seconds[1] > 10 * seconds[0]:
        raise Case(f"{seconds} seconds")
    path.write_text('{"nvme_read_bandwidth": 1e9} // of the cheap disk')
    told = json.loads(suite.tool("zero-compile", model, "--offload-optimizer", "nvme", "--machine", f"{path},nvme_read_bandwidth=1e6", "--dry-run",
                                 "--json"))["predicted_step_seconds"]
    if told != seconds[1]:
        raise Case(f"{told} seconds of a rate that the flag says, {seconds[1]} of one in the file")
    for text in ('{"speed": 1}', '{"memory_bandwidth": -1}', '{"memory_bandwidth": "x"}', "[]", "{", "[" * 1000000,
                 '{"memory_bandwidth": 1e9, "memory_bandwidth": 1e10}', '{"memory_bandwidth": 1e999}', " " * 2000000):
        path.write_text(text)
        suite.tool("zero-compile", model, "--machine", path, "--dry-run", code=3)
    pipe = suite.dir / "pipe.json"
    os.mkfifo(pipe)
    for none in (suite.dir / "none.json", suite.dir, "/dev/zero", pipe):
        suite.tool("zero-compile", model, "--machine", none, "--dry-run", code=3)


suite.run([(" ".join(map(str, ("through the file", model, f"W={world}", *common))), lambda a=(model, world, common): through_file(*a))
           for model, world, common in suite.draw([(*of, common) for of in (("gpt2", 1), ("gpt2", 2), ("llama", 1)) for common in COMMON[:5]], 6)])
suite.run(quantized())
suite.run([("explain", explain), ("machine", machine), ("together", together)])
suite.run([("traffic fp32", lambda: traffic("fp32", 4)), ("traffic bf16", lambda: traffic("bf16", 2)), ("budget", budget)])
suite.finish()
