//===- ChannelSums.h - sums over the rows of a matrix, of each column -------------------===//
//
// Tensors whose channels are last are such matrices. A thread has up to four neighbouring channels and a part of the
// rows, in order; parts are joined by whoever asked (BatchNorm.h). What is summed may be computed by a fused program:
// then NVRTC compiles this header too, so of the project it needs what FusedKernel.h does. Limit: memory, each tensor
// once; goal 0.85 of a device copy.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "kernels/cuda/FusedKernel.h"

namespace zc::cuda {

constexpr int kColumnThreads = 256;
/// Channels that a thread has at once: 8 bytes of 16-bit numbers, 16 of others.
template <typename T> constexpr int kColumnPack = sizeof(T) == 8 ? 2 : 4;

/// A matrix [rows, channels] and where sums over `parts` of its rows go: [sums][channels][parts].
struct ColumnCut {
  int64_t rows, channels, parts;
  double *partial;
  int64_t blocks(int64_t pack) const { return (channels / pack * parts + kColumnThreads - 1) / kColumnThreads; }
};

/// What block `index` does. F: for V channels from c on `of<V>(c)` says what it loads of them at an element's place,
/// and how it adds that to kSums sums of each.
template <int V, typename Block, typename F>
ZC_HD void columnSums(Block &block, int64_t index, const ColumnCut &cut, const F &f) {
  const int64_t groups = cut.channels / V, first = index * kColumnThreads, rest = groups * cut.parts - first;
  block.forEach(rest < kColumnThreads ? rest : kColumnThreads, [&](int64_t t) {
    const int64_t c = (first + t) % groups * V, part = (first + t) / groups;
    const int64_t begin = cut.rows * part / cut.parts, end = cut.rows * (part + 1) / cut.parts;
    const auto own = f.template of<V>(c);
    double sums[F::kSums][V] = {};
    inBatches<4>(
        begin, end, [&](int64_t row) { return own.load(row * cut.channels + c); },
        [&](const auto &loaded) { own.add(loaded, sums); });
    for (int k = 0; k < F::kSums; ++k)
      for (int v = 0; v < V; ++v)
        cut.partial[(k * cut.channels + c + v) * cut.parts + part] = sums[k][v];
  });
}

/// A gradient in memory, and one that a program computes of other tensors.
template <typename T> struct StoredGrad {
  const T *grad;
  template <int V> ZC_HD Pack<T, V> at(int64_t i) const { return loadPack<V, T>(grad, i); }
};
template <typename Program> struct ComputedGrad {
  const FusedArguments &a;
  template <int V> ZC_HD auto at(int64_t i) const { return Program::template value<V>(a, i); }
};

/// Of a batch norm's gradient: g * xhat, and g. S: of statistics.
template <typename Grad, typename T, typename S> struct GradSums {
  static constexpr int kSums = 2;
  Grad grad;
  const T *x;
  const S *mean, *variance;
  double epsilon;

  template <int V> struct Of {
    const GradSums &sums;
    double mean[V], invStd[V];
    struct Loaded {
      Pack<T, V> grad, x;
    };
    ZC_HD Loaded load(int64_t at) const { return {sums.grad.template at<V>(at), loadPack<V, T>(sums.x, at)}; }
    ZC_HD void add(const Loaded &loaded, double (&to)[kSums][V]) const {
      for (int v = 0; v < V; ++v) {
        const auto g = static_cast<double>(formula::load(loaded.grad.element[v]));
        to[0][v] += g * ((static_cast<double>(formula::load(loaded.x.element[v])) - mean[v]) * invStd[v]);
        to[1][v] += g;
      }
    }
  };
  template <int V> ZC_HD Of<V> of(int64_t c) const {
    Of<V> own{*this, {}, {}};
    for (int v = 0; v < V; ++v) {
      own.mean[v] = static_cast<double>(mean[c + v]);
      own.invStd[v] = 1 / std::sqrt(static_cast<double>(variance[c + v]) + epsilon);
    }
    return own;
  }
};

/// What a launch is told beside the program's arguments; statistics of types that programs have are f32.
struct GradSumsArguments {
  const void *x;
  const float *mean, *variance;
  double epsilon;
  ColumnCut cut;
  bool isPacked; ///< V channels at once, in all operands
};

template <typename Program>
constexpr int kProgramPack = Program::kPack < kColumnPack<float> ? Program::kPack : kColumnPack<float>;

/// What block `index` does where a program computes the gradient, of its `Result`'s.
template <typename Program, typename Block>
ZC_HD void computedGradSums(Block &block, int64_t index, const FusedArguments &a, const GradSumsArguments &s) {
  using T = typename Program::Result;
  const GradSums<ComputedGrad<Program>, T, float> sums{{a}, static_cast<const T *>(s.x), s.mean, s.variance, s.epsilon};
  if (s.isPacked)
    columnSums<kProgramPack<Program>>(block, index, s.cut, sums);
  else
    columnSums<1>(block, index, s.cut, sums);
}

} // namespace zc::cuda

/// The entry of a program that computes a gradient: of a grid, and of a host's loop over its blocks.
#ifdef __CUDACC__
#define ZC_GRAD_SUMS_KERNEL(NAME, PROGRAM)                                                                             \
  extern "C" __global__ void __launch_bounds__(zc::cuda::kColumnThreads)                                               \
      NAME(const zc::cuda::FusedArguments a, const zc::cuda::GradSumsArguments s) {                                    \
    zc::cuda::DeviceBlock<zc::cuda::kColumnThreads> block;                                                             \
    zc::cuda::computedGradSums<PROGRAM>(block, blockIdx.x, a, s);                                                      \
  }
#else
#define ZC_GRAD_SUMS_KERNEL(NAME, PROGRAM)                                                                             \
  extern "C" void NAME(const zc::cuda::FusedArguments &a, const zc::cuda::GradSumsArguments &s) {                      \
    const int64_t pack = s.isPacked ? zc::cuda::kProgramPack<PROGRAM> : 1;                                             \
    for (int64_t index = 0; index < s.cut.blocks(pack); ++index) {                                                     \
      zc::cuda::HostBlock<zc::cuda::kColumnThreads> block;                                                             \
      zc::cuda::computedGradSums<PROGRAM>(block, index, a, s);                                                         \
    }                                                                                                                  \
  }
#endif
