//===- ElementShapes.h - specs of element-wise kernels, checked -------------------===//
//
// Every version of a kernel, on whatever processor, accepts the same specs: all check them here.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "kernels/formula/Philox.h"
#include "kernels/shapes/Support.h"

namespace zc::shapes {

constexpr bool isAny(DType) { return true; }
constexpr bool isBool(DType type) { return type == DType::boolean; }
constexpr bool isBits(DType type) { return !isFloat(type); }

/// Operand and result of one type that `accepts`; `what` names these.
Status checkUnary(const KernelSpec &spec, bool (*accepts)(DType), const char *what);
Status checkIsNan(const KernelSpec &spec);
/// Two operands that broadcast to the result; of a `predicate` that is a bool.
Status checkBinary(const KernelSpec &spec, bool (*accepts)(DType), bool predicate);
/// Operands: condition, then, otherwise, result.
Status checkSelect(const KernelSpec &spec);
Status checkCast(const KernelSpec &spec);
/// `inputs` operands and a result, floats of one type and shape.
Status checkActivation(const KernelSpec &spec, size_t inputs);

/// Of `run` and `stride`, which a rank's part of a tensor has, whatever a plan says there.
NumbersOfPart numbersOfPart(const KernelSpec &spec);

/// What random numbers are drawn with.
struct RandomShape {
  int64_t n, id;
  uint64_t seed;
  int rank;
  NumbersOfPart part;
};
struct DropoutShape {
  DType dtype;
  double ratio;
  RandomShape numbers;
};
/// x, result, mask.
Result<DropoutShape> readDropout(const KernelSpec &spec);
/// The mask alone. `dtype` is bool.
Result<DropoutShape> readDropoutMask(const KernelSpec &spec);
/// Gradient, mask, result.
Result<DropoutShape> readDropoutGrad(const KernelSpec &spec);
/// The result.
Result<RandomShape> readRandom(const KernelSpec &spec);

} // namespace zc::shapes
