// attention in blocks of queries and keys: FlashAttention-2 (Dao 2023). A block of scores lives in a
// tile of the thread, maxima and sums of rows are carried from block to block of keys (online softmax), so that memory
// grows with the number of keys, not with its square. Products are made of micro-kernels on factors that each head is
// rearranged into once: heads are too narrow (64, a block's products have 0.5 to 4 MFlop) for what a library does
// around each call, and tiles of a product that `causal` or `window` masks are skipped one by one. In bf16
// probabilities and slopes are rounded to bf16 before they are multiplied, as torch's flash attention does; all sums
// are fp32.
//
// Keys and values of a head are packed once. A task is a head, on one thread: bits do not depend on threads. Products
// go to the end of a tile of rows: a value that is not finite may reach rows before it (0 times infinity), as in torch.
#include "kernels/cpu/fast/AttentionBlocks.h"

namespace zc::cpu {
namespace {

class Forward {
public:
  Forward(const AttentionShape &s) : s(s), pieces(s), by(microKernelOf(s.dtype)) {}

  void packHead(SourceRows key, SourceRows value, float *tile) const {
    packTransposed(by, s.dtype, key, s.keys, s.depth, tile + pieces.keyPanels, tile + pieces.staging);
    packPanels(by, s.dtype, value, s.keys, s.valueDepth, tile + pieces.valuePanels, tile + pieces.staging);
  }

  /// Of one head: query, result and lse are its own.
  void run(SourceRows query, const HeadScores &head, const HeadDropout &dropout, ResultRows result, float *lse,
           RowsAhead &ahead, float *tile) const {
    for (int64_t row = 0; row < s.queries; row += kQueryBlock) {
      const int64_t rows = std::min(kQueryBlock, s.queries - row);
      float *sums = tile + pieces.sums, *tops = tile + pieces.tops, *totals = tile + pieces.totals;
      packRows(by, s.dtype, rowsFrom(s, query, row), rows, s.depth, tile + pieces.queries, pieces.depth);
      std::fill(sums, sums + roundUp(rows, kTileRows) * pieces.valueDepth, 0.0f);
      std::fill(tops, tops + rows, kMinusInfinity);
      std::fill(totals, totals + rows, 0.0f);
      forKeyBlocks(s, by, row, [&](const Block &block) {
        if (!head.hides(block))
          addBlock(block, head, dropout, ahead, tile);
      });
      for (int64_t i = 0; i < rows; ++i) {
        result.prefetchAfter(row + i, s.queries, s.dtype, s.valueDepth);
        lse[row + i] = totals[i] == 0 ? kMinusInfinity : tops[i] + std::log(totals[i]);
        storeScaled(s.dtype, sums + i * pieces.valueDepth, totals[i] == 0 ? 0 : 1 / totals[i],
                    result.row(row + i, s.dtype), s.valueDepth);
      }
    }
  }

  AttentionShape s;
  AttentionPieces pieces;
  MicroKernel by;

private:
  static constexpr int64_t kAskedFor = 3; ///< rows of the next head for each of this one: of three tensors

  /// Adds what a block of keys gives to the sums of its rows; as many of them at a time as the first cache has room for
  /// the scores of.
  void addBlock(const Block &block, const HeadScores &head, const HeadDropout &dropout, RowsAhead &ahead,
                float *tile) const {
    const int64_t units = by.units(s.depth), terms = roundUp(s.keys, kTileColumns) / by.terms;
    const Right keys{tile + pieces.keyPanels + block.key * units, units * by.columns},
        values{tile + pieces.valuePanels + block.key / by.terms * by.columns, terms * by.columns};
    for (int64_t first = 0; first < block.rows; first += kTileRows) {
      const Block part = block.part(first, kTileRows, 0, block.keys);
      float *scores = tile + pieces.scores + first * pieces.columns;
      const int64_t rows = roundUp(part.rows, by.rows);
      multiply(by, leftRows(by, tile + pieces.queries + first * pieces.depth, pieces.depth), keys,
               sumsInRows(by, scores, pieces.columns), rows, part.end(), false, part.scoreUnits(units));
      for (int64_t i = 0; i < part.rows; ++i) {
        ahead.ask(kAskedFor);
        addRow(part, first + i, i, head, dropout, scores + i * pieces.columns, tile);
      }
      multiply(by, leftRows(by, scores, pieces.columns), values,
               sumsInRows(by, tile + pieces.sums + first * pieces.valueDepth, pieces.valueDepth), rows,
               roundUp(s.valueDepth, by.columns), true, part.keyUnits());
    }
  }

