//===- Random.h - dropout and random numbers ------------------------------------===//
//
// Numbers are functions of an element's place (formula/Philox.h): the CPU's bits, whatever the grid. Limit: memory.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "kernels/cuda/Elementwise.h"
#include "kernels/formula/Philox.h"

namespace zc::cuda {

ZC_HD Words keyOf(const shapes::RandomShape &shape, const Frame &frame) {
  return randomKey(shape.id, frame.context->step, frame.context->micro, shape.rank, shape.seed);
}

/// What dropout draws: fn(element, is it kept?) for those of part `index`, four a block of the generator.
struct DropoutDraw {
  shapes::RandomShape s;
  uint64_t threshold; ///< dropped where word < threshold
  ZC_CALLS_ANY template <typename Block, typename Fn>
  ZC_HD void forEach(Block &block, int64_t index, const Frame &frame, Fn fn) const {
    Part part(index, s.n);
    Words key = keyOf(s, frame);
    block.forEach((part.count + 3) / 4, [&](int64_t quad) {
      int64_t first = part.first + quad * 4;
      Words words = randomWords(key, s.part, first);
      for (int i = 0; i < 4; ++i) // all four, so that each word has a register
        if (first + i < s.n)
          fn(first + i, words[i] >= threshold);
    });
  }
};

template <typename T> struct DropoutBody {
  const T *x;
  T *y;
  Bool *mask;
  DropoutDraw draw;
  Compute<T> scale;
  template <typename Block> ZC_HD void operator()(Block &block, int64_t index, const Frame &frame) const {
    draw.forEach(block, index, frame, [&](int64_t i, bool kept) {
      mask[i] = store<Bool>(kept);
      y[i] = store<T>(kept ? load(x[i]) * scale : 0);
    });
  }
};
struct DropoutMaskBody {
  Bool *mask;
  DropoutDraw draw;
  template <typename Block> ZC_HD void operator()(Block &block, int64_t index, const Frame &frame) const {
    draw.forEach(block, index, frame, [&](int64_t i, bool kept) { mask[i] = store<Bool>(kept); });
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
  shapes::RandomShape s;
  bool normal;
  template <typename Block> ZC_HD void operator()(Block &block, int64_t index, const Frame &frame) const {
    Part part(index, s.n);
    Words key = keyOf(s, frame);
    block.forEach(part.count,
                  [&](int64_t i) { y[part.first + i] = randomNumber<T>(key, s.part.placeOf(part.first + i), normal); });
  }
};

template <typename Target> Prepared<Target> prepareDropout(const KernelSpec &spec) {
  Result<shapes::DropoutShape> read = shapes::readDropout(spec);
  ZC_RETURN_IF_ERROR(read.status());
  return withFloat(read->dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    return launching<Target>(spec, [s = *read](void *const *operands, const auto &launch) {
      overElements(launch, s.numbers.n,
                   DropoutBody<T>{static_cast<const T *>(operands[0]),
                                  static_cast<T *>(operands[1]),
                                  static_cast<Bool *>(operands[2]),
                                  {s.numbers, dropoutThreshold(s.ratio)},
                                  static_cast<Compute<T>>(1 / (1 - s.ratio))});
    });
  });
}

template <typename Target> Prepared<Target> prepareDropoutMask(const KernelSpec &spec) {
  Result<shapes::DropoutShape> read = shapes::readDropoutMask(spec);
  ZC_RETURN_IF_ERROR(read.status());
  return launching<Target>(spec, [s = *read](void *const *operands, const auto &launch) {
    overElements(launch, s.numbers.n,
                 DropoutMaskBody{static_cast<Bool *>(operands[0]), {s.numbers, dropoutThreshold(s.ratio)}});
  });
}

template <typename Target> Prepared<Target> prepareDropoutGrad(const KernelSpec &spec) {
  Result<shapes::DropoutShape> read = shapes::readDropoutGrad(spec);
  ZC_RETURN_IF_ERROR(read.status());
  return withFloat(read->dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    return launching<Target>(spec, [s = *read](void *const *operands, const auto &launch) {
      int64_t n = s.numbers.n;
      overElements(launch, n,
                   DropoutGradBody<T>{static_cast<const T *>(operands[0]), static_cast<const Bool *>(operands[1]),
                                      static_cast<T *>(operands[2]), n, static_cast<Compute<T>>(1 / (1 - s.ratio))});
    });
  });
}

template <typename Target> Prepared<Target> prepareRandom(const KernelSpec &spec) {
  Result<shapes::RandomShape> read = shapes::readRandom(spec);
  ZC_RETURN_IF_ERROR(read.status());
  return withFloat(spec.operands[0].dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    bool normal = spec.getInt("normal", 0) != 0;
    return launching<Target>(spec, [s = *read, normal](void *const *operands, const auto &launch) {
      overElements(launch, s.n, RandomBody<T>{static_cast<T *>(operands[0]), s, normal});
    });
  });
}

template <typename Target, typename Registry> void addRandom(Registry &registry) {
  registry.add("dropout", prepareDropout<Target>);
  registry.add("dropout_mask", prepareDropoutMask<Target>);
  registry.add("dropout_grad", prepareDropoutGrad<Target>);
  registry.add("random", prepareRandom<Target>);
}

} // namespace zc::cuda
