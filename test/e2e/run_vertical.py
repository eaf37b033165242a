#!/usr/bin/env python3
"""The order of micro-steps: all of a block before the next block changes neither losses, norms nor weights, with every tier,
recomputation, quantization, dropout and both devices; parameters cross their link once per half of a step instead of once for each
micro-step; and it is chosen where it is expected to pay."""
import json, pathlib, sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from e2e import Case, Suite, same

suite = Suite(__doc__)
STEPS = 3


def offload(optimizer, param, activation="none"):
    return ("--offload-optimizer", optimizer, "--offload-param", param, "--offload-activation", activation)


def compiled(model, export, order, *flags):
    name = "-".join(str(part).strip("-").replace("/", "") for part in (model, export, order, *flags))
    return suite.compile(suite.models / model / f"{export}.onnx", suite.dir / f"{name}.plan", "--bucket-size", "16KiB", "--micro-order",
                         order, *flags)


def result(plan, model, world, device):
    out = plan.with_suffix("." + device)
    metrics = suite.train(plan, out, "-n", world, "--device", device, "--data", suite.models / model / "inputs.safetensors", "--steps",
                          STEPS, "--nvme-dir", suite.dir)
    suite.tool("zero-run", "export", out / "final", "--safetensors", out / "exported.safetensors")
    return [(m["loss"], m["grad_norm"]) for m in metrics], (out / "exported.safetensors").read_bytes()


def case(model, world, accumulation, *flags, export="ts17", device="cpu"):
    name = " ".join(map(str, [model, export, f"W={world} G={accumulation}", *flags, device]))

    def run():
        common = ("--world-size", world, "--grad-accumulation", accumulation, *flags)
        rolled, vertical = (result(compiled(model, export, order, *common), model, world, device) for order in ("rolled", "vertical"))
        same("losses and norms", vertical[0], rolled[0])
        same("weights", vertical[1], rolled[1])
    return name, run


def report(order, *flags):
    return json.loads(suite.tool("zero-compile", suite.models / "gpt2" / "ts17.onnx", "--bucket-size", "16KiB", "--micro-order", order,
                                 *flags, "--dry-run", "--json"))


def traffic():
    """Of G micro-steps one each way, forward and backward; gradients cross as often as before."""
    counted = []
    for counter, flags in (("gather", ("--world-size", 2, "--zero-stage", 3)), ("h2d", offload("none", "host"))):
        flags = ("--grad-accumulation", 4, *flags)
        rolled, vertical = report("rolled", *flags), report("vertical", *flags)
        less = [vertical["traffic"][counter], rolled["traffic"][counter]]
        if less[0] * 4 != less[1] or vertical["traffic"]["reduce_scatter"] != rolled["traffic"]["reduce_scatter"]:
            raise Case(f"{counter}: {vertical['traffic']}, {rolled['traffic']}")
        counted.append(f"{counter} {less[0]} of {less[1]}")
    return ", ".join(counted)


def choice():
    """Vertical where the link is slow, rolled where it is not, where nothing is fetched, and within a budget that it exceeds."""
    flags, machine = ("--grad-accumulation", 4, *offload("host", "host")), suite.dir / "machine.json"

    def chosen(rate, *more):
        machine.write_text(json.dumps({"h2d_bandwidth": rate, "d2h_bandwidth": 1e12}))
        return report("auto", *flags, *more, "--machine", machine)["micro_order"]

    same("slow link", chosen(1e7), "vertical")
    same("fast link", chosen(1e12), "rolled")
    chosen(1e7)
    sizes = {order: report(order, *flags, "--machine", machine)["tiers"]["device"]["peak_bytes"] for order in ("rolled", "vertical")}
    if sizes["vertical"] <= sizes["rolled"]:
        raise Case(f"device memory {sizes}")
    same("slow link, little memory", chosen(1e7, "--device-mem", sizes["rolled"], "--residency", "none"), "rolled")
    same("nothing fetched", report("auto", "--grad-accumulation", 4)["micro_order"], "rolled")


def size():
    """More micro-steps than can be placed in a while: not chosen, and refused where they are asked for; at once, over budget too."""
    mlp, flags = suite.models / "mlp" / "ts17.onnx", ("--grad-accumulation", 20000, *offload("host", "host"), "--dry-run")
    same("chosen", json.loads(suite.tool("zero-compile", mlp, *flags, "--json"))["micro_order"], "rolled")
    suite.tool("zero-compile", mlp, *flags, "--device-mem", "1KiB", code=5)
    suite.tool("zero-compile", mlp, *flags, "--micro-order", "vertical", code=2)


def statistics():
    """Running statistics pass from one micro-step to the next: the order stays."""
    model = suite.models / "resnet" / "ts17.onnx"
    plans = [suite.compile(model, suite.dir / f"resnet-{order}.plan", "--grad-accumulation", 2, "--batch-norm", "train", "--micro-order",
                           order) for order in ("rolled", "vertical")]
    same("plans", suite.plan_hash(plans[1]), suite.plan_hash(plans[0]))


suite.run([
    case("mlp", 1, 2), case("mlp", 2, 3, "--zero-stage", 3, device="sync"),
    case("gpt2", 2, 2, "--zero-stage", 0), case("gpt2", 2, 2, "--zero-stage", 2), case("gpt2", 2, 4, "--zero-stage", 3),
    case("gpt2", 2, 2, "--zero-stage", 3, device="sync"), case("gpt2", 4, 2, "--zero-stage", 3, "--precision", "bf16"),
    case("gpt2", 1, 2, "--dropout", "force", export="ts17_dropout"),
    case("gpt2", 2, 2, "--zero-stage", 3, "--dropout", "force", "--checkpoint-activations", "block", export="ts17_dropout"),
    case("gpt2", 1, 4, *offload("host", "host"), "--checkpoint-activations", "block"),
    case("gpt2", 1, 2, *offload("nvme", "nvme", "host"), "--clip-grad-norm", 0.1),
    case("gpt2", 2, 2, "--zero-stage", 3, *offload("nvme", "nvme", "nvme"), "--checkpoint-activations", "selective"),
    case("gpt2", 2, 2, "--zero-stage", 1, *offload("host", "none"), "--offload-ratio", 0.5),
    case("gpt2", 2, 2, "--zero-stage", 2, *offload("host", "none"), "--delay-update", "--delay-after", 1),
    case("gpt2", 4, 2, "--zero-stage", 3, "--ranks-per-node", 2, "--quantize-weights", "int8", "--hierarchical",
         "--quantize-gradients", "int4", "--quantize-error-feedback"),
    case("gpt2", 2, 2, "--zero-stage", 3, "--loss-mean", "global"), case("gpt2", 2, 2, "--zero-stage", 3, "--tile-linear", "4KiB"),
    case("llama", 2, 2, "--zero-stage", 3, *offload("host", "host", "host"), device="sync"),
    case("llama", 1, 3, *offload("nvme", "nvme"), "--precision", "bf16"), case("bert", 2, 2, "--zero-stage", 3),
    ("traffic", traffic), ("choice", choice), ("statistics", statistics), ("size", size),
])
suite.finish()
