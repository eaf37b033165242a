// linear_cross_entropy, linear_log_softmax and their gradients: a chunk of rows at a time, its logits become its
// softmax's gradient where they lie, and that goes into the gradients of input, weight and bias while it is at hand.
// Made of the kernels that the layer and the loss have apart (HeadShapes.h), so products are the library's, in any
// type. Chunks are cut by an attribute, whatever the threads. Where rows whose labels do not count (a prompt's,
// padding) would fill whole chunks, those that do are gathered, a chunk at a time, and the others left out.
#include "kernels/cpu/Registries.h"
#include "kernels/cpu/fast/Convert.h"
#include "kernels/cpu/fast/Fast.h"
#include "kernels/cpu/fast/HeadRows.h"
#include "kernels/cpu/fast/Labels.h"
#include "kernels/shapes/HeadShapes.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <tuple>

namespace zc::cpu {
namespace {

using Pointers = std::initializer_list<const void *>;

/// A kernel that works in the first bytes of the whole's workspace.
class Part {
public:
  static Result<Part> prepare(KernelSpec spec, const KernelSpec &whole, int64_t scratch, std::string &note) {
    spec.workspace = scratch;
    spec.threads = whole.threads;
    spec.products = whole.products;
    Part part;
    part.numOperands = spec.operands.size();
    auto kernel = fastKernels().prepare(spec);
    ZC_RETURN_IF_ERROR(kernel.status());
    part.kernel = std::move(*kernel);
    if (note.empty())
      note = part.kernel->note();
    return part;
  }

  Status run(Pointers operands, void *scratch, const StepContext &context) const {
    std::array<void *, 8> all{};
    std::transform(operands.begin(), operands.end(), all.begin(), [](const void *p) { return const_cast<void *>(p); });
    all[numOperands] = scratch;
    return kernel->run(all.data(), context);
  }
  std::string method() const { return kernel ? kernel->method() : ""; }

private:
  std::unique_ptr<Kernel> kernel;
  size_t numOperands = 0;
};

/// The kernels of one chunk; where its rows are taken otherwise none makes its loss (HeadRows.h). `first`: it finds no
/// sums to add to.
struct ChunkKernels {
  Part logits, loss, logitsGrad, inputGrad, weightGrad;

  static Result<ChunkKernels> prepare(const HeadShape &s, int64_t rows, bool first, const KernelSpec &whole,
                                      int64_t scratch, std::string &note) {
    ChunkKernels chunk;
    Status status;
    auto take = [&](Part &part, KernelSpec spec) {
      if (!status.ok())
        return;
      Result<Part> made = Part::prepare(std::move(spec), whole, scratch, note);
      if (made)
        part = std::move(*made);
      else
        status = made.status();
    };
    take(chunk.logits, logitsOf(s, rows));
    if (!s.hasOwnRows())
      take(chunk.loss, lossOf(s, rows));
    if (!s.hasOwnRows() && s.isGrad)
      take(chunk.logitsGrad, logitsGradOf(s, rows));
    if (s.isGrad)
      take(chunk.inputGrad, inputGradOf(s, rows));
    if (s.trainsLayer())
      take(chunk.weightGrad, weightGradOf(s, rows, !first));
    ZC_RETURN_IF_ERROR(status);
    return chunk;
  }
};

class LinearCrossEntropy : public Kernel {
public:
  static Prepared prepare(const KernelSpec &spec, const HeadShape &shape, std::string &note) {
    auto head = std::make_unique<LinearCrossEntropy>(spec, shape);
    const int64_t tail = shape.rows % shape.chunk;
    for (auto [chunk, rows, isFirst] :
         {std::tuple(&head->first, shape.chunk, true), std::tuple(&head->middle, shape.chunk, false),
          std::tuple(&head->last, tail ? tail : shape.chunk, false)}) {
      Result<ChunkKernels> made = ChunkKernels::prepare(shape, rows, isFirst, spec, head->scratch.count, note);
      ZC_RETURN_IF_ERROR(made.status());
      *chunk = std::move(*made);
    }
    return std::unique_ptr<Kernel>(std::move(head));
  }

  LinearCrossEntropy(const KernelSpec &spec, const HeadShape &shape)
      : spec(spec), s(shape), threads(threadsFor(spec.threads, shape.chunk * shape.classes)) {
    const HeadPieces pieces(shape);
    Workspace workspace(spec);
    scratch = workspace.take<char>(pieces.scratch);
    logits = workspace.take<char>(pieces.logits * sizeOf(shape.dtype));
    lse = workspace.take<float>(pieces.lse);
    losses = workspace.take<float>(pieces.losses);
    weightSums = workspace.take<float>(pieces.weightSums);
    biasSums = workspace.take<float>(pieces.biasSums);
    places = workspace.take<int64_t>(pieces.places);
    gatheredLabels = workspace.take<char>(pieces.labels * sizeOf(shape.label));
    gatheredInputs = workspace.take<char>(pieces.inputs * sizeOf(shape.dtype));
    gatheredGrads = workspace.take<char>(pieces.inputGrads * sizeOf(shape.dtype));
  }

