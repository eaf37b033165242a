#!/usr/bin/env python3
"""--fuse: language models whose logits are large train to the losses, norms and weights of the unfused plan, within 1e-5 in fp32; the
same bits at every stage, tier and device, with recomputation and several micro-steps; logits leave the planned peak; labels are
checked as before; evaluation says the same loss and a perplexity. Plans for GPUs likewise. Where there are tiles, or little to save, nothing is
fused."""
import itertools, json, pathlib, re, subprocess, sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from e2e import ROOT, Case, Suite, close, read_safetensors, same, write_safetensors

suite = Suite(__doc__)
STEPS = 2
BATCH, SEQ, VOCAB = 4, 256, 8192  # 32 MiB of logits
SIZES = ["--layers", "1", "--hidden", "32", "--heads", "2", "--vocab", VOCAB, "--seq", SEQ, "--seed", "1"]


def model(name, *flags, batch=BATCH, rows=32):
    path = suite.dir / f"{name}.onnx"
    subprocess.run([sys.executable, ROOT / "test/support/make_gpt.py", path, *map(str, SIZES), "--batch", str(batch), "--inputs", suite.dir / f"{name}.safetensors",
                    "--rows", str(rows), *flags], check=True, capture_output=True)
    return path


MODELS = {"tied": model("tied"), "untied": model("untied", "--untied"), "capped": model("capped", "--cap", "0.5"),
          "smoothed": model("smoothed", "--smoothing", "0.1"), "weighted": model("weighted", "--untied", "--class-weights")}
# Chunks of a GPU are larger.
LARGE = {f"{kind} large": model(f"{kind} large", *flags, batch=20, rows=80) 
         for kind, flags in (("tied", ()), ("untied", ("--untied",)), ("smoothed", ("--smoothing", "0.1", "--cap", "0.5")))}
HALVES = {"tied long": model("tied long", batch=2 * BATCH), "untied long": model("untied long", "--untied", batch=2 * BATCH),
          "capped long": model("capped long", "--cap", "0.5", batch=2 * BATCH),
          "smoothed long": model("smoothed long", "--smoothing", "0.1", "--cap", "0.5", batch=2 * BATCH)}  # worth it in 16 bits


# An export whose model adds a bias to the logits, behind a reshape, which is zeros until it is trained; of few classes it takes many rows.
ROWS, TARGET, LENGTH = 2048, 16, 4
EXPORTED = {"bart": ROOT / "test/e2e/exports/bart.onnx"}
EXPORTED_FLAGS = {"bart": ["--dim", f"batch={ROWS}", "--dim", f"target={TARGET}", "--dim", f"length={LENGTH}", "--trainable", "+*final_logits_bias"]}


def write_targets(path):
    """Of as many sentences as one micro-step takes: tokens 3 to 96, no padding."""
    count = itertools.count()
    ids = {name: ("I64", [ROWS, length], [3 + next(count) * 7919 % 94 for _ in range(ROWS * length)])
           for name, length in (("input_ids", LENGTH), ("labels", TARGET))}
    ones = ("I64", [ROWS, LENGTH], [1] * (ROWS * LENGTH))
    write_safetensors(path, {**ids, "attention_mask": ones})


def plan(name, kind, *flags):
    flags = [*EXPORTED_FLAGS.get(kind, []), *flags]
    return suite.compile({**MODELS, **HALVES, **LARGE, **EXPORTED}[kind], suite.dir / f"{name}.plan", "--clip-grad-norm", "0.5", *flags)


def train(name, kind, flags, world=1, device="cpu"):
    name = re.sub(r"[^\w.-]+", "_", name)
    compiled = plan(name, kind, "--world-size", world, *flags)
    if (heads(compiled) > 0) != ("off" not in flags):
        raise Case(f"{heads(compiled)} fused heads")
    out = suite.dir / name
    metrics = suite.train(compiled, out, "-n", world, "--device", device, "--data", suite.dir / f"{kind}.safetensors", "--steps", STEPS,
                          "--threads", 1, "--nvme-dir", suite.dir)
    suite.tool("zero-run", "export", out / "final", "--safetensors", out / "exported.safetensors")
    exported = read_safetensors(out / "exported.safetensors") if "bf16" not in flags else {}  # where frozen ones have 16 bits
    weights = {n: values for n, (_, _, values) in exported.items()}
    return [m["loss"] for m in metrics], [m["grad_norm"] for m in metrics], weights


def heads(compiled):
    """Steps that are a fused head's."""
    return suite.tool("zero-run", "inspect", compiled, "--text").count('"linear_')


def peak(kind, *flags):
    text = suite.tool("zero-compile", {**MODELS, **HALVES}[kind], "--dry-run", "--json", *flags)
    return json.loads(text)["tiers"]["device"]["peak_bytes"]


def against_unfused(kind, precision, tolerance, *more):
    def run():
        flags = ["--precision", precision, *more]
        a = train(" ".join(["on", kind, *flags]), kind, flags)
        b = train(" ".join(["off", kind, *flags]), kind, [*flags, "--fuse", "off"])
        worst = [close(what, x, y, tolerance) for what, x, y in zip(("loss", "grad_norm"), a, b)]
        if precision == "fp32":
            lengths = [[sum(x * x for x in w[n]) ** 0.5 for n in sorted(w)] for w in (a[2], b[2])]
            worst.append(close("weights", *lengths, tolerance))
        return worst

    return " ".join([kind, precision, *more, "as unfused"]), run


