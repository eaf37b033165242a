"""Element-wise programs and attention beside what one core can do. Takes bench.py's module."""
import json
import os
import re

PRECISIONS = {"f32": "fp32", "bf16": "bf16", "f16": "fp16"}
PROGRAM, WITHIN, ATTENTION = 0.85, 0.5, 0.7  # musts, of the triad, of the second cache's and of a large product's rate


def kernels(bench):
    """One thread. Programs on operands larger than the caches over the triad, within the second cache over the triad there; attention of
    1,024 and 2,048 keys over a product of 2,048^3 in its precision. Limits are the better of before and after."""
    program = os.path.join(bench.BIN, "zc-kernel-bench")
    limits = lambda: {r["bench"]: r["value"] for r in map(json.loads, bench.execute([os.path.join(bench.BIN, "bench_limits"), "1", "memory"])[0].splitlines())}
    measured = lambda pattern: bench.execute([program, "--benchmark_format=json", "--benchmark_filter=" + pattern])
    before = limits()
    out, foreign = measured("^fused_[a-z_]+/(memory|cache)(/b?f16)?/1/")
    after = limits()
    triad = {name: max(before[name], after[name]) for name in before}
    for name, row in rows(out):
        limit, must = (triad["stream_triad"], PROGRAM) if "memory" in name else (triad["cache_triad"], WITHIN)
        told(bench, "program " + name, row["GB/s"], "GB/s", limit, must, foreign)
    out, foreign = measured("^(attention|attention_grad)/(1024|2048)(/b?f16)?/1/|^limit/product(/b?f16)?/1/")
    found = dict(rows(out))
    for name, row in found.items():
        if not name.startswith("limit/"):
            told(bench, name, row["GF/s"], "GF/s", found["limit/product " + name.split()[-1]]["GF/s"], ATTENTION, foreign)


def rows(out):
    """(name and precision, row)"""
    for row in json.loads(out)["benchmarks"]:
        if "error_message" in row:
            raise RuntimeError(f"{row['name']}: {row['error_message']}")
        name, precision = re.fullmatch(r"(?:fused_)?(.+?)(/bf16|/f16)?/1/min_time:.*", row["name"]).groups()
        yield f"{name} {PRECISIONS[(precision or '/f32')[1:]]}", row


def told(bench, name, value, unit, limit, must, foreign):
    """Rates are what the row's unit is, of the machine's; `limit` is the least that is asked for."""
    bench.emit(name, round(value, 1), unit, round(must * limit, 1), round(value / limit, 3), machine=round(limit, 1), threads=1, foreign_cores=foreign)
