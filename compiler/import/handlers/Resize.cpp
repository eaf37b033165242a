//===- Resize.cpp - resampling ----------------------------------------------------===//
//
// All modes of ONNX Resize are linear and go axis by axis: each element of the result is a weighted sum of a few of the
// input's. Where every sum is a single element (nearest), elements are picked; else the axis is multiplied by the
// matrix of the weights or, where that would be large, the first element of each sum is picked and weighted, then the
// second, and so on. All have gradients. Coordinates and weights: ONNX Resize-19, and its reference evaluator.
//
//===----------------------------------------------------------------------===//
#include "compiler/import/handlers/Handlers.h"
#include "compiler/import/node/Node.h"

#include <cmath>
#include <optional>

using namespace zc::importer;
using namespace zc::graph;
using mlir::Value;

namespace {

using Dims = llvm::SmallVector<int64_t>;
using Reals = llvm::SmallVector<double>;

/// Weights of an axis that are computed, or elements of it that are picked.
constexpr int64_t kMostWeights = int64_t(1) << 22;
/// Elements of a sum where each stands for a picked tensor.
constexpr int64_t kMostTaps = 256;

/// How one axis is resampled.
struct Axis {
  int64_t in = 0, out = 0;
  double scale = 1;
  double roiStart = 0, roiEnd = 1;
};

struct Resampling {
  std::string mode, coordinates, nearest;
  double cubic = -0.75; ///< the A of the cubic convolution
  bool antialias = false, excludeOutside = false;
};

/// One element of a result: weights of the elements from `first` on.
struct Taps {
  int64_t first = 0;
  Reals weights;
};

/// Where element `i` of the result lies among the input's; the name is known.
double coordinateOf(const Resampling &how, const Axis &axis, int64_t i) {
  double x = static_cast<double>(i), in = static_cast<double>(axis.in), length = axis.scale * in;
  if (how.coordinates == "align_corners")
    return length == 1 ? 0 : x * (in - 1) / (length - 1);
  if (how.coordinates == "asymmetric")
    return x / axis.scale;
  if (how.coordinates == "tf_half_pixel_for_nn")
    return (x + 0.5) / axis.scale;
  if (how.coordinates == "tf_crop_and_resize") {
    double span = (axis.roiEnd - axis.roiStart) * (in - 1);
    return axis.roiStart * (in - 1) + (length == 1 ? span / 2 : x * span / (length - 1));
  }
  if (how.coordinates == "pytorch_half_pixel" && length == 1)
    return -0.5;
  double shift = how.coordinates == "half_pixel_symmetric" ? in / 2 * (1 - static_cast<double>(axis.out) / length) : 0;
  return shift + (x + 0.5) / axis.scale - 0.5;
}

double cubicWeight(double a, double distance) {
  double x = std::abs(distance);
  if (x <= 1)
    return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

/// Elements before and behind, where the axis grows; smoothing widens the filter as far as it shrinks.
double reachOf(const Resampling &how) { return how.mode == "linear" ? 1 : 2; }
double stretchOf(const Resampling &how, const Axis &axis) { return how.antialias ? std::min(axis.scale, 1.0) : 1; }

/// Weights of the elements around `x`, which is in (base, base + 1].
Taps tapsAt(const Resampling &how, const Axis &axis, double x) {
  double base = std::ceil(x) - 1, ratio = x - base;
  if (how.mode == "nearest") {
    bool up = how.nearest == "round_prefer_floor"  ? ratio > 0.5
              : how.nearest == "round_prefer_ceil" ? ratio >= 0.5
              : how.nearest == "ceil"              ? true
                                                   : ratio == 1;
    return {static_cast<int64_t>(base) + up, {1}};
  }
  const double reach = reachOf(how), stretch = stretchOf(how, axis);
  int64_t start = static_cast<int64_t>(std::floor(-reach / stretch)) + 1, end = 2 - start;
  Taps taps{static_cast<int64_t>(base) + start, {}};
  double sum = 0;
  for (int64_t i = start; i < end; ++i) {
    double distance = (static_cast<double>(i) - ratio) * stretch;
    double weight = how.mode == "linear" ? std::max(0.0, 1 - std::abs(distance)) : cubicWeight(how.cubic, distance);
    taps.weights.push_back(weight);
    sum += weight;
  }
  for (double &weight : taps.weights)
    weight /= how.antialias ? sum : 1;
  return taps;
}

/// The row of the matrix: elements beyond the borders count as those at the borders, or not at all.
Taps clipped(Taps taps, const Resampling &how, int64_t in) {
  int64_t low = std::clamp<int64_t>(taps.first, 0, in - 1),
          high = std::clamp<int64_t>(taps.first + static_cast<int64_t>(taps.weights.size()) - 1, 0, in - 1);
  Taps result{low, Reals(high - low + 1, 0)};
  double sum = 0;
  for (auto [i, weight] : llvm::enumerate(taps.weights)) {
    int64_t at = taps.first + static_cast<int64_t>(i);
    if (how.excludeOutside && how.mode != "nearest" && (at < 0 || at >= in))
      continue;
    result.weights[std::clamp<int64_t>(at, 0, in - 1) - low] += weight;
    sum += weight;
  }
  for (double &weight : result.weights)
    weight /= how.excludeOutside && how.mode != "nearest" ? sum : 1;
  return result;
}

/// The axis `d` as the middle one of three.
Dims threeAxes(llvm::ArrayRef<int64_t> dims, int64_t d) {
  Dims three{1, dims[d], 1};
  for (int64_t i = 0; i < static_cast<int64_t>(dims.size()); ++i)
    if (i != d)
      three[i < d ? 0 : 2] *= dims[i];
  return three;
}

Dims withDim(llvm::ArrayRef<int64_t> dims, int64_t d, int64_t size) {
  Dims result(dims);
  result[d] = size;
  return result;
}

std::string lengthsOf(int64_t in, int64_t out) {
  return "from " + std::to_string(in) + " to " + std::to_string(out) + " elements along an axis";
}

/// Elements of axis `d` picked by index; each repeated equally often is an expansion.
Value pick(Node &node, Value x, int64_t d, llvm::ArrayRef<int64_t> sources) {
  int64_t in = dimsOf(x)[d], out = sources.size(), times = out / in;
  Dims shape = withDim(dimsOf(x), d, out);
  bool repeats = out % in == 0;
  for (int64_t i = 0; i < out && repeats; ++i)
    repeats = sources[i] == i / times;
  if (!repeats && out > node.options().limits.foldedElements) {
    node.unsupported(lengthsOf(in, out));
    return {};
  }
  if (!repeats)
    return node.make<GatherOp>({x, node.constant(HostTensor::ofInts(sources))}, node.attrs().integer("axis", d));
  Dims three = threeAxes(dimsOf(x), d);
  Value apart = node.reshape(x, {three[0] * in, 1, three[2]});
  return node.reshape(node.expand(apart, {three[0] * in, times, three[2]}), shape);
}

/// The sum over k of each row's k-th element times its weight.
Value addTaps(Node &node, Value x, int64_t d, llvm::ArrayRef<Taps> rows) {
  const int64_t in = dimsOf(x)[d], out = rows.size();
  size_t most = 0;
  for (const Taps &taps : rows)
    most = std::max(most, taps.weights.size());
  if (most > kMostTaps) {
    node.unsupported(lengthsOf(in, out) + ", of which each is a sum of " + std::to_string(most));
    return {};
  }
  Value sum;
  for (size_t k = 0; k < most && !node.failed(); ++k) {
    HostTensor weights;
    weights.dtype = *dtypeOf(elementOf(x));
    weights.dims = Dims(rankOf(x) - d, 1);
    weights.dims[0] = out;
    weights.allocate();
    Dims sources;
    for (auto [i, taps] : llvm::enumerate(rows)) {
      sources.push_back(std::min(taps.first + static_cast<int64_t>(k), in - 1));
      weights.floats[i] = k < taps.weights.size() ? roundTo(weights.dtype, taps.weights[k]) : 0;
    }
    Value part = node.make<MulOp>({pick(node, x, d, sources), node.constant(weights)});
    sum = sum && part ? node.make<AddOp>({sum, part}) : part;
  }
  return sum;
}

Value multiply(Node &node, Value x, int64_t d, llvm::ArrayRef<Taps> rows) {
  int64_t in = dimsOf(x)[d], out = rows.size();
  if (in > node.options().limits.foldedElements / out)
    return addTaps(node, x, d, rows);
  HostTensor matrix;
  matrix.dtype = *dtypeOf(elementOf(x));
  matrix.dims = {out, in};
  matrix.allocate();
  for (auto [i, taps] : llvm::enumerate(rows))
    for (auto [k, weight] : llvm::enumerate(taps.weights))
      matrix.floats[static_cast<int64_t>(i) * in + taps.first + static_cast<int64_t>(k)] =
          roundTo(matrix.dtype, weight);
  Dims three = threeAxes(dimsOf(x), d), shape = withDim(dimsOf(x), d, out);
  Value weights = node.constant(matrix);
  if (three[2] == 1)
    return node.reshape(node.make<MatmulOp>({node.reshape(x, {three[0], in}), weights}, node.attrs().flag("trans_rhs")),
                        shape);
  return node.reshape(node.make<MatmulOp>({weights, node.reshape(x, three)}), shape);
}

/// `value` where elements of the result lie outside the input (tf_crop_and_resize).
Value extrapolate(Node &node, Value x, int64_t d, llvm::ArrayRef<int64_t> outside, double value) {
  if (llvm::all_of(outside, [](int64_t bit) { return bit == 0; }))
    return x;
  HostTensor mask = HostTensor::ofInts(outside);
  mask.dtype = zc::DType::boolean;
  Dims shape(rankOf(x) - d, 1);
  shape[0] = outside.size();
  return node.make<SelectOp>({node.reshape(node.constant(mask), shape), node.scalar(value, elementOf(x)), x});
}

Value resizeAxis(Node &node, Value x, int64_t d, const Axis &axis, const Resampling &how, double extrapolation) {
  llvm::SmallVector<Taps> rows;
  Dims sources, outside;
  bool same = axis.in == axis.out, single = true;
  for (int64_t i = 0; i < axis.out; ++i) {
    double at = coordinateOf(how, axis, i), last = static_cast<double>(axis.in - 1);
    outside.push_back(how.coordinates == "tf_crop_and_resize" && (at < 0 || at > last));
    // Beyond a border everything is the border's element; no number here is too large for an integer.
    at = std::clamp(at, -4.0 - 2 / axis.scale, last + 4 + 2 / axis.scale);
    Taps taps = clipped(tapsAt(how, axis, at), how, axis.in);
    auto one = llvm::find(taps.weights, 1.0);
    single &=
        one != taps.weights.end() && llvm::count(taps.weights, 0.0) + 1 == static_cast<int64_t>(taps.weights.size());
    sources.push_back(taps.first + (one - taps.weights.begin()));
    same &= single && sources.back() == i;
    if (how.mode != "nearest") // which has one each
      rows.push_back(std::move(taps));
  }
  if (!same)
    x = single ? pick(node, x, d, sources) : multiply(node, x, d, rows);
  return node.failed() ? Value() : extrapolate(node, x, d, outside, extrapolation);
}

/// The wishes as one Axis per named axis; errors stick to the node.
class Sizes {
public:
  Sizes(Node &node, Value x, Dims axes) : node(node), axes(std::move(axes)) {
    for (int64_t axis : this->axes)
      result.push_back({dimsOf(x)[axis], 0, 1, 0, 1});
  }

  void fromScales(llvm::ArrayRef<double> scales) {
    if (!matches(scales.size(), "scales"))
      return;
    for (auto [axis, scale] : llvm::zip(result, scales)) {
      if (!(scale > 0) || !(scale * static_cast<double>(axis.in) < 0x1p48))
        return node.invalid("scale is " + std::to_string(scale));
      axis.scale = scale;
      // In fp32, as ONNX infers shapes: 0.7 of 10 is 7, though the fp32 number next to 0.7 is less.
      axis.out = static_cast<int64_t>(static_cast<float>(scale) * static_cast<float>(axis.in));
    }
  }

  void fromSizes(llvm::ArrayRef<int64_t> sizes, const std::string &policy) {
    if (!matches(sizes.size(), "sizes"))
      return;
    double least = INFINITY, most = 0;
    for (auto [axis, size] : llvm::zip(result, sizes)) {
      if (size < 0 || size >= int64_t(1) << 48)
        return node.invalid("size is " + std::to_string(size));
      axis.out = size;
      axis.scale = axis.in == 0 ? 1 : static_cast<double>(size) / static_cast<double>(axis.in);
      least = std::min(least, axis.scale);
      most = std::max(most, axis.scale);
    }
    if (policy == "stretch")
      return;
    if (policy != "not_larger" && policy != "not_smaller")
      return node.invalid("keep_aspect_ratio_policy is '" + policy + "'");
    for (Axis &axis : result) {
      axis.scale = policy == "not_larger" ? least : most;
      axis.out = static_cast<int64_t>(axis.scale * static_cast<double>(axis.in) + 0.5);
    }
  }

  void setRegion(const std::optional<HostTensor> &region) {
    size_t n = result.size();
    if (!region)
      return node.unsupported("with a region (roi) that is not known when compiling");
    if (!region->isFloat() || region->numElements() != static_cast<int64_t>(2 * n))
      return node.invalid("roi does not have " + std::to_string(2 * n) + " numbers");
    for (size_t i = 0; i < n; ++i) {
      result[i].roiStart = region->floatAt(i);
      result[i].roiEnd = region->floatAt(i + n);
    }
  }

  llvm::SmallVector<Axis> result;

private:
  bool matches(size_t count, const char *what) {
    if (!node.failed() && count != result.size())
      node.invalid("has " + std::to_string(count) + " " + what + " for " + std::to_string(result.size()) + " axes");
    return !node.failed();
  }
  Node &node;
  const Dims axes;
};

bool isOneOf(Node &node, const char *attribute, const std::string &word, llvm::ArrayRef<llvm::StringRef> words) {
  if (llvm::is_contained(words, word))
    return true;
  node.invalid(std::string(attribute) + " is '" + word + "'");
  return false;
}

void resizeAll(Node &node, const Resampling &how, llvm::ArrayRef<int64_t> axes, llvm::ArrayRef<Axis> sizes) {
  Value x = node.input(0);
  isOneOf(node, "mode", how.mode, {"nearest", "linear", "cubic"});
  isOneOf(node, "nearest_mode", how.nearest, {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"});
  isOneOf(node, "coordinate_transformation_mode", how.coordinates,
          {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric",
           "tf_half_pixel_for_nn", "tf_crop_and_resize"});
  if (!node.failed() && how.mode != "nearest" && !isFloat(x))
    node.unsupported("of integers by mode '" + how.mode + "'");
  double extrapolation = node.floatAttr("extrapolation_value", 0);
  for (auto [d, axis] : llvm::zip(axes, sizes)) {
    if (node.failed())
      return;
    if (axis.scale == 1 && axis.in == axis.out && !llvm::StringRef(how.coordinates).starts_with("tf_"))
      continue;
    // Before anything is computed of the axis: a window may be as long as it.
    const bool isNearest = how.mode == "nearest";
    const double weights = isNearest ? 1 : 2 * reachOf(how) / stretchOf(how, axis) + 2;
    if ((!isNearest && axis.out > node.options().limits.foldedElements) ||
        static_cast<double>(axis.out) * weights > static_cast<double>(kMostWeights))
      return node.unsupported(lengthsOf(axis.in, axis.out));
    if (axis.in == 0 && axis.out != 0)
      return node.invalid("cannot resize a dimension of 0 to " + std::to_string(axis.out));
    if (axis.out == 0)
      x = node.slice(x, d, 0, 0);
    else
      x = resizeAxis(node, x, d, axis, how, extrapolation);
  }
  node.set(x);
}

Dims allAxes(Value x) { return llvm::to_vector(llvm::seq<int64_t>(0, rankOf(x))); }

/// Input `i` as numbers. Floats of the file may be trained, so that they are no constants, but scales are not.
std::optional<HostTensor> numbersOf(Node &node, unsigned i) {
  Value value = node.input(i);
  if (const HostTensor *known = value ? node.constantOf(value) : nullptr)
    return *known;
  return node.storedNumbers(value, 2 * node.options().limits.rank);
}

Reals constantReals(Node &node, unsigned i) {
  std::optional<HostTensor> known = node.has(i) ? numbersOf(node, i) : std::nullopt;
  if (!known || !known->isFloat() || known->rank() != 1) {
    node.unsupported("with scales that are not known when compiling",
                     "export with fixed sizes (interpolate(size=...)) or a constant scale_factor");
    return {};
  }
  Reals values;
  for (int64_t k = 0, n = std::min<int64_t>(known->numElements(), node.options().limits.rank); k < n; ++k)
    values.push_back(known->floatAt(k));
  return values;
}

void resize(Node &node) {
  Value x = node.input(0);
  Dims axes = node.intsAttr("axes");
  for (int64_t &axis : axes)
    axis = node.axis(axis, rankOf(x));
  if (axes.empty())
    axes = allAxes(x);
  Dims sorted(axes);
  llvm::sort(sorted);
  if (!node.failed() && std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end())
    return node.invalid("has an axis twice");
  Resampling how{node.stringAttr("mode", "nearest"),
                 node.stringAttr("coordinate_transformation_mode", "half_pixel"),
                 node.stringAttr("nearest_mode", "round_prefer_floor"),
                 node.floatAttr("cubic_coeff_a", -0.75),
                 node.intAttr("antialias", 0) != 0,
                 node.intAttr("exclude_outside", 0) != 0};
  Sizes sizes(node, x, axes);
  bool hasScales = node.has(2) && !llvm::is_contained(dimsOf(node.input(2)), 0);
  if (hasScales)
    sizes.fromScales(constantReals(node, 2));
  else if (node.has(3))
    sizes.fromSizes(node.constantInts(3), node.stringAttr("keep_aspect_ratio_policy", "stretch"));
  else
    node.invalid("has neither scales nor sizes");
  if (!node.failed() && how.coordinates == "tf_crop_and_resize")
    sizes.setRegion(node.has(1) ? numbersOf(node, 1) : std::nullopt);
  if (!node.failed())
    resizeAll(node, how, axes, sizes.result);
}

/// Upsample and the first Resize: left edges aligned, the element to the left.
void upsampleBy(Node &node, llvm::ArrayRef<double> scales) {
  Value x = node.input(0);
  Sizes sizes(node, x, allAxes(x));
  sizes.fromScales(scales);
  std::string mode = node.stringAttr("mode", "nearest");
  if (!node.failed())
    resizeAll(node, {mode == "bilinear" ? "linear" : mode, "asymmetric", "floor", -0.75, false, false}, allAxes(x),
              sizes.result);
}
void upsample(Node &node) { upsampleBy(node, constantReals(node, 1)); }
void upsampleAttributes(Node &node) { upsampleBy(node, node.floatsAttr("scales")); }

} // namespace

void zc::importer::addResizeHandlers(HandlerTable &table) {
  table.add("Upsample", 7, 1, 1, upsampleAttributes);
  table.add("Upsample", 9, 2, 2, upsample);
  table.add("Resize", 10, 2, 2, upsample);
  table.add("Resize", 11, 1, 4, resize, {{3, "sizes"}});
  table.limit("", "Resize", "scales known when compiling");
}
