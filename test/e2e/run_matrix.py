#!/usr/bin/env python3
"""Bit-identity: ZeRO stage, bucket size, prefetching and device change neither losses, norms nor weights of a run with a given
world size, with clipping on; nor does running it again. In bf16 the stages agree as well, and the losses stay within 2 %
of fp32's."""
import itertools, pathlib, sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from e2e import Suite, close, same_bits

STEPS = 4
suite = Suite(__doc__)
folder = suite.models / "gpt2"


def plan_of(world, stage, bucket, prefetch, precision="fp32"):
    path = suite.dir / f"{precision}-{world}-{stage}-{bucket}-{prefetch}.plan"
    return suite.once(path, lambda: suite.compile(folder / "ts17.onnx", path, "--world-size", world, "--zero-stage", stage, "--bucket-size", bucket,
                                                  "--prefetch", prefetch, "--precision", precision, "--lr", "1e-3", "--weight-decay", "0.01",
                                                  "--clip-grad-norm", "0.1"))


def result(plan, world, device, tag=""):
    return suite.bits(plan, suite.dir / f"{plan.stem}-{device}{tag}", "-n", world, "--device", device, "--data",
                      folder / "inputs.safetensors", "--steps", STEPS)


def plain(world, precision="fp32"):
    """What all others of a world size are compared with."""
    return suite.once((world, precision), lambda: result(plan_of(world, 0, "4KiB", "none", precision), world, "sync", "-plain"))


def agrees(world, stage, bucket, prefetch, device):
    same_bits(result(plan_of(world, stage, bucket, prefetch), world, device), plain(world))


def repeat(number):
    same_bits(result(plan_of(4, 3, "4KiB", "auto"), 4, "cpu", f"-again{number}"), plain(4))


def bf16(stage):
    got = result(plan_of(2, stage, "4KiB", "auto", "bf16"), 2, "cpu")
    same_bits(got, plain(2, "bf16"))
    return f"{close('loss', got[0], plain(2)[0], 0.02):.1e} from fp32"


def case(name, function, *arguments):
    return name, lambda: function(*arguments)


suite.run([case("W={} stage {} {} {} {}".format(*of), agrees, *of)
           for of in suite.draw(itertools.product((1, 2, 3, 4, 8), range(4), ("4KiB", "1MiB"), ("none", "auto"), ("sync", "cpu")), 40)])
suite.run([case(f"W=4 stage 3 cpu again {number}", repeat, number) for number in range(5)])
suite.run([case(f"bf16 stage {stage}", bf16, stage) for stage in range(4)])
suite.finish()
