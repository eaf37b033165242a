// Elementwise functions of one or two tensors of one shape, in fp32 vectors.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/fast/Activation.cpp"
#include <hwy/foreach_target.h>

#include "kernels/cpu/fast/Functions-inl.h"

HWY_BEFORE_NAMESPACE();
namespace zc::cpu {
namespace HWY_NAMESPACE {

template <typename Op, typename T> void unaryRange(int64_t begin, int64_t end, const T *x, T *y) {
  forVectors(begin, end,
             [&](int64_t i, size_t count) HWY_ATTR { storePart(Op::apply(loadPart(x + i, count)), y + i, count); });
}
template <typename Op, typename T> void binaryRange(int64_t begin, int64_t end, const T *g, const T *x, T *y) {
  forVectors(begin, end, [&](int64_t i, size_t count) HWY_ATTR {
    storePart(Op::apply(loadPart(g + i, count), loadPart(x + i, count)), y + i, count);
  });
}

using UnaryFn = void (*)(DType, int64_t, int64_t, const void *, void *);
template <typename Op> void unary(DType type, int64_t begin, int64_t end, const void *x, void *y) {
  withFast(type, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    unaryRange<Op>(begin, end, static_cast<const T *>(x), static_cast<T *>(y));
  });
}
using BinaryFn = void (*)(DType, int64_t, int64_t, const void *, const void *, void *);
template <typename Op> void binary(DType type, int64_t begin, int64_t end, const void *g, const void *x, void *y) {
  withFast(type, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    binaryRange<Op>(begin, end, static_cast<const T *>(g), static_cast<const T *>(x), static_cast<T *>(y));
  });
}

/// In the order of enum UnaryOp below.
void unaryTable(int op, DType type, int64_t begin, int64_t end, const void *x, void *y) {
  static constexpr UnaryFn table[] = {unary<GeluTanh>, unary<GeluErf>, unary<Silu>, unary<Exp>,  unary<Tanh>,
                                      unary<Sigmoid>,  unary<Relu>,    unary<Neg>,  unary<Sqrt>, unary<Reciprocal>};
  table[op](type, begin, end, x, y);
}
void slopeTable(int op, DType type, int64_t begin, int64_t end, const void *g, const void *x, void *y) {
  static constexpr BinaryFn table[] = {binary<GeluTanhGrad>, binary<GeluErfGrad>, binary<SiluGrad>};
  table[op](type, begin, end, g, x, y);
}

} // namespace HWY_NAMESPACE
} // namespace zc::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "kernels/cpu/fast/Fast.h"

namespace zc::cpu {
HWY_EXPORT(unaryTable);
HWY_EXPORT(slopeTable);

namespace {

enum UnaryOp { geluTanh, geluErf, silu, exponential, hyperbolic, sigmoid, relu, negation, root, reciprocal };
enum SlopeOp { geluTanhGrad, geluErfGrad, siluGrad };

Status check(const KernelSpec &spec, size_t inputs) {
  auto alike = [&] {
    return std::all_of(spec.operands.begin(), spec.operands.end(),
                       [&](const TensorType &type) { return type == spec.operands[0]; });
  };
  return Check(spec).counts(inputs, 1).that(alike, "operands of one type").done();
}

/// run(type, begin, end, operands) over elements, cut at multiples of 64: threads do not share cache lines.
template <typename Run> Prepared prepareElements(const KernelSpec &spec, size_t inputs, Run run) {
  ZC_RETURN_IF_ERROR(check(spec, inputs));
  const TensorType &type = spec.operands[0];
  if (!isFast(type.dtype))
    return decline();
  return makeKernel(
      [run, n = type.numElements(), dtype = type.dtype,
       threads = threadsFor(spec.threads, type.numElements())](void *const *operands, const StepContext &) {
        parallelRanges(threads, n, kPieceElements,
                       [&](int64_t begin, int64_t end, int) { run(dtype, begin, end, operands); });
      });
}

Prepared prepareUnary(const KernelSpec &spec, int op) {
  return prepareElements(spec, 1, [op](DType type, int64_t begin, int64_t end, void *const *operands) {
    HWY_DYNAMIC_DISPATCH(unaryTable)(op, type, begin, end, operands[0], operands[1]);
  });
}
Prepared prepareSlope(const KernelSpec &spec, int op) {
  return prepareElements(spec, 2, [op](DType type, int64_t begin, int64_t end, void *const *operands) {
    HWY_DYNAMIC_DISPATCH(slopeTable)(op, type, begin, end, operands[0], operands[1], operands[2]);
  });
}

} // namespace

void addFastActivation(KernelRegistry &registry) {
  auto tanh = [](const KernelSpec &spec) { return spec.getInt("tanh", 0) != 0; };
  registry.add("gelu", [=](const KernelSpec &spec) { return prepareUnary(spec, tanh(spec) ? geluTanh : geluErf); });
  registry.add("gelu_grad",
               [=](const KernelSpec &spec) { return prepareSlope(spec, tanh(spec) ? geluTanhGrad : geluErfGrad); });
  registry.add("silu_grad", [](const KernelSpec &spec) { return prepareSlope(spec, siluGrad); });
  const std::pair<const char *, UnaryOp> table[] = {
      {"silu", silu}, {"exp", exponential}, {"tanh", hyperbolic}, {"sigmoid", sigmoid},
      {"relu", relu}, {"neg", negation},    {"sqrt", root},       {"reciprocal", reciprocal}};
  for (auto [name, op] : table)
    registry.add(name, [op = op](const KernelSpec &spec) { return prepareUnary(spec, op); });
}

} // namespace zc::cpu
#endif
