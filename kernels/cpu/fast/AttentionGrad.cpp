// The gradient of attention, in the blocks that Attention.cpp describes: per block the scores again, from lse the
// probabilities, and five products where forward has two. A task is a head of keys: the heads of queries that share it
// add to its gradients in order. So do heads that share a mask to the gradient of that, as tasks of one thread. `scale`
// is multiplied into the gradients of query and key once their sums are complete.
//
// Sums over queries want probabilities and slopes (gradients of scores) with queries as terms. In fp32 they are the
// left factor where they are: BackwardInRows. In bf16, pairs of rows are what the panels of a right factor are made of:
// the gradients of keys and values are summed transposed, in panels of keys, and transposed once they are complete:
// BackwardTransposed. There slopes are made of a few rows and keys at a time, which the first cache has room for; in
// fp32 products take longer than what that would save.
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
/// Whose gradient is made, what becomes of its scores, what of them is dropped, and in which thread's tile.
struct GradTask {
  GradHead head;
  HeadScores scores;
  HeadDropout dropout;
  float *tile;
};

/// The loop over blocks, and what is alike however the gradients of keys and values are summed.
class Backward {
public:
  Backward(const AttentionShape &s, const MicroKernel &by) : s(s), pieces(s), by(by) {}
  virtual ~Backward() = default;

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
  void run(const GradTask &task) const {
    const GradHead &head = task.head;
    for (int64_t row = 0; row < s.queries; row += kQueryBlock) {
      const int64_t rows = std::min(kQueryBlock, s.queries - row);
      float *dQueries = task.tile + pieces.dQueries;
      packQueries(head, row, rows, task.tile);
      sumWeights(task, row, rows);
      std::fill_n(dQueries, roundUp(rows, kTileRows) * pieces.depth, 0.0f);
      if (head.dMask && head.startsMask)
        std::fill_n(head.dMask + row * s.keys, rows * s.keys, 0.0f);
      forKeyBlocks(s, by, row, [&](const Block &block) {
        if (!task.scores.hides(block))
          addBlock(block, task);
      });
      store(dQueries, rows, s.depth, static_cast<float>(s.scale), {head.dQuery.row(row, s.dtype), head.dQuery.stride});
    }
  }

  /// Of a head of keys, whose sums are complete.
  virtual void storeKeys(float *tile, ResultRows dKey, ResultRows dValue) const = 0;

  const AttentionShape s;
  const AttentionGradPieces pieces;
  const MicroKernel by;

protected:
  /// The factor of sums over queries, [rows, width].
  virtual void packTerms(SourceRows source, int64_t rows, int64_t width, float *to, float *tile) const = 0;
  /// Adds what a block gives to all gradients.
  virtual void addBlock(const Block &block, const GradTask &task) const = 0;
  /// Rows of sums times `factor`, to a tensor.
  virtual void store(float *sums, int64_t rows, int64_t width, float factor, ResultRows to) const = 0;

