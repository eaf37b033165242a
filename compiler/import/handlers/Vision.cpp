//===- Vision.cpp - convolutions, pools, space and depth ------------------------===//
#include "compiler/import/handlers/Activations.h"
#include "compiler/import/handlers/Handlers.h"

#include <cmath>

using namespace zc;
using namespace zc::importer;
using namespace zc::graph;
using mlir::Value;

namespace {

using Dims = llvm::SmallVector<int64_t>;

/// Attributes that all window operators share, one entry per spatial dimension; auto_pad already resolved.
class Windows {
public:
  /// `in`: spatial dimensions the windows slide over; `weightKernel`: that of the weight, or empty: kernel_shape.
  Windows(Node &node, llvm::ArrayRef<int64_t> in, Dims weightKernel = {}) {
    read(node, in, weightKernel);
    if (!node.failed())
      resolveAutoPad(node, in);
  }

  Dims kernel, strides, dilations, low, high;
  bool same = false; ///< auto_pad: the padding follows from the number of windows

  /// Elements from the first to the last one of a window.
  int64_t extent(size_t d) const { return dilations[d] * (kernel[d] - 1) + 1; }
  /// Padding of dimension `d` in all, the odd element where auto_pad says.
  void setTotal(size_t d, int64_t total) {
    int64_t half = (total - (total < 0)) / 2; // rounded down, also where a larger output_shape makes it negative
    low[d] = upper ? half : total - half;
    high[d] = total - low[d];
  }

  Attrs attrs(Node &node) const {
    return node.attrs().ints("strides", strides).ints("dilations", dilations).ints("low", low);
  }
  Attrs poolAttrs(Node &node, const Dims &sizes) const {
    return attrs(node).ints("kernel", kernel).ints("sizes", sizes);
  }

private:
  static constexpr int64_t limit = int64_t(1) << 31;

  void read(Node &node, llvm::ArrayRef<int64_t> in, const Dims &weightKernel) {
    kernel = node.intsAttr("kernel_shape");
    if (kernel.empty())
      kernel = weightKernel;
    strides = node.intsAttr("strides", in.size(), 1);
    dilations = node.intsAttr("dilations", in.size(), 1);
    Dims pads = node.intsAttr("pads", 2 * in.size(), 0);
    if (kernel.size() != in.size() || (!weightKernel.empty() && kernel != weightKernel))
      node.invalid("kernel_shape " + shapeText(kernel) + " does not fit the spatial dimensions " + shapeText(in) +
                   (weightKernel.empty() ? "" : " or is not the weight's, " + shapeText(weightKernel)));
    if (node.failed())
      return;
    for (const Dims *list : {&kernel, &strides, &dilations})
      for (int64_t amount : *list)
        if (amount < 1 || amount >= limit)
          return node.invalid("kernel, stride or dilation " + std::to_string(amount) + " is outside [1, 2^31)");
    for (int64_t amount : pads)
      if (amount <= -limit || amount >= limit)
        return node.invalid("padding " + std::to_string(amount) + " is too large");
    low.assign(pads.begin(), pads.begin() + in.size());
    high.assign(pads.begin() + in.size(), pads.end());
  }

  void resolveAutoPad(Node &node, llvm::ArrayRef<int64_t> in) {
    std::string mode = node.stringAttr("auto_pad", "NOTSET");
    if (mode == "NOTSET" || mode.empty())
      return;
    if (mode != "VALID" && mode != "SAME_UPPER" && mode != "SAME_LOWER")
      return node.invalid("auto_pad is '" + mode + "'");
    upper = mode == "SAME_UPPER";
    same = mode != "VALID";
    for (size_t d = 0; d < in.size(); ++d) {
      int64_t windows = (in[d] + strides[d] - 1) / strides[d];
      setTotal(d, same ? std::max<int64_t>(0, (windows - 1) * strides[d] + extent(d) - in[d]) : 0);
    }
  }

