#!/usr/bin/env python3
"""The planned peak is the peak: what a run has resident, beyond what a one-layer model of its kind has, is at most what its
arenas have, times 1.01 and 32 MiB, for threads and for processes as ranks. A steady step allocates nothing: of a ResNet, by oneDNN's
AVX2 too, and of a language model whose head and loss are one operation (its products by OpenBLAS: oneDNN's sgemm asks for what it
packs factors into at each call, 5 MB of a thread at most). Attention's memory is linear in a sequence's positions."""
import os, pathlib, shutil, subprocess, sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from e2e import ROOT, Case, Suite
from onnx_write import FLOAT, Graph, value_info
import json

suite = Suite(__doc__)
SUPPORT = ROOT / "test/support"
# Maker, flags of the model, flags of the small one.
MODELS = {
    "resnet": ("make_resnet.py", "--depth 18 --image 64 --batch 24 --classes 10 --rows 96", "--stages 1 --image 32 --batch 2"),
    "gpt": ("make_gpt.py", "--layers 6 --hidden 256 --heads 4 --vocab 4096 --seq 256 --batch 8 --rows 32",
            "--layers 1 --hidden 64 --seq 16 --batch 2"),
    "bert": ("make_gpt.py", "--bidirectional --layers 4 --hidden 256 --heads 4 --vocab 4096 --seq 256 --batch 8 --rows 32",
             "--layers 1 --hidden 64 --seq 16 --batch 2"),
    # logits of which a few rows exist at a time (fuse-head)
    "head": ("make_gpt.py", "--layers 1 --hidden 32 --heads 2 --vocab 8192 --seq 256 --batch 4 --rows 8", "--seq 16"),
}
SLACK = 32 << 20


def model(name, small):
    return suite.dir / f"{name}-{'small' if small else 'large'}.onnx"


def make_models():
    for name, (maker, flags, less) in MODELS.items():
        for small in (False, True):
            path = model(name, small)
            subprocess.run([sys.executable, SUPPORT / maker, path, "--seed", "0", "--inputs", path.with_suffix(".safetensors"),
                            *flags.split(), *(less.split() if small else [])], check=True, capture_output=True)


def resident(name, small, ranks, mpi, *flags):
    """Bytes of the largest process, and those of its ranks' arenas in memory."""
    path, out = model(name, small), suite.dir / f"{name}-{small}-{ranks}-{mpi}-{len(flags)}"
    out.mkdir()
    suite.tool("zero-compile", path, "--world-size", ranks, *flags, "-o", out / "plan")
    planned = json.loads(suite.tool("zero-compile", path, "--world-size", ranks, *flags, "--dry-run", "--json"))["tiers"]
    start = suite.mpirun(ranks) if mpi else []
    command = [*start, sys.executable, SUPPORT / "resident.py", out, suite.bin / "zero-run", out / "plan", "--threads", 1, "--steps", 2,
               "--data", path.with_suffix(".safetensors"), "--quiet", "--out", out / "run", *([] if mpi else ["-n", ranks])]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=600)
    if done.returncode:
        raise Case(f"exit code {done.returncode}: {done.stderr[-1500:]}")
    processes = [int(file.read_text()) for file in out.iterdir() if file.name.isdigit()]
    arenas = sum(tier["peak_bytes"] for kind, tier in planned.items() if kind != "nvme")
    return max(processes), arenas * (1 if mpi else ranks)


def bounded(name, ranks, mpi, *flags):
    large, planned = resident(name, False, ranks, mpi, *flags)
    small, _ = resident(name, True, ranks, mpi, *flags)
    most = planned * 1.01 + SLACK
    if large - small > most:
        raise Case(f"{large - small} bytes more than a small model's are resident, {planned} are planned")
    return f"{(large - small) / 1e6:.0f} MB of {planned / 1e6:.0f} planned"


def core_type():
    """OpenBLAS takes processors that are younger than it for old ones, whose products take ten times as long."""
    words = pathlib.Path("/proc/cpuinfo").read_text().split()
    return next(({"OPENBLAS_CORETYPE": core} for flag, core in (("avx512bw", "SkylakeX"), ("avx2", "Haswell")) if flag in words), {})


def by_openblas(plan, threads):
    """A table of products that names OpenBLAS for all of the plan's."""
    path = plan.with_suffix(".products")
    subprocess.run(list(map(str, [suite.bin / "zero-run", "bench-machine", plan, "--threads", threads, "--rounds", 1, "-o", path])), check=True,
                   env={**os.environ, **core_type()}, capture_output=True)
    table = json.loads(path.read_text())
    for product in table["products"]:
        product["method"] = "openblas"
    path.write_text(json.dumps(table))
    return path


