"""PyTorch on one GPU, which is what a user would run instead: one JSON line per measurement.

  gpu.py [--cpu] [--peak FLOPS] [limits] [MODEL[:BATCH]...[:MODE]...[:KIND]...[:LAYERS] ...]     default: limits g124m

MODEL: g124m (T 1024), g1.5b (48 x 1600, T 1024), llama7b (32 x 4096, T 2048), tiny, tinyllama. MODE: eager, compile, max (compile with
max-autotune); all if absent. LAYERS: L8 is so many of the model's. KIND: two kinds of 16 bits, both if absent: "autocast" (fp32 weights,
bf16 autocast) and "bf16" (bf16 weights and gradients, fp32 master weights and moments, as zero-compile's --precision bf16), both with
fused AdamW. `limits`: matrix products, a
device copy, an update in place, pinned host copies each way and both, the host's own update. Losses of steps 1 and 5 are printed: seed
and data are the same for all. MFU counts 6 x parameters + 12 x layers x width x T flops a token over --peak. Needs torch only; --cpu
tries the script where there is no GPU.
"""
import argparse
import json
import re
import statistics
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

# layers, width, heads, vocabulary, sequence length
SIZES = {
    "tiny": (2, 64, 2, 512, 64),
    "tinyllama": (2, 64, 2, 512, 64),
    "g124m": (12, 768, 12, 50304, 1024),
    "g1.5b": (48, 1600, 25, 50304, 1024),
    "llama7b": (32, 4096, 32, 32000, 2048),
}
BATCHES = {"tiny": (2,), "tinyllama": (2,), "g124m": (16, 32, 64), "g1.5b": (4, 8, 16), "llama7b": (1, 2, 4)}
MODES = ("eager", "compile", "max")
KINDS = ("autocast", "bf16")


def say(**fields):
    print(json.dumps(fields), flush=True)


class RmsNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return F.rms_norm(x, (x.shape[-1],), self.weight, 1e-5)


class Block(nn.Module):
    """GPT-2's block, or Llama's: RMS norms, rotary positions, a gate, no biases."""

    def __init__(self, width, heads, llama):
        super().__init__()
        self.heads, self.llama = heads, llama
        norm, bias = (RmsNorm, False) if llama else (nn.LayerNorm, True)
        inner = 11008 * width // 4096 if llama else 4 * width
        self.norm1, self.norm2 = norm(width), norm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=bias), nn.Linear(width, width, bias=bias)
        self.up, self.down = nn.Linear(width, inner, bias=bias), nn.Linear(inner, width, bias=bias)
        self.gate = nn.Linear(width, inner, bias=False) if llama else None

    def forward(self, x, cos, sin):
        batch, length, width = x.shape
        q, k, v = (t.view(batch, length, self.heads, -1).transpose(1, 2) for t in self.qkv(self.norm1(x)).split(width, 2))
        if self.llama:
            q, k = (t * cos + rotate_half(t) * sin for t in (q, k))
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(batch, length, width)
        x = x + self.out(attended)
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y) if self.llama else F.gelu(self.up(y), approximate="tanh"))


def rotate_half(t):
    half = t.shape[-1] // 2
    return torch.cat((-t[..., half:], t[..., :half]), -1)


class LanguageModel(nn.Module):
    """forward(ids, labels) -> mean cross-entropy; GPT-2's head shares the embedding's weight."""

    def __init__(self, layers, width, heads, vocabulary, length, llama):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = None if llama else nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, heads, llama) for _ in range(layers))
        self.norm = RmsNorm(width) if llama else nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        for module in self.modules():
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, std=0.02)
        if not llama:
            self.head.weight = self.tokens.weight
        size = width // heads
        angles = torch.outer(torch.arange(length), 10000.0 ** (-torch.arange(0, size, 2) / size)).repeat(1, 2)
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def forward(self, ids, labels):
        x = self.tokens(ids)
        if self.positions is not None:
            x = x + self.positions.weight[: ids.shape[1]]
        cos, sin = self.cos.to(x.dtype), self.sin.to(x.dtype)
        for block in self.blocks:
            x = block(x, cos, sin)
        logits = self.head(self.norm(x)).float()
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), labels.view(-1))


