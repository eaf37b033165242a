"""Collectives (C7) beside memory copies of the same ranks and beside gloo's. Takes bench.py's module."""
import json
import os
import sys


def collectives(bench):
    """Inproc and MPI beside what the same ranks copy in memory at the same time (C7: at most 1.5 times as long), and beside
    gloo (at least 10 times as fast)."""
    slower = gloo(bench)
    program = os.path.join(bench.BIN, "bench_collectives")
    for how, command in (("inproc", [program, "2"]), ("mpi", [*bench.MPIRUN, "2", program])):
        out, foreign = bench.execute(command, {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"})
        rows = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
        copies = {r["bytes"]: r["gb_per_second"] for r in rows if r["collective"] == "copy"}
        for r in rows:
            if r["collective"] != "copy":
                limit, value = copies[r["bytes"]], r["gb_per_second"]
                name = f"{r['collective']} {how} {r['bytes'] >> 20} MB"
                bench.emit(name, value, "GB/s", limit, round(limit / value, 3), ranks=r["ranks"], foreign_cores=foreign)
                if how == "inproc" and (r["collective"], r["bytes"] >> 20) in slower:
                    other, others = slower[r["collective"], r["bytes"] >> 20]
                    bench.emit(name + " over gloo's", round(value / other, 2), "x", 10, round(value / other / 10, 3), ranks=r["ranks"],
                               peers={"gloo": round(other, 3)}, foreign_cores=max(foreign, others))


def gloo(bench):
    """(collective, MB) -> (GB/s of the whole buffer, foreign cores), of two processes."""
    if not bench.TORCH:
        return {}
    out, foreign = bench.execute([bench.TORCH, os.path.join(bench.PEERS, "col.py"), "2", "1", "16", "64"], {"PYTHONPATH": bench.PEERS, "OMP_NUM_THREADS": "1"})
    names = {"allgather": "all_gather", "reduce_scatter": "reduce_scatter"}
    rows = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    for row in rows:
        if "failed" in row:
            print(f"bench: gloo's {row['op']} of {row['MB']} MB is not measured: {row['failed']}", file=sys.stderr)
    return {(names[row["op"]], row["MB"]): (row["MB"] * 2**20 / row["median_ms"] / 1e6, foreign)
            for row in rows if row["op"] in names and "failed" not in row}
