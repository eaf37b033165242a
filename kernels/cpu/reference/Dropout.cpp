// dropout and its gradient, and random numbers. The mask is a pure function of (seed, id, step, micro-step, rank,
// element), so that a recomputed forward has the same one: those numbers make a Philox key, and element e is word e % 4
// of block e / 4.
#include "kernels/cpu/ElementShapes.h"
#include "kernels/cpu/Team.h"
#include "kernels/formula/Philox.h"

namespace zc::cpu {
namespace {

Words keyOf(int64_t id, const StepContext &context, int rank, uint64_t seed) {
  return randomKey(id, context.step, context.micro, rank, seed);
}

Prepared prepareDropout(const KernelSpec &spec) {
  Result<DropoutShape> read = readDropout(spec, 2);
  ZC_RETURN_IF_ERROR(read.status());
  return withFloat(read->dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    return makeKernel([s = *read, threads = spec.threads](void *const *operands, const StepContext &context) {
      Words key = keyOf(s.id, context, s.rank, s.seed);
      // Dropped when word / 2^32 < ratio.
      auto threshold = static_cast<uint64_t>(s.ratio * 4294967296.0);
      auto scale = static_cast<Compute<T>>(1 / (1 - s.ratio));
      const T *x = as<T>(operands[0]);
      T *y = as<T>(operands[1]);
      Bool *mask = as<Bool>(operands[2]);
#pragma omp parallel for num_threads(TeamLimit::of(threads)) if (TeamLimit::of(threads) > 1)
      for (int64_t block = 0; block < (s.n + 3) / 4; ++block) {
        Words words = randomBlock(key, block);
        for (int64_t i = 0; i < 4 && block * 4 + i < s.n; ++i) {
          int64_t e = block * 4 + i;
          bool kept = words[i] >= threshold;
          mask[e] = store<Bool>(kept);
          y[e] = store<T>(kept ? load(x[e]) * scale : 0);
        }
      }
    });
  });
}

Prepared prepareDropoutGrad(const KernelSpec &spec) {
  Result<DropoutShape> read = readDropout(spec, 1);
  ZC_RETURN_IF_ERROR(read.status());
  return withFloat(read->dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    return makeKernel([s = *read, threads = spec.threads](void *const *operands, const StepContext &) {
      auto scale = static_cast<Compute<T>>(1 / (1 - s.ratio));
#pragma omp parallel for num_threads(TeamLimit::of(threads)) if (TeamLimit::of(threads) > 1)
      for (int64_t i = 0; i < s.n; ++i)
        as<T>(operands[2])[i] = store<T>(load(as<Bool>(operands[1])[i]) ? load(as<T>(operands[0])[i]) * scale : 0);
    });
  });
}

Prepared prepareRandom(const KernelSpec &spec) {
  ZC_RETURN_IF_ERROR(checkRandom(spec));
  return withFloat(spec.operands[0].dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    return makeKernel([n = spec.operands[0].numElements(), id = spec.getInt("id", 0), rank = spec.rank,
                       seed = spec.seed,
                       normal = spec.getInt("normal", 0) != 0](void *const *operands, const StepContext &context) {
      Words key = keyOf(id, context, rank, seed);
      for (int64_t e = 0; e < n; ++e)
        as<T>(operands[0])[e] = randomNumber<T>(key, e, normal);
    });
  });
}

} // namespace

void addDropout(KernelRegistry &registry) {
  registry.add("dropout", prepareDropout);
  registry.add("dropout_grad", prepareDropoutGrad);
  registry.add("random", prepareRandom);
}

} // namespace zc::cpu