  /// Scores of row i to what is added up, relative to the largest score yet of the row, which is one of all queries'.
  void addRow(const Block &block, int64_t ofAll, int64_t i, const HeadScores &head, const HeadDropout &dropout,
              float *scores, float *tile) const {
    float &top = tile[pieces.tops + ofAll], &total = tile[pieces.totals + ofAll];
    const ScoreRow row{scores, block.visible(i), block.end()};
    head.finish(block, i, scores, nullptr);
    const float here = topOf(scores, row.visible, head.factor());
    if (!(here <= top)) {
      const float factor = std::exp(top - here); // 0 at first; NaN stays NaN
      if (block.key > 0)
        scaleInPlace(tile + pieces.sums + ofAll * pieces.valueDepth, factor, s.valueDepth);
      total *= factor;
      top = here;
    }
    // Of a row without a score that is more than -inf nothing is left.
    const bool isEmpty = top == kMinusInfinity;
    const int64_t visible = isEmpty ? 0 : row.visible;
    const float *factors = dropout.factors(block, i, visible, tile + pieces.factors);
    total += exponentiate({scores, visible, row.end}, head.factor(), isEmpty ? 0 : top, factors, by.terms == 2);
  }
};

/// What is read of a head, and of its keys where the one before has others.
void addRows(RowsAhead &ahead, const AttentionShape &s, const AttentionTensors &tensors, void *const *operands,
             int64_t head) {
  const int64_t b = head / s.heads, h = head % s.heads, group = s.heads / s.keyHeads;
  ahead.add(s, rowsFrom(s, tensors.query, operands, b, h), s.queries, s.depth);
  if (h % group != 0)
    return;
  ahead.add(s, rowsFrom(s, tensors.value, operands, b, h / group), s.keys, s.valueDepth);
  ahead.add(s, rowsFrom(s, tensors.key, operands, b, h / group), s.keys, s.depth);
}

Prepared prepareAttention(const KernelSpec &spec, std::string &note) {
  Result<AttentionShape> read = readAttention(spec);
  ZC_RETURN_IF_ERROR(read.status());
  Result<AttentionTensors> located = readAttentionTensors(spec);
  ZC_RETURN_IF_ERROR(located.status());
  if (!isServed(*read, {located->query, located->key, located->value}))
    return decline();
  Forward forward(*read);
  const int threads = threadsWithPieces(forward.pieces, spec.threads, note);
  Piece<float> tiles = Workspace(spec).take<float>(forward.pieces.floats * threads);
  return makeKernel([forward, threads, tiles, tensors = *located](void *const *operands, const StepContext &context) {
    const AttentionShape &s = forward.s;
    const DropoutNumbers numbers = dropoutNumbers(s, context);
    parallelRanges(threads, s.batch * s.heads, 1, [&](int64_t begin, int64_t end, int thread) {
      const bf16::Multiplying here(forward.by.engine);
      float *tile = tiles.of(operands) + forward.pieces.floats * thread;
      int64_t packed = -1; // heads that share keys and values follow each other
      for (int64_t head = begin; head < end; ++head) {
        const int64_t b = head / s.heads, h = head % s.heads, keyHead = h / (s.heads / s.keyHeads),
                      key = b * s.keyHeads + keyHead;
        if (std::exchange(packed, key) != key)
          forward.packHead(rowsFrom(s, tensors.key, operands, b, keyHead),
                           rowsFrom(s, tensors.value, operands, b, keyHead), tile);
        RowsAhead ahead;
        if (head + 1 < end && RowsAhead::fit(s))
          addRows(ahead, s, tensors, operands, head + 1);
        forward.run(rowsFrom(s, tensors.query, operands, b, h), {s, operands[3], b, h}, {s, numbers, b, h},
                    resultRows(s, tensors.result, operands, b, h), as<float>(operands[tensors.lse]) + head * s.queries,
                    ahead, tile);
      }
    });
  });
}

} // namespace

void addFastAttention(KernelRegistry &registry) { registry.addNoting("attention", prepareAttention); }

} // namespace zc::cpu
