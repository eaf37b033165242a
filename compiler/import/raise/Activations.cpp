//===- Activations.cpp - SiLU, both GELUs, logarithms in losses ----------------===//
#include "compiler/import/raise/Match.h"
#include "dialects/graph/Gradient.h"

using namespace mlir;
using namespace zc::graph;
using namespace zc::importer;

namespace {

/// x * sigmoid(x)
struct RaiseSilu : OpRewritePattern<MulOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(MulOp op, PatternRewriter &rewriter) const override {
    return success(eitherOrder(op, [&](Value x, Value s) {
      auto sigmoid = s.getDefiningOp<SigmoidOp>();
      if (!sigmoid || sigmoid.getInput() != x)
        return false;
      rewriter.replaceOpWithNewOp<SiluOp>(op, x);
      return true;
    }));
  }
};

/// erf(x / sqrt 2)
bool isErfOf(Value value, Value x) {
  auto erf = value.getDefiningOp<ErfOp>();
  if (!erf)
    return false;
  Factors inner = factorsOf(erf.getInput());
  return inner.values.size() == 1 && inner.values[0] == x && isNear(inner.scalar, std::sqrt(0.5));
}

/// c x^power with c = 0.044715
bool isCubicTerm(Value value, Value x, unsigned power) {
  Factors term = factorsOf(value);
  return term.values.size() == power && llvm::all_equal(term.values) && term.values[0] == x &&
         isNear(term.scalar, 0.044715);
}

/// tanh(sqrt(2 / pi) (x + 0.044715 x^3)), also with x taken out of the bracket
bool isTanhOf(Value value, Value x) {
  auto tanh = value.getDefiningOp<TanhOp>();
  if (!tanh)
    return false;
  Factors inner = factorsOf(tanh.getInput());
  if (!isNear(inner.scalar, std::sqrt(2 / M_PI)))
    return false;
  if (inner.values.size() == 1) {
    auto add = inner.values[0].getDefiningOp<AddOp>();
    return add && eitherOrder(add, [&](Value a, Value b) { return a == x && isCubicTerm(b, x, 3); });
  }
  if (inner.values.size() != 2)
    return false;
  auto bracket = addedConstant(inner.values[inner.values[0] == x ? 1 : 0]);
  return llvm::is_contained(inner.values, x) && bracket && isNear(bracket->constant, 1) &&
         isCubicTerm(bracket->value, x, 2);
}

/// 0.5 x (1 + erf or tanh), the factors in any order
struct RaiseGelu : OpRewritePattern<MulOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(MulOp op, PatternRewriter &rewriter) const override {
    Factors factors = factorsOf(op.getResult());
    if (factors.values.size() != 2 || !isNear(factors.scalar, 0.5))
      return failure();
    for (unsigned i = 0; i < 2; ++i) {
      Value x = factors.values[i];
      auto gate = addedConstant(factors.values[1 - i]);
      if (!gate || !isNear(gate->constant, 1) || !sameType(x, op.getResult()) || !sameType(gate->value, x))
        continue;
      bool tanh = isTanhOf(gate->value, x);
      if (!tanh && !isErfOf(gate->value, x))
        continue;
      rewriter.replaceOpWithNewOp<GeluOp>(op, x, tanh);
      return success();
    }
    return failure();
  }
};

/// The logarithm that `op` is, but not below -100: the larger one, as torch.export writes binary_cross_entropy apart,
/// or a selection, as which clamp is imported. Null: it is something else.
LogOp flooredLog(Operation *op) {
  Value log;
  if (auto max = dyn_cast<MaxOp>(op)) {
    eitherOrder(max, [&](Value a, Value b) {
      log = splatOf(b) == -100.0 ? a : Value();
      return bool(log);
    });
  } else if (auto select = dyn_cast<SelectOp>(op); select && splatOf(select.getLhs()) == -100.0) {
    auto isBelow = select.getCondition().getDefiningOp<LessOp>();
    if (isBelow && isBelow.getLhs() == select.getRhs() && splatOf(isBelow.getRhs()) == -100.0)
      log = select.getRhs();
  }
  return log && sameType(log, op->getResult(0)) ? log.getDefiningOp<LogOp>() : LogOp();
}

/// Its derivative is 1 / max(u, 1e-12), as torch's: that of the parts is 0 times an infinity where u has reached 0.
template <typename FloorT> struct RaiseFlooredLog : OpRewritePattern<FloorT> {
  using OpRewritePattern<FloorT>::OpRewritePattern;
  LogicalResult matchAndRewrite(FloorT op, PatternRewriter &rewriter) const override {
    LogOp log = flooredLog(op);
    if (!log || log.getInput().template getDefiningOp<BitcastOp>())
      return failure();
    TensorBuilder on(rewriter, op.getLoc());
    Value u = log.getInput(), fixed = on.make<BitcastOp>(u, TypeAttr::get(tensorOf(u).getElementType()));
    Value difference = on.sub(u, fixed);
    Value slope = on.div(difference, on.make<MaxOp>(fixed, on.scalar(1e-12, u)));
    Value floored = on.make<MaxOp>(on.make<LogOp>(fixed), on.scalar(-100, u));
    rewriter.replaceOp(op, on.add(slope, floored));
    return success();
  }
};

/// log(sigmoid(x)) and log(1 - sigmoid(x)), as exporters write torch's logsigmoid and binary_cross_entropy_with_logits:
/// -softplus of -x and of x, which is finite where a sigmoid in floating point has reached 0 or 1. In torch's
/// binary_cross_entropy it has, and the logarithm is -100.
struct RaiseLogSigmoid : OpRewritePattern<LogOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(LogOp op, PatternRewriter &rewriter) const override {
    Value rest = restOf(op.getInput());
    auto sigmoid = (rest ? rest : op.getInput()).getDefiningOp<SigmoidOp>();
    bool isOfLoss = llvm::any_of(op->getUsers(), [&](Operation *user) { return flooredLog(user) == op; });
    if (!sigmoid || isOfLoss || !sameType(sigmoid.getResult(), op.getResult()))
      return failure();
    Value x = sigmoid.getInput();
    if (!rest)
      x = rewriter.create<NegOp>(op.getLoc(), x);
    rewriter.replaceOpWithNewOp<NegOp>(op, rewriter.create<SoftplusOp>(op.getLoc(), x));
    return success();
  }

  /// p where `value` is 1 - p, or -p + 1; else null.
  static Value restOf(Value value) {
    if (auto sub = value.getDefiningOp<SubOp>())
      return splatOf(sub.getLhs()) == 1.0 ? sub.getRhs() : Value();
    auto sum = addedConstant(value);
    auto neg = sum && sum->constant == 1 ? sum->value.getDefiningOp<NegOp>() : NegOp();
    return neg ? neg.getInput() : Value();
  }
};

} // namespace

void zc::importer::addActivationPatterns(RewritePatternSet &patterns) {
  patterns.add<RaiseSilu, RaiseGelu, RaiseFlooredLog<MaxOp>, RaiseFlooredLog<SelectOp>, RaiseLogSigmoid>(
      patterns.getContext());
}
