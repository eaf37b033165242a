"""The parts beside the training step: gloo and Open MPI collectives, NVMe I/O, math libraries. usage: parts.py [gloo] [mpi] [aio] [gemm]"""

import json, os, shutil, subprocess, sys, tempfile
import quiet

here = os.path.dirname(os.path.abspath(__file__))
py, tmp = sys.executable, tempfile.mkdtemp(prefix="peers")
env = dict(
    os.environ,
    DS_ACCELERATOR="cpu",
    TORCH_CPP_LOG_LEVEL="ERROR",
    PYTHONWARNINGS="ignore",
    PATH=os.path.dirname(py) + ":" + os.environ["PATH"],
)
what = sys.argv[1:] or ["gloo", "mpi", "aio"]


def go(cmd, **kw):
    out, rc, err, foreign = quiet.run(cmd, env=dict(env, **kw), cwd=here)
    for x in out:
        print(json.dumps(dict(json.loads(x), foreign_cores=foreign)), flush=True)
    if rc:
        print(json.dumps(dict(cmd=" ".join(os.path.basename(c) for c in cmd), failed=rc, error=err[-600:])), flush=True)


if "gloo" in what:
    for W in ("2", "4"):
        go([py, "col.py", W])
if "mpi" in what:
    exe = os.path.join(tmp, "mpicol")
    if shutil.which("mpicc") is None:
        print(json.dumps(dict(bench="collective", peer="openmpi", failed="mpicc not found")))
    else:
        subprocess.run(["mpicc", "-O3", "mpicol.c", "-o", exe], check=True, cwd=here)
        for W in ("2", "4"):
            for how in ("cma", "emulated", "none"):
                go(
                    [
                        "mpirun",
                        "--allow-run-as-root",
                        "--oversubscribe",
                        "-np",
                        W,
                        "--mca",
                        "pml",
                        "ob1",
                        "--mca",
                        "btl",
                        "vader,self",
                        "--mca",
                        "btl_vader_single_copy_mechanism",
                        how,
                        exe,
                        how,
                    ]
                )
            go(["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", W, exe, "default"])
if "aio" in what:
    go([py, "aio.py", os.environ.get("NVME_DIR", tmp)])
if "gemm" in what:
    subprocess.run([py, "gemmbench.py"], cwd=here, env=env)
