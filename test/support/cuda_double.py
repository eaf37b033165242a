"""Programs beside the double of CUDA (test/cuda/double), which says which of CUDA's rules was broken: nothing may be said."""
import json, os, re, shutil, subprocess

from e2e import Case, Skip

MPIRUN = ("mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-np")
COMPARED = ("loss", "grad_norm", "val_loss", "loss_scale", "skipped")  # of a step, as far as the plan has them
LIBRARIES = {"cuBLASLt": "libcublasLt.so.13", "NVRTC": "libnvrtc.so.13", "NCCL": "libnccl.so.2"}  # as `doctor` calls them


class Double:
    def __init__(self, suite):
        self.suite, self.programs = suite, suite.bin / "double"
        if not (self.programs / "libzc_cuda.so").exists():
            suite.run([("all", lambda: (_ for _ in ()).throw(Skip("no headers of CUDA were found when this was built: see test/cuda/double")))])
            suite.finish()
        libraries = suite.dir / "libraries"  # none of NVIDIA's, and what the double of NVRTC compiled
        libraries.mkdir()
        self.environment = {**os.environ, "XDG_CACHE_HOME": str(libraries), "ZC_CUDA_DOUBLE_CACHE": str(libraries)}

    def run_silently(self, name, command, **more):
        """The process, which the double has nothing to say of."""
        says, jobs = self.suite.dir / f"{name}.says", self.suite.dir / f"{name}.mpi"
        jobs.mkdir()  # Open MPI's files: two jobs that begin at once would each make the same folder
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True,
                              env={**self.environment, "ZC_CUDA_DOUBLE_SAYS": str(says), "OMPI_MCA_orte_tmpdir_base": str(jobs), **more}, timeout=900)
        if says.exists():
            raise Case(f"against CUDA's rules: {says.read_text()[:2000]}")
        return done

    def compiled(self, world, *flags, target="cuda"):
        """gpt2 in small buckets, clipped, for so many ranks."""
        plan = self.suite.dir / (re.sub(r"\W+", "_", " ".join((target, str(world), *flags))) + ".plan")
        return self.suite.once(plan, lambda: self.suite.compile(self.suite.models / "gpt2/ts17.onnx", plan, "--target", target, "--world-size", world,
                                                                "--bucket-size", "16KiB", "--clip-grad-norm", "0.1", *flags))

    def stepwise(self, plan, world, steps, more=()):
        """A run step by step, by threads on one GPU, which cases share."""
        return self.suite.once(("stepwise", plan, steps, more), lambda: self.trained(plan, "gpus=1", "cuda-sync", steps, ranks=world, more=more))

    def without(self, library):
        """Programs on a machine that lacks one of CUDA's libraries, which `doctor` calls so."""
        file = LIBRARIES[library]
        programs = self.suite.dir / f"without-{library}"
        self.suite.once(programs, lambda: shutil.copytree(self.programs, programs, ignore=lambda folder, names: [
            name for name in names if name in (file, "zero-compile", "zc-kernel-test")]))
        line = next(line for line in self.run_silently(f"doctor-{library}", [programs / "zero-run", "doctor"]).stdout.splitlines() if line.startswith(library))
        if "cannot be loaded" not in line:
            raise Skip(f"this machine has one: {line}")
        return programs

    def trained(self, plan, machine, device, steps, ranks=None, processes=None, more=(), fault="", programs=None, out=None):
        """Exit code, what is said, and COMPARED of each step, on a double that `machine` describes; ranks as threads, or as `processes`.
        `fault`: on demand; `out`: the run's folder."""
        programs = programs or self.programs
        out = out or self.suite.dir / re.sub(r"\W+", "_", f"{plan.stem}-{device}-{machine}-{ranks}-{processes}-{' '.join(map(str, more))}-{fault}-{programs.name}")
        start = (*MPIRUN, processes) if processes else ()
        done = self.run_silently(out.name, [*start, programs / "zero-run", plan, *(("-n", ranks) if ranks else ()), "--device", device, "--steps", steps,
                                            "--out", out, "--data", self.suite.models / "gpt2/inputs.safetensors", *more],
                                 ZC_CUDA_DOUBLE=machine, ZERO_FAULT=fault)
        lines = (out / "metrics.jsonl").read_text().splitlines() if (out / "metrics.jsonl").exists() else []
        return done.returncode, done.stdout + done.stderr, [{key: m[key] for key in COMPARED if key in m} for m in map(json.loads, lines)]
