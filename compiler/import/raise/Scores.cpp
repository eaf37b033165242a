//===- Scores.cpp - what stands between a product of queries and keys and its softmax --===//
#include "compiler/import/raise/Scores.h"
#include "compiler/import/base/Softcap.h"
#include "dialects/graph/Gradient.h"

#include <cmath>

using namespace mlir;
using namespace zc::graph;
using namespace zc::importer;

Value zc::importer::unscaled(Value value, double &scale) {
  Factors factors = factorsOf(value);
  if (factors.values.size() != 1 || !sameType(factors.values[0], value))
    return value;
  scale *= factors.scalar;
  return factors.values[0];
}

namespace {

std::optional<Scores> matchProduct(const Factors &factors, Value value) {
  Scores scores;
  scores.scale = factors.scalar;
  for (Value factor : factors.values) {
    auto product = factor.getDefiningOp<MatmulOp>();
    if (product && !scores.product && sameType(factor, value))
      scores.product = product;
    else if (dimsOf(factor).empty() || dimsOf(factor).back() == 1)
      scores.factors.push_back(factor);
    else
      return std::nullopt;
  }
  return scores.product && !scores.product.getBias() ? std::optional(scores) : std::nullopt;
}

/// cap * tanh(scale * product / cap)
std::optional<Scores> matchCapped(const Factors &factors, Value value) {
  auto tanh = factors.values.size() == 1 ? factors.values[0].getDefiningOp<TanhOp>() : TanhOp();
  auto scores = tanh && sameType(tanh.getResult(), value) && mayBeSoftcap(factors.scalar)
                    ? matchProduct(factorsOf(tanh.getInput()), tanh.getInput())
                    : std::nullopt;
  if (!scores)
    return std::nullopt;
  scores->cap = factors.scalar;
  scores->scale *= scores->cap;
  return scores;
}

std::optional<Scores> matchScores(Value value) {
  const Factors factors = factorsOf(value);
  auto scores = matchProduct(factors, value);
  return scores ? scores : matchCapped(factors, value);
}

/// Of a table that may be trained the op has the gradient where it has an element for each score of a head.
bool mayBeAdded(Value mask, Value scores) {
  return AttentionGradOp::hasMaskGradient(tensorOf(mask), dimsOf(scores).take_back(2)) ||
         !dependsOnFloatParameter(mask);
}

/// Is nothing added that may hide a key?
bool isUnmasked(const Masked &masked) {
  return llvm::none_of(masked.added, [](const Added &added) { return mayBeLow(added.value); });
}

/// Scores where `condition` says so, `low` elsewhere. Rows that are masked as a whole would be NaN of -inf and are
/// zeros in the attention op; of another low number they are averages.
std::optional<Masked> withCondition(std::optional<Masked> masked, Condition condition, double low, Dims scores,
                                    bool averages) {
  if (!masked || hidesNothing(condition.value, condition.keeps))
    return masked;
  const bool isFinite = low != -INFINITY;
  const bool isAlone = masked->conditions.empty() && isUnmasked(*masked);
  // One after the other, as a window behind a causal mask: under all of them each row keeps its own key.
  auto keepsOwn = [&](const Condition &part) { return everyRowKeepsItsOwn(part, scores[0], scores[1]); };
  const auto parts = partsOf(condition);
  const bool isOneOfMany = isFinite && masked->isAveraged && !masked->mayAverageRows && isUnmasked(*masked) &&
                           llvm::all_of(masked->conditions, keepsOwn) && llvm::all_of(parts, keepsOwn);
  if (isOneOfMany) {
    masked->low = std::max(masked->low, low); // what is true of the higher one is of both
    llvm::append_range(masked->conditions, parts);
    return masked;
  }
  if (masked->isAveraged || (isFinite && !isAlone))
    return std::nullopt;
  masked->isAveraged = isFinite;
  masked->low = isFinite ? low : 0;
  masked->mayAverageRows = isFinite && !everyRowKeepsOne(condition.value, scores[0], scores[1], condition.keeps);
  if (masked->mayAverageRows && !averages)
    return std::nullopt;
  llvm::append_range(masked->conditions, parts);
  return masked;
}

std::optional<Masked> matchSelected(SelectOp select, bool averages, int most) {
  for (bool keeps : {true, false}) {
    Value kept = keeps ? select.getLhs() : select.getRhs();
    auto low = splatOf(keeps ? select.getRhs() : select.getLhs());
    if (low && isLow(*low) && sameType(kept, select.getResult()))
      if (auto found = withCondition(matchMasked(kept, averages, most - 1), {select.getCondition(), keeps}, *low,
                                     dimsOf(kept).take_back(2), averages))
        return found;
  }
  return std::nullopt;
}

bool isCausal(const Added &mask, Dims scores) {
  return mask.factor > 0 && isCausalMask(mask.value, scores[0], scores[1]);
}

/// Does what hides by `mask` hide all that `condition` does? `scores`: queries and keys.
bool hidesAll(const Hiding &mask, const Condition &condition, Dims scores) {
  auto own = bandOf(condition.value, scores[0], scores[1], condition.keeps);
  return llvm::any_of(partsOf(mask.condition), [&](const Condition &part) {
    auto band = own ? bandOf(part.value, scores[0], scores[1], part.keeps) : std::nullopt;
    return (part.value == condition.value && part.keeps == condition.keeps) ||
           (band && own->first <= band->first && band->last <= own->last);
  });
}

/// GPT-Neo fills scores that are causal with the lowest number, then adds a mask of it that is causal, too: what both
/// hide is -inf, and the other numbers are but added. (What the fill alone hid would have no gradient where a row shows
/// no other key, as what is added has.)
bool isInfiniteBeside(const Masked &masked, const Added &mask, Dims scores) {
  const std::optional<Hiding> hiding = mask.factor == 1 ? hidingOf(mask.value) : std::nullopt;
  return hiding && tensorOf(mask.value).getElementType().isF32() &&
         std::isinf(static_cast<float>(hiding->low) + static_cast<float>(masked.low)) &&
         llvm::all_of(masked.conditions, [&](const Condition &own) { return hidesAll(*hiding, own, scores); });
}

/// `mask` is added to what `masked` is; or not, if a condition hides all that it hides.
std::optional<Masked> withAdded(std::optional<Masked> masked, Added mask, Dims scores) {
  if (!masked || hidesNothing(mask.value))
    return masked;
  if (masked->mayAverageRows) // of what this mask shows alone
    return std::nullopt;
  auto band = mask.factor > 0 ? bandOf(mask.value, scores[0], scores[1]) : std::nullopt;
  auto hidesAsMuch = [&](const Condition &condition) {
    auto own = bandOf(condition.value, scores[0], scores[1], condition.keeps);
    return own && band->first <= own->first && own->last <= band->last;
  };
  if (band && llvm::any_of(masked->conditions, hidesAsMuch))
    return masked;
  if (masked->isAveraged && isInfiniteBeside(*masked, mask, scores))
    masked->isAveraged = false;
  if (masked->isAveraged && mayBeLow(mask.value))
    return std::nullopt;
  masked->added.push_back(mask);
  return masked;
}

/// `mask` is added, as a condition if it is one that some rows keep less by than others, and leaves each a key: blocks
/// are left out then. One that may hide a row as a whole stays a number: averages beside the attention would keep it
/// from reading and writing through views.
std::optional<Masked> withMask(Value scores, Value mask, bool averages, int most) {
  constexpr double kNothingBeside = -1e30; // of a score that it is added to
  Dims dims = dimsOf(scores).take_back(2);
  auto isOfRows = [](const Condition &part) {
    Dims of = dimsOf(part.value);
    return of.size() >= 2 && of[of.size() - 2] > 1;
  };
  auto masked = matchMasked(scores, averages, most);
  auto hiding = hidingOf(mask);
  if (hiding && hiding->low <= kNothingBeside && llvm::any_of(partsOf(hiding->condition), isOfRows))
    if (auto found = withCondition(masked, hiding->condition, hiding->low, dims, /*averages=*/false))
      return found;
  return mayBeAdded(mask, scores) ? withAdded(masked, {mask}, dims) : std::nullopt;
}

/// scale * (scores + mask) = scale * scores + scale * mask
std::optional<Masked> scaled(std::optional<Masked> masked, double scale) {
  // What hides must still be low afterwards.
  if (!masked || masked->isAveraged || scale < 1e-2 || !std::isfinite(scale))
    return std::nullopt;
  masked->scores.scale *= scale;
  masked->scores.cap *= scale;
  if (masked->scores.cap != 0 && !mayBeSoftcap(masked->scores.cap))
    return std::nullopt;
  for (Added &added : masked->added)
    added.factor *= scale;
  return masked;
}

/// max(scores + mask, the lowest finite number): the same, unless that makes an average of a row that -inf hides.
std::optional<Masked> floored(std::optional<Masked> masked, Dims scores) {
  if (!masked || !masked->conditions.empty() || llvm::any_of(masked->added, [&](const Added &added) {
        return mayBeLow(added.value) && !isCausal(added, scores);
      }))
    return std::nullopt;
  return masked;
}

bool fits(Value mask, Dims scores) {
  Dims dims = dimsOf(mask);
  if (dims.size() > scores.size())
    return false;
  return llvm::all_of_zip(dims, scores.take_back(dims.size()),
                          [](int64_t d, int64_t full) { return d == 1 || d == full; });
}

} // namespace

