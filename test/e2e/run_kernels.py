#!/usr/bin/env python3
"""Who computes each step of a plan for a GPU, asked without one (zero-run inspect --kernels): over every export here, precisions,
stages, tiers, ZeRO++ and tilings, each day others of them, no step is without an implementation, but for those that MISSING counts. On CPUs the same."""
import collections, itertools, json, pathlib, re, subprocess, sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from e2e import ROOT, Case, Suite

suite = Suite(__doc__)
exports = pathlib.Path(__file__).resolve().parent / "exports"
families = json.loads((exports / "golden.json").read_text())
MISSING = {}  # kernel: steps without an implementation on cuda over all cases. Only fewer are allowed.
PRECISIONS, OFFLOAD = ("fp32", "bf16", "fp16"), ("--offload-optimizer", "--offload-param", "--offload-activation")
VARIANTS = [("--world-size", 2, "--zero-stage", stage, "--precision", precision, "--clip-grad-norm", 1)
            for stage in range(4) for precision in PRECISIONS]
VARIANTS += [("--world-size", 2, "--zero-stage", 3, "--precision", precision, *(word for flag in OFFLOAD for word in (flag, tier)))
             for tier in ("host", "nvme") for precision in ("fp32", "bf16")]
VARIANTS += [("--world-size", 4, "--ranks-per-node", 2, "--zero-stage", 3, "--quantize-weights", "int8", "--hierarchical",
              "--quantize-gradients", "int4", "--precision", precision) for precision in PRECISIONS]
VARIANTS += [("--zero-stage", 3, "--world-size", 2, "--tile-linear", "16KiB"), ("--forward-only",),
             ("--grad-accumulation", 2, "--optimizer", "momentum", "--checkpoint-activations", "block")]
missing = []


def inspect(name, model, target, *flags):
    """Kernels of the steps that nobody computes."""
    stem = re.sub(r"[^\w.-]+", "_", f"{name} {target} " + " ".join(map(str, flags)))
    plan = suite.compile(model, suite.dir / f"{stem}.plan", "--target", target, *flags)
    text = suite.tool("zero-run", "inspect", plan, "--kernels")
    lines = text.splitlines()
    none = [line.split()[0] for line in lines[:-1] if " no implementation " in line for _ in range(int(line.split()[-1]))]
    count = int(re.fullmatch(rf"{target}: .*, without an implementation (\d+)", lines[-1])[1])
    if count != len(none) or len(lines) < 2:
        raise Case(f"{count} steps without an implementation, {len(none)} are listed")
    plan.unlink()
    return none


def case(name, model, *flags):
    def run():
        missing.extend(inspect(name, model, "cuda", *flags))

    return " ".join(map(str, [name, *flags])), run


def on_cpu(name, model):
    def run():
        if none := inspect(name, model, "cpu"):
            raise Case(f"nobody computes {none}")

    return f"{name} on cpu", run


def nobody():
    """Of a plan that another version wrote: a kernel that this one has not."""
    plan = suite.compile(suite.models / "gpt2/ts17.onnx", suite.dir / "gelu.plan", "--fuse", "off")
    text = suite.tool("zero-translate", "--plan-to-mlir", plan)
    if '"gelu"' not in text:
        raise Case("no kernel gelu in the plan")
    (suite.dir / "gelu.mlir").write_text(text.replace('"gelu"', '"gelu_of_tomorrow"'))
    suite.tool("zero-translate", "--mlir-to-plan", suite.dir / "gelu.mlir", "-o", plan)
    done = subprocess.run([suite.bin / "zero-run", "inspect", plan, "--kernels"], capture_output=True, text=True, timeout=600)
    lines = [line.split(None, 1) for line in done.stdout.splitlines()]
    steps = [int(rest.split()[-1]) for kernel, rest in lines if kernel == "gelu_of_tomorrow" and rest.startswith("no implementation ")]
    if done.returncode != 4 or not steps or f"without an implementation {steps[0]}" not in done.stdout or "gelu_of_tomorrow" not in done.stderr:
        raise Case(f"exit code {done.returncode}: {done.stdout[-1000:]}{done.stderr}")
    return f"{steps[0]} steps"


def head(precision):
    """A head with its loss is one step, which the library's products make."""
    def run():
        model = suite.dir / f"head-{precision}.onnx"  # of its own: cases run beside each other
        subprocess.run([sys.executable, ROOT / "test/support/make_gpt.py", model, *"--layers 1 --hidden 64 --heads 2 --vocab 8192 --seq 512 --batch 10".split()],
                       check=True, capture_output=True)
        plan = suite.compile(model, suite.dir / f"head-{precision}.plan", "--target", "cuda", "--precision", precision)
        text = suite.tool("zero-run", "inspect", plan, "--kernels")
        if not re.search(r"^linear_cross_entropy_grad +.*cuBLASLt", text, re.M) or "without an implementation 0" not in text:
            raise Case(text)
    return f"head {precision}", run


def check():
    if more := collections.Counter(missing) - collections.Counter(MISSING):
        raise Case(f"without an implementation on cuda: {dict(more)} beside {MISSING}")


models = {f"{path.parent.name}/{path.stem}": path for path in sorted(suite.models.glob("*/*.onnx"))
          if path.stem != "dynamo23_sdpa_dropout"}  # PyTorch's exporter adds a mask of bools to scores there: refused
DIMS = ("--dim", "batch=2", "--dim", "seq=16")
suite.run([case(name, models[name], *(DIMS if "dynbatch" in name else ()), *flags) for name, flags in suite.draw(itertools.product(models, VARIANTS), 200)])
suite.run([case(name, exports / f"{name}.onnx", *families[name]["flags"], "--precision", precision)
           for name, precision in suite.draw(itertools.product(families, ("fp32", "bf16")), len(families))])
suite.run([on_cpu(name, model) for name, model in models.items() if "dynbatch" not in name])
suite.run([head(precision) for precision in PRECISIONS] + [("a kernel that nobody has", nobody)])
if not suite.args.filter:
    suite.run([("what is missing", check)])
suite.finish()
