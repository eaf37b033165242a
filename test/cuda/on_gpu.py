#!/usr/bin/env python3
"""What only a GPU can show, in the order in which it would be mended: kernels against the CPU's plain ones, whole fixtures step by step
against the CPU, streams against that, with graphs and without, the same bits over stages, ranks and tiers, in fp32 and in bf16, faults; then
figures (figures.py). One GPU is enough: ranks share it. Each part ends after its own seconds, all of them after --budget."""
import argparse, concurrent.futures, itertools, json, os, pathlib, re, shutil, signal, subprocess, sys, time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from e2e import ROOT, Case, Skip, Suite, close, numbers, read_safetensors, same, write_safetensors

from figures import Figures

# Most seconds of each; what is not asked for by name comes last.
CHECKS = {"kernels": 120, "fixtures": 60, "streams": 60, "bits": 60, "tiers": 40, "faults": 60, "shapes": 90, "sanitizer": 400}
FIGURES = ("H1", "attention", "H11", "H9", "H10", "H8", "H6", "H3", "H5", "H2", "H4", "autotune", "limits")
LAST = ("shapes", "sanitizer")
DEFAULT = (*(name for name in CHECKS if name not in LAST), *FIGURES[:-2])
parser = argparse.ArgumentParser(description=__doc__, add_help=False)
parser.add_argument("--only", nargs="+", choices=(*CHECKS, *FIGURES), default=DEFAULT, metavar="PART",
                    help=f"of {' '.join((*CHECKS, *FIGURES))} (default: all but {', '.join((*LAST, *FIGURES[-2:]))})")
parser.add_argument("--save", type=pathlib.Path, metavar="FOLDER", help="where to leave what the libraries chose (test/cuda/devices)")
parser.add_argument("--device", choices=("cuda", "fake"), default="cuda", help="fake: this script itself, where there is no GPU")
parser.add_argument("--budget", type=float, default=440, help="seconds after which nothing new begins")
parser.add_argument("--patience", type=float, default=1, help="times the seconds of each part, of a machine with other work")
own, rest = parser.parse_known_args()
sys.argv[1:] = rest + ["-v", "--jobs", "1"]
suite = Suite(__doc__)
deadline = time.monotonic() + own.budget
STEPS = 4
BF16 = numbers("bf16")
BAD_INPUT, BUDGET, PREEMPTED = 3, 5, 75
# Of the test program alone, which is not installed: others find the archive's libraries by themselves.
STREAMS, STEPWISE = ("cuda", "cuda-sync") if own.device == "cuda" else ("fake", "sync")
seconds_left = lambda: part_ends - time.monotonic()
part_ends = deadline
environment = {**os.environ, **({"ZC_TEST_DEVICE": "cuda"} if own.device == "cuda" else {}),
               "LD_LIBRARY_PATH": f"{suite.bin.parent / 'lib/zero-compile'}:{os.environ.get('LD_LIBRARY_PATH', '')}"}


def part(name, cases, seconds):
    """Runs cases one by one while there is time; each says how long it took."""
    global part_ends
    seconds *= own.patience
    part_ends = min(deadline, time.monotonic() + seconds)

    def timed(function):
        def run():
            if seconds_left() < 0:
                raise Skip(f"more than {own.budget:g} s are gone" if time.monotonic() > deadline else f"more than the part's {seconds:g} s are gone")
            began = time.monotonic()
            remark = function()
            return f"{time.monotonic() - began:.1f} s {remark or ''}"
        return run
    if name in own.only:
        print(f"== {name}", flush=True)
        suite.run([(f"{name}: {title}", timed(function)) for title, function in cases])


