#include "runtime/io/OutputFile.h"
#include "tools/zero-run/Commands.h"

namespace zc::run {

static const char *const kTemplate = R"(#!/bin/bash
# A Slurm job for zero-run: one task per rank. The plan must be compiled for it:
#   zero-compile model.onnx -o model.plan --world-size 8 --ranks-per-node 4 ...
#SBATCH --job-name=zero-run
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-task=8
#SBATCH --time=24:00:00
# Five minutes before the time is over all ranks save and end with code 75.
#SBATCH --signal=USR1@300
#SBATCH --requeue
#SBATCH --open-mode=append

# The folder must be one that all nodes see.
out=runs/model

# How srun tells the ranks about each other: pmix for Open MPI, pmi2 for MPICH (srun --mpi=list shows what there is).
# It does not take --cpus-per-task from above by itself (since Slurm 22.05): each rank would have one core.
srun --mpi=pmix --kill-on-bad-exit=1 --cpus-per-task="$SLURM_CPUS_PER_TASK" --cpu-bind=cores \
  zero-run model.plan --tokens train.bin --steps 100000 --out "$out" --save-every 500 --keep 2 --resume auto &
wait $!
code=$?
# 75: preempted with a checkpoint; the same script continues from it.
if [ "$code" = 75 ]; then
  scontrol requeue "$SLURM_JOB_ID"
fi
exit "$code"
)";

Status slurmCommand() { return io::writeToStdout(kTemplate); }

} // namespace zc::run
