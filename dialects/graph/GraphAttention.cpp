//===- GraphAttention.cpp - result types, views and cost of attention -------===//
#include "dialects/graph/Attention.h"
#include "dialects/graph/View.h"

using namespace mlir;
using namespace zc::graph;

/// Checks query, key, value and mask (or null); gives the shape of the result, [B, H, S, Dv].
static FailureOr<Shape> checkAttention(const Infer &infer, RankedTensorType query, RankedTensorType key,
                                       RankedTensorType value, RankedTensorType mask) {
  ArrayRef<int64_t> q = query.getShape(), k = key.getShape(), v = value.getShape();
  if (q.size() != 4 || k.size() != 4 || v.size() != 4)
    return infer.error("[attention_c1] ranks " + Twine(q.size()) + ", " + Twine(k.size()) + ", " + Twine(v.size()) +
                       " are not all 4");
  if (failed(infer.sameElement(query, key)) || failed(infer.sameElement(query, value)))
    return failure();
  if (q[0] != k[0])
    return infer.error("[attention_c2] batches " + Twine(q[0]) + " and " + Twine(k[0]) + " differ");
  if (k[1] == 0 || q[1] % k[1] != 0)
    return infer.error("[attention_c3] " + Twine(k[1]) + " key heads do not divide " + Twine(q[1]) + " query heads");
  if (q[3] != k[3])
    return infer.error("[attention_c4] head sizes " + Twine(q[3]) + " and " + Twine(k[3]) + " differ");
  if (k.take_front(3) != v.take_front(3))
    return infer.error("[attention_c5] key " + toText(k) + " and value " + toText(v) +
                       " differ in batch, heads or length");
  if (mask) {
    ArrayRef<int64_t> dims = mask.getShape();
    Shape scores = {q[0], q[1], q[2], k[2]};
    std::optional<Shape> both = broadcastShapes(dims, scores);
    if (dims.size() != 4 || !both || *both != scores)
      return infer.error("[attention_c6] mask " + toText(dims) + " does not broadcast to " + toText(scores));
    if (Type element = mask.getElementType(); !element.isInteger(1) && !isa<FloatType>(element))
      return infer.error("[attention_c7] mask of " + toText(element) + " is neither bool nor float");
  }
  return Shape{q[0], q[1], q[2], v[3]};
}

static RankedTensorType lseType(RankedTensorType query) {
  return RankedTensorType::get(query.getShape().take_front(3), statisticsType(query.getElementType()));
}

ZC_INFER(AttentionOp) {
  Infer infer(location, types);
  ValueRange operands = adaptor.getOperands();
  auto seen = seenTypes(infer, operands, adaptor.getViewsAttr());
  if (failed(seen))
    return failure();
  RankedTensorType query = (*seen)[0], mask = adaptor.getMask() ? (*seen)[3] : RankedTensorType();
  FailureOr<Shape> shape = checkAttention(infer, query, (*seen)[1], (*seen)[2], mask);
  if (failed(shape))
    return failure();
  return inferSeen(infer, {query.clone(*shape), lseType(query)}, operands, adaptor.getViewsAttr());
}

bool zc::graph::hasMaskGradient(RankedTensorType mask, int64_t queries, int64_t keys) {
  return isa<FloatType>(mask.getElementType()) && mask.getShape().take_back(2) == ArrayRef<int64_t>{queries, keys};
}

ZC_INFER(AttentionGradOp) {
  Infer infer(location, types);
  ValueRange operands = adaptor.getOperands();
  auto seen = seenTypes(infer, operands, adaptor.getViewsAttr());
  if (failed(seen))
    return failure();
  RankedTensorType grad = (*seen)[0], query = (*seen)[1], key = (*seen)[2], value = (*seen)[3], output = (*seen)[4],
                   lse = (*seen)[5], mask = adaptor.getMask() ? (*seen)[6] : RankedTensorType();
  FailureOr<Shape> shape = checkAttention(infer, query, key, value, mask);
  if (failed(shape))
    return failure();
  Type result = query.clone(*shape);
  if (failed(infer.isType("attention_c8", "grad", grad, result)) ||
      failed(infer.isType("attention_c8", "output", output, result)) ||
      failed(infer.isType("attention_c8", "lse", lse, lseType(query))))
    return failure();
  SmallVector<Type, 4> gradients = {query, key, value};
  if (adaptor.getAttributes() && adaptor.getAttributes().contains(kMaskGrad)) {
    if (!mask || !hasMaskGradient(mask, query.getDimSize(2), key.getDimSize(2)))
      return infer.error("[attention_c9] there is no float mask with an element for each query and key");
    gradients.push_back(mask.clone(lse.getElementType()));
  }
  return inferSeen(infer, gradients, operands, adaptor.getViewsAttr());
}

//===-- views ------------------------------------------------------------------===//

/// Kernels copy rows of a head one by one, and statistics and masks are seen as they are.
static bool takesHeadView(const zc::StridedView &view, bool hasHeads) {
  constexpr int64_t kFurthestRow = int64_t(1) << 22; // kernels/cpu/fast: offsets of rows are 32-bit numbers
  if (!hasHeads)
    return view.offset == 0 && view.isContiguous();
  auto strideOf = [&](size_t d) { return view.sizes[d] > 1 ? view.strides[d] : 1; };
  return view.sizes.size() == 4 && strideOf(3) == 1 && strideOf(2) <= kFurthestRow;
}

// query, key, value, [mask], result, lse
bool AttentionOp::takesView(unsigned index, const zc::StridedView &view) {
  return takesHeadView(view, index < 3 || index == getNumOperands());
}

// grad, query, key, value, output, lse, [mask], three gradients, [that of the mask]
bool AttentionGradOp::takesView(unsigned index, const zc::StridedView &view) {
  const unsigned results = getNumOperands();
  return takesHeadView(view, index < 5 || (index >= results && index < results + 3));
}

//===-- cost -------------------------------------------------------------------===//

/// Multiply-adds of the full score matrix; half of them under `causal`. The query is operand `query`.
static double attentionFlops(Operation *op, unsigned query, bool causal, double products) {
  ArrayRef<int64_t> q = seenShape(op, query), k = seenShape(op, query + 1), v = seenShape(op, query + 2);
  double scores = double(q[0]) * q[1] * q[2] * k[2];
  return products * scores * (q[3] + v[3]) * (causal ? 0.5 : 1.0);
}

double AttentionOp::getFlops() { return attentionFlops(*this, 0, getCausal(), 2); }

// Five products where forward has two: the scores again, dV, dP, dQ, dK.
double AttentionGradOp::getFlops() { return attentionFlops(*this, 1, getCausal(), 5); }
