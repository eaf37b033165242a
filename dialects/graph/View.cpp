//===- View.cpp - what operations read and write through views ------------------------------===//
#include "dialects/graph/View.h"

using namespace mlir;

namespace zc::graph {

SmallVector<zc::StridedView> toStridedViews(ViewsAttr views) {
  SmallVector<zc::StridedView> result;
  for (ViewAttr view : views.getViews())
    result.push_back(
        {static_cast<size_t>(view.getTensor()), view.getOffset(), view.getSizes().vec(), view.getStrides().vec()});
  return result;
}

ViewsAttr toViewsAttr(MLIRContext *context, ArrayRef<zc::StridedView> views, ArrayRef<Type> results) {
  SmallVector<ViewAttr> attributes;
  for (const zc::StridedView &view : views)
    attributes.push_back(
        ViewAttr::get(context, static_cast<int64_t>(view.tensor), view.offset, view.sizes, view.strides));
  return ViewsAttr::get(context, attributes, results);
}

/// Of all tensors of an op that has them: view_c1, view_c2, view_c3, view_c4.
static LogicalResult checkViews(const Infer &infer, ValueRange operands, ViewsAttr views) {
  std::vector<int64_t> elements;
  for (Type type : llvm::concat<Type>(llvm::to_vector(operands.getTypes()), llvm::to_vector(views.getResults()))) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (!tensor || !tensor.hasStaticShape())
      return infer.error("[view_c1] a view is of " + toText(type) + ", which is no tensor of a static shape");
    if (failed(infer.checkTensor(tensor.getShape(), tensor.getElementType())))
      return failure();
    elements.push_back(tensor.getNumElements());
  }
  SmallVector<zc::StridedView> all = toStridedViews(views);
  if (auto problem = zc::findProblem({all.begin(), all.end()}, elements, operands.size()))
    return infer.error("[" + Twine(problem->label) + "] " + problem->what);
  return success();
}

FailureOr<SmallVector<RankedTensorType>> seenTypes(const Infer &infer, ValueRange operands, ViewsAttr views) {
  if (views && failed(checkViews(infer, operands, views)))
    return failure();
  SmallVector<RankedTensorType> types;
  for (auto [i, operand] : llvm::enumerate(operands))
    types.push_back(views ? tensorOf(operand).clone(views.getViews()[i].getSizes()) : tensorOf(operand));
  return types;
}

LogicalResult inferSeen(Infer &infer, ArrayRef<Type> seen, ValueRange operands, ViewsAttr views) {
  if (!views) {
    for (Type type : seen)
      if (failed(infer.result(cast<RankedTensorType>(type).getShape(), cast<RankedTensorType>(type).getElementType())))
        return failure();
    return success();
  }
  ArrayRef<ViewAttr> written = views.getViews().drop_front(operands.size());
  if (written.size() != seen.size())
    return infer.error("[view_c5] " + Twine(written.size()) + " views are written, not " + Twine(seen.size()));
  for (auto [view, type] : llvm::zip(written, seen)) {
    auto whole = cast<RankedTensorType>(views.getResults()[static_cast<size_t>(view.getTensor()) - operands.size()]);
    if (whole.clone(view.getSizes()) != type)
      return infer.error("[view_c5] a view is written as " + toText(whole.clone(view.getSizes())) + ", not " +
                         toText(type));
  }
  for (Type type : views.getResults())
    (void)infer.result(type);
  return success();
}

ArrayRef<int64_t> seenShape(Operation *op, unsigned index) {
  auto strided = dyn_cast<Strided>(op);
  if (ViewsAttr views = strided ? strided.getViewsAttr() : ViewsAttr())
    return views.getViews()[index].getSizes();
  return shapeOf(op->getOperand(index));
}

double bytesSeen(Operation *op, ViewsAttr views) {
  SmallVector<Value> tensors(op->getOperands());
  llvm::append_range(tensors, op->getResults());
  double bytes = 0;
  for (const zc::StridedView &view : toStridedViews(views))
    bytes += double(view.numElements()) * double(bytesOfElement(elementOf(tensors[view.tensor])));
  return bytes;
}

} // namespace zc::graph
