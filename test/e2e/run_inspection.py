#!/usr/bin/env python3
"""How a plan says it was compiled, and what --memory-html, --emit-trace and --profile show, against the report, the plan's budgets and the trace of a real run."""
import itertools, json, math, os, pathlib, re, subprocess, sys

SUPPORT = pathlib.Path(__file__).resolve().parents[1] / "support"
sys.path.insert(0, str(SUPPORT))
from e2e import Case, Suite

suite = Suite(__doc__)
TIERS = ("--offload-optimizer", "nvme", "--offload-param", "host", "--offload-activation", "host")
PLANS = {
    "stage 0": ("--world-size", 1),
    "stage 3": ("--world-size", 2, "--zero-stage", 3, "--clip-grad-norm", 1),
    "accumulation": ("--world-size", 2, "--zero-stage", 2, "--grad-accumulation", 3),
    "tiers": ("--world-size", 2, "--zero-stage", 3, *TIERS, "--device-mem", "2MB", "--host-mem", "4MB", "--residency", "none"),
    "resident": ("--world-size", 2, "--zero-stage", 3, "--device-mem", "2MB"),
}
QUEUES = ("compute", "comm", "h2d", "d2h", "nvme_read", "nvme_write", "host_compute")


def expect(what, got, wanted):
    if got != wanted:
        raise Case(f"{what}: {got} instead of {wanted}")


def compiled(name):
    return suite.once(name, lambda: compile_with(name))


def compile_with(name):
    out = suite.dir / f"plan {name}".replace(" ", "-")
    out.mkdir()
    files = {"page": out / "memory.html", "trace": out / "planned.json", "plan": out / "m.plan"}
    arguments = (suite.models / "gpt2" / "ts17.onnx", *PLANS[name], "--memory-html", files["page"], "--emit-trace", files["trace"])
    files["report"] = json.loads(suite.tool("zero-compile", *arguments, "--dry-run", "--json"))
    suite.tool("zero-compile", *arguments, "-o", files["plan"])
    return files


def page(name):
    files = compiled(name)
    text = files["page"].read_text()
    if re.search(r"""(src|href)\s*=|https?:|@import|fetch\(""", text):
        raise Case("the page needs something from elsewhere")
    shown = json.loads(re.search(r'<script type="application/json" id="plan">(.*?)</script>', text, re.S).group(1))
    expect("sections", [s["name"] for s in shown["sections"]], ["micro", "update"])
    steps = [len(s["steps"]) for s in shown["sections"]]
    expect("steps", steps[0] * shown["accumulation"] + steps[1], files["report"]["plan_steps"])
    tiers = {t["name"]: t for t in shown["tiers"]}
    expect("tiers", set(tiers), {n for n, t in files["report"]["tiers"].items() if t["peak_bytes"]})
    for tier_name, tier in tiers.items():
        told = files["report"]["tiers"][tier_name]
        expect("planned", tier["arena_bytes"], told["peak_bytes"])
        expect("budget", tier["budget"], told["budget"] or 0)
        changes = tier["changes"]
        most = max(sum(bytes) for _, _, *bytes in changes)
        expect("peak", tier["peak"]["bytes"], most)
        if most > tier["arena_bytes"]:
            raise Case(f"{most} bytes in use on {tier_name} of {tier['arena_bytes']}")
        lasting = told["model_state_bytes"]["parameters"] + told["model_state_bytes"]["optimizer"]
        # Of a bucket that stays gathered the report counts this rank's part.
        extra = told["model_state_bytes"]["parameters"] * (shown["world_size"] - 1) if name == "resident" else 0
        expect("lasting model state", {bytes[0] + bytes[2] for _, _, *bytes in changes}, {lasting + extra})
        at_peak = {bytes[1] for _, _, *bytes in changes if sum(bytes) == most}
        if told["model_state_bytes"]["gradients"] not in at_peak:
            raise Case(f"gradients at the peak: {told['model_state_bytes']['gradients']} reported, {at_peak} shown")
        expect("in use at the peak", sum(s["bytes"] for s in tier["live"]) + tier["smaller"]["bytes"], most)
        unnamed = [s["name"] for s in tier["live"] if not s.get("holds") and "node" not in s]
        if any(n not in ("loss_sum", "grad_norm") and not re.fullmatch(r"bucket\d+\.norm", n) for n in unnamed):
            raise Case(f"nothing says what {unnamed} are")
        for _, index, *bytes in changes:
            if min(bytes) < 0 or index >= max(steps):
                raise Case(f"{index}: {bytes}")


