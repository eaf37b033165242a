//===- LossOps.cpp - losses, of ONNX nodes and of --loss-op --------------------===//
#include "compiler/import/handlers/LossOps.h"
#include "compiler/import/handlers/Expr.h"

using namespace zc::importer;
using namespace zc::graph;
using mlir::Type;
using mlir::Value;

namespace {

//===-- classes ----------------------------------------------------------------===//

/// [N, C, d1, ...] -> [N d1 ..., C]
Value rowsOfClasses(Node &node, Value x) {
  int64_t rank = rankOf(x), classes = dimsOf(x)[1];
  llvm::SmallVector<int64_t> permutation{0};
  for (int64_t d = 2; d < rank; ++d)
    permutation.push_back(d);
  permutation.push_back(1);
  int64_t rows = classes == 0 ? 0 : countOf(dimsOf(x)) / classes;
  return node.reshape(node.transpose(x, permutation), {rows, classes});
}

bool hasProbabilities(const ClassLoss &loss) {
  return isFloat(loss.labels) && dimsOf(loss.labels) == dimsOf(loss.scores);
}

bool check(Node &node, const ClassLoss &loss, bool mayHaveProbabilities) {
  llvm::SmallVector<int64_t> wanted(dimsOf(loss.scores));
  if (wanted.size() >= 2)
    wanted.erase(wanted.begin() + 1);
  bool isIndex = llvm::isa_and_nonnull<mlir::IntegerType>(elementOf(loss.labels));
  bool fits =
      isIndex ? dimsOf(loss.labels) == llvm::ArrayRef<int64_t>(wanted) : mayHaveProbabilities && hasProbabilities(loss);
  if (rankOf(loss.scores) < 2 || !fits)
    node.invalid("scores " + shapeText(dimsOf(loss.scores)) + " and labels " + shapeText(dimsOf(loss.labels)) +
                 (isIndex ? "" : " of no integer type") + " do not match");
  else if (loss.weights && dimsOf(loss.weights) != dimsOf(loss.scores).slice(1, 1))
    node.invalid("there are " + shapeText(dimsOf(loss.weights)) + " class weights for " +
                 std::to_string(dimsOf(loss.scores)[1]) + " classes");
  else if (loss.reduction != "mean" && loss.reduction != "sum" && loss.reduction != "none")
    node.invalid("reduction is '" + loss.reduction + "'");
  return !node.failed();
}

Value makeFused(Node &node, Value logits, Value labels, const ClassLoss &loss) {
  return node.make<CrossEntropyOp>(
      {logits, labels}, node.attrs().integer("ignore_index", loss.ignoreIndex).flag("sum", loss.reduction == "sum"));
}

/// Row by row -sum over c of w[c] p[c] log q[c], where p is a row of probabilities, or null: all classes alike. A mean
/// then: a sum over many classes is more than 16 bits hold.
Value againstAll(Node &node, Value logProbabilities, Value probabilities, const ClassLoss &loss) {
  Expr terms(node, logProbabilities);
  if (probabilities)
    terms = terms * Expr(node, probabilities);
  if (loss.weights)
    terms = terms * Expr(node, loss.weights).cast(terms.element());
  const Attrs classes = node.attrs().ints("axes", {1});
  return -Expr(node,
               probabilities ? node.make<ReduceSumOp>({terms}, classes) : node.make<ReduceMeanOp>({terms}, classes));
}

/// Labels that are probabilities: torch's mean is over rows, whatever the weights.
Value fromProbabilities(Node &node, Value logProbabilities, const ClassLoss &loss) {
  double classes = static_cast<double>(dimsOf(loss.scores)[1]);
  Expr labels(node, node.cast(rowsOfClasses(node, loss.labels), elementOf(logProbabilities)));
  if (loss.smoothing != 0)
    labels = labels * (1 - loss.smoothing) + loss.smoothing / classes;
  Value each = againstAll(node, logProbabilities, labels, loss);
  llvm::SmallVector<int64_t> shape(dimsOf(loss.labels));
  shape.erase(shape.begin() + 1);
  if (loss.reduction == "none")
    return node.reshape(each, shape);
  const Attrs rows = node.attrs().ints("axes", {0});
  return loss.reduction == "sum" ? node.make<ReduceSumOp>({each}, rows) : node.make<ReduceMeanOp>({each}, rows);
}

/// Row by row, from log-probabilities [rows, C]: what the fused operation does not do.
Value makePicked(Node &node, Value logProbabilities, Value labels, const ClassLoss &loss) {
  int64_t rows = dimsOf(labels)[0], classes = dimsOf(loss.scores)[1];
  Type element = elementOf(logProbabilities);
  Value index = node.make<LabelIndexOp>(
      {labels}, node.attrs().integer("classes", classes).integer("ignore_index", loss.ignoreIndex));
  Value picked =
      node.make<GatherElementsOp>({logProbabilities, node.reshape(index, {rows, 1})}, node.attrs().integer("axis", 1));
  Value each = node.make<NegOp>({node.reshape(picked, {rows})});
  Value weight = loss.weights
                     ? node.make<GatherOp>({node.cast(loss.weights, element), index}, node.attrs().integer("axis", 0))
                     : node.expand(node.scalar(1, element), {rows});
  if (!loss.weights && weight)
    node.pickedRows().countAs(weight, labels);
  if (loss.weights)
    each = node.make<MulOp>({each, weight});
  if (loss.smoothing != 0)
    each = (1 - loss.smoothing) * Expr(node, each) +
           loss.smoothing * Expr(node, againstAll(node, logProbabilities, {}, loss));
  if (loss.ignoreIndex != nothingIgnored) {
    Value ignored = node.make<EqualOp>({labels, node.scalar(static_cast<double>(loss.ignoreIndex), elementOf(labels))});
    Value zero = node.scalar(0, element);
    each = node.make<SelectOp>({ignored, zero, each});
    weight = node.make<SelectOp>({ignored, zero, weight});
  }
  if (loss.reduction == "none")
    return node.reshape(each, dimsOf(loss.labels));
  auto sum = [&](Value x) { return node.make<ReduceSumOp>({x}, node.attrs().ints("axes", {0})); };
  return loss.reduction == "sum" ? sum(each) : node.make<DivOp>({sum(each), sum(weight)});
}

//===-- values -----------------------------------------------------------------===//

Value meanOfAll(Node &node, Value x) {
  llvm::SmallVector<int64_t> axes(rankOf(x));
  for (size_t d = 0; d < axes.size(); ++d)
    axes[d] = static_cast<int64_t>(d);
  return node.make<ReduceMeanOp>({x}, node.attrs().ints("axes", axes));
}

Value meanSquaredError(Node &node, Value out, Value target) {
  Value difference = node.make<SubOp>({out, target});
  return meanOfAll(node, node.make<MulOp>({difference, difference}));
}

Value meanAbsoluteError(Node &node, Value out, Value target) {
  return meanOfAll(node, node.make<AbsOp>({node.make<SubOp>({out, target})}));
}

/// d^2 / 2 below 1, |d| - 1/2 beyond.
Value smoothAbsoluteError(Node &node, Value out, Value target) {
  Value d = node.make<AbsOp>({node.make<SubOp>({out, target})});
  Value half = node.scalar(0.5, elementOf(out)), one = node.scalar(1, elementOf(out));
  Value square = node.make<MulOp>({half, node.make<MulOp>({d, d})});
  Value isSmall = node.make<LessOp>({d, one});
  return meanOfAll(node, node.make<SelectOp>({isSmall, square, node.make<SubOp>({d, half})}));
}

/// max(x, 0) - x t + log(1 + e^-|x|): no overflow for any x. |x| and max(x, 0) are selections, of which the piece for
/// x <= 0 has the gradient at 0: 0 - t + 1/2 there, as in torch, and a last layer that starts from zeros learns.
Value binaryCrossEntropyWithLogits(Node &node, Value out, Value target) {
  Expr x(node, out), t(node, target), isPositive = x.number(0).apply<LessOp>(x);
  Expr tail = (-x).where(isPositive, x).apply<SoftplusOp>();
  return meanOfAll(node, x.where(isPositive, x.number(0)) - x * t + tail);
}

/// -(t log p + (1 - t) log(1 - p)); logarithms not below -100, as torch. So is the derivative, which is finite where a
/// sigmoid has reached 0 or 1: (p - t) / max(p (1 - p), 1e-12), the factor of a difference that is 0.
Value binaryCrossEntropy(Node &node, Value out, Value target) {
  Expr p(node, out), t(node, target), fixed = p.detached(), rest = 1 - fixed;
  auto logOf = [](Expr x) { return x.apply<LogOp>().apply<MaxOp>(-100.0); };
  Expr loss = t * logOf(fixed) + (1 - t) * logOf(rest);
  Expr slope = (fixed - t.detached()) / (fixed * rest).apply<MaxOp>(1e-12);
  return meanOfAll(node, (p - fixed) * slope - loss);
}

/// Scores with the classes in dimension 1, as torch wants them: those of language models have them last.
ClassLoss torchClasses(Node &node, Value out, Value target) {
  auto scores = dimsOf(out);
  int64_t rank = rankOf(out);
  bool areLast = rank > 2 && dimsOf(target) == scores.drop_back() &&
                 (rank == 3 || dimsOf(target).drop_front() != scores.drop_front(2));
  if (!areLast)
    return {out, target, {}, -100, "mean"};
  int64_t rows = scores.back() == 0 ? 0 : countOf(scores) / scores.back();
  return {node.reshape(out, {rows, scores.back()}), node.reshape(target, {rows}), {}, -100, "mean"};
}

constexpr NamedLoss losses[] = {
    {"cross_entropy", "cross_entropy", true,
     [](Node &node, Value out, Value target) { return crossEntropy(node, torchClasses(node, out, target)); }},
    {"nll", "nll_loss", true,
     [](Node &node, Value out, Value target) { return negativeLogLikelihood(node, torchClasses(node, out, target)); }},
    {"mse", "mse_loss", false, meanSquaredError},
    {"l1", "l1_loss", false, meanAbsoluteError},
    {"smooth_l1", "smooth_l1_loss", false, smoothAbsoluteError},
    {"bce", "binary_cross_entropy", false, binaryCrossEntropy},
    {"bce_with_logits", "binary_cross_entropy_with_logits", false, binaryCrossEntropyWithLogits},
};

} // namespace

