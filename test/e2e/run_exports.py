#!/usr/bin/env python3
"""Losses of the exports in test/e2e/exports against PyTorch's (exports/make.py made both): decoders with ALiBi and with a
sliding window, a mixture of experts, encoder-decoders of text and speech, encoders, vision. Two ranks at stage 3, one rank with two
micro-steps, and two times two ranks that share the work on a sample. Without the word of torch.export, or the user's, the padding of an
embedding would be trained."""
import json, pathlib, re, sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from e2e import Case, Suite, close

suite = Suite(__doc__)
exports = pathlib.Path(__file__).resolve().parent / "exports"
golden = json.loads((exports / "golden.json").read_text())
RUNS = {  # optimizer: its flags, ranks, micro-steps, stage
    "sgd": (["--optimizer", "sgd", "--lr", "0.05"], 2, 1, 3),
    "adamw": (["--optimizer", "adamw", "--lr", "1e-3", "--weight-decay", "0.01"], 1, 2, 0),
    "sgd in parts": (["--optimizer", "sgd", "--lr", "0.05", "--tensor-parallel", 2], 4, 1, 3),
}
TOLERANCE = {"convnext": 1e-4, "segformer": 1e-4, "wav2vec2": 1e-4, "denoiser": 1e-4,  # convolutions
             "bottlenecks": 1e-6}  # in double: what differs elsewhere is rounding, which batch norms amplify


def train(name, optimizer, *more):
    flags, world, accumulation, stage = RUNS[optimizer]
    folder = suite.dir / f"{name}-{optimizer}{len(more)}"
    plan = suite.compile(exports / f"{name}.onnx", folder.with_suffix(".plan"), "--world-size", world, "--grad-accumulation",
                         accumulation, "--zero-stage", stage, *flags, *golden[name]["flags"], *more)
    metrics = suite.train(plan, folder, "-n", world, "--data", exports / f"{name}.safetensors", "--steps", 3)
    return [m["loss"] for m in metrics]


def agrees(name, optimizer):
    return f"{close('loss', train(name, optimizer), golden[name][optimizer.split()[0]], TOLERANCE.get(name, 1e-5)):.1e}"


def padding_matters():
    """The golden losses are none of a padding that is trained as another row is: row 5 in its place."""
    losses = train("roberta", "sgd", "--padding-idx", "*word_embeddings*=5")
    try:
        close("loss", losses, golden["roberta"]["sgd"], 1e-5)
    except Case:
        return
    raise Case("the losses do not depend on the padding's gradient")


ATTENTIONS = {"bart": 3, "bloom": 1, "llama": 1, "mistral": 1, "mixtral": 1, "phi3": 1, "roberta": 1, "segformer": 2, "t5": 3, "wav2vec2": 1, "whisper": 3}
ROUTERS = {"mixtral": 1}  # softmaxes that are no attention's


def attends(name):
    """However the exporter wrote it (torch.export joins the heads of its keys, repeats those of grouped queries, folds masks; T5 adds a
    table that is trained), attention is one operation whose scores are nowhere."""
    plan = suite.compile(exports / f"{name}.onnx", suite.dir / f"{name}.plan", *golden[name]["flags"])
    table = suite.tool("zero-run", "inspect", plan, "--kernels")
    counts = {line.split()[0]: int(line.split()[-1]) for line in table.splitlines() if re.match(r"^[a-z_]+ .* \d+$", line)}
    wanted = ATTENTIONS[name]
    if (counts.get("attention"), counts.get("attention_grad"), counts.get("softmax", 0)) != (wanted, wanted, ROUTERS.get(name, 0)):
        raise Case(f"attention is plain operations: {counts}")


suite.run([(f"{name}'s attention", lambda a=name: attends(a)) for name in ATTENTIONS])
suite.run([(f"{name} {optimizer}", lambda a=(name, optimizer): agrees(*a)) for name in golden for optimizer in RUNS] +
          [("roberta, another padding", padding_matters)])
suite.finish()
