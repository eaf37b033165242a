// Loss accumulation, gradient norms, padding of flat buckets.
#include "kernels/cpu/NormSum.h"
#include "kernels/cpu/Support.h"

#include <algorithm>
#include <cstring>

namespace zc::cpu {
namespace {

/// loss, perhaps its weight -> f64 sums of both; the first micro-step starts them.
Prepared prepareAccumulateLoss(const KernelSpec &spec) {
  size_t n = spec.numInputs;
  ZC_RETURN_IF_ERROR(
      Check(spec)
          .counts(1, 2, 1, 1)
          .that([&] { return isComputeFloat(spec.operands[0].dtype) && spec.operands[0].numElements() == 1; },
                "a scalar loss of f32, bf16, f16 or f64")
          .that([&] { return n == 1 || spec.operands[0] == spec.operands[1]; }, "a weight of the loss's type")
          .that(
              [&] {
                return spec.operands[n].dtype == DType::f64 &&
                       spec.operands[n].numElements() == static_cast<int64_t>(n);
              },
              "one f64 sum for each")
          .done());
  return withFloat(spec.operands[0].dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    return makeKernel([n](void *const *operands, const StepContext &context) {
      double *sums = as<double>(operands[n]);
      for (size_t i = 0; i < n; ++i) {
        double value = load(*as<T>(operands[i]));
        sums[i] = context.micro == 0 ? value : sums[i] + value;
      }
    });
  });
}

Prepared prepareAccumulateGradient(const KernelSpec &spec) {
  ZC_RETURN_IF_ERROR(Check(spec)
                         .counts(1, 1)
                         .that(
                             [&] {
                               return isComputeFloat(spec.operands[0].dtype) &&
                                      spec.operands[0].dtype == spec.operands[1].dtype;
                             },
                             "f32, bf16 or f64, both alike")
                         .that([&] { return spec.operands[0].numElements() == spec.operands[1].numElements(); },
                               "as many elements as it adds")
                         .done());
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

bool isAccumulator(const TensorType &type) { return type.dtype == DType::i64 && type.numElements() == kNormLimbs; }

/// The order of a block's sum is part of the contract (it equals the fast kernel's, bit for bit): eight partial sums of
/// every eighth element, then pairs. Squares of fp32 are exact in double.
template <typename T> double blockSum(const T *x) {
  double part[8] = {};
  for (int i = 0; i < kNormBlock; ++i) {
    double value = load(x[i]);
    part[i % 8] += value * value;
  }
  return ((part[0] + part[4]) + (part[2] + part[6])) + ((part[1] + part[5]) + (part[3] + part[7]));
}

Prepared prepareNormPartial(const KernelSpec &spec) {
  ZC_RETURN_IF_ERROR(Check(spec)
                         .counts(1, 1)
                         .that(
                             [&] {
                               return isComputeFloat(spec.operands[0].dtype) &&
                                      spec.operands[0].numElements() % kNormBlock == 0;
                             },
                             "f32, bf16, f16 or f64 in blocks of 64 elements")
                         .that([&] { return isAccumulator(spec.operands[1]); }, "an accumulator i64[24]")
                         .done());
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

/// Accumulator, perhaps the sum of `terms` losses' weights -> norm, factor. With weights the gradients are numerators,
/// and `scaled` ones are multiplied by the loss scale: both are divided out, before and after clipping. The factor of
/// gradients that are not all finite is NaN, by which updates know that they shall change nothing.
Prepared prepareNormFinish(const KernelSpec &spec) {
  size_t n = spec.numInputs;
  auto isScalar = [&](size_t i) { return spec.operands[i].dtype == DType::f32 && spec.operands[i].numElements() == 1; };
  ZC_RETURN_IF_ERROR(Check(spec)
                         .counts(1, 2, 2, 2)
                         .that([&] { return isAccumulator(spec.operands[0]); }, "an accumulator i64[24]")
                         .that(
                             [&] {
                               return n == 1 || (spec.operands[1].dtype == DType::f64 &&
                                                 spec.operands[1].numElements() == 1 && spec.getInt("terms", 0) >= 1);
                             },
                             "a sum of weights f64[1] and the number of its terms")
                         .that([&] { return isScalar(n) && isScalar(n + 1); }, "norm and factor as fp32 scalars")
                         .done());
  return makeKernel([n, clips = spec.has("max_norm"), maxNorm = static_cast<float>(spec.getReal("max_norm", 0)),
                     terms = static_cast<double>(spec.getInt("terms", 1)),
                     scaled = spec.has("scaled")](void *const *operands, const StepContext &context) {
    int64_t limbs[kNormLimbs];
    std::memcpy(limbs, operands[0], sizeof(limbs));
    normalizeNorm(limbs);
    double weight = n == 2 ? *as<double>(operands[1]) / terms : 1, scale = scaled ? context.lossScale : 1;
    double whole = std::sqrt(normValue(limbs)) / scale;
    auto norm = static_cast<float>(n == 2 && weight != 0 ? whole / weight : whole);
    float factor = clips ? maxNorm / (norm + 1e-6f) : 1.0f;
    factor = factor > 1 ? 1 : factor; // NaN stays NaN, as torch's clamp
    if (weight == 0)                  // nothing counts: no gradient either
      factor = 0;
    else
      factor = static_cast<float>(factor / weight / scale);
    if (std::isnan(whole))
      factor = std::numeric_limits<float>::quiet_NaN();
    *as<float>(operands[n]) = norm;
    *as<float>(operands[n + 1]) = factor;
  });
}

Prepared prepareFillGaps(const KernelSpec &spec) {
  std::vector<int64_t> gaps = spec.getInts("gaps");
  auto inside = [&] {
    int64_t n = spec.operands[0].numElements();
    for (size_t i = 0; i + 1 < gaps.size(); i += 2)
      if (gaps[i] < 0 || gaps[i + 1] < 0 || gaps[i] > n || gaps[i + 1] > n - gaps[i])
        return false;
    return gaps.size() % 2 == 0;
  };
  ZC_RETURN_IF_ERROR(Check(spec)
                         .counts(0, 1, 1, 1)
                         .that([&] { return spec.operands.size() == 1; }, "one operand")
                         .that(inside, "gaps [offset, count, ...] inside the operand")
                         .done());
  return makeKernel([gaps, size = sizeOf(spec.operands[0].dtype)](void *const *operands, const StepContext &) {
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
