"""What bench.py measures of checkpoints: saving and loading a model of 350M parameters (weights and two moments, 4.3 GB) beside what
the same disk does with as many bytes and an fsync, and what a rank needs to go on from the checkpoint of more ranks. Each function
takes bench.py's module."""
import glob
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import time

ROUNDS = 7


def model(bench):
    onnx, data = (os.path.join(bench.folder, "g350m-short" + end) for end in (".onnx", ".safetensors"))
    if not os.path.exists(onnx):
        bench.execute([sys.executable, os.path.join(bench.ROOT, "test/support/make_gpt.py"), onnx, "--layers", "24", "--hidden", "1024",
                       "--heads", "16", "--vocab", "50257", "--seq", "8", "--batch", "1", "--inputs", data, "--rows", "64"])
    return onnx, data


def forget(paths):
    """Not in the page cache any more: on disk, and read from there."""
    for path in paths:
        fd = os.open(path, os.O_RDONLY)
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)


def rates(bench):
    """Save: from the step's line in metrics.jsonl to the manifest. Load: what the run says that it took, into memory that it has taken
    before (--reserve); `start` is all before its next step."""
    onnx, data = model(bench)
    plan, out, raw = (os.path.join(bench.folder, name) for name in ("350m.plan", "350m", "raw"))
    bench.tool("zero-compile", onnx, "-o", plan)
    common = [os.path.join(bench.BIN, "zero-run"), plan, "--data", data, "--threads", "2", "--out", out, "--reserve",
              "--lr-schedule", "constant"]
    seconds = {"save": [], "write": [], "load": [], "read": [], "start": []}
    for _ in range(ROUNDS):
        shutil.rmtree(out, ignore_errors=True)
        bench.execute([*common, "--steps", "1"])
        files = glob.glob(os.path.join(out, "final", "*.safetensors"))
        size = sum(os.path.getsize(file) for file in files)
        stamp = lambda name: os.stat(os.path.join(out, name)).st_mtime
        seconds["save"].append(stamp("final/manifest.json") - stamp("metrics.jsonl"))
        disk = json.loads(bench.execute([os.path.join(bench.BIN, "bench_disk"), raw, str(size)])[0])
        seconds["write"].append(disk["write"])
        seconds["read"].append(disk["read"])
        forget(files)
        began = time.time()
        done = subprocess.run([*common, "--steps", "2", "--resume", "auto"], capture_output=True, text=True, check=True)
        seconds["load"].append(float(re.search(r"loaded in ([0-9.]+) s", done.stderr)[1]))
        last = json.loads(open(os.path.join(out, "metrics.jsonl")).read().splitlines()[-1])
        seconds["start"].append(stamp("metrics.jsonl") - began - last["step_seconds"])
    for ours, disk in (("save", "write"), ("load", "read")):
        mine, theirs = statistics.median(seconds[ours]), statistics.median(seconds[disk])
        ratio = statistics.median(there / here for here, there in zip(seconds[ours], seconds[disk]))  # of the same minute
        bench.emit(f"checkpoint {ours}", round(size / mine / 1e9, 3), "GB/s", 0.8, round(ratio, 3), disk=round(size / theirs / 1e9, 3),
                   seconds=[round(each, 2) for each in seconds[ours]], disk_seconds=[round(each, 2) for each in seconds[disk]],
                   load=round(os.getloadavg()[0], 1))
    bench.emit("checkpoint start", round(statistics.median(seconds["start"]), 2), "s")
    shutil.rmtree(out, ignore_errors=True)


def reshard(bench):
    """From eight ranks to three, each a process of its own under mpirun: what one of them has in memory at most while it goes on,
    beside what it has when it trains from the start."""
    onnx, data = model(bench)
    plans, out = {}, os.path.join(bench.folder, "resharded")
    for world in (8, 3):
        plans[world] = os.path.join(bench.folder, f"350m-{world}.plan")
        bench.tool("zero-compile", onnx, "-o", plans[world], "--world-size", world, "--zero-stage", 3)
    run = lambda world, *flags: bench.tool("zero-run", plans[world], "--data", data, "--threads", 1, "--quiet", *flags)
    run(8, "--steps", 1, "--out", out)
    mpirun = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-np", "3", os.path.join(bench.BIN, "zero-run"),
              plans[3], "--data", data, "--threads", "1", "--quiet", "--lr-schedule", "constant"]
    resident = {}
    for name, flags in (("fresh", ["--steps", "1"]), ("resumed", ["--steps", "2", "--resume", out])):
        text, _ = bench.execute([*mpirun, "--out", os.path.join(bench.folder, name), *flags])
        resident[name] = json.loads(text.splitlines()[-1])["resident_memory"]
        shutil.rmtree(os.path.join(bench.folder, name), ignore_errors=True)
    bench.emit("checkpoint reshard 8 to 3", round(resident["resumed"] / 2**30, 3), "GiB", 1.2, round(resident["resumed"] / resident["fresh"], 3),
               fresh=round(resident["fresh"] / 2**30, 3))
    shutil.rmtree(out, ignore_errors=True)


def checkpoints(bench):
    rates(bench)
    reshard(bench)
