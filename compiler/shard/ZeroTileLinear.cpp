//===- ZeroTileLinear.cpp - memory-centric tiling of huge linears -----------------===//
//
// Tiles are whole rows of the weight as it is stored, so that each is a run of bytes in every file. Of the three
// products of a linear, rows then cut one's sum, and the columns of one result:
//
//   weight [out, in]   forward: out-split    input gradient: in-split    weight gradient: rows apart
//   weight [in, out]   forward: in-split     input gradient: out-split   weight gradient: rows apart
//
// Out-split parts are joined, in-split parts go on with the sum where the part before left it.
//
//===----------------------------------------------------------------------===//

#include "compiler/shard/Passes.h"
#include "dialects/graph/Graph.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/Support/MathExtras.h"

namespace zc {
#define GEN_PASS_DEF_ZEROTILELINEAR
#include "compiler/shard/Passes.h.inc"

using namespace mlir;

namespace {

/// More of one linear would make plans of steps that do nothing.
constexpr int64_t kMaxTiles = 1024;

/// Rows [begin, begin + rows) of a weight, a parameter of its own.
struct Tile {
  graph::ParameterOp parameter;
  int64_t begin, rows;
};

/// A weight and everything that uses it.
struct Linear {
  graph::ParameterOp weight;
  SmallVector<graph::ReadOp> reads;
  SmallVector<graph::MatmulOp> products;  ///< with the weight as rhs
  graph::AccumulateGradOp gradient;       ///< null: frozen
  SmallVector<graph::MatmulOp> gradients; ///< whose sum is accumulated
  graph::UpdateOp update;                 ///< null: frozen
  const char *obstacle = nullptr;         ///< why it cannot be tiled
};

RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }

/// Multiplications of an m x n x k product, as far as they can be counted.
int64_t multiplications(int64_t m, int64_t n, int64_t k) {
  int64_t mn = llvm::SaturatingMultiply<uint64_t>(m, n) >> 62 ? INT64_MAX : m * n;
  double all = static_cast<double>(mn) * static_cast<double>(k);
  return all < 0x1p62 ? std::max<int64_t>(1, mn * k) : int64_t(1) << 62;
}

/// Ops of one linear, cut.
class Tiler {
public:
  Tiler(Linear &linear, ArrayRef<Tile> tiles) : linear(linear), tiles(tiles), builder(linear.weight) {}

  void run() {
    for (graph::MatmulOp product : linear.products)
      tileProduct(product);
    if (linear.gradient)
      tileGradient();
    if (linear.update)
      tileUpdate();
  }

private:
  Value read(Location location, Tile tile) {
    return builder.create<graph::ReadOp>(location, tile.parameter.getType(), tile.parameter.getSymName());
  }

  /// Columns [begin, begin + count) of a matrix.
  Value columns(Location location, Value matrix, int64_t begin, int64_t count) {
    int64_t rows = typeOf(matrix).getDimSize(0);
    return builder.create<graph::SliceOp>(location, matrix, ArrayRef<int64_t>{0, begin}, ArrayRef<int64_t>{rows, count},
                                          ArrayRef<int64_t>{1, 1});
  }

  Value reshaped(Location location, Value value, ArrayRef<int64_t> shape) {
    return shape == typeOf(value).getShape() ? value : builder.create<graph::ReshapeOp>(location, value, shape);
  }

  Value cast(Location location, Value value, Type element) {
    if (typeOf(value).getElementType() == element)
      return value;
    return builder.create<graph::CastOp>(location, value, element);
  }

  void tileProduct(graph::MatmulOp product) {
    builder.setInsertionPoint(product);
    Location location = product.getLoc();
    RankedTensorType type = typeOf(product.getResult());
    Type element = type.getElementType();
    int64_t n = type.getShape().back(), m = n ? type.getNumElements() / n : 0;
    int64_t k = typeOf(product.getLhs()).getShape().back();
    Value lhs = reshaped(location, product.getLhs(), {m, k});
    // What is added to the product, a bias or the next part, is added before it is rounded.
    bool joins = product.getTransRhs();
    bool widens = (element.isBF16() || element.isF16()) && (product.getBias() || !joins);
    SmallVector<Value> parts;
    Value sum;
    for (Tile tile : tiles) {
      Value from = joins ? lhs : columns(location, lhs, tile.begin, tile.rows);
      sum = builder.create<graph::MatmulPartOp>(location, from, read(location, tile), joins ? Value() : sum,
                                                /*trans_lhs=*/false, joins, multiplications(m, n, k), widens);
      parts.push_back(sum);
    }
    Value result = joins ? builder.create<graph::ConcatOp>(location, parts, 1).getResult() : sum;
    if (Value bias = product.getBias())
      result = builder.create<graph::AddOp>(location, result, cast(location, bias, typeOf(result).getElementType()));
    result = reshaped(location, cast(location, result, element), type.getShape());
    product.replaceAllUsesWith(result);
    product.erase();
  }

