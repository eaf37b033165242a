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

/// The last two dimensions are [queries, keys] (or rows of them), all others 1.
static bool hasMaskShape(llvm::ArrayRef<int64_t> dims, int64_t rows, int64_t columns) {
  if (dims.size() < 2 || dims[dims.size() - 2] != rows || dims.back() != columns)
    return false;
  return llvm::all_of(dims.drop_back(2), [](int64_t d) { return d == 1; });
}

static std::optional<HostTensor> constantOf(Value value) {
  DenseElementsAttr dense;
  return matchPattern(value, m_Constant(&dense)) ? fromAttribute(dense) : std::nullopt;
}

/// first, first + 1, ...: the first.
static std::optional<int64_t> countFrom(Value value) {
  auto tensor = constantOf(value);
  if (!tensor || tensor->isFloat() || tensor->numElements() == 0)
    return std::nullopt;
  for (int64_t i = 1, n = tensor->numElements(); i < n; ++i)
    if (tensor->intAt(i) != tensor->intAt(0) + i)
      return std::nullopt;
  return tensor->intAt(0);
}

static bool isCausalTable(const HostTensor &table, int64_t queries, int64_t keys) {
  if (!hasMaskShape(table.dims, queries, keys))
    return false;
  for (int64_t i = 0; i < queries; ++i)
    for (int64_t j = 0; j < keys; ++j) {
      bool kept = j <= i + keys - queries;
      int64_t at = i * keys + j;
      bool fits = !table.isFloat() ? (table.intAt(at) != 0) == kept
                  : kept           ? table.floatAt(at) == 0
                                   : table.floatAt(at) < -1e30;
      if (!fits)
        return false;
    }
  return true;
}

/// column index <= row index, as ranges that broadcast against each other.
static bool isCausalCompare(LessEqualOp compare, int64_t queries, int64_t keys) {
  auto column = countFrom(compare.getLhs()), row = countFrom(compare.getRhs());
  auto columns = dimsOf(compare.getLhs());
  bool isColumn = !columns.empty() && columns.back() == keys && tensorOf(compare.getLhs()).getNumElements() == keys;
  return column && row && isColumn && hasMaskShape(dimsOf(compare.getRhs()), queries, 1) &&
         *row - *column == keys - queries;
}

bool zc::importer::isCausalMask(Value mask, int64_t queries, int64_t keys) {
  if (keys < queries)
    return false;
  for (;;) {
    if (auto table = constantOf(mask))
      return isCausalTable(*table, queries, keys);
    Operation *op = mask.getDefiningOp();
    if (!op)
      return false;
    if (auto compare = dyn_cast<LessEqualOp>(op))
      return isCausalCompare(compare, queries, keys);
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
    } else if (auto reshape = dyn_cast<ReshapeOp>(op); reshape && hasMaskShape(dimsOf(mask), queries, keys)) {
      mask = reshape.getInput();
    } else {
      return false;
    }
  }
}
