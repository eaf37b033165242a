"""Trains the example's model in PyTorch on the same texts, as the four ranks of quickstart.sh do together: one process, all 32 rows.

usage: reference.py [--steps N] [--batch N] [--lr X] [--warmup N] [--clip X] [--threads N] FILE...
Prints step, loss and seconds. The rows are drawn by PyTorch's generator, so the losses agree with zero-run's in their course, not in
their digits; for equality to 1e-5 see the goldens in test/e2e.
"""
import argparse
import math
import time

import torch

import export


def windows(paths):
    """Every window of SEQ bytes, and the same shifted by one: int64 [n, SEQ] each."""
    text = torch.tensor(list(b"".join(open(p, "rb").read() for p in paths)))
    n = (len(text) - 1) // export.SEQ
    return (text[o:o + n * export.SEQ].view(n, export.SEQ) for o in (0, 1))


def main():
    a = argparse.ArgumentParser()
    a.add_argument("files", nargs="+")
    a.add_argument("--steps", type=int, default=400)
    a.add_argument("--batch", type=int, default=32)
    a.add_argument("--lr", type=float, default=4e-3)
    a.add_argument("--warmup", type=int, default=20)
    a.add_argument("--clip", type=float, default=1.0)
    a.add_argument("--threads", type=int, default=2)
    a = a.parse_args()
    torch.set_num_threads(a.threads)
    ids, labels = windows(a.files)
    model = export.build()
    optimizer = torch.optim.AdamW(model.parameters(), lr=a.lr)
    generator, order, start = torch.Generator().manual_seed(0), [], time.time()
    for step in range(a.steps):
        warm = (step + 1) / a.warmup if a.warmup else 1
        cosine = 0.5 * (1 + math.cos(math.pi * (step - a.warmup) / max(1, a.steps - a.warmup)))
        optimizer.param_groups[0]["lr"] = a.lr * (warm if step < a.warmup else cosine)
        while len(order) < a.batch:
            order += torch.randperm(len(ids), generator=generator).tolist()
        rows, order = order[:a.batch], order[a.batch:]
        loss = model(ids[rows], labels[rows])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), a.clip)
        optimizer.step()
        optimizer.zero_grad()
        if step == 0 or (step + 1) % 50 == 0:
            print(f"{step + 1:5d}  {loss.item():.4f}  {time.time() - start:6.1f} s", flush=True)


if __name__ == "__main__":
    main()
