"""A step of models as people have them beside torch's (peers/models.py). Takes bench.py's module.

Models are exported, and compiled, in ZC_BENCH_CACHE (~/.cache/zero-compile/bench: 4 GB), each once: until the scripts that make it, or
zero-compile, are newer. All contenders of a race train the same weights on the same batch, so their losses are compared, step by step:
a model that computes something else has no figure."""
import glob
import hashlib
import json
import os
import re
import shutil
import statistics
import sys
import time

from partner import Partner

TRANSFORMERS = ("gpt2-124m", "bert-base", "vit-base", "llama-110m", "t5-small")
CONVOLUTIONS = ("resnet-50", "mobilenet-v2", "convnext-tiny")  # torch has channels-last of these as well
MODELS = (*TRANSFORMERS, *CONVOLUTIONS, "mamba-130m")
PRECISIONS = ("fp32", "bf16")
WARM_UP, TIMED = 1, 3  # steps of a round
SAME_LOSS = {"fp32": 1e-4, "bf16": 1e-2}  # of torch's; autocast rounds elsewhere than bf16 parameters do
# After the first update, where a model amplifies rounding: torch's own ways differ by 1e-3 in MobileNet-v2's third step, its fp32 and
# fp64 by 6e-4 in Mamba's second one (the norm of whose gradient is 4216). Of Mamba in bf16 torch compiled has a first loss of 14.52, eager 14.86, fp32 15.01.
AMPLIFIED, AMPLIFYING = {"fp32": 1e-2, "bf16": 5e-2}, ("resnet-50", "mobilenet-v2", "mamba-130m")
OF_PRODUCTS = {"gpt2-124m", "bert-base", "vit-base", "llama-110m"}, 1.12  # in fp32: the most of their matrix products alone
PATIENCE = 600  # seconds for a peer's first steps, compiling included


def must(model, precision):
    """The most of the better peer's time."""
    if precision == "fp32":
        return 0.9
    if model == "gpt2-124m" and "amx_bf16" in open("/proc/cpuinfo").read():
        return 0.45
    return 0.6 if model in TRANSFORMERS else 0.85


def python_of(bench):
    """The first python that has transformers; None where none has."""
    return bench.python_with("torch", "transformers", "onnx")


def environment(bench, cache):
    package = os.path.join(bench.ROOT, "python")
    return {"PYTHONPATH": package, "ZC_BIN": bench.BIN, "TORCHINDUCTOR_CACHE_DIR": os.path.join(cache, "inductor")}


def exported(bench, python, model):
    """The model's folder, with model.onnx and batch.safetensors."""
    cache = os.environ.get("ZC_BENCH_CACHE") or os.path.expanduser("~/.cache/zero-compile/bench")
    folder, script = os.path.join(cache, model), os.path.join(bench.PEERS, "models.py")
    sources = [script, *sorted(glob.glob(os.path.join(bench.ROOT, "python/zero_compile/**/*.py"), recursive=True))]
    made_of = hashlib.sha256(b"".join(open(source, "rb").read() for source in sources)).hexdigest()
    stamp = os.path.join(folder, "made-of")
    if not os.path.exists(stamp) or open(stamp).read() != made_of:
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        bench.execute([python, script, "export", model, folder], environment(bench, cache))
        with open(stamp, "w") as file:
            file.write(made_of)
    return folder


def compiled(bench, folder, precision):
    """The plan for a batch as torch has it."""
    plan, compiler = os.path.join(folder, precision + ".plan"), os.path.join(bench.BIN, "zero-compile")
    if not os.path.exists(plan) or os.path.getmtime(plan) < os.path.getmtime(compiler):
        data = os.path.join(folder, "batch.safetensors")
        with open(data, "rb") as file:
            header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        bench.tool("zero-compile", os.path.join(folder, "model.onnx"), "-o", plan, "--dim", f"batch={header['labels']['shape'][0]}", "--lr", "1e-4",
                   "--precision", precision, "--layout", "auto")
    return plan


def trained(bench, folder, plan, threads, *more):
    """-> (metrics of each step, the page of --profile if it was asked for, foreign cores)."""
    out = os.path.join(bench.folder, "run-models")
    _, foreign = bench.tool("zero-run", plan, "--threads", threads, "--data", os.path.join(folder, "batch.safetensors"), "--steps",
                            WARM_UP + TIMED, "--quiet", "--overwrite", "--no-final", "--out", out, *more)
    rows = [json.loads(line) for line in open(os.path.join(out, "metrics.jsonl"))]
    page = os.path.join(out, "profile.html")
    return rows, open(page).read() if os.path.exists(page) else "", foreign


def ours(bench, folder, plan, threads, losses):
    def run():
        rows, _, foreign = trained(bench, folder, plan, threads)
        losses[:] = [row["loss"] for row in rows]
        return [row["step_seconds"] for row in rows[WARM_UP:]], losses[-1], foreign
    return run


def theirs(bench, partner, losses):
    def run():
        bench.wait_until_idle()
        before, at, cpu = bench.busy(), time.time(), partner.cpu_seconds()
        answer = partner.ask(str(TIMED), PATIENCE)
        foreign = (bench.busy() - before - partner.cpu_seconds() + cpu) / (time.time() - at)
        losses.extend(answer["losses"])
        return answer["seconds"], losses[-1], round(max(0.0, foreign), 3)
    return run


