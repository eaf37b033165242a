#include "kernels/shapes/ElementShapes.h"

namespace zc::shapes {

Status checkUnary(const KernelSpec &spec, bool (*accepts)(DType), const char *what) {
  return Check(spec)
      .counts(1, 1)
      .that([&] { return spec.operands[0] == spec.operands[1]; }, "a result of the operand's type")
      .that([&] { return accepts(spec.operands[0].dtype); }, what)
      .done();
}

Status checkIsNan(const KernelSpec &spec) {
  return Check(spec)
      .counts(1, 1)
      .that([&] { return spec.operands[0].dims == spec.operands[1].dims; }, "equal shapes")
      .that([&] { return isComputeFloat(spec.operands[0].dtype); }, "f32, bf16, f16 or f64")
      .that([&] { return isBool(spec.operands[1].dtype); }, "a bool result")
      .done();
}

Status checkBinary(const KernelSpec &spec, bool (*accepts)(DType), bool predicate) {
  const auto &types = spec.operands;
  return Check(spec)
      .counts(2, 1)
      .that([&] { return types[0].dtype == types[1].dtype && accepts(types[0].dtype); },
            "operands of one type it computes")
      .that([&] { return types[2].dtype == (predicate ? DType::boolean : types[0].dtype); }, "another result type")
      .that([&] { return broadcastsTo(types[0].dims, types[2].dims) && broadcastsTo(types[1].dims, types[2].dims); },
            "operands that broadcast to the result")
      .done();
}

Status checkSelect(const KernelSpec &spec) {
  const auto &types = spec.operands;
  return Check(spec)
      .counts(3, 1)
      .that([&] { return isBool(types[0].dtype); }, "a bool condition")
      .that([&] { return types[1].dtype == types[3].dtype && types[2].dtype == types[3].dtype; }, "one element type")
      .that(
          [&] {
            return broadcastsTo(types[0].dims, types[3].dims) && broadcastsTo(types[1].dims, types[3].dims) &&
                   broadcastsTo(types[2].dims, types[3].dims);
          },
          "operands that broadcast to the result")
      .done();
}

Status checkCast(const KernelSpec &spec) {
  return Check(spec)
      .counts(1, 1)
      .that([&] { return spec.operands[0].dims == spec.operands[1].dims; }, "a result of the operand's shape")
      .done();
}

Status checkActivation(const KernelSpec &spec, size_t inputs) {
  return Check(spec)
      .counts(inputs, 1)
      .that(
          [&] {
            for (const TensorType &type : spec.operands)
              if (!(type == spec.operands[0]) || !isComputeFloat(type.dtype))
                return false;
            return true;
          },
          "f32, bf16, f16 or f64 of one type")
      .done();
}

NumbersOfPart numbersOfPart(const KernelSpec &spec) {
  const int64_t run = spec.getInt("run", 0);
  if (run <= 0)
    return {};
  const uint64_t first = static_cast<uint64_t>(spec.modelRank) * static_cast<uint64_t>(run);
  return {run, spec.getInt("stride", 0), static_cast<int64_t>(first)};
}

static RandomShape randomShape(const KernelSpec &spec, const TensorType &result) {
  return {result.numElements(), spec.getInt("id", 0), spec.seed, spec.rank, numbersOfPart(spec)};
}

/// `check` has counted; of operand 0 and `result`, a mask of their shape goes with both.
static Result<DropoutShape> readDropped(const KernelSpec &spec, Check &check, size_t mask, size_t result) {
  double ratio = spec.getReal("ratio", 0.5);
  auto masked = [&] {
    const TensorType &x = spec.operands[0];
    return isComputeFloat(x.dtype) && spec.operands[result] == x &&
           spec.operands[mask] == TensorType{DType::boolean, x.dims};
  };
  ZC_RETURN_IF_ERROR(check.that(masked, "f32, bf16, f16 or f64 and a bool mask of its shape")
                         .that([&] { return ratio >= 0 && ratio <= 1; }, "a ratio in [0, 1]")
                         .done());
  return DropoutShape{spec.operands[0].dtype, ratio, randomShape(spec, spec.operands[0])};
}

Result<DropoutShape> readDropout(const KernelSpec &spec) {
  Check check(spec);
  check.counts(1, 2);
  return readDropped(spec, check, /*mask=*/2, /*result=*/1);
}

Result<DropoutShape> readDropoutMask(const KernelSpec &spec) {
  const double ratio = spec.getReal("ratio", 0.5);
  ZC_RETURN_IF_ERROR(Check(spec)
                         .counts(0, 1)
                         .that([&] { return spec.operands[0].dtype == DType::boolean; }, "a bool mask")
                         .that([&] { return ratio >= 0 && ratio <= 1; }, "a ratio in [0, 1]")
                         .done());
  return DropoutShape{DType::boolean, ratio, randomShape(spec, spec.operands[0])};
}

Result<DropoutShape> readDropoutGrad(const KernelSpec &spec) {
  Check check(spec);
  check.counts(2, 1);
  return readDropped(spec, check, /*mask=*/1, /*result=*/2);
}

Result<RandomShape> readRandom(const KernelSpec &spec) {
  ZC_RETURN_IF_ERROR(
      Check(spec).counts(0, 1).that([&] { return isFloat(spec.operands[0].dtype); }, "a float result").done());
  return randomShape(spec, spec.operands[0]);
}

} // namespace zc::shapes
