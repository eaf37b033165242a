//===- CudnnGraph.h - what cuDNN computes in one call ---------------------------------===//
//
// A graph is built while preparing: cuDNN chooses a kernel and may compile it, which takes up to seconds, for a GPU
// that is there or for one that is described. Building needs no GPU then, so that every machine can ask what cuDNN
// takes.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "kernels/cuda/CudnnAttention.h"
#include "kernels/cuda/CudnnConv.h"

#include <cuda_runtime_api.h>

#include <memory>

namespace zc::cuda {

/// Deterministic. `enqueue` may be called by several threads.
class CudnnGraph {
public:
  virtual ~CudnnGraph() = default;

  virtual int64_t workspaceBytes() const = 0;
  /// `tensors`: those that the kernel's description names (Shapes.h, Windows.h). Errors: cuDNN refuses to launch.
  virtual Status enqueue(void *const *tensors, void *workspace, cudaStream_t stream) = 0;
};

// Graphs for this thread's GPU, or for one that `description` describes: JSON as cuDNN writes it (test/cuda/devices).
// Errors: no cuDNN, or it does not take the shape (unsupported); no memory for it (budget), a GPU that is lost.

/// FlashAttention (Dao 2023): 16-bit floats with fp32 sums. Of one of its calls.
Result<std::unique_ptr<CudnnGraph>> buildAttentionGraph(const CudnnAttention &attention,
                                                        const std::string &description = {});

/// Without its bias, which is no operand of the graph; products of fp32 numbers are fp32's. In workspaceBytes() at
/// most.
Result<std::unique_ptr<CudnnGraph>> buildConvGraph(const CudnnConv &conv, const std::string &description = {});

/// What describes this thread's GPU to cuDNN on machines that have none; or `description` once more, as cuDNN writes
/// it.
Result<std::string> describeForCudnn(const std::string &description = {});

} // namespace zc::cuda
