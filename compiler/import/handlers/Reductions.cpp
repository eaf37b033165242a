//===- Reductions.cpp - many elements to one -----------------------------------===//
#include "compiler/import/handlers/Expr.h"
#include "compiler/import/handlers/Handlers.h"

#include <limits>

using namespace zc::importer;
using namespace zc::graph;
using mlir::Value;

namespace {

using Dims = llvm::SmallVector<int64_t>;

template <typename OpT> Value reduceBy(Node &node, Value x, const Dims &axes, bool keepdims) {
  return node.make<OpT>({x}, node.attrs().ints("axes", axes).flag("keepdims", keepdims));
}

/// Axes are an attribute until `Since`, then an input; none means all, or nothing under noop_with_empty_axes.
struct Reduction {
  Reduction(Node &node, int64_t inputSince) : keepdims(node.intAttr("keepdims", 1) != 0) {
    int64_t rank = rankOf(node.input(0));
    Dims given = node.opset < inputSince ? node.intsAttr("axes") : node.has(1) ? node.constantInts(1) : Dims();
    for (int64_t a : given)
      axes.push_back(node.failed() ? 0 : node.axis(a, rank));
    llvm::sort(axes);
    axes.erase(std::unique(axes.begin(), axes.end()), axes.end());
    nothing = given.empty() && node.opset >= inputSince && node.intAttr("noop_with_empty_axes", 0) != 0;
    if (given.empty() && !nothing)
      for (int64_t d = 0; d < rank; ++d)
        axes.push_back(d);
    nothing |= axes.empty(); // a scalar
  }
  Dims axes;
  bool keepdims;
  bool nothing = false;
};

template <typename OpT, int64_t Since> void reduce(Node &node) {
  Reduction r(node, Since);
  if (!node.failed())
    node.set(r.nothing ? node.input(0) : reduceBy<OpT>(node, node.input(0), r.axes, r.keepdims));
}

/// torch's max and min along a dimension give all of the gradient to the element whose index they return, the first of
/// equal ones; amax and amin share it. The file alone does not say which it was where the index is not used
/// (raise/Extremum.cpp: where it is).
template <typename OpT, int64_t Since> void reduceExtremum(Node &node) {
  constexpr bool smallest = std::is_same_v<OpT, ReduceMinOp>;
  Reduction r(node, Since);
  Value x = node.input(0);
  if (node.failed())
    return;
  bool isPick = r.axes.size() == 1 && isFloat(x) && node.tracedCall(smallest ? "aten.min.dim" : "aten.max.dim");
  if (!isPick || node.pickedRows().isAny(x))
    return reduce<OpT, Since>(node);
  Dims shape(dimsOf(x));
  shape[r.axes[0]] = 1;
  Attrs axis = node.attrs().integer("axis", r.axes[0]);
  Value index = node.make<ArgMaxOp>({x}, Attrs(axis).flag("smallest", smallest));
  Value y = node.make<GatherElementsOp>({x, node.reshape(index, shape)}, axis);
  if (!r.keepdims)
    shape.erase(shape.begin() + r.axes[0]);
  node.set(node.reshape(y, shape));
}

template <int64_t Since> void reduceSumSquare(Node &node) {
  Reduction r(node, Since);
  if (node.failed())
    return;
  Value square = node.make<MulOp>({node.input(0), node.input(0)});
  node.set(r.nothing ? square : reduceBy<ReduceSumOp>(node, square, r.axes, r.keepdims));
}
template <int64_t Since> void reduceL2(Node &node) {
  Reduction r(node, Since);
  if (node.failed())
    return;
  Expr x = real(node, node.input(0)), square = x * x;
  Value sums = r.nothing ? square : reduceBy<ReduceSumOp>(node, square, r.axes, r.keepdims);
  node.set(rootOfSums(Expr(node, sums), 2).cast(elementOf(node.input(0))));
}
template <int64_t Since> void reduceL1(Node &node) {
  Reduction r(node, Since);
  if (node.failed())
    return;
  Value magnitude = node.make<AbsOp>({node.input(0)});
  node.set(r.nothing ? magnitude : reduceBy<ReduceSumOp>(node, magnitude, r.axes, r.keepdims));
}

template <int64_t Since> void reduceLogSum(Node &node) {
  Reduction r(node, Since);
  if (node.failed())
    return;
  Value x = real(node, node.input(0)), sums = r.nothing ? x : reduceBy<ReduceSumOp>(node, x, r.axes, r.keepdims);
  node.set(Expr(node, sums).apply<LogOp>().cast(elementOf(node.input(0))));
}

/// The largest is taken out before, unless it is infinite: a number like any other, which no gradient goes through.
template <int64_t Since> void reduceLogSumExp(Node &node) {
  Reduction r(node, Since);
  if (node.failed())
    return;
  if (r.nothing)
    return node.set(node.input(0));
  Expr x = real(node, node.input(0)), top(node, reduceBy<ReduceMaxOp>(node, x, r.axes, true));
  Expr isFinite = top.apply<AbsOp>().apply<LessOp>(std::numeric_limits<double>::infinity());
  top = top.where(isFinite, top.number(0)).detached();
  Expr sum(node, reduceBy<ReduceSumOp>(node, (x - top).apply<ExpOp>(), r.axes, true));
  Expr y = sum.apply<LogOp>() + top;
  if (node.failed())
    return;
  Dims shape;
  for (int64_t d = 0; d < rankOf(x); ++d)
    if (r.keepdims || !llvm::is_contained(r.axes, d))
      shape.push_back(dimsOf(y)[d]);
  node.set(y.reshape(shape).cast(elementOf(node.input(0))));
}

//===-- normalizations by reductions ---------------------------------------------===//

/// (x - mean) / (standard deviation + 1e-9)
void meanVarianceNormalization(Node &node) {
  Expr x(node, node.input(0));
  Dims axes = node.hasAttr("axes") ? node.intsAttr("axes") : Dims{0, 2, 3};
  for (int64_t &axis : axes)
    axis = node.failed() ? 0 : node.axis(axis, rankOf(x));
  llvm::sort(axes);
  if (node.failed())
    return;
  Expr centred = x - Expr(node, reduceBy<ReduceMeanOp>(node, x, axes, true));
  Expr variance(node, reduceBy<ReduceMeanOp>(node, centred * centred, axes, true));
  node.set(centred / (rootOfSums(variance, 2) + 1e-9));
}

/// Mean over everything behind batch and channel.
void globalAveragePool(Node &node) {
  Dims axes;
  for (int64_t d = 2; d < rankOf(node.input(0)); ++d)
    axes.push_back(d);
  if (axes.empty())
    return node.invalid("input has rank " + std::to_string(rankOf(node.input(0))) + ", at least 3 are needed");
  node.set(reduceBy<ReduceMeanOp>(node, node.input(0), axes, true));
}

} // namespace

