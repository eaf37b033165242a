// Rows of logits, capped as they are read: three passes for a loss and one for its gradient, of a row that is in cache.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/fast/HeadRows.cpp"
#include <hwy/foreach_target.h>

#include "kernels/cpu/fast/HeadRows.h"
#include "kernels/cpu/fast/Simd-inl.h"

#include <cmath>

HWY_BEFORE_NAMESPACE();
namespace zc::cpu {
namespace HWY_NAMESPACE {

/// No cap, and one.
struct Whole {
  HWY_INLINE float of(float x) const { return x; }
  HWY_INLINE V of(V x) const { return x; }
  HWY_INLINE float slope(float) const { return 1; }
  HWY_INLINE V slope(V, V grad) const { return grad; }
};
struct Capped {
  float cap;
  HWY_INLINE float of(float x) const { return cap * std::tanh(x / cap); }
  HWY_INLINE V of(V x) const { return hn::Mul(hn::Set(kF, cap), tanhV(hn::Mul(x, hn::Set(kF, 1 / cap)))); }
  /// Of a capped logit.
  HWY_INLINE float slope(float y) const { return 1 - y / cap * (y / cap); }
  HWY_INLINE V slope(V y, V grad) const {
    const V t = hn::Mul(y, hn::Set(kF, 1 / cap));
    return hn::Mul(grad, hn::NegMulAdd(t, t, hn::Set(kF, 1.0f)));
  }
};

template <typename Fn> HWY_INLINE auto withCap(float cap, Fn fn) { return cap == 0 ? fn(Whole()) : fn(Capped{cap}); }

/// A cap rises with what it caps: the largest stays so.
template <typename T, typename Cap> RowLogs logs(const T *x, const HeadRow &row, int64_t label, const Cap &cap) {
  const float top = cap.of(maxOf(x, row.classes));
  const V shift = hn::Set(kF, top);
  const float sum = sumVectors(row.classes, [&](int64_t i, size_t count) HWY_ATTR {
    return keepFirst(expV(hn::Sub(cap.of(loadPart(x + i, count)), shift)), count);
  });
  const float logSum = std::log(sum);
  RowLogs logs{top + logSum, cap.of(static_cast<float>(load(x[label]))) - top - logSum, 0};
  if (row.shares) {
    const V log = hn::Set(kF, logSum);
    logs.shared = sumVectors(row.classes, [&](int64_t i, size_t count) HWY_ATTR {
      const V y = hn::Sub(hn::Sub(cap.of(loadPart(x + i, count)), shift), log);
      return keepFirst(hn::Mul(loadPart(row.shares + i, count), y), count);
    });
  }
  return logs;
}

template <typename T, typename Cap>
void gradient(T *x, const HeadRow &row, int64_t label, float lse, RowSlopes slopes, const Cap &cap) {
  const float picked = cap.of(static_cast<float>(load(x[label]))); // before it is written over
  const float total = slopes.ofLabel + slopes.ofAll * row.shareSum;
  const V shift = hn::Set(kF, lse), all = hn::Set(kF, total), share = hn::Set(kF, slopes.ofAll);
  if (row.shares)
    forVectors(0, row.classes, [&](int64_t i, size_t count) HWY_ATTR {
      const V y = cap.of(loadPart(x + i, count)), grad = hn::Mul(loadPart(row.shares + i, count), share);
      storePart(cap.slope(y, hn::NegMulAdd(expV(hn::Sub(y, shift)), all, grad)), x + i, count);
    });
  else
    forVectors(0, row.classes, [&](int64_t i, size_t count) HWY_ATTR {
      const V y = cap.of(loadPart(x + i, count));
      storePart(cap.slope(y, hn::Mul(expV(hn::Sub(y, shift)), hn::Neg(all))), x + i, count);
    });
  const float ofShare = row.shares ? slopes.ofAll * row.shares[label] : 0;
  x[label] = store<T>(cap.slope(picked) * (slopes.ofLabel + ofShare - total * std::exp(picked - lse)));
}

RowLogs logsTyped(const HeadRow &row, const void *logits, int64_t label) {
  return withFast(row.type, [&](auto tag) {
    auto *x = static_cast<const TypeOf<decltype(tag)> *>(logits);
    return withCap(row.cap, [&](const auto &cap) { return logs(x, row, label, cap); });
  });
}
void gradientTyped(const HeadRow &row, void *logits, int64_t label, float lse, RowSlopes slopes) {
  withFast(row.type, [&](auto tag) {
    auto *x = static_cast<TypeOf<decltype(tag)> *>(logits);
    withCap(row.cap, [&](const auto &cap) { gradient(x, row, label, lse, slopes, cap); });
  });
}

} // namespace HWY_NAMESPACE
} // namespace zc::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zc::cpu {
HWY_EXPORT(logsTyped);
HWY_EXPORT(gradientTyped);

RowLogs logsOf(const HeadRow &row, const void *logits, int64_t label) {
  return HWY_DYNAMIC_DISPATCH(logsTyped)(row, logits, label);
}
void logsToGradient(const HeadRow &row, void *logits, int64_t label, float lse, RowSlopes slopes) {
  HWY_DYNAMIC_DISPATCH(gradientTyped)(row, logits, label, lse, slopes);
}

} // namespace zc::cpu
#endif
