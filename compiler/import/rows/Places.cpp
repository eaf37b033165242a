//===- Places.cpp - tensors whose elements are positions of picked rows -------------===//
#include "compiler/import/rows/Places.h"

#include "dialects/graph/Gradient.h"

#include "llvm/ADT/STLExtras.h"

using namespace zc;
using namespace mlir;
using namespace zc::graph;
using namespace zc::importer;

using Dims = llvm::SmallVector<int64_t>;

static int64_t product(ArrayRef<int64_t> dims) {
  int64_t n = 1;
  for (int64_t d : dims)
    n *= d;
  return n;
}

static Dims picked(ArrayRef<int64_t> from, ArrayRef<int64_t> which) {
  Dims result;
  for (int64_t d : which)
    result.push_back(from[d]);
  return result;
}

Place zc::importer::flattened(ArrayRef<Place> list, ArrayRef<int64_t> shape) {
  Place flat{0, Dims(list.front().steps.size(), 0)};
  for (size_t i = 0; i < list.size(); ++i) {
    int64_t stride = product(shape.slice(i + 1, list.size() - i - 1));
    flat.offset += list[i].offset * stride;
    for (size_t d = 0; d < flat.steps.size(); ++d)
      flat.steps[d] += list[i].steps[d] * stride;
  }
  return flat;
}

std::optional<PlaceGrid> zc::importer::gridOf(const Place &place, ArrayRef<int64_t> shape, int64_t size) {
  PlaceGrid grid;
  for (int64_t d = 0, rank = shape.size(); d < rank; ++d)
    (place.steps[d] != 0 && shape[d] != 1 ? grid.used : grid.unused).push_back(d);
  llvm::stable_sort(grid.used, [&](int64_t a, int64_t b) { return place.steps[a] > place.steps[b]; });
  int64_t stride = 1;
  for (int64_t d : llvm::reverse(grid.used)) {
    if (place.steps[d] != stride)
      return std::nullopt;
    stride *= shape[d];
  }
  return place.offset == 0 && stride == size ? std::optional(grid) : std::nullopt;
}

Value zc::importer::takeAlong(TensorBuilder &on, Value data, int64_t axis, ArrayRef<int64_t> shape,
                              const PlaceGrid &grid) {
  Dims before(shapeOf(data).take_front(axis)), after(shapeOf(data).drop_front(axis + 1));
  auto around = [&](ArrayRef<int64_t> middle) {
    Dims all(before);
    all.append(middle.begin(), middle.end());
    all.append(after);
    return all;
  };
  Value value = on.reshape(data, around(picked(shape, grid.used)));
  Dims sorted(grid.used), permutation, ones(shape.size(), 1);
  llvm::sort(sorted);
  for (int64_t d = 0, rank = graph::tensorOf(value).getRank(), used = sorted.size(); d < rank; ++d)
    permutation.push_back(
        d < axis || d >= axis + used ? d : axis + (llvm::find(grid.used, sorted[d - axis]) - grid.used.begin()));
  if (!llvm::is_sorted(permutation))
    value = on.make<TransposeOp>(value, permutation);
  for (int64_t d : sorted)
    ones[d] = shape[d];
  value = on.expand(on.reshape(value, around(ones)), around(shape));
  return on.reshape(value, around({product(shape)}));
}

Value zc::importer::layOver(TensorBuilder &on, Value rows, int64_t axis, ArrayRef<int64_t> shape,
                            const PlaceGrid &grid) {
  ArrayRef<int64_t> whole = shapeOf(rows);
  Dims apart(whole.take_front(axis)), permutation, result{product(picked(shape, grid.unused))};
  apart.append(shape.begin(), shape.end());
  apart.append(whole.begin() + axis + 1, whole.end());
  for (int64_t d : grid.unused)
    permutation.push_back(axis + d);
  for (int64_t d = 0; d < axis; ++d)
    permutation.push_back(d);
  for (int64_t d : grid.used)
    permutation.push_back(axis + d);
  for (int64_t d = axis + shape.size(), rank = apart.size(); d < rank; ++d)
    permutation.push_back(d);
  result.append(whole.begin(), whole.begin() + axis);
  result.push_back(product(picked(shape, grid.used)));
  result.append(whole.begin() + axis + 1, whole.end());
  Value value = on.reshape(rows, apart);
  if (!llvm::is_sorted(permutation))
    value = on.make<TransposeOp>(value, permutation);
  return on.reshape(value, result);
}
