"""The example of examples/gpt, short: four ranks at every ZeRO stage give PyTorch's losses, and the exported model continues
where training ended.

usage: example_gpt.py      ZC_BIN names the folder of the tools (default build/release/bin)
Skipped (exit code 77) where the licence texts are not those that PyTorch's losses were taken on.
"""
import hashlib
import json
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BIN = os.environ.get("ZC_BIN", os.path.join(ROOT, "build/release/bin"))
TEXTS = "/usr/share/common-licenses"
EXAMPLE = os.path.join(ROOT, "examples/gpt")
# Four ranks and PyTorch's one process add in different orders; Adam's first steps divide by tiny roots and magnify that.
TOLERANCE = 2e-4


def tool(name, *arguments):
    p = subprocess.run([os.path.join(BIN, name), *map(str, arguments)], capture_output=True, text=True)
    if p.returncode:
        raise RuntimeError(f"{name}: exit code {p.returncode}: {p.stderr.strip()[-800:]}")
    return p.stdout


def train(folder, stage, texts):
    plan, out = os.path.join(folder, f"z{stage}.plan"), os.path.join(folder, f"z{stage}")
    tool("zero-compile", os.path.join(EXAMPLE, "gpt.onnx"), "-o", plan, "--world-size", 4, "--zero-stage", stage, "--dim", "batch=8",
         "--clip-grad-norm", 1.0)
    tool("zero-run", plan, "-n", 4, "--threads", 1, "--tokens", *texts, "--byte-level", "--shift-labels", "--shuffle", "--seed", 0,
         "--steps", 20, "--lr", "3e-3", "--lr-schedule", "cosine", "--warmup", 5, "--quiet", "--out", out)
    return [json.loads(line) for line in open(os.path.join(out, "metrics.jsonl"))]


def far(got, want):
    return [f"step {i + 1}: {g!r}, PyTorch {w!r}" for i, (g, w) in enumerate(zip(got, want)) if abs(g - w) > TOLERANCE * abs(w)]


def check_pytorch(runs, expected):
    for key in ("loss", "grad_norm"):
        got = [row[key] for row in runs[3]]
        assert len(got) == 20, f"{len(got)} steps instead of 20"
        assert not far(got, expected[key]), f"{key}: " + "; ".join(far(got, expected[key])[:3])


def check_stages(runs, _):
    for stage in (0, 1, 2):
        for a, b in zip(runs[stage], runs[3]):
            assert (a["loss"], a["grad_norm"]) == (b["loss"], b["grad_norm"]), f"stage {stage} and 3 differ at step {a['step']}"


def check_export(runs, _, folder, texts):
    """The exported model, compiled anew: the loss of its first step is that of a trained model on the same windows."""
    model = os.path.join(folder, "trained.onnx")
    tool("zero-run", "export", os.path.join(folder, "z3", "final"), "--onnx", model)
    plan, out = os.path.join(folder, "again.plan"), os.path.join(folder, "again")
    tool("zero-compile", model, "-o", plan, "--world-size", 4, "--dim", "batch=8")
    tool("zero-run", plan, "-n", 4, "--threads", 1, "--tokens", *texts, "--byte-level", "--shift-labels", "--shuffle", "--seed", 0,
         "--steps", 1, "--quiet", "--out", out)
    loss = json.loads(open(os.path.join(out, "metrics.jsonl")).readline())["loss"]
    first, last = runs[3][0]["loss"], runs[3][-1]["loss"]
    assert abs(loss - last) < 0.2 and loss < first - 2, f"{loss} after training that went from {first} to {last}"


def main():
    expected = json.load(open(os.path.join(EXAMPLE, "expected.json")))
    texts = [os.path.join(TEXTS, name) for name in expected["sha256"]]
    for path, digest in zip(texts, expected["sha256"].values()):
        if not os.path.exists(path) or hashlib.sha256(open(path, "rb").read()).hexdigest() != digest:
            print(f"{path} is not the text PyTorch's losses were taken on")
            sys.exit(77)
    passed = failed = 0
    with tempfile.TemporaryDirectory() as folder:
        try:
            runs = {stage: train(folder, stage, texts) for stage in range(4)}
        except (RuntimeError, OSError) as e:
            sys.exit(f"{e}\n0 passed, 1 failed")
        checks = (check_pytorch, check_stages, lambda r, x: check_export(r, x, folder, texts))
        for name, check in zip(("losses are PyTorch's", "stages are equal", "export continues"), checks):
            try:
                check(runs, expected)
                passed += 1
            except (AssertionError, RuntimeError, OSError) as e:
                print(f"FAILED {name}: {e}")
                failed += 1
    print(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
