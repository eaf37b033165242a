//===- Slices.cpp - cutting, joining, padding ---------------------------------===//
#include "compiler/import/handlers/Handlers.h"
#include "compiler/import/node/Node.h"

using namespace zc::importer;
using namespace zc::graph;
using mlir::Value;

namespace {

using Dims = llvm::SmallVector<int64_t>;

/// ONNX clamps starts and ends as Python does, but for a start in front of all when steps go backwards: that is the
/// first element, where Python has none.
void sliceBy(Node &node, const Dims &starts, const Dims &ends, Dims axes, Dims steps) {
  Value x = node.input(0);
  int64_t rank = rankOf(x);
  if (axes.empty())
    for (size_t i = 0; i < starts.size(); ++i)
      axes.push_back(i);
  if (steps.empty())
    steps.assign(starts.size(), 1);
  if (!node.failed() && (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size()))
    node.invalid("starts, ends, axes and steps have different lengths");
  Dims offsets(rank, 0), sizes(dimsOf(x)), strides(rank, 1);
  bool whole = true;
  for (size_t i = 0; i < starts.size() && !node.failed(); ++i) {
    int64_t axis = node.axis(axes[i], rank), step = steps[i];
    if (node.failed())
      return;
    if (step == 0 || step == INT64_MIN)
      return node.invalid("step is " + std::to_string(step));
    int64_t dim = dimsOf(x)[axis], high = step > 0 ? dim : dim - 1;
    auto clamp = [&](int64_t i, int64_t low) { return std::min(std::max(i < 0 ? i + dim : i, low), high); };
    int64_t start = clamp(starts[i], 0), end = clamp(ends[i], step > 0 ? 0 : -1);
    int64_t span = step > 0 ? end - start : start - end, stride = step > 0 ? step : -step;
    sizes[axis] = span > 0 ? (span - 1) / stride + 1 : 0;
    offsets[axis] = sizes[axis] > 0 ? start : 0;
    strides[axis] = sizes[axis] > 1 ? step : 1;
    whole &= sizes[axis] == dim && strides[axis] == 1;
  }
  if (node.failed())
    return;
  if (whole)
    return node.set(x);
  node.set(
      node.make<SliceOp>({x}, node.attrs().ints("offsets", offsets).ints("sizes", sizes).ints("strides", strides)));
}

/// rows[:n] of the n rows that a mask picked are all of them; the first n of others would be found by the data.
void checkCounted(Node &node, const CountedShape &ends, const Dims &starts, const Dims &axes, const Dims &steps) {
  Value x = node.input(0);
  auto masks = node.pickedRows().masksOf(x);
  for (size_t i = 0; i < ends.counted.size() && !node.failed(); ++i) {
    int64_t axis = axes.empty() ? static_cast<int64_t>(i) : node.axis(axes[i], rankOf(x));
    bool isAll = ends.counted[i] && !masks.empty() && masks[axis] && areSame(masks[axis], ends.mask) &&
                 starts[i] == 0 && (steps.empty() || steps[i] == 1) && ends.padded.intAt(i) == dimsOf(x)[axis];
    if (ends.counted[i] && !isAll)
      node.unsupported("up to the number of rows that a mask picks, of a tensor whose rows it did not pick",
                       "x[mask] picks them; the first n rows of a tensor: torch.where(torch.arange(N) < n, x, 0)");
  }
}

void slice(Node &node) {
  Dims starts = node.constantInts(1), ends = node.constantInts(2);
  Dims axes = node.has(3) ? node.constantInts(3) : Dims();
  Dims steps = node.has(4) ? node.constantInts(4) : Dims();
  if (const CountedShape *counted = node.countedAt(2); counted && starts.size() == ends.size())
    checkCounted(node, *counted, starts, axes, steps);
  sliceBy(node, starts, ends, axes, steps);
}
void sliceAttributes(Node &node) {
  sliceBy(node, node.intsAttr("starts"), node.intsAttr("ends"), node.intsAttr("axes"), {});
}

/// `parts` pieces, the last may be smaller.
Dims equalSizes(int64_t dim, int64_t parts) {
  int64_t size = (dim + parts - 1) / parts;
  Dims sizes;
  for (int64_t i = 0, left = dim; i < parts; ++i, left -= sizes.back())
    sizes.push_back(std::min(size, std::max<int64_t>(left, 0)));
  return sizes;
}

} // namespace

