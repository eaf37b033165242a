//===- Positions.cpp - masks that say how far keys may be from queries -------------===//
#include "compiler/import/raise/Positions.h"
#include "compiler/import/raise/Match.h"
#include "dialects/graph/Gradient.h"

#include <algorithm>

using namespace mlir;
using namespace zc::graph;
using namespace zc::importer;

/// The last two dimensions are [rows, columns].
static bool endsWith(llvm::ArrayRef<int64_t> dims, int64_t rows, int64_t columns) {
  return dims.size() >= 2 && dims[dims.size() - 2] == rows && dims.back() == columns;
}

namespace {

/// A matrix of scores, or one that they are a part of. A bool is true where scores are kept, or where `keeps` is not.
struct Matrix {
  int64_t rows, columns;
  bool keeps;

  Band all() const { return {1 - rows, columns - 1}; }
  Band within(int64_t first, int64_t last) const { return {std::max(first, all().first), std::min(last, all().last)}; }
  std::optional<Band> of(Value mask, int depth) const;

private:
  std::optional<Band> ofTable(const HostTensor &table) const;
  std::optional<Band> ofComparison(Operation *compare) const;
  std::optional<Band> ofDistance(Value absolute, int64_t reach) const;
  std::optional<Band> ofSlice(SliceOp slice, int depth) const;
  /// The index of a column less that of a row where both are of the first: of a range of columns and one of rows.
  std::optional<int64_t> distance(Value column, Value row) const;
};

} // namespace

/// first, first + 1, ... to `count` of them, over and over: the first, of those that sums of a few do not overflow
/// with.
static std::optional<int64_t> rangeOf(Value value, int64_t count) {
  constexpr int64_t kMost = int64_t(1) << 40;
  auto tensor = constantOf(value);
  if (!tensor || tensor->isFloat() || count <= 0 || tensor->numElements() == 0 || tensor->numElements() % count != 0 ||
      tensor->intAt(0) > kMost || tensor->intAt(0) < -kMost)
    return std::nullopt;
  for (int64_t i = 0, n = tensor->numElements(); i < n; ++i)
    if (tensor->intAt(i) != tensor->intAt(0) + i % count)
      return std::nullopt;
  return tensor->intAt(0);
}

/// The same, also of sums and differences with numbers.
static std::optional<int64_t> countFrom(Value value, int64_t count) {
  constexpr int kSums = 16;
  int64_t added = 0;
  for (int i = 0; i < kSums && count != 1 && isa_and_nonnull<AddOp, SubOp>(value.getDefiningOp()); ++i) {
    Operation *op = value.getDefiningOp();
    auto number = rangeOf(op->getOperand(1), 1);
    if (!number)
      return std::nullopt;
    added += isa<AddOp>(op) ? *number : -*number;
    value = op->getOperand(0);
  }
  auto first = rangeOf(value, count);
  return first ? std::optional(*first + added) : std::nullopt;
}

std::optional<int64_t> Matrix::distance(Value column, Value row) const {
  llvm::ArrayRef<int64_t> dims = dimsOf(column);
  if (!(dims.size() == 1 ? dims[0] == columns : endsWith(dims, 1, columns)) || !endsWith(dimsOf(row), rows, 1))
    return std::nullopt;
  auto firstColumn = countFrom(column, columns), firstRow = countFrom(row, rows);
  return firstColumn && firstRow ? std::optional(*firstColumn - *firstRow) : std::nullopt;
}

/// Every matrix of it: exporters fold the batch in.
std::optional<Band> Matrix::ofTable(const HostTensor &table) const {
  if (!endsWith(table.dims, rows, columns) || table.numElements() == 0)
    return std::nullopt;
  auto isKept = [&](int64_t at) { return table.isFloat() ? table.floatAt(at) == 0 : (table.intAt(at) != 0) == keeps; };
  Band band{columns, -rows}; // of none
  for (int64_t row = 0, all = table.numElements() / columns; row < all; ++row)
    for (int64_t j = 0, i = row % rows; j < columns; ++j) {
      if (isKept(row * columns + j))
        band = {std::min(band.first, j - i), std::max(band.last, j - i)};
      else if (table.isFloat() && !isLow(table.floatAt(row * columns + j)))
        return std::nullopt;
    }
  for (int64_t row = 0, all = table.numElements() / columns; row < all; ++row)
    for (int64_t j = 0; j < columns; ++j)
      if (isKept(row * columns + j) != band.contains(j - row % rows))
        return std::nullopt;
  return band;
}