def able(name, partner, losses):
    """Whether a peer takes its first steps; what it cannot do is said."""
    try:
        losses.extend(partner.ask(str(WARM_UP), PATIENCE)["losses"])
        return True
    except RuntimeError as why:
        print(f"bench: {name} is not measured: {why}", file=sys.stderr)
        return False


def apart(mine, other):
    """Relative differences, step by step."""
    return [abs(a - b) / abs(b) for a, b in zip(mine, other)]


def compare(model, precision, losses):
    """The largest relative difference of our losses from a peer's of the same step; raises where one is too large. Models that amplify
    rounding may be as far from torch as twice what torch, eager and compiled, is from itself, and after the first update as AMPLIFIED says."""
    mine = losses.pop("zero-run")  # round by round anew, while peers go on
    peers = {name: other for name, other in losses.items() if other}
    allowed = [SAME_LOSS[precision]] * (1 + WARM_UP + TIMED)
    if model in AMPLIFYING:
        selves = [max(step) for step in zip(*(apart(a, b) for a in peers.values() for b in peers.values()))][:len(allowed)]
        allowed = [max(AMPLIFIED[precision] if at else SAME_LOSS[precision], 2 * step) for at, step in enumerate(selves)]
    differences = {name: apart(mine, other) for name, other in peers.items()}
    for name, each in differences.items():
        if not all(d <= limit for d, limit in zip(each, allowed)):
            raise RuntimeError(f"losses {mine}, torch {name} has {losses[name][:len(mine)]}: relative differences of "
                               f"{[float(f'{limit:.1e}') for limit in allowed[:len(mine)]]} are allowed")
    return float(f"{max(map(max, differences.values())):.1e}")


def race(bench, python, model, precision):
    folder = exported(bench, python, model)
    plan = compiled(bench, folder, precision)
    threads = min(2, len(os.sched_getaffinity(0)))
    names = [how + layout for how in ("eager", "compile") for layout in (("", "-channels-last") if model in CONVOLUTIONS else ("",))]
    losses = {name: [] for name in ("zero-run", *names)}
    env = {**environment(bench, os.path.dirname(folder)), "OMP_NUM_THREADS": str(threads)}
    partners = {name: Partner(bench.folder, python, os.path.join(bench.PEERS, "models.py"), "train", model, precision, name, str(threads),
                              env=env) for name in names}
    try:
        contenders = {"zero-run": ours(bench, folder, plan, threads, losses["zero-run"])}
        for name in names:
            if able(f"torch {name} of {model} in {precision}", partners[name], losses[name]):
                contenders[name] = theirs(bench, partners[name], losses[name])
        if len(contenders) == 1:
            raise RuntimeError("torch does not train it in any way")
        result = bench.compete(contenders, at_least=2)
    finally:
        for partner in partners.values():
            partner.__exit__()
    wrong = compare(model, precision, losses)
    bench.report_race(f"models {model} {precision}", result, "zero-run", must(model, precision), loss_difference=wrong)


def models(bench):
    python = python_of(bench)
    if not python:
        return print("bench: no python with torch and transformers (tools/setup.sh --torch makes one): no models are measured", file=sys.stderr)
    failed = []
    for model in bench.options.models:
        for precision in bench.options.precisions:
            try:
                race(bench, python, model, precision)
            except Exception as why:  # the others are measured all the same
                failed.append(f"{model} {precision}")
                print(json.dumps({"bench": f"models {model} {precision}", "failed": f"{type(why).__name__}: {why}"}), flush=True)
    if failed:
        raise RuntimeError(", ".join(failed))


def products(bench):
    """Steps in fp32 over their matrix products alone, which is what these would take at the rate that the best library has on GPT-2's
    shapes in the same minutes; with this machine's table of products and without. Attention is not among the products."""
    python = python_of(bench)
    if not python:
        return print("bench: no python with torch and transformers (tools/setup.sh --torch makes one): no model is exported", file=sys.stderr)
    threads, (known, most) = min(2, len(os.sched_getaffinity(0))), OF_PRODUCTS
    for model in (model for model in bench.options.models if model in known):
        folder, table = exported(bench, python, model), os.path.join(bench.folder, f"{model}.json")
        plan = compiled(bench, folder, "fp32")
        bench.tool("zero-run", "bench-machine", plan, "--threads", threads, "-o", table)
        seconds, shares, foreign = {table: [], "none": []}, {table: [], "none": []}, 0
        for _ in range(max(5, bench.rounds)):
            rates, others = bench.execute([os.path.join(bench.BIN, "bench_limits"), str(threads)])
            rate = max(row["value"] for row in map(json.loads, rates.splitlines()) if row["bench"] in ("gemm_fp32_openblas", "gemm_fp32_onednn"))
            foreign = max(foreign, others)
            for which in seconds:
                rows, page, others = trained(bench, folder, plan, threads, "--products", which, "--profile", f"{WARM_UP + 1}:{WARM_UP + TIMED}")
                kernels = json.loads(re.search(r'"kernels": ?(\[.*?\])', page)[1])
                alone = sum(kernel["flops"] for kernel in kernels if kernel["kernel"].startswith(("matmul", "linear"))) / rate / 1e9
                seconds[which].append(statistics.median(row["step_seconds"] for row in rows[WARM_UP:]))
                shares[which].append(seconds[which][-1] / alone)
                foreign = max(foreign, others)
        bench.emit(f"products {model} fp32", round(statistics.median(seconds[table]), 4), "s", most, round(statistics.median(shares[table]), 3),
                   threads=threads, without_table=round(statistics.median(shares["none"]), 3), foreign_cores=foreign)
