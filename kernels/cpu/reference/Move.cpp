// Kernels that move elements without looking at them: one template per element size.
#include "kernels/cpu/Support.h"

#include <cstring>

namespace zc::cpu {
namespace {

/// y[walk 0] = x[walk 1] + offset, over all of `dims`.
Prepared moveAlong(DType type, const Dims &dims, const Dims &outStrides, const Dims &inStrides, int64_t outStart,
                   int64_t inStart, bool zeroFirst, int64_t outBytes) {
  Walk<2> walk(dims, {outStrides, inStrides});
  return withBytes(type, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    return makeKernel([=](void *const *operands, const StepContext &) {
      if (zeroFirst)
        std::memset(operands[1], 0, static_cast<size_t>(outBytes));
      const T *x = as<T>(operands[0]);
      T *y = as<T>(operands[1]);
      walk.forEach([&](const Walk<2>::Offsets &at) { y[outStart + at[0]] = x[inStart + at[1]]; });
    });
  });
}

Check &sameElement(Check &check, const KernelSpec &spec) {
  return check.counts(1, 1).that([&] { return spec.operands[0].dtype == spec.operands[1].dtype; }, "one element type");
}

Prepared prepareTranspose(const KernelSpec &spec) {
  const TensorType &in = spec.operands[0], &out = spec.operands.back();
  Dims permutation = spec.getInts("permutation");
  Check check(spec);
  ZC_RETURN_IF_ERROR(sameElement(check, spec)
                         .that(
                             [&] {
                               Dims sorted = permutation;
                               std::sort(sorted.begin(), sorted.end());
                               for (size_t i = 0; i < sorted.size(); ++i)
                                 if (sorted[i] != static_cast<int64_t>(i))
                                   return false;
                               return sorted.size() == in.dims.size() && out.dims.size() == in.dims.size();
                             },
                             "a permutation of its dimensions")
                         .that(
                             [&] {
                               for (size_t i = 0; i < permutation.size(); ++i)
                                 if (out.dims[i] != in.dims[static_cast<size_t>(permutation[i])])
                                   return false;
                               return true;
                             },
                             "a result with the permuted shape")
                         .done());
  Dims own = rowMajorStrides(in.dims), strides;
  for (int64_t p : permutation)
    strides.push_back(own[static_cast<size_t>(p)]);
  return moveAlong(in.dtype, out.dims, rowMajorStrides(out.dims), strides, 0, 0, false, 0);
}

Prepared prepareExpand(const KernelSpec &spec) {
  const TensorType &in = spec.operands[0], &out = spec.operands.back();
  Check check(spec);
  ZC_RETURN_IF_ERROR(
      sameElement(check, spec)
          .that([&] { return broadcastsTo(in.dims, out.dims); }, "an operand that broadcasts to the result")
          .done());
  return moveAlong(in.dtype, out.dims, rowMajorStrides(out.dims), broadcastStrides(in.dims, out.dims), 0, 0, false, 0);
}

/// Where a slice of `full` with shape `part` lies: strides and start, in elements. False if it leaves `full`.
bool sliceOf(const Dims &full, const Dims &part, const Dims &offsets, const Dims &steps, Dims &strides,
             int64_t &start) {
  if (full.size() != part.size() || full.size() != offsets.size() || full.size() != steps.size())
    return false;
  strides = rowMajorStrides(full);
  start = 0;
  for (size_t i = 0; i < full.size(); ++i) {
    if (part[i] == 0)
      continue;
    __int128 last = static_cast<__int128>(offsets[i]) + static_cast<__int128>(part[i] - 1) * steps[i];
    if (steps[i] == 0 || offsets[i] < 0 || offsets[i] >= full[i] || last < 0 || last >= full[i])
      return false;
    start += offsets[i] * strides[i];
    strides[i] = part[i] == 1 ? 0 : strides[i] * steps[i];
  }
  return true;
}

Prepared prepareSlice(const KernelSpec &spec) {
  const TensorType &in = spec.operands[0], &out = spec.operands.back();
  Dims strides;
  int64_t start = 0;
  Check check(spec);
  ZC_RETURN_IF_ERROR(sameElement(check, spec)
                         .that(
                             [&] {
                               return sliceOf(in.dims, out.dims, spec.getInts("offsets"), spec.getInts("strides"),
                                              strides, start);
                             },
                             "offsets and strides that stay inside the operand")
                         .done());
  return moveAlong(in.dtype, out.dims, rowMajorStrides(out.dims), strides, 0, start, false, 0);
}

Prepared prepareSliceGrad(const KernelSpec &spec) {
  const TensorType &in = spec.operands[0], &out = spec.operands.back();
  Dims strides;
  int64_t start = 0;
  Check check(spec);
  ZC_RETURN_IF_ERROR(sameElement(check, spec)
                         .that(
                             [&] {
                               return sliceOf(out.dims, in.dims, spec.getInts("offsets"), spec.getInts("strides"),
                                              strides, start);
                             },
                             "offsets and strides that stay inside the result")
                         .done());
  return moveAlong(in.dtype, in.dims, strides, rowMajorStrides(in.dims), start, 0, true, out.numBytes());
}

Prepared prepareConcat(const KernelSpec &spec) {
  int64_t axis = spec.getInt("axis", 0), total = 0;
  ZC_RETURN_IF_ERROR(Check(spec)
                         .counts(1, spec.numInputs, 1, 1)
                         .that(
                             [&] {
                               const TensorType &out = spec.operands.back();
                               if (axis < 0 || axis >= static_cast<int64_t>(out.dims.size()))
                                 return false;
                               for (size_t i = 0; i < spec.numInputs; ++i) {
                                 TensorType type = spec.operands[i];
                                 if (type.dims.size() != out.dims.size())
                                   return false;
                                 total += type.dims[static_cast<size_t>(axis)];
                                 type.dims[static_cast<size_t>(axis)] = out.dims[static_cast<size_t>(axis)];
                                 if (!(type == out))
                                   return false;
                               }
                               return total == out.dims[static_cast<size_t>(axis)];
                             },
                             "operands that together make the result")
                         .done());
  const TensorType &out = spec.operands.back();
  auto at = static_cast<size_t>(axis);
  int64_t outer = product(out.dims, 0, at), inner = product(out.dims, at + 1, out.dims.size()) * sizeOf(out.dtype);
  std::vector<int64_t> bytes; // of each operand, per outer index
  for (size_t i = 0; i < spec.numInputs; ++i)
    bytes.push_back(spec.operands[i].dims[at] * inner);
  return makeKernel([bytes, outer](void *const *operands, const StepContext &) {
    char *y = as<char>(operands[bytes.size()]);
    for (int64_t o = 0; o < outer; ++o)
      for (size_t i = 0; i < bytes.size(); ++i) {
        if (bytes[i])
          std::memcpy(y, as<char>(operands[i]) + o * bytes[i], static_cast<size_t>(bytes[i]));
        y += bytes[i];
      }
  });
}

/// The value as bytes of one element.
template <typename T> T fillValue(double value) {
  if constexpr (Element<T>::isFloat)
    return store<T>(static_cast<Compute<T>>(value));
  else if constexpr (std::is_same_v<T, Bool>)
    return {static_cast<uint8_t>(value != 0)};
  else
    return static_cast<T>(static_cast<int64_t>(value));
}

Prepared preparePad(const KernelSpec &spec) {
  const TensorType &in = spec.operands[0], &out = spec.operands.back();
  Dims low = spec.getInts("low"), high = spec.getInts("high"), part;
  double value = spec.getReal("value", 0);
  Check check(spec);
  ZC_RETURN_IF_ERROR(sameElement(check, spec)
                         .that([&] { return std::fabs(value) < 9e18 || isFloat(in.dtype); }, "a value of its type")
                         .that(
                             [&] {
                               if (low.size() != in.dims.size() || high.size() != low.size() ||
                                   out.dims.size() != low.size())
                                 return false;
                               for (size_t i = 0; i < low.size(); ++i)
                                 if (low[i] < -in.dims[i] || high[i] < -in.dims[i] ||
                                     static_cast<__int128>(in.dims[i]) + low[i] + high[i] != out.dims[i])
                                   return false;
                               return true;
                             },
                             "low and high that make the result's shape")
                         .done());
  // The part of the operand that is kept, and where it starts on both sides.
  Dims inStrides = rowMajorStrides(in.dims), outStrides = rowMajorStrides(out.dims);
  int64_t inStart = 0, outStart = 0;
  for (size_t i = 0; i < low.size(); ++i) {
    int64_t begin = std::max<int64_t>(0, -low[i]), end = std::min(in.dims[i], in.dims[i] + high[i]);
    part.push_back(std::max<int64_t>(0, end - begin));
    inStart += begin * inStrides[i];
    outStart += (begin + low[i]) * outStrides[i];
  }
  Walk<2> walk(part, {outStrides, inStrides});
  return withStorage(in.dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    return makeKernel(
        [=, n = out.numElements(), fill = fillValue<T>(value)](void *const *operands, const StepContext &) {
          T *y = as<T>(operands[1]);
          std::fill(y, y + n, fill);
          walk.forEach([&](const Walk<2>::Offsets &at) { y[outStart + at[0]] = as<T>(operands[0])[inStart + at[1]]; });
        });
  });
}

