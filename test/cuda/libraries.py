#!/usr/bin/env python3
"""What NVIDIA's libraries take for GPUs that are not here. cuDNN: graphs for an H200 that is described, by zc-cudnn-test beside a
driver that is none. NVRTC: random fused programs, by zc-nvrtc-test. Needs the libraries (tools/setup.sh --cuda-libraries: 1.5 GB); what
they are not there for is skipped."""
import os, pathlib, subprocess, sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from e2e import Case, Skip, Suite

suite = Suite(__doc__)


cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "zero-compile/cuda/lib"
folders = [*os.environ.get("ZERO_CUDA_LIBRARIES", "").split(":"), str(cache), "/usr/local/cuda/lib64"]
folders = [folder for folder in folders if folder]


def run(test, library, *path):
    """Libraries are found as the plugin finds them, not by the loader, which knows none of a wheel's folders."""
    if not any(pathlib.Path(folder, library).exists() for folder in folders):
        raise Skip(f"no {library} (tools/setup.sh --cuda-libraries brings it)")
    done = subprocess.run([suite.bin / test], capture_output=True, text=True, timeout=900,
                          env={**os.environ, "LD_LIBRARY_PATH": ":".join(path), "ZERO_CUDA_LIBRARIES": ":".join(folders)})
    if done.returncode:
        raise Case(done.stdout[-2000:] + done.stderr[-1000:])
    return done.stdout.strip().splitlines()[-1].strip()


def graphs():
    if pathlib.Path("/dev/nvidiactl").exists():
        raise Skip("there is a GPU: test/cuda/run.sh runs what is built")
    return run("zc-cudnn-test", "libcudnn.so.9", str(suite.bin / "no-driver"))


suite.run([("graphs for an H200", graphs), ("fused programs", lambda: run("zc-nvrtc-test", "libnvrtc.so.13"))])
suite.finish()