def run_kernel_tests(command, filters, shard=0, shards=1, **more):
    """The names of tests that failed, of every `shards`-th from number `shard` on, and what was printed."""
    program = suite.bin / "zc-kernel-test"
    if not program.exists():
        raise Skip(f"no {program}")
    seconds = max(10, seconds_left())
    try:
        done = subprocess.run([*command, program, f"--gtest_filter={filters}", "--gtest_brief=1"], capture_output=True, text=True, errors="replace",
                              env={**environment, **more, "GTEST_TOTAL_SHARDS": str(shards), "GTEST_SHARD_INDEX": str(shard)}, timeout=seconds)
    except subprocess.TimeoutExpired as over:
        said = (over.stdout or b"").decode(errors="replace")
        done = subprocess.CompletedProcess(over.cmd, 124, said, f"{(over.stderr or b'').decode(errors='replace')}\ndid not end in {seconds:.0f} s")
    failed = sorted(set(re.findall(r"\[  FAILED  \] (\w+\.\w+)", done.stdout)))
    return failed or (["exit code " + str(done.returncode)] if done.returncode else []), done


def all_kernel_tests():
    """Where the program died, and said nothing."""
    listed = subprocess.run([suite.bin / "zc-kernel-test", "--gtest_list_tests"], capture_output=True, text=True, env=environment).stdout
    group, names = "", []
    for line in listed.splitlines():
        if line.startswith("  "):
            names.append(group + line.split()[0])
        elif line.endswith("."):
            group = line.strip()
    return names


def never_called(outputs):
    """Kernels that no test called, of those that the GPU has: each process says what it did not."""
    told = [set(found[1].split()) for found in (re.search(r"^on the GPU: \d+ of \d+ kernels were called; not(.*)$", text, re.M) for text in outputs) if found]
    return sorted(set.intersection(*told)) if told else None


def kernel_tests(*command, filters="*", shards=1, **more):
    """Most of the time is the host's, on one core: as many processes as `shards` share the GPU."""
    with concurrent.futures.ThreadPoolExecutor(shards) as pool:
        results = list(pool.map(lambda shard: run_kernel_tests(command, filters, shard, shards, **more), range(shards)))
    failed = [name for names, _ in results for name in names]
    if not failed:
        never = never_called(done.stdout for _, done in results)
        if filters == "*" and own.device == "cuda" and never != []:
            raise Case(f"kernels that no test called: {never}")
        return ", ".join(re.findall(r"^\[  PASSED  \] .*$", done.stdout, re.M)[-1] for _, done in results)
    done = next(done for names, done in results if names)
    if any(of.returncode == 124 for _, of in results):
        raise Case(f"{failed}: {done.stderr[-900:]}")
    # What a kernel does to memory that is not its own fails all that come after it in the process: each by itself says which one it was.
    alone = {}
    for name in [n for n in failed if "." in n] or all_kernel_tests():
        if seconds_left() > 0:
            again, one = run_kernel_tests(command, name, **more)
            if again:
                alone[name] = one
    where = []
    for name, one in (alone or {"all": done}).items():
        lines = re.findall(r"^.*(?:error|Failure|over blocks|Invalid|differ).*$(?:\n.*){0,8}", one.stdout + one.stderr, re.M)
        where.append(f"-- {name}: exit code {one.returncode}\n" + "\n".join(lines[:4])[:1800])
    raise Case(f"{len(failed)} failed together, {len(alone)} by themselves: {' '.join(alone)}\n" + "\n".join(where[:25]) + done.stderr[-600:])


