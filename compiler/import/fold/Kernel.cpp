//===- Kernel.cpp - constants on reference kernels --------------------------===//
#include "compiler/import/fold/Fold.h"
#include "dialects/graph/KernelSpec.h"
#include "kernels/cpu/Registries.h"

using namespace zc;
using namespace zc::importer;

/// At least one byte, so that an empty tensor has an address.
static std::vector<char> allocate(const HostTensor &tensor) {
  return std::vector<char>(std::max<int64_t>(1, tensor.numElements() * sizeOf(tensor.dtype)));
}

static void *alignedTo64(void *pointer) {
  return reinterpret_cast<void *>((reinterpret_cast<uintptr_t>(pointer) + 63) / 64 * 64);
}

static std::vector<char> bytesOf(const HostTensor &tensor) {
  std::vector<char> bytes = allocate(tensor);
  for (int64_t i = 0, n = tensor.numElements(); i < n; ++i)
    tensor.encode(i, bytes.data() + i * sizeOf(tensor.dtype));
  return bytes;
}

Status zc::importer::evaluateByKernel(graph::KernelOp op, Operands operands, llvm::MutableArrayRef<HostTensor> results,
                                      bool &done) {
  std::vector<std::vector<char>> buffers;
  for (const HostTensor *operand : operands)
    buffers.push_back(bytesOf(*operand));
  for (const HostTensor &result : results)
    buffers.push_back(allocate(result));
  if (int view = op.getViewOperand(); view >= 0) {
    buffers.back() = buffers[view];
  } else {
    auto spec = graph::toKernelSpec(op);
    if (mlir::failed(spec))
      return Status::success();
    spec->workspace = op.getWorkspaceBytes(Target::cpu);
    buffers.emplace_back(spec->workspace + 64);
    auto kernel = cpu::plainKernels().prepare(*spec);
    if (!kernel.ok())
      return Status::success();
    std::vector<void *> pointers;
    for (std::vector<char> &buffer : buffers)
      pointers.push_back(buffer.data());
    pointers.back() = alignedTo64(pointers.back());
    ZC_RETURN_IF_ERROR((*kernel)->run(pointers.data(), StepContext()));
  }
  for (size_t k = 0; k < results.size(); ++k) {
    results[k].allocate();
    for (int64_t i = 0, n = results[k].numElements(); i < n; ++i)
      results[k].decode(i, buffers[operands.size() + k].data() + i * sizeOf(results[k].dtype));
  }
  done = true;
  return Status::success();
}
