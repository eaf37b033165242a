"""Builds DeepSpeed's CPU operators once, in one process (ranks that build at the same time can wait on a stale lock for ever)."""

import os, time

os.environ["DS_ACCELERATOR"] = "cpu"
from deepspeed.accelerator import get_accelerator

for name in ("CPUAdamBuilder", "FusedAdamBuilder", "ShareMemCommBuilder", "AsyncIOBuilder"):
    t = time.time()
    try:
        get_accelerator().get_op_builder(name)().load()
        print(f"{name}: ok {time.time() - t:.1f} s")
    except Exception as e:
        print(f"{name}: {type(e).__name__}: {str(e)[-1500:]}")