  Status run(void *const *operands, const StepContext &context) override {
    if (s.isEach)
      return runEach(operands, context);
    Result<int64_t> count = withIndex(
        s.label, [&](auto tag) { return countLabels(spec, s, as<TypeOf<decltype(tag)>>(operands[s.labelsAt()])); });
    ZC_RETURN_IF_ERROR(count.status());
    const double divisor = s.sum ? 1 : static_cast<double>(*count);
    const float grad = s.isGrad ? static_cast<float>(*as<float>(operands[0]) / divisor) : 0;
    std::fill_n(biasSums.of(operands), biasSums.count, 0.0f);
    double loss = 0; // in the order of chunks
    if (*count > 0 && quotientUp(*count, s.chunk) < quotientUp(s.rows, s.chunk))
      ZC_RETURN_IF_ERROR(runCounted(operands, *count, grad, loss, context));
    else
      ZC_RETURN_IF_ERROR(runAll(operands, grad, loss, context));
    *as<float>(operands[s.resultsAt()]) = static_cast<float>(loss / divisor);
    finishSums(operands);
    return Status::success();
  }

  /// Those of its products, each once.
  std::string method() const override {
    std::string text;
    for (const Part *part : {&first.logits, &first.inputGrad, &first.weightGrad})
      if (std::string one = part->method(); !one.empty() && text.find(one) == std::string::npos)
        text += (text.empty() ? "" : "; ") + one;
    return text;
  }

private:
  /// linear_log_softmax: all rows count.
  Status runEach(void *const *operands, const StepContext &context) {
    for (int64_t r = 0; r < s.rows; ++r) {
      const int64_t label =
          withIndex(s.label, [&](auto tag) -> int64_t { return as<TypeOf<decltype(tag)>>(operands[s.labelsAt()])[r]; });
      if (label < -s.classes || label >= s.classes)
        return outOfRange(spec, "label", label, -s.classes, s.classes);
    }
    const auto *shares = as<float>(operands[s.sharesAt()]);
    shareSum = static_cast<float>(std::accumulate(shares, shares + s.classes, 0.0));
    std::fill_n(biasSums.of(operands), biasSums.count, 0.0f);
    double loss = 0; // of none
    ZC_RETURN_IF_ERROR(runAll(operands, 0, loss, context));
    finishSums(operands);
    return Status::success();
  }

  /// Rows of a chunk.
  struct Rows {
    int64_t begin; ///< among all; of gathered ones, nothing
    const char *input, *labels;
    char *inputGrad; ///< null: none is wanted
    int64_t count;
    bool isFirst;
  };

  /// `loss`, here and below, grows by that of the rows. `grad` is the loss's, divided by what the loss is.
  Status runAll(void *const *operands, float grad, double &loss, const StepContext &context) {
    const int64_t rowBytes = s.width * sizeOf(s.dtype);
    for (int64_t row = 0; row < s.rows; row += s.chunk) {
      const ChunkKernels &chunk = row == 0 ? first : row + s.chunk < s.rows ? middle : last;
      const Rows rows{row,
                      as<char>(operands[s.inputAt()]) + row * rowBytes,
                      as<char>(operands[s.labelsAt()]) + row * sizeOf(s.label),
                      s.isGrad ? as<char>(operands[s.gradientsAt()]) + row * rowBytes : nullptr,
                      std::min(s.chunk, s.rows - row),
                      row == 0};
      ZC_RETURN_IF_ERROR(runChunk(chunk, rows, operands, grad, loss, context));
    }
    return Status::success();
  }

  /// Only of the `count` rows that count.
  Status runCounted(void *const *operands, int64_t count, float grad, double &loss, const StepContext &context) {
    const int64_t rowBytes = s.width * sizeOf(s.dtype);
    char *inputGrad = s.isGrad ? as<char>(operands[s.gradientsAt()]) : nullptr;
    if (inputGrad)
      parallelRanges(threads, s.rows, 64, [&](int64_t begin, int64_t end, int) {
        std::memset(inputGrad + begin * rowBytes, 0, size_t((end - begin) * rowBytes));
      });
    int64_t next = 0; // row to look at
    for (int64_t done = 0; done < count; done += s.chunk) {
      const int64_t present = std::min(s.chunk, count - done);
      next = gather(operands, next, present);
      const Rows rows{
          0, gatheredInputs.of(operands), gatheredLabels.of(operands), gatheredGrads.of(operands), s.chunk, done == 0};
      ZC_RETURN_IF_ERROR(runChunk(done == 0 ? first : middle, rows, operands, grad, loss, context));
      if (inputGrad)
        moveRows(places.of(operands), present, [&](int64_t i, int64_t place) {
          std::memcpy(inputGrad + place * rowBytes, rows.inputGrad + i * rowBytes, size_t(rowBytes));
        });
    }
    return Status::success();
  }