def bits(kind, world, *flags, device="cpu", group=()):
    name = " ".join(map(str, ["bits", kind, f"W={world}", device, *group, *flags]))

    def run():
        plain = " ".join(map(str, ("plain", kind, world, *group)))
        expected = suite.once(plain, lambda: train(plain, kind, group, world, "sync"))
        for what, a, b in zip(("loss", "grad_norm", "weights"), train(name, kind, [*group, *flags], world, device), expected):
            same(what, list(a.items()) if what == "weights" else a, list(b.items()) if what == "weights" else b)

    return name, run


def where():
    """What is fused, and what is not."""
    def expect(count, name, *flags, kind="untied"):
        got = heads(plan(f"where_{name}", kind, *flags))
        if (got > 0) != (count > 0):
            raise Case(f"{' '.join(map(str, flags))}: {got} fused heads")
    expect(1, "default")
    expect(0, "off", "--fuse", "off")
    expect(0, "cuda", "--target", "cuda") # one of its chunks has all rows
    expect(1, "cuda-large", "--target", "cuda", kind="untied large")
    for kind in ("untied", "capped", "smoothed", "weighted"):  # whose classes each rank has a part of
        expect(0, f"model-axis-{kind}", "--world-size", 2, "--tensor-parallel", 2, kind=kind)
    expect(0, "tiles", "--zero-stage", 3, "--tile-linear", "512KiB")
    expect(1, "larger-tiles", "--zero-stage", 3, "--tile-linear", "2MiB")


def memory(kind, *flags):
    """Half of the logits is left: a chunk of two."""
    def run():
        saved = peak(kind, *flags, "--fuse", "off") - peak(kind, *flags)
        logits = BATCH * (2 if kind in HALVES else 1) * SEQ * VOCAB * (2 if "bf16" in flags else 4)
        if saved < 0.45 * logits:
            raise Case(f"{saved} bytes fewer, of {logits} of logits")
        return saved / logits
    return " ".join(["memory", kind, *flags]), run


def labels():
    values = [VOCAB if i == 7 else i % 100 for i in range(BATCH * SEQ)]
    path = write_safetensors(suite.dir / "labels.safetensors", {n: ("I64", [BATCH, SEQ], v) for n, v in
                                                                (("input_ids", [0] * len(values)), ("labels", values))})
    text = suite.tool("zero-run", plan("labels", "untied"), "--out", suite.dir / "labels", "--data", path, "--steps", 1, code=3)
    if str(VOCAB) not in text:
        raise Case(text)


def evaluation():
    outcomes = []
    for fuse in ("on", "off"):
        compiled = plan(f"eval_{fuse}", "untied", "--with-eval", "--fuse", fuse)
        data = suite.dir / "untied.safetensors"
        metrics = suite.train(compiled, suite.dir / f"eval_{fuse}", "--data", data, "--eval-data", data, "--eval-every", 2, "--steps", 2,
                              "--threads", 1)
        found = [m for m in metrics if "val_loss" in m]
        if not found or "val_perplexity" not in found[-1]:
            raise Case(f"--fuse {fuse}: {metrics[-1]}")
        outcomes.append([found[-1]["val_loss"]])
    return close("val_loss", *outcomes, 1e-5)


FROZEN = ("--frozen", "head.weight")  # as beside adapters
write_targets(suite.dir / "bart.safetensors")
suite.run([against_unfused(kind, "fp32", 1e-5) for kind in (*MODELS, *EXPORTED)] + [against_unfused("untied long", "bf16", 2e-2), against_unfused("tied long", "fp16", 2e-2),
           against_unfused("capped long", "bf16", 2e-2), against_unfused("smoothed long", "bf16", 2e-2),
           against_unfused("weighted", "fp32", 1e-5, *FROZEN)])
ACCUMULATED = ("--grad-accumulation", "2")
suite.run([against_unfused("untied", "fp32", 1e-5, *FROZEN), against_unfused("untied long", "bf16", 2e-2, *FROZEN), bits("untied", 2, "--zero-stage", 3, group=FROZEN)])
suite.run([bits("tied", 2, "--zero-stage", stage, group=group) for stage, group in suite.draw(itertools.product(range(4), ((), ACCUMULATED)), 4)] +
          [bits("tied", 2, "--zero-stage", 3, "--offload-param", tier, "--offload-optimizer", tier) for tier in ("host", "nvme")] +
          [bits("tied", 2, "--zero-stage", 3, device="sync"), bits("tied", 2, "--zero-stage", 3, device="fake"),
           bits("tied", 2, "--checkpoint-activations", "block"),
           bits("tied", 2, "--checkpoint-activations", "selective", "--zero-stage", 2), bits("tied", 2, "--offload-activation", "host"),
           bits("tied", 2, "--zero-stage", 3, "--micro-order", "vertical", group=ACCUMULATED)])
CUDA = ("--target", "cuda")
suite.run([against_unfused("tied large", "fp32", 1e-5, *CUDA), against_unfused("untied large", "bf16", 2e-2, *CUDA),
           against_unfused("smoothed large", "fp32", 1e-5, *CUDA)] +
          [bits("tied large", 2, "--zero-stage", stage, device=device, group=CUDA)
           for stage, device in suite.draw(((3, "cpu"), (3, "fake"), (0, "fake")), 2, covering_values=False)])
suite.run([("what is fused", where), memory("untied"), memory("capped"), memory("smoothed"), memory("weighted"), memory("untied", *FROZEN), memory("untied long", "--precision", "bf16", *FROZEN),
           ("labels", labels), ("evaluation", evaluation)])
suite.finish()
