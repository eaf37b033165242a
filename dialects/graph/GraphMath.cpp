//===- GraphMath.cpp - result types of products, softmaxes, norms, loss ------===//
#include "dialects/graph/Infer.h"
#include "kernels/shapes/HeadShapes.h"

using namespace mlir;
using namespace zc::graph;

//===-- matmul -------------------------------------------------------------===//

/// The result's shape, of a matmul and what carries one.
template <typename Adaptor> static FailureOr<Shape> shapeOfProduct(Infer &infer, Adaptor &adaptor, Value bias) {
  ArrayRef<int64_t> lhs = shapeOf(adaptor.getLhs()), rhs = shapeOf(adaptor.getRhs());
  if (failed(infer.sameElement(adaptor.getLhs(), adaptor.getRhs())))
    return failure();
  if (lhs.size() < 2 || rhs.size() < 2)
    return infer.error("[matmul_c1] ranks " + Twine(lhs.size()) + " and " + Twine(rhs.size()) +
                       " are not both 2 or more");
  std::optional<Shape> shape = broadcastShapes(lhs.drop_back(2), rhs.drop_back(2));
  if (!shape)
    return infer.error("[matmul_c2] leading dimensions " + toText(lhs.drop_back(2)) + " and " +
                       toText(rhs.drop_back(2)) + " do not broadcast");
  auto [m, k] = std::pair(lhs[lhs.size() - 2], lhs.back());
  if (adaptor.getTransLhs())
    std::swap(m, k);
  auto [rows, n] = std::pair(rhs[rhs.size() - 2], rhs.back());
  if (adaptor.getTransRhs())
    std::swap(rows, n);
  if (k != rows)
    return infer.error("[matmul_c3] contracted dimensions " + Twine(k) + " and " + Twine(rows) + " differ");
  if (bias &&
      (failed(infer.sameElement(adaptor.getLhs(), bias)) || failed(infer.hasShape("matmul_c4", "bias", bias, {n}))))
    return failure();
  shape->append({m, n});
  return *shape;
}

ZC_INFER(MatmulOp) {
  Infer infer(location, types);
  FailureOr<Shape> shape = shapeOfProduct(infer, adaptor, adaptor.getBias());
  if (failed(shape))
    return failure();
  return infer.result(*shape, elementOf(adaptor.getLhs()));
}

ZC_INFER(LinearGeluGradOp) {
  Infer infer(location, types);
  for (Value factor : {adaptor.getLhs(), adaptor.getRhs()})
    if (shapeOf(factor).size() != 2)
      return infer.error("[linear_gelu_grad_c1] a factor of rank " + Twine(shapeOf(factor).size()) + " is no matrix");
  FailureOr<Shape> shape = shapeOfProduct(infer, adaptor, Value());
  if (failed(shape))
    return failure();
  auto type = RankedTensorType::get(*shape, elementOf(adaptor.getLhs()));
  if (failed(infer.hasType("linear_gelu_grad_c2", "input", adaptor.getInput(), type)))
    return failure();
  return infer.result(type);
}

/// Of op(lhs) op(rhs) that is `result`.
static double flopsOfProduct(Value lhs, bool transLhs, Value result) {
  ArrayRef<int64_t> shape = shapeOf(lhs);
  double inner = transLhs ? shape[shape.size() - 2] : shape.back();
  return 2 * inner * double(tensorOf(result).getNumElements());
}
double MatmulOp::getFlops() { return flopsOfProduct(getLhs(), getTransLhs(), getResult()); }
double LinearGeluGradOp::getFlops() { return flopsOfProduct(getLhs(), getTransLhs(), getResult()); }

ZC_INFER(MatmulPartOp) {
  Infer infer(location, types);
  ArrayRef<int64_t> lhs = shapeOf(adaptor.getLhs()), rhs = shapeOf(adaptor.getRhs());
  if (failed(infer.sameElement(adaptor.getLhs(), adaptor.getRhs())))
    return failure();
  if (lhs.size() != 2 || rhs.size() != 2)
    return infer.error("[matmul_part_c1] ranks " + Twine(lhs.size()) + " and " + Twine(rhs.size()) + " are not both 2");
  int64_t m = lhs[adaptor.getTransLhs()], k = lhs[!adaptor.getTransLhs()];
  int64_t rows = rhs[adaptor.getTransRhs()], n = rhs[!adaptor.getTransRhs()];
  if (k != rows)
    return infer.error("[matmul_part_c2] contracted dimensions " + Twine(k) + " and " + Twine(rows) + " differ");
  if (static_cast<int64_t>(adaptor.getWhole()) <= 0)
    return infer.error("[matmul_part_c4] the whole product has " + Twine(adaptor.getWhole()) + " multiplications");
  Type element = elementOf(adaptor.getLhs());
  if (adaptor.getWidens())
    element = Float32Type::get(element.getContext());
  if (Value addend = adaptor.getAddend())
    if (failed(infer.hasType("matmul_part_c3", "addend", addend, RankedTensorType::get({m, n}, element))))
      return failure();
  return infer.result({m, n}, element);
}

