//===- Shapes.cpp - the same elements under another shape ---------------------===//
#include "compiler/import/handlers/Handlers.h"
#include "compiler/import/node/Node.h"

using namespace zc::importer;
using namespace zc::graph;
using mlir::Value;

namespace {

using Dims = llvm::SmallVector<int64_t>;

/// Attribute until `inputSince`, then input `index`.
Dims axesOf(Node &node, int64_t inputSince, unsigned index) {
  if (node.opset < inputSince)
    return node.intsAttr("axes");
  return node.has(index) ? node.constantInts(index) : Dims();
}

/// Does the number of rows that a mask picks of `x` go into those dimensions of `y` that this shape says? A shape of
/// known numbers alone has them by chance: those are the exporter's, of the batch that it saw.
bool keepsCounts(Node &node, Value x, Value y, llvm::ArrayRef<int64_t> shape, const CountedShape *counted) {
  auto before = node.pickedRows().masksOf(x), after = node.pickedRows().masksOf(y);
  auto isMasked = [](auto masks, size_t d) { return d < masks.size() && bool(masks[d]); };
  llvm::SmallVector<bool> said(shape.size(), false);
  for (size_t d = 0; d < shape.size(); ++d)
    said[d] = counted && counted->counted[d] ? true : shape[d] == 0 && isMasked(before, d);
  const int64_t known = llvm::count(said, true),
                all = llvm::count_if(before, [](const RowMask &mask) { return bool(mask); });
  auto rest = llvm::find(shape, -1);
  if (rest != shape.end() && known < all)
    said[rest - shape.begin()] = true;
  else if (known == 0)
    return true;
  for (size_t d = 0; d < shape.size(); ++d)
    if (said[d] != isMasked(after, d))
      return false;
  return true;
}

/// 0 copies the operand's dimension (unless allowzero), -1 takes the rest.
void reshape(Node &node) {
  Value x = node.input(0);
  Dims shape = node.constantInts(1);
  const Dims asked(shape);
  bool allowZero = node.intAttr("allowzero", 0) != 0;
  int64_t inferred = -1, known = 1;
  for (size_t d = 0; d < shape.size() && !node.failed(); ++d) {
    if (shape[d] == 0 && !allowZero) {
      if (static_cast<int64_t>(d) >= rankOf(x))
        return node.invalid("shape " + shapeText(shape) + " copies a dimension that " + shapeText(dimsOf(x)) +
                            " does not have");
      shape[d] = dimsOf(x)[d];
    }
    if (shape[d] < -1 || (shape[d] == -1 && inferred >= 0))
      return node.invalid("shape " + shapeText(shape) + " has a negative dimension or more than one -1");
    if (shape[d] == -1)
      inferred = d;
    else if (__builtin_mul_overflow(known, shape[d], &known))
      return node.invalid("shape " + shapeText(shape) + " is too large");
  }
  if (!node.failed() && node.countedAt(1) && !node.pickedRows().isAny(x))
    return node.unsupported(countsNothing);
  if (node.failed())
    return;
  int64_t elements = countOf(dimsOf(x));
  if (inferred >= 0 && known != 0)
    shape[inferred] = elements / known;
  if (inferred >= 0 ? known == 0 || elements % known != 0 : elements != known)
    return node.invalid("cannot reshape " + shapeText(dimsOf(x)) + " (" + std::to_string(elements) + " elements) to " +
                        shapeText(shape));
  Value y = node.reshape(x, shape);
  if (!node.failed() && node.pickedRows().isAny(x) && !keepsCounts(node, x, y, asked, node.countedAt(1)))
    return node.unsupported("of " + shapeText(dimsOf(x)) + " to " + shapeText(shape) +
                            ", which takes the rows that a mask picked apart");
  node.set(y);
}

void flatten(Node &node) {
  auto dims = dimsOf(node.input(0));
  int64_t rank = dims.size(), axis = node.intAttr("axis", 1);
  if (axis < -rank || axis > rank)
    return node.invalid("axis " + std::to_string(axis) + " is outside the rank " + std::to_string(rank));
  axis += axis < 0 ? rank : 0;
  node.set(node.reshape(node.input(0), {countOf(dims.take_front(axis)), countOf(dims.drop_front(axis))}));
}

void squeeze(Node &node) {
  auto dims = dimsOf(node.input(0));
  Dims axes = axesOf(node, 13, 1);
  bool all = axes.empty() && !node.has(1) && !node.hasAttr("axes");
  llvm::SmallVector<bool> drop(dims.size(), false);
  for (int64_t a : axes)
    if (!node.failed() && !dims.empty())
      drop[node.axis(a, dims.size())] = true;
  Dims shape;
  for (size_t d = 0; d < dims.size() && !node.failed(); ++d) {
    if (drop[d] && dims[d] != 1)
      return node.invalid("dimension " + std::to_string(d) + " of " + shapeText(dims) + " is not 1");
    if (!(drop[d] || (all && dims[d] == 1)))
      shape.push_back(dims[d]);
  }
  if (!node.failed())
    node.set(node.reshape(node.input(0), shape));
}

void unsqueeze(Node &node) {
  auto dims = dimsOf(node.input(0));
  Dims axes = axesOf(node, 13, 1);
  int64_t rank = dims.size() + axes.size();
  llvm::SmallVector<bool> added(rank, false);
  for (int64_t a : axes) {
    int64_t axis = node.failed() ? 0 : node.axis(a, rank);
    if (!node.failed() && added[axis])
      return node.invalid("axis " + std::to_string(a) + " is given twice");
    if (!node.failed())
      added[axis] = true;
  }
  if (node.failed())
    return;
  Dims shape;
  for (int64_t d = 0, from = 0; d < rank; ++d)
    shape.push_back(added[d] ? 1 : dims[from++]);
  node.set(node.reshape(node.input(0), shape));
}

void transpose(Node &node) {
  int64_t rank = rankOf(node.input(0));
  Dims permutation = node.intsAttr("perm");
  if (!node.hasAttr("perm"))
    for (int64_t d = rank - 1; d >= 0; --d)
      permutation.push_back(d);
  for (int64_t &d : permutation)
    d += d < 0 ? rank : 0;
  Dims sorted = permutation;
  llvm::sort(sorted);
  for (int64_t d = 0; d < static_cast<int64_t>(sorted.size()); ++d)
    if (sorted[d] != d || static_cast<int64_t>(sorted.size()) != rank)
      return node.invalid("perm " + shapeText(permutation) + " is not a permutation of " + std::to_string(rank) +
                          " dimensions");
  node.set(node.transpose(node.input(0), permutation));
}

/// Both ways: dimensions of 1 in `shape` keep the operand's.
void expand(Node &node) {
  Value x = node.input(0);
  Dims shape = node.constantInts(1);
  int64_t rank = std::max<int64_t>(rankOf(x), shape.size());
  Dims result(rank, 1);
  for (int64_t d = 0; d < static_cast<int64_t>(shape.size()); ++d)
    result[rank - shape.size() + d] = shape[d];
  for (int64_t d = 0, lead = rank - rankOf(x); d < rankOf(x); ++d)
    if (result[lead + d] == 1)
      result[lead + d] = dimsOf(x)[d];
  if (node.failed())
    return;
  Value y = node.expand(x, result);
  const CountedShape *counted = node.countedAt(1);
  if (counted && !node.failed() && ((y == x && !node.pickedRows().isAny(x)) || !node.pickedRows().countAs(y, *counted)))
    return node.unsupported(countsNothing);
  node.set(y);
}

/// [a, b] tiled by [r, s]: [1, a, 1, b] -> [r, a, s, b] -> [r a, s b]
void tile(Node &node) {
  Value x = node.input(0);
  Dims repeats = node.constantInts(1), split, repeated, joined;
  if (!node.failed() && static_cast<int64_t>(repeats.size()) != rankOf(x))
    node.invalid("repeats has " + std::to_string(repeats.size()) + " entries for rank " + std::to_string(rankOf(x)));
  for (int64_t d = 0; d < rankOf(x) && !node.failed(); ++d) {
    split.append({1, dimsOf(x)[d]});
    repeated.append({repeats[d], dimsOf(x)[d]});
    int64_t total;
    if (repeats[d] < 0 || __builtin_mul_overflow(repeats[d], dimsOf(x)[d], &total))
      return node.invalid("repeats " + shapeText(repeats) + " are negative or too large");
    joined.push_back(total);
  }
  if (!node.failed())
    node.set(node.reshape(node.expand(node.reshape(x, split), repeated), joined));
}

} // namespace

void zc::importer::addShapeHandlers(HandlerTable &table) {
  table.add("Reshape", 5, 2, 2, reshape, {{1, "shape", nullptr, true}});
  table.add("Flatten", 1, 1, 1, flatten);
  table.add("Squeeze", 1, 1, 2, squeeze, {{1, "axes"}});
  table.add("Unsqueeze", 1, 1, 2, unsqueeze, {{1, "axes"}});
  table.add("Transpose", 1, 1, 1, transpose);
  table.add("Expand", 8, 2, 2, expand, {{1, "shape", nullptr, true}});
  table.add("Tile", 6, 2, 2, tile, {{1, "repeats"}});
}