def spans(path):
    events = json.loads(path.read_text())["traceEvents"]
    lanes = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    found = [e for e in events if e["ph"] == "X"]
    for event in found:
        event["lane"] = lanes[event["pid"], event["tid"]]
        expect("lane", event["lane"], QUEUES[event["tid"]])
    return found


def trace(name, device):
    files = compiled(name)
    planned = spans(files["trace"])
    busy = {}
    for event in planned:
        lane = busy.setdefault(event["lane"], [])
        if lane and event["ts"] < lane[-1] - 1e-6:
            raise Case(f"two steps at once on {event['lane']} at {event['ts']}")
        lane.append(event["ts"] + event["dur"])
    expect("training steps", {e["args"]["step"] for e in planned}, {1, 2, 3})
    total = sum(e["dur"] for e in planned if e["args"]["step"] == 3 and e["lane"] == "compute") / 1e6
    if not total <= files["report"]["predicted_step_seconds"] * (1 + 1e-9):
        raise Case(f"{total} s of compute in a step of {files['report']['predicted_step_seconds']}")
    # A real run has the same steps on the same lanes, and its profile all of their work.
    out = suite.dir / f"run-{name}-{device}".replace(" ", "-")
    data = suite.models / "gpt2" / "inputs.safetensors"
    key = lambda e: (e["args"]["section"], e["args"].get("micro", 0), e["args"]["index"], e["lane"], e["name"], e["args"]["node"])
    suite.tool("zero-run", files["plan"], "-n", files["report"]["world_size"], "--data", data, "--steps", 3, "--trace", "2:2", "--device",
               device, "--profile", "2:3", "--out", out, "--quiet", "--nvme-dir", suite.dir)
    measured = [e for e in spans(out / "trace.json") if e["pid"] == 0]
    ran, meant = set(map(key, measured)), {key(e) for e in planned if e["args"]["step"] == 2}
    if ran != meant or len(ran) != len(measured) or {e["args"]["step"] for e in measured} != {2}:
        raise Case(f"a real run on {device} has {sorted(ran - meant)[:3]} instead of {sorted(meant - ran)[:3]}")
    profile(out / "profile.html", files["report"], measured)


def profile(path, report, measured):
    """The page's figures against the plan's report and the trace of a step."""
    text = path.read_text()
    if re.search(r"""(src|href)\s*=|https?:|@import|fetch\(""", text):
        raise Case("the profile needs something from elsewhere")
    shown = json.loads(re.search(r'<script type="application/json" id="profile">(.*?)</script>', text, re.S).group(1))
    expect("steps", (shown["first_step"], shown["last_step"]), (2, 3))
    kernels = shown["kernels"]
    expect("kernels", {(k["kernel"], k["queue"]) for k in kernels}, {(e["name"], e["lane"]) for e in measured})
    expect("steps that ran", sum(k["times"] for k in kernels), len(measured))
    if abs(sum(k["flops"] for k in kernels) / report["flops"] - 1) > 1e-9:
        raise Case(f"{sum(k['flops'] for k in kernels)} operations instead of {report['flops']}")
    expect("the slowest come first", kernels, sorted(kernels, key=lambda k: -k["seconds"]))
    products = next(k for k in kernels if k["kernel"] == "matmul")
    if not 0 < products["limit"] or min(shown["flops_per_second"], shown["memory_bandwidth"]) <= 0:
        raise Case(f"no limits: {products}, {shown['flops_per_second']}")
    lost = [s["seconds"] - s["limit"] if s["limit"] else 0 for s in shown["steps"]]
    expect("most is lost first", lost, sorted(lost, reverse=True))
    if not any(s["node"] and "->" in s["operands"] for s in shown["steps"]):
        raise Case("steps without nodes or operands")


