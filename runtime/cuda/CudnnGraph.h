//===- CudnnGraph.h - what cuDNN computes in one call ---------------------------------===//
//
// A graph is built while preparing: cuDNN chooses a kernel and may compile it, which takes up to seconds, for a GPU
// that is there or for one that is described. Building needs no GPU then, so that every machine can ask what cuDNN
// takes.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "kernels/cpu/Shapes.h"
#include "kernels/cuda/CudnnConv.h"

#include <cuda_runtime_api.h>

#include <memory>

namespace zc::cuda {

/// Deterministic. `enqueue` may be called by several threads.
class CudnnGraph {
public:
  virtual ~CudnnGraph() = default;

  virtual int64_t workspaceBytes() const = 0;
  /// `operands`: the kernel's (Shapes.h, Windows.h), without its workspace. Errors: cuDNN refuses to launch.
  virtual Status enqueue(void *const *operands, void *workspace, cudaStream_t stream) = 0;
};

// Graphs for this thread's GPU, or for one that `description` describes: JSON as cuDNN writes it (test/cuda/devices).
// Errors: no cuDNN, or it does not take the shape (unsupported).

enum class AttentionPass : uint8_t { forward, gradient };
/// FlashAttention (Dao 2023): 16-bit floats with fp32 sums.
Result<std::unique_ptr<CudnnGraph>> buildAttentionGraph(const cpu::AttentionShape &shape, AttentionPass pass,
                                                        const std::string &description = {});

/// Without its bias, which is no operand of the graph; products of fp32 numbers are fp32's. In workspaceBytes() at
/// most.
Result<std::unique_ptr<CudnnGraph>> buildConvGraph(const CudnnConv &conv, const std::string &description = {});

} // namespace zc::cuda
