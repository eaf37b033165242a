//===- Mask.cpp - what an attention mask is known to be -----------------------------===//
#include "compiler/import/raise/Mask.h"
#include "compiler/import/base/HostTensor.h"
#include "compiler/import/raise/Match.h"
#include "dialects/graph/Gradient.h"

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

static std::optional<HostTensor> constantOf(Value value) {
  DenseElementsAttr dense;
  return matchPattern(value, m_Constant(&dense)) ? fromAttribute(dense) : std::nullopt;
}

bool zc::importer::mayBeLow(Value value) {
  llvm::SmallVector<Value> pending{value};
  llvm::DenseSet<Value> seen;
  while (!pending.empty()) {
    Value next = pending.pop_back_val();
    Operation *op = next.getDefiningOp();
    if (!isa<FloatType>(tensorOf(next).getElementType()) || !seen.insert(next).second ||
        isa_and_nonnull<ReadOp, LayerNormOp, RmsNormOp, SoftmaxOp>(op)) // of these it is moderate
      continue;
    auto table = constantOf(next);
    if (!op || (table && llvm::any_of(table->floats, [](double x) { return !(std::abs(x) < 1e4); })))
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

/// first, first + 1, ... to `count` of them, over and over: the first. Also of a sum or difference with a number.
static std::optional<int64_t> countFrom(Value value, int64_t count) {
  Operation *op = value.getDefiningOp();
  if (isa_and_nonnull<AddOp, SubOp>(op) && count != 1) {
    auto first = countFrom(op->getOperand(0), count), number = countFrom(op->getOperand(1), 1);
    if (!first || !number)
      return std::nullopt;
    return isa<AddOp>(op) ? *first + *number : *first - *number;
  }
  auto tensor = constantOf(value);
  if (!tensor || tensor->isFloat() || tensor->numElements() == 0 || tensor->numElements() % count != 0)
    return std::nullopt;
  for (int64_t i = 0, n = tensor->numElements(); i < n; ++i)
    if (tensor->intAt(i) != tensor->intAt(0) + i % count)
      return std::nullopt;
  return tensor->intAt(0);
}

/// What is kept of a matrix of scores: columns j <= row i + diagonal. A bool is true there, or where `keeps` is not.
struct Frontier {
  int64_t rows, columns, diagonal;
  bool keeps = true;
};

/// Every matrix of it: exporters fold the batch in.
static bool isCausalTable(const HostTensor &table, const Frontier &frontier) {
  if (!endsWith(table.dims, frontier.rows, frontier.columns))
    return false;
  for (int64_t row = 0, rows = table.numElements() / frontier.columns; row < rows; ++row)
    for (int64_t j = 0; j < frontier.columns; ++j) {
      bool kept = j <= row % frontier.rows + frontier.diagonal;
      int64_t at = row * frontier.columns + j;
      bool fits = !table.isFloat() ? (table.intAt(at) != 0) == (kept == frontier.keeps)
                  : kept           ? table.floatAt(at) == 0
                                   : isLow(table.floatAt(at));
      if (!fits)
        return false;
    }
  return true;
}

/// lhs <= rhs + offset, of integers.
struct Comparison {
  Value lhs, rhs;
  int64_t offset;
};

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

/// Do the indices of columns, or of rows, stand along their dimension of a matrix of scores?
static bool isColumn(Value value, int64_t columns) {
  auto dims = dimsOf(value);
  return dims.size() == 1 ? dims[0] == columns : endsWith(dims, 1, columns);
}
static bool isRow(Value value, int64_t rows) { return endsWith(dimsOf(value), rows, 1); }

/// The index of a column and that of a row, as ranges that broadcast against each other, for each sample.
static bool isCausalCompare(Operation *compare, const Frontier &frontier) {
  Comparison read = comparisonOf(compare);
  // Where what is true is dropped, the row's index stands on the left: the rest is column < row - offset.
  Value column = frontier.keeps ? read.lhs : read.rhs, row = frontier.keeps ? read.rhs : read.lhs;
  auto firstColumn = countFrom(column, frontier.columns), firstRow = countFrom(row, frontier.rows);
  return firstColumn && firstRow && isColumn(column, frontier.columns) && isRow(row, frontier.rows) &&
         *firstRow - *firstColumn + (frontier.keeps ? read.offset : -read.offset - 1) == frontier.diagonal;
}

/// Does a comparison of indices keep, in each row, the last key of a causal one?
static bool comparisonKeepsDiagonal(Operation *compare, int64_t queries, int64_t keys, bool keeps) {
  Comparison read = comparisonOf(compare);
  const bool isColumnFirst = isColumn(read.lhs, keys) && isRow(read.rhs, queries);
  if (!isColumnFirst && !(isColumn(read.rhs, keys) && isRow(read.lhs, queries)))
    return false;
  auto column = countFrom(isColumnFirst ? read.lhs : read.rhs, keys);
  auto row = countFrom(isColumnFirst ? read.rhs : read.lhs, queries);
  if (!column || !row)
    return false;
  const int64_t diagonal = *column + keys - queries; // in row 0
  const bool holds = isColumnFirst ? diagonal <= *row + read.offset : *row <= diagonal + read.offset;
  return holds == keeps;
}

/// The frontier of the table that `slice` takes neighbours of.
static std::optional<Frontier> frontierBefore(SliceOp slice, Frontier frontier) {
  auto dims = dimsOf(slice.getInput());
  if (dims.size() < 2 || !endsWith(dimsOf(slice), frontier.rows, frontier.columns) ||
      llvm::any_of(slice.getStrides().take_back(2), [](int64_t stride) { return stride != 1; }))
    return std::nullopt;
  auto offsets = slice.getOffsets().take_back(2);
  return Frontier{dims[dims.size() - 2], dims.back(), frontier.diagonal - offsets[0] + offsets[1], frontier.keeps};
}

bool zc::importer::hidesNothing(Value mask, bool keeps) { return splatOf(mask) == 0.0 || truthOf(mask) == keeps; }

/// Does it add dimensions of 1 in front, and nothing else?
static bool onlyLeads(ReshapeOp reshape) {
  llvm::ArrayRef<int64_t> from = dimsOf(reshape.getInput()), to = dimsOf(reshape.getResult());
  return from.size() <= to.size() && to.take_back(from.size()) == from &&
         llvm::all_of(to.drop_back(from.size()), [](int64_t d) { return d == 1; });
}

/// Before it was expanded, or had dimensions of 1 put in front: null where it was not.
static Value beforeBroadcast(Operation *op) {
  if (auto expand = dyn_cast_or_null<ExpandOp>(op))
    return expand.getInput();
  auto reshape = dyn_cast_or_null<ReshapeOp>(op);
  return reshape && onlyLeads(reshape) ? reshape.getInput() : Value();
}

std::optional<Hiding> zc::importer::hidingOf(Value mask) {
  while (Value before = beforeBroadcast(mask.getDefiningOp()))
    mask = before;
  auto select = mask.getDefiningOp<SelectOp>();
  if (!select)
    return std::nullopt;
  auto lhs = splatOf(select.getLhs()), rhs = splatOf(select.getRhs());
  if (lhs == 0.0 && rhs && isLow(*rhs))
    return Hiding{{select.getCondition(), true}, *rhs};
  if (rhs == 0.0 && lhs && isLow(*lhs))
    return Hiding{{select.getCondition(), false}, *lhs};
  return std::nullopt;
}

bool zc::importer::isCausalMask(Value mask, int64_t queries, int64_t keys, bool keeps) {
  if (keys < queries)
    return false;
  Frontier frontier{queries, keys, keys - queries, keeps};
  for (;;) {
    if (auto table = constantOf(mask))
      return isCausalTable(*table, frontier);
    Operation *op = mask.getDefiningOp();
    if (!op)
      return false;
    if (isa<LessEqualOp, LessOp>(op))
      return isCausalCompare(op, frontier);
    if (isa<SelectOp>(op)) {
      auto hiding = hidingOf(mask);
      if (!hiding)
        return false;
      frontier.keeps = hiding->condition.keeps;
      mask = hiding->condition.value;
    } else if (auto negation = dyn_cast<NotOp>(op)) {
      frontier.keeps = !frontier.keeps;
      mask = negation.getInput();
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

static bool keepsDiagonal(const Condition &part, int64_t queries, int64_t keys) {
  if (isCausalMask(part.value, queries, keys, part.keeps))
    return true;
  if (Operation *op = part.value.getDefiningOp(); isa_and_nonnull<LessEqualOp, LessOp>(op))
    return comparisonKeepsDiagonal(op, queries, keys, part.keeps);
  auto table = constantOf(part.value);
  if (!table || table->isFloat() || !endsWith(table->dims, queries, keys))
    return false;
  for (int64_t row = 0, rows = table->numElements() / keys; row < rows; ++row)
    if ((table->intAt(row * keys + row % queries + keys - queries) != 0) != part.keeps)
      return false;
  return true;
}

bool zc::importer::everyRowKeepsOne(Value mask, int64_t queries, int64_t keys, bool keeps) {
  auto keepsIts = [&](const Condition &part) { return keepsDiagonal(part, queries, keys); };
  if (keys >= queries && llvm::all_of(partsOf({mask, keeps}), keepsIts))
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

llvm::SmallVector<Condition, 2> zc::importer::partsOf(Condition condition) {
  llvm::SmallVector<Condition, 2> pending{condition}, parts;
  while (!pending.empty()) {
    auto [value, keeps] = pending.pop_back_val();
    Operation *op = value.getDefiningOp();
    if (auto negation = dyn_cast_or_null<NotOp>(op))
      pending.push_back({negation.getInput(), !keeps});
    else if (Value before = beforeBroadcast(op))
      pending.push_back({before, keeps});
    else if (op && (keeps ? isa<AndOp>(op) : isa<OrOp>(op)))
      pending.append({{op->getOperand(1), keeps}, {op->getOperand(0), keeps}});
    else if (!hidesNothing(value, keeps))
      parts.push_back({value, keeps});
  }
  return parts;
}

Value zc::importer::conjunctionOf(llvm::ArrayRef<Condition> conditions, Location loc, PatternRewriter &rewriter) {
  TensorBuilder on(rewriter, loc);
  Value kept;
  for (auto [condition, keeps] : conditions) {
    Value where = keeps ? condition : on.make<NotOp>(condition);
    kept = kept ? on.make<AndOp>(kept, where) : where;
  }
  return kept;
}

Value zc::importer::withRank(Value value, int64_t rank, PatternRewriter &rewriter) {
  llvm::SmallVector<int64_t, 4> shape(dimsOf(value));
  shape.insert(shape.begin(), rank - shape.size(), 1);
  return rewriter.create<ReshapeOp>(value.getLoc(), value, shape);
}

static bool hasSamples(Value value) { return dimsOf(value).size() == 4 && dimsOf(value)[0] > 1; }

/// What all samples of a table are; nothing where they differ.
static std::optional<HostTensor> oneSample(HostTensor table) {
  const int64_t elements = table.numElements();
  table.dims[0] = 1;
  const int64_t part = table.numElements();
  for (int64_t i = part; !table.splat && i < elements; ++i)
    if (table.isFloat() ? !(table.floats[i] == table.floats[i % part]) : table.ints[i] != table.ints[i % part])
      return std::nullopt;
  if (!table.splat)
    table.isFloat() ? table.floats.resize(part) : table.ints.resize(part);
  return table;
}

bool zc::importer::isSameForSamples(Value value, int depth) {
  if (dimsOf(value).size() > 4)
    return false;
  if (!hasSamples(value))
    return true;
  if (auto table = constantOf(value))
    return oneSample(std::move(*table)).has_value();
  Operation *op = value.getDefiningOp();
  return op && depth > 0 && op->getNumResults() == 1 && (op->hasTrait<Elementwise>() || isa<ExpandOp>(op)) &&
         llvm::all_of(op->getOperands(), [&](Value operand) { return isSameForSamples(operand, depth - 1); });
}

Value zc::importer::ofOneSample(Value value, PatternRewriter &rewriter) {
  if (!hasSamples(value))
    return value;
  Location loc = value.getLoc();
  if (auto table = constantOf(value))
    return rewriter.create<ConstantOp>(loc, toAttribute(*oneSample(std::move(*table)), rewriter.getContext()));
  llvm::SmallVector<int64_t, 4> shape(dimsOf(value));
  shape[0] = 1;
  Operation *op = value.getDefiningOp();
  llvm::SmallVector<Value, 3> operands;
  for (Value operand : op->getOperands())
    operands.push_back(ofOneSample(operand, rewriter));
  if (isa<ExpandOp>(op))
    return rewriter.create<ExpandOp>(loc, operands[0], shape);
  OperationState state(loc, op->getName(), operands, tensorOf(value).clone(shape), op->getAttrs());
  return rewriter.create(state)->getResult(0);
}