  /// Where the scores of a part and their gradients are made.
  struct Slopes {
    float *scores, *slopes;
    int64_t stride;
  };
  /// Makes the products of some rows and keys, and calls fn(i, row, next) of each two rows: what their probabilities
  /// and the gradients of their scores are made with, but for `scale`. Those gradients are the mask's.
  template <typename Fn> void forSlopes(const Block &part, const Slopes &at, const GradTask &task, Fn fn) const {
    float *tile = task.tile;
    const int64_t first = part.row % kQueryBlock, rows = roundUp(part.rows, by.rows), ofKeys = by.units(s.depth),
                  ofValues = by.units(s.valueDepth);
    multiply(by, leftRows(by, tile + pieces.queries + first * pieces.depth, pieces.depth),
             {tile + pieces.keysTransposed + part.key * ofKeys, ofKeys * by.columns},
             sumsInRows(by, at.scores, at.stride), rows, part.end(), false, part.scoreUnits(ofKeys));
    multiply(by, leftRows(by, tile + pieces.grads + first * pieces.valueDepth, pieces.valueDepth),
             {tile + pieces.valuesTransposed + part.key * ofValues, ofValues * by.columns},
             sumsInRows(by, at.slopes, at.stride), rows, part.end(), false, part.scoreUnits(ofValues));
    const GradHead &head = task.head;
    const float *lse = head.lse + part.row;
    auto rowOf = [&](int64_t i) {
      SlopeRow row{at.scores + i * at.stride, at.slopes + i * at.stride, 0, 0, 1, 0, nullptr, nullptr, nullptr};
      if (i < part.rows && lse[i] != kMinusInfinity) {
        row.visible = part.visible(i);
        row.lse = lse[i];
        row.normal = tile[pieces.normals + first + i];
        row.delta = tile[pieces.deltas + first + i];
        if (head.dMask)
          row.sums = head.dMask + (part.row + i) * s.keys + part.key;
        float *growth = s.softcap == 0 ? nullptr : tile + pieces.growth + i % 2 * pieces.growthStride;
        task.scores.finish(part, i, row.scores, growth);
        row.growth = growth;
        std::fill_n(row.slopes, part.hidden(i), 0.0f); // of products that nobody made
        row.factors = task.dropout.factors(part, i, row.visible, tile + pieces.factors + i % 2 * pieces.factorStride);
      }
      return row;
    };
    for (int64_t i = 0; i < roundUp(part.rows, 2 * by.step); i += 2)
      fn(i, rowOf(i), rowOf(i + 1));
  }

  /// Of the rows of `part`, whose slopes are at the beginning of theirs.
  void addQueryGradient(const Block &part, float *tile) const {
    multiply(by, leftRows(by, tile + pieces.slopes, pieces.columns / by.terms),
             {tile + pieces.keyPanels + part.key / by.terms * by.columns,
              roundUp(s.keys, kTileColumns) / by.terms * by.columns},
             sumsInRows(by, tile + pieces.dQueries + part.row % kQueryBlock * pieces.depth, pieces.depth),
             roundUp(part.rows, by.rows), roundUp(s.depth, by.columns), true, part.keyUnits());
  }

  /// Units of a panel whose terms are a block's queries.
  int64_t panelOfRows(const Block &block) const { return roundUp(block.rows, kTileRows) / by.terms * by.columns; }

private:
  /// What weights of queries [row, row + rows) are multiplied by: of those whose lse is rough, so that their sum is 1.
  void sumWeights(const GradTask &task, int64_t row, int64_t rows) const {
    float *normals = task.tile + pieces.normals;
    const float *lse = task.head.lse + row;
    std::fill_n(normals, rows, 1.0f);
    if (std::none_of(lse, lse + rows, AttentionShape::isRough))
      return;
    for (int64_t i = 0; i < rows; ++i)
      normals[i] = AttentionShape::isRough(lse[i]) ? 0 : 1;
    forKeyBlocks(s, by, row, [&](const Block &block) {
      for (int64_t first = 0; first < rows && !task.scores.hides(block); first += kTileRows)
        addWeights(block.part(first, kTileRows, 0, block.keys), first, task, normals + first);
    });
    for (int64_t i = 0; i < rows; ++i)
      normals[i] = 1 / normals[i];
  }
  void addWeights(const Block &part, int64_t first, const GradTask &task, float *sums) const {
    const int64_t units = by.units(s.depth);
    float *scores = task.tile + pieces.scores;
    multiply(by, leftRows(by, task.tile + pieces.queries + first * pieces.depth, pieces.depth),
             {task.tile + pieces.keysTransposed + part.key * units, units * by.columns},
             sumsInRows(by, scores, pieces.columns), roundUp(part.rows, by.rows), part.end(), false,
             part.scoreUnits(units));
    for (int64_t i = 0; i < part.rows; ++i)
      if (const float lse = task.head.lse[part.row + i]; AttentionShape::isRough(lse)) {
        task.scores.finish(part, i, scores + i * pieces.columns, nullptr);
        sums[i] += exponentiate({scores + i * pieces.columns, part.visible(i), part.end()}, task.scores.factor(), lse,
                                nullptr, false);
      }
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
};

/// Gradients of keys are summed in rows, from scores and slopes where they were made.
class BackwardInRows final : public Backward {
public:
  using Backward::Backward;

