#!/usr/bin/env python3
"""Bytes between hosts: the runtime's counters against the formulas, and against what the kernel counted on the interfaces, within
5 %, on a model of more than 20 million parameters. The bytes of a step are the difference between a long and a short run: starting,
agreeing and saving are in both."""
import json, os, pathlib, subprocess, sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "support")]
from cluster import ClusterSuite
from e2e import Case
from hosts import Hosts

suite = ClusterSuite(__doc__, hosts=2)
suite.args.jobs = 1  # one job at a time on the links
model, data = suite.dir / "gpt.onnx", suite.dir / "data.safetensors"
subprocess.run([sys.executable, HERE.parent / "support" / "make_gpt.py", model, "--layers", "6", "--hidden", "512", "--heads", "8",
                "--vocab", "8192", "--seq", "16", "--batch", "1", "--seed", "0", "--inputs", data, "--rows", "8"], check=True,
               capture_output=True)
SHORT, LONG = 1, 4
# Bytes sent to the other node by one rank and step, in units of the parameters' bytes M: its part goes to every rank there.
STAGES = {0: 2, 2: 2, 3: 3}
# The same for ZeRO++ on two hosts of two ranks at stage 3: gathers for forward, gathers for backward, gradients. In two hops a
# gradient leaves the node once for both of its ranks.
QW, HP, QG = ("--quantize-weights", "int8"), ("--hierarchical",), ("--quantize-gradients", "int4")
TECHNIQUES = {"qwZ": (QW, 1 / 4 + 1 / 4 + 1), "hpZ": (HP, 1 + 0 + 1), "qgZ": (QG, 1 + 1 + 1 / 16),
              "hpZ and qwZ": (QW + HP, 1 / 4 + 0 + 1), "ZeRO++": (QW + HP + QG, 1 / 4 + 0 + 1 / 16)}


def traffic(stage, ranks, flags=(), volume=None):
    world, name = 2 * ranks, "-".join([str(stage), str(ranks), *(f.strip("-") for f in flags)])
    how = ("--world-size", world, "--ranks-per-node", ranks, "--zero-stage", stage, *flags)
    plan = suite.compile(model, suite.dir / f"{name}.plan", *how)
    planned = json.loads(suite.tool("zero-compile", model, *how, "--dry-run", "--json"))
    if planned["parameters"] < 20e6:
        raise Case(f"the model has only {planned['parameters']} parameters")

    def run(steps):
        before = [suite.hosts.sent(i) for i in range(2)]
        report = suite.mpi(2, ranks, plan, "--data", data, "--threads", 1, "--quiet", "--steps", steps, "--lr-schedule", "constant",
                           "--out", suite.dir / f"{name}-{steps}")
        return report["traffic"]["inter_node"], [suite.hosts.sent(i) - b for i, b in enumerate(before)]

    (short, sent_short), (long, sent_long) = run(SHORT), run(LONG)
    counted = (long - short) / (LONG - SHORT)
    formula = (volume or STAGES[stage]) * planned["parameters"] * 4 * (ranks / world)
    if abs(counted - planned["traffic"]["inter_node"]) > 0.001 * counted:
        raise Case(f"counted {counted}, planned {planned['traffic']['inter_node']}")
    if not -0.001 * formula < counted - formula < (0.03 if flags else 0.01) * formula:  # padding of buckets, and scales
        raise Case(f"counted {counted}, the formula gives {formula}")
    off = []
    for host in range(2):
        seen = (sent_long[host] - sent_short[host]) / (LONG - SHORT)
        off.append(seen / (counted * ranks) - 1)
        if abs(off[-1]) > 0.05:
            raise Case(f"host {host} sent {seen:.0f} bytes per step, its ranks counted {counted * ranks:.0f}")
    return f"{counted / 1e6:.1f} MB per rank and step, the kernel saw {' and '.join(f'{o:+.1%}' for o in off)}"


def checkpoint():
    """A rank writes what it has of the weights by itself: over the links go hashes, and no weights."""
    plan = suite.compile(model, suite.dir / "three.plan", "--world-size", 3, "--ranks-per-node", 1, "--zero-stage", 3, "--optimizer", "sgd")
    sent = []
    with Hosts(3) as hosts:
        for saves in (0, 2):
            before = hosts.sent(1)
            flags = ["--data", data, "--threads", 1, "--quiet", "--steps", 3, "--lr-schedule", "constant", "--out", suite.dir / f"save-{saves}"]
            if saves:
                flags += ["--save-every", 1]
            suite.job(hosts.mpirun(3, 1, [suite.bin / "zero-run", plan, *flags]), cluster=hosts)
            sent.append(hosts.sent(1) - before)
    saved = len(list((suite.dir / "save-2").glob("step-*")))
    planned = json.loads(suite.tool("zero-compile", model, "--world-size", 3, "--zero-stage", 3, "--dry-run", "--json"))
    each, share = (sent[1] - sent[0]) / saved, planned["parameters"] * 4 / 3
    if saved < 2 or each > 0.05 * share:
        raise Case(f"{saved} checkpoints: a rank sent {each:.0f} bytes for each, its share is {share:.0f}")
    return f"{each / 1e6:.1f} MB of a share of {share / 1e6:.1f}"


def link_rate():
    """bench-io on two hosts of two ranks measures what the link is limited to; a busy machine may need another try."""
    folder = suite.dir / "machine"
    folder.mkdir()
    command = [suite.bin / "zero-run", "bench-io", folder, "--size", "4MB", "-o", folder / "machine.json"]
    rates = []
    with Hosts(2, "200mbit") as hosts:
        while len(rates) < 3 and not (rates and 120 < rates[-1] < 260):  # it begins with a burst
            suite.job(hosts.mpirun(2, 2, command), cluster=hosts)
            rates.append(json.loads((folder / "machine.json").read_text())["node_bandwidth"] * 8 / 1e6)
    if not 120 < rates[-1] < 260:
        raise Case(f"{rates} Mbit/s instead of 200")
    return f"{rates[-1]:.0f} of 200 Mbit/s"


chosen = [(3, 1)] if suite.args.quick else [(0, 1), (2, 1), (3, 1), (3, 2)]
cases = [(f"stage {stage}, 2 hosts x {ranks}", lambda s=stage, r=ranks: traffic(s, r)) for stage, ranks in chosen]
if not suite.args.quick:
    cases += [(f"{name}, 2 hosts x 2", lambda f=flags, v=volume: traffic(3, 2, f, v)) for name, (flags, volume) in TECHNIQUES.items()]
    cases += [("a checkpoint", checkpoint), ("the link's rate", link_rate)]
suite.run(cases)
suite.finish()
