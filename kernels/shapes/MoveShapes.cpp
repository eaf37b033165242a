#include "kernels/shapes/MoveShapes.h"

namespace zc::shapes {

static Check &sameElement(Check &check, const KernelSpec &spec) {
  return check.counts(1, 1).that([&] { return spec.operands[0].dtype == spec.operands[1].dtype; }, "one element type");
}

Result<MoveShape> readTranspose(const KernelSpec &spec) {
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
  return MoveShape{in.dtype, out.dims, rowMajorStrides(out.dims), strides, 0, 0, false, 0};
}

Result<MoveShape> readExpand(const KernelSpec &spec) {
  const TensorType &in = spec.operands[0], &out = spec.operands.back();
  Check check(spec);
  ZC_RETURN_IF_ERROR(
      sameElement(check, spec)
          .that([&] { return broadcastsTo(in.dims, out.dims); }, "an operand that broadcasts to the result")
          .done());
  return MoveShape{in.dtype, out.dims, rowMajorStrides(out.dims), broadcastStrides(in.dims, out.dims), 0, 0, false, 0};
}

/// Where a slice of `full` with shape `part` lies: strides and start, in elements. False if it leaves `full`.
static bool sliceOf(const Dims &full, const Dims &part, const Dims &offsets, const Dims &steps, Dims &strides,
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

/// Part of a whole tensor: taken out of it, or, for the gradient, put into zeroes.
static Result<MoveShape> readPart(const KernelSpec &spec, bool isGradient) {
  const TensorType &in = spec.operands[0], &out = spec.operands.back();
  const TensorType &whole = isGradient ? out : in, &part = isGradient ? in : out;
  Dims inside;
  int64_t start = 0;
  Check check(spec);
  ZC_RETURN_IF_ERROR(sameElement(check, spec)
                         .that(
                             [&] {
                               return sliceOf(whole.dims, part.dims, spec.getInts("offsets"), spec.getInts("strides"),
                                              inside, start);
                             },
                             "offsets and strides that stay inside the whole")
                         .done());
  Dims packed = rowMajorStrides(part.dims);
  if (isGradient)
    return MoveShape{part.dtype, part.dims, inside, packed, start, 0, true, whole.numBytes()};
  return MoveShape{part.dtype, part.dims, packed, inside, 0, start, false, 0};
}

Result<MoveShape> readSlice(const KernelSpec &spec) { return readPart(spec, false); }
Result<MoveShape> readSliceGrad(const KernelSpec &spec) { return readPart(spec, true); }

Result<ConcatShape> readConcat(const KernelSpec &spec) {
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
  ConcatShape shape{outer, {}};
  for (size_t i = 0; i < spec.numInputs; ++i)
    shape.bytes.push_back(spec.operands[i].dims[at] * inner);
  return shape;
}

Result<PadShape> readPad(const KernelSpec &spec) {
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
  return PadShape{
      {in.dtype, part, outStrides, inStrides, outStart, inStart, false, out.numBytes()}, out.numElements(), value};
}

Status checkCopy(const KernelSpec &spec) {
  return Check(spec)
      .counts(1, 1)
      .that([&] { return spec.operands[0].numBytes() == spec.operands[1].numBytes(); }, "as many bytes on both sides")
      .done();
}

Result<int64_t> readOwnPart(const KernelSpec &spec) {
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
  return spec.rank / divisor % parts * spec.operands[1].numBytes();
}

Status checkConstant(const KernelSpec &spec) {
  std::string data = spec.getText("data");
  return Check(spec)
      .counts(0, 1)
      .that([&] { return spec.has("value") != spec.has("data"); }, "either 'value' or 'data'")
      .that([&] { return spec.has("value") || static_cast<int64_t>(data.size()) == spec.operands[0].numBytes(); },
            "'data' of the result's size")
      .done();
}

Status checkIota(const KernelSpec &spec) {
  return Check(spec).counts(0, 1).that([&] { return spec.operands[0].dims.size() == 1; }, "one dimension").done();
}

Status checkLossScale(const KernelSpec &spec) {
  return Check(spec)
      .counts(0, 1)
      .that([&] { return isComputeFloat(spec.operands[0].dtype) && spec.operands[0].numElements() == 1; },
            "a scalar of f32, bf16, f16 or f64")
      .done();
}

Result<ReduceShape> readReduce(const KernelSpec &spec) {
  Dims axes = spec.getInts("axes");
  ReduceShape shape{spec.operands.empty() ? DType::f32 : spec.operands[0].dtype, {}, {}, {}, {}};
  auto matches = [&] {
    const Dims &dims = spec.operands[0].dims;
    Dims strides = rowMajorStrides(dims), withOnes;
    size_t next = 0;
    for (size_t i = 0; i < dims.size(); ++i) {
      bool isReduced = next < axes.size() && axes[next] == static_cast<int64_t>(i);
      next += isReduced;
      (isReduced ? shape.reduced : shape.kept).push_back(dims[i]);
      (isReduced ? shape.reducedStrides : shape.keptStrides).push_back(strides[i]);
      withOnes.push_back(isReduced ? 1 : dims[i]);
    }
    return next == axes.size() && spec.operands[1].dims == (spec.getInt("keepdims", 0) ? withOnes : shape.kept);
  };
  ZC_RETURN_IF_ERROR(Check(spec)
                         .counts(1, 1)
                         .that([&] { return spec.operands[0].dtype == spec.operands[1].dtype; }, "one element type")
                         .that(matches, "sorted axes and the reduced shape")
                         .done());
  return shape;
}

} // namespace zc::shapes