llvm::SmallVector<Value> zc::importer::splitBy(Node &node, Value x, int64_t axis, llvm::ArrayRef<int64_t> sizes) {
  int64_t total = 0;
  llvm::SmallVector<Value> parts;
  for (int64_t size : sizes) {
    if (size < 0 || __builtin_add_overflow(total, size, &total))
      node.invalid("split size " + std::to_string(size) + " is negative or too large");
  }
  if (!node.failed() && total != dimsOf(x)[axis])
    node.invalid("split sizes " + shapeText(sizes) + " make " + std::to_string(total) + ", but dimension " +
                 std::to_string(axis) + " has " + std::to_string(dimsOf(x)[axis]));
  int64_t offset = 0;
  for (int64_t size : sizes) {
    parts.push_back(node.failed() ? Value() : node.slice(x, axis, offset, size));
    offset += size;
  }
  return parts;
}

namespace {

void split(Node &node) {
  Value x = node.input(0);
  int64_t axis = node.axis(node.intAttr("axis", 0), rankOf(x)), parts = node.numOutputs();
  if (node.failed())
    return;
  Dims sizes = node.opset < 13 ? node.intsAttr("split") : node.has(1) ? node.constantInts(1) : Dims();
  if (node.intAttr("num_outputs", parts) != parts || parts == 0)
    return node.invalid("num_outputs is not the number of outputs");
  if (sizes.empty()) {
    sizes = equalSizes(dimsOf(x)[axis], parts);
    if (node.opset < 18 && sizes.back() != sizes.front())
      return node.invalid("dimension " + std::to_string(dimsOf(x)[axis]) + " does not split into " +
                          std::to_string(parts) + " equal parts");
  }
  if (!node.failed() && static_cast<int64_t>(sizes.size()) != parts)
    return node.invalid("has " + std::to_string(sizes.size()) + " sizes for " + std::to_string(parts) + " outputs");
  auto values = splitBy(node, x, axis, sizes);
  for (int64_t i = 0; i < parts && !node.failed(); ++i)
    node.set(i, values[i]);
}

void concat(Node &node) {
  auto inputs = node.inputs();
  if (!node.hasAttr("axis"))
    return node.invalid("attribute 'axis' is missing");
  int64_t axis = node.axis(node.intAttr("axis", 0), rankOf(inputs[0]));
  if (node.failed() || inputs.size() == 1)
    return node.set(inputs[0]);
  node.set(node.make<ConcatOp>(inputs, node.attrs().integer("axis", axis)));
}

/// Where element `i` of a dimension of `dim` comes from, i < 0 or i >= dim too.
int64_t sourceOf(int64_t i, int64_t dim, bool isWrap, bool isReflect) {
  if (isWrap)
    return ((i % dim) + dim) % dim;
  if (!isReflect || dim == 1) // edge
    return std::clamp<int64_t>(i, 0, dim - 1);
  int64_t period = 2 * (dim - 1), at = ((i % period) + period) % period;
  return at < dim ? at : period - at;
}

/// The same of a long dimension: what is picked stands before and behind the whole.
Value padAround(Node &node, Value x, int64_t d, int64_t low, int64_t high,
                llvm::function_ref<int64_t(int64_t)> source) {
  const int64_t dim = dimsOf(x)[d], crop = std::max<int64_t>(-low, 0), kept = dim - crop - std::max<int64_t>(-high, 0);
  llvm::SmallVector<Value> parts;
  auto addPicked = [&](int64_t begin, int64_t end) {
    Dims sources;
    for (int64_t i = begin; i < end; ++i)
      sources.push_back(source(i));
    if (!sources.empty() && !node.failed())
      parts.push_back(
          node.make<GatherOp>({x, node.constant(HostTensor::ofInts(sources))}, node.attrs().integer("axis", d)));
  };
  addPicked(-low, 0);
  parts.push_back(node.slice(x, d, crop, kept));
  addPicked(dim, dim + high);
  return parts.size() == 1 ? parts.front() : node.make<ConcatOp>(parts, node.attrs().integer("axis", d));
}

/// reflect, edge and wrap: elements picked by index, a dimension at a time. Negative amounts crop.
void padByIndex(Node &node, Value x, const Dims &low, const Dims &high, const std::string &mode) {
  for (int64_t d = 0; d < rankOf(x) && !node.failed(); ++d) {
    int64_t dim = dimsOf(x)[d], size = dim + low[d] + high[d];
    if (low[d] == 0 && high[d] == 0)
      continue;
    if (size < 0 || (dim == 0 && size > 0))
      return node.invalid("cannot pad a dimension of " + std::to_string(dim) + " by " + std::to_string(low[d]) +
                          " and " + std::to_string(high[d]));
    const int64_t most = node.options().limits.foldedElements;
    if (low[d] > most || high[d] > most)
      return node.unsupported("mode '" + mode + "' of a dimension of " + std::to_string(dim) + " to " +
                              std::to_string(size));
    auto source = [&](int64_t i) { return sourceOf(i, dim, mode == "wrap", mode == "reflect"); };
    if (size > most) {
      x = padAround(node, x, d, low[d], high[d], source);
      continue;
    }
    Dims sources;
    for (int64_t i = 0; i < size; ++i)
      sources.push_back(source(i - low[d]));
    x = node.make<GatherOp>({x, node.constant(HostTensor::ofInts(sources))}, node.attrs().integer("axis", d));
  }
  node.set(x);
}

void padBy(Node &node, const Dims &pads, Dims axes, double value) {
  Value x = node.input(0);
  int64_t rank = rankOf(x);
  std::string mode = node.stringAttr("mode", "constant");
  if (mode != "constant" && mode != "reflect" && mode != "edge" && mode != "wrap")
    return node.invalid("mode is '" + mode + "'");
  if (axes.empty())
    for (int64_t d = 0; d < rank; ++d)
      axes.push_back(d);
  if (!node.failed() && pads.size() != 2 * axes.size())
    node.invalid("has " + std::to_string(pads.size()) + " pads for " + std::to_string(axes.size()) + " axes");
  Dims low(rank, 0), high(rank, 0);
  for (size_t i = 0; i < axes.size() && !node.failed(); ++i) {
    int64_t axis = node.axis(axes[i], rank);
    if (node.failed())
      return;
    low[axis] = pads[i];
    high[axis] = pads[axes.size() + i];
    if (std::abs(low[axis]) > (int64_t(1) << 48) || std::abs(high[axis]) > (int64_t(1) << 48))
      return node.invalid("pads are too large");
  }
  if (!node.failed() && mode != "constant")
    return padByIndex(node, x, low, high, mode);
  if (!node.failed())
    node.set(node.make<PadOp>({x}, node.attrs().ints("low", low).ints("high", high).real("value", value)));
}

void pad(Node &node) {
  Dims pads = node.constantInts(1), axes = node.has(3) ? node.constantInts(3) : Dims();
  padBy(node, pads, axes, node.has(2) ? node.constantFloat(2) : 0);
}
void padAttributes(Node &node) { padBy(node, node.intsAttr("pads"), {}, node.floatAttr("value", 0)); }

} // namespace

void zc::importer::addSliceHandlers(HandlerTable &table) {
  table.add("Slice", 1, 1, 1, sliceAttributes);
  table.add("Slice", 10, 3, 5, slice, {{1, "starts"}, {2, "ends", nullptr, true}, {3, "axes"}, {4, "steps"}});
  table.add("Split", 2, 1, 1, split);
  table.add("Split", 13, 1, 2, split, {{1, "split"}});
  table.add("Concat", 4, 1, -1, concat);
  table.add("Pad", 2, 1, 1, padAttributes);
  table.add("Pad", 11, 2, 4, pad, {{1, "pads"}, {2, "constant_value"}, {3, "axes"}});
}
