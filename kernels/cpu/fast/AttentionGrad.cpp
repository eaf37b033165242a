// The gradient of attention, in the blocks that Attention.cpp describes: per block the scores again, from lse the
// probabilities, and five products where forward has two. A task is a head of keys: the heads of queries that share it
// add to its gradients in order. So do heads that share a mask to the gradient of that, as tasks of one thread. `scale`
// is multiplied into the gradients of query and key once their sums are complete.
//
// Sums over queries want probabilities and slopes (gradients of scores) with queries as terms. In fp32 they are the
// left factor where they are. In bf16, pairs of rows are what the panels of a right factor are made of: the gradients
// of keys and values are summed transposed, in panels of keys, and transposed once they are complete. There slopes are
// made of a few rows and keys at a time, which the first cache has room for.
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

/// Keys of the slopes in bf16 that are made at a time, of kTileRows queries.
constexpr int64_t kSlopeKeys = 64;

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
        for (int64_t first = 0; first < rows; first += rowsAtATime()) {
          const Block part = block.part(first, rowsAtATime(), 0, block.keys);
          for (int64_t from = 0; from < part.end(); from += keysAtATime())
            makeSlopes(block.part(first, rowsAtATime(), from, keysAtATime()), placesOf(block, first, from, tile), head,
                       mask, dropout, tile);
          addQueryGradient(part, first, tile);
        }
        addKeyGradients(block, tile);
      });
      store(tile + pieces.dQueries, rows, s.depth, static_cast<float>(s.scale),
            {head.dQuery.row(row, s.dtype), head.dQuery.stride});
    }
  }

  /// Of a head of keys, whose sums are complete.
  void storeKeys(float *tile, ResultRows dKey, ResultRows dValue) const {
    if (by.engine) {
      storeTransposed(tile + pieces.dKeys, s.depth, static_cast<float>(s.scale), dKey, tile + pieces.staging);
      storeTransposed(tile + pieces.dValues, s.valueDepth, 1, dValue, tile + pieces.staging);
    } else {
      store(tile + pieces.dKeys, s.keys, s.depth, static_cast<float>(s.scale), dKey);
      store(tile + pieces.dValues, s.keys, s.valueDepth, 1, dValue);
    }
  }

  AttentionShape s;
  AttentionGradPieces pieces;
  MicroKernel by;

