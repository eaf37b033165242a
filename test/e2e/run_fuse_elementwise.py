#!/usr/bin/env python3
"""Fused element-wise operations: over all exports of test/models and test/e2e/exports, in fp32 and bf16, losses, norms and trained
weights are those of --fuse off, bit for bit (their heads are too small to be fused), with precisions, stages, recomputation, tiers and micro-steps taking turns; batch norms of chains
that are channels-last, and group norms, are sums and programs; the planned peak is no larger; --fuse off has none."""
import itertools, json, pathlib, re, sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from e2e import MODELS, SEED, Case, Suite, same

suite = Suite(__doc__)
exports = pathlib.Path(__file__).resolve().parent / "exports"
golden = json.loads((exports / "golden.json").read_text())
FLAGS = {("resnet", "dynamo18"): ["--batch-norm", "train"], ("resnet", "dynamo23"): ["--batch-norm", "train"]}
NOTHING_TO_FUSE = ("vit", "bert", "roberta", "gpt2-dynamo23_sdpa", "bottlenecks")  # the last computes in double. There the bits say nothing, and anything may be found later
ON_GPUS = {  # kernels, and settings
    ("gpt2", "ts17"): ((r"linear_gelu_grad +library: cuBLASLt",),
                       ((1,), (2, "--zero-stage", 3, "--checkpoint-activations", "block"), (1, "--checkpoint-activations", "selective"))),
    ("resnet", "dynamo18"): ((r"batch_norm_statistics +own", r"batch_norm_grad_sums +library: NVRTC", r"fused +library: NVRTC"), ((1,),)),
    ("denoiser", None): ((r"group_norm_statistics +own", r"group_norm_grad_sums +own", r"fused +library: NVRTC"), ((1,),)),  # of test/e2e/exports
}
SETTINGS = [  # ranks, flags
    (1, []), (2, ["--zero-stage", 2]), (1, ["--grad-accumulation", 2]), (2, ["--zero-stage", 3, "--checkpoint-activations", "block"]),
    (1, ["--checkpoint-activations", "selective"]), (2, ["--zero-stage", 3, "--offload-param", "host", "--offload-optimizer", "host"]),
    (2, ["--zero-stage", 1, "--offload-activation", "host"]),
]


def fused(plan):
    """Steps that are fused programs, and batch and group norms that are sums and parts of such."""
    kernels = suite.tool("zero-run", "inspect", plan, "--kernels")

    def count(name):
        found = re.search(rf"^{name} +own +(\d+)", kernels, re.MULTILINE)
        return int(found[1]) if found else 0

    return count("fused"), sum(min(count(f"{kind}_norm_statistics"), count(f"{kind}_norm_grad_sums")) for kind in ("batch", "group"))


def train(name, model, data, world, flags, device="cpu"):
    plan = suite.compile(model, suite.dir / f"{name}.plan", "--world-size", world, "--clip-grad-norm", "0.5", *flags)
    out = suite.dir / name
    metrics = suite.train(plan, out, "-n", world, "--device", device, "--data", data, "--steps", 3, "--threads", 1)
    suite.tool("zero-run", "export", out / "final", "--safetensors", out / "exported.safetensors")
    return fused(plan), [m["loss"] for m in metrics], [m["grad_norm"] for m in metrics], (out / "exported.safetensors").read_bytes()


def agrees(name, model, data, precision, setting, flags):
    world, more = setting
    flags = [*flags, *more, "--precision", precision]
    on = train(f"{name}-{precision}-on", model, data, world, flags)
    off = train(f"{name}-{precision}-off", model, data, world, [*flags, "--fuse", "off"])
    has_norms = (model.parent.name == "resnet" and "train" in flags) or model.stem == "denoiser"
    if any(off[0]) or (not on[0][0] and not name.startswith(NOTHING_TO_FUSE)) or (has_norms and not on[0][1]):
        raise Case(f"{on[0]} fused steps and norms with on, {off[0]} with off")
    for what, a, b in zip(("losses", "norms", "weights"), on[1:], off[1:]):
        same(what, a, b)
    return f"{on[0][0]} programs, {on[0][1]} norms" if on[0][0] else "no programs: nothing that could differ"


def peak(model, *flags):
    report = json.loads(suite.tool("zero-compile", model, "--dry-run", "--json", *flags))
    return report["tiers"]["device"]["peak_bytes"]


def smaller(model):
    on, head = peak(model), peak(model, "--fuse", "head")
    if on > head:
        raise Case(f"{on} bytes at the peak, {head} unfused")
    return f"{on / head:.3f}"


def gpus(model, file, lines, world=1, *more):
    """What is fused on GPUs, in 16 bits, has someone who computes it (`lines`), and the bits of what it stands for."""
    def run():
        flags = ["--precision", "bf16", *FLAGS.get((model, file), []), *more]
        name = f"gpu-{model}-{world}-{len(more)}"
        paths = (suite.models / model / f"{file}.onnx", suite.models / model / "inputs.safetensors") if file else \
            (exports / f"{model}.onnx", exports / f"{model}.safetensors")
        runs = [train(f"{name}-{fuse}-{device}", *paths, world,
                      [*flags, "--target", "cuda", "--fuse", fuse], device)[1:] for fuse, device in (("head", "cpu"), ("on", "cpu"), ("on", "fake"))]
        for other in runs[1:]:
            for what, a, b in zip(("losses", "norms", "weights"), runs[0], other):
                same(what, a, b)
        kernels = suite.tool("zero-run", "inspect", suite.dir / f"{name}-on-fake.plan", "--kernels", "--device", "cuda")
        for line in lines:
            if not re.search(rf"^{line} +\d+$", kernels, re.MULTILINE):
                raise Case(f"no {line} in {kernels}")

    return " ".join(map(str, [f"{model} of a GPU, W={world}", *more])), run


def nowhere():
    model = suite.models / "llama" / "dynamo18.onnx"
    for name, flags in (("off", ["--fuse", "off"]), ("head", ["--fuse", "head"])):
        if (count := fused(suite.compile(model, suite.dir / f"nowhere-{name}.plan", *flags)))[0]:
            raise Case(f"{' '.join(flags)}: {count[0]} fused steps")


turns = itertools.islice(itertools.cycle(SETTINGS), SEED % len(SETTINGS), None)
paths = [(model, path) for model in (*MODELS, "resnet", "vit") for path in sorted((suite.models / model).glob("*.onnx"))
         if not path.stem.endswith("sdpa_dropout")]  # an export that is refused
cases = []
for (model, path), precision in suite.draw(itertools.product(paths, ("fp32", "bf16")), len(paths)):
    flags = [*(["--dim", "batch=2", "--dim", "seq=16"] if path.stem.endswith("_dynbatch") else []), *FLAGS.get((model, path.stem), [])]
    cases.append((f"{model}/{path.stem} {precision}", lambda a=(f"{model}-{path.stem}", path, suite.models / model / "inputs.safetensors", precision,
                                                                 next(turns), flags): agrees(*a)))
for name in golden:
    cases.append((f"{name} fp32", lambda a=(name, exports / f"{name}.onnx", exports / f"{name}.safetensors", "fp32", next(turns), golden[name]["flags"]):
                  agrees(*a)))
suite.run(cases)
suite.run([(f"{model}: the peak", lambda m=model: smaller(suite.models / m / "ts17.onnx")) for model in (*MODELS, "resnet", "vit")] +
          [("off, head", nowhere), *(gpus(*model, lines, *setting) for model, (lines, settings) in ON_GPUS.items() for setting in settings)])
suite.finish()
