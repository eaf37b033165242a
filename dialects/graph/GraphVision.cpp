//===- GraphVision.cpp - result types and cost of convolutions, pools, batch and group norm ---===//
#include "dialects/graph/Gradient.h"
#include "dialects/graph/Infer.h"

using namespace mlir;
using namespace zc::graph;

//===-- orders -------------------------------------------------------------===//

/// The model's shape [N, C, d...] of one in the op's order, and the op's of the model's.
template <typename AdaptorT> static Shape inModel(AdaptorT &adaptor, ArrayRef<int64_t> shape) {
  return adaptor.getChannelsLast() ? toChannelsFirst(shape) : Shape(shape);
}
template <typename AdaptorT> static Shape inOp(AdaptorT &adaptor, ArrayRef<int64_t> shape) {
  return adaptor.getChannelsLast() ? toChannelsLast(shape) : Shape(shape);
}

//===-- windows ------------------------------------------------------------===//

namespace {

/// Amounts of windows and padding stay below this, so that sums of products of them fit int64_t.
constexpr int64_t kWindowLimit = int64_t(1) << 31;

/// Sliding windows of `kernel` elements over spatial dimensions.
struct Windows {
  ArrayRef<int64_t> kernel, strides, dilations, low;

  template <typename AdaptorT>
  Windows(ArrayRef<int64_t> kernel, AdaptorT &adaptor)
      : kernel(kernel), strides(adaptor.getStrides()), dilations(adaptor.getDilations()), low(adaptor.getLow()) {}

  LogicalResult check(const Infer &infer, size_t spatial) const {
    for (ArrayRef<int64_t> list : {kernel, strides, dilations, low})
      if (list.size() != spatial)
        return infer.error("[window_c1] " + Twine(list.size()) + " entries for " + Twine(spatial) +
                           " spatial dimensions");
    for (ArrayRef<int64_t> list : {kernel, strides, dilations})
      for (int64_t amount : list)
        if (amount < 1 || amount >= kWindowLimit)
          return infer.error("[window_c2] kernel, stride or dilation " + Twine(amount) + " is outside [1, 2^31)");
    return checkPads(infer, low);
  }
  static LogicalResult checkPads(const Infer &infer, ArrayRef<int64_t> pads) {
    for (int64_t amount : pads)
      if (amount <= -kWindowLimit || amount >= kWindowLimit)
        return infer.error("[window_c2] padding " + Twine(amount) + " is not below 2^31");
    return success();
  }
  /// Elements from the first to the last one of a window.
  int64_t extent(size_t d) const { return dilations[d] * (kernel[d] - 1) + 1; }
  double taps() const {
    double product = 1;
    for (int64_t k : kernel)
      product *= double(k);
    return product;
  }
};

} // namespace

//===-- convolutions -------------------------------------------------------===//

/// Shape of conv(input, weight), or failure after an error.
template <typename AdaptorT>
static FailureOr<Shape> inferConv(const Infer &infer, AdaptorT &adaptor, ArrayRef<int64_t> input,
                                  ArrayRef<int64_t> weight) {
  if (input.size() < 3 || weight.size() != input.size())
    return infer.error("[conv_c1] ranks " + Twine(input.size()) + " and " + Twine(weight.size()) +
                       " of input and weight are not one of at least 3");
  int64_t groups = adaptor.getGroups();
  if (groups < 1 || input[1] % groups != 0 || weight[0] % groups != 0)
    return infer.error("[conv_c2] " + Twine(groups) + " groups do not divide " + Twine(input[1]) + " and " +
                       Twine(weight[0]) + " channels");
  if (weight[1] != input[1] / groups)
    return infer.error("[conv_c3] the weight has " + Twine(weight[1]) + " channels, not " + Twine(input[1] / groups));
  Windows windows(weight.drop_front(2), adaptor);
  ArrayRef<int64_t> high = adaptor.getHigh();
  if (failed(windows.check(infer, input.size() - 2)))
    return failure();
  if (high.size() != windows.low.size())
    return infer.error("[window_c1] " + Twine(high.size()) + " entries for " + Twine(windows.low.size()) +
                       " spatial dimensions");
  if (failed(Windows::checkPads(infer, high)))
    return failure();
  Shape shape{input[0], weight[0]};
  for (size_t d = 0; d < high.size(); ++d) {
    int64_t padded = windows.low[d] + input[d + 2] + high[d];
    if (padded < windows.extent(d))
      return infer.error("[conv_c5] a kernel over " + Twine(windows.extent(d)) + " elements does not fit into " +
                         Twine(padded));
    shape.push_back((padded - windows.extent(d)) / windows.strides[d] + 1);
  }
  return shape;
}

