#!/usr/bin/env python3
"""The device of streams, in random order (--device fake), gives the bits of the inline one: losses, norms and weights over stages,
worlds, tiers, precisions, accumulation, delayed updates, quantization and prefetching, with graphs of what comes again and without;
files of outputs of an evaluation; a run that is begun on one device and resumed on the other, or ended by a signal between and resumed.
What goes wrong on it has the error and the exit code that it has elsewhere."""
import itertools, json, os, pathlib, re, subprocess, sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from e2e import Case, Skip, Suite, read_safetensors, same, write_safetensors

STEPS = 4
suite = Suite(__doc__)
BAD_INPUT, PREEMPTED = 3, 75


def compiled(name, model, world, stage, *flags):
    return suite.compile(suite.models / model / "ts17.onnx", suite.dir / f"{name}.plan", "--world-size", world, "--zero-stage", stage,
                         "--bucket-size", "16KiB", *flags)


def train(plan, model, world, device, *flags, out=None):
    out = out or suite.dir / f"{plan.stem}-{device}"
    metrics = suite.train(plan, out, "-n", world, "--device", device, "--data", suite.models / model / "inputs.safetensors",
                          "--nvme-dir", suite.dir, *flags)
    weights = out / "exported.safetensors"
    suite.tool("zero-run", "export", out / "final", "--safetensors", weights)
    return [m["loss"] for m in metrics], [m["grad_norm"] for m in metrics], weights.read_bytes()


def compare(expected, got):
    for what, a, b in zip(("loss", "grad_norm", "weights"), got, expected):
        same(what, a, b)


def case(model, world, stage, *flags):
    name = " ".join(map(str, [model, f"W={world} stage {stage}", *flags]))

    def run():
        plan = compiled(re.sub(r"[^\w.-]+", "_", name), model, world, stage, *flags)
        expected = train(plan, model, world, "sync", "--steps", STEPS)
        for graphs in ("on", "off"):
            out = suite.dir / f"{plan.stem}-graphs-{graphs}"
            compare(expected, train(plan, model, world, "fake", "--steps", STEPS, "--graphs", graphs, out=out))

    return name, run


def processes(*flags):
    """Ranks that cannot read each other's memory: their collectives go through pinned memory."""
    if not (suite.bin / "libzc_mpi.so").exists():
        raise Skip("built without MPI")
    plan = compiled("processes" + "".join(flags), "gpt2", 2, 3, "--clip-grad-norm", "0.1", *flags)
    expected = train(plan, "gpt2", 2, "sync", "--steps", STEPS)
    out = suite.dir / f"{plan.stem}-mpi"
    command = [*suite.mpirun(2), suite.bin / "zero-run", plan, "--out", out, "--quiet",
               "--device", "fake", "--data", suite.models / "gpt2" / "inputs.safetensors", "--steps", STEPS, "--threads", 1]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=600)
    if done.returncode:
        raise Case(f"exit code {done.returncode}: {done.stderr[-1500:]}")
    metrics = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    suite.tool("zero-run", "export", out / "final", "--safetensors", out / "exported.safetensors")
    compare(expected, ([m["loss"] for m in metrics], [m["grad_norm"] for m in metrics], (out / "exported.safetensors").read_bytes()))


def resumed(first, then):
    def run():
        plan = compiled(f"resumed-{first}", "gpt2", 2, 3, "--offload-optimizer", "host")
        whole = train(plan, "gpt2", 2, "sync", "--steps", 2 * STEPS, out=suite.dir / f"whole-{first}")
        out = suite.dir / f"resumed-{first}-{then}"
        train(plan, "gpt2", 2, first, "--steps", STEPS, "--save-every", STEPS, out=out)
        got = train(plan, "gpt2", 2, then, "--steps", 2 * STEPS, "--resume", "auto", out=out)
        same("weights", got[2], whole[2])

    return f"begun on {first}, resumed on {then}", run


def ended(signal):
    """A signal while graphs are at work: the checkpoint that the run leaves goes on to the bits of one that was not disturbed."""
    steps = 40 * STEPS  # few are over before a busy machine has delivered the signal

    def run():
        plan = compiled(f"ended-{signal}", "gpt2", 2, 3, "--offload-optimizer", "host", "--grad-accumulation", "2")
        whole = train(plan, "gpt2", 2, "sync", "--steps", steps)
        out = suite.dir / f"ended-{signal}"
        command = [suite.bin / "zero-run", plan, "--out", out, "--quiet", "-n", "2", "--device", "fake", "--steps", steps, "--data",
                   suite.models / "gpt2" / "inputs.safetensors"]
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=600,
                              env={**os.environ, "ZERO_FAULT": f"step.begin@n={2 * STEPS + 1}:{signal}"})
        if done.returncode != PREEMPTED:
            raise Case(f"exit code {done.returncode}: {done.stderr[-1500:]}")
        got = train(plan, "gpt2", 2, "fake", "--steps", steps, "--resume", "auto", out=out)
        same("weights", got[2], whole[2])

    return f"ended by {signal}, resumed", run