def steady_step(name, small, steps, threads, precision, isa="DEFAULT"):
    """Calls of malloc and its kin, of all threads, while steps from the third on run. `isa`: the best that oneDNN may use."""
    counter = next(suite.bin.parent.rglob("libcount_malloc.so"), None)
    if counter is None:
        raise Case("libcount_malloc.so is not built")
    path, run = model(name, small), f"steady-{model(name, small).stem}{threads}-{precision}-{isa}"
    plan = suite.dir / f"{run}.plan"
    suite.tool("zero-compile", path, "--precision", precision, "-o", plan)
    products = by_openblas(plan, threads) if (name, precision) == ("head", "fp32") else "none"
    command = [suite.bin / "zero-run", plan, "--threads", threads, "--steps", steps, "--data", path.with_suffix(".safetensors"), "--quiet",
               "--no-final", "--products", products, "--out", suite.dir / run]
    for control, expected in (({}, 0), ({"ZC_COUNT_ITSELF": "1"}, steps - 2)):
        done = subprocess.run([*map(str, command), "--overwrite"], check=True, capture_output=True,
                              env={**os.environ, **core_type(), "ONEDNN_MAX_CPU_ISA": isa, "LD_PRELOAD": str(counter), **control})
        calls = json.loads(done.stdout.splitlines()[-1])["steady_allocations"]
        if calls != expected:
            raise Case(f"{steps - 2} steps allocate {calls} times, of which {expected} are the counter's")
    return f"{steps - 2} steps"


def long_gpt(path, positions):
    subprocess.run([sys.executable, SUPPORT / "make_gpt.py", path, *"--seed 0 --layers 1 --hidden 256 --heads 4 --vocab 512 --batch 1".split(),
                    "--seq", str(positions)], check=True, capture_output=True)


def long_window(path, positions):
    """Of which each sees the 1,024 last ones: no table of positions."""
    g = Graph("window")
    g.inputs, g.outputs = [value_info("x", FLOAT, [1, positions, 256])], [value_info("loss", FLOAT, [])]
    joined = g.op("MatMul", ["x", g.parameter("w", [256, 768], 0.02)])
    heads = g.op("Split", [joined, g.constant([256] * 3)], count=3, axis=2)
    y = g.op("Attention", heads, q_num_heads=4, kv_num_heads=4, is_causal=1, left_window_size=1023)
    g.op("ReduceMean", [y], outputs=["loss"], keepdims=0)
    g.write(str(path), 0, opset=25)


def long_sequences(kind, target):
    """A step of 32K positions on four heads is planned within 1 GiB, and memory grows with the positions, not with their square."""
    peaks = []
    for positions in (8192, 32768):
        path = suite.dir / f"{kind.__name__}-{target}-{positions}.onnx"
        kind(path, positions)
        peaks.append(json.loads(suite.tool("zero-compile", path, "--target", target, "--dry-run", "--json"))["tiers"]["device"]["peak_bytes"])
    if peaks[1] > 1 << 30 or peaks[1] > 4 * peaks[0]:
        raise Case(f"{peaks} bytes")
    return f"{peaks[1] / 2**20:.0f} MiB"


make_models()
cases = [(f"32K positions on {target}{', a window of 1,024' if kind is long_window else ''}", lambda kind=kind, target=target: long_sequences(kind, target))
         for kind in (long_gpt, long_window) for target in ("cpu", "cuda")]
for name in MODELS:
    for ranks in (1, 2):
        cases.append((f"{name} W={ranks}", lambda name=name, ranks=ranks: bounded(name, ranks, False)))
cases.append(("resnet bf16", lambda: bounded("resnet", 1, False, "--precision", "bf16")))
if shutil.which("mpirun") and (suite.bin / "libzc_mpi.so").exists():
    cases += [(f"{name} W=2 mpi", lambda name=name: bounded(name, 2, True)) for name in ("resnet", "gpt")]
for name, small, steps in (("resnet", True, 62), ("head", False, 17)):
    for threads in (1, 2):
        for precision in ("fp32", "bf16"):
            cases.append((f"a steady step of {name} in {precision}, {threads} threads",
                          lambda run=(name, small, steps, threads, precision): steady_step(*run)))
# All four stages: the last one's filters are larger than its images.
for isa in ("DEFAULT", "AVX2"):
    for precision in ("fp32", "bf16"):
        cases.append((f"a steady step of resnet's four stages in {precision}, oneDNN's best {isa}",
                      lambda run=("resnet", False, 6, 2, precision, isa): steady_step(*run)))
suite.run(cases)
suite.finish()
