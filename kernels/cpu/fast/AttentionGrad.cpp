// The gradient of attention, in the blocks that Attention.cpp describes: per block the scores again, from lse the
// probabilities, and five products where forward has two. A task is a head of keys: the heads of queries that share it
// add to its gradients in order. So do heads that share a mask to the gradient of that, as tasks of one thread. `scale`
// is multiplied into the gradients of query and key once their sums are complete.
#include "kernels/cpu/fast/AttentionBlocks.h"

namespace zc::cpu {
namespace {

/// The tensors of a head of queries.
struct GradHead {
  SourceRows grad, query, output;
  const float *lse;
  ResultRows dQuery;
  float *dMask;    ///< [queries, keys]; null: none
  bool startsMask; ///< is the first to add to it
};

class Backward {
public:
  Backward(const AttentionShape &s) : s(s), pieces(s), by(microKernelOf(s.dtype)) {}

  void packHead(SourceRows key, SourceRows value, float *tile) const {
    float *staging = tile + pieces.staging;
    packTransposed(by, s.dtype, key, s.keys, s.depth, tile + pieces.keysTransposed, staging);
    packTransposed(by, s.dtype, value, s.keys, s.valueDepth, tile + pieces.valuesTransposed, staging);
    packPanels(by, s.dtype, key, s.keys, s.depth, tile + pieces.keyPanels, staging);
    const int64_t keys = roundUp(s.keys, kTileColumns);
    std::fill_n(tile + pieces.dKeys, keys * pieces.depth, 0.0f);
    std::fill_n(tile + pieces.dValues, keys * pieces.valueDepth, 0.0f);
  }

  /// Adds to the gradients of keys and values, and makes the query's.
  void run(const GradHead &head, const HeadMask &mask, const HeadDropout &dropout, float *tile) const {
    for (int64_t row = 0; row < s.queries; row += kQueryBlock) {
      const int64_t rows = std::min(kQueryBlock, s.queries - row);
      packQueries(head, row, rows, tile);
      std::fill_n(tile + pieces.dQueries, roundUp(rows, kTileRows) * pieces.depth, 0.0f);
      if (head.dMask && head.startsMask)
        std::fill_n(head.dMask + row * s.keys, rows * s.keys, 0.0f);
      forKeyBlocks(s, by, row, [&](const Block &block) {
        makeSlopes(block, head, mask, dropout, tile);
        addGradients(block, tile);
      });
      store(tile + pieces.dQueries, rows, s.depth, static_cast<float>(s.scale),
            {head.dQuery.row(row, s.dtype), head.dQuery.stride});
    }
  }

  /// Rows of sums, to a tensor.
  void store(const float *from, int64_t rows, int64_t width, float factor, ResultRows to) const {
    for (int64_t i = 0; i < rows; ++i) {
      to.prefetchAfter(i, rows, s.dtype, width);
      storeScaled(s.dtype, from + i * roundUp(width, kTileColumns), factor, to.row(i, s.dtype), width);
    }
  }

  AttentionShape s;
  AttentionGradPieces pieces;

private:
  void packQueries(const GradHead &head, int64_t row, int64_t rows, float *tile) const {
    const SourceRows query = rowsFrom(s, head.query, row), grad = rowsFrom(s, head.grad, row),
                     output = rowsFrom(s, head.output, row);
    float *staging = tile + pieces.staging;
    packRows(by, s.dtype, query, rows, s.depth, tile + pieces.queries, pieces.depth);
    packRows(by, s.dtype, grad, rows, s.valueDepth, tile + pieces.grads, pieces.valueDepth);
    packPanels(by, s.dtype, query, rows, s.depth, tile + pieces.queryPanels, staging);
    packPanels(by, s.dtype, grad, rows, s.valueDepth, tile + pieces.gradPanels, staging);
    for (int64_t i = 0; i < rows; ++i)
      tile[pieces.deltas + i] = dotOf(s.dtype, rowsFrom(s, grad, i).at, rowsFrom(s, output, i).at, s.valueDepth);
  }

  /// Probabilities of a block, and gradients of its scores but for `scale`, which are those of the mask.
  void makeSlopes(const Block &block, const GradHead &head, const HeadMask &mask, const HeadDropout &dropout,
                  float *tile) const {
    const float *lse = head.lse + block.row;
    float *scores = tile + pieces.scores, *slopes = tile + pieces.slopes;
    const int64_t rows = roundUp(block.rows, kTileRows), ofKeys = by.units(s.depth), ofValues = by.units(s.valueDepth);
    multiply(by, {tile + pieces.queries, pieces.depth, 1},
             {tile + pieces.keysTransposed + block.key * ofKeys, ofKeys * by.columns}, scores, pieces.columns, rows,
             block.end(), false, block.scoreUnits(ofKeys));
    multiply(by, {tile + pieces.grads, pieces.valueDepth, 1},
             {tile + pieces.valuesTransposed + block.key * ofValues, ofValues * by.columns}, slopes, pieces.columns,
             rows, block.end(), false, block.scoreUnits(ofValues));
    auto rowOf = [&](int64_t i) {
      SlopeRow row{scores + i * pieces.columns, slopes + i * pieces.columns, 0, 0, 0, nullptr, nullptr};
      if (i < block.rows && lse[i] != kMinusInfinity) {
        row.visible = block.visible(i);
        row.lse = lse[i];
        row.delta = tile[pieces.deltas + i];
        if (head.dMask)
          row.sums = head.dMask + (block.row + i) * s.keys + block.key;
        mask.apply(block, i, row.scores, row.visible);
        row.factors = dropout.factors(block, i, row.visible, tile + pieces.factors + i % 2 * pieces.factorStride);
      }
      return row;
    };
    for (int64_t i = 0; i < block.rows; i += 2)
      differentiate(rowOf(i), rowOf(i + 1), block.end(), mask.factor(), by.terms == 2);
  }