static LogicalResult checkBias(const Infer &infer, Value input, Value bias, int64_t channels) {
  if (!bias)
    return success();
  return failure(failed(infer.sameElement(input, bias)) ||
                 failed(infer.hasShape("conv_c4", "bias", bias, ArrayRef<int64_t>(channels))));
}

ZC_INFER(ConvOp) {
  Infer infer(location, types);
  Value input = adaptor.getInput(), weight = adaptor.getWeight();
  FailureOr<Shape> shape = inferConv(infer, adaptor, inModel(adaptor, shapeOf(input)), shapeOf(weight));
  if (failed(shape) || failed(infer.sameElement(input, weight)) ||
      failed(checkBias(infer, input, adaptor.getBias(), shapeOf(weight)[0])))
    return failure();
  return infer.result(inOp(adaptor, *shape), elementOf(input));
}

ZC_INFER(ConvTransposeOp) {
  Infer infer(location, types);
  Value input = adaptor.getInput(), weight = adaptor.getWeight();
  Shape from = inModel(adaptor, shapeOf(input));
  ArrayRef<int64_t> kernel = shapeOf(weight);
  if (from.size() < 3 || kernel.size() != from.size())
    return infer.error("[conv_c1] ranks " + Twine(from.size()) + " and " + Twine(kernel.size()) +
                       " of input and weight are not one of at least 3");
  int64_t channels = 0;
  if (llvm::MulOverflow(kernel[1], int64_t(adaptor.getGroups()), channels))
    return infer.error("[shape_c2] the number of channels overflows");
  Shape shape{from[0], channels};
  llvm::append_range(shape, adaptor.getSizes());
  if (failed(infer.result(inOp(adaptor, shape), elementOf(input)))) // before it is computed with
    return failure();
  if (shape.size() != from.size())
    return infer.error("[window_c1] " + Twine(adaptor.getSizes().size()) + " entries for " + Twine(from.size() - 2) +
                       " spatial dimensions");
  FailureOr<Shape> back = inferConv(infer, adaptor, shape, kernel);
  if (failed(back) || failed(infer.sameElement(input, weight)) ||
      failed(checkBias(infer, input, adaptor.getBias(), channels)))
    return failure();
  if (*back != from)
    return infer.error("[conv_transpose_c1] a conv of " + toText(shape) + " has shape " + toText(*back) + ", not " +
                       toText(from));
  return success();
}

ZC_INFER(ConvWeightGradOp) {
  Infer infer(location, types);
  Value input = adaptor.getInput(), grad = adaptor.getGrad();
  Shape from = inModel(adaptor, shapeOf(input)), to = inModel(adaptor, shapeOf(grad));
  int64_t groups = adaptor.getGroups();
  if (from.size() < 3 || to.size() != from.size())
    return infer.error("[conv_c1] ranks " + Twine(from.size()) + " and " + Twine(to.size()) +
                       " of input and gradient are not one of at least 3");
  Shape weight{to[1], groups > 0 ? from[1] / groups : 0};
  llvm::append_range(weight, adaptor.getKernel());
  FailureOr<Shape> shape = inferConv(infer, adaptor, from, weight);
  if (failed(shape) || failed(infer.sameElement(input, grad)) ||
      failed(infer.hasShape("conv_weight_grad_c1", "grad", grad, inOp(adaptor, *shape))))
    return failure();
  return infer.result(weight, elementOf(input));
}

