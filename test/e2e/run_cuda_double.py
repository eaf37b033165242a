#!/usr/bin/env python3
"""The plugin for GPUs without a GPU: its own sources beside a double of CUDA (test/cuda/double). What test/cuda/on_gpu.py asks of a GPU, and
what a GPU or a driver may be like: several GPUs, none, too little memory, memory of the host that cannot be pinned, streams that cannot wait
for words, no way from one GPU to another, GPUs of two kinds, a GPU that is lost or whose kernel never ends, a driver that is too old, a library that is missing. What
people do with a trained model: evaluation, while training and after, delayed updates, fp16 whose steps are skipped, ZeRO++, a plan that was made for CPUs. The
double says which rule of CUDA's was broken: nothing may be said."""
import itertools, json, pathlib, re, sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cuda_double import LIBRARIES, Double
from e2e import ROOT, Case, Suite, same

suite = Suite(__doc__)
double = Double(suite)
STEPS = 4
UNSUPPORTED, BUDGET, PEER_LOST, MISMATCH, WATCHDOG = 4, 5, 7, 10, 11
# What a lost GPU says: ECC, illegal address, time-out, hardware stack, launch failure, unknown; in turn.
codes = itertools.cycle((214, 700, 702, 714, 719, 999))
PATIENCE = ("--patience", 4, "--budget", 800)  # minutes are few where there is a GPU
OFFLOADED = ("--offload-optimizer", "host", "--offload-param", "host")
HELD_OUT = ("--eval-data", suite.models / "gpt2/inputs.safetensors", "--eval-steps", 2, "--eval-every", 2)


def checks(*parts):
    """on_gpu.py's, each of which compares bits or errors."""
    def run():
        done = double.run_silently("-".join(parts), [sys.executable, ROOT / "test/cuda/on_gpu.py", "--bin", double.programs, *PATIENCE, "--only", *parts])
        lines = re.findall(r"^(?:ok|skip|FAIL) .*$", done.stdout, re.M)
        passed = [line for line in lines if line.startswith("ok")]
        wrong = [line for line in lines if line not in passed and not re.search("no torch to take the memory|s are gone", line)]
        if done.returncode or wrong or 2 * len(passed) < len(lines) or not passed:  # a loaded machine has no time for some
            raise Case(f"exit code {done.returncode}:\n{done.stdout[-3000:]}{done.stderr[-2000:]}")
        return f"{len(passed)} cases of {len(lines)}"
    return f"on_gpu.py {' '.join(parts)}", run


def kernels(filters, machine="", **more):
    """Exit code, and what is said by tests of kernels, on the double's GPU."""
    done = double.run_silently(re.sub(r"\W+", "_", f"kernels {filters} {machine} {more}"), [double.programs / "zc-kernel-test", f"--gtest_filter={filters}", "--gtest_brief=1"],
                               ZC_TEST_DEVICE="cuda", ZC_CUDA_DOUBLE=machine, **more)
    return done.returncode, done.stdout + done.stderr


def few_shapes():
    """As compute-sanitizer is to see them, each operand in an allocation of its own. Every kernel that a GPU has is called; not by tests of
    random programs, each of which the host's compiler would take seconds for."""
    code, said = kernels("-FusedSource*", ZC_TEST_SANITIZER="1")
    told = re.search(r"^on the GPU: (\d+ of \d+ kernels) were called; not(.*)$", said, re.M)
    if code or not told or told[2]:
        raise Case(f"exit code {code}: {told and told[0]}: {said[-2000:]}")
    return told[1]


def over():
    """Results over operands have the bits of those beside them, operands side by side as tests on a GPU have them."""
    code, said = kernels("Elementwise*:Optimizer*")
    if code:
        raise Case(f"exit code {code}: {said[-2000:]}")


def beside():
    """What a kernel writes beside its results is found."""
    code, said = kernels("Optimizer*:Norm*")
    if code:
        raise Case(f"exit code {code}: {said[-2000:]}")
    code, said = kernels("OptimizerTest.*:Optimizer*", "stray=1")
    if code != 1 or not re.search(r"kernel '\w+' wrote byte -1 of operand \d", said):
        raise Case(f"exit code {code} of a kernel that strays: {said[-2000:]}")


