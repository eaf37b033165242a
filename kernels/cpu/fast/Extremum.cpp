// reduce_max, reduce_min and arg_max along neighbouring dimensions. NaN wins; of equal ones the first, or the last.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/fast/Extremum.cpp"
#include <hwy/foreach_target.h>

#include "kernels/cpu/fast/Simd-inl.h"

#include <algorithm>

HWY_BEFORE_NAMESPACE();
namespace zc::cpu {
namespace HWY_NAMESPACE {

/// Is a key found after `best` better? Where the smallest is sought keys are the negated elements.
template <bool kLast> HWY_INLINE M isBetter(V key, V best) {
  if constexpr (kLast)
    return hn::AndNot(hn::AndNot(hn::IsNaN(key), hn::IsNaN(best)), hn::Not(hn::Lt(key, best)));
  else
    return hn::AndNot(hn::IsNaN(best), hn::Not(hn::Le(key, best)));
}
template <bool kLast> bool isBetter(float key, float best) {
  if (std::isnan(best))
    return kLast && std::isnan(key);
  return kLast ? !(key < best) : !(key <= best);
}

/// The best key of a row so far, and where it is.
struct Best {
  float key;
  int64_t at;

  template <bool kLast> void take(float other, int64_t where) {
    if (isBetter<kLast>(other, key))
      *this = {other, where};
  }
};

/// Of x[0, n), n > 0. `sign`: -0 where the smallest is sought, else 0. Four vectors are found beside each other, whose
/// comparisons do not wait for one another.
template <bool kLast, typename T> Best bestOf(const T *x, int64_t n, float sign) {
  constexpr int64_t kChains = 4, kMostLanes = HWY_MAX_BYTES / sizeof(float);
  const auto step = static_cast<int64_t>(lanes()), width = kChains * step;
  auto keyAt = [&](int64_t i) { return std::signbit(sign) ? -load(x[i]) : load(x[i]); };
  Best best{keyAt(0), 0};
  int64_t done = 1;
  if (n >= 2 * width) {
    const V flip = hn::Set(kF, sign);
    const I integer;
    V keys[kChains];
    hn::Vec<I> places[kChains];
    auto at = hn::Iota(integer, 0);
    for (int64_t chain = 0; chain < kChains; ++chain) {
      keys[chain] = hn::Xor(loadVector(x + chain * step), flip);
      places[chain] = hn::Add(at, hn::Set(integer, static_cast<int32_t>(chain * step)));
    }
    at = places[kChains - 1];
    for (done = width; done + width <= n; done += width)
      for (int64_t chain = 0; chain < kChains; ++chain) {
        at = hn::Add(at, hn::Set(integer, static_cast<int32_t>(step)));
        const V key = hn::Xor(loadVector(x + done + chain * step), flip);
        const M better = isBetter<kLast>(key, keys[chain]);
        keys[chain] = hn::IfThenElse(better, key, keys[chain]);
        places[chain] = hn::IfThenElse(hn::RebindMask(integer, better), at, places[chain]);
      }
    HWY_ALIGN float key[kChains * kMostLanes];
    HWY_ALIGN int32_t place[kChains * kMostLanes];
    for (int64_t chain = 0; chain < kChains; ++chain) {
      hn::Store(keys[chain], kF, key + chain * step);
      hn::Store(places[chain], integer, place + chain * step);
    }
    best = {key[0], place[0]};
    for (int64_t lane = 1; lane < width; ++lane) { // of equal ones of several lanes, by their places
      const bool isEqual = !isBetter<false>(key[lane], best.key) && !isBetter<false>(best.key, key[lane]);
      if (isEqual ? (place[lane] > best.at) == kLast : isBetter<false>(key[lane], best.key))
        best = {key[lane], place[lane]};
    }
  }
  for (; done < n; ++done)
    best.take<kLast>(keyAt(done), done);
  return best;
}

/// What is sought, and what becomes of it: its place, or itself.
template <typename T> void put(const Best &best, bool isPlace, float sign, void *y, int64_t i) {
  if (isPlace)
    static_cast<int64_t *>(y)[i] = best.at;
  else
    static_cast<T *>(y)[i] = store<T>(std::signbit(sign) ? -best.key : best.key);
}

/// Columns [begin, end) of a matrix [n, inner].
template <bool kLast, typename T>
void columns(const T *x, void *y, int64_t n, int64_t inner, int64_t begin, int64_t end, bool isPlace, float sign) {
  constexpr int64_t kWidth = 256;
  HWY_ALIGN float keys[kWidth];
  HWY_ALIGN int32_t places[kWidth];
  const V flip = hn::Set(kF, sign);
  const I integer;
  for (int64_t j0 = begin; j0 < end; j0 += kWidth) {
    const int64_t width = std::min(kWidth, end - j0);
    std::fill(places, places + width, 0);
    forVectors(0, width,
               [&](int64_t j, size_t c) HWY_ATTR { hn::Store(hn::Xor(loadPart(x + j0 + j, c), flip), kF, keys + j); });
    for (int64_t r = 1; r < n; ++r)
      forVectors(0, width, [&](int64_t j, size_t c) HWY_ATTR {
        const V key = hn::Xor(loadPart(x + r * inner + j0 + j, c), flip), best = hn::Load(kF, keys + j);
        const M better = isBetter<kLast>(key, best);
        hn::Store(hn::IfThenElse(better, key, best), kF, keys + j);
        hn::Store(hn::IfThenElse(hn::RebindMask(integer, better), hn::Set(integer, static_cast<int32_t>(r)),
                                 hn::Load(integer, places + j)),
                  integer, places + j);
      });
    for (int64_t j = 0; j < width; ++j)
      put<T>({keys[j], places[j]}, isPlace, sign, y, j0 + j);
  }
}

template <bool kLast, typename T>
void rows(const T *x, void *y, int64_t n, int64_t begin, int64_t end, bool isPlace, float sign) {
  for (int64_t row = begin; row < end; ++row)
    put<T>(bestOf<kLast>(x + row * n, n, sign), isPlace, sign, y, row);
}

/// Rows [begin, end) of [outer, n], or such columns of [n, inner] where `inner` is not 1.
void extrema(DType type, const void *x, void *y, int64_t n, int64_t inner, int64_t begin, int64_t end, bool isPlace,
             bool isSmallest, bool isLast) {
  const float sign = isSmallest ? -0.0f : 0.0f;
  withFast(type, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    const T *from = static_cast<const T *>(x);
    if (inner == 1)
      (isLast ? rows<true, T> : rows<false, T>)(from, y, n, begin, end, isPlace, sign);
    else
      (isLast ? columns<true, T> : columns<false, T>)(from, y, n, inner, begin, end, isPlace, sign);
  });
}

} // namespace HWY_NAMESPACE
} // namespace zc::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "kernels/cpu/fast/Fast.h"
#include "kernels/shapes/IndexShapes.h"
#include "kernels/shapes/MoveShapes.h"

