//===- Random.h - dropout and random numbers ------------------------------------===//
//
// Numbers are functions of an element's place (formula/Philox.h): the CPU's bits, whatever the grid. Limit: memory.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "kernels/cuda/Elementwise.h"
#include "kernels/formula/Philox.h"

namespace zc::cuda {

/// Four elements a block of the generator, so four a pack.
template <typename T> struct DropoutBody {
  const T *x;
  T *y;
  Bool *mask;
  int64_t n, id;
  uint64_t threshold, seed; ///< dropped where word < threshold
  Compute<T> scale;
  int rank;
  template <typename Block> ZC_HD void operator()(Block &block, int64_t index, const Frame &frame) const {
    Part part(index, n);
    Words key = randomKey(id, frame.context->step, frame.context->micro, rank, seed);
    block.forEach((part.count + 3) / 4, [&](int64_t quad) {
      int64_t first = part.first + quad * 4;
      Words words = randomBlock(key, first / 4);
      for (int64_t i = 0; i < 4 && first + i < n; ++i) {
        bool kept = words[i] >= threshold;
        mask[first + i] = store<Bool>(kept);
        y[first + i] = store<T>(kept ? load(x[first + i]) * scale : 0);
      }
    });
  }
};
template <typename T> struct DropoutGradBody {
  const T *grad;
  const Bool *mask;
  T *d;
  int64_t n;
  Compute<T> scale;
  template <typename Block> ZC_HD void operator()(Block &block, int64_t index, const Frame &) const {
    Part part(index, n);
    block.forEach(part.count, [&](int64_t i) {
      int64_t at = part.first + i;
      d[at] = store<T>(load(mask[at]) ? load(grad[at]) * scale : 0);
    });
  }
};
template <typename T> struct RandomBody {
  T *y;
  int64_t n, id;
  uint64_t seed;
  int rank;
  bool normal;
  template <typename Block> ZC_HD void operator()(Block &block, int64_t index, const Frame &frame) const {
    Part part(index, n);
    Words key = randomKey(id, frame.context->step, frame.context->micro, rank, seed);
    block.forEach(part.count, [&](int64_t i) { y[part.first + i] = randomNumber<T>(key, part.first + i, normal); });
  }
};

template <typename Target> Prepared<Target> prepareDropout(const KernelSpec &spec) {
  Result<cpu::DropoutShape> read = cpu::readDropout(spec, 2);
  ZC_RETURN_IF_ERROR(read.status());
  return withFloat(read->dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    return launching<Target>(spec, [s = *read](void *const *operands, const auto &launch) {
      overElements(launch, s.n,
                   DropoutBody<T>{static_cast<const T *>(operands[0]), static_cast<T *>(operands[1]),
                                  static_cast<Bool *>(operands[2]), s.n, s.id,
                                  static_cast<uint64_t>(s.ratio * 4294967296.0), s.seed,
                                  static_cast<Compute<T>>(1 / (1 - s.ratio)), s.rank});
    });
  });
}

template <typename Target> Prepared<Target> prepareDropoutGrad(const KernelSpec &spec) {
  Result<cpu::DropoutShape> read = cpu::readDropout(spec, 1);
  ZC_RETURN_IF_ERROR(read.status());
  return withFloat(read->dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    return launching<Target>(spec, [s = *read](void *const *operands, const auto &launch) {
      overElements(launch, s.n,
                   DropoutGradBody<T>{static_cast<const T *>(operands[0]), static_cast<const Bool *>(operands[1]),
                                      static_cast<T *>(operands[2]), s.n, static_cast<Compute<T>>(1 / (1 - s.ratio))});
    });
  });
}

template <typename Target> Prepared<Target> prepareRandom(const KernelSpec &spec) {
  ZC_RETURN_IF_ERROR(cpu::checkRandom(spec));
  return withFloat(spec.operands[0].dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    RandomBody<T> body{nullptr,   spec.operands[0].numElements(), spec.getInt("id", 0), spec.seed,
                       spec.rank, spec.getInt("normal", 0) != 0};
    return launching<Target>(spec, [body](void *const *operands, const auto &launch) {
      RandomBody<T> own = body;
      own.y = static_cast<T *>(operands[0]);
      overElements(launch, own.n, own);
    });
  });
}

template <typename Target, typename Registry> void addRandom(Registry &registry) {
  registry.add("dropout", prepareDropout<Target>);
  registry.add("dropout_grad", prepareDropoutGrad<Target>);
  registry.add("random", prepareRandom<Target>);
}

} // namespace zc::cuda
