"""Every peer of one model, interleaved, ROUNDS times; one JSON line per measurement, failures too. usage: run_all.py g5m|g124m [ROUNDS] [NAME...]"""

import json, os, re, subprocess, sys, tempfile
import quiet

here = os.path.dirname(os.path.abspath(__file__))
py = sys.executable
name = sys.argv[1] if len(sys.argv) > 1 else "g5m"
rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 3
only = sys.argv[3:]
env = dict(
    os.environ,
    DS_ACCELERATOR="cpu",
    TORCH_CPP_LOG_LEVEL="ERROR",
    PYTHONWARNINGS="ignore",
    PATH=os.path.dirname(py) + ":" + os.environ["PATH"],
)
tmp = tempfile.mkdtemp(prefix="peers")


def stream():
    exe = os.path.join(tmp, "stream")
    if not os.path.exists(exe):
        subprocess.run(
            ["g++", "-O3", "-march=native", "-fopenmp", os.path.join(here, "stream.cpp"), "-o", exe], check=True
        )
    quiet.wait()
    o = subprocess.run([exe], capture_output=True, text=True, env=dict(env, OMP_PROC_BIND="true")).stdout
    g = lambda p: float(re.search(p + r"\D* ([\d.]+)", o).group(1))
    print(
        json.dumps(
            dict(
                bench="stream",
                unit="GB/s",
                load=round(os.getloadavg()[0], 2),
                **{
                    f"T{t}_{k}": g(f"T{t} {p}")
                    for t in (1, 2)
                    for k, p in (("triad", "triadNT"), ("update", r"inplace-update r\+w"))
                },
                **{f"T{t}_adam28": g(f"T{t} Adam bf16g 28B") for t in (1, 2)},
            )
        ),
        flush=True,
    )


W4 = name == "g5m"
jobs = {"eager": ["gpt.py", name, "eager", "2", "4"], "compile": ["gpt.py", name, "compile", "2", "4"]}
for W, B in ((2, 2),) + (((4, 1),) if W4 else ()):
    for m in ("ddp", "fsdp2"):
        jobs[f"{m}-{W}"] = ["fsdp.py", name, m, str(W), str(B)]
    for st, off in ((1, "none"), (2, "none"), (3, "none")) + (((2, "cpu"), (3, "cpu"), (3, "nvme")) if W == 2 else ()):
        jobs[f"z{st}{'' if off == 'none' else '-' + off}-{W}"] = [
            "dszero.py",
            name,
            str(st),
            off,
            str(W),
            str(B),
            "fp32",
            os.environ.get("NVME_DIR", tmp),
        ]
if only:
    jobs = {k: v for k, v in jobs.items() if k in only}
stream()
for r in range(rounds):
    for k, c in list(jobs.items())[:: 1 if r % 2 == 0 else -1]:
        out, rc, err, foreign = quiet.run([py] + c, env=env, cwd=here)
        for x in out:
            print(json.dumps(dict(json.loads(x), round=r, foreign_cores=foreign)), flush=True)
        if rc or not out:
            print(
                json.dumps(dict(bench="train", peer=k, model=name, round=r, failed=rc, error=err[-1200:])), flush=True
            )
stream()
