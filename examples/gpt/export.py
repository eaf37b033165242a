"""Exports the example's model, a small byte-level GPT in plain PyTorch, with its loss inside the graph.

usage: export.py [OUT.onnx]          needs torch and onnx; the committed gpt.onnx was made with torch 2.13.0, seed 0

Graph inputs `input_ids` and `labels`, int64 [batch, 64]: bytes, and the byte that follows each of them. Output `loss`, the mean
cross-entropy. `batch` is symbolic and bound when compiling (`--dim batch=8`). The head shares the embedding's weight.
"""
import os
import sys
import warnings

import torch
import torch.nn as nn
import torch.nn.functional as F

VOCAB, SEQ, LAYERS, WIDTH, HEADS = 256, 64, 4, 128, 4


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1 = nn.LayerNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)
        self.norm2 = nn.LayerNorm(WIDTH)
        self.up = nn.Linear(WIDTH, 4 * WIDTH)
        self.down = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        q, k, v = self.qkv(self.norm1(x)).split(WIDTH, dim=2)
        q, k, v = (t.view(-1, SEQ, HEADS, WIDTH // HEADS).transpose(1, 2) for t in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(-1, SEQ, WIDTH))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, WIDTH)
        self.position = nn.Embedding(SEQ, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCAB, bias=False)
        for table in (self.embed, self.position):
            nn.init.normal_(table.weight, std=0.05)
        self.head.weight = self.embed.weight

    def forward(self, input_ids, labels):
        x = self.embed(input_ids) + self.position.weight
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.view(-1, VOCAB), labels.view(-1))


def build():
    torch.manual_seed(0)
    return GPT().train()


def main():
    path = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "gpt.onnx")
    ids = torch.zeros(2, SEQ, dtype=torch.int64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(build(), (ids, ids), path, dynamo=False, opset_version=17,
                          training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False,
                          input_names=["input_ids", "labels"], output_names=["loss"],
                          dynamic_axes={"input_ids": {0: "batch"}, "labels": {0: "batch"}})
    print(f"{path}: {os.path.getsize(path):,} bytes")


if __name__ == "__main__":
    main()
