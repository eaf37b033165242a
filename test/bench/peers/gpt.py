"""GPT-2 style model; one process: gpt.py MODEL eager|compile THREADS BATCH [fp32|amp|bf16]
amp: autocast; bf16: parameters, gradients and moments in bf16, without a master.
GPT_WEIGHTS names an ONNX file whose weights it begins with, made by test/support/make_gpt.py (needs onnx)."""

import os, sys, time
import torch, torch.nn as nn, torch.nn.functional as F


class Block(nn.Module):
    def __init__(s, d, h):
        super().__init__()
        s.h = h
        s.l1 = nn.LayerNorm(d)
        s.qkv = nn.Linear(d, 3 * d)
        s.o = nn.Linear(d, d)
        s.l2 = nn.LayerNorm(d)
        s.f1 = nn.Linear(d, 4 * d)
        s.f2 = nn.Linear(4 * d, d)

    def forward(s, x):
        B, T, C = x.shape
        q, k, v = s.qkv(s.l1(x)).split(C, 2)
        q, k, v = [t.view(B, T, s.h, C // s.h).transpose(1, 2) for t in (q, k, v)]
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(B, T, C)
        x = x + s.o(y)
        return x + s.f2(F.gelu(s.f1(s.l2(x)), approximate="tanh"))


class GPT(nn.Module):
    """forward(i, t) -> mean cross-entropy; the head shares the embedding's weight."""

    def __init__(s, L, d, h, V, T):
        super().__init__()
        s.e = nn.Embedding(V, d)
        s.p = nn.Embedding(T, d)
        s.b = nn.ModuleList([Block(d, h) for _ in range(L)])
        s.n = nn.LayerNorm(d)
        s.head = nn.Linear(d, V, bias=False)
        nn.init.normal_(s.e.weight, std=0.02)
        nn.init.normal_(s.p.weight, std=0.02)
        s.head.weight = s.e.weight

    def forward(s, i, t):
        x = s.e(i) + s.p.weight[: i.shape[1]]
        for b in s.b:
            x = b(x)
        lg = s.head(s.n(x))
        return F.cross_entropy(lg.float().view(-1, lg.shape[-1]), t.view(-1))


def made(name):
    """The model `name` of common.MODELS, seeded, or with the weights of GPT_WEIGHTS, whose order is that of the parameters."""
    import common

    torch.manual_seed(0)
    m = GPT(*common.MODELS[name])
    if os.environ.get("GPT_WEIGHTS"):
        import onnx
        from onnx import numpy_helper

        weights = onnx.load(os.environ["GPT_WEIGHTS"]).graph.initializer
        parameters = list(m.parameters())
        assert [tuple(w.dims) for w in weights] == [tuple(p.shape) for p in parameters]
        with torch.no_grad():
            for p, w in zip(parameters, weights):
                p.copy_(torch.from_numpy(numpy_helper.to_array(w).copy()))
    return m


def flops(L, d, V, B, T):
    """Multiply-adds of a training step, times two (causal attention counted whole)."""
    return 6 * (L * 12 * d * d + V * d) * B * T + 12 * L * d * T * T * B


if __name__ == "__main__":
    import common

    name, mode, threads, B = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    dt = sys.argv[5] if len(sys.argv) > 5 else "fp32"
    torch.set_num_threads(threads)
    base = common.status("VmRSS")
    L, d, h, V, T = common.MODELS[name]
    m = made(name)
    if dt == "bf16":
        m = m.to(torch.bfloat16)
    opt = torch.optim.AdamW(m.parameters(), lr=1e-4, fused=True)
    i, t = common.data(V, B, T)
    f = torch.compile(m) if mode == "compile" else m
    adam = []

    def forward():
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=dt == "amp"):
            return f(i, t)

    def step():
        loss = forward()
        loss.backward()
        a = time.perf_counter()
        opt.step()
        adam.append(time.perf_counter() - a)
        opt.zero_grad()
        return loss.item()

    a = time.perf_counter()
    forward()
    first = time.perf_counter() - a
    warm, n = common.STEPS[name]
    ts, losses, start, peak = common.timed_loop(step, warm, n)
    s = common.summary(ts, B * T)
    common.emit(
        bench="train",
        peer="torch-" + mode,
        model=name,
        W=1,
        threads=threads,
        B=B,
        dtype=dt,
        **s,
        gf_s=round(flops(L, d, V, B, T) / s["step_ms"] / 1e6, 1),
        adam_ms=round(sorted(adam)[len(adam) // 2] * 1e3, 1),
        first_s=round(first, 1),
        rss_base=base,
        hwm=[max(start, peak)],
        hwm_steps=[peak],
        loss=round(losses[-1], 5),
        losses=[round(x, 6) for x in losses],
    )
