"""The same products through torch.mm / torch.bmm (MKL sgemm and oneDNN bf16 inside the wheel). usage: torchgemm.py THREADS [f32] [bf16] [batch]"""

import json, os, sys, time, torch

T = int(sys.argv[1])
what = sys.argv[2:]
torch.set_num_threads(T)
SH = [(1024, 768, 2304), (1024, 768, 3072), (1024, 3072, 768), (512, 768, 3072), (2048, 2048, 2048), (1024, 768, 50257)]


def best(f):
    f()
    b = 1e9
    tot = 0
    k = 0
    while k < 3 or (tot < 0.1 and k < 200):
        t = time.perf_counter()
        f()
        t = time.perf_counter() - t
        b = min(b, t)
        tot += t
        k += 1
    return b


def out(w, s, l, fl, t):
    print(
        json.dumps(
            dict(
                lib="torch",
                T=T,
                what=w,
                shape=s,
                lay=l,
                ms=round(t * 1e3, 4),
                gfs=round(fl / t / 1e9, 1),
                load=os.getloadavg()[0],
            )
        ),
        flush=True,
    )


for w, dt in (("f32", torch.float32), ("bf16", torch.bfloat16)):
    if w not in what:
        continue
    for m, k, n in SH:
        a, b = torch.randn(m, k).to(dt), torch.randn(k, n).to(dt)
        at, bt = a.t().contiguous(), b.t().contiguous()
        fl = 2.0 * m * k * n
        s = f"{m}x{k}x{n}"
        for l, f in (
            ("NN", lambda: torch.mm(a, b)),
            ("NT", lambda: torch.mm(a, bt.t())),
            ("TN", lambda: torch.mm(at.t(), b)),
        ):
            out(w, s, l, fl, best(f))
if "batch" in what:
    for m, k, n, l in ((256, 64, 256, "NT"), (256, 256, 64, "NN")):
        a = torch.randn(48, m, k)
        b = torch.randn(48, n, k).transpose(1, 2) if l == "NT" else torch.randn(48, k, n)
        out("batch-strided", f"48x{m}x{k}x{n}", l, 96.0 * m * k * n, best(lambda: torch.bmm(a, b)))
        a, b = a.bfloat16(), b.bfloat16()
        out("batch-bf16", f"48x{m}x{k}x{n}", l, 96.0 * m * k * n, best(lambda: torch.bmm(a, b)))
    q, k, v = (torch.randn(4, 12, 256, 64) for _ in range(3))
    out(
        "sdpa-causal-fwd",
        "4x12x256x64",
        "-",
        4.0 * 48 * 256 * 256 * 64,
        best(lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)),
    )