def aligned_less():
    """Products that lie where cuBLASLt adds no bias: written before. Where it multiplies nothing: refused, and what lies elsewhere is not."""
    code, said = kernels("Fast.matmul", "epilogues=16")
    if code:
        raise Case(f"exit code {code} without epilogues: {said[-2000:]}")
    code, said = kernels("Fast.matmul", "aligned=16")
    if code != 1 or "at addresses that are no multiples of 16" not in said:
        raise Case(f"exit code {code} of addresses that are refused: {said[-2000:]}")
    code, said = kernels("Linear.gelu*", "aligned=16")
    if code:
        raise Case(f"exit code {code} of addresses that are taken: {said[-2000:]}")


def asked_before():
    """Products that plans ask for, beside what cuBLASLt was asked for on GPUs (on_gpu.py's `shapes` saves it): none was refused there."""
    saved = sorted((ROOT / "test/cuda/devices").glob("*-libraries.json"))
    here = suite.dir / "choices"
    done = double.run_silently("shapes", [sys.executable, ROOT / "test/cuda/on_gpu.py", "--bin", double.programs, *PATIENCE, "--only", "shapes", "--save", here])
    if done.returncode:
        raise Case(done.stdout[-1500:] + done.stderr[-1500:])
    asked = {choice["asked"] for file in here.iterdir() for choice in json.loads(file.read_text())["choices"]}
    if len(asked) < 100:
        raise Case(f"{len(asked)} products: {done.stdout[-1500:]}")
    if not saved:
        return f"{len(asked)} products; no GPU has said yet what cuBLASLt makes of them"
    told = []
    for file in saved:
        taken = {choice["asked"]: choice["taken"] for choice in json.loads(file.read_text())["choices"]}
        if refused := [question for question in asked if taken.get(question) == "none"]:
            raise Case(f"{file.name}: refused are {refused}")
        told.append(f"{file.stem}: {len(asked & taken.keys())} of {len(asked)}")
    return ", ".join(told)


def trained(machine, device, *flags, more=()):
    return double.trained(double.compiled(2, "--zero-stage", "3", *flags), machine, device, STEPS, ranks=2, more=more)


def like_steps(machine, *flags, world=2, target="cuda", more=(), said="", shows=lambda steps: True):
    """The bits of a run step by step on one GPU, one line that contains `said`, and what `shows` looks for in the steps."""
    def run():
        plan = double.compiled(world, *flags, target=target)
        got = double.trained(plan, machine, "cuda", STEPS, ranks=world, more=more)
        if got[0] or len(got[2]) != STEPS or (said and len([line for line in got[1].splitlines() if said in line]) != 1) or not shows(got[2]):
            raise Case(f"exit code {got[0]}: {got[2]}: {got[1][-2000:]}")
        same("losses and norms", got[2], double.stepwise(plan, world, STEPS, more)[2])
    return f"{machine} W={world} {' '.join(map(str, (*flags, *more)))} for {target}", run


