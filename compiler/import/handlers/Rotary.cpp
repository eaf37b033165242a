//===- Rotary.cpp - RotaryEmbedding-23 ---------------------------------------------===//
#include "compiler/import/handlers/Expr.h"
#include "compiler/import/handlers/Handlers.h"

using namespace zc::importer;
using namespace zc::graph;
using mlir::Value;

namespace {

using Dims = llvm::SmallVector<int64_t>;

/// cos or sin as [B or 1, 1, S, half]: rows of a table picked by position, or given per position. torch's exporter
/// gives one for all of a batch whose size it left open, which the standard does not have.
Expr cacheFor(Node &node, unsigned input, int64_t batch, int64_t length, int64_t half) {
  Value cache = node.input(input);
  if (Value positions = node.input(3))
    cache = node.make<GatherOp>({cache, positions}, node.attrs().integer("axis", 0));
  if (node.failed())
    return {node, {}};
  int64_t given = rankOf(cache) == 3 ? dimsOf(cache)[0] : 0;
  if ((given != batch && given != 1) || dimsOf(cache).drop_front() != llvm::ArrayRef<int64_t>{length, half}) {
    node.invalid("cos and sin caches give " + shapeText(dimsOf(cache)) + ", not " + shapeText({batch, length, half}));
    return {node, {}};
  }
  return Expr(node, cache).reshape({given, 1, length, half});
}

/// Every second element of the last dimension, from `first` on.
Value everySecond(Node &node, Value x, int64_t first) {
  Dims offsets(rankOf(x), 0), sizes(dimsOf(x)), strides(rankOf(x), 1);
  offsets.back() = first;
  sizes.back() /= 2;
  strides.back() = sizes.back() > 1 ? 2 : 1;
  return node.make<SliceOp>({x}, node.attrs().ints("offsets", offsets).ints("sizes", sizes).ints("strides", strides));
}

Value join(Node &node, Value a, Value b, int64_t axis) {
  return node.make<ConcatOp>({a, b}, node.attrs().integer("axis", axis));
}

/// (x1, x2) -> (cos x1 - sin x2, sin x1 + cos x2), x1 and x2 halves of a head, or its even and odd elements.
void rotaryEmbedding(Node &node) {
  Value x = node.input(0);
  int64_t heads = node.intAttr("num_heads", 0), rank = rankOf(x);
  bool interleaved = node.intAttr("interleaved", 0) != 0;
  Dims given(dimsOf(x));
  if (rank == 3) {
    if (heads < 1 || given[2] % heads != 0)
      return node.invalid("num_heads " + std::to_string(heads) + " does not divide " + std::to_string(given[2]));
    x = node.transpose(node.reshape(x, {given[0], given[1], heads, given[2] / heads}), {0, 2, 1, 3});
  }
  if (!node.failed() && rankOf(x) != 4)
    node.invalid("input has rank " + std::to_string(rank) + ", not 3 or 4");
  if (node.failed())
    return;
  Dims dims(dimsOf(x));
  int64_t size = dims[3], rotated = node.intAttr("rotary_embedding_dim", 0);
  rotated = rotated == 0 ? size : rotated;
  if (rotated < 2 || rotated > size || rotated % 2 != 0)
    return node.invalid("rotary_embedding_dim " + std::to_string(rotated) + " of head size " + std::to_string(size));
  Value part = node.slice(x, 3, 0, rotated);
  Expr cosine = cacheFor(node, 1, dims[0], dims[2], rotated / 2),
       sine = cacheFor(node, 2, dims[0], dims[2], rotated / 2);
  if (node.failed())
    return;
  Expr first(node, interleaved ? everySecond(node, part, 0) : node.slice(part, 3, 0, rotated / 2));
  Expr second(node, interleaved ? everySecond(node, part, 1) : node.slice(part, 3, rotated / 2, rotated / 2));
  Expr real = cosine * first - sine * second, imaginary = sine * first + cosine * second;
  if (node.failed())
    return;
  Value y;
  if (interleaved) {
    Dims pairs{dims[0], dims[1], dims[2], rotated / 2, 1};
    y = node.reshape(join(node, real.reshape(pairs), imaginary.reshape(pairs), 4), dimsOf(part));
  } else {
    y = join(node, real, imaginary, 3);
  }
  if (rotated < size && !node.failed())
    y = join(node, y, node.slice(x, 3, rotated, size - rotated), 3);
  if (node.failed())
    return;
  node.set(rank == 4 ? y : node.reshape(node.transpose(y, {0, 2, 1, 3}), given));
}

} // namespace

void zc::importer::addRotaryHandlers(HandlerTable &table) { table.add("RotaryEmbedding", 23, 3, 4, rotaryEmbedding); }
