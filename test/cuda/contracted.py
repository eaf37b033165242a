#!/usr/bin/env python3
"""What may run on the host or the device has one source and one result (docs/cuda.md, section 4.2): in the PTX that nvcc makes of these
files with the plugin's own flags, no sum, difference or product of floats is without a rounding modifier. Such a one ptxas may contract
to a fused multiply-add that the source has not; nvcc itself makes none with --fmad=false. Without that flag some are found."""
import os, pathlib, re, shlex, subprocess, sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from e2e import ROOT, Case, Skip, Suite

suite = Suite(__doc__)
FILES = ("Optimizers", "Quantization", "RankSum", "Reductions")
WITHOUT = ("Casts",)  # nothing but the GPU's own conversions
OPEN = re.compile(r"^\s*(?:@!?%p\d+ )?((?:add|sub|mul|mad)\.(?:ftz\.)?(?:sat\.)?f(?:32|64))\s", re.M)
CLOSED = re.compile(r"^\s*(?:@!?%p\d+ )?(?:add|sub|mul|fma)\.r[nzmp]\.", re.M)


def command_of(name):
    """nvcc and the flags with which the plugin compiles the file, for PTX alone."""
    ninja = pathlib.Path(os.environ.get("ZC_BUILD", ROOT / "build/cuda")) / "build.ninja"
    if not ninja.exists():
        raise Skip(f"no {ninja}: test/run.sh cuda makes it")
    build = re.search(rf"^build \S*/{name}\.cu\.o: CUDA_COMPILER\S+ (\S+).*\n((?:  .*\n)+)", ninja.read_text(), re.M)
    values = dict(re.findall(r"^  (\w+) = (.*)$", build[2], re.M))
    flags = [flag for key in ("DEFINES", "FLAGS", "INCLUDES") for flag in shlex.split(values[key]) if not flag.startswith("--generate-code")]
    cache = (ninja.parent / "CMakeCache.txt").read_text()
    compiler = re.search(r"^CMAKE_CUDA_COMPILER:\w+=(.*)$", cache, re.M)[1]
    return [compiler, *flags, "--generate-code=arch=compute_90,code=compute_90", "--ptx", build[1]]


def ptx_of(name, *more):
    out = suite.dir / f"{name}{''.join(more)}.ptx"
    done = subprocess.run([*command_of(name), *more, "-o", out], capture_output=True, text=True)
    if done.returncode:
        raise Case(done.stderr[-2000:])
    return out.read_text()


def rounds(name):
    def run():
        text = ptx_of(name)
        found = OPEN.findall(text)
        if found or not CLOSED.search(text):
            raise Case(f"{len(found)} may be contracted: {', '.join(sorted(set(found)))}; {len(CLOSED.findall(text))} may not")
        return f"{len(CLOSED.findall(text))} operations"
    return f"{name}.cu", run


def converts(name):
    def run():
        text = ptx_of(name)
        if found := OPEN.findall(text) + CLOSED.findall(text):
            raise Case(f"{len(found)} sums and products: {found[:3]}")
        if "cvt.rn.bf16.f32" not in text:
            raise Case("no conversion to bf16")
    return f"{name}.cu", run


def sees():
    if not OPEN.search(ptx_of("Optimizers", "--fmad=true")):
        raise Case("with --fmad=true nothing may be contracted")


suite.run([*map(rounds, FILES), *map(converts, WITHOUT), ("without the flag", sees)])
suite.finish()
