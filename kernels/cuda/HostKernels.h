//===- HostKernels.h - the families of this folder, compiled for a host's queues -------------===//
#pragma once

#include "kernels/OrderedSum.h"
#include "kernels/cuda/HostQueue.h"

namespace zc::cuda {

// Families, compiled apart.
void addHostArithmetic(HostKernelRegistry &registry);
void addHostAttention(HostKernelRegistry &registry);
void addHostFunctions(HostKernelRegistry &registry);
void addHostIndex(HostKernelRegistry &registry);
void addHostMove(HostKernelRegistry &registry);
void addHostNorms(HostKernelRegistry &registry);
void addHostReductions(HostKernelRegistry &registry);
void addHostRows(HostKernelRegistry &registry);
void addHostUpdates(HostKernelRegistry &registry);
void addHostVision(HostKernelRegistry &registry, const PartMaker<Host> &sumsOfProgram);

/// All of them: those of addGpuFamilies (GpuRegistry.h).
void addHostFamilies(HostKernelRegistry &registry, const PartMaker<Host> &sumsOfProgram);
/// `make`: of matmul, matmul_part and cast.
void addHostHeads(HostKernelRegistry &registry, const PartMaker<Host> &make);

/// launchOrderedSum and launchRepeatRow of RankSum.h.
bool hostOrderedSum(const OrderedSum &sum, const Launcher<Host> &launch);
void hostRepeatRow(void *to, const void *from, int64_t rows, int64_t bytes, const Launcher<Host> &launch);

/// The kernels as ones that run at once.
void addAtOnce(KernelRegistry &registry, const HostKernelRegistry &kernels);

// What libraries compute on a GPU, by the CPU's plain kernels.

/// A product, without the workspace that a GPU's has.
Result<std::unique_ptr<Kernel>> plainProduct(KernelSpec spec);
// On a queue that runs at once.
Prepared<Host> preparePlainProduct(const KernelSpec &spec);
Prepared<Host> preparePlainSums(const KernelSpec &spec);

} // namespace zc::cuda
