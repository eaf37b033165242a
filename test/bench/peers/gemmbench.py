"""Math libraries side by side: builds gemmbench.cpp once per library found, runs them in turn, prints one JSON line per measurement.
usage: gemmbench.py [ROUNDS] [f32,bf16,batch,conv] [LIB...]
Debian: libopenblas-dev (pthread), libopenblas-openmp-dev, libblis-openmp-dev, libdnnl-dev.  PyPI, in the venv $PEERS_HOME/cpu: mkl mkl-include onednn-devel-cpu-gomp scipy-openblas32.
"""

import glob, json, os, random, subprocess, sys, tempfile
import quiet

here = os.path.dirname(os.path.abspath(__file__))
home = os.environ.get("PEERS_HOME", os.path.expanduser("~/.cache/peers"))
cpu, tri = os.path.join(home, "cpu"), "x86_64-linux-gnu"
lib, inc = f"/usr/lib/{tri}", f"/usr/include/{tri}"
sp = (glob.glob(f"{cpu}/lib/python3*/site-packages/scipy_openblas32") or [""])[0]
libs = {
    "openblas": ["-DLIB_CBLAS", f"-I{inc}/openblas-pthread", f"{lib}/openblas-pthread/libopenblas.so"],
    "openblas_omp": ["-DLIB_CBLAS", f"-I{inc}/openblas-openmp", f"{lib}/openblas-openmp/libopenblas.so"],
    "openblas_pypi": ["-DLIB_CBLAS", "-DSCIPY", f"-I{sp}/include", f"{sp}/lib/libscipy_openblas.so"],
    "blis": ["-DLIB_CBLAS", "-DBLIS", f"-I{inc}/blis-openmp", f"-I{inc}", f"{lib}/blis-openmp/libblis.so"],
    "mkl": ["-DLIB_MKL", f"-I{cpu}/include"]
    + [f"{cpu}/lib/libmkl_{x}.so.3" for x in ("intel_lp64", "gnu_thread", "core")]
    + ["-ldl", "-lm", "-lpthread"],
    "dnnl_debian": ["-DLIB_DNNL", f"{lib}/libdnnl.so"],
    "dnnl_pypi": ["-DLIB_DNNL", f"-I{cpu}/include", f"{cpu}/lib/libdnnl.so.3"],
}
rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
what = (sys.argv[2] if len(sys.argv) > 2 else "f32,batch").split(",")
names = sys.argv[3:] or list(libs) + ["torch"]
tmp = tempfile.mkdtemp(prefix="gemm")
todo = []
for n in names:
    if n == "torch":
        todo.append(n)
        continue
    files = [f for f in libs[n] if f.startswith("/")]
    if all(map(os.path.exists, files)):
        subprocess.run(
            ["g++", "-O3", "-march=native", "-fopenmp", os.path.join(here, "gemmbench.cpp"), "-o", f"{tmp}/{n}"]
            + libs[n]
            + [f"-Wl,-rpath,{os.path.dirname(files[0])}"],
            check=True,
        )
        todo.append(n)
    else:
        print(json.dumps(dict(bench="gemm", lib=n, failed="not installed")), flush=True)
for r in range(rounds):
    for T in (2, 1):
        random.Random(r).shuffle(todo)
        for n in todo:
            cmd = (
                [sys.executable, os.path.join(here, "torchgemm.py"), str(T)]
                if n == "torch"
                else [f"{tmp}/{n}", n, str(T)]
            )
            out, rc, err, foreign = quiet.run(
                cmd + what,
                env=dict(os.environ, OMP_NUM_THREADS=str(T), OMP_PROC_BIND=os.environ.get("OMP_PROC_BIND", "false")),
            )
            for x in out:
                print(json.dumps(dict(dict(bench="gemm"), **json.loads(x), round=r, foreign_cores=foreign)), flush=True)
            if rc:
                print(json.dumps(dict(bench="gemm", lib=n, T=T, failed=rc, error=err[-400:])), flush=True)
