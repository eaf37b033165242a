//===- InferRanges.cpp - what inputs may hold whose elements are positions or labels ------===//
#include "compiler/grad/Passes.h"
#include "dialects/graph/Gradient.h"

using namespace mlir;
using namespace zc::graph;

namespace zc {

#define GEN_PASS_DEF_INFERRANGES
#include "compiler/grad/Passes.h.inc"

namespace {

/// Elements of an input that a value has.
struct Moved {
  /// How many of the input's: what one column must hold another need not.
  enum class Share { all, most, few };
  unsigned input = 0;
  /// Element t of the last dimension is of the input's t + shift; nothing: of another dimension.
  std::optional<int64_t> shift = 0;
  Share share = Share::all;
};

class InputUses {
public:
  explicit InputUses(ProgramOp program) : program(program), ranges(program.getBlock().getNumArguments()) {}

  /// A range for each input.
  SmallVector<mlir::Attribute> find() {
    for (BlockArgument argument : program.getBlock().getArguments())
      moved[argument] = {argument.getArgNumber()};
    for (Operation &op : program.getBlock()) {
      if (auto indexing = dyn_cast<Indexing>(&op))
        use(indexing);
      follow(&op);
    }
    SmallVector<mlir::Attribute> found;
    for (const auto &[range, shift] : ranges)
      found.push_back(IndexRangeAttr::get(program.getContext(), range.lowest, range.limit, range.ignored, range.isLabel,
                                          range.isLabel ? shift : std::nullopt));
    return found;
  }

private:
  /// Labels that were moved on are most of the input, those of one of several tasks a column. Indices of a part of the
  /// input are seen where they are used.
  void use(Indexing op) {
    for (auto [index, operand] : llvm::enumerate(op->getOperands())) {
      auto from = moved.find(operand);
      std::optional<IndexRange> range = op.getIndexRange(static_cast<unsigned>(index));
      if (from == moved.end() || !range ||
          from->second.share > (range->isLabel ? Moved::Share::most : Moved::Share::all))
        continue;
      ranges[from->second.input].first.meet(*range);
      if (range->isLabel)
        ranges[from->second.input].second = from->second.shift;
    }
  }

  /// Is the result some of operand 0's elements?
  void follow(Operation *op) {
    if (op->getNumOperands() == 0 || op->getNumResults() != 1)
      return;
    auto from = moved.find(op->getOperand(0));
    Value result = op->getResult(0);
    auto type = dyn_cast<RankedTensorType>(result.getType());
    if (from == moved.end() || !type || !(type.getElementType().isInteger(64) || type.getElementType().isInteger(32)))
      return; // a mask is no index
    Moved now = from->second;
    const int64_t all = tensorOf(program.getBlock().getArgument(now.input)).getNumElements(),
                  taken = type.getNumElements();
    if (auto slice = dyn_cast<SliceOp>(op)) {
      advance(now, slice.getOffsets());
    } else if (auto pad = dyn_cast<PadOp>(op)) {
      advance(now, pad.getLow(), -1);
    } else if (auto transpose = dyn_cast<TransposeOp>(op)) {
      ArrayRef<int64_t> permutation = transpose.getPermutation();
      if (!permutation.empty() && permutation.back() + 1 != static_cast<int64_t>(permutation.size()))
        now.shift.reset();
    } else if (!movesElements(op)) {
      return;
    }
    now.share = std::max(now.share, taken >= all      ? Moved::Share::all
                                    : taken > all / 2 ? Moved::Share::most
                                                      : Moved::Share::few);
    moved[result] = now;
  }

  static void advance(Moved &moved, ArrayRef<int64_t> by, int64_t sign = 1) {
    if (moved.shift && !by.empty())
      *moved.shift += sign * by.back();
  }

  ProgramOp program;
  llvm::DenseMap<Value, Moved> moved;
  SmallVector<std::pair<IndexRange, std::optional<int64_t>>> ranges; ///< with the shift of labels
};

struct InferRanges : impl::InferRangesBase<InferRanges> {
  void runOnOperation() override {
    for (auto program : getOperation().getOps<ProgramOp>()) {
      SmallVector<mlir::Attribute> ranges = InputUses(program).find();
      auto isKnown = [](mlir::Attribute range) { return cast<IndexRangeAttr>(range).getRange().isKnown(); };
      known += llvm::count_if(ranges, isKnown);
      if (llvm::any_of(ranges, isKnown))
        program.setInputRangesAttr(ArrayAttr::get(&getContext(), ranges));
    }
  }
};

} // namespace
} // namespace zc