  void tileGradient() {
    builder.setInsertionPoint(linear.gradient);
    Location location = linear.gradient.getLoc();
    for (Tile tile : tiles) {
      Value sum;
      for (graph::MatmulOp product : linear.gradients) {
        ArrayRef<int64_t> lhs = typeOf(product.getLhs()).getShape();
        int64_t whole = multiplications(lhs[0], lhs[1], typeOf(product.getRhs()).getDimSize(1));
        Value from = columns(product.getLoc(), product.getLhs(), tile.begin, tile.rows);
        Value part = builder.create<graph::MatmulPartOp>(product.getLoc(), from, product.getRhs(), Value(),
                                                         /*trans_lhs=*/true, /*trans_rhs=*/false, whole, false);
        sum = sum ? builder.create<graph::AddOp>(location, sum, part).getResult() : part;
      }
      builder.create<graph::AccumulateGradOp>(location, tile.parameter.getSymName(), sum);
    }
    Operation *dead = linear.gradient.getGrad().getDefiningOp();
    linear.gradient.erase();
    eraseUnused(dead);
  }

  static void eraseUnused(Operation *op) {
    if (!op || !op->use_empty() || !isa<graph::AddOp, graph::MatmulOp>(op))
      return;
    SmallVector<Value> operands(op->getOperands());
    op->erase();
    for (Value operand : operands)
      eraseUnused(operand.getDefiningOp());
  }

  void tileUpdate() {
    builder.setInsertionPoint(linear.update);
    for (Tile tile : tiles) {
      auto update = llvm::cast<graph::UpdateOp>(builder.clone(*linear.update));
      update.setParameter(tile.parameter.getSymName());
    }
    linear.update.erase();
  }

  Linear &linear;
  ArrayRef<Tile> tiles;
  OpBuilder builder;
};

struct ZeroTileLinearPass : StagePass<impl::ZeroTileLinearBase<ZeroTileLinearPass>, ShardOptions> {
  using StagePass::StagePass;

  void runOnOperation() override {
    SymbolTable symbols(getOperation());
    llvm::MapVector<Operation *, Linear> linears;
    for (auto parameter : getOperation().getOps<graph::ParameterOp>())
      if (parameter.getRole() != graph::Role::buffer &&
          graph::bytesOf(llvm::cast<RankedTensorType>(parameter.getType())) > options.tileBytes())
        linears[parameter].weight = parameter;
    collectUses(symbols, linears);
    for (auto &[op, linear] : linears) {
      if (linear.obstacle) {
        linear.weight.emitRemark("parameter '") << linear.weight.getSymName() << "' is larger than a tile of "
                                                << options.tileBytes() << " bytes but stays whole: " << linear.obstacle;
        continue;
      }
      SmallVector<Tile> tiles;
      if (failed(cut(symbols, linear.weight, tiles)))
        return signalPassFailure();
      Tiler(linear, tiles).run();
      for (graph::ReadOp read : linear.reads)
        read.erase();
      symbols.erase(linear.weight);
      ++numLinears;
      numTiles += tiles.size();
    }
  }

private:
  void collectUses(SymbolTable &symbols, llvm::MapVector<Operation *, Linear> &linears) {
    auto find = [&](StringRef name) -> Linear * {
      auto found = linears.find(symbols.lookup(name));
      return found == linears.end() ? nullptr : &found->second;
    };
    getOperation().walk([&](Operation *op) {
      if (auto read = dyn_cast<graph::ReadOp>(op)) {
        if (Linear *linear = find(read.getParameter())) {
          linear->reads.push_back(read);
          for (OpOperand &use : read->getUses())
            addUse(*linear, use);
        }
      } else if (auto gradient = dyn_cast<graph::AccumulateGradOp>(op)) {
        if (Linear *linear = find(gradient.getParameter())) {
          linear->gradient = gradient;
          addGradient(*linear, gradient.getGrad());
        }
      } else if (auto update = dyn_cast<graph::UpdateOp>(op)) {
        if (Linear *linear = find(update.getParameter()))
          linear->update = update;
      }
    });
    for (auto &[op, linear] : linears)
      if (!linear.obstacle && linear.products.empty())
        linear.obstacle = "no matrix product uses it";
  }

