// Loss accumulation, gradient norms, padding of flat buckets.
#include "kernels/formula/Metrics.h"
#include "kernels/cpu/Support.h"
#include "kernels/shapes/MetricShapes.h"

#include <algorithm>
#include <cstring>

namespace zc::cpu {
namespace {

/// loss, perhaps its weight -> f64 sums of both; the first micro-step starts them.
Prepared prepareAccumulateLoss(const KernelSpec &spec) {
  ZC_RETURN_IF_ERROR(checkAccumulateLoss(spec));
  return withFloat(spec.operands[0].dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    return makeKernel([n = spec.numInputs](void *const *operands, const StepContext &context) {
      double *sums = as<double>(operands[n]);
      for (size_t i = 0; i < n; ++i) {
        double value = load(*as<T>(operands[i]));
        sums[i] = context.micro == 0 ? value : sums[i] + value;
      }
    });
  });
}

Prepared prepareAccumulateGradient(const KernelSpec &spec) {
  ZC_RETURN_IF_ERROR(checkAccumulateGradient(spec));
  return withFloat(spec.operands[0].dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    return makeKernel([n = spec.operands[0].numElements(),
                       restart = spec.getInt("restart", 0) != 0](void *const *operands, const StepContext &context) {
      const T *part = as<T>(operands[0]);
      T *sum = as<T>(operands[1]);
      if (restart && context.micro == 0)
        std::copy(part, part + n, sum);
      else
        for (int64_t i = 0; i < n; ++i)
          sum[i] = store<T>(load(sum[i]) + load(part[i]));
    });
  });
}

Prepared prepareNormPartial(const KernelSpec &spec) {
  ZC_RETURN_IF_ERROR(checkNormPartial(spec));
  return withFloat(spec.operands[0].dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    return makeKernel([n = spec.operands[0].numElements(), first = spec.getInt("first", 0) != 0](void *const *operands,
                                                                                                 const StepContext &) {
      int64_t *limbs = as<int64_t>(operands[1]);
      if (first)
        std::fill(limbs, limbs + kNormLimbs, 0);
      for (int64_t i = 0; i < n; i += kNormBlock)
        addToNorm(limbs, blockSum(as<T>(operands[0]) + i));
      normalizeNorm(limbs);
    });
  });
}

/// Accumulator, perhaps the sum of losses' weights -> norm, factor.
Prepared prepareNormFinish(const KernelSpec &spec) {
  Result<ClipRule> rule = readNormFinish(spec);
  ZC_RETURN_IF_ERROR(rule.status());
  return makeKernel([rule = *rule, n = spec.numInputs](void *const *operands, const StepContext &context) {
    int64_t limbs[kNormLimbs];
    std::memcpy(limbs, operands[0], sizeof(limbs));
    normalizeNorm(limbs);
    Clipped clipped = clip(rule, normValue(limbs), rule.weighted ? *as<double>(operands[1]) : 0, context.lossScale);
    *as<float>(operands[n]) = clipped.norm;
    *as<float>(operands[n + 1]) = clipped.factor;
  });
}

Prepared prepareFillGaps(const KernelSpec &spec) {
  Result<std::vector<int64_t>> gaps = readFillGaps(spec);
  ZC_RETURN_IF_ERROR(gaps.status());
  return makeKernel([gaps = *gaps, size = sizeOf(spec.operands[0].dtype)](void *const *operands, const StepContext &) {
    for (size_t i = 0; i < gaps.size(); i += 2)
      if (gaps[i + 1] > 0)
        std::memset(as<char>(operands[0]) + gaps[i] * size, 0, static_cast<size_t>(gaps[i + 1] * size));
  });
}

} // namespace

void addMetrics(KernelRegistry &registry) {
  registry.add("accumulate_loss", prepareAccumulateLoss);
  registry.add("accumulate_gradient", prepareAccumulateGradient);
  registry.add("norm_partial", prepareNormPartial);
  registry.add("norm_finish", prepareNormFinish);
  registry.add("fill_gaps", prepareFillGaps);
}

} // namespace zc::cpu