/// Multiply-adds: each element of the forward result sums over its group's channels and the kernel.
static double convFlops(ArrayRef<int64_t> output, ArrayRef<int64_t> weight) {
  double flops = 2;
  for (int64_t dim : llvm::concat<const int64_t>(output, weight.drop_front()))
    flops *= double(dim);
  return flops;
}
double ConvOp::getFlops() { return convFlops(shapeOf(getResult()), shapeOf(getWeight())); }
double ConvTransposeOp::getFlops() { return convFlops(shapeOf(getInput()), shapeOf(getWeight())); }
double ConvWeightGradOp::getFlops() { return convFlops(shapeOf(getGrad()), shapeOf(getResult())); }

//===-- pools --------------------------------------------------------------===//

/// Checks windows over `input` and gives the shape of `sizes` windows per dimension.
template <typename AdaptorT>
static FailureOr<Shape> inferPool(const Infer &infer, AdaptorT &adaptor, ArrayRef<int64_t> input,
                                  ArrayRef<int64_t> sizes) {
  if (input.size() < 3)
    return infer.error("[pool_c1] input has rank " + Twine(input.size()) + ", at least 3 are needed");
  int64_t plane = 1;
  for (int64_t dim : input.drop_front(2))
    if (llvm::MulOverflow(plane, dim, plane) || plane >= kWindowLimit)
      return infer.error("[pool_c2] a plane of " + toText(input) + " has 2^31 elements or more");
  if (failed(Windows(adaptor.getKernel(), adaptor).check(infer, input.size() - 2)))
    return failure();
  if (sizes.size() != input.size() - 2)
    return infer.error("[window_c1] " + Twine(sizes.size()) + " entries for " + Twine(input.size() - 2) +
                       " spatial dimensions");
  for (int64_t size : sizes)
    if (size < 0 || size >= kWindowLimit)
      return infer.error("[window_c2] " + Twine(size) + " windows are not in [0, 2^31)");
  Shape shape(input.take_front(2));
  llvm::append_range(shape, sizes);
  return shape;
}

ZC_INFER(MaxPoolOp) {
  Infer infer(location, types);
  Value input = adaptor.getInput();
  FailureOr<Shape> shape = inferPool(infer, adaptor, inModel(adaptor, shapeOf(input)), adaptor.getSizes());
  if (failed(shape))
    return failure();
  Shape windows = inOp(adaptor, *shape);
  return failure(failed(infer.result(windows, elementOf(input))) ||
                 failed(infer.result(windows, IntegerType::get(input.getContext(), 32))));
}

ZC_INFER(SumPoolOp) {
  Infer infer(location, types);
  Value input = adaptor.getInput();
  FailureOr<Shape> shape = inferPool(infer, adaptor, inModel(adaptor, shapeOf(input)), adaptor.getSizes());
  return failure(failed(shape) || failed(infer.result(inOp(adaptor, *shape), elementOf(input))));
}

/// `grad` has the batch and channels of `shape`, and its rank.
static LogicalResult checkPoolGrad(const Infer &infer, ArrayRef<int64_t> grad, ArrayRef<int64_t> shape) {
  if (shape.size() >= 3 && grad.size() == shape.size() && grad.take_front(2) == shape.take_front(2))
    return success();
  return infer.error("[pool_grad_c1] a pool of " + toText(shape) + " does not have shape " + toText(grad));
}

ZC_INFER(MaxPoolGradOp) {
  Infer infer(location, types);
  Value grad = adaptor.getGrad();
  if (failed(checkPoolGrad(infer, inModel(adaptor, shapeOf(grad)), inModel(adaptor, adaptor.getShape()))) ||
      failed(infer.hasShape("pool_grad_c1", "indices", adaptor.getIndices(), shapeOf(grad))))
    return failure();
  return infer.result(adaptor.getShape(), elementOf(grad));
}