  static void addUse(Linear &linear, OpOperand &use) {
    auto product = dyn_cast<graph::MatmulOp>(use.getOwner());
    if (product && use.getOperandNumber() == 1 && product.getLhs() != use.get() && !product.getTransLhs() &&
        typeOf(use.get()).getRank() == 2)
      return linear.products.push_back(product);
    linear.obstacle = product ? "a product uses it as something else than the second factor of a linear"
                              : "it is used by something else than a linear";
  }

  /// A gradient that is a product, or a sum of products of which each is one use's.
  static void addGradient(Linear &linear, Value gradient) {
    Operation *op = gradient.getDefiningOp();
    auto product = dyn_cast_or_null<graph::MatmulOp>(op);
    if (product && gradient.hasOneUse() && product.getTransLhs() && !product.getTransRhs() && !product.getBias() &&
        typeOf(product.getLhs()).getRank() == 2 && typeOf(product.getRhs()).getRank() == 2)
      return linear.gradients.push_back(product);
    if (auto sum = dyn_cast_or_null<graph::AddOp>(op);
        sum && gradient.hasOneUse() && sum.getLhs().getType() == gradient.getType() &&
        sum.getRhs().getType() == gradient.getType() && !isa_and_nonnull<graph::AddOp>(sum.getRhs().getDefiningOp())) {
      addGradient(linear, sum.getLhs());
      return addGradient(linear, sum.getRhs());
    }
    linear.obstacle = "its gradient is not that of a linear";
  }

  LogicalResult cut(SymbolTable &symbols, graph::ParameterOp weight, SmallVectorImpl<Tile> &tiles) {
    auto type = llvm::cast<RankedTensorType>(weight.getType());
    int64_t rows = type.getDimSize(0), row = graph::bytesOf(type) / rows;
    int64_t fit = std::max<int64_t>(1, options.tileBytes() / row);
    int64_t granule = fit >= kGranule ? kGranule : 1;
    fit = fit / granule * granule;
    // As equal as the granule allows.
    int64_t size = static_cast<int64_t>(llvm::alignTo(llvm::divideCeil(rows, llvm::divideCeil(rows, fit)), granule));
    int64_t count = static_cast<int64_t>(llvm::divideCeil(rows, size));
    if (count > kMaxTiles)
      return weight.emitError("[tile_c2] tiles of ")
             << options.tileBytes() << " bytes would cut parameter '" << weight.getSymName() << "' of "
             << graph::bytesOf(type) << " bytes into " << count << " tiles, more than " << kMaxTiles;
    for (int64_t begin = 0; begin < rows; begin += size)
      tiles.push_back(makeTile(symbols, weight, begin, std::min(size, rows - begin)));
    return success();
  }

  static Tile makeTile(SymbolTable &symbols, graph::ParameterOp weight, int64_t begin, int64_t rows) {
    auto type = llvm::cast<RankedTensorType>(weight.getType());
    int64_t columns = type.getDimSize(1), first = begin * columns;
    auto own = RankedTensorType::get({rows, columns}, type.getElementType());
    OpBuilder builder(weight);
    auto tile = llvm::cast<graph::ParameterOp>(weight->clone());
    tile.setSymName((weight.getSymName() + "[" + Twine(begin) + ":" + Twine(begin + rows) + "]").str());
    tile.setType(own);
    tile.setPartAttr(graph::PartAttr::get(builder.getContext(), weight.getSymName(), first, type));
    if (weight.getCutAttr()) { // source and value are those of the whole, over all ranks
      symbols.insert(tile, Block::iterator(weight));
      return {tile, begin, rows};
    }
    if (graph::SourceAttr source = weight.getSourceAttr()) {
      int64_t width = source.getBytes() / type.getNumElements();
      tile.setSourceAttr(graph::SourceAttr::get(builder.getContext(), source.getFile(),
                                                source.getOffset() + first * width, rows * columns * width,
                                                source.getDtype()));
    } else if (auto value = dyn_cast_or_null<DenseElementsAttr>(weight.getValueAttr())) {
      int64_t width = graph::bytesOfElement(value.getElementType());
      auto shape = own.clone(value.getElementType());
      tile.setValueAttr(value.isSplat()
                            ? value.resizeSplat(shape)
                            : DenseElementsAttr::getFromRawBuffer(
                                  shape, value.getRawData().slice(static_cast<size_t>(first * width),
                                                                  static_cast<size_t>(rows * columns * width))));
    }
    symbols.insert(tile, Block::iterator(weight));
    return {tile, begin, rows};
  }

  /// Rows of a tile, where there are as many: kernels like whole panels.
  static constexpr int64_t kGranule = 64;
};

} // namespace

std::unique_ptr<Pass> createZeroTileLinear(const ShardOptions &options) {
  return std::make_unique<ZeroTileLinearPass>(options);
}

} // namespace zc
