//===- Reductions.cpp - many elements to one -----------------------------------===//
#include "compiler/import/Handlers.h"
#include "compiler/import/Node.h"

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
    Dims given = node.opset < inputSince ? node.intsAttr("axes") : node.has(1) ? node.constantInts(1, "axes") : Dims();
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

template <int64_t Since> void reduceMin(Node &node) {
  Reduction r(node, Since);
  if (node.failed())
    return;
  Value x = node.input(0);
  node.set(r.nothing ? x : node.make<NegOp>({reduceBy<ReduceMaxOp>(node, node.make<NegOp>({x}), r.axes, r.keepdims)}));
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
  Value square = node.make<MulOp>({node.input(0), node.input(0)});
  node.set(node.make<SqrtOp>({r.nothing ? square : reduceBy<ReduceSumOp>(node, square, r.axes, r.keepdims)}));
}
template <int64_t Since> void reduceL1(Node &node) {
  Reduction r(node, Since);
  if (node.failed())
    return;
  Value magnitude = node.make<AbsOp>({node.input(0)});
  node.set(r.nothing ? magnitude : reduceBy<ReduceSumOp>(node, magnitude, r.axes, r.keepdims));
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
  table.add("ReduceSum", 1, 1, 2, reduce<ReduceSumOp, 13>);
  table.add("ReduceMean", 1, 1, 2, reduce<ReduceMeanOp, 18>);
  table.add("ReduceMax", 1, 1, 2, reduce<ReduceMaxOp, 18>);
  table.add("ReduceMin", 1, 1, 2, reduceMin<18>);
  table.add("ReduceSumSquare", 1, 1, 2, reduceSumSquare<18>);
  table.add("ReduceL2", 1, 1, 2, reduceL2<18>);
  table.add("ReduceL1", 1, 1, 2, reduceL1<18>);
  table.add("GlobalAveragePool", 1, 1, 1, globalAveragePool);
}
