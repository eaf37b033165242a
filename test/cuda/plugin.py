#!/usr/bin/env python3
"""libzc_cuda.so where there is no GPU: it loads, says what is missing in one line, and the run ends with exit code 4. With ZC_BIN's
programs; cases that need a plan take zero-compile from there or from build/release/bin."""
import os, pathlib, shutil, subprocess, sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from e2e import ROOT, Case, Skip, Suite

suite = Suite(__doc__)
UNSUPPORTED = 4


def has_gpu():
    return pathlib.Path("/dev/nvidiactl").exists()


def compiled():
    for folder in (suite.bin, ROOT / "build/release/bin"):
        if (folder / "zero-compile").exists():
            made = suite.dir / "g.plan"
            done = subprocess.run([folder / "zero-compile", suite.models / "mlp/ts17.onnx", "-o", made], capture_output=True, text=True)
            if done.returncode == 0:
                return made
    raise Skip("no zero-compile")


def refused(device, programs, expected, environment=None):
    """A run ends with exit code 4 and one line that contains `expected`."""
    if has_gpu():
        raise Skip("there is a GPU")
    command = [programs / "zero-run", suite.once("plan", compiled), "--device", device, "--steps", "1", "--quiet", "--data", suite.models / "mlp/inputs.safetensors",
               "--out", suite.dir / f"out-{device}-{programs.name}"]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=60, env={**os.environ, **(environment or {})})
    errors = [line for line in done.stderr.splitlines() if line.startswith("error")]
    if done.returncode != UNSUPPORTED or len(errors) != 1 or expected not in errors[0]:
        raise Case(f"exit code {done.returncode}: {done.stderr.strip()[-800:]}")
    if "help" not in done.stderr:
        raise Case(f"it does not say what to do: {done.stderr}")
    return errors[0]


def without_plugin():
    alone = suite.dir / "alone"
    alone.mkdir(exist_ok=True)
    shutil.copy(suite.bin / "zero-run", alone)
    return refused("cuda", alone, "there is no \"libzc_cuda.so\" beside the program")


def broken_plugin():
    broken = suite.dir / "broken"
    broken.mkdir(exist_ok=True)
    shutil.copy(suite.bin / "zero-run", broken)
    (broken / "libzc_cuda.so").write_text("no library")
    return refused("cuda", broken, "the CUDA part cannot be loaded")


def doctor():
    text = suite.tool("zero-run", "doctor")
    lines = {line.split()[0]: line for line in text.splitlines() if line}
    if not has_gpu() and "no NVIDIA driver on this machine: install NVIDIA's driver" not in lines.get("cuda", ""):
        raise Case(text)
    for name, package in (("cuBLASLt", "nvidia-cublas"), ("cuDNN", "nvidia-cudnn-cu13"), ("NVRTC", "nvidia-cuda-nvrtc"), ("NCCL", "nvidia-nccl-cu13")):
        if name not in lines or ("cannot be loaded" in lines[name] and package not in lines[name]):
            raise Case(f"of {name} doctor says: {lines.get(name)}")
    return lines["cuda"]


def libraries_are_found():
    """A library in a folder of ZERO_CUDA_LIBRARIES is loaded, and says its version."""
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "zero-compile/cuda/lib"
    if not (cache / "libnccl.so.2").exists():
        raise Skip("tools/setup.sh --cuda-libraries has not been run")
    done = subprocess.run([suite.bin / "zero-run", "doctor"], capture_output=True, text=True,
                          env={**os.environ, "ZERO_CUDA_LIBRARIES": f"/nonexistent:{cache}"})
    line = [line for line in done.stdout.splitlines() if line.startswith("NCCL")][0]
    if str(cache) not in line:
        raise Case(line)
    return line


def old_nccl():
    """A library without a function that is used: doctor says so, before a job does. It is taken from the folder that was named, whatever the
    loader would find."""
    folder, elsewhere = suite.dir / "old", suite.dir / "elsewhere"
    compiler = shutil.which("cc")
    if not compiler:
        raise Skip("no cc")
    for place, version in ((folder, 20403), (elsewhere, 20404)):
        place.mkdir(exist_ok=True)
        subprocess.run([compiler, "-shared", "-fPIC", "-x", "c", "-", "-o", place / "libnccl.so.2"], check=True, text=True,
                       input=f"int ncclGetVersion(int *version) {{ *version = {version}; return 0; }}")
    done = subprocess.run([suite.bin / "zero-run", "doctor"], capture_output=True, text=True,
                          env={**os.environ, "ZERO_CUDA_LIBRARIES": str(folder), "LD_LIBRARY_PATH": str(elsewhere)})
    line = [line for line in done.stdout.splitlines() if line.startswith("NCCL")][0]
    if str(folder) not in line or "2.4.3" not in line or 'has no function "ncclGetUniqueId"' not in line or "nvidia-nccl-cu13" not in line:
        raise Case(line)
    return line


def builtins_of_nvrtc():
    """NVRTC compiles with a library that it looks for by name: one that lies beside it is found, and doctor says where there is none."""
    folder = suite.dir / "nvrtc"
    folder.mkdir(exist_ok=True)
    compiler = shutil.which("cc")
    if not compiler:
        raise Skip("no cc")

    def make(name, text):
        subprocess.run([compiler, "-shared", "-fPIC", "-x", "c", "-", "-o", folder / name], check=True, text=True, input=text)

    def said():
        done = subprocess.run([suite.bin / "zero-run", "doctor"], capture_output=True, text=True, env={**os.environ, "ZERO_CUDA_LIBRARIES": str(folder)})
        return [line for line in done.stdout.splitlines() if line.startswith("NVRTC")][0]

    make("libnvrtc.so.13", "int nvrtcVersion(int *major, int *minor) { *major = 13; *minor = 77; return 0; }")
    alone = said()
    if str(folder) not in alone:
        raise Case(alone)
    make("libnvrtc-builtins.so.13.77", "int none;")
    if "libnvrtc-builtins.so.13.77" not in alone or "builtins" in said():
        raise Case(f"without: {alone}; with: {said()}")
    return alone


def links_nothing():
    """zero-run needs no library of CUDA, and the plugin none that a machine without a driver lacks."""
    for name in ("zero-run", "libzc_cuda.so"):
        text = subprocess.run(["readelf", "-d", suite.bin / name], capture_output=True, text=True, check=True).stdout
        wrong = [line for line in text.splitlines() if "NEEDED" in line and any(w in line for w in ("cuda", "cublas", "cudnn", "nccl"))]
        if wrong:
            raise Case(f"{name} needs {wrong}")


suite.run([("doctor says what is missing", doctor), ("nothing of CUDA is linked", links_nothing),
           ("libraries are found", libraries_are_found), ("an NCCL that is too old", old_nccl),
           ("an NVRTC without its built-in functions", builtins_of_nvrtc)])
suite.run([(f"{device} without a driver", lambda device=device: refused(device, suite.bin, "there is no NVIDIA driver on this machine"))
           for device in ("cuda", "cuda-sync")])
suite.run([("without the plugin", without_plugin), ("a plugin that cannot be loaded", broken_plugin)])
suite.finish()
