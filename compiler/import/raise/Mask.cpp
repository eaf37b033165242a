//===- Mask.cpp - what an attention mask is known to be -----------------------------===//
#include "compiler/import/raise/Mask.h"
#include "compiler/import/base/HostTensor.h"
#include "compiler/import/raise/Match.h"

#include "llvm/ADT/DenseSet.h"

using namespace mlir;
using namespace zc::graph;
using namespace zc::importer;

bool zc::importer::dependsOnFloatParameter(Value value) {
  llvm::SmallVector<Value> pending{value};
  llvm::DenseSet<Value> seen;
  while (!pending.empty()) {
    Value next = pending.pop_back_val();
    Operation *op = next.getDefiningOp();
    if (!op || !isa<FloatType>(tensorOf(next).getElementType()) || !seen.insert(next).second)
      continue;
    if (isa<ReadOp>(op))
      return true;
    pending.append(op->operand_begin(), op->operand_end());
  }
  return false;
}

/// The last two dimensions are [queries, keys] (or rows of them).
static bool endsWith(llvm::ArrayRef<int64_t> dims, int64_t rows, int64_t columns) {
  return dims.size() >= 2 && dims[dims.size() - 2] == rows && dims.back() == columns;
}
/// So, and all others are 1.
static bool hasMaskShape(llvm::ArrayRef<int64_t> dims, int64_t rows, int64_t columns) {
  return endsWith(dims, rows, columns) && llvm::all_of(dims.drop_back(2), [](int64_t d) { return d == 1; });
}

static std::optional<HostTensor> constantOf(Value value) {
  DenseElementsAttr dense;
  return matchPattern(value, m_Constant(&dense)) ? fromAttribute(dense) : std::nullopt;
}

/// first, first + 1, ... to `count` of them, over and over: the first.
static std::optional<int64_t> countFrom(Value value, int64_t count) {
  auto tensor = constantOf(value);
  if (!tensor || tensor->isFloat() || tensor->numElements() == 0 || tensor->numElements() % count != 0)
    return std::nullopt;
  for (int64_t i = 0, n = tensor->numElements(); i < n; ++i)
    if (tensor->intAt(i) != tensor->intAt(0) + i % count)
      return std::nullopt;
  return tensor->intAt(0);
}

/// What is kept of a matrix of scores: columns j <= row i + diagonal.
struct Frontier {
  int64_t rows, columns, diagonal;
};

/// Every matrix of it: exporters fold the batch in.
static bool isCausalTable(const HostTensor &table, const Frontier &frontier) {
  if (!endsWith(table.dims, frontier.rows, frontier.columns))
    return false;
  for (int64_t row = 0, rows = table.numElements() / frontier.columns; row < rows; ++row)
    for (int64_t j = 0; j < frontier.columns; ++j) {
      bool kept = j <= row % frontier.rows + frontier.diagonal;
      int64_t at = row * frontier.columns + j;
      bool fits = !table.isFloat() ? (table.intAt(at) != 0) == kept
                  : kept           ? table.floatAt(at) == 0
                                   : table.floatAt(at) < -1e30;
      if (!fits)
        return false;
    }
  return true;
}

/// column index <= row index, as ranges that broadcast against each other, for each sample.
static bool isCausalCompare(LessEqualOp compare, const Frontier &frontier) {
  auto column = countFrom(compare.getLhs(), frontier.columns), row = countFrom(compare.getRhs(), frontier.rows);
  auto columns = dimsOf(compare.getLhs());
  bool isColumn = columns.size() == 1 ? columns[0] == frontier.columns : endsWith(columns, 1, frontier.columns);
  return column && row && isColumn && endsWith(dimsOf(compare.getRhs()), frontier.rows, 1) &&
         *row - *column == frontier.diagonal;
}

/// The frontier of the table that `slice` takes neighbours of.
static std::optional<Frontier> frontierBefore(SliceOp slice, Frontier frontier) {
  auto dims = dimsOf(slice.getInput());
  if (dims.size() < 2 || !endsWith(dimsOf(slice), frontier.rows, frontier.columns) ||
      llvm::any_of(slice.getStrides().take_back(2), [](int64_t stride) { return stride != 1; }))
    return std::nullopt;
  auto offsets = slice.getOffsets().take_back(2);
  return Frontier{dims[dims.size() - 2], dims.back(), frontier.diagonal - offsets[0] + offsets[1]};
}

bool zc::importer::hidesNothing(Value mask) { return splatOf(mask) == 0.0 || isTrue(mask); }

bool zc::importer::isCausalMask(Value mask, int64_t queries, int64_t keys) {
  if (keys < queries)
    return false;
  Frontier frontier{queries, keys, keys - queries};
  for (;;) {
    if (auto table = constantOf(mask))
      return isCausalTable(*table, frontier);
    Operation *op = mask.getDefiningOp();
    if (!op)
      return false;
    if (auto compare = dyn_cast<LessEqualOp>(op))
      return isCausalCompare(compare, frontier);
    if (auto select = dyn_cast<SelectOp>(op)) {
      auto kept = splatOf(select.getLhs()), dropped = splatOf(select.getRhs());
      if (kept != 0.0 || !dropped || !(*dropped < -1e30))
        return false;
      mask = select.getCondition();
    } else if (auto both = dyn_cast<AndOp>(op); both && (isTrue(both.getLhs()) || isTrue(both.getRhs()))) {
      // No sample has padding. Of the shape of the other one, that of a mask, this is an expand.
      mask = isTrue(both.getLhs()) ? both.getRhs() : both.getLhs();
    } else if (auto expand = dyn_cast<ExpandOp>(op)) {
      mask = expand.getInput();
    } else if (auto reshape = dyn_cast<ReshapeOp>(op);
               reshape && hasMaskShape(dimsOf(mask), frontier.rows, frontier.columns)) {
      mask = reshape.getInput();
    } else if (auto slice = dyn_cast<SliceOp>(op)) {
      auto before = frontierBefore(slice, frontier);
      if (!before)
        return false;
      frontier = *before;
      mask = slice.getInput();
    } else {
      return false;
    }
  }
}

bool zc::importer::everyRowKeepsOne(Value mask, int64_t queries, int64_t keys) {
  if (isCausalMask(mask, queries, keys))
    return true;
  auto table = constantOf(mask);
  if (!table || table->isFloat() || !endsWith(table->dims, queries, keys))
    return false;
  for (int64_t row = 0, rows = table->numElements() / keys; row < rows; ++row) {
    int64_t j = 0;
    while (j < keys && table->intAt(row * keys + j) == 0)
      ++j;
    if (j == keys)
      return false;
  }
  return true;
}
