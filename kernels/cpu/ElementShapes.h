//===- ElementShapes.h - specs of element-wise kernels, checked -------------------===//
//
// Every version of a kernel, on whatever processor, accepts the same specs: all check them here.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "kernels/cpu/Support.h"

namespace zc::cpu {

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

struct DropoutShape {
  DType dtype;
  int64_t n, id;
  double ratio;
  uint64_t seed;
  int rank;
};
/// dropout: x, result, mask (operand 2). dropout_grad: gradient, mask (operand 1), result.
Result<DropoutShape> readDropout(const KernelSpec &spec, size_t mask);
Status checkRandom(const KernelSpec &spec);

} // namespace zc::cpu