  void storeKeys(float *tile, ResultRows dKey, ResultRows dValue) const override {
    store(tile + pieces.dKeys, s.keys, s.depth, static_cast<float>(s.scale), dKey);
    store(tile + pieces.dValues, s.keys, s.valueDepth, 1, dValue);
  }

private:
  /// The right factor's panels.
  void packTerms(SourceRows source, int64_t rows, int64_t width, float *to, float *tile) const override {
    packPanels(by, s.dtype, source, rows, width, to, tile + pieces.staging);
  }

  void addBlock(const Block &block, const GradTask &task) const override {
    float *tile = task.tile;
    const Slopes at{tile + pieces.scores, tile + pieces.slopes, pieces.columns};
    forSlopes(block, at, task, [&](int64_t, const SlopeRow &row, const SlopeRow &next) {
      differentiate(row, next, block.end(), task.scores.factor(), nullptr);
    });
    addQueryGradient(block, tile);
    addToKeys(block, at.scores, tile + pieces.gradPanels, s.valueDepth, tile + pieces.dValues);
    addToKeys(block, at.slopes, tile + pieces.queryPanels, s.depth, tile + pieces.dKeys);
  }
  void addToKeys(const Block &block, const float *scores, const float *panels, int64_t width, float *sums) const {
    const int64_t stride = roundUp(width, kTileColumns);
    multiply(by, {{scores, 1, pieces.columns}, by.rows}, {panels, panelOfRows(block)},
             sumsInRows(by, sums + block.key * stride, stride), roundUp(block.keys, by.rows),
             roundUp(width, by.columns), true, [&](int64_t j, int64_t) { return block.queryUnits(j); });
  }

  void store(float *sums, int64_t rows, int64_t width, float factor, ResultRows to) const override {
    const int64_t stride = roundUp(width, kTileColumns);
    for (int64_t i = 0; i < rows; ++i) {
      to.prefetchAfter(i, rows, s.dtype, width);
      storeScaled(s.dtype, sums + i * stride, factor, to.row(i, s.dtype), width);
    }
  }
};

/// Gradients of keys are summed transposed, by an engine of tiles, from pairs of rows of probabilities and slopes.
class BackwardTransposed final : public Backward {
public:
  BackwardTransposed(const AttentionShape &s, const MicroKernel &by) : Backward(s, by), engine(*by.engine) {}

  void storeKeys(float *tile, ResultRows dKey, ResultRows dValue) const override {
    storeTransposed(tile + pieces.dKeys, s.depth, static_cast<float>(s.scale), dKey, tile + pieces.staging);
    storeTransposed(tile + pieces.dValues, s.valueDepth, 1, dValue, tile + pieces.staging);
  }

private:
  /// Keys whose slopes are made at a time, of kTileRows queries.
  static constexpr int64_t kSlopeKeys = 64;

  /// The left factor's tiles.
  void packTerms(SourceRows source, int64_t rows, int64_t width, float *to, float *) const override {
    engine.packLeft({static_cast<const Bf16 *>(source.at), source.stride}, rows, width,
                    reinterpret_cast<uint32_t *>(to), tileOfTerms(rows));
  }
  int64_t tileOfTerms(int64_t rows) const { return roundUp(rows, kTileRows) / by.terms * by.rows; }

