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
UNPINNED = re.compile(r"^(.*)warning: .* cannot be pinned", re.M)
USAGE, UNSUPPORTED, PEER_LOST, MISMATCH, WATCHDOG = 2, 4, 7, 10, 11


def like_threads(world, *flags, more=(), machine="", unpinned=()):
    """`unpinned`: who says that memory cannot be pinned, for all."""
    def run():
        plan = double.compiled(world, *flags)
        expected, got = double.stepwise(plan, world, STEPS, more), double.trained(plan, f"gpus={world}{machine}", "cuda", STEPS, processes=world, more=more)
        for code, said, steps in (expected, got):
            if code or len(steps) != STEPS:
                raise Case(f"exit code {code}: {said[-2000:]}")
        same("losses and norms", got[2], expected[2])
        same("who cannot pin", UNPINNED.findall(got[1]), [*unpinned])
    return f"{world} processes {' '.join(map(str, (*flags, *more)))} {machine}", run


def ends(what, machine, codes, expected, more=(), fault="", flags=("--zero-stage", "3"), world=2):
    """All ranks, with one of these codes and an error that says why."""
    def run():
        code, said, _ = double.trained(double.compiled(world, *flags), machine, "cuda", 40, processes=world, more=more, fault=fault)
        found = re.search(expected, said)
        if code not in codes or not found:
            raise Case(f"exit code {code}: {said[-2000:]}")
        return found[0]
    return what, run


def on_hosts(name, flags, *machines):
    """The process of a rank on each of these machines."""
    words = ("--device", "cuda", "--steps", "1", "--out", suite.dir / name, "--data", suite.models / "gpt2/inputs.safetensors")
    ranks = [(*(":",) * (rank > 0), "-np", "1", "-x", f"ZC_CUDA_DOUBLE={machine}", double.programs / "zero-run", double.compiled(len(machines), *flags), *words)
             for rank, machine in enumerate(machines)]
    return double.run_silently(name, [*MPIRUN[:-1], *(word for rank in ranks for word in rank)])


def one_unpinned():
    """A rank whose host pins nothing: that one says so."""
    done = on_hosts("one-unpinned", OFFLOADED, "gpus=2", "gpus=2,pins=0")
    if done.returncode:
        raise Case(f"exit code {done.returncode}: {done.stderr[-2000:]}")
    same("who cannot pin", UNPINNED.findall(done.stderr), ["[rank 1] "])


def without():
    """A rank whose host has no GPU: all say so, with the command that compiles for what there is."""
    done = on_hosts("without", ("--zero-stage", "3"), "gpus=2", "gpus=0")
    if done.returncode != MISMATCH or "rank 1 has no device that can be used, rank 0 has" not in done.stderr:
        raise Case(f"exit code {done.returncode}: {done.stderr[-2000:]}")


def without_library():
    code, said, steps = double.trained(double.compiled(2, "--zero-stage", "3"), "gpus=2", "cuda", STEPS, processes=2, programs=double.without("NCCL"))
    if code != UNSUPPORTED or steps or f'"{LIBRARIES["NCCL"]}" cannot be loaded' not in said or "nvidia-nccl-cu13" not in said:
        raise Case(f"exit code {code}, {len(steps)} steps: {said[-1500:]}")


TWO_AXES = ("--zero-stage", "3", "--tensor-parallel", "2")
OFFLOADED = ("--zero-stage", "3", "--offload-optimizer", "host", "--offload-param", "host")
suite.run([like_threads(2, "--zero-stage", stage) for stage in "0123"])
suite.run([like_threads(2, *OFFLOADED), like_threads(2, *OFFLOADED, machine=",pins=0", unpinned=("",)), ("one host that pins nothing", one_unpinned), like_threads(2, "--zero-stage", "3", "--offload-optimizer", "host", more=("--graphs", "off")),
           like_threads(2, "--zero-stage", "2", "--precision", "bf16", "--grad-accumulation", "2"),
           like_threads(2, "--zero-stage", "3", "--with-eval", more=("--eval-data", suite.models / "gpt2/inputs.safetensors", "--eval-steps", 2)),
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
           ends("ranks' GPUs never meet", "gpus=2,mute=1", [WATCHDOG], 'error.*nothing has moved.*rank [01] has been meeting the GPUs of "ranks 0, 1, along all".*', more=("--watchdog", "3")),
           ends("a kernel of GPU 0 never ends", "gpus=2,stuck=300", [WATCHDOG], r'error.*nothing has moved.*waits for its queues \(last collective enqueued: .*queues .*COMPUTE has passed "\w+" of node ".*', more=("--watchdog", "3"))])
suite.finish()
