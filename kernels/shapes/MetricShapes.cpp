#include "kernels/shapes/MetricShapes.h"

namespace zc::shapes {

Status checkAccumulateLoss(const KernelSpec &spec) {
  size_t n = spec.numInputs;
  return Check(spec)
      .counts(1, 2, 1, 1)
      .that([&] { return isComputeFloat(spec.operands[0].dtype) && spec.operands[0].numElements() == 1; },
            "a scalar loss of f32, bf16, f16 or f64")
      .that([&] { return n == 1 || spec.operands[0] == spec.operands[1]; }, "a weight of the loss's type")
      .that(
          [&] {
            return spec.operands[n].dtype == DType::f64 && spec.operands[n].numElements() == static_cast<int64_t>(n);
          },
          "one f64 sum for each")
      .done();
}

Status checkAccumulateGradient(const KernelSpec &spec) {
  return Check(spec)
      .counts(1, 1)
      .that([&] { return isComputeFloat(spec.operands[0].dtype) && spec.operands[0].dtype == spec.operands[1].dtype; },
            "f32, bf16, f16 or f64, both alike")
      .that([&] { return spec.operands[0].numElements() == spec.operands[1].numElements(); },
            "as many elements as it adds")
      .done();
}

static bool isAccumulator(const TensorType &type) {
  return type.dtype == DType::i64 && type.numElements() == kNormLimbs;
}

Status checkNormPartial(const KernelSpec &spec) {
  return Check(spec)
      .counts(1, 1)
      .that([&] { return isComputeFloat(spec.operands[0].dtype) && spec.operands[0].numElements() % kNormBlock == 0; },
            "f32, bf16, f16 or f64 in blocks of 64 elements")
      .that([&] { return isAccumulator(spec.operands[1]); }, "an accumulator i64[24]")
      .done();
}

Result<formula::ClipRule> readNormFinish(const KernelSpec &spec) {
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
  return formula::ClipRule{spec.has("max_norm"), n == 2, spec.has("scaled"),
                           static_cast<float>(spec.getReal("max_norm", 0)),
                           static_cast<double>(spec.getInt("terms", 1))};
}

Result<std::vector<int64_t>> readFillGaps(const KernelSpec &spec) {
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
  return gaps;
}

} // namespace zc::shapes
