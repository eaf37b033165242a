//===- Order.cpp - scatters, orders, running sums -------------------------------===//
#include "compiler/import/handlers/Expr.h"
#include "compiler/import/handlers/Handlers.h"

using namespace zc;
using namespace zc::importer;
using namespace zc::graph;
using mlir::Value;

namespace {

using Dims = llvm::SmallVector<int64_t>;

mlir::Type i64(Node &node) { return mlir::IntegerType::get(node.loc.getContext(), 64); }

//===-- scatters ------------------------------------------------------------------===//

Attrs reductionAttr(Node &node, ScatterReduction reduction) {
  return node.attrs().set("reduction", ScatterReductionAttr::get(node.loc.getContext(), reduction));
}

Attrs scatterAttrs(Node &node) {
  const std::string name = node.stringAttr("reduction", "none");
  auto torch = node.tracedCall("aten.scatter_reduce");
  if (name == "none" && torch && torch->size() > 4 && (*torch)[4] == "mean")
    node.unsupported("of torch's scatter_reduce of \"mean\", which torch.export writes as if the last one stayed",
                     "scatter_add, divided by how many there are");
  const auto reduction = valueNamed<ScatterReduction>(name);
  if (!reduction)
    node.invalid("reduction is '" + name + "'");
  return reductionAttr(node, reduction.value_or(ScatterReduction::none));
}

void scatterElements(Node &node) {
  int64_t axis = node.axis(node.intAttr("axis", 0), rankOf(node.input(0)));
  node.set(node.make<ScatterElementsOp>({node.input(0), node.input(1), node.input(2)},
                                        scatterAttrs(node).integer("axis", axis)));
}

void scatterNd(Node &node) {
  node.set(node.make<ScatterNdOp>({node.input(0), node.input(1), node.input(2)}, scatterAttrs(node)));
}

/// A cache [B, ..., S, ...] gets updates [B, ..., n, ...] at positions write_indices[b] and on.
void tensorScatter(Node &node) {
  Value cache = node.input(0), update = node.input(1);
  int64_t rank = rankOf(cache), axis = node.axis(node.intAttr("axis", -2), rank);
  std::string mode = node.stringAttr("mode", "linear");
  if (mode != "linear" && mode != "circular")
    node.invalid("mode is '" + mode + "'");
  if (!node.failed() && (rankOf(update) != rank || axis == 0))
    node.invalid("update " + shapeText(dimsOf(update)) + " does not fit cache " + shapeText(dimsOf(cache)));
  if (node.failed())
    return;
  Dims positions(rank, 1), batches(rank, 1);
  positions[axis] = dimsOf(update)[axis];
  batches[0] = dimsOf(update)[0];
  Expr index(node, node.reshape(node.iota(dimsOf(update)[axis], i64(node)), positions));
  if (Value start = node.input(2))
    index = index + Expr(node, node.cast(start, i64(node))).reshape(batches);
  if (mode == "circular")
    index = index.apply<ModOp>(static_cast<double>(dimsOf(cache)[axis]));
  if (node.failed())
    return;
  node.set(node.make<ScatterElementsOp>({cache, node.expand(index, dimsOf(update)), update},
                                        reductionAttr(node, ScatterReduction::none).integer("axis", axis)));
}

//===-- orders --------------------------------------------------------------------===//

void topKBy(Node &node, int64_t k) {
  Value x = node.input(0);
  int64_t axis = node.axis(node.intAttr("axis", -1), rankOf(x));
  if (!node.failed() && (k < 0 || k > dimsOf(x)[axis]))
    node.invalid("K is " + std::to_string(k) + " of " + std::to_string(dimsOf(x)[axis]) + " elements");
  auto results = node.makeAll(
      TopKOp::getOperationName(), {x},
      node.attrs().integer("k", k).integer("axis", axis).flag("smallest", node.intAttr("largest", 1) == 0));
  for (size_t i = 0; i < results.size(); ++i)
    node.set(i, results[i]);
}
void topK(Node &node) { topKBy(node, node.constantInt(1)); }
void topKAttribute(Node &node) { topKBy(node, node.intAttr("k", -1)); }

/// Along `axis`, which stays as 1.
Value argument(Node &node, Value x, int64_t axis, bool smallest, bool last) {
  Dims shape(dimsOf(x));
  if (node.failed())
    return {};
  shape[axis] = 1;
  Value index =
      node.make<ArgMaxOp>({x}, node.attrs().integer("axis", axis).flag("smallest", smallest).flag("last", last));
  return index ? node.reshape(index, shape) : Value();
}

template <bool smallest> void argMax(Node &node) {
  Value x = node.input(0);
  int64_t axis = node.axis(node.intAttr("axis", 0), rankOf(x));
  Value index = argument(node, x, axis, smallest, node.intAttr("select_last_index", 0) != 0);
  Dims shape(dimsOf(index));
  if (!node.failed() && node.intAttr("keepdims", 1) == 0)
    shape.erase(shape.begin() + axis);
  if (!node.failed())
    node.set(node.reshape(index, shape));
}

/// 1 at the first maximum along an axis, 0 elsewhere.
Value hardmaxAlong(Node &node, Value x, int64_t axis) {
  Value index = argument(node, x, axis, false, false);
  if (node.failed())
    return {};
  Dims shape(rankOf(x), 1);
  shape[axis] = dimsOf(x)[axis];
  Expr position(node, node.reshape(node.iota(dimsOf(x)[axis], i64(node)), shape));
  return position.apply<EqualOp>(index).cast(elementOf(x));
}
void hardmax(Node &node) {
  int64_t axis = node.axis(node.intAttr("axis", -1), rankOf(node.input(0)));
  node.set(hardmaxAlong(node, node.input(0), axis));
}
/// Until opset 12 over all dimensions from `axis` on, as one.
void flatHardmax(Node &node) {
  Value x = node.input(0);
  int64_t axis = node.axis(node.intAttr("axis", 1), rankOf(x)), rows = 1, columns = 1;
  for (int64_t d = 0; d < rankOf(x); ++d)
    (d < axis ? rows : columns) *= dimsOf(x)[d];
  if (node.failed())
    return;
  if (Value y = hardmaxAlong(node, node.reshape(x, {rows, columns}), 1))
    node.set(node.reshape(y, dimsOf(x)));
}

template <typename OpT> void cumulative(Node &node) {
  int64_t axis = node.axis(node.constantInt(1), rankOf(node.input(0)));
  node.set(node.make<OpT>({node.input(0)}, node.attrs()
                                               .integer("axis", axis)
                                               .flag("exclusive", node.intAttr("exclusive", 0) != 0)
                                               .flag("reverse", node.intAttr("reverse", 0) != 0)));
}

//===-- shapes that depend on values: only of constants -----------------------------===//

/// What the data says: all of them, of which those count where it does (compiler/import/rows).
Value pickedPositions(Node &node, Value condition) {
  int64_t elements = 1;
  for (int64_t d : dimsOf(condition))
    elements *= d;
  if (rankOf(condition) == 0 || elements < 2)
    node.unsupported("of " + std::to_string(elements) + " elements that are computed from the data",
                     "a mask of one row is no row or all: bind dimensions to more with --dim");
  else if (node.pickedRows().isAny(condition))
    node.unsupported("of rows that a mask picked", "pick once, by both masks: x[mask & other] on all rows");
  Value zero = node.scalar(0, elementOf(condition));
  if (!elementOf(condition).isInteger(1))
    condition = node.make<NotOp>({node.make<EqualOp>({condition, zero})});
  if (node.failed())
    return {};
  auto positions = node.pickedRows().positions(condition, node.loc);
  if (positions.ok())
    return *positions;
  node.fail(positions.error());
  return {};
}

/// [rank, number of elements that are not 0]: their indices.
void nonZero(Node &node) {
  const HostTensor *x = node.constantOf(node.input(0));
  if (!x)
    return node.set(pickedPositions(node, node.input(0)));
  std::vector<int64_t> found;
  if (x->numElements() > node.options().limits.foldedElements)
    return node.unsupported("of " + std::to_string(x->numElements()) + " elements");
  for (int64_t i = 0, n = x->numElements(); i < n; ++i)
    if (x->valueAt(i) != 0)
      found.push_back(i);
  HostTensor indices;
  int64_t rank = std::max<int64_t>(x->rank(), 1), inner = 1;
  indices.dims = {rank, static_cast<int64_t>(found.size())};
  indices.allocate();
  for (int64_t d = rank - 1; d >= 0; --d) {
    int64_t size = x->rank() ? x->dims[d] : 1;
    for (size_t k = 0; k < found.size(); ++k)
      indices.ints[d * found.size() + k] = found[k] / inner % size;
    inner *= size;
  }
  node.set(node.constant(indices));
}

/// Slices along an axis (or elements) whose condition is true.
void compress(Node &node) {
  Value x = node.input(0);
  const HostTensor *condition = node.constantOf(node.input(1));
  if (condition && (condition->isFloat() || condition->rank() != 1))
    return node.invalid("the condition is no vector of bools");
  int64_t axis = 0;
  if (node.hasAttr("axis")) {
    axis = node.axis(node.intAttr("axis", 0), rankOf(x));
  } else {
    int64_t elements = 1;
    for (int64_t d : dimsOf(x))
      elements *= d;
    x = node.reshape(x, {elements});
  }
  if (node.failed())
    return;
  if (!condition && dimsOf(node.input(1)) != dimsOf(x).slice(axis, 1))
    return node.unsupported("by " + shapeText(dimsOf(node.input(1))) + " conditions of " +
                            std::to_string(dimsOf(x)[axis]) + " slices, which are computed from the data");
  if (!condition) {
    Value places = pickedPositions(node, node.input(1));
    if (!node.failed())
      node.set(
          node.make<GatherOp>({x, node.reshape(places, dimsOf(node.input(1)))}, node.attrs().integer("axis", axis)));
    return;
  }
  Dims picks;
  for (int64_t i = 0, n = std::min(condition->numElements(), dimsOf(x)[axis]); i < n; ++i)
    if (condition->intAt(i))
      picks.push_back(i);
  node.set(node.make<GatherOp>({x, node.constant(HostTensor::ofInts(picks))}, node.attrs().integer("axis", axis)));
}

/// The first lengths[b] entries of each sequence backwards, by index.
void reverseSequence(Node &node) {
  Value x = node.input(0);
  int64_t batch = node.axis(node.intAttr("batch_axis", 1), rankOf(x));
  int64_t time = node.axis(node.intAttr("time_axis", 0), rankOf(x));
  if (!node.failed() && (batch == time || rankOf(node.input(1)) != 1))
    node.invalid("batch_axis and time_axis are the same, or sequence_lens is not a vector");
  if (node.failed())
    return;
  Dims along(rankOf(x), 1), across(rankOf(x), 1);
  along[time] = dimsOf(x)[time];
  across[batch] = dimsOf(x)[batch];
  Expr step(node, node.reshape(node.iota(dimsOf(x)[time], i64(node)), along));
  Expr length = Expr(node, node.cast(node.input(1), i64(node))).reshape(across);
  Expr index = (length - step - 1.0).where(step.apply<LessOp>(length), step);
  if (!node.failed())
    node.set(node.make<GatherElementsOp>({x, node.expand(index, dimsOf(x))}, node.attrs().integer("axis", time)));
}

} // namespace

