//===- Head.h - a linear layer and its loss, a chunk of rows at a time --------------===//
//
// linear_cross_entropy, linear_log_softmax and their gradients (Liger: arXiv 2410.10989). Logits of a chunk are a
// product of the library's; then a block per row makes its loss and, where it stands, its gradient; of that the library
// makes the gradients of input and weight. Logits are read from memory once and written once (Row.h). Sums over chunks
// go on in their order, each by the threads that have its elements: the same bits every time.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "kernels/cuda/Reduce.h"
#include "kernels/cuda/Rows.h"
#include "kernels/shapes/HeadShapes.h"

#include <array>

namespace zc::cuda {

/// Loss of each row, and its logits' gradient over them, if there is a factor.
template <typename T, int V, int P, typename Cap> struct HeadRowsBody {
  T *logits; ///< of this chunk; labels and losses are of all rows
  Labels labels;
  const double *factor;
  double *losses;
  int64_t firstRow, rows, n, ignored;
  Cap cap;
  template <typename Block> ZC_HD void operator()(Block &block, int64_t index, const Frame &frame) const {
    forRows<P, V>(block, index, static_cast<const T *>(logits), rows, n, 1,
                  [&](int64_t number, int64_t start, auto &row) {
                    const Real<T> whole = logSumExp(block, row, n, cap);
                    const int64_t label = labels[firstRow + number];
                    block.once([&] {
                      losses[firstRow + number] = lossOfRow(logits + start, n, whole, label, ignored, frame, cap);
                    });
                    if (factor)
                      slopes(block, start, row, whole, label);
                  });
  }

private:
  template <typename Block>
  ZC_HD void slopes(Block &block, int64_t start, Row<Block, T, V, P> &row, Real<T> whole, int64_t label) const {
    block.sync(); // the label's logit is read before it is written
    const auto scale = static_cast<Real<T>>(*factor);
    forRow<P, V>(block, n, [&](int64_t i, int slot) {
      Real<T> in[V], out[V];
      row.again(i, slot, in);
      for (int k = 0; k < V; ++k)
        out[k] = in[k] = cap.of(in[k]);
      slopesOf(out, i, whole, scale, label, label != ignored);
      for (int k = 0; k < V; ++k)
        out[k] *= cap.slope(in[k]);
      storePack<V>(logits + start + i, out);
    });
  }
};

/// Of each row the log-softmax at its label and the sum of shares of all; over the logits the gradient of both, if
/// there are slopes. S: of results.
template <typename T, typename S, int V, int P, typename Cap> struct LogRowsBody {
  T *logits; ///< of this chunk; all others are of all rows
  Labels labels;
  const S *shares;
  const double *shareSum;
  const S *byPicked, *byShared;
  S *picked, *shared;
  int64_t firstRow, rows, n;
  Cap cap;
  template <typename Block> ZC_HD void operator()(Block &block, int64_t index, const Frame &frame) const {
    using A = Real<T>;
    forRows<P, V>(block, index, static_cast<const T *>(logits), rows, n, 1,
                  [&](int64_t number, int64_t start, auto &row) {
                    const A whole = logSumExp(block, row, n, cap);
                    const int64_t label = labelOf(firstRow + number, frame);
                    const A sum = reduceRow<AddOf, P, V>(block, n, A(0), [&](int64_t i, int slot) {
                      A in[V], part = 0;
                      row.again(i, slot, in);
                      for (int k = 0; k < V; ++k)
                        part += static_cast<A>(shares[i + k]) * (cap.of(in[k]) - whole);
                      return part;
                    });
                    block.once([&] {
                      const A atLabel = n == 0 ? A(0) : static_cast<A>(load(logits[start + label]));
                      picked[firstRow + number] = static_cast<S>(cap.of(atLabel) - whole);
                      shared[firstRow + number] = static_cast<S>(sum);
                    });
                    if (byPicked)
                      slopes(block, start, row, whole, label, firstRow + number);
                  });
  }

private:
  /// Negative ones count from the end.
  ZC_HD int64_t labelOf(int64_t number, const Frame &frame) const {
    const int64_t label = labels[number];
    if (label >= -n && label < n)
      return label < 0 ? label + n : label;
    frame.wrongIndex(label, n);
    return 0;
  }
  template <typename Block>
  ZC_HD void slopes(Block &block, int64_t start, Row<Block, T, V, P> &row, Real<T> whole, int64_t label,
                    int64_t number) const {
    using A = Real<T>;
    block.sync(); // the label's logit is read before it is written
    const A ofLabel = static_cast<A>(byPicked[number]), ofAll = static_cast<A>(byShared[number]);
    const A total = ofLabel + ofAll * static_cast<A>(*shareSum);
    forRow<P, V>(block, n, [&](int64_t i, int slot) {
      A in[V];
      row.again(i, slot, in);
      for (int k = 0; k < V; ++k) {
        const A y = cap.of(in[k]), own = i + k == label ? ofLabel : A(0);
        in[k] = (own + ofAll * static_cast<A>(shares[i + k]) - total * exponential(y - whole)) * cap.slope(y);
      }
      storePack<V>(logits + start + i, in);
    });
  }
};

template <typename S> struct ShareSumBody {
  const S *shares;
  double *sum;
  int64_t n;
  template <typename Block> ZC_HD void operator()(Block &block, int64_t, const Frame &) const {
    const double all = block.template reduce<AddOf>(n, 0.0, [&](int64_t c) { return static_cast<double>(shares[c]); });
    block.once([&] { *sum = all; });
  }
};

/// sums[part * classes + c] of column c, over a part of a chunk's rows; `goesOn`: beside what earlier chunks left.
template <typename T> struct HeadBiasBody {
  const T *slopes;
  double *sums;
  int64_t rows, classes, parts;
  bool goesOn;
  template <typename Block> ZC_HD void operator()(Block &block, int64_t index, const Frame &) const {
    const int64_t tiles = (classes + kReduceColumns - 1) / kReduceColumns, part = index / tiles;
    const int64_t begin = rows * part / parts, end = rows * (part + 1) / parts;
    block.forEach(kReduceColumns, [&](int64_t t) {
      const int64_t column = index % tiles * kReduceColumns + t;
      if (column >= classes)
        return;
      double &own = sums[part * classes + column], sum = goesOn ? own : 0;
      inBatches(
          begin, end, [&](int64_t i) { return slopes[i * classes + column]; },
          [&](T slope) { sum += static_cast<double>(load(slope)); });
      own = sum;
    });
  }
};

/// Products of a chunk of so many rows.
template <typename Target> struct HeadProducts {
  using Part = std::unique_ptr<typename Target::KernelType>;
  int64_t rows = 0;
  Part logits, inputGrad, weightGrad;

  static Result<HeadProducts> prepare(const shapes::HeadShape &s, int64_t rows, bool adds, int64_t scratch,
                                      const PartMaker<Target> &make) {
    HeadProducts made;
    made.rows = rows;
    auto take = [&](Part &part, KernelSpec spec) -> Status {
      spec.workspace = scratch;
      Prepared<Target> kernel = make(spec);
      ZC_RETURN_IF_ERROR(kernel.status());
      part = std::move(*kernel);
      return {};
    };
    ZC_RETURN_IF_ERROR(take(made.logits, shapes::logitsOf(s, rows)));
    if (s.isGrad)
      ZC_RETURN_IF_ERROR(take(made.inputGrad, shapes::inputGradOf(s, rows)));
    if (s.trainsLayer())
      ZC_RETURN_IF_ERROR(take(made.weightGrad, shapes::weightGradOf(s, rows, adds)));
    return Result<HeadProducts>(std::move(made));
  }
};

/// Operands as in the graph dialect. T: storage, S: of the loss.
template <typename Target, typename T, typename S> class Head {
public:
  static Prepared<Target> prepare(const KernelSpec &spec, const shapes::HeadShape &shape,
                                  const PartMaker<Target> &make) {
    Head head(spec, shape);
    const int64_t chunks = std::max<int64_t>(1, (shape.rows + shape.chunk - 1) / shape.chunk);
    auto take = [&](HeadProducts<Target> &products, int64_t rows, bool adds) -> Status {
      auto made = HeadProducts<Target>::prepare(shape, rows, adds, head.scratch.count, make);
      ZC_RETURN_IF_ERROR(made.status());
      products = std::move(*made);
      return {};
    };
    ZC_RETURN_IF_ERROR(take(head.first, std::min(shape.chunk, shape.rows), false));
    if (chunks > 2)
      ZC_RETURN_IF_ERROR(take(head.middle, shape.chunk, true));
    if (chunks > 1)
      ZC_RETURN_IF_ERROR(take(head.last, shape.rows - (chunks - 1) * shape.chunk, true));
    if (shape.widens()) {
      KernelSpec cast;
      cast.name = "cast";
      cast.operands = {{DType::f32, spec.operands[shape.weightAt()].dims}, spec.operands[shape.weightAt()]};
      cast.numInputs = 1;
      Prepared<Target> kernel = make(cast);
      ZC_RETURN_IF_ERROR(kernel.status());
      head.narrow = std::move(*kernel);
    }
    return launching<Target>(spec, std::move(head));
  }

  template <typename Launcher> void operator()(void *const *operands, const Launcher &launch) {
    const Labels labels(operands[s.labelsAt()], s.label);
    if (s.isEach && s.isGrad)
      launch.template blocks<1024>(
          1, ShareSumBody<S>{static_cast<const S *>(operands[s.sharesAt()]), factor.of(operands), s.classes});
    else if (s.isGrad)
      launch.template blocks<1024>(1, LossFactorBody<S>{static_cast<const S *>(operands[0]), labels,
                                                        factor.of(operands), s.rows, s.classes, s.ignoreIndex, s.sum});
    int64_t row = 0;
    do { // without rows there is still a gradient of the weight
      HeadProducts<Target> &products = row == 0 ? first : row + s.chunk < s.rows ? middle : last;
      runChunk(products, row, operands, launch);
      row += products.rows;
    } while (row < s.rows);
    if (!s.isEach)
      launch.template blocks<1024>(1, MeanLossBody<S>{labels, losses.of(operands),
                                                      static_cast<S *>(operands[s.resultsAt()]), s.rows, s.ignoreIndex,
                                                      s.sum});
    finish(operands, launch);
  }

private:
  Head(const KernelSpec &spec, const shapes::HeadShape &shape) : s(shape) {
    const HeadSpace space(shape);
    shapes::Workspace workspace(spec);
    scratch = workspace.take<char>(space.scratch);
    logits = workspace.take<T>(space.logits);
    losses = workspace.take<double>(space.losses);
    factor = workspace.take<double>(space.factors);
    biasSums = workspace.take<double>(space.biasSums);
    weightSums = workspace.take<float>(space.weightSums);
    biasParts = space.biasParts;
  }

  /// `parts`: its operands; an absent one is null.
  template <typename Launcher>
  void call(const Launcher &launch, typename Target::KernelType &part, std::initializer_list<const void *> parts,
            void *const *operands) const {
    std::array<void *, 6> all{};
    size_t count = 0;
    for (const void *operand : parts)
      if (operand)
        all[count++] = const_cast<void *>(operand);
    all[count] = scratch.of(operands);
    launch.call(part, all.data());
  }

  template <typename Launcher>
  void runChunk(HeadProducts<Target> &products, int64_t row, void *const *operands, const Launcher &launch) const {
    const T *input = static_cast<const T *>(operands[s.inputAt()]) + row * s.width;
    const void *weight = operands[s.weightAt()], *bias = s.hasBias ? operands[s.biasAt()] : nullptr;
    T *scores = logits.of(operands);
    call(launch, *products.logits, {input, weight, bias, scores}, operands);
    auto overLogits = [&](const auto &cap) {
      if (s.isEach)
        return overEach(products.rows, row, operands, launch, cap);
      overKeptRows<T>(launch, products.rows, s.classes, isPacked<T>(s.classes, scores), kRowsInTurn, [&](auto cut) {
        const Labels labels(operands[s.labelsAt()], s.label);
        return HeadRowsBody<T, cut.kPack, cut.kKept, std::decay_t<decltype(cap)>>{
            scores,        labels, factor.of(operands), losses.of(operands), row, products.rows, s.classes,
            s.ignoreIndex, cap};
      });
    };
    if (s.cap == 0)
      overLogits(Uncapped());
    else
      overLogits(CappedAt<Real<T>>{static_cast<Real<T>>(s.cap)});
    if (!s.isGrad)
      return;
    T *inputGrad = static_cast<T *>(operands[s.gradientsAt()]) + row * s.width;
    call(launch, *products.inputGrad, {scores, weight, inputGrad}, operands);
    if (s.isFrozen)
      return;
    void *weightGrad = s.widens() ? weightSums.of(operands) : operands[s.gradientsAt() + 1];
    const T *left = s.transWeight ? scores : input, *right = s.transWeight ? input : scores;
    call(launch, *products.weightGrad, {left, right, row ? weightGrad : nullptr, weightGrad}, operands);
    if (s.hasBias)
      launch.template blocks<kReduceColumns>(
          biasParts * ((s.classes + kReduceColumns - 1) / kReduceColumns),
          HeadBiasBody<T>{scores, biasSums.of(operands), products.rows, s.classes, biasParts, row > 0});
  }

  template <typename Launcher, typename Cap>
  void overEach(int64_t rows, int64_t first, void *const *operands, const Launcher &launch, const Cap &cap) const {
    T *scores = logits.of(operands);
    auto of = [&](size_t at) { return static_cast<S *>(operands[at]); };
    overKeptRows<T>(launch, rows, s.classes, isPacked<T>(s.classes, scores), kRowsInTurn, [&](auto cut) {
      return LogRowsBody<T, S, cut.kPack, cut.kKept, Cap>{scores,
                                                          Labels(operands[s.labelsAt()], s.label),
                                                          of(s.sharesAt()),
                                                          factor.of(operands),
                                                          s.isGrad ? of(0) : nullptr,
                                                          s.isGrad ? of(1) : nullptr,
                                                          of(s.resultsAt()),
                                                          of(s.resultsAt() + 1),
                                                          first,
                                                          rows,
                                                          s.classes,
                                                          cap};
    });
  }

  template <typename Launcher> void finish(void *const *operands, const Launcher &launch) const {
    if (narrow)
      call(launch, *narrow, {weightSums.of(operands), operands[s.gradientsAt() + 1]}, operands);
    if (s.trainsLayer() && s.hasBias)
      overResults(launch, s.classes,
                  ReduceFinishBody<T>{biasSums.of(operands), static_cast<T *>(operands[s.gradientsAt() + 2]), s.classes,
                                      s.rows, biasParts, 1, s.classes, ChosenReduction{ReductionKind::sum}});
  }

  shapes::HeadShape s;
  HeadProducts<Target> first, middle, last;            ///< chunks; the first one finds no sums to add to
  std::unique_ptr<typename Target::KernelType> narrow; ///< null where sums have the gradient's type
  shapes::Piece<char> scratch;
  shapes::Piece<T> logits;
  shapes::Piece<double> losses, factor, biasSums;
  shapes::Piece<float> weightSums;
  int64_t biasParts = 0;
};

template <typename Target>
Prepared<Target> prepareHead(const KernelSpec &spec, const Result<shapes::HeadShape> &read,
                             const PartMaker<Target> &make) {
  ZC_RETURN_IF_ERROR(Status(read.status()));
  return withStatistics(read->dtype, read->stat, [&](auto tag, auto statTag) {
    return Head<Target, TypeOf<decltype(tag)>, TypeOf<decltype(statTag)>>::prepare(spec, *read, make);
  });
}

/// `make`: of matmul, matmul_part and cast.
template <typename Target, typename Registry> void addHeads(Registry &registry, const PartMaker<Target> &make) {
  registry.add("linear_cross_entropy",
               [make](const KernelSpec &spec) { return prepareHead<Target>(spec, shapes::readHead(spec), make); });
  registry.add("linear_cross_entropy_grad",
               [make](const KernelSpec &spec) { return prepareHead<Target>(spec, shapes::readHeadGrad(spec), make); });
  registry.add("linear_log_softmax",
               [make](const KernelSpec &spec) { return prepareHead<Target>(spec, shapes::readLogHead(spec), make); });
  registry.add("linear_log_softmax_grad", [make](const KernelSpec &spec) {
    return prepareHead<Target>(spec, shapes::readLogHeadGrad(spec), make);
  });
}

} // namespace zc::cuda
