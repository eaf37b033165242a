// linear_cross_entropy and its gradient: logits one by one, each time they are needed; sums in double.
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
      : spec(spec), s(s), at(s.isGrad ? 1 : 0), weightRow(s.transWeight ? s.width : 1),
        weightColumn(s.transWeight ? 1 : s.classes), stats(s.stat), labelType(s.label) {
    Workspace workspace(spec);
    lsePiece = workspace.take<double>(s.rows);
    sumsPiece = workspace.take<double>(s.width);
  }

  Status run(void *const *operands) {
    input = as<T>(operands[at]);
    labels = operands[at + 1];
    weight = as<T>(operands[at + 2]);
    bias = s.hasBias ? as<T>(operands[at + 3]) : nullptr;
    lse = lsePiece.of(operands);
    sums = sumsPiece.of(operands);
    double loss = 0, count = 0;
    for (int64_t r = 0; r < s.rows; ++r) {
      lse[r] = logSumExp(r);
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
    stats.set(operands[spec.numInputs], 0, loss / count);
    if (!s.isGrad)
      return Status::success();
    factor = stats.get(operands[0], 0) / count;
    void *const *gradients = operands + spec.numInputs + 1;
    inputGrad(as<T>(gradients[0]));
    if (s.trainsLayer())
      weightGrad(as<T>(gradients[1]), s.hasBias ? as<T>(gradients[2]) : nullptr);
    return Status::success();
  }

private:
  int64_t labelOf(int64_t r) const { return labelType.get(labels, r); }
  bool isIgnored(int64_t r) const { return labelOf(r) == s.ignoreIndex; }
  /// The weight of class `c` and input `k`.
  double weightAt(int64_t c, int64_t k) const { return load(weight[c * weightRow + k * weightColumn]); }

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

  /// The gradient of a logit.
  double logitGrad(int64_t r, int64_t c) const {
    if (isIgnored(r))
      return 0;
    const double y = logit(r, c), grad = (std::exp(y - lse[r]) - (c == labelOf(r))) * factor;
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
  size_t at; ///< of the input
  int64_t weightRow, weightColumn;
  Piece<double> lsePiece, sumsPiece;
  const T *input = nullptr, *weight = nullptr, *bias = nullptr;
  StatElements stats;
  IndexElements labelType;
  const void *labels = nullptr;
  double *lse = nullptr, *sums = nullptr, factor = 0;
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
}

} // namespace zc::cpu