  /// The next `present` rows that count, from `row` on, then zeros whose labels do not, to a whole chunk. Returns the
  /// row behind them.
  int64_t gather(void *const *operands, int64_t row, int64_t present) const {
    const int64_t rowBytes = s.width * sizeOf(s.dtype);
    const char *input = as<char>(operands[s.inputAt()]);
    char *to = gatheredInputs.of(operands);
    int64_t *place = places.of(operands);
    withIndex(s.label, [&](auto tag) {
      using L = TypeOf<decltype(tag)>;
      const L *from = as<L>(operands[s.labelsAt()]);
      L *labels = as<L>(gatheredLabels.of(operands));
      for (int64_t i = 0; i < present; ++row)
        if (from[row] != s.ignoreIndex) {
          place[i] = row;
          labels[i++] = from[row];
        }
      std::fill(labels + present, labels + s.chunk, static_cast<L>(s.ignoreIndex));
    });
    moveRows(place, present, [&](int64_t i, int64_t from) {
      std::memcpy(to + i * rowBytes, input + from * rowBytes, size_t(rowBytes));
    });
    std::memset(to + present * rowBytes, 0, size_t((s.chunk - present) * rowBytes));
    return row;
  }

  /// `move`(i, place[i]) of each.
  template <typename Move> void moveRows(const int64_t *place, int64_t count, Move move) const {
    parallelRanges(threads, count, 16, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i)
        move(i, place[i]);
    });
  }

  Status runChunk(const ChunkKernels &chunk, const Rows &rows, void *const *operands, float grad, double &loss,
                  const StepContext &context) {
    const void *weight = operands[s.weightAt()];
    void *scores = logits.of(operands), *sums = scratch.of(operands);
    float *logSums = lse.of(operands);
    ZC_RETURN_IF_ERROR(s.hasBias ? chunk.logits.run({rows.input, weight, operands[s.biasAt()], scores}, sums, context)
                                 : chunk.logits.run({rows.input, weight, scores}, sums, context));
    float part = 0;
    if (s.isEach)
      logsOfRows(rows, operands, scores, logSums);
    else if (s.cap == 0)
      ZC_RETURN_IF_ERROR(chunk.loss.run({scores, rows.labels, &part, logSums}, sums, context));
    else
      part = lossOfRows(rows, scores, logSums, losses.of(operands));
    loss += part;
    if (!s.isGrad)
      return Status::success();
    if (s.isEach)
      gradOfLogs(rows, operands, scores, logSums);
    else if (s.cap == 0)
      ZC_RETURN_IF_ERROR(chunk.logitsGrad.run({&grad, scores, rows.labels, logSums, scores}, sums, context));
    else
      gradOfRows(rows, scores, logSums, grad);
    ZC_RETURN_IF_ERROR(chunk.inputGrad.run({scores, weight, rows.inputGrad}, sums, context));
    if (s.isFrozen)
      return Status::success();
    void *weightGrad = s.widens() ? weightSums.of(operands) : operands[s.gradientsAt() + 1];
    const void *left = s.transWeight ? scores : rows.input, *right = s.transWeight ? rows.input : scores;
    ZC_RETURN_IF_ERROR(rows.isFirst ? chunk.weightGrad.run({left, right, weightGrad}, sums, context)
                                    : chunk.weightGrad.run({left, right, weightGrad, weightGrad}, sums, context));
    if (s.hasBias)
      withFast(s.dtype,
               [&](auto tag) { addToBias(as<TypeOf<decltype(tag)>>(scores), rows.count, biasSums.of(operands)); });
    return Status::success();
  }

  /// fn(row, its logits, its label) of each.
  template <typename Fn> void forRows(const Rows &rows, void *scores, Fn fn) const {
    withIndex(s.label, [&](auto tag) {
      const auto *labels = static_cast<const TypeOf<decltype(tag)> *>(static_cast<const void *>(rows.labels));
      parallelRanges(threads, rows.count, 1, [&](int64_t begin, int64_t end, int) {
        for (int64_t r = begin; r < end; ++r)
          fn(r, as<char>(scores) + r * s.classes * sizeOf(s.dtype), static_cast<int64_t>(labels[r]));
      });
    });
  }

