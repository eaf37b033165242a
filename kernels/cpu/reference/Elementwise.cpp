// One output element per index: unary, binary with numpy broadcasting, select. Any operand of the result's type may be
// overwritten by the result: each element is read before it is written.
#include "kernels/formula/Elementwise.h"
#include "kernels/cpu/Support.h"
#include "kernels/shapes/ElementShapes.h"

namespace zc::cpu {
namespace {

// A function and a type are one element's work here, called through a pointer: a loop for each of them would take the
// compiler longer than all other plain kernels.

//===-- unary --------------------------------------------------------------===//

using UnaryElement = void (*)(const void *x, void *y);

Prepared prepareUnary(const KernelSpec &spec, UnaryElement apply) {
  const int64_t n = spec.operands[0].numElements(), from = sizeOf(spec.operands[0].dtype),
                to = sizeOf(spec.operands[1].dtype);
  return makeKernel([=](void *const *operands, const StepContext &) {
    const char *x = as<char>(operands[0]);
    char *y = as<char>(operands[1]);
    for (int64_t i = 0; i < n; ++i)
      apply(x + i * from, y + i * to);
  });
}

template <typename Op, typename T> Prepared prepareUnary(const KernelSpec &spec) {
  return prepareUnary(spec, [](const void *x, void *y) {
    *static_cast<T *>(y) = store<T>(Op::apply(load(*static_cast<const T *>(x))));
  });
}

template <typename Op> Prepared floatUnary(const KernelSpec &spec) {
  ZC_RETURN_IF_ERROR(checkUnary(spec, isComputeFloat, "f32, bf16, f16 or f64"));
  return withFloat(spec.operands[0].dtype, [&](auto tag) { return prepareUnary<Op, TypeOf<decltype(tag)>>(spec); });
}

template <typename Op> Prepared anyUnary(const KernelSpec &spec) {
  ZC_RETURN_IF_ERROR(checkUnary(spec, isAny, "any type"));
  return withElement(spec.operands[0].dtype, [&](auto tag) { return prepareUnary<Op, TypeOf<decltype(tag)>>(spec); });
}

Prepared prepareNot(const KernelSpec &spec) {
  ZC_RETURN_IF_ERROR(checkUnary(spec, isBits, "bool or integers"));
  if (isBool(spec.operands[0].dtype))
    return prepareUnary<BoolNot, Bool>(spec);
  return withInteger(spec.operands[0].dtype, [&](auto tag) { return prepareUnary<Not, TypeOf<decltype(tag)>>(spec); });
}

Prepared prepareIsNan(const KernelSpec &spec) {
  ZC_RETURN_IF_ERROR(checkIsNan(spec));
  return withFloat(spec.operands[0].dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    return prepareUnary(spec, [](const void *x, void *y) {
      *static_cast<Bool *>(y) = store<Bool>(std::isnan(load(*static_cast<const T *>(x))));
    });
  });
}

//===-- binary -------------------------------------------------------------===//

using BinaryElement = void (*)(const void *a, const void *b, void *y);

Prepared prepareBinary(const KernelSpec &spec, BinaryElement apply) {
  const Dims &result = spec.operands[2].dims;
  Walk<3> walk(result, {rowMajorStrides(result), broadcastStrides(spec.operands[0].dims, result),
                        broadcastStrides(spec.operands[1].dims, result)});
  const int64_t from = sizeOf(spec.operands[0].dtype), to = sizeOf(spec.operands[2].dtype);
  return makeKernel([walk, from, to, apply](void *const *operands, const StepContext &) {
    const char *a = as<char>(operands[0]), *b = as<char>(operands[1]);
    char *y = as<char>(operands[2]);
    walk.forEach([&](const Walk<3>::Offsets &at) { apply(a + at[1] * from, b + at[2] * from, y + at[0] * to); });
  });
}

template <typename Op, typename T, typename R> Prepared prepareBinary(const KernelSpec &spec) {
  return prepareBinary(spec, [](const void *a, const void *b, void *y) {
    *static_cast<R *>(y) = store<R>(Op::apply(load(*static_cast<const T *>(a)), load(*static_cast<const T *>(b))));
  });
}

template <typename Op> Prepared arithmetic(const KernelSpec &spec) {
  ZC_RETURN_IF_ERROR(checkBinary(spec, isAny, false));
  return withElement(spec.operands[0].dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    return prepareBinary<Op, T, T>(spec);
  });
}
template <typename Op> Prepared compare(const KernelSpec &spec) {
  ZC_RETURN_IF_ERROR(checkBinary(spec, isAny, true));
  return withElement(spec.operands[0].dtype,
                     [&](auto tag) { return prepareBinary<Op, TypeOf<decltype(tag)>, Bool>(spec); });
}
template <typename Op> Prepared logic(const KernelSpec &spec) {
  ZC_RETURN_IF_ERROR(checkBinary(spec, isBits, false));
  return withInteger(spec.operands[0].dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    return prepareBinary<Op, T, T>(spec);
  });
}

//===-- select -------------------------------------------------------------===//

Prepared prepareSelect(const KernelSpec &spec) {
  ZC_RETURN_IF_ERROR(checkSelect(spec));
  const auto &types = spec.operands;
  const Dims &result = types[3].dims;
  Walk<4> walk(result, {rowMajorStrides(result), broadcastStrides(types[0].dims, result),
                        broadcastStrides(types[1].dims, result), broadcastStrides(types[2].dims, result)});
  return withBytes(types[3].dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    return makeKernel([walk](void *const *operands, const StepContext &) {
      walk.forEach([&](const Walk<4>::Offsets &at) {
        as<T>(operands[3])[at[0]] =
            as<uint8_t>(operands[0])[at[1]] ? as<T>(operands[1])[at[2]] : as<T>(operands[2])[at[3]];
      });
    });
  });
}

} // namespace

void addElementwise(KernelRegistry &registry) {
  forFloatFunctions(
      [&](const char *name, auto function) { registry.add(name, floatUnary<decltype(function)>, elementwise()); });
  forAnyFunctions(
      [&](const char *name, auto function) { registry.add(name, anyUnary<decltype(function)>, elementwise()); });
  registry.add("not", prepareNot, elementwise());
  registry.add("is_nan", prepareIsNan, elementwise());
  forArithmetic(
      [&](const char *name, auto function) { registry.add(name, arithmetic<decltype(function)>, elementwise()); });
  forComparisons(
      [&](const char *name, auto function) { registry.add(name, compare<decltype(function)>, elementwise()); });
  forBitFunctions(
      [&](const char *name, auto function) { registry.add(name, logic<decltype(function)>, elementwise()); });
  registry.add("select", prepareSelect, elementwise());
}

} // namespace zc::cpu
