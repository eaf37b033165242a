//===- Reversal.cpp - parts of rows in the other order ------------------------------------------===//
#include "compiler/grad/Reversal.h"
#include "dialects/graph/Infer.h"

using namespace mlir;
using namespace zc::graph;

namespace zc {

std::optional<Reversal> reversalOf(SliceOp turn) {
  auto apart = turn.getInput().getDefiningOp<ReshapeOp>();
  auto together = turn->hasOneUse() ? dyn_cast<ReshapeOp>(*turn->user_begin()) : ReshapeOp();
  if (!apart || !apart->hasOneUse() || !together)
    return std::nullopt;
  ArrayRef<int64_t> shape = shapeOf(apart.getInput()), cut = shapeOf(apart);
  if (shapeOf(together) != shape || shapeOf(turn) != cut || cut.size() != shape.size() + 1 ||
      cut.drop_back(2) != shape.drop_back())
    return std::nullopt;
  const size_t dim = cut.size() - 2;
  for (auto [d, stride] : llvm::enumerate(turn.getStrides()))
    if (stride != (d == dim ? -1 : 1))
      return std::nullopt;
  return Reversal{turn, cut[dim], apart.getInput(), together.getResult()};
}

} // namespace zc