def moved():
    """The bytes that a profile takes kernels to move: of a table the rows that are picked, of queries, keys and values in one tensor that
    tensor once, of no step more than all of its operands."""
    vocabulary, width, heads, length, batch = 4096, 64, 2, 32, 2
    onnx, data, plan = suite.dir / "moved.onnx", suite.dir / "moved.safetensors", suite.dir / "moved.plan"
    subprocess.run([sys.executable, SUPPORT / "make_gpt.py", onnx, "--layers", "1", "--hidden", str(width), "--heads", str(heads), "--vocab",
                    str(vocabulary), "--seq", str(length), "--batch", str(batch), "--seed", "0", "--inputs", data], check=True, capture_output=True)
    suite.compile(onnx, plan)
    suite.tool("zero-run", plan, "--data", data, "--steps", 2, "--profile", "2:2", "--out", suite.dir / "moved", "--quiet")
    shown = json.loads(re.search(r'<script type="application/json" id="profile">(.*?)</script>', (suite.dir / "moved/profile.html").read_text(), re.S)[1])
    steps = shown["steps"]
    expect("steps", len(steps), sum(k["times"] for k in shown["kernels"]))
    width_of = {"f32": 4, "i64": 8, "u8": 1, "bool": 1, "f64": 8}

    def bytes_of(operands):
        return sum(width_of[kind] * math.prod(map(int, filter(None, sizes.split("x")))) for kind, sizes in re.findall(r"(\w+)\[([\dx]*)\]", operands))

    hidden = 4 * batch * length * width
    wanted = {"gather": 2 * hidden + 8 * batch * length, "attention_grad": 8 * hidden + 4 * batch * heads * length,
              "attention": 4 * hidden + 4 * batch * heads * length}
    for kernel, bytes in wanted.items():
        expect(f"bytes of {kernel}", {s["bytes"] for s in steps if s["kernel"] == kernel}, {bytes})
    for step in steps:
        read, _, written = step["operands"].partition("->")
        if not 0 < step["bytes"] <= bytes_of(read) + 2 * bytes_of(written):  # in place: read as well
            raise Case(f"{step['kernel']} of {step['operands']}: {step['bytes']} bytes")
    # Products of whole operands, of which nothing is picked.
    for step in steps:
        if step["kernel"] == "matmul":
            expect(f"bytes of {step['operands']}", step["bytes"], bytes_of(step["operands"]))


COMMANDS = {
    "none": (),
    "flags": ("--lr", "1e-3", "--world-size", 2, "--zero-stage", 3, "--precision", "bf16", "--offload-optimizer", "host", "--no-decay", "*bias*",
              "--no-decay", "{*ln_*,ln * ln's}"),
    "configuration": ("--config", "CONFIG", "--clip-grad-norm", 2),
    "auto": ("--auto", "--device-mem", "40MB", "--world-size", 2),
    "evaluation": ("--forward-only", "--outputs", "loss"),
}


CONFIG = suite.dir / "ds config.json"
CONFIG.write_text('{"train_micro_batch_size_per_gpu": 2, "zero_optimization": {"stage": 2}, "optimizer": {"type": "Adam", "params": {"lr": 3e-4}}}')


def command(name):
    """A plan says how it was compiled: a shell that is given that makes the same plan, to the byte."""
    flags = [CONFIG if flag == "CONFIG" else flag for flag in COMMANDS[name]]
    plan, again = suite.dir / f"{name}.plan", suite.dir / f"{name} again.plan"
    suite.compile(suite.models / "gpt2" / "ts17.onnx", plan, *flags)
    said = re.search(r"^command +(zero-compile .*) -o PLAN$", suite.tool("zero-run", "inspect", plan), re.M)
    if not said:
        raise Case("the plan does not say how it was compiled")
    done = subprocess.run(["sh", "-c", f"{said[1]} -o '{again}'"], capture_output=True, text=True,
                          env={**os.environ, "PATH": f"{suite.bin}:{os.environ['PATH']}"})
    if done.returncode:
        raise Case(f"{said[1]}: {done.stderr}")
    if plan.read_bytes() != again.read_bytes():
        raise Case(f"{said[1]}: another plan")