double MatmulPartOp::getFlops() {
  double inner = double(shapeOf(getLhs())[!getTransLhs()]);
  return 2 * inner * double(tensorOf(getResult()).getNumElements());
}

/// Over what it is added to, which the factors must not be.
bool MatmulPartOp::mayOverwrite(unsigned index, unsigned) {
  return index == 2 && viewedValue(getAddend()) != viewedValue(getLhs()) &&
         viewedValue(getAddend()) != viewedValue(getRhs());
}

//===-- softmax ------------------------------------------------------------===//

#define INFER_SOFTMAX(OpTy)                                                                                            \
  ZC_INFER(OpTy) {                                                                                                     \
    Infer infer(location, types);                                                                                      \
    if (failed(infer.axisInRank(adaptor.getAxis(), tensorOf(adaptor.getInput()).getRank())))                           \
      return failure();                                                                                                \
    return infer.result(adaptor.getInput().getType());                                                                 \
  }
#define INFER_SOFTMAX_GRAD(OpTy)                                                                                       \
  ZC_INFER(OpTy) {                                                                                                     \
    Infer infer(location, types);                                                                                      \
    if (failed(infer.axisInRank(adaptor.getAxis(), tensorOf(adaptor.getOutput()).getRank())) ||                        \
        failed(infer.hasType("softmax_grad_c1", "grad", adaptor.getGrad(), adaptor.getOutput().getType())))            \
      return failure();                                                                                                \
    return infer.result(adaptor.getOutput().getType());                                                                \
  }
INFER_SOFTMAX(SoftmaxOp)
INFER_SOFTMAX(LogSoftmaxOp)
INFER_SOFTMAX_GRAD(SoftmaxGradOp)
INFER_SOFTMAX_GRAD(LogSoftmaxGradOp)

//===-- norms --------------------------------------------------------------===//

/// Checks axis and scale; gives the type of the per-row statistics.
static FailureOr<RankedTensorType> checkNorm(const Infer &infer, Value input, Value scale, int64_t axis) {
  RankedTensorType type = tensorOf(input);
  if (failed(infer.axisInRank(axis, type.getRank())) || failed(infer.sameElement(input, scale)) ||
      failed(infer.hasShape("norm_c1", "scale", scale, type.getShape().drop_front(axis))))
    return failure();
  return RankedTensorType::get(type.getShape().take_front(axis), statisticsType(type.getElementType()));
}

ZC_INFER(LayerNormOp) {
  Infer infer(location, types);
  auto rows = checkNorm(infer, adaptor.getInput(), adaptor.getScale(), adaptor.getAxis());
  if (failed(rows))
    return failure();
  if (Value bias = adaptor.getBias())
    if (failed(infer.hasType("norm_c2", "bias", bias, adaptor.getScale().getType())))
      return failure();
  types.assign({adaptor.getInput().getType(), *rows, *rows});
  return success();
}

ZC_INFER(LayerNormGradOp) {
  Infer infer(location, types);
  Type type = adaptor.getInput().getType(), scale = adaptor.getScale().getType();
  auto rows = checkNorm(infer, adaptor.getInput(), adaptor.getScale(), adaptor.getAxis());
  if (failed(rows) || failed(infer.hasType("norm_c3", "grad", adaptor.getGrad(), type)) ||
      failed(infer.hasType("norm_c4", "mean", adaptor.getMean(), *rows)) ||
      failed(infer.hasType("norm_c4", "inv_std", adaptor.getInvStd(), *rows)))
    return failure();
  types.assign({type, scale, scale});
  return success();
}

ZC_INFER(RmsNormOp) {
  auto rows = checkNorm(Infer(location, types), adaptor.getInput(), adaptor.getScale(), adaptor.getAxis());
  if (failed(rows))
    return failure();
  types.assign({adaptor.getInput().getType(), *rows});
  return success();
}

ZC_INFER(RmsNormGradOp) {
  Infer infer(location, types);
  Type type = adaptor.getInput().getType();
  auto rows = checkNorm(infer, adaptor.getInput(), adaptor.getScale(), adaptor.getAxis());
  if (failed(rows) || failed(infer.hasType("norm_c3", "grad", adaptor.getGrad(), type)) ||
      failed(infer.hasType("norm_c4", "inv_rms", adaptor.getInvRms(), *rows)))
    return failure();
  types.assign({type, adaptor.getScale().getType()});
  return success();
}