ZC_INFER(SumPoolGradOp) {
  Infer infer(location, types);
  Value grad = adaptor.getGrad();
  if (failed(checkPoolGrad(infer, inModel(adaptor, shapeOf(grad)), inModel(adaptor, adaptor.getShape()))) ||
      failed(infer.result(adaptor.getShape(), elementOf(grad))))
    return failure();
  Shape windows = inModel(adaptor, shapeOf(grad));
  return inferPool(infer, adaptor, inModel(adaptor, adaptor.getShape()), ArrayRef(windows).drop_front(2));
}

static double poolFlops(Value windows, ArrayRef<int64_t> kernel) {
  double flops = double(tensorOf(windows).getNumElements());
  for (int64_t k : kernel)
    flops *= double(k);
  return flops;
}
double MaxPoolOp::getFlops() { return poolFlops(getResult(), getKernel()); }
double SumPoolOp::getFlops() { return poolFlops(getResult(), getKernel()); }
double SumPoolGradOp::getFlops() { return poolFlops(getGrad(), getKernel()); }

//===-- batch norm ---------------------------------------------------------===//

/// Checks input and scale; gives the type of the statistics.
template <typename AdaptorT> static FailureOr<RankedTensorType> checkBatchNorm(const Infer &infer, AdaptorT &adaptor) {
  Value input = adaptor.getInput(), scale = adaptor.getScale();
  Shape shape = inModel(adaptor, shapeOf(input));
  if (shape.size() < 2)
    return infer.error("[batch_norm_c1] input has rank " + Twine(shape.size()) + ", at least 2 are needed");
  if (failed(infer.sameElement(input, scale)) ||
      failed(infer.hasShape("batch_norm_c2", "scale", scale, ArrayRef(shape).slice(1, 1))))
    return failure();
  return RankedTensorType::get(ArrayRef(shape).slice(1, 1), statisticsType(elementOf(input)));
}

/// The same of a norm with a bias.
template <typename AdaptorT> static FailureOr<RankedTensorType> checkWholeNorm(const Infer &infer, AdaptorT &adaptor) {
  auto statistics = checkBatchNorm(infer, adaptor);
  if (failed(statistics) ||
      failed(infer.hasType("batch_norm_c2", "bias", adaptor.getBias(), adaptor.getScale().getType())))
    return failure();
  return statistics;
}
/// And of a gradient.
template <typename AdaptorT> static FailureOr<RankedTensorType> checkNormGrad(const Infer &infer, AdaptorT &adaptor) {
  auto statistics = checkBatchNorm(infer, adaptor);
  if (failed(statistics) ||
      failed(infer.hasType("batch_norm_c3", "grad", adaptor.getGrad(), adaptor.getInput().getType())) ||
      failed(infer.hasType("batch_norm_c4", "mean", adaptor.getMean(), *statistics)) ||
      failed(infer.hasType("batch_norm_c4", "variance", adaptor.getVariance(), *statistics)))
    return failure();
  return statistics;
}

ZC_INFER(BatchNormOp) {
  auto statistics = checkWholeNorm(Infer(location, types), adaptor);
  if (failed(statistics))
    return failure();
  types.assign({adaptor.getInput().getType(), *statistics, *statistics});
  return success();
}

ZC_INFER(BatchNormStatisticsOp) {
  auto statistics = checkWholeNorm(Infer(location, types), adaptor);
  if (failed(statistics))
    return failure();
  types.assign(4, *statistics);
  return success();
}

ZC_INFER(BatchNormGradOp) {
  if (failed(checkNormGrad(Infer(location, types), adaptor)))
    return failure();
  Type scale = adaptor.getScale().getType();
  types.assign({adaptor.getInput().getType(), scale, scale});
  return success();
}