Prepared prepareCopy(const KernelSpec &spec) {
  ZC_RETURN_IF_ERROR(Check(spec)
                         .counts(1, 1)
                         .that([&] { return spec.operands[0].numBytes() == spec.operands[1].numBytes(); },
                               "as many bytes on both sides")
                         .done());
  return makeKernel([bytes = spec.operands[0].numBytes()](void *const *operands, const StepContext &) {
    if (bytes && operands[0] != operands[1])
      std::memmove(operands[1], operands[0], static_cast<size_t>(bytes));
  });
}

/// This rank's part of x, which is cut over the ranks of an axis of the mesh.
Prepared prepareOwnPart(const KernelSpec &spec) {
  int64_t parts = spec.getInt("parts", 0), divisor = spec.getInt("divisor", 0);
  ZC_RETURN_IF_ERROR(Check(spec)
                         .counts(1, 1)
                         .that([&] { return parts > 0 && divisor > 0 && spec.rank >= 0; }, "positive parts and divisor")
                         .that(
                             [&] {
                               int64_t whole = spec.operands[0].numBytes(), part = spec.operands[1].numBytes();
                               return whole % parts == 0 && whole / parts == part;
                             },
                             "one of equal parts")
                         .done());
  int64_t bytes = spec.operands[1].numBytes();
  return makeKernel([bytes, from = spec.rank / divisor % parts * bytes](void *const *operands, const StepContext &) {
    if (bytes)
      std::memcpy(operands[1], as<char>(operands[0]) + from, static_cast<size_t>(bytes));
  });
}

} // namespace

void addMove(KernelRegistry &registry) {
  registry.add("transpose", prepareTranspose);
  registry.add("expand", prepareExpand);
  registry.add("slice", prepareSlice);
  registry.add("slice_grad", prepareSliceGrad);
  registry.add("concat", prepareConcat);
  registry.add("pad", preparePad);
  registry.add("copy", prepareCopy);
  registry.add("own_part", prepareOwnPart);
}

} // namespace zc::cpu
