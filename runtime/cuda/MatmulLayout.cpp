#include "runtime/cuda/MatmulLayout.h"

#include <limits>

namespace zc::cuda {

/// Is dimension `i`, seen from the dimensions after it, which are one run of `count` matrices, more of the same run?
static bool continues(const shapes::Dims &strides, size_t i, int64_t inner, int64_t count) {
  return strides[i] == inner * count;
}

LtProduct layoutOf(const shapes::MatmulShape &whole) {
  shapes::MatmulShape s = shapes::foldedBatch(whole);
  LtProduct product{};
  product.transA = s.transRhs;
  product.transB = s.transLhs;
  product.a = s.transRhs ? LtMatrix{s.k, s.n, 0} : LtMatrix{s.n, s.k, 0};
  product.b = s.transLhs ? LtMatrix{s.m, s.k, 0} : LtMatrix{s.k, s.m, 0};
  product.d = {s.n, s.m, s.m * s.n};
  int64_t count = 1;
  size_t outer = s.batch.size();
  for (; outer > 0; --outer) {
    size_t i = outer - 1;
    if (s.batch[i] == 1)
      continue;
    if (count == 1) {
      product.b.batchStride = s.lhsStrides[i];
      product.a.batchStride = s.rhsStrides[i];
    } else if (!continues(s.lhsStrides, i, product.b.batchStride, count) ||
               !continues(s.rhsStrides, i, product.a.batchStride, count)) {
      break;
    }
    if (s.batch[i] > std::numeric_limits<int32_t>::max() / std::max<int64_t>(count, 1))
      break;
    count *= s.batch[i];
  }
  product.batches = static_cast<int32_t>(count);
  if (count == 0 || s.m == 0 || s.n == 0)
    return product;
  shapes::Dims outerDims(s.batch.begin(), s.batch.begin() + static_cast<std::ptrdiff_t>(outer));
  auto firsts = [&](const shapes::Dims &strides) {
    return shapes::Dims(strides.begin(), strides.begin() + static_cast<std::ptrdiff_t>(outer));
  };
  int64_t out = 0;
  shapes::Walk<2> walk(outerDims, {firsts(s.lhsStrides), firsts(s.rhsStrides)});
  walk.forEach([&](const shapes::Walk<2>::Offsets &at) {
    product.calls.push_back({at[0], at[1], out});
    out += count * s.m * s.n;
  });
  return product;
}

} // namespace zc::cuda
