//===- ShardingVision.cpp - convolutions, pools and norms in parts -------------------===//
#include "dialects/graph/Sharding.h"

using namespace mlir;
using namespace zc::graph;

/// Letters of activations [N, C, d...]: of samples, of channels, nothing of the windows' dimensions.
template <typename OpTy>
static std::string activation(OpTy op, Value tensor, const std::string &samples, const std::string &channels) {
  std::string spatial(tensorOf(tensor).getRank() - 2, '.');
  return samples + (op.getChannelsLast() ? spatial + channels : channels + spatial);
}

//===-- convolutions ---------------------------------------------------------===//

/// By samples, by channels of the input, over which the ranks' results are summed, and by channels of the result; in
/// groups, which are apart, by these. The weight's first two dimensions are [result, input], transposed the other way
/// round.
template <typename OpTy>
static std::optional<OpCut> cutConvolution(OpTy op, bool isTransposed, unsigned index, TensorCut cut, int64_t ranks,
                                           std::string &why) {
  int64_t groups = op.getGroups();
  bool isDense = groups == 1;
  std::string in = isDense ? "i" : "g", out = isDense ? "o" : "g", within = isDense ? (isTransposed ? "o" : "i") : ".";
  std::string kernel(tensorOf(op.getWeight()).getRank() - 2, '.');
  Factors factors{{activation(op, op.getInput(), "b", in), (isTransposed || !isDense ? in : out) + within + kernel},
                  isDense ? "i" : "",
                  {2}};
  if (op.getBias())
    factors.tensors.push_back(out);
  else
    factors.behind.clear();
  factors.tensors.push_back(activation(op, op.getResult(), "b", out));
  bool isByGroups = factors.tensors[index][cut.dim] == 'g';
  if (isByGroups && groups % (cut.groups * ranks) != 0) {
    why = std::to_string(ranks) + " ranks do not divide the " + std::to_string(groups / cut.groups) + " groups of " +
          op->getName().stripDialect().str();
    return std::nullopt;
  }
  return cutByFactors(op, factors, index, cut, ranks, why);
}

/// Without the bias where it comes behind the ranks' sum, and with the groups of a part.
template <typename OpTy>
static SmallVector<Value> buildConvolution(OpTy op, OpBuilder &builder, const OpCut &cut, ValueRange operands,
                                           int64_t ranks) {
  // The weight of groups is cut where they are, and nowhere else.
  int64_t groups = op.getGroups() != 1 && cut.operands[1] ? op.getGroups() / ranks : op.getGroups();
  NamedAttribute own = builder.getNamedAttr(op.getGroupsAttrName(), builder.getI64IntegerAttr(groups));
  if (cut.results[0])
    return buildOnParts(builder, op, cut, operands, ranks, own);
  OpCut product = cut;
  Operation *without = op->clone();
  if (op.getBias()) {
    without->eraseOperand(2);
    product.operands.pop_back();
  }
  Value part = buildOnParts(builder, without, product, operands.take_front(2), ranks, own)[0];
  without->destroy();
  TensorBuilder on(builder, op.getLoc());
  Shape channels(tensorOf(part).getRank(), 1);
  size_t dim = op.getChannelsLast() ? channels.size() - 1 : 1;
  channels[dim] = shapeOf(part)[dim];
  return {sumOverRanks(on, part, operands.size() > 2 ? operands[2] : Value(), channels)};
}

ZC_CUT(ConvOp) { return cutConvolution(*this, /*isTransposed=*/false, index, cut, ranks, why); }
ZC_PARTS(ConvOp) { return buildConvolution(*this, builder, cut, operands, ranks); }
ZC_CUT(ConvTransposeOp) { return cutConvolution(*this, /*isTransposed=*/true, index, cut, ranks, why); }
ZC_PARTS(ConvTransposeOp) { return buildConvolution(*this, builder, cut, operands, ranks); }

//===-- pools ----------------------------------------------------------------===//

/// Planes are independent.
template <typename OpTy>
static std::optional<OpCut> cutPool(OpTy op, bool bearsPadding, unsigned index, TensorCut cut, int64_t ranks,
                                    std::string &why) {
  Factors factors;
  factors.tensors.append(1 + op->getNumResults(), activation(op, op.getInput(), "b", "c"));
  factors.bearsPadding = bearsPadding;
  return cutByFactors(op, factors, index, cut, ranks, why);
}

/// The maximum of a window without elements is no number that zeros would bear.
ZC_CUT(MaxPoolOp) { return cutPool(*this, /*bearsPadding=*/false, index, cut, ranks, why); }
ZC_CUT(SumPoolOp) { return cutPool(*this, /*bearsPadding=*/true, index, cut, ranks, why); }

//===-- batch norm -----------------------------------------------------------===//

/// Channels are independent, samples are not where the statistics are theirs. Not ragged: a channel of zeros has no
/// variance to divide by.
template <typename OpTy>
static std::optional<OpCut> cutBatchNorm(OpTy op, const std::string &samples, unsigned index, TensorCut cut,
                                         int64_t ranks, std::string &why) {
  std::string channels = activation(op, op.getInput(), samples, "c");
  Factors factors;
  factors.bearsPadding = false;
  factors.tensors.push_back(channels);
  factors.tensors.append(op->getNumOperands() - 1, "c");
  factors.tensors.push_back(channels);
  factors.tensors.append(op->getNumResults() - 1, "c");
  return cutByFactors(op, factors, index, cut, ranks, why);
}

ZC_CUT(BatchNormOp) { return cutBatchNorm(*this, ".", index, cut, ranks, why); }
ZC_CUT(BatchNormApplyOp) { return cutBatchNorm(*this, "b", index, cut, ranks, why); }

//===-- group norm -----------------------------------------------------------===//

/// By samples, and by channels where groups stay together.
ZC_CUT(GroupNormOp) {
  std::string channels = activation(*this, getInput(), "b", "c");
  Factors factors{{channels, "c", "c", channels, "bc", "bc"}};
  factors.bearsPadding = false;
  const int64_t groups = getGroups();
  if (factors.tensors[index][cut.dim] == 'c' && groups % (cut.groups * ranks) != 0) {
    why = std::to_string(ranks) + " ranks do not divide the " + std::to_string(groups / cut.groups) + " groups of " +
          getOperation()->getName().stripDialect().str();
    return std::nullopt;
  }
  return cutByFactors(*this, factors, index, cut, ranks, why);
}

ZC_PARTS(GroupNormOp) {
  const int64_t groups = cut.operands[1] ? getGroups() / ranks : getGroups();
  return buildOnParts(builder, *this, cut, operands, ranks,
                      builder.getNamedAttr(getGroupsAttrName(), builder.getI64IntegerAttr(groups)));
}