std::optional<Masked> zc::importer::matchMasked(Value value, bool averages, int most) {
  if (auto scores = matchScores(value))
    return Masked{*scores, {}, {}};
  if (most == 0 || tensorOf(value).getRank() < 2)
    return std::nullopt;
  double scale = 1;
  if (Value inner = unscaled(value, scale); inner != value && inner.hasOneUse())
    return scaled(matchMasked(inner, averages, most - 1), scale);
  if (auto select = value.getDefiningOp<SelectOp>())
    return matchSelected(select, averages, most);
  std::optional<Masked> found;
  if (auto max = value.getDefiningOp<MaxOp>())
    eitherOrder(max, [&](Value a, Value floor) {
      if (auto low = splatOf(floor); low && *low < -1e38 && sameType(a, value))
        found = floored(matchMasked(a, averages, most - 1), dimsOf(a).take_back(2));
      return found.has_value();
    });
  if (auto add = value.getDefiningOp<AddOp>())
    eitherOrder(add, [&](Value a, Value mask) {
      // T5 adds a table of positions, then what hides padding.
      if (sameType(a, value))
        found = withMask(a, mask, averages, most - 1);
      return found.has_value();
    });
  // Funnel and XLNet: scores - 1e6 * hidden.
  if (auto sub = value.getDefiningOp<SubOp>(); sub && sameType(sub.getLhs(), value) && mayBeAdded(sub.getRhs(), value))
    return withAdded(matchMasked(sub.getLhs(), averages, most - 1), {sub.getRhs(), -1}, dimsOf(value).take_back(2));
  return found;
}