def sanitizer(tool):
    """Each kernel on some shapes, every operand in an allocation of its own (test/kernels/OnGpu.h)."""
    def run():
        program = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
        if not pathlib.Path(program).exists():
            raise Skip("no compute-sanitizer")
        try:
            return kernel_tests(program, "--tool", tool, "--error-exitcode", "9", "--launch-timeout", "60", shards=max(1, min(4, (os.cpu_count() or 1) // 2)),
                                ZC_TEST_SANITIZER="1")
        except Case as case:
            if "Device not supported" in str(case):
                raise Skip("compute-sanitizer does not work here: device not supported")
            raise
    return tool, run


targets = []


def target():
    """--target cuda, where this zero-compile knows it."""
    if not targets:
        help = suite.tool("zero-compile", "--help-all")
        targets.append(("--target", "cuda") if "--target" in help else ())
    return targets[0]


def export(model):
    """"gpt2", or one of its exports: "gpt2/ts17_dropout"."""
    path = suite.models / (f"{model}.onnx" if "/" in model else f"{model}/ts17.onnx")
    if not path.exists():
        raise Skip(f"no {path}")
    return path


def compiled(model, *flags):
    name = re.sub(r"[^\w.-]+", "_", " ".join(map(str, (model, *flags))))
    plan = suite.dir / f"{name}.plan"
    if not plan.exists():
        suite.compile(export(model), plan, *(() if "--bucket-size" in flags else ("--bucket-size", "16KiB")), *target(), *flags)
    return plan


def train(model, plan, world, device, *more):
    """Losses, norms, weights."""
    out = suite.dir / f"{plan.stem}-{device}"
    shutil.rmtree(out, ignore_errors=True)
    metrics = suite.train(plan, out, "-n", world, "--device", device, "--steps", STEPS, "--nvme-dir", suite.dir, "--data",
                          suite.models / model.split("/")[0] / "inputs.safetensors", *more)
    weights = out / "exported.safetensors"
    suite.tool("zero-run", "export", out / "final", "--safetensors", weights)
    return [m["loss"] for m in metrics], [m["grad_norm"] for m in metrics], weights.read_bytes()


def fixture(model, precision, tolerance):
    def run():
        plan = compiled(model, *numbers(precision), "--clip-grad-norm", "0.1")
        host = train(model, plan, 1, "cpu")
        step_by_step = train(model, plan, 1, STEPWISE)
        worst = close("loss", step_by_step[0], host[0], tolerance)
        return f"losses differ from the CPU's by {worst:.1e} at most"
    return run


def fused(model, tolerance):
    """What is fused beside what it stands for: the same bits but for products that compute what follows them, and round once less."""
    def run():
        on, head = (train(model, compiled(model, "--precision", "bf16", "--fuse", fuse), 1, STREAMS) for fuse in ("on", "head"))
        if tolerance == 0:
            return equal("fused", on, head)
        return f"losses differ from the unfused by {close('loss', on[0], head[0], tolerance):.1e} at most"
    return run


def equal(what, a, b):
    for name, got, expected in zip(("losses", "norms", "weights"), a, b):
        same(f"{what}: {name}", got, expected)


def dropped(tolerance):
    """Attention that draws, which cuDNN does not take: ours, on tensor cores, draws what a CPU does."""
    def run():
        plan = compiled("gpt2/ts17_dropout", *BF16, "--dropout", "force", "--clip-grad-norm", "0.1")
        host, step_by_step, got = (train("gpt2/ts17_dropout", plan, 1, device) for device in ("cpu", STEPWISE, STREAMS))
        worst = close("loss", step_by_step[0], host[0], tolerance)
        equal("streams", got, step_by_step)
        return f"losses differ from the CPU's by {worst:.1e} at most"
    return run


def streams(model, world, *flags):
    def run():
        plan = compiled(model, "--world-size", world, "--clip-grad-norm", "0.1", *flags)
        first = train(model, plan, world, STEPWISE)
        for graphs in ("off", "on", "on"):
            equal(f"graphs {graphs}", train(model, plan, world, STREAMS, "--graphs", graphs), first)
    return run


def shapes():
    """What the libraries chose for the products, attention and convolutions of the exports' plans. Saved as devices/GPU-libraries.json."""
    program = suite.bin / "zc-gpu-bench"
    if not program.exists():
        raise Skip(f"no {program}")
    exports = [path for path in sorted(suite.models.glob("*/*.onnx")) if path.stem != "dynamo23_sdpa_dropout"]  # refused: see test/e2e/run_kernels.py
    if own.device == "fake":
        exports = exports[:2]
    plans = [(path, suite.dir / f"{path.parent.name}-{path.stem}-{precision}.plan", *numbers(precision),
              *(("--dim", "batch=2", "--dim", "seq=16") if "dynbatch" in path.stem else ())) for path in exports for precision in ("fp32", "tf32", "bf16")]
    with concurrent.futures.ThreadPoolExecutor(max(1, (os.cpu_count() or 1) // 2)) as pool:
        plans = list(pool.map(lambda words: suite.compile(*words[:2], *target(), *words[2:]), plans))
    done = subprocess.run([program, "--device", own.device, "--shapes", *plans], capture_output=True, text=True, env=environment, timeout=max(10, seconds_left()))
    if done.returncode:
        raise Case(done.stderr[-1500:])
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    notes, asked = [line["note"] for line in lines if "note" in line], [line for line in lines if "asked" in line]
    if own.save:
        said = dict(re.findall(r"^(cuda|GPU 0|cuBLASLt|cuDNN) +(.*)$", suite.tool("zero-run", "doctor"), re.M))
        own.save.mkdir(parents=True, exist_ok=True)
        name = re.sub(r"\W+", "-", lines[-1]["gpu"].removeprefix("NVIDIA ").lower())
        if described := lines[-1].get("description"):  # as test/cuda/libraries.py asks for it where there is none
            (own.save / f"{name}.json").write_text(json.dumps(json.loads(described), indent=1) + "\n")
        (own.save / f"{name}-libraries.json").write_text(json.dumps({"machine": said, "choices": asked, "notes": notes}, indent=1) + "\n")
    refused = [f"{line['library']}: {line['asked']}" for line in asked if line["taken"].startswith("none")]
    return f"{lines[-1]['kernels']} kernels, {len(asked)} choices, {len(refused)} refused: {'; '.join(refused[:3])}; notes: {'; '.join(notes[:3])}"


groups = {}


def stage(model, world, stage, *flags):
    """Whatever the stage, the tiers and what is recomputed or gathered when: the bits of the first of the model, the ranks and the precision."""
    def run():
        plan = compiled(model, "--world-size", world, "--zero-stage", stage, "--clip-grad-norm", "0.1", *flags)
        got = train(model, plan, world, STREAMS)
        equal(f"stage {stage}", got, groups.setdefault((model, world, BF16[1] in flags), got))
    return run


def bad_index(name):
    """Out of range in the third step, where the host has not looked at the data before the first: the GPU's kernel finds it."""
    inputs = read_safetensors(suite.models / "gpt2" / "inputs.safetensors")
    kind, shape, values = inputs[name]
    values[shape[1] * 8 + shape[1] // 2] = 10**6  # 2 ranks with 2 samples each
    data = write_safetensors(suite.dir / f"bad-{name}.safetensors", {**inputs, name: (kind, shape, values)})
    plan = compiled("gpt2", "--world-size", 2, "--zero-stage", 3)
    said = []
    for device in ("sync", STREAMS):
        out = suite.dir / f"bad-{name}-{device}"
        done = subprocess.run(list(map(str, [suite.bin / "zero-run", plan, "--out", out, "--quiet", "-n", 2, "--device", device, "--data", data,
                                             "--steps", 4])), capture_output=True, text=True, timeout=120, env={**os.environ, "ZERO_FAULT": "data.range:EIO"})
        said.append((done.returncode, re.findall(r"error\[Z\d+\]: [^\n]*|--> [^\n]*", done.stderr), len((out / "metrics.jsonl").read_text().splitlines())))
    text = " ".join(said[0][1])
    if said[0][0] != BAD_INPUT or said[0][2] != 2 or "1000000" not in text or " node " not in text or said[1] != said[0]:
        raise Case(f"sync {said[0]}, cuda {said[1]}")


def steps_of(out):
    """Steps that a run has told of so far."""
    metrics = out / "metrics.jsonl"
    return metrics.read_text().count("\n") if metrics.exists() else 0


def large():
    """A plan whose arena alone is larger than what `memory_taken` leaves, and its data: 153 million parameters in fp32 with Adam, 16 bytes each."""
    onnx, data, plan = (suite.dir / f"large.{kind}" for kind in ("onnx", "safetensors", "plan"))
    subprocess.run(list(map(str, [sys.executable, ROOT / "test/support/make_gpt.py", onnx, "--layers", 1, "--hidden", 2048, "--heads", 16, "--vocab", 50304,
                                  "--seq", 64, "--batch", 1, "--seed", 0, "--shared", "--inputs", data, "--rows", 1])), check=True, capture_output=True)
    suite.compile(onnx, plan, *target())
    return plan, data


def memory_taken(mebibytes, planned, expected):
    """Somebody else has all of the GPU but this: exit code 5 with what is needed and what is free, before the first step."""
    plan, data = planned()
    hold = subprocess.Popen([sys.executable, "-c", f"import torch, sys\nfree = torch.cuda.mem_get_info()[0]\nx = torch.empty(free - {mebibytes} * 2**20, "
                             "dtype=torch.uint8, device='cuda')\ntorch.cuda.synchronize()\nprint('held', flush=True)\nsys.stdin.read()"],
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        if hold.stdout.readline().strip() != "held":
            raise Skip("no torch to take the memory")
        out = suite.dir / f"taken-{mebibytes}"
        done = subprocess.run(list(map(str, [suite.bin / "zero-run", plan, "--out", out, "--quiet", "--device", STREAMS, "--steps", 1, "--data", data])),
                              capture_output=True, text=True, timeout=120)
    finally:
        hold.stdin.close()
        hold.wait()
    message = (re.findall(r"error\[Z\d+\]: [^\n]*", done.stderr) or [""])[0]
    found = re.search(r"needs (\d+) MiB of device memory, GPU \d+ has (\d+) MiB free of", message)
    if done.returncode != BUDGET or not found or expected not in message or not (expected or int(found[1]) > int(found[2])):
        raise Case(f"exit code {done.returncode}: {done.stderr[-800:]}")
    if steps_of(out):
        raise Case(f"{steps_of(out)} steps were made")
    return message


def signalled(out, steps, number, *more):
    """Sent to a run while the GPU is at work, graphs being launched (from the third step on): its exit code, and the steps it had made before."""
    plan = compiled("gpt2", "--world-size", 2, "--zero-stage", 3)
    run = subprocess.Popen(list(map(str, [suite.bin / "zero-run", plan, "--out", out, "-n", 2, "--device", STREAMS, "--steps", steps, "--quiet",
                                          "--data", suite.models / "gpt2/inputs.safetensors", *more])), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    patience = time.monotonic() + 60
    while steps_of(out) < 3 and run.poll() is None and time.monotonic() < patience:
        time.sleep(0.01)
    stood = steps_of(out)
    run.send_signal(number)
    try:
        _, err = run.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        run.kill()
        raise Case("it does not end")
    return run.returncode, stood, err


def interrupted(number):
    """The run saves, ends by itself, and says so."""
    def run():
        out = suite.dir / f"interrupted-{number}"
        code, stood, err = signalled(out, 100000, number)
        if stood < 3 or code != PREEMPTED:
            raise Case(f"exit code {code}, asked to end after {stood} steps: {err[-500:]}")
        saved = [folder.name for folder in out.glob("step-*")]
        if not saved:
            raise Case(f"no checkpoint in {out}")
        return f"after step {steps_of(out)}, saved {', '.join(saved)}"
    return run


def killed():
    """At once, and gone on with from its newest checkpoint: the bits of a run that nobody disturbed."""
    steps, out, plan = 40, suite.dir / "killed", compiled("gpt2", "--world-size", 2, "--zero-stage", 3)
    saving = ("--save-every", 2)
    code, stood, err = signalled(out, steps, signal.SIGKILL, *saving)
    if code != -signal.SIGKILL or stood < 3:
        raise Case(f"exit code {code} after {stood} steps: {err[-500:]}")
    weights = []
    for folder in (out, suite.dir / "undisturbed"):
        suite.tool("zero-run", plan, "--out", folder, "-n", 2, "--device", STREAMS, "--steps", steps, "--quiet", "--data",
                   suite.models / "gpt2/inputs.safetensors", "--resume", "auto", *saving)
        suite.tool("zero-run", "export", folder / "final", "--safetensors", folder / "exported.safetensors")
        weights.append((folder / "exported.safetensors").read_bytes())
    same("weights", *weights)
    return f"killed after step {stood}"


MODELS = [model for model in ("mlp", "gpt2", "llama", "bert", "vit", "resnet")[: 1 if own.device == "fake" else None] if (suite.models / model).is_dir()]
TIERS = [("--offload-optimizer", "host"), ("--offload-optimizer", "host", "--offload-param", "host"),
         ("--offload-optimizer", "nvme", "--offload-param", "nvme", "--offload-activation", "host")]
# In bf16 for cuDNN's attention and convolutions, cuBLASLt's products of 16 bits and epilogues.
STREAMED = [(model, 1, ()) for model in MODELS] + [("gpt2", 2, ("--zero-stage", 3)), ("llama", 4, ("--zero-stage", 2, "--grad-accumulation", 2)),
                                                   ("gpt2", 1, BF16), ("gpt2", 2, (*BF16, "--zero-stage", 3)), ("resnet", 1, BF16)]
STAGES = [("gpt2", world, number, ()) for world, number in itertools.product((1, 2, 4), range(4)) if world > 1 or number == 0] + [
    ("gpt2", 2, number, (*BF16, *flags)) for number, flags in ((0, ()), (3, ()), (3, ("--checkpoint-activations", "block")), (3, ("--prefetch", "none")),
                                                               (3, ("--bucket-size", "64KiB")))]
checks = {
    # Threads compute what the CPU's tests compute anyway: a few show that the script does what it should.
    "kernels": [("against the CPU's plain ones", lambda: kernel_tests(shards=max(1, min(4, (os.cpu_count() or 1) // 2))) if own.device == "cuda"
                 else kernel_tests(filters="NormSum*:Quantize*", shards=2))],
    "fixtures": [(f"{model} {precision}", fixture(model, precision, tolerance))
                 for precision, tolerance in (("fp32", 1e-5), ("tf32", 5e-3), ("bf16", 2e-2)) for model in MODELS] +
                [(f"{model} bf16, fused or not", fused(model, tolerance)) for model, tolerance in (("resnet", 0), ("gpt2", 2e-2)) if model in MODELS] +
                [("gpt2 bf16 with dropout", dropped(2e-2))],
    "streams": [(" ".join(map(str, (model, f"W={world}", *flags))), streams(model, world, *flags)) for model, world, flags in STREAMED],
    "bits": [(" ".join((model, f"W={world} stage {number}", *flags)), stage(model, world, number, *flags)) for model, world, number, flags in STAGES],
    "tiers": [(" ".join(("gpt2 W=2 stage 3", *flags)), stage("gpt2", 2, 3, *flags)) for flags in TIERS],
    "faults": [*((f"{name} out of range in step 3", lambda name=name: bad_index(name)) for name in ("input_ids", "labels")),
               ("no memory for a context", lambda: memory_taken(200, lambda: (compiled("gpt2"), suite.models / "gpt2/inputs.safetensors"), "CUDA's context")),
               ("no memory for the plan", lambda: memory_taken(1500, large, "")), ("SIGTERM", interrupted(signal.SIGTERM)),
               ("Ctrl-C", interrupted(signal.SIGINT)), ("SIGKILL", killed)],
    "shapes": [("what the libraries chose", shapes)],
    "sanitizer": [sanitizer(tool) for tool in ("memcheck", "racecheck", "synccheck")],
}
for name in (name for name in CHECKS if name not in LAST):
    # Most of a small model's run is the start of its process.
    suite.args.jobs = 3 if name in ("fixtures", "streams", "bits", "tiers") and (own.device == "fake" or os.cpu_count() > 3) else 1
    part(name, checks[name], CHECKS[name])
suite.args.jobs = 1
if set(own.only) & set(FIGURES):
    for name, seconds, cases in Figures(suite, STREAMS, target, seconds_left).parts(environment):
        part(name, cases, seconds)
for name in LAST:
    part(name, checks[name], CHECKS[name])
suite.finish()