void zc::importer::addOrderHandlers(HandlerTable &table) {
  table.add("Scatter", 9, 3, 3, scatterElements);
  table.add("ScatterElements", 11, 3, 3, scatterElements);
  table.add("ScatterND", 11, 3, 3, scatterNd);
  table.add("TensorScatter", 24, 2, 3, tensorScatter);
  table.add("TopK", 1, 1, 1, topKAttribute);
  table.add("TopK", 10, 2, 2, topK, {{1, "K"}});
  table.add("ArgMax", 1, 1, 1, argMax<false>);
  table.add("ArgMin", 1, 1, 1, argMax<true>);
  table.add("Hardmax", 1, 1, 1, flatHardmax);
  table.add("Hardmax", 13, 1, 1, hardmax);
  table.add("CumSum", 11, 2, 2, cumulative<CumSumOp>, {{1, "axis"}});
  table.add("CumProd", 26, 2, 2, cumulative<CumProdOp>, {{1, "axis"}});
  table.add("NonZero", 9, 1, 1, nonZero);
  table.add("Compress", 9, 2, 2, compress);
  for (const char *op : {"NonZero", "Compress"})
    table.limit(
        "", op,
        "of data: what is picked keeps its place ([what that takes](../../docs/onnx.md#54-rows-that-a-mask-picks))");
  table.add("ReverseSequence", 10, 2, 2, reverseSequence);
}