void zc::importer::addReduceHandlers(HandlerTable &table) {
  const std::vector<KnownInput> axes{{1, "axes"}};
  table.add("ReduceSum", 1, 1, 2, reduce<ReduceSumOp, 13>, axes);
  table.add("ReduceMean", 1, 1, 2, reduce<ReduceMeanOp, 18>, axes);
  table.add("ReduceMax", 1, 1, 2, reduceExtremum<ReduceMaxOp, 18>, axes);
  table.add("ReduceMin", 1, 1, 2, reduceExtremum<ReduceMinOp, 18>, axes);
  table.add("ReduceProd", 1, 1, 2, reduce<ReduceProdOp, 18>, axes);
  table.add("ReduceLogSum", 1, 1, 2, reduceLogSum<18>, axes);
  table.add("ReduceLogSumExp", 1, 1, 2, reduceLogSumExp<18>, axes);
  table.add("MeanVarianceNormalization", 9, 1, 1, meanVarianceNormalization);
  table.add("ReduceSumSquare", 1, 1, 2, reduceSumSquare<18>, axes);
  table.add("ReduceL2", 1, 1, 2, reduceL2<18>, axes);
  table.add("ReduceL1", 1, 1, 2, reduceL1<18>, axes);
  table.add("GlobalAveragePool", 1, 1, 1, globalAveragePool);
}
