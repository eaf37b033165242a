"""Data parallel peers over gloo, one thread a rank: fsdp.py MODEL ddp|fsdp2 WORLD BATCH_PER_RANK"""

import os, sys
import common


def run(r, W, name, mode, B):
    common.env(r, W, 29512)
    common.pin(r)
    import torch, torch.distributed as dist, gpt

    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=r, world_size=W)
    base = common.status("VmRSS")
    L, d, h, V, T = common.MODELS[name]
    m = gpt.made(name)
    if mode == "fsdp2":
        from torch.distributed.fsdp import fully_shard
        from torch.distributed.device_mesh import init_device_mesh

        mesh = init_device_mesh("cpu", (W,))
        for b in m.b:
            fully_shard(b, mesh=mesh)
        f = fully_shard(m, mesh=mesh)
    else:
        f = torch.nn.parallel.DistributedDataParallel(m, gradient_as_bucket_view=True)
    opt = torch.optim.AdamW(f.parameters(), lr=1e-4, fused=True)
    i, t = common.data(V, B, T, r, W)

    def step():
        loss = f(i, t)
        loss.backward()
        opt.step()
        opt.zero_grad()
        return loss.item()

    warm, n = common.STEPS[name]
    ts, losses, start, peak = common.timed_loop(step, warm, n, dist.barrier)
    if os.environ.get("LOSSES") and r == 0:
        print([round(x, 5) for x in losses[:8]], flush=True)
    o = [None] * W
    dist.all_gather_object(o, (max(start, peak), peak, losses))
    if r == 0:
        s = common.summary(ts, W * B * T)
        common.emit(
            bench="train",
            peer=mode,
            model=name,
            W=W,
            threads=1,
            B=B,
            dtype="fp32",
            **s,
            gf_s=round(W * gpt.flops(L, d, V, B, T) / s["step_ms"] / 1e6, 1),
            rss_base=base,
            hwm=[x[0] for x in o],
            hwm_steps=[x[1] for x in o],
            loss=round(sum(x[2][-1] for x in o) / W, 5),
            losses=[round(sum(each) / W, 6) for each in zip(*(x[2] for x in o))],
        )
    dist.destroy_process_group()


if __name__ == "__main__":
    import torch.multiprocessing as mp

    name, mode, W, B = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    mp.spawn(run, args=(W, name, mode, B), nprocs=W)
