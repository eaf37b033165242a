#!/usr/bin/env python3
"""The example of examples/gpt, short: four ranks at every ZeRO stage, at stage 3 longer, give PyTorch's losses, and the exported model continues
where training ended. Skipped where the licence texts are not those that PyTorch's losses were taken on."""
import hashlib, json, pathlib, sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from e2e import Case, SKIPPED, Suite, close, same

EXAMPLE = pathlib.Path(__file__).resolve().parents[2] / "examples/gpt"
expected = json.loads((EXAMPLE / "expected.json").read_text())
TEXTS = [pathlib.Path("/usr/share/common-licenses") / name for name in expected["sha256"]]
# Of losses; norms, which magnify rounding, ten times that. Measured: 1.1e-7 and 3.7e-6.
TOLERANCE = 1e-5
SOME = 6  # steps

suite = Suite(__doc__)
for path in TEXTS:
    if not path.exists() or hashlib.sha256(path.read_bytes()).hexdigest() != expected["sha256"][path.name]:
        print(f"{path} is not the text PyTorch's losses were taken on")
        sys.exit(SKIPPED)


def train(model, name, stage, steps):
    plan = suite.compile(model, suite.dir / f"{name}.plan", "--world-size", 4, "--zero-stage", stage, "--dim", "batch=8",
                         "--clip-grad-norm", 1.0)
    return suite.train(plan, suite.dir / name, "-n", 4, "--threads", 1, "--tokens", *TEXTS, "--byte-level", "--shift-labels", "--shuffle",
                       "--seed", 0, "--steps", steps, "--lr", "3e-3", "--lr-schedule", "cosine", "--warmup", 5)


def stage_of(stage):
    steps = 20 if stage == 3 else SOME
    rows = train(EXAMPLE / "gpt.onnx", f"z{stage}", stage, steps)
    loss = close("loss", [r["loss"] for r in rows], expected["loss"][:steps], TOLERANCE)
    norm = close("grad_norm", [r["grad_norm"] for r in rows], expected["grad_norm"][:steps], 10 * TOLERANCE)
    return f"loss {loss:.1e}, norm {norm:.1e}"


def stages_equal():
    metrics = [(suite.dir / f"z{s}/metrics.jsonl").read_text().splitlines() for s in range(4)]
    losses = [[json.loads(line)["loss"] for line in lines[:SOME]] for lines in metrics]
    for stage in (1, 2, 3):
        same(f"losses of stage {stage}", losses[stage], losses[0])


def export_continues():
    """Compiled anew, the exported model starts about where training ended, far below where it began."""
    suite.tool("zero-run", "export", suite.dir / "z3/final", "--onnx", suite.dir / "trained.onnx")
    loss = train(suite.dir / "trained.onnx", "again", 3, 1)[0]["loss"]
    first, last = expected["loss"][0], expected["loss"][-1]
    if abs(loss - last) > 0.3 or loss > first - 2:
        raise Case(f"the exported model starts at {loss}; training went from {first} to {last}")
    return f"{loss:.4f}"


suite.run([(f"stage {stage}", lambda s=stage: stage_of(s)) for stage in range(4)])
suite.run([("stages are equal", stages_equal), ("the export continues", export_continues)])
suite.finish()
