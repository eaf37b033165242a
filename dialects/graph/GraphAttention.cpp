//===- GraphAttention.cpp - result types, views and cost of attention -------===//
#include "dialects/graph/Gradient.h"
#include "dialects/graph/View.h"

#include <algorithm>
#include <cmath>

using namespace mlir;
using namespace zc::graph;

/// Checks what is no tensor.
template <typename Adaptor> static LogicalResult checkNumbers(const Infer &infer, Adaptor adaptor) {
  std::optional<APFloat> dropout = adaptor.getDropout(), softcap = adaptor.getSoftcap();
  if (dropout.has_value() != adaptor.getDropoutId().has_value())
    return infer.error("[attention_c10] dropout and dropout_id do not stand together");
  if (double ratio = dropout ? dropout->convertToDouble() : 0; dropout && !(ratio > 0 && ratio < 1))
    return infer.error("[attention_c10] dropout " + Twine(std::to_string(ratio)) + " is outside (0, 1)");
  if (std::optional<int64_t> window = adaptor.getWindow(); window && *window < 1)
    return infer.error("[attention_c11] a window of " + Twine(*window) + " keys");
  if (failed(infer.numbersOfPart(adaptor.getRun(), adaptor.getStride())))
    return failure();
  if (!dropout && adaptor.getRun())
    return infer.error("[attention_c13] run and stride without dropout");
  if (double cap = softcap ? softcap->convertToDouble() : 1; !(cap > 0 && std::isfinite(cap)))
    return infer.error("[attention_c12] a softcap of " + Twine(std::to_string(cap)));
  return success();
}

/// Checks query, key, value and mask (or null), and numbers; gives the shape of the result, [B, H, S, Dv].
template <typename Adaptor>
static FailureOr<Shape> checkAttention(const Infer &infer, Adaptor adaptor, RankedTensorType query,
                                       RankedTensorType key, RankedTensorType value, RankedTensorType mask) {
  if (failed(checkNumbers(infer, adaptor)))
    return failure();
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
  if (int64_t scores = q[2] * k[2], run = adaptor.getRun().value_or(0); run % std::max<int64_t>(scores, 1) != 0)
    return infer.error("[attention_c13] a run of " + Twine(run) + " is no whole heads of " + Twine(scores) + " scores");
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
  FailureOr<Shape> shape = checkAttention(infer, adaptor, query, (*seen)[1], (*seen)[2], mask);
  if (failed(shape))
    return failure();
  return inferSeen(infer, {query.clone(*shape), lseType(query)}, operands, adaptor.getViewsAttr());
}

bool AttentionGradOp::hasMaskGradient(RankedTensorType mask, ArrayRef<int64_t> scores) {
  return isa<FloatType>(mask.getElementType()) && mask.getShape().take_back(2) == scores;
}

ZC_INFER(AttentionGradOp) {
  Infer infer(location, types);
  ValueRange operands = adaptor.getOperands();
  auto seen = seenTypes(infer, operands, adaptor.getViewsAttr());
  if (failed(seen))
    return failure();
  RankedTensorType grad = (*seen)[0], query = (*seen)[1], key = (*seen)[2], value = (*seen)[3], output = (*seen)[4],
                   lse = (*seen)[5], mask = adaptor.getMask() ? (*seen)[6] : RankedTensorType();
  FailureOr<Shape> shape = checkAttention(infer, adaptor, query, key, value, mask);
  if (failed(shape))
    return failure();
  Type result = query.clone(*shape);
  if (failed(infer.isType("attention_c8", "grad", grad, result)) ||
      failed(infer.isType("attention_c8", "output", output, result)) ||
      failed(infer.isType("attention_c8", "lse", lse, lseType(query))))
    return failure();
  SmallVector<Type, 4> gradients = {query, key, value};
  if (adaptor.getMaskGrad()) {
    if (!mask || !hasMaskGradient(mask, {query.getDimSize(2), key.getDimSize(2)}))
      return infer.error("[attention_c9] there is no float mask with an element for each query and key");
    gradients.push_back(mask.clone(lse.getElementType()));
  }
  return inferSeen(infer, gradients, operands, adaptor.getViewsAttr());
}

//===-- views ------------------------------------------------------------------===//