def recorded():
    """What is to be recorded has a step of the run, which else would end without a trace and say nothing."""
    model = suite.models / "mlp"
    plan = suite.compile(model / "ts17.onnx", suite.dir / "mlp.plan")
    run = (plan, "--data", model / "inputs.safetensors", "--steps", 2, "--out", suite.dir / "recorded", "--overwrite")
    for flag in ("--trace", "--profile"):
        text = suite.tool("zero-run", *run, flag, "3:4", code=2)
        if "no step is in 3:4: the run has 2 steps" not in text or flag not in text:
            raise Case(text)
        suite.tool("zero-run", *run, flag, "2:9")
    # Who goes on after them is told, and what was recorded stays.
    trace = suite.dir / "recorded/trace.json"
    suite.tool("zero-run", *run, "--trace", "1:2", "--profile", "1:2")
    kept = [trace.read_bytes(), (suite.dir / "recorded/profile.html").read_bytes()]
    on = subprocess.run([suite.bin / "zero-run", plan, "--data", model / "inputs.safetensors", "--steps", "4", "--resume", "auto", "--trace", "1:2",
                         "--profile", "1:2", "--out", suite.dir / "recorded"], capture_output=True, text=True)
    if on.returncode or any(f"{flag}: no step of 1:2 is left to do, nothing is recorded" not in on.stderr for flag in ("--trace", "--profile")):
        raise Case(f"exit code {on.returncode}: {on.stderr}")
    expect("recordings", [trace.read_bytes(), (suite.dir / "recorded/profile.html").read_bytes()], kept)


def told():
    """Flags that change nothing are told of."""
    model = suite.models / "mlp"
    plan = suite.dir / "told.plan"

    def says(words, said, *command):
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
        if done.returncode or (words in done.stderr) != said:
            raise Case(done.stderr)

    compiler = (suite.bin / "zero-compile", model / "ts17.onnx", "--offload-ratio", 0.5, "-o", plan)
    says("--offload-ratio changes nothing", False, *compiler, "--offload-optimizer", "host")
    says("--offload-ratio changes nothing", True, *compiler)
    four = (suite.bin / "zero-compile", model / "ts17.onnx", "-o", plan, "--world-size", 4, "--zero-stage", 3)
    nodes, quantized = ("--ranks-per-node", 2), ("--quantize-weights", "int8")
    for name, value, with_effect, without in (("--hierarchical", (), nodes, ()), ("--hierarchical-collectives", (), nodes, ("--zero-stage", 1)),
                                              ("--quantize-error-feedback", (), ("--quantize-gradients", "int4"), quantized),
                                              ("--quantize-block", (64,), quantized, ()), ("--residency", (4096,), (), quantized),
                                              ("--residency", (4096,), (), ("--zero-stage", 0))):
        command = four[:-2] if "--zero-stage" in without else four
        says(f"{name} changes nothing", False, *four, name, *value, *with_effect)
        says(f"{name} changes nothing", True, *command, name, *value, *without)
    says("--grad-accum-dtype changes nothing", False, *four, "--grad-accum-dtype", "fp32", "--precision", "bf16")
    says("--grad-accum-dtype changes nothing", True, *four, "--grad-accum-dtype", "fp32")
    says("--hierarchical-collectives changes nothing", True, *four, "--hierarchical-collectives", "--ranks-per-node", 1)
    alone = compiler[:2] + ("-o", plan, "--zero-stage", 3)
    says("--quantize-gradients changes nothing", False, *alone, "--quantize-gradients", "int4", "--world-size", 2)
    says("--quantize-gradients changes nothing", True, *alone, "--quantize-gradients", "int4")
    says("--quantize-weights and --hierarchical change nothing", False, *alone, *quantized, "--world-size", 2)
    says("--quantize-weights and --hierarchical change nothing", True, *alone, *quantized)
    one = compiler[:2] + ("-o", plan, "--residency", 4096)
    says("--residency changes nothing", False, *one, "--offload-param", "host")
    says("--residency changes nothing", True, *one)
    run = (suite.bin / "zero-run", plan, "--data", model / "inputs.safetensors", "--steps", 1, "--out", suite.dir / "told", "--overwrite")
    suite.compile(model / "ts17.onnx", plan)
    says("--nvme-dir is not used", False, *run)
    says("--nvme-dir is not used", True, *run, "--nvme-dir", suite.dir)


def refused():
    suite.tool("zero-compile", suite.models / "gpt2" / "ts17.onnx", "--memory-html", suite.dir / "no such folder" / "m.html", code=6)


# On streams it is events of the device that say when.
suite.run([(f"page {name}", lambda name=name: page(name)) for name in PLANS] +
          [(f"trace {name} on {device}", lambda of=(name, device): trace(*of)) for name, device in suite.draw(itertools.product(PLANS, ("cpu", "fake")), 5)] +
          [(f"command {name}", lambda name=name: command(name)) for name in COMMANDS] + [("no such folder", refused), ("recorded", recorded), ("moved", moved), ("told", told)])
suite.finish()