  bool upper = false; ///< the odd element of padding stands behind; without auto_pad ConvTranspose puts it in front
};

/// A bias of zeros, which exporters write for convolutions without one, is none.
bool isZero(Node &node, Value value) {
  const HostTensor *known = node.constantOf(value);
  return known && known->stored() == 1 && known->valueAt(0) == 0;
}

llvm::SmallVector<Value> withBias(Node &node, Value x, Value weight) {
  llvm::SmallVector<Value> operands{x, weight};
  if (Value bias = node.input(2); bias && !isZero(node, bias))
    operands.push_back(bias);
  return operands;
}

bool checkRanks(Node &node, Value x, Value weight) {
  if (rankOf(x) < 3 || rankOf(weight) != rankOf(x))
    node.invalid("input " + shapeText(dimsOf(x)) + " and weight " + shapeText(dimsOf(weight)) +
                 " are not of one rank, at least 3");
  return !node.failed();
}

Expr convolved(Node &node) {
  Value x = node.input(0), weight = node.input(1);
  if (!checkRanks(node, x, weight))
    return {node, {}};
  Windows windows(node, dimsOf(x).drop_front(2), Dims(dimsOf(weight).drop_front(2)));
  if (node.failed())
    return {node, {}};
  return {node, node.make<ConvOp>(
                    withBias(node, x, weight),
                    windows.attrs(node).ints("high", windows.high).integer("groups", node.intAttr("group", 1)))};
}
void conv(Node &node) { node.set(convolved(node)); }

/// ONNX Runtime's: an activation of the convolution plus, where given, another tensor.
void fusedConv(Node &node) {
  Expr y = convolved(node);
  if (Value added = node.input(3))
    y = y.apply<AddOp>(added);
  node.set(activated(node, y, node.floatsAttr("activation_params")));
}

/// Output: stride * (in - 1) + output_padding + extent - pads, or what output_shape says.
void convTranspose(Node &node) {
  Value x = node.input(0), weight = node.input(1);
  if (!checkRanks(node, x, weight))
    return;
  auto in = dimsOf(x).drop_front(2);
  Windows windows(node, in, Dims(dimsOf(weight).drop_front(2)));
  Dims extra = node.intsAttr("output_padding"), sizes = node.intsAttr("output_shape");
  extra.resize(extra.empty() ? in.size() : extra.size(), 0);
  if (sizes.size() == in.size() + 2)
    sizes.erase(sizes.begin(), sizes.begin() + 2);
  if (!node.failed() && (extra.size() != in.size() || (!sizes.empty() && sizes.size() != in.size())))
    node.invalid("output_padding or output_shape does not fit " + std::to_string(in.size()) + " spatial dimensions");
  Dims result;
  for (size_t d = 0; d < in.size() && !node.failed(); ++d) {
    if (std::abs(extra[d]) >= int64_t(1) << 31)
      return node.invalid("output_padding is too large");
    int64_t spread = windows.strides[d] * (in[d] - 1) + extra[d] + windows.extent(d);
    if (!sizes.empty())
      windows.setTotal(d, spread - sizes[d]);
    else if (windows.same)
      windows.setTotal(d, spread - windows.strides[d] * in[d]);
    result.push_back(spread - windows.low[d] - windows.high[d]);
    // As a conv of the result sees it: rounding down hides less than a stride at the end, the rest is cropped.
    int64_t hidden =
        result[d] + windows.low[d] + windows.high[d] - windows.extent(d) - windows.strides[d] * (in[d] - 1);
    if (hidden >= windows.strides[d] || hidden < 0)
      windows.high[d] -= hidden;
  }
  if (!node.failed())
    node.set(node.make<ConvTransposeOp>(withBias(node, x, weight), windows.attrs(node)
                                                                       .ints("high", windows.high)
                                                                       .integer("groups", node.intAttr("group", 1))
                                                                       .ints("sizes", result)));
}

//===-- pools --------------------------------------------------------------===//

/// Number of windows; under ceil_mode one more may begin, inside the input or its low padding, and end behind it.
Dims countWindows(Node &node, const Windows &windows, llvm::ArrayRef<int64_t> in) {
  bool ceil = node.intAttr("ceil_mode", 0) != 0;
  Dims sizes;
  for (size_t d = 0; d < in.size() && !node.failed(); ++d) {
    int64_t room = in[d] + windows.low[d] + windows.high[d] - windows.extent(d), stride = windows.strides[d];
    if (room < 0 && !ceil)
      node.invalid("a window of " + std::to_string(windows.extent(d)) + " elements does not fit into " +
                   std::to_string(room + windows.extent(d)));
    int64_t count = (ceil ? std::max<int64_t>(room + stride - 1, 0) : room) / stride + 1;
    if (ceil && (count - 1) * stride >= in[d] + windows.low[d])
      --count;
    sizes.push_back(count);
  }
  return sizes;
}

/// max_pool's indices are positions in a plane; ONNX counts over the whole tensor, in column-major order if asked to.
Value wholeIndices(Node &node, Value indices, llvm::ArrayRef<int64_t> in, bool columnMajor) {
  auto i64 = mlir::IntegerType::get(node.loc.getContext(), 64);
  auto number = [&](int64_t value) { return node.scalar(static_cast<double>(value), i64); };
  Value position = node.cast(indices, i64);
  if (columnMajor) {
    Value rest = position, column = Value();
    Dims strides(in.size(), 1);
    for (size_t d = 1; d < in.size(); ++d)
      strides[d] = strides[d - 1] * in[d - 1];
    for (size_t d = in.size(); d-- > 0; rest = node.make<DivOp>({rest, number(in[d])})) {
      Value part = node.make<MulOp>({node.make<ModOp>({rest, number(in[d])}), number(strides[d])});
      column = column ? node.make<AddOp>({column, part}) : part;
    }
    position = column;
  }
  int64_t planes = countOf(dimsOf(indices).take_front(2));
  auto type = mlir::RankedTensorType::get({planes}, i64);
  Value first = node.make<IotaOp>(
      {}, node.attrs().type("type", type).real("start", 0).real("delta", static_cast<double>(countOf(in))));
  Dims shape(rankOf(indices), 1);
  shape[0] = dimsOf(indices)[0];
  shape[1] = dimsOf(indices)[1];
  return node.make<AddOp>({position, node.reshape(first, shape)});
}

void maxPool(Node &node) {
  Value x = node.input(0);
  if (rankOf(x) < 3)
    return node.invalid("input has rank " + std::to_string(rankOf(x)));
  mlir::Type element = elementOf(x);
  if (!isFloat(x)) // int8 and uint8 are exact in f32
    x = node.cast(x, mlir::Float32Type::get(node.loc.getContext()));
  auto in = dimsOf(x).drop_front(2);
  Windows windows(node, in);
  if (node.failed())
    return;
  auto results =
      node.makeAll(MaxPoolOp::getOperationName(), {x}, windows.poolAttrs(node, countWindows(node, windows, in)));
  if (node.failed())
    return;
  node.set(0, node.cast(results[0], element));
  if (node.wants(1))
    node.set(1, wholeIndices(node, results[1], in, node.intAttr("storage_order", 0) != 0));
}

/// How many elements of each window count: products of counts per dimension. A dimension where all count alike is a
/// factor of `common`.
struct Counts {
  double common = 1;
  std::vector<std::pair<size_t, std::vector<double>>> varying;

