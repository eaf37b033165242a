"""Trains the example's model in PyTorch on the same texts, as the four ranks of quickstart.sh do together: one process, all 32 rows.

usage: reference.py [--steps N] [--batch N] [--lr X] [--warmup N] [--clip X] [--seed N] [--threads N] FILE...
Prints a line of JSON per step, like metrics.jsonl: step, loss, grad_norm, lr. The rows come in zero-run's order (`--shuffle
--seed 0`), so the losses agree digit by digit at first; later rounding differences grow, as between any two trainings.
"""
import argparse
import json
import math

import torch

import export


def windows(paths):
    """Every window of SEQ bytes, and the windows of the bytes that follow: int64 [n, SEQ] each."""
    text = torch.tensor(list(b"".join(open(p, "rb").read() for p in paths)))
    n = (len(text) - 1) // export.SEQ
    return (text[o:o + n * export.SEQ].view(n, export.SEQ) for o in (0, 1))


def mix(x):
    """SplitMix64's finalizer."""
    x = (x + 0x9E3779B97F4A7C15) % 2**64
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    x = (x ^ x >> 27) * 0x94D049BB133111EB % 2**64
    return x ^ x >> 31


def sample(position, count, seed):
    """Which window stands at a position of the run: runtime/data/SampleOrder.h, a Feistel permutation per epoch."""
    half = 1
    while half < 31 and 1 << 2 * half < count:
        half += 1
    key, index, mask = mix(seed ^ mix(position // count)), position % count, (1 << half) - 1
    while True:
        left, right = index >> half, index & mask
        for r in range(4):
            left, right = right, left ^ mix((key + r + (right << 8)) % 2**64) & mask
        index = left << half | right
        if index < count:
            return index


def main():
    a = argparse.ArgumentParser()
    a.add_argument("files", nargs="+")
    a.add_argument("--steps", type=int, default=400)
    a.add_argument("--batch", type=int, default=32)
    a.add_argument("--lr", type=float, default=3e-3)
    a.add_argument("--warmup", type=int, default=20)
    a.add_argument("--clip", type=float, default=1.0)
    a.add_argument("--seed", type=int, default=0)
    a.add_argument("--stop", type=int, help="end after this step, with the learning rates of --steps")
    a.add_argument("--threads", type=int, default=2)
    a = a.parse_args()
    torch.set_num_threads(a.threads)
    ids, labels = windows(a.files)
    model = export.build()
    optimizer = torch.optim.AdamW(model.parameters(), lr=a.lr)
    for step in range(a.stop or a.steps):
        warm = (step + 1) / a.warmup if a.warmup else 1
        cosine = 0.5 * (1 + math.cos(math.pi * (step - a.warmup) / max(1, a.steps - a.warmup)))
        optimizer.param_groups[0]["lr"] = a.lr * (warm if step < a.warmup else cosine)
        rows = [sample(step * a.batch + i, len(ids), a.seed) for i in range(a.batch)]
        loss = model(ids[rows], labels[rows])
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), a.clip)
        optimizer.step()
        optimizer.zero_grad()
        lr = optimizer.param_groups[0]["lr"]
        print(json.dumps({"step": step + 1, "loss": loss.item(), "grad_norm": norm.item(), "lr": lr}), flush=True)


if __name__ == "__main__":
    main()