namespace {
/// lhs <= rhs + offset, of integers.
struct Comparison {
  Value lhs, rhs;
  int64_t offset;
};
} // namespace

/// Also of a difference with a number: row - column >= 0.
static Comparison comparisonOf(Operation *compare) {
  Comparison found{compare->getOperand(0), compare->getOperand(1), isa<LessOp>(compare) ? -1 : 0};
  auto lhs = countFrom(found.lhs, 1), rhs = countFrom(found.rhs, 1);
  if (auto difference = found.rhs.getDefiningOp<SubOp>(); difference && lhs)
    return {difference.getRhs(), difference.getLhs(), found.offset - *lhs};
  if (auto difference = found.lhs.getDefiningOp<SubOp>(); difference && rhs)
    return {difference.getLhs(), difference.getRhs(), found.offset + *rhs};
  return found;
}

/// |column - row| <= reach
std::optional<Band> Matrix::ofDistance(Value absolute, int64_t reach) const {
  auto abs = absolute.getDefiningOp<AbsOp>();
  auto difference = abs ? abs.getInput().getDefiningOp<SubOp>() : SubOp();
  if (!difference)
    return std::nullopt;
  auto far = distance(difference.getLhs(), difference.getRhs());
  if (!far)
    far = distance(difference.getRhs(), difference.getLhs());
  return far ? std::optional(within(-*far - reach, -*far + reach)) : std::nullopt;
}

std::optional<Band> Matrix::ofComparison(Operation *compare) const {
  const Comparison read = comparisonOf(compare);
  if (auto far = distance(read.lhs, read.rhs)) { // column <= row + offset
    const int64_t last = read.offset - *far;
    return keeps ? within(all().first, last) : within(last + 1, all().last);
  }
  if (auto far = distance(read.rhs, read.lhs)) { // row <= column + offset
    const int64_t first = -*far - read.offset;
    return keeps ? within(first, all().last) : within(all().first, first - 1);
  }
  if (auto reach = countFrom(read.rhs, 1); reach && keeps)
    return ofDistance(read.lhs, *reach + read.offset);
  if (auto reach = countFrom(read.lhs, 1); reach && !keeps)
    return ofDistance(read.rhs, *reach - read.offset - 1);
  return std::nullopt;
}

/// Neighbours of a table.
std::optional<Band> Matrix::ofSlice(SliceOp slice, int depth) const {
  llvm::ArrayRef<int64_t> dims = dimsOf(slice.getInput());
  if (dims.size() < 2 || !endsWith(dimsOf(slice), rows, columns) ||
      llvm::any_of(slice.getStrides().take_back(2), [](int64_t stride) { return stride != 1; }))
    return std::nullopt;
  const Matrix before{dims[dims.size() - 2], dims.back(), keeps};
  auto band = before.of(slice.getInput(), depth);
  const int64_t moved = slice.getOffsets().take_back(2)[1] - slice.getOffsets().take_back(2)[0];
  return band ? std::optional(within(band->first - moved, band->last - moved)) : std::nullopt;
}

std::optional<Band> Matrix::of(Value mask, int depth) const {
  if (hidesNothing(mask, keeps)) // whatever its shape
    return all();
  if (auto table = constantOf(mask))
    return ofTable(*table);
  Operation *op = mask.getDefiningOp();
  if (!op || depth == 0)
    return std::nullopt;
  if (isa<LessEqualOp, LessOp>(op))
    return ofComparison(op);
  if (isa<SelectOp>(op)) {
    auto hiding = hidingOf(mask);
    return hiding ? Matrix{rows, columns, hiding->condition.keeps}.of(hiding->condition.value, depth - 1)
                  : std::nullopt;
  }
  if (auto negation = dyn_cast<NotOp>(op))
    return Matrix{rows, columns, !keeps}.of(negation.getInput(), depth - 1);
  if (keeps ? isa<AndOp>(op) : isa<OrOp>(op)) {
    auto lhs = of(op->getOperand(0), depth - 1), rhs = lhs ? of(op->getOperand(1), depth - 1) : std::nullopt;
    return lhs && rhs ? std::optional(Band{std::max(lhs->first, rhs->first), std::min(lhs->last, rhs->last)})
                      : std::nullopt;
  }
  if (auto expand = dyn_cast<ExpandOp>(op))
    return of(expand.getInput(), depth - 1);
  if (auto slice = dyn_cast<SliceOp>(op))
    return ofSlice(slice, depth - 1);
  auto reshape = dyn_cast<ReshapeOp>(op);
  llvm::ArrayRef<int64_t> dims = dimsOf(mask);
  const bool isOneMatrix =
      endsWith(dims, rows, columns) && llvm::all_of(dims.drop_back(2), [](int64_t d) { return d == 1; });
  return reshape && isOneMatrix ? of(reshape.getInput(), depth - 1) : std::nullopt;
}

