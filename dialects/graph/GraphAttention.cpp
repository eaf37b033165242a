//===- GraphAttention.cpp - result types and cost of attention ---------------===//
#include "dialects/graph/Infer.h"

using namespace mlir;
using namespace zc::graph;

/// Checks query, key, value and mask; gives the shape of the result, [B, H, S, Dv].
static FailureOr<Shape> checkAttention(const Infer &infer, Value query, Value key, Value value, Value mask) {
  ArrayRef<int64_t> q = shapeOf(query), k = shapeOf(key), v = shapeOf(value);
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
    ArrayRef<int64_t> dims = shapeOf(mask);
    Shape scores = {q[0], q[1], q[2], k[2]};
    std::optional<Shape> both = broadcastShapes(dims, scores);
    if (dims.size() != 4 || !both || *both != scores)
      return infer.error("[attention_c6] mask " + toText(dims) + " does not broadcast to " + toText(scores));
    if (!elementOf(mask).isInteger(1) && !isa<FloatType>(elementOf(mask)))
      return infer.error("[attention_c7] mask of " + toText(elementOf(mask)) + " is neither bool nor float");
  }
  return Shape{q[0], q[1], q[2], v[3]};
}

static RankedTensorType lseType(Value query) {
  return RankedTensorType::get(shapeOf(query).take_front(3), statisticsType(elementOf(query)));
}

ZC_INFER(AttentionOp) {
  Infer infer(location, types);
  Value query = adaptor.getQuery();
  FailureOr<Shape> shape = checkAttention(infer, query, adaptor.getKey(), adaptor.getValue(), adaptor.getMask());
  if (failed(shape) || failed(infer.result(*shape, elementOf(query))))
    return failure();
  return infer.result(lseType(query));
}

ZC_INFER(AttentionGradOp) {
  Infer infer(location, types);
  Value query = adaptor.getQuery();
  FailureOr<Shape> shape = checkAttention(infer, query, adaptor.getKey(), adaptor.getValue(), adaptor.getMask());
  if (failed(shape))
    return failure();
  Type output = RankedTensorType::get(*shape, elementOf(query));
  if (failed(infer.hasType("attention_c8", "grad", adaptor.getGrad(), output)) ||
      failed(infer.hasType("attention_c8", "output", adaptor.getOutput(), output)) ||
      failed(infer.hasType("attention_c8", "lse", adaptor.getLse(), lseType(query))))
    return failure();
  types.assign({query.getType(), adaptor.getKey().getType(), adaptor.getValue().getType()});
  return success();
}

/// Multiply-adds of the full score matrix; half of them under `causal`.
static double attentionFlops(Value query, Value key, Value value, bool causal, double products) {
  ArrayRef<int64_t> q = shapeOf(query), k = shapeOf(key), v = shapeOf(value);
  double scores = double(q[0]) * q[1] * q[2] * k[2];
  return products * scores * (q[3] + v[3]) * (causal ? 0.5 : 1.0);
}

double AttentionOp::getFlops() { return attentionFlops(getQuery(), getKey(), getValue(), getCausal(), 2); }

// Five products where forward has two: the scores again, dV, dP, dQ, dK.
double AttentionGradOp::getFlops() { return attentionFlops(getQuery(), getKey(), getValue(), getCausal(), 5); }
