#!/usr/bin/env python3
"""Each collective over MPI gives the bits of inproc: every type, from one element to megabytes, in place and not, over all ranks,
inside nodes, across them and along a model axis."""
import pathlib, sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "support")]
from cluster import ClusterSuite
from e2e import Case

suite = ClusterSuite(__doc__, hosts=3)


def collectives(hosts, ranks, per_node, model, largest):
    done = suite.job(suite.hosts.mpirun(hosts, ranks, [suite.bin / "zc-collectives-test", per_node, model, largest]))
    if "collectives" not in done.out:
        raise Case(f"says {done.out!r}")
    return done.out.strip()


# Each rank does what all do over threads: eight ranks 64 times as much as one.
largest = lambda ranks: 30000 if suite.args.quick and ranks > 4 else 300000  # elements
meshes = [(2, 2, 2, 1), (3, 1, 1, 1), (2, 4, 4, 2)]
if not suite.args.quick:
    meshes = [(1, 1, 1, 1), (1, 2, 2, 1), (1, 4, 2, 1), (2, 1, 1, 1), (2, 2, 2, 1), (3, 1, 1, 1), (3, 2, 2, 1), (2, 3, 3, 1),
              (2, 3, 1, 1), (1, 4, 4, 2), (2, 4, 4, 2), (2, 3, 3, 3)]
suite.run([(f"{h} hosts x {r}, nodes of {p}, model axis of {m}", lambda a=(h, r, p, m, largest(h * r)): collectives(*a)) for h, r, p, m in meshes])
suite.finish()
