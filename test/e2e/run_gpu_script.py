#!/usr/bin/env python3
"""test/cuda/run.sh, which is for machines with a GPU, whose minutes are few: all of its parts in miniature on threads (--device fake), so
that no name, flag or file in it is wrong. What they find is worth nothing here, that they find it is tested. Without torch what is
beside torch is skipped. A GPU's memory is told by an nvidia-smi of our own."""
import os, pathlib, re, subprocess, sys

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1] / folder) for folder in ("support", "cuda")]
import figures
from e2e import ROOT, SKIPPED, Case, Suite

suite = Suite(__doc__)
CHECKS = ("kernels", "fixtures", "streams", "bits", "tiers", "faults", "shapes")
TORCHS = ("autotune", "limits")  # nothing but torch's
FIGURES = {"H1": "tokens/s", "H2": "tokens/s", "H3": "tinyllama of 2 layers", "H4": "B parameters", "H5": "goal 1.10", "H6": "adamw on the host",
           "H8": "quantize int4", "H9": "issued in", "H10": "layer_norm", "attention": "attention_grad, ours", "H11": "nvidia-smi says"}


SMI = suite.dir / "bin/nvidia-smi"
SMI.parent.mkdir()
SMI.write_text("#!/bin/sh\necho 1234\n")
SMI.chmod(0o755)


def script(*arguments, code=0):
    torch = ROOT / "build/torch/bin/python"
    patience = ("--patience", "10", "--budget", "1600")  # minutes are few where there is a GPU
    done = subprocess.run([ROOT / "test/cuda/run.sh", suite.bin.parent, "--", "--device", "fake", *patience, *arguments], capture_output=True, text=True, timeout=1700,
                          env={**os.environ, "PATH": f"{SMI.parent}:{os.environ['PATH']}", **({"ZC_TORCH_PYTHON": str(torch)} if torch.exists() else {})})
    if done.returncode != code:
        raise Case(f"exit code {done.returncode}:\n{done.stdout[-3000:]}{done.stderr[-2000:]}")
    return done.stdout + done.stderr


def parts():
    text = script("--only", *CHECKS, *FIGURES, *TORCHS, "sanitizer")
    lines = re.findall(r"^(ok|skip|FAIL) +(\w+): (.*)$", text, re.M)
    for name in (*CHECKS, *FIGURES):
        if not any(state == "ok" and part == name and FIGURES.get(name, "") in rest for state, part, rest in lines):
            raise Case(f"{name} found nothing:\n{text[-4000:]}")
    without = "No module named 'torch'" in text
    wrong = [line for line in lines if line[0] == "skip" and not (
        line[1] == "sanitizer" or "no torch to take the memory" in line[2] or (without and "torch" in line[2]))]
    if wrong:
        raise Case(f"skipped: {wrong}")
    return f"{len(lines)} cases, {'without' if without else 'beside'} torch"


def budget():
    """What has no time left says so, part by part; with nothing checked the script is skipped, not passed."""
    text = script("--only", "H9", "H4", "--budget", "0", code=SKIPPED)
    if len(re.findall(r"^skip  .*more than 0 s are gone", text, re.M)) != 2:
        raise Case(text)


def refused():
    text = script("--only", "H7", code=2)
    if "invalid choice: 'H7'" not in text:
        raise Case(text)


KERNEL_TEST = """#!/bin/sh
case "$*" in
*--gtest_list_tests*) printf 'Softmax.\\n  sums\\nNorm.\\n  scales\\n'; exit 0 ;;
*=Norm.scales*) exit 0 ;;
esac
[ "$DIES" ] && kill -SEGV $$
echo 'error: it differs'
echo '[  FAILED  ] Softmax.sums (1 ms)'
exit 1
"""


def failures():
    """Of kernels' tests that fail, and of a program that dies: which of them do so by themselves."""
    programs = suite.dir / "failing/bin"
    programs.mkdir(parents=True)
    (programs / "zc-kernel-test").write_text(KERNEL_TEST)
    (programs / "zc-kernel-test").chmod(0o755)
    for dies in ("", "1"):
        done = subprocess.run([sys.executable, ROOT / "test/cuda/on_gpu.py", "--bin", programs, "--device", "fake", "--only", "kernels"],
                              capture_output=True, text=True, env={**os.environ, "DIES": dies}, timeout=600)
        if done.returncode != 1 or "1 by themselves: Softmax.sums\n" not in done.stdout or ("differs" in done.stdout) == bool(dies):
            raise Case(done.stdout + done.stderr)


def machines():
    """What doctor says of a GPU is understood."""
    for text, name, memory, peak in (("NVIDIA H200, 142.1 GB free of 143.8 GB, compute capability 9.0", "NVIDIA H200", 143.8e9, 989e12),
                                     ("NVIDIA H100 80GB HBM3, 84.4 GB free of 84.9 GB, compute capability 9.0", "NVIDIA H100 80GB HBM3", 84.9e9, 989e12),
                                     ("Tesla V100-SXM2-32GB, 33.9 GB, compute capability 7.0", "Tesla V100-SXM2-32GB", 33.9e9, None)):
        found = figures.machine(f"cuda          built with CUDA 13.0\nGPU 0         {text}\ncuBLASLt      13.1\n")
        if (found.name, found.memory) != (name, int(memory)) or (found.peak == found.peak and found.peak != peak):
            raise Case(f"{text}: {found[:3]}")


suite.run([("what doctor says", machines), ("kernels that fail", failures), ("all parts", parts), ("no time", budget), ("a part that is none", refused)])
suite.finish()
