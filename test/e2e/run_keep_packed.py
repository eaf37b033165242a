#!/usr/bin/env python3
"""--keep-packed: weights that products rearrange once per step have the bits of those that are rearranged in each micro-step, over stages,
worlds, tiers, recomputation and devices; what is kept is memory that the plan names, in what --device-mem leaves; and nothing is kept where
a weight is not there through a step."""
import itertools, json, pathlib, subprocess, sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from e2e import ROOT, Case, Suite, same, same_bits

STEPS = 3
suite = Suite(__doc__)
model, data = suite.dir / "gpt.onnx", suite.dir / "gpt.safetensors"
subprocess.run([sys.executable, ROOT / "test/support/make_gpt.py", model, "--layers", "2", "--hidden", "256", "--heads", "4", "--vocab",
                "300", "--seq", "32", "--batch", "4", "--seed", "0", "--inputs", data, "--rows", "16"], check=True, stdout=subprocess.DEVNULL)
numbers = itertools.count()


def compiled(*flags):
    """-> (plan, bytes of the device, how much of it is kept)."""
    plan = suite.dir / f"plan{next(numbers)}.plan"
    report = json.loads(suite.tool("zero-compile", model, "--precision", "bf16", "--json", *flags, "-o", plan))
    text = suite.tool("zero-translate", "--plan-to-mlir", plan)
    kept = {part.split(" ")[0] for part in text.split("kept = #plan.operand<read_write @")[1:]}
    sizes = {line.split("@")[1].split(" ")[0]: int(line.split("bytes = ")[1].split(" ")[0])
             for line in text.splitlines() if "plan.slice @kept" in line}
    same("slices", set(sizes), kept)
    return plan, report["tiers"]["device"]["peak_bytes"], sum(sizes.values())


def result(plan, world, device):
    return suite.bits(plan, suite.dir / f"run{next(numbers)}", "-n", world, "--threads", 2, "--device", device, "--data", data, "--steps", STEPS,
                      "--nvme-dir", suite.dir)


def same_as_without(world, accumulation, stage, device, flags, keeps):
    common = ("--world-size", world, "--grad-accumulation", accumulation, "--zero-stage", stage, *flags.split())
    plan, peak, kept = compiled(*common)
    without, least, nothing = compiled(*common, "--keep-packed", "off")
    if (kept > 0) != keeps or nothing:
        raise Case(f"{kept} bytes are kept, {nothing} without")
    if not kept <= peak - least <= kept + 255 * 100:  # slices begin at multiples of 256
        raise Case(f"the device has {peak} bytes, {least} without, of which {kept} are kept")
    same_bits(result(plan, world, device), result(without, world, "sync"))
    return f"{kept} bytes"


def in_what_is_left():
    flags = ("--grad-accumulation", 2)
    whole, peak, kept = compiled(*flags)
    _, least, _ = compiled(*flags, "--keep-packed", "off")
    exact = compiled(*flags, "--device-mem", peak)
    same("with room for all", exact[1:], (peak, kept))
    tight = compiled(*flags, "--device-mem", least)
    same("with room for nothing", tight[1:], (least, 0))
    some = compiled(*flags, "--device-mem", (least + peak) // 2)
    if not 0 < some[2] < kept or some[1] > (least + peak) // 2:
        raise Case(f"half of {kept} bytes: {some[1:]}")
    same_bits(result(some[0], 1, "cpu"), result(whole, 1, "sync"))


def says_so():
    plan, _, _ = compiled("--grad-accumulation", 2)
    text = suite.tool("zero-run", "inspect", plan, "--kernels", "--products", "none")
    if "tiles" in text and "weights kept" not in text:
        raise Case(text[-1500:])
    return "tiles" in text and "by tiles" or "this CPU multiplies by no tiles"


BLOCKS = "--checkpoint-activations block"
CASES = [  # world, micro-steps, stage, device, flags, is anything kept?
    (1, 2, 0, "cpu", "", True), (1, 3, 0, "sync", BLOCKS, True), (1, 1, 0, "cpu", "", False), (2, 2, 1, "cpu", "", True), (2, 2, 2, "cpu", BLOCKS, True),
    (2, 2, 3, "cpu", "", False), (2, 2, 3, "cpu", "--device-mem 64MiB", True), (1, 2, 0, "cpu", "--offload-optimizer host", True),
    (1, 2, 0, "cpu", "--offload-optimizer host --delay-update --delay-after 1", True),
    (1, 2, 0, "cpu", "--offload-param host --micro-order rolled", False), (1, 2, 0, "cpu", "--micro-order vertical", False),
    (2, 2, 0, "cpu", "--tensor-parallel 2", True), (2, 2, 2, "cpu", "--quantize-gradients int8", True)]
suite.run([(f"W={case[0]} G={case[1]} stage {case[2]} {case[3]} {case[4]}".strip(), lambda case=case: same_as_without(*case)) for case in CASES])
suite.run([("in what --device-mem leaves", in_what_is_left), ("inspect --kernels says so", says_so)])
suite.finish()