class Bench:
    def __init__(self, cpu, peak):
        self.cpu, self.peak, self.device = cpu, peak, "cpu" if cpu else "cuda"
        self.sync = (lambda: None) if cpu else torch.cuda.synchronize

    def seconds(self, work, count=10, warm=3):
        """Median."""
        for _ in range(warm):
            work()
        taken = []
        for _ in range(count):
            self.sync()
            begin = time.perf_counter()
            work()
            self.sync()
            taken.append(time.perf_counter() - begin)
        return statistics.median(taken)

    def train(self, name, batch, mode, kind, layers=None):
        whole, width, heads, vocabulary, length = SIZES[name]
        layers = layers or whole
        torch.manual_seed(0)
        torch.set_float32_matmul_precision("high")
        with torch.device(self.device):
            model = LanguageModel(layers, width, heads, vocabulary, length, "llama" in name)
        weights = list(model.parameters())
        elements = sum(p.numel() for p in weights)
        master = weights
        if kind == "bf16":
            master = [p.detach().clone().float().requires_grad_(True) for p in weights]
            model.bfloat16()
        optimizer = torch.optim.AdamW(master, lr=1e-4, weight_decay=0.01, fused=True)
        forward = model if mode == "eager" else torch.compile(model, mode="max-autotune" if mode == "max" else None)
        generator = torch.Generator().manual_seed(1)
        ids, labels = (torch.randint(0, vocabulary, (batch, length), generator=generator).to(self.device) for _ in range(2))
        losses = []

        def step():
            with torch.autocast(self.device, torch.bfloat16, enabled=kind == "autocast"):
                loss = forward(ids, labels)
            loss.backward()
            if kind == "bf16":
                for copy, p in zip(master, weights):
                    copy.grad, p.grad = p.grad.float(), None
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            if kind == "bf16":
                with torch.no_grad():
                    torch._foreach_copy_(weights, master)
            losses.append(loss.detach())

        begin = time.time()
        step()
        self.sync()
        first = time.time() - begin
        taken = self.seconds(step, 2 if self.cpu else 10, 3 if self.cpu else 5)
        tokens = batch * length
        say(bench="gpu", model=name, layers=layers, parameters=elements, B=batch, T=length, mode=mode, kind=kind, step_ms=round(taken * 1e3, 3),
            tokens_s=round(tokens / taken), mfu=round(tokens * (6 * elements + 12 * layers * width * length) / taken / self.peak, 4),
            first_step_s=round(first, 1), peak_gib=None if self.cpu else round(torch.cuda.max_memory_allocated() / 2**30, 2),
            loss1=losses[0].item(), loss5=losses[4].item())

    def limits(self):
        found, size = {}, 256 if self.cpu else 8192
        for dtype in (torch.bfloat16, torch.float32):
            x, y = (torch.randn(size, size, device=self.device).to(dtype) for _ in range(2))
            found[f"matmul_{str(dtype)[6:]}_tflops"] = round(2 * size**3 / self.seconds(lambda: x @ y) / 1e12, 1)
        size = 1 << (20 if self.cpu else 30)
        rate = lambda work, count: round(count / self.seconds(work) / 1e9, 1)
        x, y = (torch.empty(size, dtype=torch.uint8, device=self.device) for _ in range(2))
        found["copy_gb_s"] = rate(lambda: y.copy_(x), 2 * size)
        numbers = torch.zeros(size // 4, device=self.device)
        found["update_gb_s"] = rate(lambda: numbers.add_(1.0), 2 * size)
        if not self.cpu:
            found.update(self.links(rate, x, y, size), device=torch.cuda.get_device_name())
        host = torch.zeros(1 << (20 if self.cpu else 28))
        say(bench="gpu-limits", **found, host_update_gb_s=rate(lambda: host.add_(1.0), 8 * host.numel()), host_threads=torch.get_num_threads())

    def links(self, rate, x, y, size):
        """Between pinned host memory and the device."""
        source, target = (torch.empty(size, dtype=torch.uint8, pin_memory=True) for _ in range(2))
        there, back = torch.cuda.Stream(), torch.cuda.Stream()

        def both():
            with torch.cuda.stream(there):
                x.copy_(source, non_blocking=True)
            with torch.cuda.stream(back):
                target.copy_(y, non_blocking=True)

        return {"h2d_gb_s": rate(lambda: x.copy_(source, non_blocking=True), size),
                "d2h_gb_s": rate(lambda: target.copy_(y, non_blocking=True), size), "both_ways_gb_s": rate(both, 2 * size)}

    def run(self, what):
        if what == "limits":
            return self.limits()
        name, *rest = what.split(":")
        layers = next((int(word[1:]) for word in rest if re.fullmatch(r"L\d+", word)), None)
        for batch in [int(word) for word in rest if word.isdigit()] or BATCHES[name]:
            for mode in [word for word in rest if word in MODES] or MODES:
                for kind in [word for word in rest if word in KINDS] or KINDS:
                    try:
                        self.train(name, batch, mode, kind, layers)
                    except Exception as e:  # out of memory, or a mode that this torch lacks: the next one
                        say(bench="gpu", model=name, B=batch, mode=mode, kind=kind, error=f"{type(e).__name__}: {str(e)[:160]}")
                    if not self.cpu:
                        torch.cuda.empty_cache()
                        torch.cuda.reset_peak_memory_stats()
                    torch._dynamo.reset()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", default=["limits", "g124m"])
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("--peak", type=float, default=989e12, help="flops a second that MFU is of (default: a H100's or H200's in bf16)")
    arguments = parser.parse_args()
    def is_known(what):
        name, *rest = what.split(":")
        return what == "limits" or name in SIZES and all(re.fullmatch(r"L?\d+", word) or word in MODES + KINDS for word in rest)

    unknown = [what for what in arguments.what if not is_known(what)]
    if unknown:
        parser.error(f"no {', '.join(unknown)}; there are the models {' '.join(SIZES)}, modes {' '.join(MODES)}, kinds {' '.join(KINDS)}")
    bench = Bench(arguments.cpu, arguments.peak)
    for what in arguments.what:
        bench.run(what)


if __name__ == "__main__":
    main()