//===-- cross entropy ------------------------------------------------------===//

static LogicalResult checkLoss(const Infer &infer, Value logits, Value labels) {
  ArrayRef<int64_t> shape = shapeOf(logits);
  if (shape.size() != 2)
    return infer.error("[cross_entropy_c1] logits have rank " + Twine(shape.size()) + ", not 2");
  return infer.hasShape("cross_entropy_c2", "labels", labels, shape.take_front(1));
}

ZC_INFER(CrossEntropyOp) {
  Infer infer(location, types);
  if (failed(checkLoss(infer, adaptor.getLogits(), adaptor.getLabels())))
    return failure();
  Type statistics = statisticsType(elementOf(adaptor.getLogits()));
  return failure(failed(infer.result({}, statistics)) ||
                 failed(infer.result(shapeOf(adaptor.getLabels()), statistics)));
}

ZC_INFER(CrossEntropyGradOp) {
  Infer infer(location, types);
  Type statistics = statisticsType(elementOf(adaptor.getLogits()));
  if (failed(checkLoss(infer, adaptor.getLogits(), adaptor.getLabels())) ||
      failed(infer.hasType("cross_entropy_c3", "grad", adaptor.getGrad(), RankedTensorType::get({}, statistics))) ||
      failed(infer.hasType("cross_entropy_c4", "lse", adaptor.getLse(),
                           RankedTensorType::get(shapeOf(adaptor.getLabels()), statistics))))
    return failure();
  return infer.result(adaptor.getLogits().getType());
}

bool CrossEntropyGradOp::mayOverwrite(unsigned index, unsigned) { return index == 1; }

//===-- linear cross entropy -----------------------------------------------===//

/// Checks the layer and its labels.
template <typename Adaptor> static LogicalResult checkHead(const Infer &infer, Adaptor adaptor) {
  ArrayRef<int64_t> input = shapeOf(adaptor.getInput()), weight = shapeOf(adaptor.getWeight());
  if (failed(infer.sameElement(adaptor.getInput(), adaptor.getWeight())))
    return failure();
  bool transposed = adaptor.getTransWeight();
  if (input.size() != 2 || weight.size() != 2 || input[1] != weight[transposed])
    return infer.error("[linear_cross_entropy_c1] input " + toText(input) + " and weight " + toText(weight) +
                       " are not matrices that multiply");
  if (failed(infer.hasShape("linear_cross_entropy_c2", "labels", adaptor.getLabels(), input.take_front(1))))
    return failure();
  if (Value bias = adaptor.getBias())
    if (failed(infer.sameElement(adaptor.getInput(), bias)) ||
        failed(infer.hasShape("linear_cross_entropy_c3", "bias", bias, {weight[!transposed]})))
      return failure();
  if (static_cast<int64_t>(adaptor.getChunk()) < 1)
    return infer.error("[linear_cross_entropy_c4] there are " + Twine(static_cast<int64_t>(adaptor.getChunk())) +
                       " rows at a time");
  if (std::optional<APFloat> cap = adaptor.getCap(); cap && !zc::shapes::isLogitCap(cap->convertToDouble()))
    return infer.error("[linear_cross_entropy_c6] cap " + Twine(std::to_string(cap->convertToDouble())) +
                       " is no number above 0 that fp32 has, and its reciprocal");
  return success();
}

/// Types of the gradients: the input's, and the layer's unless it is frozen.
template <typename Adaptor> static LogicalResult addHeadGradients(Adaptor adaptor, SmallVectorImpl<Type> &types) {
  types.push_back(adaptor.getInput().getType());
  if (adaptor.getFrozen())
    return success();
  types.push_back(adaptor.getWeight().getType());
  if (Value bias = adaptor.getBias())
    types.push_back(bias.getType());
  return success();
}

ZC_INFER(LinearCrossEntropyOp) {
  Infer infer(location, types);
  return failed(checkHead(infer, adaptor)) ? failure()
                                           : infer.result({}, statisticsType(elementOf(adaptor.getInput())));
}

ZC_INFER(LinearCrossEntropyGradOp) {
  Infer infer(location, types);
  Type loss = RankedTensorType::get({}, statisticsType(elementOf(adaptor.getInput())));
  if (failed(checkHead(infer, adaptor)) ||
      failed(infer.hasType("linear_cross_entropy_c5", "grad", adaptor.getGrad(), loss)))
    return failure();
  types.assign({loss});
  return addHeadGradients(adaptor, types);
}