  void addBlock(const Block &block, const GradTask &task) const override {
    float *tile = task.tile, *probabilities = tile + pieces.scores; // panels; the slopes' are behind them
    const int64_t panel = panelOfRows(block);
    float *slopes = probabilities + panel / by.columns * pieces.columns;
    for (int64_t first = 0; first < block.rows; first += kTileRows) {
      const Block part = block.part(first, kTileRows, 0, block.keys);
      for (int64_t from = 0; from < part.end(); from += kSlopeKeys) {
        const int64_t at = from / by.columns * panel + first / 2 * by.columns;
        makePairs(block.part(first, kTileRows, from, kSlopeKeys), task,
                  {probabilities + at, slopes + at, panel, tile + pieces.slopes + from / 2, pieces.columns / 2});
      }
      addQueryGradient(part, tile);
    }
    addTransposed(block, tile + pieces.gradPanels, probabilities, s.valueDepth, tile + pieces.dValues);
    addTransposed(block, tile + pieces.queryPanels, slopes, s.depth, tile + pieces.dKeys);
  }
  void makePairs(const Block &part, const GradTask &task, const SlopePairs &pairs) const {
    alignas(64) float scores[kTileRows * kSlopeKeys], slopes[kTileRows * kSlopeKeys];
    forSlopes(part, {scores, slopes, kSlopeKeys}, task, [&](int64_t i, const SlopeRow &row, const SlopeRow &next) {
      const SlopePairs here = pairs.from(i / 2);
      differentiate(row, next, part.end(), task.scores.factor(), &here);
    });
  }
  /// Sums are [width][kTileColumns] for so many keys.
  void addTransposed(const Block &block, const float *tiles, const float *panels, int64_t width, float *sums) const {
    const int64_t ofKeys = roundUp(width, kTileColumns);
    multiply(by, {{tiles, engine.packedRowStride / 4, engine.packedStepStride / 4}, tileOfTerms(block.rows)},
             {panels, panelOfRows(block)}, {sums + block.key * ofKeys, by.columns, ofKeys * by.columns},
             roundUp(width, by.rows), block.end(), true, [&](int64_t, int64_t j) { return block.queryUnits(j); });
  }

  void store(float *sums, int64_t rows, int64_t width, float factor, ResultRows to) const override {
    const int64_t stride = roundUp(width, kTileColumns);
    to.prefetch(0, rows, s.dtype, width);
    scaleInPlace(sums, factor, rows * stride);
    bf16::roundTile(sums, stride, nullptr, rows, width, static_cast<Bf16 *>(to.at), to.stride);
  }
  /// The same of what addTransposed sums. A number of fp32 has the size of a pair: what transposes these does those.
  void storeTransposed(float *sums, int64_t width, float factor, ResultRows to, float *staging) const {
    constexpr int64_t side = kTileColumns;
    const bf16::Panels panels(width, engine);
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

  const bf16::Engine &engine;
};

std::shared_ptr<const Backward> backwardOf(const AttentionShape &s) {
  const MicroKernel by = microKernelOf(s.dtype);
  if (by.engine)
    return std::make_shared<BackwardTransposed>(s, by);
  return std::make_shared<BackwardInRows>(s, by);
}

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
    backward.run({{rowsFrom(s, tensors.grad, operands, b, h), rowsFrom(s, tensors.query, operands, b, h),
                   rowsFrom(s, tensors.output, operands, b, h), as<float>(operands[5]) + (b * s.heads + h) * s.queries,
                   resultRows(s, tensors.dQuery, operands, b, h), dMask, startsMask},
                  {s, operands[6], b, h},
                  {s, numbers, b, h},
                  tile});
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
      (read->hasMaskGrad && (order.members == 0 || read->heads == 0))) // nobody starts the mask's gradient
    return decline();
  const std::shared_ptr<const Backward> backward = backwardOf(*read);
  const int64_t floats = backward->pieces.floats;
  const int threads = threadsWithPieces(backward->pieces, spec.threads, note);
  Piece<float> tiles = Workspace(spec).take<float>(floats * threads);
  return makeKernel(
      [backward, order, threads, tiles, floats, tensors = *located](void *const *operands, const StepContext &context) {
        const DropoutNumbers numbers = dropoutNumbers(backward->s, context);
        parallelRanges(threads, order.groups, 1, [&](int64_t begin, int64_t end, int thread) {
          const bf16::Multiplying here(backward->by.engine);
          for (int64_t group = begin; group < end; ++group)
            for (int64_t member = 0; member < order.members; ++member)
              runGroup(*backward, tensors, numbers, order.keyHead(group, member), operands,
                       tiles.of(operands) + floats * thread);
        });
      });
}

} // namespace

void addFastAttentionGrad(KernelRegistry &registry) { registry.addNoting("attention_grad", prepareAttentionGrad); }

} // namespace zc::cpu
