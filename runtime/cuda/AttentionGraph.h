//===- AttentionGraph.h - cuDNN's attention of one shape -----------------------------===//
//
// A graph is built while preparing: cuDNN chooses a kernel and compiles it, which takes seconds, for a GPU that is
// there or for one that is described. Building needs no GPU then, so that every machine can ask what cuDNN takes.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "kernels/cpu/Shapes.h"

#include <cuda_runtime_api.h>

#include <memory>

namespace zc::cuda {

enum class AttentionPass { forward, gradient };

/// FlashAttention (Dao 2023) by cuDNN: deterministic, 16-bit floats with fp32 sums. `enqueue` may be called by several
/// threads.
class AttentionGraph {
public:
  /// Of `shape`, for this thread's GPU, or for one that `description` describes: JSON as cuDNN writes it
  /// (test/cuda/devices). Errors: no cuDNN, or cuDNN does not take the shape (unsupported).
  static Result<std::unique_ptr<AttentionGraph>> build(const cpu::AttentionShape &shape, AttentionPass pass,
                                                       const std::string &description = {});
  virtual ~AttentionGraph() = default;

  virtual int64_t workspaceBytes() const = 0;
  /// `operands`: the kernel's (Shapes.h), without its workspace. Errors: cuDNN refuses to launch.
  virtual Status enqueue(void *const *operands, void *workspace, cudaStream_t stream) = 0;
};

} // namespace zc::cuda
