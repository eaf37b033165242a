"""gloo collectives: best of 8 after one warm-up, slowest rank counts; one JSON line each. usage: col.py WORLD"""

import sys, time
import common


def run(r, W):
    common.env(r, W, 29511)
    common.pin(r)
    import torch, torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=r, world_size=W)
    for mb in (1, 16, 128):
        n = mb * (1 << 20) // 4 // W * W
        x, sh, out = torch.ones(n), torch.ones(n // W), torch.empty(n)
        ops = {
            "allreduce": (2, lambda: dist.all_reduce(x)),
            "allgather": (1, lambda: dist.all_gather_into_tensor(out, sh)),
            "reduce_scatter": (1, lambda: dist.reduce_scatter_tensor(sh, x)),
            "alltoall": (1, lambda: dist.all_to_all_single(out, x)),
        }
        for name, (factor, f) in ops.items():
            best = 1e9
            try:
                for k in range(9):
                    x.zero_()
                    dist.barrier()
                    t = time.perf_counter()
                    f()
                    t = torch.tensor(time.perf_counter() - t, dtype=torch.float64)
                    dist.all_reduce(t, op=dist.ReduceOp.MAX)
                    if k:
                        best = min(best, t.item())
            except RuntimeError as e:
                if r == 0:
                    common.emit(bench="collective", peer="gloo", op=name, W=W, MB=mb, failed=str(e)[:200])
                continue
            if r == 0:
                common.emit(
                    bench="collective",
                    peer="gloo",
                    op=name,
                    W=W,
                    MB=mb,
                    ms=round(best * 1e3, 3),
                    bus_GB_s=round(factor * (W - 1) / W * n * 4 / best / 1e9, 2),
                )
    dist.destroy_process_group()


if __name__ == "__main__":
    import torch.multiprocessing as mp

    W = int(sys.argv[1])
    mp.spawn(run, args=(W,), nprocs=W)
