#!/usr/bin/env python3
"""MPI over 1, 2 and 3 hosts with 1 and 2 ranks each gives the bits of the same world as threads of one process: losses, norms and
weights, on gpt2 and llama, at every stage, with plain, hierarchical and quantized collectives. A checkpoint of processes continues as threads and the other way round."""
import json, os, pathlib, sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "support")]
from cluster import ClusterSuite
from e2e import Case, same

QUICK = {("gpt2", 0, 2, 2, ""), ("gpt2", 3, 2, 2, ""), ("gpt2", 2, 3, 1, ""), ("llama", 1, 1, 2, ""), ("llama", 3, 3, 2, ""),
         ("gpt2", 3, 1, 1, ""), ("gpt2", 2, 3, 2, " hierarchical"), ("llama", 3, 2, 2, " zero++")}
# Other collectives than the plain ones: inside nodes and between them, whole or quantized. By stage from which they are legal.
KINDS = {
    "": (0, []),
    " hierarchical": (1, ["--hierarchical-collectives"]),
    " zero++": (3, ["--quantize-weights", "int8", "--hierarchical", "--quantize-gradients", "int4"]),
}

suite = ClusterSuite(__doc__, hosts=3)


def numbers(out):
    """What must be equal: losses, norms, and the bytes of the weights."""
    lines = (out / "metrics.jsonl").read_text().splitlines()
    metrics = [(m["step"], m["loss"], m["grad_norm"], m["lr"]) for m in map(json.loads, lines)]
    return metrics, (out / "final" / "weights.safetensors").read_bytes()


def compiled(name, model, stage, hosts, ranks, kind=""):
    export = suite.exports(model)[0]
    flags = ["--optimizer", "adamw", "--lr", "1e-3", "--clip-grad-norm", "0.1", "--bucket-size", "64KiB", *KINDS[kind][1]]
    return suite.compile(suite.models / model / f"{export}.onnx", suite.dir / f"{name}.plan", "--world-size", hosts * ranks,
                         "--ranks-per-node", ranks, "--zero-stage", stage, *flags)


def run_flags(model, *more):
    return ["--data", suite.models / model / "inputs.safetensors", "--threads", 1, *more]


def bits(model, stage, hosts, ranks, kind):
    name = f"{model}-{stage}-{hosts}x{ranks}{kind}"
    plan = compiled(name, model, stage, hosts, ranks, kind)
    threads, processes = suite.dir / f"{name}-threads", suite.dir / f"{name}-processes"
    suite.train(plan, threads, *run_flags(model, "-n", hosts * ranks, "--steps", 4))
    report = suite.mpi(hosts, ranks, plan, "--out", processes, "--quiet", "--comm", "mpi", *run_flags(model, "--steps", 4))
    expected, got = numbers(threads), numbers(processes)
    same("metrics", got[0], expected[0])
    if got[1] != expected[1]:
        raise Case("the weights differ")
    return f"{report['traffic']['inter_node']} bytes between nodes"


def resume():
    """Four steps as processes, four more as threads, four more as processes: as twelve of either."""
    plan = compiled("resume", "gpt2", 3, 2, 2)
    whole, parts = suite.dir / "resume-whole", suite.dir / "resume-parts"
    suite.train(plan, whole, *run_flags("gpt2", "-n", 4, "--steps", 12))
    flags = ["--out", parts, "--quiet", "--save-every", 4, "--lr-schedule", "constant"]

    def forget(step):
        """As if it had been ended after that step."""
        for folder in parts.glob("step-*"):
            if int(folder.name[5:]) > step:
                __import__("shutil").rmtree(folder)

    suite.mpi(2, 2, plan, *flags, *run_flags("gpt2", "--steps", 4))
    suite.tool("zero-run", plan, *flags, "--resume", "auto", *run_flags("gpt2", "-n", 4, "--steps", 8))
    suite.mpi(2, 2, plan, *flags, "--resume", "auto", *run_flags("gpt2", "--steps", 12))
    forget(12)
    expected, got = numbers(whole), numbers(parts)
    same("metrics", got[0], expected[0])
    if got[1] != expected[1]:
        raise Case("the weights differ")


def evaluation():
    """The loss and the outputs' file of evaluating processes and of threads."""
    plan = suite.compile(suite.models / "gpt2" / f"{suite.exports('gpt2')[0]}.onnx", suite.dir / "evaluation.plan", "--forward-only",
                         "--world-size", 4, "--ranks-per-node", 2, "--zero-stage", 3)
    files = [suite.dir / f"evaluation-{kind}.safetensors" for kind in ("threads", "processes")]
    threads = json.loads(suite.tool("zero-run", "eval", plan, "--quiet", "--outputs", files[0], *run_flags("gpt2", "-n", 4)).splitlines()[-1])
    processes = suite.mpi(2, 2, "eval", plan, "--quiet", "--comm", "mpi", "--outputs", files[1], "--out", suite.dir / "evaluation",
                          *run_flags("gpt2"))
    same("loss", processes["loss"], threads["loss"])
    same("samples", processes["samples"], threads["samples"])
    if files[0].read_bytes() != files[1].read_bytes():
        raise Case("the outputs differ")


cases = [("checkpoints of processes and threads", resume), ("evaluation by processes and threads", evaluation)]
for model in ("gpt2", "llama"):
    for hosts in (1, 2, 3):
        for ranks in (1, 2):
            for stage in range(4):
                for kind, (first, _) in KINDS.items():
                    arguments = (model, stage, hosts, ranks)
                    if stage < first or (kind and hosts == 1) or (suite.args.quick and arguments + (kind,) not in QUICK):
                        continue
                    cases.append((f"{model} stage {stage} on {hosts} hosts x {ranks} {kind}",
                                  lambda a=arguments, k=kind: bits(*a, k)))
suite.run(cases)
suite.finish()
