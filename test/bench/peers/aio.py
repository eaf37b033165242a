"""DeepSpeed's asynchronous I/O handle against fio, same folder, file, block size and depth, O_DIRECT. usage: aio.py DIR [MIB] [ROUNDS]"""

import json, os, statistics, subprocess, sys, time

os.environ["DS_ACCELERATOR"] = "cpu"
import common, torch
from deepspeed.accelerator import get_accelerator
from deepspeed.ops.op_builder import CPUAdamBuilder  # noqa: F401  (checks that the operators were built)

d, mib, rounds = (
    sys.argv[1],
    int(sys.argv[2]) if len(sys.argv) > 2 else 1024,
    int(sys.argv[3]) if len(sys.argv) > 3 else 3,
)
B, n = mib << 20, get_accelerator().get_op_builder("AsyncIOBuilder")().load()
f1, f2 = os.path.join(d, "ds.bin"), os.path.join(d, "fio.bin")
res = {}


def fio(rw, bs, qd):
    o = subprocess.run(
        [
            "fio",
            "--name=x",
            f"--filename={f2}",
            f"--rw={rw}",
            f"--bs={bs}",
            f"--iodepth={qd}",
            "--ioengine=libaio",
            "--direct=1",
            f"--size={B}",
            "--numjobs=1",
            "--output-format=json",
            "--end_fsync=0",
            "--fallocate=none",
            "--overwrite=1",
        ],
        capture_output=True,
        text=True,
    )
    j = json.loads(o.stdout[o.stdout.index("{") :])["jobs"][0]["read" if rw == "read" else "write"]
    return j["io_bytes"] / (j["runtime"] / 1e3) / 1e9


for bs, qd in ((1 << 20, 16), (1 << 20, 4), (128 << 10, 32)):
    h = n.aio_handle(bs, qd, False, True, 1)
    buf = h.new_cpu_locked_tensor(B, torch.empty(0, dtype=torch.uint8))
    buf.fill_(7)
    for r in range(rounds + 1):
        for rw in ("write", "read"):
            t = time.perf_counter()
            rc = h.sync_pwrite(buf, f1, 0) if rw == "write" else h.sync_pread(buf, f1, 0)
            t = time.perf_counter() - t
            g = fio(rw, bs, qd)
            if r:
                res.setdefault((rw, bs, qd), []).append((B / t / 1e9, g, rc))
    h.free_cpu_locked_tensor(buf)
    for rw in ("write", "read"):
        v = res[rw, bs, qd]
        a, b = statistics.median(x[0] for x in v), statistics.median(x[1] for x in v)
        common.emit(
            bench="aio",
            rw=rw,
            block=bs,
            depth=qd,
            mib=mib,
            deepspeed_GB_s=round(a, 2),
            fio_GB_s=round(b, 2),
            ratio=round(statistics.median(x[0] / x[1] for x in v), 2),
            rc=v[-1][2],
        )
for f in (f1, f2):
    if os.path.exists(f):
        os.remove(f)
