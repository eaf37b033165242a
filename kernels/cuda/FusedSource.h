//===- FusedSource.h - a fused program as C++, for a compiler at run time -----------===//
//
// One kernel computes a whole chain: operands go through memory once, and what is between them stays in registers. Each
// instruction is the formula of its own kernel (formula/), rounded to its type: the bits are those of the kernels one
// by one. A source depends on the program, types, and which operands broadcast or are seen through views, not on sizes:
// layers share one.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "kernels/Prologue.h"
#include "kernels/cuda/ChannelSums.h"

#include <string>
#include <utility>
#include <vector>

namespace zc::cuda {

class FusedSource {
public:
  /// Errors: no sound program (corrupt plan).
  static Result<FusedSource> of(const KernelSpec &spec);
  /// A gradient that is computed for the sums of a norm's alone.
  static Result<FusedSource> ofSums(const Prologue &prologue);

  /// What stands behind `#include "kernels/cuda/FusedKernel.h"`, or of sums "kernels/cuda/ChannelSums.h"; the kernel is
  /// called `name`.
  std::string text(const std::string &name) const;
  /// `operands[i]` points at the step's operand i; of sums at the program's input i.
  FusedArguments arguments(void *const *operands) const;
  /// Of sums of `dtype` with `x`: channels that a thread has at once.
  int64_t channelsAtOnce(const FusedArguments &arguments, DType dtype, const void *x, int64_t channels) const;
  /// Of kElementThreads each.
  int64_t blocks() const { return blocksFor(sizes.elements); }

private:
  static Result<FusedSource> of(const KernelSpec &spec, bool isSummed);

  std::string members;   ///< of the program's struct
  bool isSummed = false; ///< the result is, instead of stored
  int64_t pack = 1;
  FusedArguments sizes = {};
  /// Where what a program's operand sees begins.
  struct Begin {
    size_t operand;
    int64_t bytes;
  };
  std::vector<Begin> begins;
  bool runsArePacks = true;                          ///< along the innermost dimension, where operands walk differently
  std::vector<std::pair<size_t, uintptr_t>> inPacks; ///< operands that are loaded or stored in packs, bytes of these
};

/// A header that a source needs, by the name it is included by.
struct FusedHeader {
  const char *name, *text;
};
/// All of them. What NVRTC has not (<cmath> and the like) is among them.
const std::vector<FusedHeader> &fusedHeaders();

} // namespace zc::cuda