std::optional<Band> zc::importer::bandOf(Value mask, int64_t queries, int64_t keys, bool keeps) {
  constexpr int kDeepest = 12; // operations, each of which may have two masks
  auto band = Matrix{queries, keys, keeps}.of(mask, kDeepest);
  return band && band->first <= band->last ? band : std::nullopt;
}

bool zc::importer::isCausalMask(Value mask, int64_t queries, int64_t keys, bool keeps) {
  auto band = keys >= queries ? bandOf(mask, queries, keys, keeps) : std::nullopt;
  return band && band->first == 1 - queries && band->last == keys - queries;
}

bool zc::importer::everyRowKeepsItsOwn(const Condition &part, int64_t queries, int64_t keys) {
  if (keys < queries)
    return false;
  if (auto band = bandOf(part.value, queries, keys, part.keeps))
    return band->contains(keys - queries);
  auto table = constantOf(part.value);
  if (!table || table->isFloat() || !endsWith(table->dims, queries, keys))
    return false;
  for (int64_t row = 0, rows = table->numElements() / keys; row < rows; ++row)
    if ((table->intAt(row * keys + row % queries + keys - queries) != 0) != part.keeps)
      return false;
  return true;
}

bool zc::importer::everyRowKeepsOne(Value mask, int64_t queries, int64_t keys, bool keeps) {
  auto keepsIts = [&](const Condition &part) { return everyRowKeepsItsOwn(part, queries, keys); };
  if (llvm::all_of(partsOf({mask, keeps}), keepsIts))
    return true;
  auto table = constantOf(mask);
  if (!table || table->isFloat() || !endsWith(table->dims, queries, keys))
    return false;
  for (int64_t row = 0, rows = table->numElements() / keys; row < rows; ++row) {
    int64_t j = 0;
    while (j < keys && (table->intAt(row * keys + j) != 0) != keeps)
      ++j;
    if (j == keys)
      return false;
  }
  return true;
}

std::optional<Positions> zc::importer::withBand(Positions known, Band band, int64_t queries, int64_t keys) {
  if (keys < queries) // a query may see none
    return std::nullopt;
  const int64_t own = keys - queries; // so far behind its row is a query's own key
  if (known.causal)
    band.last = std::min(band.last, own);
  if (const int64_t far = std::min(known.window, queries + keys); far != 0)
    band = {std::max(band.first, own + 1 - far), std::min(band.last, own + far - 1)};
  if (!band.contains(own))
    return std::nullopt;
  const Band all = Matrix{queries, keys, true}.all();
  const int64_t before = own - band.first + 1, after = band.last - own + 1;
  const bool isAllBefore = band.first <= all.first;
  if (band.last >= all.last && isAllBefore)
    return Positions{known.causal, 0};
  if (after == 1)
    return Positions{true, isAllBefore ? 0 : before};
  // As far on either side, but for where keys end.
  const int64_t window = std::max(before, after);
  if (std::max(own + 1 - window, all.first) == std::max(band.first, all.first) &&
      std::min(own + window - 1, all.last) == std::min(band.last, all.last))
    return Positions{false, window};
  return std::nullopt;
}

Positions zc::importer::takePositions(llvm::SmallVectorImpl<Condition> &conditions, Positions known, int64_t queries,
                                      int64_t keys) {
  // Of a causal window neither half says anything before the other one does.
  for (size_t taken = conditions.size() + 1; taken != conditions.size();) {
    taken = conditions.size();
    llvm::erase_if(conditions, [&](const Condition &condition) {
      auto band = bandOf(condition.value, queries, keys, condition.keeps);
      auto both = band ? withBand(known, *band, queries, keys) : std::nullopt;
      known = both.value_or(known);
      return both.has_value();
    });
  }
  return known;
}
