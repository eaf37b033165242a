//===- BatchNorm.cpp - batch norm, group norm, and the norms made of others ------===//
//
// Batch norm has two meanings, and files say which one in as many ways as there are versions: until opset 13 the
// training form has further outputs, from 14 on training_mode. Exporters get it wrong (docs/onnx.md 1.3), so the user
// may say (`--batch-norm`). The running statistics of the training form are an initializer that nothing in the file
// writes: each micro-step assigns it here.
//
//===----------------------------------------------------------------------===//
#include "compiler/import/handlers/Handlers.h"
#include "compiler/import/node/Node.h"
#include "dialects/graph/GroupNorms.h"

using namespace zc;
using namespace zc::importer;
using namespace zc::graph;
using mlir::Value;

namespace {

using Dims = llvm::SmallVector<int64_t>;

bool trains(Node &node) {
  switch (node.options().batchNorm) {
  case BatchNormPolicy::train:
    return true;
  case BatchNormPolicy::eval:
    return false;
  case BatchNormPolicy::asExported:
    break;
  }
  return node.opset >= 14 ? node.intAttr("training_mode", 0) != 0 : node.wants(1);
}

/// momentum * old + (1 - momentum) * factor * batch, in the type of `old`.
Value follow(Node &node, Value old, Value batch, double factor) {
  return node.make<MovingAverageOp>(
      {old, node.cast(batch, elementOf(old))},
      node.attrs().real("momentum", node.floatAttr("momentum", 0.9f)).real("factor", factor));
}

/// The running statistic at `input`: what the node returns of it, and, where it is stored in the file, its update. A
/// norm that the model applies twice follows both batches: the second node may take what the first returns.
void update(Node &node, unsigned input, unsigned output, Value batch, double assignedFactor) {
  if (node.wants(output)) { // ONNX: of the population
    node.set(output, follow(node, node.input(input), batch, 1));
    node.standFor(output, input);
  }
  if (node.options().forwardOnly || !node.isInitializer(input))
    return;
  if (Value state = node.readState(input))
    node.assignState(input, follow(node, state, batch, assignedFactor));
}

/// The running statistic at `input`, as a state that a checkpoint brings even where an exporter calls it a constant.
Value statistic(Node &node, unsigned input) {
  return node.isInitializer(input) ? node.readState(input) : node.input(input);
}

void train(Node &node, Value x, double epsilon) {
  auto results = node.makeAll(BatchNormOp::getOperationName(), {x, node.input(1), node.input(2)},
                              node.attrs().real("epsilon", epsilon));
  if (node.failed())
    return;
  node.set(0, node.reshape(results[0], dimsOf(node.input(0))));
  double count = 1;
  for (int64_t d = 0; d < rankOf(x); ++d)
    count *= d == 1 ? 1 : static_cast<double>(dimsOf(x)[d]);
  bool sample = node.options().batchNormVariance == BatchNormVariance::sample && count > 1;
  update(node, 3, 1, results[1], 1);
  update(node, 4, 2, results[2], sample ? count / (count - 1) : 1);
  // Before opset 14 the statistics of the batch are returned as well; what exactly, no version says.
}

/// Until opset 14 all inputs have one type; from then on scale and bias, and the statistics, may have others. A vector
/// is samples of one channel.
void batchNorm(Node &node) {
  Value x = node.input(0);
  if (rankOf(x) == 1)
    x = node.reshape(x, {dimsOf(x)[0], 1});
  double epsilon = node.epsilon(1e-5f);
  if (node.intAttr("spatial", 1) == 0)
    return node.unsupported("spatial = 0");
  for (unsigned i = 1; i < 5; ++i)
    if (node.input(i) && (rankOf(x) < 2 || dimsOf(node.input(i)) != dimsOf(x).slice(1, 1)))
      return node.invalid("input " + std::to_string(i) + " has shape " + shapeText(dimsOf(node.input(i))) +
                          " for an input of " + shapeText(dimsOf(x)));
  bool mixed = false;
  for (unsigned i = 1; i < 5; ++i)
    mixed |= elementOf(node.input(i)) != elementOf(x);
  if (trains(node)) {
    if (elementOf(node.input(1)) != elementOf(x) || elementOf(node.input(2)) != elementOf(x))
      return node.unsupported("in training mode with scale and bias of another type than the input");
    return train(node, x, epsilon);
  }
  if (!node.options().forwardOnly)
    ++node.habits().frozenBatchNorms;
  // The widest type of all is that of the statistics or the input's.
  mlir::Type element = elementOf(x);
  for (unsigned i = 1; i < 5 && mixed; ++i)
    if (elementOf(node.input(i)).getIntOrFloatBitWidth() > element.getIntOrFloatBitWidth())
      element = elementOf(node.input(i));
  llvm::SmallVector<Value> operands{node.cast(x, element)};
  for (unsigned i = 1; i < 5; ++i)
    operands.push_back(node.cast(i < 3 ? node.input(i) : statistic(node, i), element));
  Value y = node.make<BatchNormApplyOp>(operands, node.attrs().real("epsilon", epsilon));
  node.set(node.reshape(node.cast(y, elementOf(x)), dimsOf(node.input(0))));
  for (unsigned output : {1u, 2u}) // a norm that is applied once more takes them
    if (node.opset >= 14 && node.wants(output)) {
      node.set(output, node.input(output + 2));
      node.standFor(output, output + 2);
    }
}

//===-- norms of samples, and norms made of others --------------------------===//

/// [C] as [C, 1, ...], to be used with [N, C, d...].
Value perChannel(Node &node, Value value, int64_t rank) {
  Dims shape(rank - 1, 1);
  shape[0] = dimsOf(value)[0];
  return node.reshape(value, shape);
}

/// Each of `groups` runs of channels of each sample by itself; then scale and bias per channel. No channels are one
/// group.
void normalizeGroups(Node &node, int64_t groups, Value scale, Value bias, double epsilon) {
  Value x = node.input(0);
  const auto dims = dimsOf(x);
  int64_t inner = 1;
  for (int64_t d : dims.drop_front(2))
    inner *= d;
  if (inner == 0 || inner >= kFewestOfChannel || dims[0] * dims[1] == 0)
    return node.set(node.make<GroupNormOp>(
        {x, scale, bias}, node.attrs().integer("groups", std::max<int64_t>(1, groups)).real("epsilon", epsilon)));
  const int64_t size = dims[1] / groups * inner;
  Value ones = node.expand(node.scalar(1, elementOf(x)), {size});
  Value rows = node.make<LayerNormOp>({node.reshape(x, {dims[0] * groups, size}), ones},
                                      node.attrs().integer("axis", 1).real("epsilon", epsilon));
  Value y = node.make<MulOp>({node.reshape(rows, dims), perChannel(node, scale, rankOf(x))});
  node.set(node.make<AddOp>({y, perChannel(node, bias, rankOf(x))}));
}

bool checkChannels(Node &node, int64_t scales) {
  Value x = node.input(0);
  if (rankOf(x) < 2)
    node.invalid("input has rank " + std::to_string(rankOf(x)));
  else if (dimsOf(node.input(1)) != llvm::ArrayRef<int64_t>(scales) || dimsOf(node.input(2)) != dimsOf(node.input(1)))
    node.invalid("scale " + shapeText(dimsOf(node.input(1))) + " and bias " + shapeText(dimsOf(node.input(2))) +
                 " do not have " + std::to_string(scales) + " elements");
  return !node.failed();
}

void instanceNorm(Node &node) {
  Value x = node.input(0);
  if (checkChannels(node, rankOf(x) < 2 ? 0 : dimsOf(x)[1]))
    normalizeGroups(node, dimsOf(x)[1], node.input(1), node.input(2), node.epsilon(1e-5f));
}

/// In opset 18 scale and bias are per group, from 21 on per channel.
void groupNorm(Node &node) {
  Value x = node.input(0), scale = node.input(1), bias = node.input(2);
  int64_t groups = node.intAttr("num_groups", 0), channels = rankOf(x) < 2 ? 0 : dimsOf(x)[1];
  if (groups < 1 || groups > std::max<int64_t>(1, channels) || channels % groups != 0)
    return node.invalid(std::to_string(groups) + " groups do not divide " + std::to_string(channels) + " channels");
  if (node.intAttr("stash_type", 1) != 1)
    return node.unsupported("stash_type other than float");
  bool perGroup = node.opset < 21;
  if (!checkChannels(node, perGroup ? groups : channels))
    return;
  auto spread = [&](Value value) {
    Value wide = node.expand(node.reshape(value, {groups, 1}), {groups, channels / groups});
    return node.reshape(wide, {channels});
  };
  if (perGroup) {
    scale = spread(scale);
    bias = spread(bias);
  }
  if (!node.failed())
    normalizeGroups(node, groups, scale, bias, node.epsilon(1e-5f));
}

/// x / |x| along an axis; zeros stay zeros, and their norm counts as 1: the gradient goes through them as it is.
void lpNorm(Node &node) {
  Value x = node.input(0);
  int64_t axis = node.axis(node.intAttr("axis", -1), rankOf(x)), p = node.intAttr("p", 2);
  if (p != 1 && p != 2)
    node.invalid("p is " + std::to_string(p));
  if (node.failed())
    return;
  Value terms = p == 1 ? node.make<AbsOp>({x}) : node.make<MulOp>({x, x});
  Value sum = node.make<ReduceSumOp>({terms}, node.attrs().ints("axes", {axis}).flag("keepdims"));
  Value isZero = node.make<EqualOp>({sum, node.scalar(0, elementOf(x))});
  Value norm = node.make<SelectOp>({isZero, node.scalar(1, elementOf(x)), sum});
  if (p == 2)
    norm = node.make<SqrtOp>({norm});
  node.set(node.make<DivOp>({x, norm}));
}

/// x / (bias + alpha / size * sum of squares of `size` neighbouring channels) ^ beta
void localResponseNorm(Node &node) {
  Value x = node.input(0);
  int64_t size = node.intAttr("size", 0);
  if (rankOf(x) < 2 || size < 1 || size >= int64_t(1) << 31)
    return node.invalid("input has rank " + std::to_string(rankOf(x)) + ", size is " + std::to_string(size));
  int64_t rest = 1;
  for (int64_t d : dimsOf(x).drop_front(2))
    rest *= d;
  auto dims = dimsOf(x);
  Value squares = node.reshape(node.make<MulOp>({x, x}), {dims[0], 1, dims[1], rest});
  Value sums = node.make<SumPoolOp>({squares}, node.attrs()
                                                   .ints("kernel", {size, 1})
                                                   .ints("strides", {1, 1})
                                                   .ints("dilations", {1, 1})
                                                   .ints("low", {(size - 1) / 2, 0})
                                                   .ints("sizes", {dims[1], rest}));
  auto number = [&](double value) { return node.scalar(value, elementOf(x)); };
  Value scaled = node.make<MulOp>({node.reshape(sums, dims), number(node.floatAttr("alpha", 1e-4f) / double(size))});
  Value base = node.make<AddOp>({scaled, number(node.floatAttr("bias", 1.0f))});
  node.set(node.make<DivOp>({x, node.make<PowOp>({base, number(node.floatAttr("beta", 0.75f))})}));
}

} // namespace

void zc::importer::addBatchNormHandlers(HandlerTable &table) {
  table.add("BatchNormalization", 7, 5, 5, batchNorm);
  table.add("InstanceNormalization", 6, 3, 3, instanceNorm);
  table.add("GroupNormalization", 18, 3, 3, groupNorm);
  table.add("LpNormalization", 1, 1, 1, lpNorm);
  table.add("LRN", 1, 1, 1, localResponseNorm);
}
