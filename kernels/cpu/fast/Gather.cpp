// gather and gather_grad (embedding lookup): rows copied on threads; the gradient writes each row of the table once,
// with its slices added in index order, whichever thread has the row.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/fast/Gather.cpp"
#include <hwy/foreach_target.h>

#include "kernels/cpu/fast/Simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace zc::cpu {
namespace HWY_NAMESPACE {

template <typename T> void addTyped(float *sum, const T *x, int64_t n) {
  forVectors(0, n, [&](int64_t i, size_t c) HWY_ATTR {
    storePart(hn::Add(loadPart(sum + i, c), loadPart(x + i, c)), sum + i, c);
  });
}
void addRow(DType type, float *sum, const void *x, int64_t n) {
  withFast(type, [&](auto tag) { addTyped(sum, static_cast<const TypeOf<decltype(tag)> *>(x), n); });
}

} // namespace HWY_NAMESPACE
} // namespace zc::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "kernels/cpu/Chains.h"
#include "kernels/cpu/Copy.h"
#include "kernels/cpu/Tiles.h"
#include "kernels/cpu/fast/Convert.h"
#include "kernels/cpu/fast/Fast.h"

namespace zc::cpu {
HWY_EXPORT(addRow);

namespace {

/// All indices in [-n, n), or the first bad one's error: checked before any thread starts.
template <typename I> Status checkIndices(const KernelSpec &spec, const GatherShape &s, const I *indices) {
  for (int64_t i = 0; i < s.count; ++i)
    if (indices[i] < -s.n || indices[i] >= s.n)
      return outOfRange(spec, "index", indices[i], -s.n, s.n);
  return Status::success();
}

Prepared prepareGather(const KernelSpec &spec) {
  Result<GatherShape> read = readGather(spec);
  ZC_RETURN_IF_ERROR(read.status());
  int threads = threadsFor(spec.threads, read->outer * read->count * read->inner);
  return withIndex(read->index, [&](auto tag) {
    using I = TypeOf<decltype(tag)>;
    return makeKernel([spec, s = *read, threads,
                       row = read->inner * sizeOf(read->dtype)](void *const *operands, const StepContext &) -> Status {
      const I *indices = as<I>(operands[1]);
      if (s.outer > 0)
        ZC_RETURN_IF_ERROR(checkIndices(spec, s, indices));
      parallelRanges(threads, s.outer * s.count, 1, [&](int64_t begin, int64_t end, int) {
        for (int64_t t = begin; t < end && row;) {
          const int64_t o = t / s.count, last = std::min(end, (o + 1) * s.count);
          const char *x = as<char>(operands[0]) + o * s.n * row;
          for (int64_t i = t - o * s.count; t < last; ++t, ++i)
            copyRow(as<char>(operands[2]) + t * row, x + (indices[i] < 0 ? indices[i] + s.n : indices[i]) * row, row);
        }
      });
      return Status::success();
    });
  });
}

/// Rows of so few elements are added where they go, since that takes as long as to find out which go there.
constexpr int64_t kNarrow = 16;

/// fp32 sums of narrow rows, in index order. A thread has tables, or rows of one where there are fewer tables than
/// threads.
template <typename I>
void addNarrow(const GatherShape &s, int threads, const I *indices, const float *source, float *target) {
  const int64_t parts = s.outer < threads ? threads : 1;
  parallelRanges(threads, s.outer * parts, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t task = begin; task < end; ++task) {
      const int64_t o = task / parts;
      const Range rows = partOf(s.n, 1, static_cast<int>(parts), static_cast<int>(task % parts));
      const float *x = source + o * s.count * s.inner;
      float *sums = target + o * s.n * s.inner;
      std::fill(sums + rows.begin * s.inner, sums + rows.end * s.inner, 0.0F);
      for (int64_t i = 0; i < s.count; ++i)
        if (const int64_t at = indices[i] < 0 ? indices[i] + s.n : indices[i]; at >= rows.begin && at < rows.end)
          for (int64_t j = 0; j < s.inner; ++j)
            sums[at * s.inner + j] += x[i * s.inner + j];
    }
  });
}

