// dropout and its gradient, and random numbers. The mask is a pure function of (seed, id, step, micro-step, rank,
// element), so that a recomputed forward has the same one: those numbers make a Philox key, and element e is word e % 4
// of block e / 4. Of a part of a tensor e counts in the whole.
#include "kernels/cpu/Support.h"
#include "kernels/cpu/Team.h"
#include "kernels/formula/Philox.h"
#include "kernels/shapes/ElementShapes.h"

namespace zc::cpu {
namespace {

Words keyOf(const RandomShape &shape, const StepContext &context) {
  return randomKey(shape.id, context.step, context.micro, shape.rank, shape.seed);
}

Prepared prepareDropout(const KernelSpec &spec) {
  Result<DropoutShape> read = readDropout(spec);
  ZC_RETURN_IF_ERROR(read.status());
  return withFloat(read->dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    return makeKernel([s = *read, threads = spec.threads](void *const *operands, const StepContext &context) {
      const RandomShape &numbers = s.numbers;
      Words key = keyOf(numbers, context);
      const uint64_t threshold = dropoutThreshold(s.ratio);
      auto scale = static_cast<Compute<T>>(1 / (1 - s.ratio));
      const T *x = as<T>(operands[0]);
      T *y = as<T>(operands[1]);
      Bool *mask = as<Bool>(operands[2]);
#pragma omp parallel for num_threads(TeamLimit::of(threads)) if (TeamLimit::of(threads) > 1)
      for (int64_t block = 0; block < (numbers.n + 3) / 4; ++block) {
        Words words = randomWords(key, numbers.part, block * 4);
        for (int64_t i = 0; i < 4 && block * 4 + i < numbers.n; ++i) {
          int64_t e = block * 4 + i;
          bool kept = words[i] >= threshold;
          mask[e] = store<Bool>(kept);
          y[e] = store<T>(kept ? load(x[e]) * scale : 0);
        }
      }
    });
  });
}

Prepared prepareDropoutMask(const KernelSpec &spec) {
  Result<DropoutShape> read = readDropoutMask(spec);
  ZC_RETURN_IF_ERROR(read.status());
  return makeKernel([s = *read](void *const *operands, const StepContext &context) {
    Words key = keyOf(s.numbers, context);
    const uint64_t threshold = dropoutThreshold(s.ratio);
    Bool *mask = as<Bool>(operands[0]);
    for (int64_t first = 0; first < s.numbers.n; first += 4) {
      Words words = randomWords(key, s.numbers.part, first);
      for (int64_t i = 0; i < 4 && first + i < s.numbers.n; ++i)
        mask[first + i] = store<Bool>(words[i] >= threshold);
    }
  });
}

Prepared prepareDropoutGrad(const KernelSpec &spec) {
  Result<DropoutShape> read = readDropoutGrad(spec);
  ZC_RETURN_IF_ERROR(read.status());
  return withFloat(read->dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    return makeKernel([s = *read, threads = spec.threads](void *const *operands, const StepContext &) {
      auto scale = static_cast<Compute<T>>(1 / (1 - s.ratio));
#pragma omp parallel for num_threads(TeamLimit::of(threads)) if (TeamLimit::of(threads) > 1)
      for (int64_t i = 0; i < s.numbers.n; ++i)
        as<T>(operands[2])[i] = store<T>(load(as<Bool>(operands[1])[i]) ? load(as<T>(operands[0])[i]) * scale : 0);
    });
  });
}

Prepared prepareRandom(const KernelSpec &spec) {
  Result<RandomShape> read = readRandom(spec);
  ZC_RETURN_IF_ERROR(read.status());
  return withFloat(spec.operands[0].dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    return makeKernel(
        [s = *read, normal = spec.getInt("normal", 0) != 0](void *const *operands, const StepContext &context) {
          Words key = keyOf(s, context);
          for (int64_t e = 0; e < s.n; ++e)
            as<T>(operands[0])[e] = randomNumber<T>(key, s.part.placeOf(e), normal);
        });
  });
}

} // namespace

void addDropout(KernelRegistry &registry) {
  registry.add("dropout", prepareDropout);
  registry.add("dropout_mask", prepareDropoutMask);
  registry.add("dropout_grad", prepareDropoutGrad, elementwise());
  registry.add("random", prepareRandom);
}

} // namespace zc::cpu
