// Kernels that move elements without looking at them: one template per element size.
#include "kernels/cpu/Support.h"
#include "kernels/shapes/MoveShapes.h"

#include <cstring>

namespace zc::cpu {
namespace {

template <Result<MoveShape> (*read)(const KernelSpec &)> Prepared prepareMove(const KernelSpec &spec) {
  Result<MoveShape> shape = read(spec);
  ZC_RETURN_IF_ERROR(shape.status());
  Walk<2> walk(shape->dims, {shape->outStrides, shape->inStrides});
  return withBytes(shape->dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    return makeKernel([walk, outStart = shape->outStart, inStart = shape->inStart, zeroFirst = shape->zeroFirst,
                       outBytes = shape->outBytes](void *const *operands, const StepContext &) {
      if (zeroFirst)
        std::memset(operands[1], 0, static_cast<size_t>(outBytes));
      const T *x = as<T>(operands[0]);
      T *y = as<T>(operands[1]);
      walk.forEach([&](const Walk<2>::Offsets &at) { y[outStart + at[0]] = x[inStart + at[1]]; });
    });
  });
}

Prepared prepareConcat(const KernelSpec &spec) {
  Result<ConcatShape> shape = readConcat(spec);
  ZC_RETURN_IF_ERROR(shape.status());
  return makeKernel([bytes = shape->bytes, outer = shape->outer](void *const *operands, const StepContext &) {
    char *y = as<char>(operands[bytes.size()]);
    for (int64_t o = 0; o < outer; ++o)
      for (size_t i = 0; i < bytes.size(); ++i) {
        if (bytes[i])
          std::memcpy(y, as<char>(operands[i]) + o * bytes[i], static_cast<size_t>(bytes[i]));
        y += bytes[i];
      }
  });
}

Prepared preparePad(const KernelSpec &spec) {
  Result<PadShape> shape = readPad(spec);
  ZC_RETURN_IF_ERROR(shape.status());
  const MoveShape &move = shape->move;
  Walk<2> walk(move.dims, {move.outStrides, move.inStrides});
  return withStorage(move.dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    return makeKernel([walk, outStart = move.outStart, inStart = move.inStart, n = shape->n,
                       fill = fillValue<T>(shape->value)](void *const *operands, const StepContext &) {
      T *y = as<T>(operands[1]);
      std::fill(y, y + n, fill);
      walk.forEach([&](const Walk<2>::Offsets &at) { y[outStart + at[0]] = as<T>(operands[0])[inStart + at[1]]; });
    });
  });
}

Prepared prepareCopy(const KernelSpec &spec) {
  ZC_RETURN_IF_ERROR(checkCopy(spec));
  return makeKernel([bytes = spec.operands[0].numBytes()](void *const *operands, const StepContext &) {
    if (bytes && operands[0] != operands[1])
      std::memmove(operands[1], operands[0], static_cast<size_t>(bytes));
  });
}

Prepared prepareOwnPart(const KernelSpec &spec) {
  Result<int64_t> from = readOwnPart(spec);
  ZC_RETURN_IF_ERROR(from.status());
  return makeKernel([bytes = spec.operands[1].numBytes(), from = *from](void *const *operands, const StepContext &) {
    if (bytes)
      std::memcpy(operands[1], as<char>(operands[0]) + from, static_cast<size_t>(bytes));
  });
}

} // namespace

void addMove(KernelRegistry &registry) {
  registry.add("transpose", prepareMove<readTranspose>);
  registry.add("expand", prepareMove<readExpand>);
  registry.add("slice", prepareMove<readSlice>);
  registry.add("slice_grad", prepareMove<readSliceGrad>);
  registry.add("concat", prepareConcat);
  registry.add("pad", preparePad);
  registry.add("copy", prepareCopy, elementwise());
  registry.add("own_part", prepareOwnPart);
}

} // namespace zc::cpu