  float lossOfRows(const Rows &rows, void *scores, float *logSums, float *lossOfRow) const {
    forRows(rows, scores, [&](int64_t r, void *row, int64_t label) {
      const bool counts = label != s.ignoreIndex;
      const RowLogs logs = logsOf(headRow(), row, counts ? label : 0);
      logSums[r] = logs.lse;
      lossOfRow[r] = counts ? -logs.picked : 0;
    });
    return static_cast<float>(std::accumulate(lossOfRow, lossOfRow + rows.count, 0.0)); // whatever the threads
  }

  void gradOfRows(const Rows &rows, void *scores, const float *logSums, float grad) const {
    forRows(rows, scores, [&](int64_t r, void *row, int64_t label) {
      if (label == s.ignoreIndex)
        std::memset(row, 0, static_cast<size_t>(s.classes * sizeOf(s.dtype)));
      else
        logsToGradient(headRow(), row, label, logSums[r], {-grad, 0});
    });
  }

  void logsOfRows(const Rows &rows, void *const *operands, void *scores, float *logSums) const {
    float *picked = as<float>(operands[s.resultsAt()]) + rows.begin;
    float *shared = as<float>(operands[s.resultsAt() + 1]) + rows.begin;
    const HeadRow head = headRow(as<float>(operands[s.sharesAt()]));
    forRows(rows, scores, [&](int64_t r, void *row, int64_t label) {
      const RowLogs logs = logsOf(head, row, label < 0 ? label + s.classes : label);
      logSums[r] = logs.lse;
      picked[r] = logs.picked;
      shared[r] = logs.shared;
    });
  }

  void gradOfLogs(const Rows &rows, void *const *operands, void *scores, const float *logSums) const {
    const float *byPicked = as<float>(operands[0]) + rows.begin, *byShared = as<float>(operands[1]) + rows.begin;
    const HeadRow head = headRow(as<float>(operands[s.sharesAt()]));
    forRows(rows, scores, [&](int64_t r, void *row, int64_t label) {
      logsToGradient(head, row, label < 0 ? label + s.classes : label, logSums[r], {byPicked[r], byShared[r]});
    });
  }

  HeadRow headRow(const float *shares = nullptr) const {
    return {s.dtype, s.classes, static_cast<float>(s.cap), shares, shareSum};
  }

  /// Each column's sum goes on in the order of rows.
  template <typename T> void addToBias(const T *scores, int64_t rows, float *sums) const {
    parallelRanges(threads, s.classes, 64, [&](int64_t begin, int64_t end, int) {
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = begin; c < end; ++c)
          sums[c] += load(scores[r * s.classes + c]);
    });
  }

  void finishSums(void *const *operands) const {
    void *const *gradients = operands + s.gradientsAt();
    if (s.widens())
      narrowed(weightSums.of(operands), gradients[1], weightSums.count);
    if (s.trainsLayer() && s.hasBias)
      narrowed(biasSums.of(operands), gradients[2], s.classes);
  }

  void narrowed(const float *from, void *to, int64_t n) const {
    parallelRanges(threads, n, 4096, [&](int64_t begin, int64_t end, int) {
      convertFast(DType::f32, from + begin, s.dtype, as<char>(to) + begin * sizeOf(s.dtype), end - begin);
    });
  }

  KernelSpec spec;
  HeadShape s;
  int threads;
  float shareSum = 0;
  ChunkKernels first, middle, last;
  Piece<char> scratch, logits, gatheredLabels, gatheredInputs, gatheredGrads;
  Piece<float> lse, losses, weightSums, biasSums;
  Piece<int64_t> places;
};

Prepared prepareHead(const KernelSpec &spec, const Result<HeadShape> &read, std::string &note) {
  ZC_RETURN_IF_ERROR(read.status());
  if (!isFast(read->dtype) || read->rows * read->classes * read->width == 0)
    return decline();
  return LinearCrossEntropy::prepare(spec, *read, note);
}

} // namespace

void addFastLinearCrossEntropy(KernelRegistry &registry) {
  registry.addNoting("linear_cross_entropy",
                     [](const KernelSpec &spec, std::string &note) { return prepareHead(spec, readHead(spec), note); });
  registry.addNoting("linear_cross_entropy_grad", [](const KernelSpec &spec, std::string &note) {
    return prepareHead(spec, readHeadGrad(spec), note);
  });
  registry.addNoting("linear_log_softmax", [](const KernelSpec &spec, std::string &note) {
    return prepareHead(spec, readLogHead(spec), note);
  });
  registry.addNoting("linear_log_softmax_grad", [](const KernelSpec &spec, std::string &note) {
    return prepareHead(spec, readLogHeadGrad(spec), note);
  });
}

} // namespace zc::cpu
