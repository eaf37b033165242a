"""What a run has resident beside what its arenas were planned to have (C5). Takes bench.py's module."""
import glob
import json
import os
import sys

MEMORY = {"resnet-50": ("make_resnet.py", "--depth 50 --image 224 --batch 8 --rows 32", "--stages 1 --image 32 --batch 2"),
          "bert-base": ("make_gpt.py", "--preset bert --bidirectional --rows 32", "--layers 1 --hidden 64 --heads 1 --seq 16 --vocab 100"),
          "gpt2-124m": ("make_gpt.py", "--preset g124m --rows 16", "--layers 1 --hidden 64 --heads 1 --seq 16 --vocab 100")}


def memory(bench):
    """Bytes resident beyond those of a one-layer model of the kind, over the planned peaks of the ranks' arenas in memory."""
    def resident(name, maker, flags, ranks, precision, mpi):
        onnx, run = os.path.join(bench.folder, name + ".onnx"), os.path.join(bench.folder, f"{name}-{ranks}-{precision}-{mpi}")
        if not os.path.exists(onnx):
            bench.execute([sys.executable, os.path.join(bench.ROOT, "test/support", maker), onnx, "--seed", "0", *flags.split(), "--inputs",
                           onnx[:-5] + ".safetensors"])
        os.makedirs(run)
        options = ["--world-size", ranks, "--precision", precision]
        bench.tool("zero-compile", onnx, "-o", os.path.join(run, "plan"), *options)
        tiers = json.loads(bench.tool("zero-compile", onnx, *options, "--dry-run", "--json")[0])["tiers"]
        bench.execute([*([*bench.MPIRUN, str(ranks)] if mpi else []), sys.executable, os.path.join(bench.ROOT, "test/support/resident.py"), run,
                       os.path.join(bench.BIN, "zero-run"), os.path.join(run, "plan"), "--threads", "1", "--steps", "2", "--quiet", "--data",
                       onnx[:-5] + ".safetensors", "--out", os.path.join(run, "out"), *([] if mpi else ["-n", str(ranks)])],
                      {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"})
        peaks = [int(open(file).read()) for file in glob.glob(os.path.join(run, "[0-9]*"))]
        return max(peaks), sum(t["peak_bytes"] for kind, t in tiers.items() if kind != "nvme") * (1 if mpi else ranks)

    for name, (maker, flags, less) in MEMORY.items():
        for ranks, precision, mpi in ((1, "fp32", False), (2, "fp32", False), (2, "fp32", True), (1, "bf16", False)):
            have, planned = resident(name, maker, flags, ranks, precision, mpi)
            small, _ = resident(name + "-small", maker, f"{flags} {less}", ranks, precision, mpi)
            bench.emit(f"C5 {name} {precision} x{ranks}" + (" mpi" if mpi else ""), have - small, "bytes", round(planned * 1.01) + (32 << 20),
                       round((have - small) / planned, 4), planned=planned, small=small)
