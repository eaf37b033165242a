#!/usr/bin/env python3
"""Bit-identity: ZeRO stage, bucket size, prefetching and device change neither losses, norms nor weights of a run with a given
world size, with clipping on; nor does running it again. In bf16 the stages agree as well, and the losses stay within 2 %
of fp32's."""
import pathlib, sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from e2e import Suite, close, same_bits

STEPS = 4
suite = Suite(__doc__)
folder = suite.models / "gpt2"
first = {}  # world size, precision -> (losses, norms, weights) of the first run


def plan_of(world, stage, bucket, prefetch, precision="fp32"):
    """Compiled once; the cases of a plan run one after the other."""
    path = suite.dir / f"{precision}-{world}-{stage}-{bucket}-{prefetch}.plan"
    if not path.exists():
        suite.compile(folder / "ts17.onnx", path, "--world-size", world, "--zero-stage", stage, "--bucket-size", bucket,
                      "--prefetch", prefetch, "--precision", precision, "--lr", "1e-3", "--weight-decay", "0.01",
                      "--clip-grad-norm", "0.1")
    return path


def result(plan, world, device, tag=""):
    return suite.bits(plan, suite.dir / f"{plan.stem}-{device}{tag}", "-n", world, "--device", device, "--data",
                      folder / "inputs.safetensors", "--steps", STEPS)


def compare(key, got):
    same_bits(got, first.setdefault(key, got))


def both_devices(world, stage, bucket, prefetch):
    plan = plan_of(world, stage, bucket, prefetch)
    for device in ("sync", "cpu"):
        compare((world, "fp32"), result(plan, world, device))


def repeat(number):
    compare((4, "fp32"), result(plan_of(4, 3, "4KiB", "auto"), 4, "cpu", f"-again{number}"))


def bf16(stage):
    got = result(plan_of(2, stage, "4KiB", "auto", "bf16"), 2, "cpu")
    compare((2, "bf16"), got)
    return f"{close('loss', got[0], first[2, 'fp32'][0], 0.02):.1e} from fp32"


def case(name, function, *arguments):
    return name, lambda: function(*arguments)


worlds, everything = (1, 2, 3, 4, 8), []
for world in worlds:
    # The one that all others of its world size are compared with must be there first.
    suite.run([case(f"W={world} stage 0 4KiB none", both_devices, world, 0, "4KiB", "none")])
    everything += [case(f"W={world} stage {stage} {bucket} {prefetch}", both_devices, world, stage, bucket, prefetch)
                   for stage in range(4) for bucket in ("4KiB", "1MiB") for prefetch in ("none", "auto")
                   if (stage, bucket, prefetch) != (0, "4KiB", "none")]
suite.run(everything)
suite.run([case(f"W=4 stage 3 cpu again {number}", repeat, number) for number in range(10)])
suite.run([case("bf16 stage 0", bf16, 0)])
suite.run([case(f"bf16 stage {stage}", bf16, stage) for stage in (1, 2, 3)])
suite.finish()
