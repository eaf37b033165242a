#!/usr/bin/env python3
"""Shares of threads: what a plan gives its queues shows in `inspect`, and no share changes a bit: a run on device cpu has the bits of sync,
whose kernels all run on all threads, with the plan's shares, with the smallest and with none, on 1, 2, 3, 4 and 8 threads."""
import os, pathlib, re, resource, subprocess, sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from e2e import ROOT, Case, Suite, same_bits

suite = Suite(__doc__)
SHARE = re.compile(r"^ *plan\.share queue = (\w+) thousandths = (\d+).*\n", re.M)
QUEUES = ("compute", "comm", "h2d", "d2h", "nvme_read", "nvme_write", "host_compute")
PLACES = {"device": (), "host": ("--offload-optimizer", "host"), "params": ("--offload-optimizer", "host", "--offload-param", "host"),
          "nvme": ("--offload-optimizer", "nvme", "--offload-param", "nvme"),
          "delayed": ("--offload-optimizer", "host", "--delay-update", "--delay-after", 1)}


def variants(name, model, flags):
    """The plan as it is compiled, with the smallest shares, and without any."""
    plan = suite.compile(suite.models / model / "ts17.onnx", suite.dir / f"{name}.plan", "--bucket-size", "8KiB", *flags)
    text = suite.tool("zero-translate", "--plan-to-mlir", plan)
    shares = SHARE.findall(text)
    plain = SHARE.sub("", text)
    smallest = "".join(f"  plan.share queue = {queue} thousandths = 1\n" for queue in QUEUES)
    plans = {"own": plan}
    for which, written in (("none", plain), ("least", re.sub(r"^( *plan\.mesh .*\n)", lambda mesh: mesh[0] + smallest, plain, flags=re.M))):
        path = suite.dir / f"{name}-{which}.mlir"
        path.write_text(written)
        plans[which] = path.with_suffix(".plan")
        suite.tool("zero-translate", "--mlir-to-plan", path, "-o", plans[which])
    return plans, dict(shares)


def bits(model, world, place, threads):
    name = f"{model}-{world}-{place}-{threads}"

    def run():
        plans, shares = variants(name, model, ("--world-size", world, "--zero-stage", 3, *PLACES[place]))
        if place != "device" and not shares:
            raise Case("no queue has a share, though copies run beside backward")
        data = ("-n", world, "--threads", threads, "--data", suite.models / model / "inputs.safetensors", "--steps", 4, "--nvme-dir",
                suite.dir)
        expected = suite.bits(plans["none"], suite.dir / f"{name}-sync", "--device", "sync", *data)
        for which, plan in plans.items():
            same_bits(suite.bits(plan, suite.dir / f"{name}-{which}", "--device", "cpu", *data), expected)
        return " ".join(f"{queue} {share}" for queue, share in shares.items())

    return f"bits {name}", run


def inspected():
    plans, shares = variants("inspected", "gpt2", ("--offload-optimizer", "host"))
    lines = {which: re.search(r"^threads +(.*)$", suite.tool("zero-run", "inspect", plan), re.M)[1] for which, plan in plans.items()}
    own = "".join(f"{queue.upper()} {int(share) / 10:g} %, " for queue, share in shares.items()) + "all for the others"
    if lines["none"] != "all for each queue" or lines["own"] != own or not lines["least"].startswith("COMPUTE 0.1 %, COMM 0.1 %, "):
        raise Case(f"{lines} of {shares}")


def refused():
    plans, _ = variants("refused", "mlp", ("--offload-optimizer", "host"))
    text = (suite.dir / "refused-least.mlir").read_text().replace("queue = comm thousandths", "queue = compute thousandths", 1)
    (suite.dir / "twice.mlir").write_text(text)
    error = suite.tool("zero-translate", "--mlir-to-plan", suite.dir / "twice.mlir", "-o", suite.dir / "twice.plan", code=3)
    if "a share of threads is of queue 0" not in error:
        raise Case(error)


