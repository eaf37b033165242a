//===- ZeroQuantizeGradients.cpp - qgZ: gradients travel as int4 or int8, in two hops -------===//

#include "compiler/shard/CollectiveTypes.h"
#include "compiler/shard/Passes.h"

namespace zc {
#define GEN_PASS_DEF_ZEROQUANTIZEGRADIENTS
#include "compiler/shard/Passes.h.inc"

using namespace mlir;

namespace {

/// Of the moving average of errors, what remains of the old one (LoCo, arXiv 2407.04480, as DeepSpeed sets it).
constexpr double kResidualDecay = 0.8;

struct ZeroQuantizeGradientsPass : StagePass<impl::ZeroQuantizeGradientsBase<ZeroQuantizeGradientsPass>, ShardOptions> {
  using StagePass::StagePass;

  void runOnOperation() override {
    FailureOr<NodeGrid> grid = gridOf(getOperation(), "zero-quantize-gradients");
    if (failed(grid))
      return signalPassFailure();
    bits = options.quantizeGradients == GradientFormat::int8 ? 8 : 4;
    if (options.quantizeBlock > 0)
      block = options.quantizeBlock;
    nodes = grid->nodes;
    local = grid->local;
    inside = grid->inside;
    between = grid->between;
    if (nodes * local == 1)
      return; // nothing is sent
    for (auto program : getOperation().getOps<graph::ProgramOp>())
      for (auto reduce : llvm::make_early_inc_range(program.getBlock().getOps<zero::ReduceScatterOp>()))
        if (failed(lower(reduce)))
          return signalPassFailure();
  }

  LogicalResult lower(zero::ReduceScatterOp reduce) {
    zero::BufferType whole = reduce.getBuffer().getType();
    if (failed(checkQuantizable(reduce, whole)))
      return failure();
    auto gradient = reduce.getBuffer().getDefiningOp<zero::GradBufferOp>();
    if (!gradient)
      return reduce.emitError("reduces a buffer that is no gradient bucket");
    OpBuilder builder(reduce);
    Location loc = reduce.getLoc();
    piece = {reduce.getShard().getType().getNumElements(), bits, block};
    bool twoHops = nodes > 1 && local > 1;
    // What leaves for one rank of this node lies together: the slices that it and its peers on other nodes will own.
    const int64_t rows = twoHops ? nodes : 1;
    Value sent = builder.create<zero::QuantizeOp>(loc, quantizedType(whole, nodes * local, piece), reduce.getBuffer(),
                                                  residual(builder, loc, gradient, zero::Storage::residual1, whole),
                                                  bits, block, rows, nodes * local / rows, beta());
    int64_t sources = nodes * local;
    Value received;
    if (twoHops) {
      Value arrived = builder.create<zero::AllToAllOp>(loc, sent.getType(), sent, inside);
      zero::BufferType sums = resized(whole, nodes * piece.elements);
      Value summed = builder.create<zero::DequantizeSumQuantizeOp>(
          loc, quantizedType(whole, nodes, piece), arrived,
          residual(builder, loc, gradient, zero::Storage::residual2, sums), bits, block, local, nodes, piece.elements,
          beta());
      received = builder.create<zero::AllToAllOp>(loc, summed.getType(), summed, between);
      sources = nodes;
    } else {
      received = builder.create<zero::AllToAllOp>(loc, sent.getType(), sent, ArrayAttr());
    }
    builder.create<zero::DequantizeSumOp>(loc, received, reduce.getShard(), reduce.getScale(), bits, block, sources,
                                          reduce.getAccumulate());
    reduce.erase();
    ++numReductions;
    return success();
  }

  Value residual(OpBuilder &builder, Location loc, zero::GradBufferOp gradient, zero::Storage what,
                 zero::BufferType type) {
    return options.errorFeedback
               ? builder.create<zero::StorageOp>(loc, type, gradient.getBucket(), what, false).getResult()
               : Value();
  }
  APFloat beta() { return APFloat(options.errorFeedback ? kResidualDecay : 0.0); }

  int64_t bits = 4, block = kGradientBlock; ///< of an element; elements per scale
  int64_t nodes = 1, local = 1;
  ArrayAttr inside, between; ///< groups of ranks
  QuantizedPiece piece;      ///< what one rank will own of the bucket at hand
};

} // namespace

std::unique_ptr<Pass> createZeroQuantizeGradients(const ShardOptions &options) {
  return std::make_unique<ZeroQuantizeGradientsPass>(options);
}

} // namespace zc
