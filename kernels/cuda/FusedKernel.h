//===- FusedKernel.h - around the generated body of a fused program -----------------===//
//
// For a compiler that runs while a plan is prepared (NVRTC), and for a host's in tests: of the project it needs
// formula/ and blocks, nothing else. FusedSource.h writes what stands behind it.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "kernels/cuda/Block.h"
#include "kernels/cuda/Divider.h"
#include "kernels/formula/Activation.h"
#include "kernels/formula/Cast.h"
#include "kernels/formula/Elementwise.h"

namespace zc::cuda {

using namespace formula;

/// As FusedProgram.h and Strided.h say.
constexpr int kMostOperands = 20, kMostDims = 16;

/// What a launch is told.
struct FusedArguments {
  void *operand[kMostOperands];             ///< inputs, then results: the first element of what is seen
  int64_t elements;                         ///< of a result
  int64_t size[kMostDims];                  ///< the results' dimensions, merged where all operands walk alike
  int64_t stride[kMostOperands][kMostDims]; ///< along these, in elements
  Divider divider[kMostDims];               ///< by `size`, where `isSmall`
  bool isSmall;                             ///< fewer than 2^31 elements
  bool isPacked;                            ///< packs of elements are aligned, in all operands
};

/// Coordinates of an element of the results.
template <int Rank> class Place {
public:
  ZC_HD Place(const FusedArguments &a, int64_t element) {
    for (int i = Rank - 1; i > 0; --i) {
      const int64_t quotient =
          a.isSmall ? static_cast<int64_t>(a.divider[i].quotient(static_cast<uint32_t>(element))) : element / a.size[i];
      coordinate[i] = element - quotient * a.size[i];
      element = quotient;
    }
    coordinate[0] = element;
  }
  ZC_HD int64_t offset(const int64_t *strides) const {
    int64_t sum = 0;
    for (int i = 0; i < Rank; ++i)
      sum += coordinate[i] * strides[i];
    return sum;
  }

private:
  int64_t coordinate[Rank];
};

/// V elements one after the other, V times one, and back.
template <int V, typename T> ZC_HD Pack<T, V> loadPack(const void *x, int64_t at) {
  return *reinterpret_cast<const Pack<T, V> *>(static_cast<const T *>(x) + at);
}
template <int V, typename T> ZC_HD Pack<T, V> repeat(const void *x, int64_t at) {
  Pack<T, V> pack;
  for (int k = 0; k < V; ++k)
    pack.element[k] = static_cast<const T *>(x)[at];
  return pack;
}
template <int V, typename T> ZC_HD void storePack(void *y, int64_t at, const Pack<T, V> &pack) {
  *reinterpret_cast<Pack<T, V> *>(static_cast<T *>(y) + at) = pack;
}

/// What block `index` does: packs, then what is left of its part.
template <typename Program, typename Block> ZC_HD void runFused(Block &block, int64_t index, const FusedArguments &a) {
  constexpr int V = Program::kPack;
  const Part part(index, a.elements);
  const int64_t whole = a.isPacked ? part.count / V * V : 0;
  block.template forEach<V>(whole, [&](int64_t i) { Program::template compute<V>(a, part.first + i); });
  block.forEach(part.count - whole, [&](int64_t i) { Program::template compute<1>(a, part.first + whole + i); });
}

} // namespace zc::cuda

/// The entry of a program: of a grid, and of a host's loop over its blocks.
#ifdef __CUDACC__
#define ZC_FUSED_KERNEL(NAME, PROGRAM)                                                                                 \
  extern "C" __global__ void __launch_bounds__(zc::cuda::kElementThreads) NAME(const zc::cuda::FusedArguments a) {     \
    zc::cuda::DeviceBlock<zc::cuda::kElementThreads> block;                                                            \
    zc::cuda::runFused<PROGRAM>(block, blockIdx.x, a);                                                                 \
  }
#else
#define ZC_FUSED_KERNEL(NAME, PROGRAM)                                                                                 \
  extern "C" void NAME(const zc::cuda::FusedArguments &a) {                                                            \
    for (int64_t index = 0; index < zc::cuda::blocksFor(a.elements); ++index) {                                        \
      zc::cuda::HostBlock<zc::cuda::kElementThreads> block;                                                            \
      zc::cuda::runFused<PROGRAM>(block, index, a);                                                                    \
    }                                                                                                                  \
  }
#endif
