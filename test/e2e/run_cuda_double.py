#!/usr/bin/env python3
"""The plugin for GPUs without a GPU: its own sources beside a double of CUDA (test/cuda/double). What test/cuda/on_gpu.py asks of a GPU, and
what a GPU or a driver may be like: several GPUs, none, too little memory, memory of the host that cannot be pinned, streams that cannot wait
for words, no way from one GPU to another, a GPU that is lost. The double says which rule of CUDA's was broken: nothing may be said."""
import json, os, pathlib, re, subprocess, sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from e2e import ROOT, Case, Skip, Suite, same

suite = Suite(__doc__)
programs = suite.bin / "double"
STEPS = 4
UNSUPPORTED, BUDGET, PEER_LOST = 4, 5, 7
libraries = suite.dir / "libraries"  # none of NVIDIA's, and what the double of NVRTC compiled
libraries.mkdir()
environment = {**os.environ, "XDG_CACHE_HOME": str(libraries), "ZC_CUDA_DOUBLE_CACHE": str(libraries)}
OFFLOADED = ("--offload-optimizer", "host", "--offload-param", "host")


def run_silently(name, command, **more):
    """The process, which the double has nothing to say of."""
    says = suite.dir / f"{name}.says"
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True,
                          env={**environment, "ZC_CUDA_DOUBLE_SAYS": str(says), **more}, timeout=900)
    if says.exists():
        raise Case(f"against CUDA's rules: {says.read_text()[:2000]}")
    return done


def checks(*parts):
    """on_gpu.py's, each of which compares bits or errors."""
    def run():
        done = run_silently("-".join(parts), [sys.executable, ROOT / "test/cuda/on_gpu.py", "--bin", programs, "--only", *parts])
        lines = re.findall(r"^(?:ok|skip|FAIL) .*$", done.stdout, re.M)
        passed = [line for line in lines if line.startswith("ok")]
        wrong = [line for line in lines if line not in passed and not re.search("no torch to take the memory|s are gone", line)]
        if done.returncode or wrong or 2 * len(passed) < len(lines) or not passed:  # a loaded machine has no time for some
            raise Case(f"exit code {done.returncode}:\n{done.stdout[-3000:]}{done.stderr[-2000:]}")
        return f"{len(passed)} cases of {len(lines)}"
    return f"on_gpu.py {' '.join(parts)}", run


def compiled(*flags):
    plan = suite.dir / (re.sub(r"\W+", "_", " ".join(flags)) + ".plan")
    if not plan.exists():
        suite.compile(suite.models / "gpt2/ts17.onnx", plan, "--target", "cuda", "--world-size", "2", "--zero-stage", "3", "--bucket-size", "16KiB",
                      "--clip-grad-norm", "0.1", *flags)
    return plan


def trained(double, device, *flags):
    """Exit code, what is said on stderr, and metrics of each step, on a double with these properties."""
    out = suite.dir / f"{compiled(*flags).stem}-{device}-{re.sub(chr(92) + 'W+', '_', double)}"
    done = run_silently(out.name, [programs / "zero-run", compiled(*flags), "-n", 2, "--device", device, "--steps", STEPS, "--out", out, "--data",
                                   suite.models / "gpt2/inputs.safetensors"], ZC_CUDA_DOUBLE=double)
    lines = (out / "metrics.jsonl").read_text().splitlines() if (out / "metrics.jsonl").exists() else []
    return done.returncode, done.stdout + done.stderr, [(m["loss"], m["grad_norm"]) for m in map(json.loads, lines)]


def like_one_gpu(double, expected, *flags):
    """The bits of a run step by step, and a note that contains `expected`."""
    def run():
        got = trained(double, "cuda", *flags)
        if got[0] or len(got[2]) != STEPS or expected not in got[1]:
            raise Case(f"exit code {got[0]}: {got[1][-2000:]}")
        same("losses and norms", got[2], stepwise[flags][2])
    return f"{double} {' '.join(flags)}", run


def refused(double, code, expected, steps=0, flags=()):
    """The exit code, one error that contains `expected`, and no more steps than these."""
    def run():
        got = trained(double, "cuda", *flags)
        errors = re.findall(r"^error.*$", got[1], re.M)
        if got[0] != code or len(errors) != 1 or not re.search(expected, errors[0]) or len(got[2]) > steps:
            raise Case(f"exit code {got[0]}, {len(got[2])} steps: {got[1][-1500:]}")
        return errors[0]
    return f"{double} {' '.join(flags)}: exit code {code}", run


if not (programs / "libzc_cuda.so").exists():
    suite.run([("all", lambda: (_ for _ in ()).throw(Skip("no headers of CUDA were found when this was built: see test/cuda/double")))])
    suite.finish()
stepwise = {flags: trained("gpus=1", "cuda-sync", *flags) for flags in ((), OFFLOADED)}
suite.run([checks("fixtures"), checks("streams", "bits", "tiers", "faults")])
suite.run([like_one_gpu(double, expected, *flags) for double, expected in (
               ("gpus=1", "2 ranks share one GPU"), ("gpus=2", ""), ("waits=0", ""), ("gpus=2,pins=0", "cannot be pinned"), ("gpus=2,waits=0", ""))
           for flags in ((), OFFLOADED) if flags or "pins" not in double])
suite.run([refused("gpus=0", UNSUPPORTED, "no GPU can be used"), refused("gpus=2,peers=0", UNSUPPORTED, "cannot read the memory of GPU"),
           refused("memory=1000000", BUDGET, r"needs \d+ MiB of device memory, GPU 0 has \d+ MiB free"),
           refused("memory=1000000,context=2000000", BUDGET, r"needs \d+ MiB of device memory, GPU 0 has 0 MiB free of 0 MiB: too little for CUDA's context"),
           refused("memory=1000000,context=2000000,nvml=0", BUDGET, r"needs \d+ MiB of device memory, GPU 0 has too little free for CUDA's context"),
           *(refused(f"{gpus}lost={kernel}", PEER_LOST, "the GPU is lost", STEPS - 1, flags)
             for flags in ((), OFFLOADED) for gpus in ("", "gpus=2,") for kernel in (1, 150, 400))])
suite.finish()