def evaluation(world, stage):
    """Also where no collective keeps the host from being ahead of the streams."""
    folder = suite.models / "gpt2"
    plan = compiled(f"forward-{world}-{stage}", "gpt2", world, stage, "--forward-only")
    got = {}
    for device in ("sync", "fake"):
        outputs = suite.dir / f"outputs-{world}-{stage}-{device}.safetensors"
        text = suite.tool("zero-run", "eval", plan, "--quiet", "-n", world, "--device", device, "--data", folder / "inputs.safetensors",
                          "--outputs", outputs)
        loss = re.search(r'"loss": ?([^,}]+)', text.splitlines()[-1])[1]
        got[device] = loss, outputs.read_bytes()
    same("loss", got["fake"][0], got["sync"][0])
    same("outputs", got["fake"][1], got["sync"][1])


def validation(world):
    """val_loss of every step."""
    folder = suite.models / "gpt2"
    plan = compiled(f"with-eval-{world}", "gpt2", world, 0, "--with-eval")
    got = []
    for device in ("sync", "fake"):
        out = suite.dir / f"validated-{world}-{device}"
        got.append([m.get("val_loss") for m in suite.train(plan, out, "-n", world, "--device", device, "--data", folder / "inputs.safetensors", "--steps", 4,
                                                           "--eval-data", folder / "inputs.safetensors", "--eval-every", 1)])
    same("val_loss", got[1], got[0])
    if None in got[0]:
        raise Case(f"no val_loss: {got[0]}")


def refusal(plan, device, data, *flags, fault=""):
    """Exit code, what went wrong, at which node, and the number of steps that were made."""
    out = suite.dir / f"refused-{plan.stem}-{data.stem}-{device}"
    command = [suite.bin / "zero-run", plan, "--out", out, "--quiet", "-n", "2", "--device", device, "--data", data, *flags]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=600, env={**os.environ, "ZERO_FAULT": fault})
    metrics = out / "metrics.jsonl"
    steps = len(metrics.read_text().splitlines()) if metrics.exists() else 0
    return done.returncode, re.findall(r"error\[Z\d+\]: [^\n]*|--> [^\n]*", done.stderr), steps


def bad_index(name):
    """An index out of range in a later step. The data are looked at before the first; where that is not done, it is found with the
    step's metrics, and told as everywhere else."""
    def run():
        inputs = read_safetensors(suite.models / "gpt2" / "inputs.safetensors")
        kind, shape, values = inputs[name]
        plan = compiled(f"bad-{name}", "gpt2", 2, 3)
        values[shape[1] * 8 + shape[1] // 2] = 10**6  # of the third step's first sample: 2 ranks with 2 each
        data = write_safetensors(suite.dir / f"bad-{name}.safetensors", {**inputs, name: (kind, shape, values)})
        looked = refusal(plan, "fake", data, "--steps", 4)
        if looked[0] != BAD_INPUT or looked[2] or "1000000" not in looked[1][0]:
            raise Case(f"looked at before the first step: {looked}")
        sync, fake = (refusal(plan, device, data, "--steps", 4, fault="data.range:EIO") for device in ("sync", "fake"))
        said = " ".join(sync[1])
        if sync[0] != BAD_INPUT or sync[2] != 2 or "1000000" not in said or " node " not in said or fake != sync:
            raise Case(f"fake ends with {fake}, sync with {sync}")
    return f"{name} out of range in step 3", run


TIERS = [(), *(("--offload-optimizer", o, "--offload-param", p, "--offload-activation", a)
               for o, p, a in (("host", "none", "none"), ("host", "host", "none"), ("nvme", "nvme", "none"), ("host", "host", "host"),
                               ("nvme", "nvme", "nvme"), ("none", "host", "nvme")))]
COMMON = [("--clip-grad-norm", "0.1"), ("--grad-accumulation", "3", "--clip-grad-norm", "0.1"), ("--precision", "bf16"),
          ("--precision", "fp16", "--initial-loss-scale", str(2**21), "--loss-scale-window", "2"),
          ("--checkpoint-activations", "block", "--prefetch", "none"), ("--optimizer", "momentum", "--grad-accumulation", "2")]
every = [(world, stage, tiers, common) for world, stage, tiers, common in itertools.product((1, 2, 4), range(4), TIERS, COMMON)
         if not tiers or (stage == 3 if tiers[3] != "none" else stage > 0)]
suite.run([case("gpt2", world, stage, *tiers, *common) for world, stage, tiers, common in suite.draw(every, 20)])
suite.run([case(model, 2, 3, "--clip-grad-norm", "0.1") for model in ("mlp", "llama", "bert", "resnet", "vit")
           if (suite.models / model / "ts17.onnx").exists()])
suite.run([case("gpt2", 2, 2, "--offload-optimizer", "host", "--delay-update", "--delay-after", after) for after in (0, 2)] +
          [case("gpt2", 4, 3, "--ranks-per-node", 2, "--quantize-weights", "int8", "--hierarchical", "--quantize-gradients", "int4"),
           case("llama", 4, 3, "--ranks-per-node", 2, "--hierarchical-collectives", "--grad-accumulation", 2)])
suite.run([resumed("fake", "cpu"), resumed("cpu", "fake"), ended("SIGTERM"), ended("SIGINT"), *((f"evaluation W={w} stage {s}", lambda w=w, s=s: evaluation(w, s)) for w, s in ((1, 0), (2, 0), (2, 3))),
           *((f"validation W={w}", lambda w=w: validation(w)) for w in (1, 2)), bad_index("input_ids"), bad_index("labels"),
           ("ranks as processes", processes), ("ranks as processes, accumulating", lambda: processes("--grad-accumulation", "2"))])
suite.finish()
