"""DeepSpeed ZeRO on the CPU accelerator, gloo, one thread a rank.
usage: dszero.py MODEL STAGE none|cpu|nvme WORLD BATCH_PER_RANK [fp32|bf16] [NVME_DIR]
cpu: optimizer (stage 3: and parameters) marked for offload; nvme: stage 3, both in files under NVME_DIR."""

import os, sys
import common


def config(stage, off, B, dt, nvme, biggest):
    z = {"stage": stage, "overlap_comm": False, "contiguous_gradients": True}
    c = {
        "train_micro_batch_size_per_gpu": B,
        "gradient_accumulation_steps": 1,
        "zero_optimization": z,
        "gradient_clipping": 0.0,
        "zero_allow_untested_optimizer": True,
        "optimizer": {
            "type": "AdamW",
            "params": {"lr": 1e-4, "betas": [0.9, 0.999], "eps": 1e-8, "weight_decay": 0.01},
        },
    }
    if dt == "bf16":
        c["bf16"] = {"enabled": True}
    if off == "cpu":
        z["offload_optimizer"] = {"device": "cpu"}
        if stage == 3:
            z["offload_param"] = {"device": "cpu"}
    if off == "nvme":
        z["offload_optimizer"] = {"device": "nvme", "nvme_path": nvme, "buffer_count": 4, "fast_init": False}
        z["offload_param"] = {
            "device": "nvme",
            "nvme_path": nvme,
            "buffer_count": 12,
            "buffer_size": biggest,
            "max_in_cpu": 0,
        }
        # every live parameter holds a whole buffer ("Not enough buffers 0 for swapping 1"): few live, little prefetch
        z.update(
            stage3_prefetch_bucket_size=7_000_000, stage3_max_live_parameters=8_000_000, stage3_max_reuse_distance=0
        )
        c["aio"] = {
            "block_size": 1 << 20,
            "queue_depth": 16,
            "intra_op_parallelism": 1,
            "single_submit": False,
            "overlap_events": True,
        }
    return c


def run(r, W, name, stage, off, B, dt, nvme):
    common.env(r, W, 29513)
    os.environ["DS_ACCELERATOR"] = "cpu"
    common.pin(r)
    import torch, gpt

    torch.set_num_threads(1)
    import logging, warnings, deepspeed

    warnings.simplefilter("ignore")
    from deepspeed.utils import logger

    logger.setLevel(logging.ERROR)
    deepspeed.init_distributed("gloo")
    base = common.status("VmRSS")
    L, d, h, V, T = common.MODELS[name]
    c = config(stage, off, B, dt, nvme, -(-V * d // W // 4096) * 4096 + 4096)
    m = gpt.made(name)
    e, opt, _, _ = deepspeed.initialize(model=m, model_parameters=m.parameters(), config=c)
    i, t = common.data(V, B, T, r, W)

    def step():
        loss = e(i, t)
        e.backward(loss)
        e.step()
        return loss.item()

    warm, n = common.STEPS[name]
    ts, losses, start, peak = common.timed_loop(step, warm, n, torch.distributed.barrier)
    if os.environ.get("LOSSES") and r == 0:
        print([round(x, 5) for x in losses[:8]], flush=True)
    o = [None] * W
    torch.distributed.all_gather_object(o, (max(start, peak), peak, losses))
    if r == 0:
        s = common.summary(ts, W * B * T)
        inner = getattr(opt, "optimizer", opt)
        common.emit(
            bench="train",
            peer=f"ds-zero{stage}" + ("" if off == "none" else "-" + off),
            model=name,
            W=W,
            threads=1,
            B=B,
            dtype=dt,
            **s,
            gf_s=round(W * gpt.flops(L, d, V, B, T) / s["step_ms"] / 1e6, 1),
            optimizer=type(inner).__name__,
            rss_base=base,
            hwm=[x[0] for x in o],
            hwm_steps=[x[1] for x in o],
            loss=round(sum(x[2][-1] for x in o) / W, 5),
            losses=[round(sum(each) / W, 6) for each in zip(*(x[2] for x in o))],
        )
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    import tempfile, torch.multiprocessing as mp

    a = sys.argv
    dt = a[6] if len(a) > 6 else "fp32"
    with tempfile.TemporaryDirectory(prefix="ds_nvme", dir=a[7] if len(a) > 7 else ".") as nvme:
        mp.spawn(run, args=(int(a[4]), a[1], int(a[2]), a[3], int(a[5]), dt, nvme), nprocs=int(a[4]))