bool Masked::broadcastsTo(Dims full) const {
  return llvm::all_of(added, [&](const Added &a) { return fits(a.value, full); }) &&
         llvm::all_of(scores.factors, [&](Value factor) { return fits(factor, full); }) &&
         llvm::all_of(conditions, [&](const Condition &condition) { return fits(condition.value, full); });
}

Positions Masked::takePositions(Dims full) {
  full = full.take_back(2);
  const bool isAlone = conditions.empty() && added.size() == 1 && added[0].factor > 0;
  auto band = isAlone ? bandOf(added[0].value, full[0], full[1]) : std::nullopt;
  auto positions = band ? withBand({}, *band, full[0], full[1]) : std::nullopt;
  if (!positions)
    return importer::takePositions(conditions, {}, full[0], full[1]);
  added.clear();
  return *positions;
}

Value Masked::buildMask(int64_t rank, Location loc, PatternRewriter &rewriter) const {
  TensorBuilder on(rewriter, loc);
  Value kept = conjunctionOf(conditions, loc, rewriter), mask;
  for (auto [value, factor] : added) {
    Value term = factor == 1 ? value : on.scale(value, factor);
    mask = mask ? on.add(mask, term) : term;
  }
  if (kept && mask)
    mask = on.select(kept, mask, on.scalar(-INFINITY, mask));
  mask = mask ? mask : kept;
  return mask ? withRank(mask, rank, rewriter) : mask;
}