private:
  /// Of the slopes that are made at a time: in fp32 products take longer than what the caches would save.
  int64_t rowsAtATime() const { return by.engine ? kTileRows : kQueryBlock; }
  int64_t keysAtATime() const { return by.engine ? kSlopeKeys : kKeyBlock; }

  /// What a part's slopes are made in, and with pairs what becomes of them.
  struct Places {
    float *scores, *slopes; ///< null with pairs: these are made on the thread's stack
    SlopePairs pairs;
  };
  /// Of the keys from `from` on of rows of a block.
  Places placesOf(const Block &block, int64_t first, int64_t from, float *tile) const {
    if (!by.engine) {
      const int64_t at = first * pieces.columns + from;
      return {tile + pieces.scores + at, tile + pieces.slopes + at, {}};
    }
    const int64_t panel = panelOfRows(block), at = from / by.columns * panel + first / 2 * by.columns;
    return {nullptr,
            nullptr,
            {tile + pieces.scores + at, slopePanels(block, tile) + at, panel, tile + pieces.slopes + from / 2,
             pieces.columns / 2}};
  }
  /// Units of a panel whose terms are a block's queries.
  int64_t panelOfRows(const Block &block) const { return roundUp(block.rows, kTileRows) / by.terms * by.columns; }
  /// Behind those of the probabilities.
  float *slopePanels(const Block &block, float *tile) const {
    return tile + pieces.scores + panelOfRows(block) / by.columns * pieces.columns;
  }

  void packQueries(const GradHead &head, int64_t row, int64_t rows, float *tile) const {
    const SourceRows query = rowsFrom(s, head.query, row), grad = rowsFrom(s, head.grad, row),
                     output = rowsFrom(s, head.output, row);
    packRows(by, s.dtype, query, rows, s.depth, tile + pieces.queries, pieces.depth);
    packRows(by, s.dtype, grad, rows, s.valueDepth, tile + pieces.grads, pieces.valueDepth);
    packTerms(query, rows, s.depth, tile + pieces.queryPanels, tile);
    packTerms(grad, rows, s.valueDepth, tile + pieces.gradPanels, tile);
    dotRows(s.dtype, grad.at, grad.stride, output.at, output.stride, rows, s.valueDepth, tile + pieces.deltas);
  }
  /// For sums over queries: the right factor's panels, or the left one's tiles.
  void packTerms(SourceRows source, int64_t rows, int64_t width, float *to, float *tile) const {
    if (!by.engine)
      return packPanels(by, s.dtype, source, rows, width, to, tile + pieces.staging);
    by.engine->packLeft({static_cast<const Bf16 *>(source.at), source.stride}, rows, width,
                        reinterpret_cast<uint32_t *>(to), tileOfTerms(rows));
  }
  int64_t tileOfTerms(int64_t rows) const { return roundUp(rows, kTileRows) / by.terms * by.rows; }

  /// Probabilities of some rows and keys, and gradients of their scores but for `scale`, which are those of the mask.
  void makeSlopes(const Block &part, const Places &places, const GradHead &head, const HeadMask &mask,
                  const HeadDropout &dropout, float *tile) const {
    alignas(64) float own[2][kTileRows * kSlopeKeys];
    float *const scores = by.engine ? own[0] : places.scores;
    float *const slopes = by.engine ? own[1] : places.slopes;
    const int64_t stride = by.engine ? kSlopeKeys : pieces.columns, first = part.row % kQueryBlock;
    const int64_t rows = roundUp(part.rows, by.rows), ofKeys = by.units(s.depth), ofValues = by.units(s.valueDepth);
    multiply(by, leftRows(by, tile + pieces.queries + first * pieces.depth, pieces.depth),
             {tile + pieces.keysTransposed + part.key * ofKeys, ofKeys * by.columns}, sumsInRows(by, scores, stride),
             rows, part.end(), false, part.scoreUnits(ofKeys));
    multiply(by, leftRows(by, tile + pieces.grads + first * pieces.valueDepth, pieces.valueDepth),
             {tile + pieces.valuesTransposed + part.key * ofValues, ofValues * by.columns},
             sumsInRows(by, slopes, stride), rows, part.end(), false, part.scoreUnits(ofValues));
    const float *lse = head.lse + part.row;
    auto rowOf = [&](int64_t i) {
      SlopeRow row{scores + i * stride, slopes + i * stride, 0, 0, 0, nullptr, nullptr};
      if (i < part.rows && lse[i] != kMinusInfinity) {
        row.visible = part.visible(i);
        row.lse = lse[i];
        row.delta = tile[pieces.deltas + first + i];
        if (head.dMask)
          row.sums = head.dMask + (part.row + i) * s.keys + part.key;
        mask.apply(part, i, row.scores, row.visible);
        row.factors = dropout.factors(part, i, row.visible, tile + pieces.factors + i % 2 * pieces.factorStride);
      }
      return row;
    };
    for (int64_t i = 0; i < roundUp(part.rows, 2 * by.step); i += 2) {
      const SlopePairs pairs = by.engine ? places.pairs.from(i / 2) : SlopePairs{};
      differentiate(rowOf(i), rowOf(i + 1), part.end(), mask.factor(), by.engine ? &pairs : nullptr);
    }
  }

  /// Of the rows of `part`, the block's from `first` on.
  void addQueryGradient(const Block &part, int64_t first, float *tile) const {
    const int64_t stride = pieces.columns / by.terms;
    multiply(by, leftRows(by, tile + pieces.slopes + (by.engine ? 0 : first * stride), stride),
             {tile + pieces.keyPanels + part.key / by.terms * by.columns,
              roundUp(s.keys, kTileColumns) / by.terms * by.columns},
             sumsInRows(by, tile + pieces.dQueries + first * pieces.depth, pieces.depth), roundUp(part.rows, by.rows),
             roundUp(s.depth, by.columns), true, part.keyUnits());
  }

  void addKeyGradients(const Block &block, float *tile) const {
    if (by.engine) {
      addTransposed(block, tile + pieces.gradPanels, tile + pieces.scores, s.valueDepth, tile + pieces.dValues);
      addTransposed(block, tile + pieces.queryPanels, slopePanels(block, tile), s.depth, tile + pieces.dKeys);
    } else {
      addToKeys(block, tile + pieces.scores, tile + pieces.gradPanels, s.valueDepth, tile + pieces.dValues);
      addToKeys(block, tile + pieces.slopes, tile + pieces.queryPanels, s.depth, tile + pieces.dKeys);
    }
  }
  void addToKeys(const Block &block, const float *scores, const float *panels, int64_t width, float *sums) const {
    const int64_t stride = roundUp(width, kTileColumns);
    multiply(by, {{scores, 1, pieces.columns}, by.rows}, {panels, panelOfRows(block)},
             sumsInRows(by, sums + block.key * stride, stride), roundUp(block.keys, by.rows),
             roundUp(width, by.columns), true, [&](int64_t j, int64_t) { return block.queryUnits(j); });
  }
  /// Sums are [width][kTileColumns] for so many keys.
  void addTransposed(const Block &block, const float *tiles, const float *panels, int64_t width, float *sums) const {
    const int64_t ofKeys = roundUp(width, kTileColumns);
    multiply(by, {{tiles, by.engine->packedRowStride / 4, by.engine->packedStepStride / 4}, tileOfTerms(block.rows)},
             {panels, panelOfRows(block)}, {sums + block.key * ofKeys, by.columns, ofKeys * by.columns},
             roundUp(width, by.rows), block.end(), true, [&](int64_t, int64_t j) { return block.queryUnits(j); });
  }

  /// Rows of sums, to a tensor.
  void store(float *from, int64_t rows, int64_t width, float factor, ResultRows to) const {
    const int64_t stride = roundUp(width, kTileColumns);
    if (by.engine) {
      to.prefetch(0, rows, s.dtype, width);
      scaleInPlace(from, factor, rows * stride);
      return bf16::roundTile(from, stride, nullptr, rows, width, static_cast<Bf16 *>(to.at), to.stride);
    }
    for (int64_t i = 0; i < rows; ++i) {
      to.prefetchAfter(i, rows, s.dtype, width);
      storeScaled(s.dtype, from + i * stride, factor, to.row(i, s.dtype), width);
    }
  }
  /// The same of what addTransposed sums. A number of fp32 has the size of a pair: what transposes these does those.
  void storeTransposed(float *sums, int64_t width, float factor, ResultRows to, float *staging) const {
    constexpr int64_t side = kTileColumns;
    const bf16::Panels panels(width, *by.engine);
    for (int64_t key = 0; key < s.keys; key += side, sums += roundUp(width, side) * side) {
      const int64_t rows = std::min(side, s.keys - key);
      to.prefetch(key, rows, s.dtype, width);
      if (factor != 1)
        scaleInPlace(sums, factor, width * side);
      bf16::packPanels({{reinterpret_cast<const Bf16 *>(sums), 2 * side}, true, 2 * side}, panels, 0, panels.count(),
                       side, reinterpret_cast<uint32_t *>(staging));
      for (int64_t i = 0; i < panels.count(); ++i)
        bf16::roundTile(staging + i * side * side, side, nullptr, rows, panels.present(i),
                        static_cast<Bf16 *>(to.row(key, s.dtype)) + i * side, to.stride);
    }
  }
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
  backward.storeKeys(tile, resultRows(s, tensors.dKey, operands, b, keyHead),
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
        parallelRanges(threads, order.groups, 1, [&](int64_t begin, int64_t end, int thread) {
          const bf16::Multiplying here(backward.by.engine);
          for (int64_t group = begin; group < end; ++group)
            for (int64_t member = 0; member < order.members; ++member)
              runGroup(backward, tensors, numbers, order.keyHead(group, member), operands,
                       tiles.of(operands) + backward.pieces.floats * thread);
        });
      });
}

} // namespace

void addFastAttentionGrad(KernelRegistry &registry) { registry.addNoting("attention_grad", prepareAttentionGrad); }

} // namespace zc::cpu
