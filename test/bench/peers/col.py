"""gloo collectives: 9 after one warm-up, the slowest rank counts; best (ms) and median; one JSON line each. usage: col.py WORLD [MB ...]"""

import statistics, sys, time
import common


def run(r, W, sizes):
    common.env(r, W, 29511)
    common.pin(r)
    import torch, torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=r, world_size=W)
    for mb in sizes:
        n = mb * (1 << 20) // 4 // W * W
        x, sh, out = torch.ones(n), torch.ones(n // W), torch.empty(n)
        ops = {
            "allreduce": (2, lambda: dist.all_reduce(x)),
            "allgather": (1, lambda: dist.all_gather_into_tensor(out, sh)),
            "reduce_scatter": (1, lambda: dist.reduce_scatter_tensor(sh, x)),
            "alltoall": (1, lambda: dist.all_to_all_single(out, x)),
        }
        for name, (factor, f) in ops.items():
            taken = []
            try:
                for k in range(10):
                    x.zero_()
                    dist.barrier()
                    t = time.perf_counter()
                    f()
                    t = torch.tensor(time.perf_counter() - t, dtype=torch.float64)
                    dist.all_reduce(t, op=dist.ReduceOp.MAX)
                    if k:
                        taken.append(t.item())
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
                    ms=round(min(taken) * 1e3, 3),
                    median_ms=round(statistics.median(taken) * 1e3, 3),
                    bus_GB_s=round(factor * (W - 1) / W * n * 4 / min(taken) / 1e9, 2),
                )
    dist.destroy_process_group()


if __name__ == "__main__":
    import torch.multiprocessing as mp

    W = int(sys.argv[1])
    mp.spawn(run, args=(W, [int(mb) for mb in sys.argv[2:]] or (1, 16, 128)), nprocs=W)