def evaluated():
    """`zero-run eval` of what was trained: the loss of the evaluation after its last step, and files of outputs, on streams and step by step."""
    out, found = suite.dir / "for-eval", set()
    code, said, steps = double.trained(double.compiled(2, "--zero-stage", "3", "--with-eval"), "gpus=2", "cuda", STEPS, ranks=2, more=HELD_OUT, out=out)
    if code:
        raise Case(said[-2000:])
    for world in (1, 2):
        plan = suite.compile(suite.models / "gpt2/ts17.onnx", suite.dir / f"eval-{world}.plan", "--target", "cuda", "--world-size", world, "--forward-only")
        for device in ("cuda", "cuda-sync"):
            file = suite.dir / f"eval-{world}-{device}.safetensors"
            done = double.run_silently(file.stem, [double.programs / "zero-run", "eval", plan, "-n", world, "--device", device, "--data", HELD_OUT[1],
                                                   "--steps", 4 // world, "--weights", out / "final", "--outputs", file], ZC_CUDA_DOUBLE="gpus=2")
            if done.returncode:
                raise Case(done.stderr[-2000:])
            same(f"{file.stem}: the loss", [json.loads(done.stdout.splitlines()[-1])["loss"]], [steps[-1]["val_loss"]])
            found.add(file.read_bytes())
    same("files of outputs", len(found), 1)


def nobody():
    """A step of a plan for CPUs that no GPU computes: before the first one, with the command that compiles for GPUs."""
    plan, text = double.compiled(2, "--fuse", "off", target="cpu"), suite.dir / "tomorrow.mlir"
    text.write_text(suite.tool("zero-translate", "--plan-to-mlir", plan).replace('"gelu"', '"gelu_of_tomorrow"'))
    suite.tool("zero-translate", "--mlir-to-plan", text, "-o", suite.dir / "tomorrow.plan")
    code, said, steps = double.trained(suite.dir / "tomorrow.plan", "gpus=1", "cuda", STEPS, ranks=2)
    if code != MISMATCH or steps or not re.search(r'^error.*no implementation on cuda, the first is kernel "gelu_of_tomorrow"', said, re.M) or "--target cuda" not in said:
        raise Case(f"exit code {code}: {said[-2000:]}")


def rounds_factors():
    """--matmul-precision tf32: other bits than fp32's, within what 10 bits of mantissa leave, and the same ones each time; a CPU has fp32's."""
    flags = ("--matmul-precision", "tf32")
    exact, rounded = (double.stepwise(double.compiled(2, "--zero-stage", "3", *more), 2, STEPS) for more in ((), flags))
    same("bits of streams and of steps", trained("gpus=1", "cuda", *flags)[2], rounded[2])
    plain, permitted = (trained("", "cpu", *more)[2] for more in ((), flags))
    same("bits on a CPU", permitted, plain)
    if len(plain) != STEPS:
        raise Case(f"{len(plain)} steps on a CPU")
    losses = [(each[key], other[key]) for each, other in zip(exact[2], rounded[2]) for key in ("loss", "grad_norm")]
    if len(rounded[2]) != STEPS or rounded[2] == exact[2] or any(abs(a - b) > 2e-3 * abs(a) for a, b in losses):
        raise Case(f"{rounded[0]}: {exact[2]} and {rounded[2]}: {rounded[1][-1000:]}")


def refused(machine, code, expected, steps=0, flags=(), more=()):
    """The exit code, one error that contains `expected`, and no more steps than these."""
    def run():
        got = trained(machine, "cuda", *flags, more=more)
        errors = re.findall(r"^error.*$", got[1], re.M)
        if got[0] != code or len(errors) != 1 or not re.search(expected, errors[0]) or len(got[2]) > steps:
            raise Case(f"exit code {got[0]}, {len(got[2])} steps: {got[1][-1500:]}")
        return errors[0]
    return f"{machine} {' '.join(flags)}: exit code {code}", run


def room():
    """Memory for the plan, and nothing beside it for libraries: said before the first step, with both numbers. With some it runs."""
    needs = re.compile(r"^error.*needs (\d+) MiB of device memory, GPU [01] has (\d+) MiB free of \d+ MiB(.*)$", re.M)
    planned = int(needs.search(trained("gpus=2,memory=300000", "cuda")[1])[1])
    said = []
    for beside in (1, 40, 80):
        code, text, steps = trained(f"gpus=2,memory={planned + beside << 20}", "cuda")
        if beside == 80 and (code or len(steps) != STEPS):
            raise Case(f"exit code {code} with {beside} MiB beside the plan: {text[-1500:]}")
        if beside < 80:
            found = needs.search(text)
            if code != BUDGET or steps or not found or int(found[1]) <= int(found[2]) or "would be left for CUDA's libraries" not in found[3]:
                raise Case(f"exit code {code} with {beside} MiB beside the plan: {text[-1500:]}")
            said.append(found[0])
    return said[0]


def without(library, package):
    """Said before the first step, with the package that has it."""
    def run():
        code, said, steps = double.trained(double.compiled(2, "--zero-stage", "3"), "gpus=1", "cuda", STEPS, ranks=2, programs=double.without(library))
        if code != UNSUPPORTED or steps or not re.search(rf'^error.*"{LIBRARIES[library]}" cannot be loaded$', said, re.M) or package not in said:
            raise Case(f"exit code {code}, {len(steps)} steps: {said[-1500:]}")
    return f"without {library}", run


suite.run([("kernels on few shapes", few_shapes), ("kernels over their operands", over), ("kernels that write beside their results", beside),
           ("products that lie anywhere", aligned_less), ("products that GPUs were asked for", asked_before), ("products of rounded factors", rounds_factors)])
suite.run([checks("fixtures"), checks("streams", "bits", "tiers", "faults")])
suite.run([like_steps(machine, "--zero-stage", "3", *flags, said=said) for machine, said in (
               ("gpus=1", "2 ranks share one GPU"), ("gpus=2", ""), ("gpus=2,kinds=2", 'rank 0 has "a double\'s GPU"; rank 1 has "a double\'s GPU of kind 1"'), ("waits=0", ""), ("gpus=2,pins=0", "cannot be pinned"), ("gpus=2,waits=0", ""))
           for flags in ((), OFFLOADED) if flags or "pins" not in machine])
suite.run([like_steps(f"gpus=2,nograph={step}", "--zero-stage", "3") for step in range(1, 5)])  # no memory for graphs: kernel by kernel
suite.run([*(like_steps(f"gpus={gpus}", "--zero-stage", stage, "--with-eval", *flags, world=world, more=HELD_OUT, said="" if world == gpus else "2 ranks share one GPU",
                        shows=lambda steps: ["val_loss" in step for step in steps] == [False, True] * 2)
             for gpus, world, stage, flags in ((1, 1, "0", ()), (1, 2, "3", ()), (2, 2, "3", OFFLOADED))),
           ("zero-run eval", evaluated),
           like_steps("gpus=2", "--zero-stage", "3", "--offload-optimizer", "host", "--delay-update", "--delay-after", "1"),
           like_steps("gpus=2", "--zero-stage", "2", "--precision", "fp16", "--initial-loss-scale", "655360", "--loss-scale-window", "2", "--loss-scale-hysteresis", "1",
                      "--offload-optimizer", "host", shows=lambda steps: {step["skipped"] for step in steps} == {False, True}),
           like_steps("gpus=2", "--zero-stage", "3", "--ranks-per-node", "2", "--hierarchical", "--quantize-weights", "int8", "--quantize-gradients", "int4", world=4),
           like_steps("gpus=2", "--zero-stage", "3", target="cpu"), ("a step that no GPU computes", nobody)])
suite.run([refused("driver=11080", UNSUPPORTED, r"the NVIDIA driver knows CUDA 11\.8, this build is of CUDA \d+\.\d"),
           refused("driver=0", UNSUPPORTED, "there is no NVIDIA driver"),
           refused("capability=75", UNSUPPORTED, r"\"a double's GPU\" has compute capability 7\.5, 8\.0 is needed"),
           refused("code=0", UNSUPPORTED, "this build has no code for the GPU"),
           refused("image=0", UNSUPPORTED, "cannot load a compiled kernel: the driver does not take its machine code: cudaErrorInvalidKernelImage"), without("cuBLASLt", "nvidia-cublas"), without("NVRTC", "nvidia-cuda-nvrtc")])
suite.run([refused("cudnn=5", BUDGET, "cuDNN cannot prepare", flags=("--precision", "bf16")),
           refused("cudnn=7", PEER_LOST, "cuDNN cannot prepare", flags=("--precision", "bf16")),
           ("room beside the plan", room)])
suite.run([refused("gpus=0", UNSUPPORTED, "no GPU can be used"), refused("gpus=2,peers=0", UNSUPPORTED, "cannot read the memory of GPU"),
           refused("memory=300000", BUDGET, r"needs \d+ MiB of device memory, GPU 0 has \d+ MiB free"),
           refused("memory=50000000,others=49900000", BUDGET, r"needs \d+ MiB of device memory, GPU 0 has 0 MiB free of 47 MiB$"),
           refused("memory=1000000,context=2000000", BUDGET, r"needs \d+ MiB of device memory, GPU 0 has 0 MiB free of 0 MiB: too little for CUDA's context"),
           refused("memory=1000000,context=2000000,nvml=0", BUDGET, r"needs \d+ MiB of device memory, GPU 0 has too little free for CUDA's context"),
           *(refused(f"{gpus}lost={kernel},lostas={next(codes)}", PEER_LOST, f"GPU 0 of rank {'0' if gpus else '[01]'} is lost: cannot .*: cudaError", STEPS - 1, flags)
             for flags in ((), OFFLOADED) for gpus in ("", "gpus=2,") for kernel in (1, 150, 400)),
           # Lost while it is asked: by the runtime, by the driver, by cuBLASLt, which of them knows.
           *(refused(f"lostin={kernel},lostas={next(codes)}", PEER_LOST, "GPU 0 of rank [01] is lost: cannot .*: cudaError", STEPS - 1) for kernel in range(20, 60, 5)),
           # Where the driver lets nobody pass who waits for the GPU that is lost: the other one's streams are left.
           *(refused(f"gpus=2,lost={kernel},unpassed=1", PEER_LOST, "GPU 0 of rank 0 is lost: cannot .*: cudaError", STEPS - 1) for kernel in (150, 400)),
           *(refused(f"{gpus}stuck=300", WATCHDOG, "nothing has moved for 3 s: rank [01] waits", STEPS - 1, flags, ("--watchdog", "3"))
             for flags in ((), OFFLOADED) for gpus in ("", "gpus=2,"))])
suite.finish()
