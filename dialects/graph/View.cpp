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

FailureOr<SmallVector<RankedTensorType>> seenOf(Operation *op) {
  SmallVector<Type> types;
  const Infer infer(op->getLoc(), types);
  ViewsAttr views = cast<Strided>(op).getViewsAttr();
  FailureOr<SmallVector<RankedTensorType>> seen = seenTypes(infer, op->getOperands(), views);
  if (failed(seen))
    return failure();
  if (!views) {
    for (Value result : op->getResults())
      seen->push_back(tensorOf(result));
    return seen;
  }
  if (!llvm::equal(views.getResults(), op->getResultTypes()))
    return infer.error("[view_c5] the tensors that views are in are not the results");
  for (ViewAttr view : views.getViews().drop_front(op->getNumOperands()))
    seen->push_back(
        cast<RankedTensorType>(views.getResults()[static_cast<size_t>(view.getTensor()) - op->getNumOperands()])
            .clone(view.getSizes()));
  return seen;
}

bool isSeenWhole(Operation *op, unsigned tensor) {
  auto strided = dyn_cast<Strided>(op);
  ViewsAttr views = strided ? strided.getViewsAttr() : ViewsAttr();
  if (!views)
    return true;
  const unsigned operands = op->getNumOperands();
  Value value = tensor < operands ? op->getOperand(tensor) : op->getResult(tensor - operands);
  return llvm::all_of(toStridedViews(views), [&](const zc::StridedView &view) {
    return view.tensor != tensor || view.isAllOf(shapeOf(value).vec());
  });
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
  llvm::SmallDenseMap<Value, double> seen;
  for (const zc::StridedView &view : toStridedViews(views))
    seen[tensors[view.tensor]] += double(view.numElements()) * double(bytesOfElement(elementOf(tensors[view.tensor])));
  double bytes = 0;
  for (auto [tensor, each] : seen) // views of one tensor may overlap
    bytes += std::min(each, double(bytesOf(tensorOf(tensor))));
  return bytes;
}

} // namespace zc::graph
