"""What the peers share: models, data, clocks, memory, one JSON line per measurement."""

import json, os, statistics, time

# layers, width, heads, vocabulary, sequence length
MODELS = {"g5m": (4, 256, 4, 8192, 128), "g124m": (12, 768, 12, 50257, 256)}
STEPS = {"g5m": (5, 30), "g124m": (1, 5)}  # warm-up steps, timed steps


def data(V, B, T, rank=0, world=1):
    """The rank's rows of one fixed global batch [world*B, T]: the same for every peer. GPT_DATA: a safetensors file of `input_ids` and `labels`."""
    import torch

    if os.environ.get("GPT_DATA"):
        i, t = (tensor[: world * B] for tensor in read_inputs(os.environ["GPT_DATA"]))
        return i[rank * B : (rank + 1) * B].contiguous(), t[rank * B : (rank + 1) * B].contiguous()
    g = torch.Generator().manual_seed(1234)
    i, t = (torch.randint(0, V, (world * B, T), generator=g) for _ in range(2))
    return i[rank * B : (rank + 1) * B].contiguous(), t[rank * B : (rank + 1) * B].contiguous()


def read_inputs(path):
    import torch

    with open(path, "rb") as f:
        content = f.read()
    begin = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:begin])

    def tensor(name):
        first, end = header[name]["data_offsets"]
        flat = torch.frombuffer(bytearray(content[begin + first : begin + end]), dtype=torch.int64)
        return flat.view(header[name]["shape"])

    return tensor("input_ids"), tensor("labels")


def status(key):
    for line in open("/proc/self/status"):
        if line.startswith(key + ":"):
            return int(line.split()[1]) // 1024
    return 0


def reset_peak():
    """From here on VmHWM counts anew; returns the peak so far (MiB)."""
    peak = status("VmHWM")
    with open("/proc/self/clear_refs", "w") as f:
        f.write("5")
    return peak


def pin(rank):
    if os.environ.get("PIN", "0") == "1":
        cpus = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cpus[rank % len(cpus)]})


def emit(**kw):
    kw["load"] = round(os.getloadavg()[0], 2)
    print(json.dumps(kw), flush=True)


def env(rank, world, port, threads=1):
    os.environ.update(
        MASTER_ADDR="127.0.0.1",
        MASTER_PORT=str(port),
        GLOO_SOCKET_IFNAME="lo",
        RANK=str(rank),
        WORLD_SIZE=str(world),
        LOCAL_RANK=str(rank),
        LOCAL_SIZE=str(world),
        LOCAL_WORLD_SIZE=str(world),
        OMP_NUM_THREADS=str(threads),
    )


def timed_loop(step, warm, n, barrier=lambda: None):
    """Runs warm+n steps; returns step times (s), the loss of each step, the peak of the start-up and of the timed part (MiB)."""
    ts, losses, start = [], [], 0
    for k in range(warm + n):
        if k == warm:
            start = reset_peak()
        barrier()
        t = time.perf_counter()
        loss = step()
        barrier()
        ts.append(time.perf_counter() - t)
        losses.append(float(loss))
    return ts[warm:], losses, start, status("VmHWM")


def summary(ts, tokens):
    med = statistics.median(ts)
    return dict(
        step_ms=round(med * 1e3, 1),
        min_ms=round(min(ts) * 1e3, 1),
        max_ms=round(max(ts) * 1e3, 1),
        tok_s=round(tokens / med, 1),
        n=len(ts),
    )
