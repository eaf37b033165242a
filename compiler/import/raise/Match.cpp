//===- Match.cpp - looking at values while recognising --------------------------===//
#include "compiler/import/raise/Match.h"

using namespace mlir;
using namespace zc::graph;
using namespace zc::importer;

std::optional<double> zc::importer::splatOf(Value value) {
  SplatElementsAttr splat;
  if (!matchPattern(value, m_Constant(&splat)) || !isa<FloatType>(splat.getElementType()))
    return std::nullopt;
  APFloat number = splat.getSplatValue<APFloat>();
  bool lossy = false;
  number.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &lossy);
  return number.convertToDouble();
}

std::optional<HostTensor> zc::importer::constantOf(Value value) {
  DenseElementsAttr dense;
  return matchPattern(value, m_Constant(&dense)) ? fromAttribute(dense) : std::nullopt;
}

std::optional<bool> zc::importer::truthOf(Value value) {
  SplatElementsAttr splat;
  if (!matchPattern(value, m_Constant(&splat)) || !splat.getElementType().isInteger(1))
    return std::nullopt;
  return splat.getSplatValue<bool>();
}

bool zc::importer::isNear(std::optional<double> value, double wanted) {
  return value && std::abs(*value - wanted) <= 1e-6 * std::abs(wanted);
}

/// The whole exponent of x^n if it is 2 or 3.
static int powerOf(PowOp pow) {
  auto exponent = splatOf(pow.getRhs());
  return isNear(exponent, 2) ? 2 : isNear(exponent, 3) ? 3 : 0;
}

Factors zc::importer::factorsOf(Value value) {
  Factors factors;
  llvm::SmallVector<Value> pending{value};
  while (!pending.empty()) {
    Value factor = pending.pop_back_val();
    Operation *op = factor.getDefiningOp();
    bool open = factor == value || factor.hasOneUse();
    if (auto constant = splatOf(factor)) {
      factors.scalar *= *constant;
    } else if (auto mul = dyn_cast_or_null<MulOp>(op); mul && open) {
      pending.append({mul.getRhs(), mul.getLhs()});
    } else if (auto div = dyn_cast_or_null<DivOp>(op); div && open && splatOf(div.getRhs()).value_or(0) != 0) {
      factors.scalar /= *splatOf(div.getRhs());
      pending.push_back(div.getLhs());
    } else if (auto pow = dyn_cast_or_null<PowOp>(op); pow && open && powerOf(pow)) {
      factors.values.append(powerOf(pow), pow.getLhs());
    } else {
      factors.values.push_back(factor);
    }
    if (pending.size() + factors.values.size() > 16)
      return {1, {value}};
  }
  return factors;
}

std::optional<Sum> zc::importer::addedConstant(Value value) {
  auto add = value.getDefiningOp<AddOp>();
  if (!add)
    return std::nullopt;
  if (auto constant = splatOf(add.getRhs()); constant && sameType(add.getLhs(), value))
    return Sum{add.getLhs(), *constant};
  if (auto constant = splatOf(add.getLhs()); constant && sameType(add.getRhs(), value))
    return Sum{add.getRhs(), *constant};
  return std::nullopt;
}

std::optional<int64_t> zc::importer::meanOverTail(Value value, Value x) {
  auto mean = value.getDefiningOp<ReduceMeanOp>();
  if (!mean || !mean.getKeepdims() || (x && mean.getInput() != x) || mean.getAxes().empty())
    return std::nullopt;
  int64_t rank = tensorOf(mean.getInput()).getRank(), first = mean.getAxes().front();
  bool tail = static_cast<int64_t>(mean.getAxes().size()) == rank - first;
  return tail ? std::optional<int64_t>(first) : std::nullopt;
}
