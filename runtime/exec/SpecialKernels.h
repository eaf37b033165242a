//===- SpecialKernels.h - steps that are not in the registry ------------------===//
#pragma once

#include "kernels/Kernel.h"
#include "runtime/comm/Communicator.h"
#include "runtime/exec/Executor.h"

namespace zc {

/// Does makeSpecialKernel make it?
bool isSpecialKernel(std::string_view name);

/// all_gather, reduce_scatter, all_reduce, all_to_all along `axes` of the communicator's mesh (attributes `scale`,
/// `accumulate`, `traffic`; accumulate adds from the second micro-step on), load_input (attribute `input`) and
/// store_output (attribute `output`; `outputs` may be null). Null for other names. Operands are what verifyPlan proved.
/// Errors: a sum whose workspace is too small (corrupt).
Result<std::unique_ptr<Kernel>> makeSpecialKernel(const KernelSpec &spec, AxisSet axes, Communicator &communicator,
                                                  InputLoader &loader, OutputSink *outputs);

} // namespace zc
