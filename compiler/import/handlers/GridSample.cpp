//===- GridSample.cpp - elements picked at positions that are computed ------------===//
//
// ONNX GridSample, torch's grid_sample: of each sample's elements a weighted sum around each position of a grid.
// Positions are dense, so an element is a row of channels that a gather picks, and both the input and the grid have
// gradients: the gather's, and that of the weights. Where a position lies beyond the input, and which side a derivative
// is taken from at a border, is as in torch.
//
//===----------------------------------------------------------------------===//
#include "compiler/import/handlers/Expr.h"
#include "compiler/import/handlers/Handlers.h"

using namespace zc::importer;
using namespace zc::graph;
using mlir::Value;

namespace {

using Dims = llvm::SmallVector<int64_t>;

/// As torch: the elements that count at a position are 2 or 4 to this power.
constexpr int64_t kMostSpatial = 3;

struct Sampling {
  enum class Mode { Nearest, Linear, Cubic } mode = Mode::Linear;
  enum class Padding { Zeros, Border, Reflection } padding = Padding::Zeros;
  bool corners = false; ///< -1 and 1 are the middles of the outermost elements, not their far edges
};

/// An element of one dimension that counts at each position: which one, a whole number in floating point, and how much.
struct Tap {
  Expr index;
  Expr weight;
};

/// x, turned back at the middle or the far edge of the outermost elements as often as it takes.
Expr reflected(Expr x, int64_t size, bool corners) {
  double low = corners ? 0 : -0.5, span = static_cast<double>(corners ? size - 1 : size);
  if (span == 0)
    return x * 0.0;
  Expr far = (x - low).apply<AbsOp>();
  Expr within = far - (far / (2 * span)).apply<FloorOp>() * (2 * span);
  Expr back = 2 * span - within;
  return within.where(within.apply<LessOp>(span), back) + low;
}

/// The position as the number of an element, by the padding made one of them where the padding has no zeros.
Expr withinBorders(Expr x, int64_t size, const Sampling &how) {
  if (how.padding == Sampling::Padding::Reflection)
    x = reflected(x, size, how.corners);
  return how.padding == Sampling::Padding::Zeros ? x : saturate(x, 0, static_cast<double>(size - 1));
}

/// The tap at element `index`, which may be none.
Tap tapAt(Expr index, Expr weight, int64_t size, const Sampling &how) {
  double last = static_cast<double>(size - 1);
  if (how.padding == Sampling::Padding::Zeros)
    weight = weight.where(index.apply<LessEqualOp>(last), 0 * weight)
                 .where(index.number(0).apply<LessEqualOp>(index), 0 * weight);
  return {saturate(index, 0, last), weight};
}

/// Keys' weights of the elements from the one before x's to the second after it; `t`: from x's element to x.
llvm::SmallVector<Expr> cubicWeights(Expr t) {
  constexpr double a = -0.75; // torch's
  auto inner = [](Expr d) { return ((a + 2) * d - (a + 3)) * d * d + 1; };
  auto outer = [](Expr d) { return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a; };
  return {outer(t + 1), inner(t), inner(1 - t), outer(2 - t)};
}

/// Of one dimension of `size` elements, from its column of the grid.
llvm::SmallVector<Tap> tapsOf(Expr column, int64_t size, const Sampling &how) {
  double scale = static_cast<double>(how.corners ? size - 1 : size) / 2;
  Expr x = (column + 1) * scale - (how.corners ? 0 : 0.5);
  if (how.mode == Sampling::Mode::Nearest)
    return {tapAt(withinBorders(x, size, how).apply<RoundOp>(), x.number(1), size, how)};
  if (how.mode == Sampling::Mode::Linear) {
    x = withinBorders(x, size, how);
    Expr left = x.apply<FloorOp>(), t = x - left;
    return {tapAt(left, 1 - t, size, how), tapAt(left + 1, t, size, how)};
  }
  // The curve goes on beyond the border; its elements are what the padding makes them.
  Expr left = x.apply<FloorOp>();
  llvm::SmallVector<Tap> taps;
  for (auto [k, weight] : llvm::enumerate(cubicWeights(x - left)))
    taps.push_back(tapAt(withinBorders(left + (static_cast<double>(k) - 1), size, how), weight, size, how));
  return taps;
}

/// Of all dimensions: each choice of one tap per dimension, the indices as those of rows [N, S1, S2, ...].
llvm::SmallVector<Tap> tapsOfAll(Node &node, Expr grid, llvm::ArrayRef<int64_t> sizes, const Sampling &how) {
  int64_t samples = dimsOf(grid)[0], positions = dimsOf(grid)[1], rank = sizes.size();
  auto i64 = mlir::IntegerType::get(node.loc.getContext(), 64);
  Expr sample = Expr(node, node.iota(samples, i64)).reshape({samples, 1});
  llvm::SmallVector<Tap> all{{sample, Expr(node, Value())}};
  for (int64_t d = 0; d < rank && !node.failed(); ++d) {
    // The grid's last column is the first dimension's.
    Expr column = Expr(node, node.slice(grid, 2, rank - 1 - d, 1)).reshape({samples, positions});
    llvm::SmallVector<Tap> wider;
    for (const Tap &tap : tapsOf(column, sizes[d], how))
      for (const Tap &before : all)
        wider.push_back({before.index * static_cast<double>(sizes[d]) + tap.index.cast(i64),
                         before.weight ? before.weight * tap.weight : tap.weight});
    all = std::move(wider);
  }
  return all;
}

std::optional<Sampling> samplingOf(Node &node) {
  using Mode = Sampling::Mode;
  using Padding = Sampling::Padding;
  // Opset 20 renamed them.
  std::string mode = node.stringAttr("mode", "linear"), padding = node.stringAttr("padding_mode", "zeros");
  auto isMode = llvm::StringSwitch<std::optional<Mode>>(mode)
                    .Case("nearest", Mode::Nearest)
                    .Cases("linear", "bilinear", Mode::Linear)
                    .Cases("cubic", "bicubic", Mode::Cubic)
                    .Default(std::nullopt);
  auto isPadding = llvm::StringSwitch<std::optional<Padding>>(padding)
                       .Case("zeros", Padding::Zeros)
                       .Case("border", Padding::Border)
                       .Case("reflection", Padding::Reflection)
                       .Default(std::nullopt);
  if (!isMode)
    node.invalid("mode is '" + mode + "'");
  if (!isPadding)
    node.invalid("padding_mode is '" + padding + "'");
  if (node.failed())
    return std::nullopt;
  return Sampling{*isMode, *isPadding, node.intAttr("align_corners", 0) != 0};
}

void gridSample(Node &node) {
  Value x = node.input(0), grid = node.input(1);
  int64_t rank = rankOf(x), spatial = rank - 2;
  std::optional<Sampling> how = samplingOf(node);
  if (node.failed())
    return;
  Dims sizes(dimsOf(x)), wanted(dimsOf(grid));
  if (spatial < 1 || rankOf(grid) != rank || wanted.back() != spatial || wanted[0] != sizes[0] || !isFloat(x) ||
      !isFloat(grid))
    return node.invalid("grid " + shapeText(wanted) + " does not fit input " + shapeText(sizes));
  if (llvm::is_contained(sizes, 0) || llvm::is_contained(wanted, 0))
    return node.unsupported("of an empty tensor");
  if (spatial > kMostSpatial)
    return node.unsupported("of " + std::to_string(spatial) + " spatial dimensions");
  int64_t samples = sizes[0], channels = sizes[1], elements = countOf(llvm::ArrayRef(sizes).drop_front(2)),
          positions = countOf(llvm::ArrayRef(wanted).drop_front().drop_back());
  Dims channelsLast{0}, channelsFirst{0, rank - 1};
  for (int64_t d = 1; d < rank - 1; ++d) {
    channelsLast.push_back(d + 1);
    channelsFirst.push_back(d);
  }
  channelsLast.push_back(1);
  Value rows = node.reshape(node.transpose(x, channelsLast), {samples * elements, channels});
  Expr flat(node, node.reshape(grid, {samples, positions, spatial})), sum(node, Value());
  for (const Tap &tap : tapsOfAll(node, flat, llvm::ArrayRef(sizes).drop_front(2), *how)) {
    if (node.failed())
      return;
    Expr picked(node, node.make<GatherOp>({rows, tap.index}, node.attrs().integer("axis", 0)));
    Expr part = how->mode == Sampling::Mode::Nearest && how->padding != Sampling::Padding::Zeros
                    ? picked
                    : picked * tap.weight.cast(elementOf(x)).reshape({samples, positions, 1});
    sum = sum ? sum + part : part;
  }
  wanted.back() = channels;
  node.set(node.transpose(sum.reshape(wanted), channelsFirst));
}

/// The middles of `size` elements, where -1 and 1 are the outermost middles or the far edges.
Value middles(Node &node, int64_t size, bool corners, mlir::Type element) {
  double step = corners ? (size == 1 ? 0 : 2 / static_cast<double>(size - 1)) : 2 / static_cast<double>(size);
  double first = corners ? (size == 1 ? 0 : -1) : step / 2 - 1;
  return node.iota(size, element, first, step);
}

/// Positions theta (x, y, ..., 1) of each element of an image, theta [N, r, r + 1].
void affineGrid(Node &node) {
  Value theta = node.input(0);
  Dims size = node.constantInts(1);
  if (node.failed())
    return;
  int64_t spatial = static_cast<int64_t>(size.size()) - 2, positions = 1;
  if (spatial < 1 || !isFloat(theta) || dimsOf(theta) != llvm::ArrayRef<int64_t>({size[0], spatial, spatial + 1}))
    return node.invalid("theta " + shapeText(dimsOf(theta)) + " does not fit size " + shapeText(size));
  Dims image(size.begin() + 2, size.end()), grid{size[0]};
  for (int64_t length : image) {
    if (length < 1 || length > node.options().limits.foldingWork / positions)
      return node.unsupported("of an image " + shapeText(image));
    positions *= length;
    grid.push_back(length);
  }
  grid.push_back(spatial);
  llvm::SmallVector<Value> coordinates;
  for (int64_t d = spatial - 1; d >= 0; --d) { // x is the last dimension's
    Dims along(spatial, 1);
    along[d] = image[d];
    Value x = middles(node, image[d], node.intAttr("align_corners", 0) != 0, elementOf(theta));
    coordinates.push_back(node.reshape(node.expand(node.reshape(x, along), image), {1, positions}));
  }
  coordinates.push_back(node.expand(node.scalar(1, elementOf(theta)), {1, positions}));
  Value all = node.make<ConcatOp>(coordinates, node.attrs().integer("axis", 0));
  node.set(node.reshape(node.transpose(node.make<MatmulOp>({theta, all}), {0, 2, 1}), grid));
}

} // namespace

void zc::importer::addGridSampleHandlers(HandlerTable &table) {
  table.add("GridSample", 16, 2, 2, gridSample);
  table.add("AffineGrid", 20, 2, 2, affineGrid, {{1, "size"}});
}