  Counts(const Windows &windows, llvm::ArrayRef<int64_t> in, const Dims &sizes, bool withPadding) {
    for (size_t d = 0; d < in.size(); ++d) {
      int64_t begin = withPadding ? -windows.low[d] : 0, end = withPadding ? in[d] + windows.high[d] : in[d];
      std::vector<double> counts;
      for (int64_t o = 0; o < sizes[d]; ++o) {
        int64_t count = 0;
        for (int64_t t = 0; t < windows.kernel[d]; ++t) {
          int64_t at = o * windows.strides[d] - windows.low[d] + t * windows.dilations[d];
          count += at >= begin && at < end;
        }
        counts.push_back(static_cast<double>(count));
      }
      if (llvm::all_of(counts, [&](double count) { return count == counts[0]; }))
        common *= counts.empty() ? 1 : counts[0];
      else
        varying.push_back({d, std::move(counts)});
    }
  }
};

void averagePool(Node &node) {
  Value x = node.input(0);
  if (rankOf(x) < 3)
    return node.invalid("input has rank " + std::to_string(rankOf(x)));
  auto in = dimsOf(x).drop_front(2);
  Windows windows(node, in);
  Dims sizes = node.failed() ? Dims() : countWindows(node, windows, in);
  int64_t work = 0; // of counting, which a hostile kernel_shape must not make long
  for (size_t d = 0; d < sizes.size(); ++d)
    if (__builtin_mul_overflow(sizes[d], windows.kernel[d], &work) || work > int64_t(1) << 24)
      return node.unsupported("with " + std::to_string(sizes[d]) + " windows of " + std::to_string(windows.kernel[d]) +
                              " elements");
  Value y = node.make<SumPoolOp>({x}, windows.poolAttrs(node, sizes));
  if (node.failed())
    return;
  Counts counts(windows, in, sizes, node.intAttr("count_include_pad", 0) != 0);
  for (const auto &[d, values] : counts.varying) {
    if (static_cast<int64_t>(values.size()) > node.options().limits.foldedElements)
      return node.unsupported("with " + std::to_string(values.size()) + " windows that count differently");
    HostTensor tensor;
    tensor.dtype = *dtypeOf(elementOf(x));
    tensor.dims.assign(rankOf(x), 1);
    tensor.dims[d + 2] = values.size();
    tensor.floats = values;
    y = node.make<DivOp>({y, node.constant(tensor)});
  }
  if (counts.common != 1)
    y = node.make<DivOp>({y, node.scalar(counts.common, elementOf(x))});
  node.set(y);
}

Value powerOf(Node &node, Value x, double p) {
  if (p == 1)
    return node.make<AbsOp>({x});
  return p == 2 ? node.make<MulOp>({x, x}) : node.make<PowOp>({node.make<AbsOp>({x}), node.scalar(p, elementOf(x))});
}

void lpPool(Node &node) {
  Value x = node.input(0);
  double p = static_cast<double>(node.intAttr("p", 2));
  if (rankOf(x) < 3 || p < 1)
    return node.invalid("input has rank " + std::to_string(rankOf(x)) + ", p is " + std::to_string(int64_t(p)));
  auto in = dimsOf(x).drop_front(2);
  Windows windows(node, in);
  if (node.failed())
    return;
  Value sums = node.make<SumPoolOp>({powerOf(node, x, p)}, windows.poolAttrs(node, countWindows(node, windows, in)));
  node.set(rootOfSums(Expr(node, sums), p));
}

/// All spatial dimensions as one, [N, C, d], with its axis; and the shape of a result of one element per plane.
Value planesOf(Node &node, Dims &shape) {
  Value x = node.input(0);
  if (rankOf(x) < 3) {
    node.invalid("input has rank " + std::to_string(rankOf(x)) + ", at least 3 are needed");
    return {};
  }
  shape.assign(dimsOf(x).begin(), dimsOf(x).begin() + 2);
  shape.append(rankOf(x) - 2, 1);
  return node.reshape(x, {dimsOf(x)[0], dimsOf(x)[1], countOf(dimsOf(x).drop_front(2))});
}

/// A window over the whole plane: the first maximum has the gradient, as in torch's adaptive_max_pool.
void globalMaxPool(Node &node) {
  Dims shape;
  Value planes = planesOf(node, shape);
  if (node.failed())
    return;
  Value y = node.make<MaxPoolOp>({planes}, node.attrs()
                                               .ints("kernel", {std::max<int64_t>(dimsOf(planes)[2], 1)})
                                               .ints("strides", {1})
                                               .ints("dilations", {1})
                                               .ints("low", {0})
                                               .ints("sizes", {1}));
  node.set(node.reshape(y, shape));
}

void globalLpPool(Node &node) {
  Dims shape;
  Value planes = planesOf(node, shape);
  double p = static_cast<double>(node.intAttr("p", 2));
  if (node.failed() || p < 1)
    return node.invalid("p is " + std::to_string(int64_t(p)));
  Value sums = node.make<ReduceSumOp>({powerOf(node, planes, p)}, node.attrs().ints("axes", {2}));
  node.set(rootOfSums(Expr(node, sums), p).reshape(shape));
}

//===-- space and depth ----------------------------------------------------===//

bool readBlocks(Node &node, Value x, int64_t &block) {
  block = node.intAttr("blocksize", 0);
  if (rankOf(x) != 4 || block < 1 || block > 65536)
    node.invalid("input has rank " + std::to_string(rankOf(x)) + ", blocksize is " + std::to_string(block));
  return !node.failed();
}

void depthToSpace(Node &node) {
  Value x = node.input(0);
  int64_t b = 0;
  if (!readBlocks(node, x, b))
    return;
  auto d = dimsOf(x);
  if (d[1] % (b * b) != 0)
    return node.invalid("blocks of " + std::to_string(b) + " do not divide " + std::to_string(d[1]) + " channels");
  int64_t c = d[1] / (b * b);
  std::string mode = node.stringAttr("mode", "DCR");
  if (mode != "DCR" && mode != "CRD")
    return node.invalid("mode is '" + mode + "'");
  Value split = mode == "DCR" ? node.transpose(node.reshape(x, {d[0], b, b, c, d[2], d[3]}), {0, 3, 4, 1, 5, 2})
                              : node.transpose(node.reshape(x, {d[0], c, b, b, d[2], d[3]}), {0, 1, 4, 2, 5, 3});
  node.set(node.reshape(split, {d[0], c, d[2] * b, d[3] * b}));
}

void spaceToDepth(Node &node) {
  Value x = node.input(0);
  int64_t b = 0;
  if (!readBlocks(node, x, b))
    return;
  auto d = dimsOf(x);
  if (d[2] % b != 0 || d[3] % b != 0)
    return node.invalid("blocks of " + std::to_string(b) + " do not divide " + shapeText(d.drop_front(2)));
  std::string mode = node.stringAttr("mode", "DCR");
  if (mode != "DCR" && mode != "CRD")
    return node.invalid("mode is '" + mode + "'");
  Value split = node.reshape(x, {d[0], d[1], d[2] / b, b, d[3] / b, b});
  split = node.transpose(split, mode == "DCR" ? Dims{0, 3, 5, 1, 2, 4} : Dims{0, 1, 3, 5, 2, 4});
  node.set(node.reshape(split, {d[0], d[1] * b * b, d[2] / b, d[3] / b}));
}

} // namespace

void zc::importer::addVisionHandlers(HandlerTable &table) {
  table.add("Conv", 1, 2, 3, conv);
  table.add("com.microsoft", "FusedConv", {1, 2, 4, fusedConv});
  table.add("ConvTranspose", 1, 2, 3, convTranspose);
  table.add("MaxPool", 1, 1, 1, maxPool);
  table.add("AveragePool", 1, 1, 1, averagePool);
  table.add("LpPool", 2, 1, 1, lpPool);
  table.add("GlobalMaxPool", 1, 1, 1, globalMaxPool);
  table.add("GlobalLpPool", 2, 1, 1, globalLpPool);
  table.add("DepthToSpace", 1, 1, 1, depthToSpace);
  table.add("SpaceToDepth", 1, 1, 1, spaceToDepth);
}
