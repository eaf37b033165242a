#!/usr/bin/env python3
"""What NVIDIA's libraries take for GPUs that are not here. cuDNN: graphs for an H200 that is described, by zc-cudnn-test beside a
driver that is none, of shapes chosen by hand and of all that the plans of the exports ask for. NVRTC: random fused programs, by
zc-nvrtc-test. Needs the libraries (tools/setup.sh --cuda-libraries: 1.5 GB); what they are not there for is skipped."""
import concurrent.futures, json, os, pathlib, subprocess, sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from e2e import ROOT, Case, Skip, Suite, numbers

suite = Suite(__doc__)


cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "zero-compile/cuda/lib"
folders = [*os.environ.get("ZERO_CUDA_LIBRARIES", "").split(":"), str(cache), "/usr/local/cuda/lib64"]
folders = [folder for folder in folders if folder]


def run(test, library, *path, **more):
    """Libraries are found as the plugin finds them, not by the loader, which knows none of a wheel's folders."""
    if not any(pathlib.Path(folder, library).exists() for folder in folders):
        raise Skip(f"no {library} (tools/setup.sh --cuda-libraries brings it)")
    done = subprocess.run([suite.bin / test], capture_output=True, text=True, timeout=900,
                          env={**os.environ, **more, "LD_LIBRARY_PATH": ":".join(path), "ZERO_CUDA_LIBRARIES": ":".join(folders)})
    if done.returncode:
        raise Case(done.stdout[-2000:] + done.stderr[-1000:])
    lines = done.stdout.strip().splitlines()
    return next((line for line in lines if line.endswith(" plans")), lines[-1].strip())


def asked_of_cudnn(filters, **more):
    if pathlib.Path("/dev/nvidiactl").exists():
        raise Skip("there is a GPU: test/cuda/run.sh runs what is built")
    return run("zc-cudnn-test", "libcudnn.so.9", str(suite.bin / "no-driver"), GTEST_FILTER=filters, **more)


def plans():
    """What the plans of all exports ask cuDNN for: it takes every graph, and works in what is planned for it."""
    compiler = next((folder / "zero-compile" for folder in (suite.bin, ROOT / "build/release/bin") if (folder / "zero-compile").exists()), None)
    if not compiler:
        raise Skip("no zero-compile")
    exports = ROOT / "test/e2e/exports"
    families = {exports / f"{name}.onnx": family["flags"] for name, family in json.loads((exports / "golden.json").read_text()).items()}
    models = {path: ("--dim", "batch=2", "--dim", "seq=16") if "dynbatch" in path.stem else () for path in sorted(suite.models.glob("*/*.onnx"))
              if path.stem != "dynamo23_sdpa_dropout"}  # refused: see test/e2e/run_kernels.py
    folder = suite.dir / "plans"
    folder.mkdir()

    def compiled(model, flags, precision):
        plan = folder / f"{model.parent.name}-{model.stem}-{precision}.plan"
        done = subprocess.run(list(map(str, [compiler, model, "--target", "cuda", *numbers(precision), *flags, "-o", plan])), capture_output=True, text=True)
        if done.returncode:
            raise Case(f"{model} {precision}: {done.stderr[-1000:]}")

    with concurrent.futures.ThreadPoolExecutor(suite.args.jobs) as pool:
        list(pool.map(lambda wanted: compiled(*wanted), [(model, flags, precision) for model, flags in {**models, **families}.items()
                                                         for precision in ("fp32", "tf32", "bf16", "fp16")]))
    return asked_of_cudnn("Plans.*", ZC_PLANS=str(folder))


suite.run([("graphs for an H200", lambda: asked_of_cudnn("-Plans.*")), ("graphs of all plans", plans),
           ("fused programs", lambda: run("zc-nvrtc-test", "libnvrtc.so.13"))])
suite.finish()