/// One row of sums. fp32 sums in place; 16 bits in `scratch`, rounded once.
void sumRow(const Chains &chains, int64_t row, const float *source, float *target, int64_t inner, float *) {
  std::memset(target, 0, static_cast<size_t>(inner) * sizeof(float));
  for (int64_t i = chains.first(row); i >= 0; i = chains.after(i))
    HWY_DYNAMIC_DISPATCH(addRow)(DType::f32, target, source + i * inner, inner);
}
template <typename T>
void sumRow(const Chains &chains, int64_t row, const T *source, T *target, int64_t inner, float *scratch) {
  if (inner <= kNarrow) {
    for (int64_t j = 0; j < inner; ++j) {
      float sum = 0;
      for (int64_t i = chains.first(row); i >= 0; i = chains.after(i))
        sum += load(source[i * inner + j]);
      target[j] = store<T>(sum);
    }
    return;
  }
  if (chains.first(row) < 0) {
    std::memset(static_cast<void *>(target), 0, static_cast<size_t>(inner) * sizeof(T));
    return;
  }
  std::memset(scratch, 0, static_cast<size_t>(inner) * sizeof(float));
  for (int64_t i = chains.first(row); i >= 0; i = chains.after(i))
    HWY_DYNAMIC_DISPATCH(addRow)(dtypeOf<T>, scratch, source + i * inner, inner);
  narrow(scratch, target, inner);
}

/// One row of `onto` plus its sum; `scratch` has two rows, one of fp32.
template <typename T>
void addRowOnto(const Chains &chains, int64_t row, const T *source, const T *onto, T *target, int64_t inner,
                float *scratch) {
  if (chains.first(row) < 0) {
    if (target != onto)
      std::memcpy(static_cast<void *>(target), onto, static_cast<size_t>(inner) * sizeof(T));
    return;
  }
  if constexpr (std::is_same_v<T, float>) {
    sumRow(chains, row, source, scratch, inner, nullptr);
    if (target != onto)
      std::memcpy(target, onto, static_cast<size_t>(inner) * sizeof(T));
    HWY_DYNAMIC_DISPATCH(addRow)(DType::f32, target, scratch, inner);
  } else {
    T *sum = reinterpret_cast<T *>(scratch + inner);
    sumRow(chains, row, source, sum, inner, scratch);
    std::memset(scratch, 0, static_cast<size_t>(inner) * sizeof(float));
    HWY_DYNAMIC_DISPATCH(addRow)(dtypeOf<T>, scratch, onto, inner);
    HWY_DYNAMIC_DISPATCH(addRow)(dtypeOf<T>, scratch, sum, inner);
    narrow(scratch, target, inner);
  }
}

Prepared prepareGatherGrad(const KernelSpec &spec) {
  Result<GatherShape> read = readGatherGrad(spec);
  ZC_RETURN_IF_ERROR(read.status());
  if (!isFast(read->dtype))
    return decline();
  int threads = std::min(threadsFor(spec.threads, read->outer * read->n * read->inner), gatherGradTiles(*read));
  return withIndex(read->index, [&](auto indexTag) {
    return withFast(read->dtype, [&](auto tag) {
      using I = TypeOf<decltype(indexTag)>;
      using T = TypeOf<decltype(tag)>;
      Workspace workspace(spec);
      ChainPieces pieces(workspace, read->n, read->count);
      const int64_t row = read->inner * gatherGradRows(spec);
      auto sums = workspace.take<float>(row * threads);
      return makeKernel(
          [spec, s = *read, threads, pieces, sums, row](void *const *operands, const StepContext &) -> Status {
            const I *indices = as<I>(operands[1]);
            ZC_RETURN_IF_ERROR(checkIndices(spec, s, indices));
            if constexpr (std::is_same_v<T, float>)
              if (s.inner <= kNarrow && !addsOnto(spec)) {
                addNarrow(s, threads, indices, as<T>(operands[0]), as<T>(operands[spec.numInputs]));
                return Status::success();
              }
            Chains chains = pieces.make(operands);
            float *scratch = sums.of(operands);
            for (int64_t i = s.count; i-- > 0;)
              chains.add(indices[i] < 0 ? indices[i] + s.n : indices[i], i);
            const T *onto = addsOnto(spec) ? as<T>(operands[2]) : nullptr;
            T *result = as<T>(operands[spec.numInputs]);
            parallelRanges(threads, s.outer * s.n, 1, [&](int64_t begin, int64_t end, int thread) {
              float *own = scratch ? scratch + row * thread : nullptr;
              for (int64_t t = begin; t < end; ++t) {
                const T *source = as<T>(operands[0]) + t / s.n * s.count * s.inner;
                if (onto)
                  addRowOnto(chains, t % s.n, source, onto + t * s.inner, result + t * s.inner, s.inner, own);
                else
                  sumRow(chains, t % s.n, source, result + t * s.inner, s.inner, own);
              }
            });
            return Status::success();
          });
    });
  });
}

} // namespace

void addFastGather(KernelRegistry &registry) {
  registry.add("gather", prepareGather);
  registry.add("gather_grad", prepareGatherGrad);
}

} // namespace zc::cpu
#endif
