#!/usr/bin/env python3
"""Plans for cuda on machines without a GPU. On --device cpu, sync and fake they have the bits of a plan for cpu, whatever was asked for
besides: workspaces differ, numbers do not. Without --device such a plan ends with exit code 4 and says what to do. Machines by name."""
import json, pathlib, re, subprocess, sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from e2e import Case, Suite, same

STEPS = 3
suite = Suite(__doc__)
UNSUPPORTED, USAGE = 4, 2


def compiled(target, model, *flags):
    name = re.sub(r"[^\w.-]+", "_", f"{target} {model} " + " ".join(map(str, flags)))
    return suite.compile(suite.models / model / "ts17.onnx", suite.dir / f"{name}.plan", "--target", target, "--bucket-size", "16KiB",
                         *flags)


def train(plan, model, world, device):
    out = suite.dir / f"{plan.stem}-{device}"
    metrics = suite.train(plan, out, "-n", world, "--device", device, "--data", suite.models / model / "inputs.safetensors",
                          "--nvme-dir", suite.dir, "--steps", STEPS)
    weights = out / "exported.safetensors"
    suite.tool("zero-run", "export", out / "final", "--safetensors", weights)
    return [m["loss"] for m in metrics], [m["grad_norm"] for m in metrics], weights.read_bytes()


def case(model, world, stage, *flags):
    def run():
        flags_ = ("--world-size", world, "--zero-stage", stage, *flags)
        expected = train(compiled("cpu", model, *flags_), model, world, "cpu")
        plan = compiled("cuda", model, *flags_)
        for device in ("cpu", "sync", "fake"):
            for what, a, b in zip(("loss", "grad_norm", "weights"), train(plan, model, world, device), expected):
                same(f"{what} on {device}", a, b)

    return " ".join(map(str, [model, f"W={world} stage {stage}", *flags])), run


def refused():
    """No GPU, or no plugin: one line, and what to do."""
    plan = compiled("cuda", "gpt2")
    command = [suite.bin / "zero-run", plan, "--quiet", "--out", suite.dir / "refused", "--data",
               suite.models / "gpt2" / "inputs.safetensors"]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=600)
    if done.returncode != UNSUPPORTED or len(re.findall(r"error\[Z\d+\]", done.stderr)) != 1 or "--device cpu" not in done.stderr:
        raise Case(f"exit code {done.returncode}: {done.stderr}")


def workspaces():
    """Those of the target's kernels: of a GPU's cross entropy and reductions, which have none on a CPU."""
    counts = [suite.tool("zero-run", "inspect", compiled(target, "gpt2", "--world-size", 2), "--text").count("workspace {")
              for target in ("cpu", "cuda")]
    if counts[0] >= counts[1]:
        raise Case(f"{counts[0]} steps with a workspace on cpu, {counts[1]} on cuda")


def machines():
    """What a machine's name means, beside a target and beside a file."""
    model = suite.models / "gpt2" / "ts17.onnx"
    seconds = {}
    for name in ("h200", "h100", "a100-80", "v100-32"):
        plan = suite.compile(model, suite.dir / f"{name}.plan", "--machine", name)
        if not re.search(r"^target +cuda$", suite.tool("zero-run", "inspect", plan), re.M):
            raise Case(f"--machine {name} is not for cuda")
        report = json.loads(suite.tool("zero-compile", model, "--machine", name, "--dry-run", "--json"))
        seconds[name] = report["predicted_step_seconds"]
    if sorted(seconds, key=seconds.get) != list(seconds):
        raise Case(f"predicted: {seconds}")
    plan = suite.compile(model, suite.dir / "mixed.plan", "--machine", "h200", "--target", "cpu")
    if "cuda" in suite.tool("zero-run", "inspect", plan):
        raise Case("--target does not win over --machine")
    predicted = lambda *flags: json.loads(suite.tool("zero-compile", model, *flags, "--dry-run", "--json"))["predicted_step_seconds"]
    if not predicted("--machine", "h100,memory_bandwidth=1e9,flops_per_second=1e10") > 2 * seconds["h100"]:
        raise Case("rates beside a machine's name count for nothing")
    for machine, said in (("h300", 'did you mean "h200"?'), ("h101", 'did you mean "h100"?'), ("H100", 'did you mean "h100"?'),
                          ("a100", 'did you mean "a100-80"?'), ("tpu", "there are h200, h100"), ("h100,flop_per_second=1", 'did you mean "flops_per_second"?'),
                          ("h100,speed=1", "there are flops_per_second"), ("h100,flops_per_second=0", "no positive number"),
                          ("h100,flops_per_second=1e999", "no positive number"), ("h100,flops_per_second", "no positive number"), ("h100,", "is no rate")):
        if said not in suite.tool("zero-compile", model, "--machine", machine, "--dry-run", code=USAGE):
            raise Case(f"--machine {machine} does not say {said}")
    suite.tool("zero-compile", model, "--target", "gpu", "--dry-run", code=USAGE)


suite.run([case("gpt2", 2, 3), case("gpt2", 2, 2, "--offload-optimizer", "host", "--clip-grad-norm", "0.1", "--precision", "bf16"),
           case("gpt2", 4, 3, "--ranks-per-node", 2, "--quantize-weights", "int8", "--hierarchical", "--quantize-gradients", "int4"),
           case("gpt2", 1, 0, "--precision", "fp16", "--grad-accumulation", 2)])
# Plans for GPUs have no channels-last convolutions, whose sums are cut otherwise.
suite.run([case(model, 2, 3, "--clip-grad-norm", "0.1", "--layout", "nchw") for model in ("mlp", "llama", "resnet", "vit")
           if (suite.models / model / "ts17.onnx").exists()])
suite.run([("no GPU", refused), ("workspaces", workspaces), ("machines", machines)])
suite.finish()
