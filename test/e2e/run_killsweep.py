#!/usr/bin/env python3
"""Kill sweep: a run that is killed at any moment, in any rank, while it trains, saves, replaces `final`, removes old checkpoints or
loads another plan's (of another stage, bucket size or tier) or evaluates, goes on with --resume auto and ends with the bits of a run that nobody disturbed, the same
losses of evaluations and best checkpoint, and with nothing in its folder that does not belong there. Ranks as threads and as processes under mpirun. `--kills N` (30), `--seed S` (the day's)."""
import fcntl, json, os, pathlib, random, shutil, signal, subprocess, sys, time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from e2e import Case, Suite


def option(name, default):
    if name not in sys.argv:
        return default
    at = sys.argv.index(name)
    value = int(sys.argv[at + 1])
    del sys.argv[at:at + 2]
    return value


KILLS, SEED = option("--kills", int(os.environ.get("ZC_KILLS", 30))), option("--seed", int(time.time() // 86400))
suite = Suite(__doc__)
folder = suite.models / "gpt2"
WORLD, STEPS = 2, 6
# Plans of one world size: what one saved another goes on with, and the bits are the same.
PLANS = [suite.compile(folder / "ts17.onnx", suite.dir / f"{stage}-{tier}.plan", "--world-size", WORLD, "--zero-stage", stage, "--bucket-size", size,
                       "--lr", "1e-3", "--with-eval", *(("--offload-optimizer", tier) if tier != "none" else ()))
         for stage, tier, size in ((0, "none", "1MiB"), (2, "host", "64KiB"), (3, "nvme", "16KiB"))]
COMMON = ("--threads", 1, "--data", folder / "inputs.safetensors", "--quiet", "--lr-schedule", "constant", "--save-every", 1, "--keep", 2,
          "--nvme-dir", suite.dir, "--eval-data", folder / "inputs.safetensors", "--eval-every", 3, "--eval-steps", 2, "--keep-best")
HAS_MPI = shutil.which("mpirun") is not None and (suite.bin / "libzc_mpi.so").exists()
STATE = ("weights", "moment1", "moment2")


def command(plan, out, steps, mpi, device):
    words = [suite.bin / "zero-run", plan, *COMMON, "--device", device, "--resume", "auto", "--steps", steps, "--out", out]
    return [str(word) for word in ([*suite.mpirun(WORLD), *words] if mpi else words)]


def ranks_of(process):
    """Its processes but mpirun itself, which may not have any yet."""
    children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children")
    try:
        return [int(pid) for pid in children.read_text().split()]
    except OSError:
        return []


def is_alive(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def wait_for(process, disturbed):
    """-> exit code. mpirun can lock itself up where a rank dies while it starts another; then it is ended, once all its ranks have been for
    ten seconds."""
    last = began = time.time()
    while time.time() - began < 300:
        try:
            return process.wait(timeout=1)
        except subprocess.TimeoutExpired:
            if process.args[0] != "mpirun" or not disturbed or any(map(is_alive, ranks_of(process))):
                last = time.time()
            elif time.time() - last > 10:
                process.kill()
    process.kill()
    raise Case(f"still there after 300 s: {process.args}")


def await_folder(out):
    """mpirun does not wait for a rank that it has killed, which holds the folder until a call to a slow disk comes back."""
    deadline = time.time() + 120
    while (out / ".lock").exists():
        with open(out / ".lock") as lock:
            try:
                return fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.time() > deadline:
                    raise Case(f"somebody still has {out} 120 s later")
        time.sleep(0.05)


def state(out):
    """Of both checkpoints, and what the evaluations found."""
    bytes_ = {(which, name): (out / which / f"{name}.safetensors").read_bytes() for which in ("final", "best") for name in STATE}
    metrics = map(json.loads, (out / "metrics.jsonl").read_text().splitlines())
    return {**bytes_, "val": [(m["step"], m["val_loss"]) for m in metrics if "val_loss" in m]}


def run(plan, out, steps, mpi=False, device="cpu", after=None, fault="", dice=None):
    """`after`: seconds until a rank is killed. -> exit code, stderr."""
    process = subprocess.Popen(command(plan, out, steps, mpi, device), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace",
                               env={**os.environ, "ZERO_FAULT": fault})
    if after is not None:
        time.sleep(after)
        ranks = ranks_of(process) if mpi else [process.pid]
        if ranks and process.poll() is None:
            try:
                os.kill(dice.choice(ranks), signal.SIGKILL)
            except ProcessLookupError:
                pass
    return_code = wait_for(process, disturbed=after is not None or fault)
    await_folder(out)
    return return_code, process.stderr.read()


began = time.time()
code, error = run(PLANS[0], suite.dir / "whole", STEPS)
assert code == 0, error
LONG = max(0.3, time.time() - began)
EXPECTED = state(suite.dir / "whole")
SITES = ("ckpt.write", "ckpt.manifest", "ckpt.rename", "ckpt.replaced", "ckpt.remove", "ckpt.removed", "file.create", "file.allocate", "file.write",
         "file.writeback", "file.fsync", "file.rename", "folder.make", "folder.fsync", "folder.rename", "file.read", "file.open", "step.begin",
         "ckpt.exchange", "metrics.write")


def sweep(number):
    dice = random.Random(SEED * 1000 + number)
    out, mpi = suite.dir / f"run-{number}", HAS_MPI and number % 3 == 2
    story = []
    # First to the middle, so that `final` is there to be replaced; then to the end, interrupted twice.
    for steps, disturbed in ((STEPS // 2, dice.random() < 0.5), (STEPS, True), (STEPS, True), (STEPS, False)):
        plan, how = dice.choice(PLANS), {}
        if disturbed and dice.random() < 0.5:
            how = {"after": dice.uniform(0, LONG), "dice": dice}
        elif disturbed:
            how = {"fault": f"{dice.choice(SITES)}@n={dice.randint(1, 12)}:SIGKILL"}
        device = dice.choice(("cpu", "sync"))  # a thread per queue, or everything one after the other
        code, error = run(plan, out, steps, mpi, device=device, **how)
        story.append(f"{plan.stem} {device}{' mpi' if mpi else ''} {how.get('fault', how.get('after', '-'))}: {code}")
        if not disturbed and code != 0:
            raise Case(f"{story}: {error}")
    if state(out) != EXPECTED:
        raise Case(f"{story}: other bits")
    names = sorted(path.name for path in out.iterdir() if path.name != ".lock")
    if names != ["best", "final", "metrics.jsonl", f"step-{STEPS - 1}", f"step-{STEPS}"]:
        raise Case(f"{story}: {names}")
    if sorted(p.name for p in (out / "final").iterdir()) != ["manifest.json", *sorted(f"{name}.safetensors" for name in STATE)]:
        raise Case(f"{story}: {sorted(p.name for p in (out / 'final').iterdir())}")
    steps = [line.split(",")[0] for line in (out / "metrics.jsonl").read_text().splitlines()]
    if steps != [f'{{"step":{i}' for i in range(1, STEPS + 1)]:
        raise Case(f"{story}: metrics of {steps}")
    shutil.rmtree(out)


suite.run([(f"kill {number} of day {SEED}", lambda number=number: sweep(number)) for number in range(KILLS)])
suite.finish()
