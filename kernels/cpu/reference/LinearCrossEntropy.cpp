// linear_cross_entropy, linear_log_softmax and their gradients: logits one by one, each time they are needed; sums in
// double.
#include "kernels/cpu/Support.h"
#include "kernels/cpu/reference/ElementTypes.h"
#include "kernels/formula/Activation.h"
#include "kernels/shapes/HeadShapes.h"

#include <cmath>

namespace zc::cpu {
namespace {

/// What there is to read, stored as T.
template <typename T> class PlainHead {
public:
  PlainHead(const KernelSpec &spec, const HeadShape &s)
      : spec(spec), s(s), weightRow(s.transWeight ? s.width : 1), weightColumn(s.transWeight ? 1 : s.classes),
        stats(s.stat), labelType(s.label) {
    Workspace workspace(spec);
    lsePiece = workspace.take<double>(s.rows);
    sumsPiece = workspace.take<double>(s.width);
  }

  Status run(void *const *operands) {
    input = as<T>(operands[s.inputAt()]);
    labels = operands[s.labelsAt()];
    weight = as<T>(operands[s.weightAt()]);
    bias = s.hasBias ? as<T>(operands[s.biasAt()]) : nullptr;
    shares = s.isEach ? operands[s.sharesAt()] : nullptr;
    all = operands;
    lse = lsePiece.of(operands);
    sums = sumsPiece.of(operands);
    for (int64_t r = 0; r < s.rows; ++r)
      lse[r] = logSumExp(r);
    Status status = s.isEach ? logsOfRows() : loss();
    if (!status.ok() || !s.isGrad)
      return status;
    void *const *gradients = operands + s.gradientsAt();
    inputGrad(as<T>(gradients[0]));
    if (s.trainsLayer())
      weightGrad(as<T>(gradients[1]), s.hasBias ? as<T>(gradients[2]) : nullptr);
    return status;
  }

private:
  /// Of linear_log_softmax's rows negative ones count from the end.
  int64_t labelOf(int64_t r) const {
    const int64_t label = labelType.get(labels, r);
    return s.isEach && label < 0 ? label + s.classes : label;
  }
  bool isIgnored(int64_t r) const { return !s.isEach && labelOf(r) == s.ignoreIndex; }
  /// The weight of class `c` and input `k`.
  double weightAt(int64_t c, int64_t k) const { return load(weight[c * weightRow + k * weightColumn]); }
  double shareOf(int64_t c) const { return shares ? stats.get(shares, c) : 0; }

  double logit(int64_t r, int64_t c) const {
    double sum = 0;
    for (int64_t k = 0; k < s.width; ++k)
      sum += load(input[r * s.width + k]) * weightAt(c, k);
    const double whole = sum + (bias ? static_cast<double>(load(bias[c])) : 0);
    return s.cap == 0 ? whole : formula::capped(whole, s.cap);
  }

  double logSumExp(int64_t r) const {
    double top = -std::numeric_limits<double>::infinity(), sum = 0;
    for (int64_t c = 0; c < s.classes; ++c) {
      double x = logit(r, c);
      if (x > top) {
        sum = sum * std::exp(top - x) + 1;
        top = x;
      } else {
        sum += std::exp(x - top);
      }
    }
    return top + std::log(sum);
  }

  Status loss() {
    double loss = 0, count = 0;
    for (int64_t r = 0; r < s.rows; ++r) {
      if (isIgnored(r))
        continue;
      const int64_t label = labelOf(r);
      if (label < 0 || label >= s.classes)
        return outOfRange(spec, "label", label, 0, s.classes);
      loss += lse[r] - logit(r, label);
      ++count;
    }
    if (s.sum)
      count = 1;
    stats.set(all[s.resultsAt()], 0, loss / count);
    if (s.isGrad)
      factor = stats.get(all[0], 0) / count;
    return Status::success();
  }

  Status logsOfRows() {
    shareSum = 0;
    for (int64_t c = 0; c < s.classes; ++c)
      shareSum += shareOf(c);
    for (int64_t r = 0; r < s.rows; ++r) {
      const int64_t label = labelOf(r);
      if (label < 0 || label >= s.classes)
        return outOfRange(spec, "label", labelType.get(labels, r), -s.classes, s.classes);
      double shared = 0;
      for (int64_t c = 0; c < s.classes; ++c)
        shared += shareOf(c) * (logit(r, c) - lse[r]);
      stats.set(all[s.resultsAt()], r, logit(r, label) - lse[r]);
      stats.set(all[s.resultsAt() + 1], r, shared);
    }
    return Status::success();
  }

  /// The gradient of a logit.
  double logitGrad(int64_t r, int64_t c) const {
    if (isIgnored(r))
      return 0;
    const double ofLabel = s.isEach ? stats.get(all[0], r) : -factor, ofAll = s.isEach ? stats.get(all[1], r) : 0;
    const double y = logit(r, c), grad = ofLabel * (c == labelOf(r)) + ofAll * shareOf(c) -
                                         (ofLabel + ofAll * shareSum) * std::exp(y - lse[r]);
    return s.cap == 0 ? grad : grad * formula::cappedSlope(y, s.cap);
  }

  void inputGrad(T *result) const {
    for (int64_t r = 0; r < s.rows; ++r) {
      std::fill_n(sums, s.width, 0.0);
      for (int64_t c = 0; c < s.classes; ++c) {
        double grad = logitGrad(r, c);
        for (int64_t k = 0; k < s.width; ++k)
          sums[k] += grad * weightAt(c, k);
      }
      for (int64_t k = 0; k < s.width; ++k)
        result[r * s.width + k] = storeSum<T>(sums[k]);
    }
  }

  void weightGrad(T *result, T *biasResult) const {
    for (int64_t c = 0; c < s.classes; ++c) {
      double sum = 0;
      std::fill_n(sums, s.width, 0.0);
      for (int64_t r = 0; r < s.rows; ++r) {
        double grad = logitGrad(r, c);
        sum += grad;
        for (int64_t k = 0; k < s.width; ++k)
          sums[k] += grad * load(input[r * s.width + k]);
      }
      for (int64_t k = 0; k < s.width; ++k)
        result[c * weightRow + k * weightColumn] = storeSum<T>(sums[k]);
      if (biasResult)
        biasResult[c] = storeSum<T>(sum);
    }
  }

  KernelSpec spec;
  HeadShape s;
  int64_t weightRow, weightColumn;
  Piece<double> lsePiece, sumsPiece;
  const T *input = nullptr, *weight = nullptr, *bias = nullptr;
  StatElements stats;
  IndexElements labelType;
  void *const *all = nullptr;
  const void *labels = nullptr, *shares = nullptr;
  double *lse = nullptr, *sums = nullptr, factor = 0, shareSum = 0;
};

Prepared prepare(const KernelSpec &spec, const Result<HeadShape> &read) {
  ZC_RETURN_IF_ERROR(read.status());
  return withFloat(read->dtype, [&](auto tag) {
    return makeKernel([head = PlainHead<TypeOf<decltype(tag)>>(spec, *read)](
                          void *const *operands, const StepContext &) mutable { return head.run(operands); });
  });
}

//===-- workspace: the larger of what this and the fast version need ---------===//

int64_t headBytes(const HeadShape &s) {
  const int64_t plain = Workspace::sum(Workspace::bytesOf<double>(s.rows), Workspace::bytesOf<double>(s.width));
  return std::max(plain, isFast(s.dtype) ? HeadPieces(s).bytes(s) : 0);
}

} // namespace

void addLinearCrossEntropy(KernelRegistry &registry) {
  registry.add(
      "linear_cross_entropy", [](const KernelSpec &spec) { return prepare(spec, readHead(spec)); },
      bytesOf<readHead, headBytes>);
  registry.add(
      "linear_cross_entropy_grad", [](const KernelSpec &spec) { return prepare(spec, readHeadGrad(spec)); },
      bytesOf<readHeadGrad, headBytes>);
  registry.add(
      "linear_log_softmax", [](const KernelSpec &spec) { return prepare(spec, readLogHead(spec)); },
      bytesOf<readLogHead, headBytes>);
  registry.add(
      "linear_log_softmax_grad", [](const KernelSpec &spec) { return prepare(spec, readLogHeadGrad(spec)); },
      bytesOf<readLogHeadGrad, headBytes>);
}

} // namespace zc::cpu
