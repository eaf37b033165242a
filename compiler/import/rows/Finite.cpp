//===- Finite.cpp - rows that do not count have gradients of 0 ----------------------===//
#include "compiler/import/rows/Finite.h"
#include "dialects/graph/Gradient.h"

#include <cmath>

using namespace zc;
using namespace mlir;
using namespace zc::graph;
using namespace zc::importer;

constexpr int mostOperations = 64; ///< looked at for one answer

static bool isParameter(Value value) {
  Operation *op = value.getDefiningOp();
  while (op && movesElements(op))
    op = op->getOperand(0).getDefiningOp();
  return isa_and_nonnull<ReadOp>(op);
}

static bool isFinite(Value value, const Constants &constants, int &budget) {
  if (!isa<FloatType>(elementOf(value)))
    return true;
  if (const HostTensor *known = constants.of(value))
    return llvm::all_of(llvm::seq<int64_t>(0, known->stored()),
                        [&](int64_t i) { return std::isfinite(known->valueAt(i)); });
  Operation *op = value.getDefiningOp();
  if (!op || --budget < 0)
    return false;
  bool isProduct = isa<MulOp, MatmulOp, LayerNormOp, RmsNormOp, GroupNormOp, ConvOp>(op);
  if (isa<ReadOp>(op) || (isProduct && llvm::any_of(op->getOperands(), isParameter)))
    return true;
  bool isTame = isElementwise(op) ? op->hasTrait<BearsZeros>() && !isa<Singular>(op)
                                  : movesElements(op) || isa<GatherOp, SliceOp, ConcatOp, DropoutOp>(op);
  return isTame && llvm::all_of(op->getOperands(), [&](Value v) { return isFinite(v, constants, budget); });
}

bool zc::importer::isFinite(Value value, const Constants &constants) {
  int budget = mostOperations;
  return ::isFinite(value, constants, budget);
}

static std::optional<double> numberOf(Value value, const Constants &constants) {
  const HostTensor *known = constants.of(value);
  return known && known->stored() == 1 ? std::optional(known->valueAt(0)) : std::nullopt;
}

static bool isSquare(Operation *op, const Constants &constants) {
  if (auto pow = dyn_cast<PowOp>(op)) {
    std::optional<double> exponent = numberOf(pow.getRhs(), constants);
    return exponent && std::fmod(*exponent, 2) == 0;
  }
  auto mul = dyn_cast<MulOp>(op);
  return mul && mul.getLhs() == mul.getRhs();
}

/// Is it positive, or not negative (sums of squares, with and without an epsilon), as far as that is seen?
static bool isAbove0(Value value, bool positive, const Constants &constants, int depth = 8) {
  if (std::optional<double> number = numberOf(value, constants))
    return positive ? *number > 0 : *number >= 0;
  Operation *op = value.getDefiningOp();
  if (!op || depth == 0)
    return false;
  auto is = [&](unsigned i, bool above) { return isAbove0(op->getOperand(i), above, constants, depth - 1); };
  if (movesElements(op) || isa<SqrtOp, ReduceMeanOp, ReduceSumOp>(op))
    return is(0, positive);
  if (isa<AddOp>(op))
    return is(0, false) && is(1, false) && (!positive || is(0, true) || is(1, true));
  return !positive && (isa<AbsOp, ReluOp, SigmoidOp>(op) || isSquare(op, constants));
}

static bool mayDivideBy0(Value value, const Constants &constants, int &budget) {
  Operation *op = value.getDefiningOp();
  if (!op || --budget < 0 || constants.of(value))
    return false;
  bool isQuotient = isa<DivOp, ReciprocalOp>(op) && isa<FloatType>(elementOf(value));
  if (isQuotient && !isAbove0(op->getOperand(op->getNumOperands() - 1), true, constants))
    return true;
  return llvm::any_of(op->getOperands(), [&](Value v) { return mayDivideBy0(v, constants, budget); });
}

bool zc::importer::mayDivideBy0(Value value, const Constants &constants) {
  int budget = mostOperations;
  return ::mayDivideBy0(value, constants, budget);
}

/// Does a mask of -inf go into it, so that a row may be nothing else?
static bool mayBeAllMasked(Value value, const Constants &constants, int depth = 6) {
  Operation *op = value.getDefiningOp();
  if (!op || depth == 0 || !(isElementwise(op) || movesElements(op)))
    return false;
  return llvm::any_of(op->getOperands(), [&](Value operand) {
    return numberOf(operand, constants) == -std::numeric_limits<double>::infinity() ||
           mayBeAllMasked(operand, constants, depth - 1);
  });
}

static bool isHarmless(Operation *op, unsigned index, Harmless::Unless unless, const Constants &constants) {
  switch (unless) {
  case Harmless::never:
    return false;
  case Harmless::positive:
    return isAbove0(op->getOperand(index), true, constants);
  case Harmless::unmasked:
    return !mayBeAllMasked(op->getOperand(index), constants);
  case Harmless::exponent: {
    std::optional<double> exponent = numberOf(op->getOperand(1), constants);
    return exponent && *exponent >= 1 && std::trunc(*exponent) == *exponent;
  }
  }
  return false;
}

std::optional<double> zc::importer::harmlessNumber(Operation *op, unsigned index, const Constants &constants) {
  auto singular = dyn_cast<Singular>(op);
  if (!singular || !isa<FloatType>(elementOf(op->getOperand(index))))
    return std::nullopt;
  std::optional<Harmless> instead = singular.getHarmless(index);
  return instead && !isHarmless(op, index, instead->unless, constants) ? std::optional(instead->number) : std::nullopt;
}
