#!/usr/bin/env python3
"""Ranks as processes with a GPU each, without a GPU: mpirun starts them, a double of NCCL carries what they send (test/cuda/double). Their bits
are those of threads that go step by step, also where memory of the host cannot be pinned; two ranks on one GPU, a GPU that is lost and a
rank that is killed end the job with an error."""
import pathlib, re, shutil, sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cuda_double import LIBRARIES, MPIRUN, Double
from e2e import Case, Skip, Suite, same

suite = Suite(__doc__)
double = Double(suite)
if not shutil.which("mpirun") or not (double.programs / "libzc_mpi.so").exists():
    suite.run([("all", lambda: (_ for _ in ()).throw(Skip("this machine, or this build, has no MPI")))])
    suite.finish()
STEPS = 3
USAGE, UNSUPPORTED, PEER_LOST, MISMATCH, WATCHDOG = 2, 4, 7, 10, 11


def by_threads(world, *flags):
    """The plan, and a run of it step by step, which cases share."""
    plan = double.compiled(world, *flags)
    return plan, suite.once(("by threads", plan), lambda: double.trained(plan, "gpus=1", "cuda-sync", STEPS, ranks=world))


def like_threads(world, *flags, more=(), machine=""):
    def run():
        plan, expected = by_threads(world, *flags)
        got = double.trained(plan, f"gpus={world}{machine}", "cuda", STEPS, processes=world, more=more)
        for code, said, steps in (expected, got):
            if code or len(steps) != STEPS:
                raise Case(f"exit code {code}: {said[-2000:]}")
        same("losses and norms", got[2], expected[2])
    return f"{world} processes {' '.join((*flags, *more))} {machine}", run


def ends(what, machine, codes, expected, more=(), fault="", flags=("--zero-stage", "3"), world=2):
    """All ranks, with one of these codes and an error that says why."""
    def run():
        code, said, _ = double.trained(double.compiled(world, *flags), machine, "cuda", 40, processes=world, more=more, fault=fault)
        found = re.search(expected, said)
        if code not in codes or not found:
            raise Case(f"exit code {code}: {said[-2000:]}")
        return found[0]
    return what, run


def without():
    """A rank whose host has no GPU: all say so, with the command that compiles for what there is."""
    plan, words = double.compiled(2, "--zero-stage", "3"), ("--device", "cuda", "--steps", "1", "--out", suite.dir / "without", "--data",
                                                         suite.models / "gpt2/inputs.safetensors")
    ranks = [(*(":",) * rank, "-np", "1", "-x", f"ZC_CUDA_DOUBLE=gpus={gpus}", double.programs / "zero-run", plan, *words) for rank, gpus in enumerate((2, 0))]
    done = double.run_silently("without", [*MPIRUN[:-1], *ranks[0], *ranks[1]])
    if done.returncode != MISMATCH or "rank 1 has no device that can be used, rank 0 has" not in done.stderr:
        raise Case(f"exit code {done.returncode}: {done.stderr[-2000:]}")


def without_library():
    code, said, steps = double.trained(double.compiled(2, "--zero-stage", "3"), "gpus=2", "cuda", STEPS, processes=2, programs=double.without("NCCL"))
    if code != UNSUPPORTED or steps or f'"{LIBRARIES["NCCL"]}" cannot be loaded' not in said or "nvidia-nccl-cu13" not in said:
        raise Case(f"exit code {code}, {len(steps)} steps: {said[-1500:]}")


TWO_AXES = ("--zero-stage", "3", "--tensor-parallel", "2")
OFFLOADED = ("--zero-stage", "3", "--offload-optimizer", "host", "--offload-param", "host")
suite.run([like_threads(2, "--zero-stage", stage) for stage in "0123"])
suite.run([like_threads(2, *OFFLOADED), like_threads(2, *OFFLOADED, machine=",pins=0"), like_threads(2, "--zero-stage", "3", "--offload-optimizer", "host", more=("--graphs", "off")),
           like_threads(2, "--zero-stage", "2", "--precision", "bf16", "--grad-accumulation", "2"),
           like_threads(4, *TWO_AXES),
           like_threads(4, "--zero-stage", "2", "--ranks-per-node", "2", "--hierarchical-collectives"),
           like_threads(4, "--zero-stage", "3", "--ranks-per-node", "2", "--hierarchical", "--quantize-weights", "int8", "--quantize-gradients", "int4")])
suite.run([("a host without GPUs", without), ("without NCCL", without_library), ends("two ranks on one GPU", "gpus=1", [USAGE], "NCCL cannot meet the other ranks' GPUs.*"),
           *(ends(f"GPU 0 is lost at kernel {kernel}", f"gpus=2,lost={kernel},lostas={code}", [PEER_LOST], "error.*GPU 0 of rank 0 is lost.*") for kernel, code in ((1, 700), (150, 719), (400, 214))),
           # By what NCCL launches where ranks meet: what CUDA said to it, it does not tell.
           *(ends(f"GPU 0 is lost while launch {launch} is made", f"gpus=2,lostin={launch}", [PEER_LOST], "error.*GPU 0 of rank 0 is lost.*") for launch in (1, 2)),
           ends("GPU 0 is lost, states on the host", "gpus=2,lost=300", [PEER_LOST], "error.*GPU 0 of rank 0 is lost.*", flags=OFFLOADED),
           ends("a collective fails", "gpus=2", [PEER_LOST], "error.*was told to fail.*", fault="coll.allgather@rank=1,n=30:EIO"),
           ends("a collective fails while one of another axis waits", "gpus=4", [PEER_LOST], "error.*was told to fail.*", flags=TWO_AXES, world=4,
                fault="step.begin@rank=0,step=5:SIGSTOP; coll.reducescatter@rank=1,step=5,n=1:delay=1s; coll.reducescatter@rank=1,step=5,n=2:EIO"),
           ends("a rank is killed", "gpus=2", [PEER_LOST, 137], ".*(?:signal 9|lost).*", fault="step.begin@rank=1,step=5:SIGKILL"),
           ends("a rank is stopped", "gpus=2", [WATCHDOG], "error.*nothing has moved.*rank 1.*", more=("--watchdog", "3"), fault="step.begin@rank=1,step=5:SIGSTOP"),
           ends("a kernel of GPU 0 never ends", "gpus=2,stuck=300", [WATCHDOG], "error.*nothing has moved.*waits for its queues.*", more=("--watchdog", "3"))])
suite.finish()