  void addGradients(const Block &block, float *tile) const {
    const float *scores = tile + pieces.scores, *slopes = tile + pieces.slopes;
    const int64_t columns = pieces.columns, rows = roundUp(block.rows, kTileRows), keys = roundUp(block.keys, by.rows);
    const int64_t ofRows = roundUp(block.rows, kTileColumns) / by.terms * by.columns,
                  ofKeys = roundUp(s.keys, kTileColumns) / by.terms * by.columns;
    // Sums over queries: pairs of rows lie in the rows of scores, in fp32 each where it was.
    const Left probabilities{scores, 1, columns * by.terms},
        slopesOfKeys{by.terms == 2 ? scores + columns : slopes, 1, columns * by.terms};
    multiply(by, probabilities, {tile + pieces.gradPanels, ofRows},
             tile + pieces.dValues + block.key * pieces.valueDepth, pieces.valueDepth, keys,
             roundUp(s.valueDepth, by.columns), true, block.queryUnits());
    multiply(by, slopesOfKeys, {tile + pieces.queryPanels, ofRows}, tile + pieces.dKeys + block.key * pieces.depth,
             pieces.depth, keys, roundUp(s.depth, by.columns), true, block.queryUnits());
    multiply(by, {slopes, columns, 1}, {tile + pieces.keyPanels + block.key / by.terms * by.columns, ofKeys},
             tile + pieces.dQueries, pieces.depth, rows, roundUp(s.depth, by.columns), true, block.keyUnits());
  }

  MicroKernel by;
};

/// One head of keys, with all heads of queries that share it.
void runGroup(const Backward &backward, const AttentionGradTensors &tensors, const DropoutNumbers &numbers, int64_t key,
              void *const *operands, float *tile) {
  const AttentionShape &s = backward.s;
  const int64_t group = s.heads / s.keyHeads, b = key / s.keyHeads, keyHead = key % s.keyHeads;
  backward.packHead(rowsFrom(s, tensors.key, operands, b, keyHead), rowsFrom(s, tensors.value, operands, b, keyHead),
                    tile);
  for (int64_t h = keyHead * group; h < (keyHead + 1) * group; ++h) {
    float *dMask =
        s.hasMaskGrad ? as<float>(operands[tensors.dMask]) + b * s.maskStrides[0] + h * s.maskStrides[1] : nullptr;
    const bool startsMask = (b == 0 || s.maskBatches() > 1) && (h == 0 || s.maskHeads() > 1);
    backward.run({rowsFrom(s, tensors.grad, operands, b, h), rowsFrom(s, tensors.query, operands, b, h),
                  rowsFrom(s, tensors.output, operands, b, h), as<float>(operands[5]) + (b * s.heads + h) * s.queries,
                  resultRows(s, tensors.dQuery, operands, b, h), dMask, startsMask},
                 {s, operands[6], b, h}, {s, numbers, b * s.heads + h}, tile);
  }
  backward.store(tile + backward.pieces.dKeys, s.keys, s.depth, static_cast<float>(s.scale),
                 resultRows(s, tensors.dKey, operands, b, keyHead));
  backward.store(tile + backward.pieces.dValues, s.keys, s.valueDepth, 1,
                 resultRows(s, tensors.dValue, operands, b, keyHead));
}

Prepared prepareAttentionGrad(const KernelSpec &spec, std::string &note) {
  Result<AttentionShape> read = readAttentionGrad(spec);
  ZC_RETURN_IF_ERROR(read.status());
  Result<AttentionGradTensors> located = readAttentionGradTensors(spec);
  ZC_RETURN_IF_ERROR(located.status());
  const AttentionGroups order(*read);
  if (!isServed(*read, {located->grad, located->query, located->key, located->value}) ||
      (read->hasMaskGrad && order.members == 0)) // nobody starts the mask's gradient
    return decline();
  Backward backward(*read);
  const int threads = threadsWithPieces(backward.pieces, spec.threads, note);
  Piece<float> tiles = Workspace(spec).take<float>(backward.pieces.floats * threads);
  return makeKernel(
      [backward, order, threads, tiles, tensors = *located](void *const *operands, const StepContext &context) {
        const DropoutNumbers numbers = dropoutNumbers(backward.s, context);
        parallelParts(threads, order.groups, 1, [&](int64_t begin, int64_t end, int part) {
          for (int64_t group = begin; group < end; ++group)
            for (int64_t member = 0; member < order.members; ++member)
              runGroup(backward, tensors, numbers, order.keyHead(group, member), operands,
                       tiles.of(operands) + backward.pieces.floats * part);
        });
      });
}

} // namespace

void addFastAttentionGrad(KernelRegistry &registry) { registry.addNoting("attention_grad", prepareAttentionGrad); }

} // namespace zc::cpu
