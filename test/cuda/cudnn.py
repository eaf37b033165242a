#!/usr/bin/env python3
"""Which graphs cuDNN takes on an H200 that is described: zc-cudnn-test beside a driver that is none. Needs cuDNN and cuBLASLt
(tools/setup.sh --cuda-libraries: 1.5 GB), and is skipped where they are not, or where there is a driver."""
import os, pathlib, subprocess, sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from e2e import Case, Skip, Suite

suite = Suite(__doc__)


def graphs():
    if pathlib.Path("/dev/nvidiactl").exists():
        raise Skip("there is a GPU: test/cuda/run.sh runs what is built")
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "zero-compile/cuda/lib"
    folders = [*os.environ.get("ZERO_CUDA_LIBRARIES", "").split(":"), str(cache)]
    if not any(folder and pathlib.Path(folder, "libcudnn.so.9").exists() for folder in folders):
        raise Skip("no libcudnn.so.9 (tools/setup.sh --cuda-libraries brings it)")
    path = ":".join([str(suite.bin / "no-driver"), *filter(None, folders), "/usr/local/cuda/lib64"])
    done = subprocess.run([suite.bin / "zc-cudnn-test"], capture_output=True, text=True, timeout=900,
                          env={**os.environ, "LD_LIBRARY_PATH": path})
    if done.returncode:
        raise Case(done.stdout[-2000:] + done.stderr[-1000:])
    return done.stdout.strip().splitlines()[-1].strip()


suite.run([("graphs for an H200", graphs)])
suite.finish()