Value zc::importer::crossEntropy(Node &node, const ClassLoss &loss) {
  if (!check(node, loss, true))
    return {};
  Value logits = rowsOfClasses(node, loss.scores);
  auto logProbabilities = [&] { return node.make<LogSoftmaxOp>({logits}, node.attrs().integer("axis", 1)); };
  if (hasProbabilities(loss))
    return fromProbabilities(node, logProbabilities(), loss);
  Value labels = node.reshape(loss.labels, {countOf(dimsOf(loss.labels))});
  if (!loss.weights && loss.reduction != "none" && loss.smoothing == 0)
    return makeFused(node, logits, labels, loss);
  return makePicked(node, logProbabilities(), labels, loss);
}

Value zc::importer::negativeLogLikelihood(Node &node, const ClassLoss &loss) {
  if (!check(node, loss, false))
    return {};
  Value labels = node.reshape(loss.labels, {countOf(dimsOf(loss.labels))});
  auto logSoftmax = loss.scores.getDefiningOp<LogSoftmaxOp>();
  if (logSoftmax && logSoftmax.getAxis() == 1 && !loss.weights && loss.reduction != "none")
    return makeFused(node, rowsOfClasses(node, logSoftmax.getInput()), labels, loss);
  return makePicked(node, rowsOfClasses(node, loss.scores), labels, loss);
}

llvm::ArrayRef<NamedLoss> zc::importer::namedLosses() { return losses; }

llvm::SmallVector<int64_t> zc::importer::labelShape(llvm::ArrayRef<int64_t> scores) {
  llvm::SmallVector<int64_t> shape(scores);
  if (shape.size() >= 2)
    shape.erase(shape.size() <= 3 ? shape.end() - 1 : shape.begin() + 1);
  return shape;
}