/// Kernels read rows of a head one by one, which begin as the rows of a tensor of these heads alone would: those of
/// GPUs load 16 bytes at once (cuda/CudnnAttention.h). Statistics and masks are seen as they are.
static bool takesHeadView(const zc::StridedView &view, bool hasHeads) {
  constexpr int64_t kFurthestRow = int64_t(1) << 22; // kernels/cpu/fast: offsets of rows are 32-bit numbers
  if (!hasHeads)
    return view.offset == 0 && view.isContiguous();
  if (view.sizes.size() != 4)
    return false;
  auto strideOf = [&](size_t d, int64_t none) { return view.sizes[d] > 1 ? view.strides[d] : none; };
  const int64_t together = view.sizes[3] % 8 == 0 ? 8 : 1; // elements
  auto isAligned = [&](size_t d) { return strideOf(d, 0) >= 0 && strideOf(d, 0) % together == 0; };
  return strideOf(3, 1) == 1 && strideOf(2, 1) <= kFurthestRow && view.offset % together == 0 && isAligned(0) &&
         isAligned(1) && isAligned(2);
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

/// Multiply-adds of `products` of the scores that are not masked by their positions, about: half of them under
/// `causal`, those of a window. The query is operand `query`.
template <typename Op> static double attentionFlops(Op op, unsigned query, double products) {
  ArrayRef<int64_t> q = seenShape(op, query), k = seenShape(op, query + 1), v = seenShape(op, query + 2);
  const double causal = op.getCausal() ? 0.5 : 1.0;
  double keys = double(k[2]) * causal;
  if (std::optional<int64_t> window = op.getWindow())
    keys = std::min(keys, 2.0 * double(*window) * causal);
  return products * q[0] * q[1] * q[2] * keys * (q[3] + v[3]);
}

double AttentionOp::getFlops() { return attentionFlops(*this, 0, 2); }

// Five products where forward has two: the scores again, dV, dP, dQ, dK.
double AttentionGradOp::getFlops() { return attentionFlops(*this, 1, 5); }

// What is dropped is drawn anew.
bool AttentionOp::dependsOnMicroStep() { return getDropout().has_value(); }
bool AttentionGradOp::dependsOnMicroStep() { return getDropout().has_value(); }

//===-- plain operations -------------------------------------------------------===//

Value zc::graph::repeatHeads(TensorBuilder &on, Value value, int64_t heads) {
  ArrayRef<int64_t> shape = shapeOf(value);
  if (shape[1] == heads)
    return value;
  Value apart = on.reshape(value, {shape[0], shape[1], 1, shape[2], shape[3]});
  return on.reshape(on.expand(apart, {shape[0], shape[1], heads / shape[1], shape[2], shape[3]}),
                    {shape[0], heads, shape[2], shape[3]});
}

Value zc::graph::scaledScores(TensorBuilder &on, AttentionOp op, Value products) {
  const double scale = op.getScale().convertToDouble();
  if (!op.getSoftcap())
    return scale == 1 ? products : on.scale(products, scale);
  const double cap = op.getSoftcap()->convertToDouble();
  return on.scale(on.make<TanhOp>(on.scale(products, scale / cap)), cap);
}

Value zc::graph::keysOutOfPlace(TensorBuilder &on, AttentionOp op) {
  const int64_t queries = shapeOf(op.getQuery())[2], keys = shapeOf(op.getKey())[2];
  MLIRContext *context = op.getContext();
  /// start, start + 1, ...
  auto positions = [&](int64_t count, int64_t start, ArrayRef<int64_t> shape) {
    Type type = RankedTensorType::get({count}, IntegerType::get(context, 64));
    auto number = [&](double value) { return FloatAttr::get(Float64Type::get(context), value); };
    return on.reshape(on.make<IotaOp>(TypeAttr::get(type), number(double(start)), number(1)), shape);
  };
  const Value key = positions(keys, 0, {1, keys});
  auto query = [&](int64_t later) { return positions(queries, keys - queries + later, {queries, 1}); };
  std::optional<int64_t> window = op.getWindow();
  if (window) // more hides nothing either
    window = std::min(*window, queries + keys);
  const Value before = window ? on.less(key, query(1 - *window)) : Value();
  const Value after = op.getCausal() ? on.less(query(0), key) : window ? on.less(query(*window - 1), key) : Value();
  return before && after ? on.make<OrOp>(before, after) : after;
}
