//===- GraphElementwise.cpp - result types of elementwise ops ----------------===//
#include "dialects/graph/KernelSpec.h"
#include "dialects/graph/View.h"
#include "kernels/Prologue.h"
#include "kernels/Workspace.h"
#include "kernels/cpu/Registries.h"

using namespace mlir;
using namespace zc::graph;

ZC_INFER(IsNanOp) {
  return Infer(location, types)
      .result(shapeOf(adaptor.getInput()), IntegerType::get(adaptor.getInput().getContext(), 1));
}

ZC_INFER(CastOp) { return Infer(location, types).result(shapeOf(adaptor.getInput()), adaptor.getTo()); }

/// The broadcast of both operands' shapes with elements of `element` (default: the operands').
static LogicalResult inferBroadcast(Infer infer, Value lhs, Value rhs, Type element = {}) {
  if (failed(infer.sameElement(lhs, rhs)))
    return failure();
  std::optional<Shape> shape = broadcastShapes(shapeOf(lhs), shapeOf(rhs));
  if (!shape)
    return infer.error("[broadcast_c1] shapes " + toText(shapeOf(lhs)) + " and " + toText(shapeOf(rhs)) +
                       " do not broadcast");
  return infer.result(*shape, element ? element : elementOf(lhs));
}

#define INFER_BINARY(OpTy)                                                                                             \
  ZC_INFER(OpTy) { return inferBroadcast(Infer(location, types), adaptor.getLhs(), adaptor.getRhs()); }
#define INFER_COMPARE(OpTy)                                                                                            \
  ZC_INFER(OpTy) {                                                                                                     \
    return inferBroadcast(Infer(location, types), adaptor.getLhs(), adaptor.getRhs(),                                  \
                          IntegerType::get(adaptor.getLhs().getContext(), 1));                                         \
  }

INFER_BINARY(AddOp)
INFER_BINARY(SubOp)
INFER_BINARY(MulOp)
INFER_BINARY(DivOp)
INFER_BINARY(PowOp)
INFER_BINARY(MinOp)
INFER_BINARY(MaxOp)
INFER_BINARY(ModOp)
INFER_BINARY(AndOp)
INFER_BINARY(OrOp)
INFER_BINARY(XorOp)
INFER_BINARY(ShiftLeftOp)
INFER_BINARY(ShiftRightOp)
INFER_COMPARE(EqualOp)
INFER_COMPARE(LessOp)
INFER_COMPARE(LessEqualOp)

ZC_INFER(SelectOp) {
  Infer infer(location, types);
  if (failed(inferBroadcast(infer, adaptor.getLhs(), adaptor.getRhs())))
    return failure();
  auto both = cast<RankedTensorType>(types.pop_back_val());
  auto condition = shapeOf(adaptor.getCondition());
  std::optional<Shape> shape = broadcastShapes(condition, both.getShape());
  if (!shape)
    return infer.error("[broadcast_c1] shapes " + toText(condition) + " and " + toText(both.getShape()) +
                       " do not broadcast");
  return infer.result(*shape, both.getElementType());
}

LogicalResult FusedOp::verify() {
  if (getNumResults() == 0)
    return emitOpError("[fused_c1] has no result");
  FailureOr<SmallVector<RankedTensorType>> seen = seenOf(*this);
  if (failed(seen))
    return failure();
  const size_t inputs = getInputs().size();
  const Shape shape(seen->back().getShape());
  for (RankedTensorType result : ArrayRef(*seen).drop_front(inputs))
    if (result.getShape() != ArrayRef<int64_t>(shape))
      return emitOpError("[fused_c1] results have shapes ") << toText(result.getShape()) << " and " << toText(shape);
  for (RankedTensorType input : ArrayRef(*seen).take_front(inputs))
    if (broadcastShapes(input.getShape(), shape) != shape)
      return emitOpError("[fused_c1] shape ") << toText(input.getShape()) << " does not broadcast to " << toText(shape);
  FailureOr<zc::KernelSpec> spec = toKernelSpec(*this);
  if (failed(spec))
    return failure();
  if (zc::Status status = zc::checkProgram(*spec); !status.ok())
    return emitOpError("[fused_c2] ") << status.error().message;
  return success();
}

/// Inputs and results are walked in runs: of fewer elements than a vector has, a copy is as good.
bool FusedOp::takesView(unsigned, const zc::StridedView &view) {
  constexpr int64_t kShortest = 8;
  int64_t run = 1;
  for (size_t d = view.sizes.size(); d-- > 0 && (view.sizes[d] == 1 || view.strides[d] == run);)
    run *= view.sizes[d];
  return run >= kShortest;
}

double FusedOp::getFlops() {
  ViewsAttr views = getViewsAttr();
  return double(getProgram().front()) * double(views ? ShapedType::getNumElements(views.getViews().back().getSizes())
                                                     : tensorOf(getResult(0)).getNumElements());
}

LogicalResult FusedIntoOp::verify() {
  FailureOr<zc::KernelSpec> spec = toKernelSpec(*this);
  if (failed(spec))
    return failure();
  if (zc::Status status = zc::checkProgram(*spec); !status.ok())
    return emitOpError("[fused_into_c1] ") << status.error().message;
  // What the program computes is as large as its inputs say, which the kernel may not expect.
  spec->workspace = zc::workspaceBytes(*spec, zc::Target::cpu);
  if (zc::Status status = zc::cpu::plainKernels().prepare(*spec).status(); !status.ok())
    return emitOpError("[fused_into_c2] ") << status.error().message;
  return success();
}

StringRef FusedIntoOp::getKernelName() { return getInto(); }

/// Of the program, and what comes of each of its results' elements.
double FusedIntoOp::getFlops() {
  double most = 0;
  for (Value input : getInputs())
    most = std::max(most, double(tensorOf(input).getNumElements()));
  return double(getProgram().front() + 4) * most;
}