def waits(given, expected):
    """What OpenMP is told of waiting, in the environment of a run: nothing was said in `given`, or something."""

    def run():
        stem = "-".join(("waits", *given))  # cases run beside each other
        plan = suite.compile(suite.models / "mlp" / "ts17.onnx", suite.dir / f"{stem}.plan")
        said = {key: value for key, value in os.environ.items() if key not in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")}
        command = ("zero-run", plan, "--data", suite.models / "mlp" / "inputs.safetensors", "--steps", 10**6, "--out", suite.dir / stem)
        with subprocess.Popen([str(word) for word in command], env={**said, **given}, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
            try:
                process.stderr.readline()  # it trains
                found = pathlib.Path(f"/proc/{process.pid}/environ").read_text().split("\0")
                name = pathlib.Path(f"/proc/{process.pid}/comm").read_text().strip()
            finally:
                process.kill()
        told = {key: value for key, _, value in (entry.partition("=") for entry in found) if key in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")}
        if told != expected or name != "zero-run":
            raise Case(f"{name} has {told}")

    return f"waits {given}", run


def too_few_addresses():
    """OpenBLAS would ask for a buffer of each thread for ever, and the watchdog end the run: where it multiplies, that is looked for."""
    plan, text = suite.compile(ROOT / "examples/gpt/gpt.onnx", suite.dir / "addresses.plan", "--dim", "batch=4"), suite.dir / "text.txt"
    text.write_bytes(bytes(range(256)) * 64)
    limit = lambda: resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
    command = (suite.bin / "zero-run", plan, "--tokens", text, "--byte-level", "--shift-labels", "--steps", 1, "--threads", 64, "--out", suite.dir / "addresses")
    # An arena of malloc's takes 64 MiB of addresses: how many threads have one of their own is chance.
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=600, preexec_fn=limit, env={**os.environ, "MALLOC_ARENA_MAX": "2"})
    if done.returncode == 5 and re.search(r"Z0983.*buffers of 64 threads that multiply 8.00 GiB", done.stderr):
        return "refused"
    if done.returncode != 0:
        raise Case(f"exit code {done.returncode}: {done.stderr}")
    return "oneDNN multiplies here"


def too_few_threads():
    """Where ranks and queues have theirs, kernels make do with fewer: OpenMP, asked for more, would end the process."""
    plan, text = suite.compile(ROOT / "examples/gpt/gpt.onnx", suite.dir / "scarce.plan", "--dim", "batch=4", "--world-size", 2), suite.dir / "scarce.txt"
    text.write_bytes(bytes(range(256)) * 64)
    if os.getuid() != 0:
        return "skipped: what else this user has running counts"
    out, seen = suite.dir / "scarce", {}
    suite.dir.chmod(0o711)
    out.mkdir()
    out.chmod(0o777)
    for most in (1, 3, 6, 7, 40):
        limit = lambda: resource.setrlimit(resource.RLIMIT_NPROC, (most, most))
        command = (suite.bin / "zero-run", plan, "--tokens", text, "--byte-level", "--shift-labels", "--steps", 2, "--threads", 3, "--out", out / str(most))
        try:
            done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=600, preexec_fn=limit, user=54321, group=54321, extra_groups=[])
        except PermissionError:
            return "skipped: the programs lie where other users may not look"
        seen[most] = (done.returncode, "less than a queue of this rank has" in done.stderr)
        if done.returncode not in (0, 5) or (done.returncode == 5 and "cannot start a thread" not in done.stderr):
            raise Case(f"of {most}: {done.returncode}: {done.stderr}")
    if set(seen.values()) != {(5, False), (0, True), (0, False)}:
        raise Case(f"{seen}")


suite.run([("too few addresses", too_few_addresses), ("too few threads", too_few_threads)])
suite.run([waits(given, expected) for given, expected in (({}, {"GOMP_SPINCOUNT": "1000"}), ({"GOMP_SPINCOUNT": "7"},) * 2,
                                                          ({"OMP_WAIT_POLICY": "active"},) * 2)])
suite.run([bits("gpt2", world, place, threads) for threads, place, world in suite.draw(
    [(threads, place, world) for threads in (1, 2, 3, 4, 8) for place in PLACES for world in ((1, 2) if threads < 3 else (1,))], 14)])
suite.run([bits("bert", 1, "delayed", 2), ("inspected", inspected), ("refused", refused)])
suite.finish()