ZC_INFER(BatchNormGradSumsOp) {
  auto statistics = checkNormGrad(Infer(location, types), adaptor);
  if (failed(statistics))
    return failure();
  Type scale = adaptor.getScale().getType();
  types.assign({scale, scale, *statistics, *statistics, *statistics});
  return success();
}

ZC_INFER(BatchNormApplyOp) {
  Infer infer(location, types);
  Type scale = adaptor.getScale().getType();
  if (failed(checkBatchNorm(infer, adaptor)) ||
      failed(infer.hasType("batch_norm_c2", "bias", adaptor.getBias(), scale)) ||
      failed(infer.hasType("batch_norm_c5", "mean", adaptor.getMean(), scale)) ||
      failed(infer.hasType("batch_norm_c5", "variance", adaptor.getVariance(), scale)))
    return failure();
  return infer.result(adaptor.getInput().getType());
}

/// Kernels of channels-last tensors compute in fp32, whatever their elements are.
static bool isComputedInF32(Value input, bool channelsLast) { return channelsLast && !elementOf(input).isF64(); }

static Value castTo(TensorBuilder &on, Value value, Type element) {
  return elementOf(value) == element ? value : on.make<CastOp>(value, TypeAttr::get(element));
}

SmallVector<Value> BatchNormOp::buildApart(OpBuilder &builder) {
  if (!isComputedInF32(getInput(), getChannelsLast()))
    return {};
  TensorBuilder on(builder, getLoc());
  auto sums = on.create<BatchNormStatisticsOp>(getInput(), getScale(), getBias(), getEpsilon(), getChannelsLast());
  Value centred = on.sub(castTo(on, getInput(), builder.getF32Type()), sums.getMean());
  Value result = on.add(on.mul(centred, sums.getFactor()), sums.getShift());
  return {castTo(on, result, elementOf(getInput())), sums.getMean(), sums.getVariance()};
}

SmallVector<Value> BatchNormGradOp::buildApart(OpBuilder &builder) {
  if (!isComputedInF32(getInput(), getChannelsLast()))
    return {};
  TensorBuilder on(builder, getLoc());
  auto sums = on.create<BatchNormGradSumsOp>(getGrad(), getInput(), getScale(), getMean(), getVariance(), getEpsilon(),
                                             getChannelsLast());
  Type f32 = builder.getF32Type();
  Value centred = on.sub(castTo(on, getInput(), f32), getMean());
  Value grad = on.sub(castTo(on, getGrad(), f32), sums.getMeanGrad());
  Value result = on.mul(sums.getFactor(), on.sub(grad, on.mul(centred, sums.getSlope())));
  return {castTo(on, result, elementOf(getInput())), sums.getDScale(), sums.getDBias()};
}

//===-- group norm ---------------------------------------------------------===//

/// Types of what a group norm has besides activations: statistics, and numbers of each sample's channels.
struct GroupNormTypes {
  RankedTensorType statistics, ofChannels;
};

/// Checks input, groups and scale.
template <typename AdaptorT> static FailureOr<GroupNormTypes> checkGroupNorm(const Infer &infer, AdaptorT &adaptor) {
  Value input = adaptor.getInput(), scale = adaptor.getScale();
  Shape shape = inModel(adaptor, shapeOf(input));
  const int64_t groups = adaptor.getGroups();
  if (shape.size() < 2)
    return infer.error("[group_norm_c1] input has rank " + Twine(shape.size()) + ", at least 2 are needed");
  if (groups < 1 || groups > std::max<int64_t>(1, shape[1]) || shape[1] % groups != 0)
    return infer.error("[group_norm_c2] " + Twine(groups) + " groups do not divide " + Twine(shape[1]) + " channels");
  if (failed(infer.sameElement(input, scale)) ||
      failed(infer.hasShape("group_norm_c3", "scale", scale, ArrayRef(shape).slice(1, 1))))
    return failure();
  const Type element = statisticsType(elementOf(input));
  Shape ofChannels(shape.size(), 1);
  llvm::copy(ArrayRef(shape).take_front(2), ofChannels.begin());
  return GroupNormTypes{RankedTensorType::get({shape[0], groups}, element),
                        RankedTensorType::get(inOp(adaptor, ofChannels), element)};
}