/// The type of what there is of each row.
template <typename Adaptor> static FailureOr<Type> checkLogHead(const Infer &infer, Adaptor adaptor) {
  if (failed(checkHead(infer, adaptor)))
    return failure();
  const int64_t classes = shapeOf(adaptor.getWeight())[adaptor.getTransWeight() ? 0 : 1];
  Type statistics = statisticsType(elementOf(adaptor.getInput()));
  if (failed(infer.hasType("linear_log_softmax_c1", "shares", adaptor.getShares(),
                           RankedTensorType::get({classes}, statistics))))
    return failure();
  return Type(RankedTensorType::get(shapeOf(adaptor.getLabels()), statistics));
}

ZC_INFER(LinearLogSoftmaxOp) {
  FailureOr<Type> each = checkLogHead(Infer(location, types), adaptor);
  if (succeeded(each))
    types.assign({*each, *each});
  return each;
}

ZC_INFER(LinearLogSoftmaxGradOp) {
  Infer infer(location, types);
  FailureOr<Type> each = checkLogHead(infer, adaptor);
  if (failed(each) || failed(infer.hasType("linear_log_softmax_c2", "by_picked", adaptor.getByPicked(), *each)) ||
      failed(infer.hasType("linear_log_softmax_c2", "by_shared", adaptor.getByShared(), *each)))
    return failure();
  types.assign({*each, *each});
  return addHeadGradients(adaptor, types);
}

/// Of one of the three products.
static double headFlops(Value input, Value weight) {
  return 2 * double(shapeOf(input)[0]) * double(tensorOf(weight).getNumElements());
}
double LinearCrossEntropyOp::getFlops() { return headFlops(getInput(), getWeight()); }
double LinearLogSoftmaxOp::getFlops() { return headFlops(getInput(), getWeight()); }
double LinearLogSoftmaxGradOp::getFlops() { return (getFrozen() ? 2 : 3) * headFlops(getInput(), getWeight()); }
double LinearCrossEntropyGradOp::getFlops() { return (getFrozen() ? 2 : 3) * headFlops(getInput(), getWeight()); }

ZC_INFER(LabelIndexOp) {
  Infer infer(location, types);
  if (static_cast<int64_t>(adaptor.getClasses()) < 1)
    return infer.error("[label_index_c1] there are " + Twine(static_cast<int64_t>(adaptor.getClasses())) + " classes");
  return infer.result(adaptor.getLabels().getType());
}

//===-- dropout ------------------------------------------------------------===//

static LogicalResult checkRatio(const Infer &infer, const APFloat &ratio) {
  double value = ratio.convertToDouble();
  if (value >= 0 && value < 1)
    return success();
  return infer.error("[dropout_c1] ratio " + Twine(std::to_string(value)) + " is outside [0, 1)");
}

ZC_INFER(DropoutOp) {
  Infer infer(location, types);
  Value input = adaptor.getInput();
  if (failed(checkRatio(infer, adaptor.getRatio())) ||
      failed(infer.numbersOfPart(adaptor.getRun(), adaptor.getStride())))
    return failure();
  return failure(failed(infer.result(input.getType())) ||
                 failed(infer.result(shapeOf(input), IntegerType::get(input.getContext(), 1))));
}

ZC_INFER(DropoutMaskOp) {
  Infer infer(location, types);
  if (failed(checkRatio(infer, adaptor.getRatio())) ||
      failed(infer.numbersOfPart(adaptor.getRun(), adaptor.getStride())))
    return failure();
  return infer.result(adaptor.getShape(), IntegerType::get(adaptor.getRatioAttr().getContext(), 1));
}

ZC_INFER(DropoutGradOp) {
  Infer infer(location, types);
  if (failed(checkRatio(infer, adaptor.getRatio())) ||
      failed(infer.hasShape("dropout_c2", "mask", adaptor.getMask(), shapeOf(adaptor.getGrad()))))
    return failure();
  return infer.result(adaptor.getGrad().getType());
}

ZC_INFER(RandomOp) {
  Infer infer(location, types);
  auto type = dyn_cast<RankedTensorType>(adaptor.getType());
  if (!type || !isa<FloatType>(type.getElementType()))
    return infer.error("[random_c1] " + toText(adaptor.getType()) + " is no tensor of floats");
  if (failed(infer.numbersOfPart(adaptor.getRun(), adaptor.getStride())))
    return failure();
  return infer.result(type);
}

bool DropoutOp::dependsOnMicroStep() { return true; }
bool DropoutMaskOp::dependsOnMicroStep() { return true; }
bool RandomOp::dependsOnMicroStep() { return true; }