#include <optional>

namespace zc::cpu {
HWY_EXPORT(extrema);

namespace {

/// None where the axes are no neighbours.
std::optional<Lines> linesOf(const Dims &dims, const Dims &axes) {
  if (axes.empty() || axes.back() - axes.front() + 1 != static_cast<int64_t>(axes.size()))
    return std::nullopt;
  return Lines(dims, static_cast<size_t>(axes.front()), static_cast<size_t>(axes.back()) + 1);
}

struct Sought {
  bool isPlace, isSmallest, isLast;
};

Prepared prepareExtrema(const KernelSpec &spec, const Lines &lines, Sought sought) {
  const TensorType &in = spec.operands[0];
  if (!isFast(in.dtype) || in.numElements() == 0 || lines.n > INT32_MAX)
    return decline();
  const int threads = threadsFor(spec.threads, in.numElements());
  const int64_t bytes = sizeOf(in.dtype), resultBytes = sought.isPlace ? sizeOf(DType::i64) : bytes;
  return makeKernel([=, type = in.dtype](void *const *operands, const StepContext &) {
    auto part = [&](int64_t matrix, int64_t begin, int64_t end) {
      HWY_DYNAMIC_DISPATCH(extrema)
      (type, as<char>(operands[0]) + matrix * lines.n * lines.inner * bytes,
       as<char>(operands[1]) + matrix * lines.inner * resultBytes, lines.n, lines.inner, begin, end, sought.isPlace,
       sought.isSmallest, sought.isLast);
    };
    if (lines.inner == 1)
      return parallelRanges(threads, lines.outer, 1, [&](int64_t begin, int64_t end, int) { part(0, begin, end); });
    if (lines.outer == 1)
      return parallelRanges(threads, lines.inner, 64, [&](int64_t begin, int64_t end, int) { part(0, begin, end); });
    parallelRanges(threads, lines.outer, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t matrix = begin; matrix < end; ++matrix)
        part(matrix, 0, lines.inner);
    });
  });
}

Prepared prepareReduce(const KernelSpec &spec, bool isSmallest) {
  ZC_RETURN_IF_ERROR(readReduce(spec).status());
  const std::optional<Lines> lines = linesOf(spec.operands[0].dims, spec.getInts("axes"));
  return lines ? prepareExtrema(spec, *lines, {/*isPlace=*/false, isSmallest, /*isLast=*/false}) : decline();
}

Prepared prepareArgMax(const KernelSpec &spec) {
  Result<Lines> lines = readArgMax(spec);
  ZC_RETURN_IF_ERROR(lines.status());
  return prepareExtrema(spec, *lines, {/*isPlace=*/true, spec.getInt("smallest", 0) != 0, spec.getInt("last", 0) != 0});
}

} // namespace

void addFastExtremum(KernelRegistry &registry) {
  registry.add("reduce_max", [](const KernelSpec &spec) { return prepareReduce(spec, false); });
  registry.add("reduce_min", [](const KernelSpec &spec) { return prepareReduce(spec, true); });
  registry.add("arg_max", prepareArgMax);
}

} // namespace zc::cpu
#endif