/// The same of a norm with a bias.
template <typename AdaptorT> static FailureOr<GroupNormTypes> checkWholeGroups(const Infer &infer, AdaptorT &adaptor) {
  auto types = checkGroupNorm(infer, adaptor);
  if (failed(types) || failed(infer.hasType("group_norm_c3", "bias", adaptor.getBias(), adaptor.getScale().getType())))
    return failure();
  return types;
}
/// And of a gradient.
template <typename AdaptorT> static FailureOr<GroupNormTypes> checkGroupGrad(const Infer &infer, AdaptorT &adaptor) {
  auto types = checkGroupNorm(infer, adaptor);
  if (failed(types) ||
      failed(infer.hasType("group_norm_c4", "grad", adaptor.getGrad(), adaptor.getInput().getType())) ||
      failed(infer.hasType("group_norm_c5", "mean", adaptor.getMean(), types->statistics)) ||
      failed(infer.hasType("group_norm_c5", "variance", adaptor.getVariance(), types->statistics)))
    return failure();
  return types;
}

ZC_INFER(GroupNormOp) {
  auto found = checkWholeGroups(Infer(location, types), adaptor);
  if (failed(found))
    return failure();
  types.assign({adaptor.getInput().getType(), found->statistics, found->statistics});
  return success();
}

ZC_INFER(GroupNormStatisticsOp) {
  auto found = checkWholeGroups(Infer(location, types), adaptor);
  if (failed(found))
    return failure();
  types.assign(5, found->ofChannels);
  types[0] = types[1] = found->statistics;
  return success();
}

ZC_INFER(GroupNormGradOp) {
  if (failed(checkGroupGrad(Infer(location, types), adaptor)))
    return failure();
  Type scale = adaptor.getScale().getType();
  types.assign({adaptor.getInput().getType(), scale, scale});
  return success();
}

ZC_INFER(GroupNormGradSumsOp) {
  auto found = checkGroupGrad(Infer(location, types), adaptor);
  if (failed(found))
    return failure();
  Type scale = adaptor.getScale().getType();
  types.assign(6, found->ofChannels);
  types[0] = types[1] = scale;
  return success();
}

/// Kernels of group norms compute in fp32 in either order.
SmallVector<Value> GroupNormOp::buildApart(OpBuilder &builder) {
  if (elementOf(getInput()).isF64())
    return {};
  TensorBuilder on(builder, getLoc());
  auto sums =
      on.create<GroupNormStatisticsOp>(getInput(), getScale(), getBias(), getGroups(), getEpsilon(), getChannelsLast());
  Value centred = on.sub(castTo(on, getInput(), builder.getF32Type()), sums.getCentre());
  Value result = on.add(on.mul(centred, sums.getFactor()), sums.getShift());
  return {castTo(on, result, elementOf(getInput())), sums.getMean(), sums.getVariance()};
}

SmallVector<Value> GroupNormGradOp::buildApart(OpBuilder &builder) {
  if (elementOf(getInput()).isF64())
    return {};
  TensorBuilder on(builder, getLoc());
  auto sums = on.create<GroupNormGradSumsOp>(getGrad(), getInput(), getScale(), getMean(), getVariance(), getGroups(),
                                             getEpsilon(), getChannelsLast());
  Type f32 = builder.getF32Type();
  Value centred = on.sub(castTo(on, getInput(), f32), sums.getCentre());
  Value mean = on.add(on.mul(centred, sums.getSlope()), sums.getOffset());
  Value result = on.sub(on.mul(castTo(on, getGrad(), f32), sums.getFactor()), mean);
  return {castTo(on, result, elementOf(getInput())), sums.getDScale(), sums.getDBias()};
}
