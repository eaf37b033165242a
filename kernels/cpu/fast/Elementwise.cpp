// add, sub, mul, div, min, max, comparisons and select with broadcasting, and casts between fp32, bf16 and f16;
// comparisons of i64, and what combines bools: attention's masks of windows and padding are made of these.
// Broadcasting is walked in runs along which each operand advances by one or stands still.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/fast/Elementwise.cpp"
#include <hwy/foreach_target.h>

#include "kernels/cpu/fast/Functions-inl.h"
#include "kernels/formula/Elementwise.h"

HWY_BEFORE_NAMESPACE();
namespace zc::cpu {
/// A run of n elements: a, its stride, b, its stride, the result.
using BinaryRun = void (*)(const void *, int64_t, const void *, int64_t, void *, int64_t);

namespace HWY_NAMESPACE {

/// A run: a and b advance or stay, as their strides (1 or 0) say.
template <typename Op, typename T, typename R>
void run(const void *left, int64_t aStride, const void *right, int64_t bStride, void *out, int64_t n) {
  const T *a = static_cast<const T *>(left), *b = static_cast<const T *>(right);
  R *y = static_cast<R *>(out);
  const V a0 = hn::Set(kF, load(*a)), b0 = hn::Set(kF, load(*b));
  if (aStride && bStride)
    forVectors(0, n, [&](int64_t i, size_t c) HWY_ATTR {
      storePart(Op::apply(loadPart(a + i, c), loadPart(b + i, c)), y + i, c);
    });
  else if (aStride)
    forVectors(0, n, [&](int64_t i, size_t c) HWY_ATTR { storePart(Op::apply(loadPart(a + i, c), b0), y + i, c); });
  else
    forVectors(0, n, [&](int64_t i, size_t c) HWY_ATTR {
      storePart(Op::apply(a0, bStride ? loadPart(b + i, c) : b0), y + i, c);
    });
}

/// Of i64 and bools; the compiler makes vectors of it.
template <typename Op, typename T, typename R>
void integerRun(const void *left, int64_t aStride, const void *right, int64_t bStride, void *out, int64_t n) {
  const T *a = static_cast<const T *>(left), *b = static_cast<const T *>(right);
  R *y = static_cast<R *>(out);
  if (aStride && bStride) {
    for (int64_t i = 0; i < n; ++i)
      y[i] = static_cast<R>(Op::apply(a[i], b[i]));
  } else if (aStride) {
    const T b0 = *b;
    for (int64_t i = 0; i < n; ++i)
      y[i] = static_cast<R>(Op::apply(a[i], b0));
  } else {
    const T a0 = *a;
    for (int64_t i = 0; i < n; ++i)
      y[i] = static_cast<R>(Op::apply(a0, b[i * bStride]));
  }
}

/// Of bools, whatever bytes a user's are.
template <typename Op> struct OfBools {
  static HWY_INLINE int apply(uint8_t a, uint8_t b) { return Op::apply(int(a != 0), int(b != 0)); }
};
void negateBools(const uint8_t *x, uint8_t *y, int64_t n) {
  for (int64_t i = 0; i < n; ++i)
    y[i] = x[i] == 0;
}

/// In the order of kBinary, from the first one of that type on.
BinaryRun runOf(int op, DType type) {
  if (type == DType::i64) {
    static constexpr BinaryRun comparisons[] = {integerRun<formula::Equal, int64_t, uint8_t>,
                                                integerRun<formula::Less, int64_t, uint8_t>,
                                                integerRun<formula::LessEqual, int64_t, uint8_t>};
    return comparisons[op];
  }
  if (type == DType::boolean) {
    static constexpr BinaryRun bits[] = {integerRun<OfBools<formula::And>, uint8_t, uint8_t>,
                                         integerRun<OfBools<formula::Or>, uint8_t, uint8_t>,
                                         integerRun<OfBools<formula::Xor>, uint8_t, uint8_t>};
    return bits[op];
  }
  return withFast(type, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    static constexpr BinaryRun table[] = {run<Add, T, T>,         run<Sub, T, T>,        run<Mul, T, T>,
                                          run<Div, T, T>,         run<Min, T, T>,        run<Max, T, T>,
                                          run<Equal, T, uint8_t>, run<Less, T, uint8_t>, run<LessEqual, T, uint8_t>};
    return table[op];
  });
}

/// Which of two words; all three advance or stay.
template <typename Word>
void selectWords(const uint8_t *condition, int64_t cStride, const void *left, int64_t aStride, const void *right,
                 int64_t bStride, void *out, int64_t n) {
  const hn::ScalableTag<Word> words;
  const hn::Rebind<uint8_t, decltype(words)> bytes;
  const Word *a = static_cast<const Word *>(left), *b = static_cast<const Word *>(right);
  Word *y = static_cast<Word *>(out);
  const auto a0 = hn::Set(words, *a), b0 = hn::Set(words, *b);
  const auto c0 = hn::Set(bytes, *condition);
  const auto step = static_cast<int64_t>(hn::Lanes(words));
  int64_t i = 0;
  for (; i + step <= n; i += step) {
    const auto flags = hn::PromoteTo(words, cStride ? hn::LoadU(bytes, condition + i) : c0);
    const auto picked = hn::IfThenElse(hn::Ne(flags, hn::Zero(words)), aStride ? hn::LoadU(words, a + i) : a0,
                                       bStride ? hn::LoadU(words, b + i) : b0);
    hn::StoreU(picked, words, y + i);
  }
  for (; i < n; ++i)
    y[i] = condition[i * cStride] ? a[i * aStride] : b[i * bStride];
}

void selectRun(int64_t size, const uint8_t *condition, int64_t cStride, const void *a, int64_t aStride, const void *b,
               int64_t bStride, void *y, int64_t n) {
  auto *select = size == 4 ? selectWords<uint32_t> : selectWords<uint16_t>;
  select(condition, cStride, a, aStride, b, bStride, y, n);
}

} // namespace HWY_NAMESPACE
} // namespace zc::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "kernels/cpu/fast/Convert.h"
#include "kernels/cpu/fast/Fast.h"

namespace zc::cpu {
HWY_EXPORT(runOf);
HWY_EXPORT(selectRun);
HWY_EXPORT(negateBools);

namespace {

/// In the order of runOf.
constexpr const char *kBinary[] = {"add",   "sub",  "mul",        "div", "min", "max",
                                   "equal", "less", "less_equal", "and", "or",  "xor"};

constexpr int kFirstComparison = 6, kFirstOfBools = 9;

int firstOf(DType type) { return type == DType::i64 ? kFirstComparison : type == DType::boolean ? kFirstOfBools : 0; }
/// Has runOf this one?
bool hasRun(int op, DType type) {
  const bool isThere = isFast(type) || type == DType::i64 || type == DType::boolean;
  return isThere && op >= firstOf(type) && (type == DType::boolean || op < kFirstOfBools);
}

Prepared prepareBinary(const KernelSpec &spec, int op) {
  const auto &types = spec.operands;
  ZC_RETURN_IF_ERROR(Check(spec).counts(2, 1).done());
  const Dims &result = types[2].dims;
  // Anything unusual, errors too, is the plain kernel's.
  DType to = op < kFirstComparison ? types[0].dtype : DType::boolean;
  if (!hasRun(op, types[0].dtype) || types[1].dtype != types[0].dtype || types[2].dtype != to ||
      !broadcastsTo(types[0].dims, result) || !broadcastsTo(types[1].dims, result))
    return decline();
  Walk<3> walk(result, {rowMajorStrides(result), broadcastStrides(types[0].dims, result),
                        broadcastStrides(types[1].dims, result)});
  DType dtype = types[0].dtype;
  int64_t size = sizeOf(dtype), resultSize = sizeOf(to), n = types[2].numElements();
  const BinaryRun run = HWY_DYNAMIC_DISPATCH(runOf)(op - firstOf(dtype), dtype); // once: runs may be short
  return makeKernel([=, threads = threadsFor(spec.threads, n)](void *const *operands, const StepContext &) {
    const char *a = as<char>(operands[0]), *b = as<char>(operands[1]);
    char *y = as<char>(operands[2]);
    int64_t aStride = walk.runStride(1), bStride = walk.runStride(2);
    if (walk.numRuns() == 1) {
      parallelRanges(threads, n, kPieceElements, [&](int64_t begin, int64_t end, int) {
        run(a + begin * aStride * size, aStride, b + begin * bStride * size, bStride, y + begin * resultSize,
            end - begin);
      });
      return;
    }
    parallelRanges(threads, walk.numRuns(), 1, [&](int64_t begin, int64_t end, int) {
      walk.forRuns(begin, end, [&](const Walk<3>::Offsets &at) {
        run(a + at[1] * size, aStride, b + at[2] * size, bStride, y + at[0] * resultSize, walk.runLength());
      });
    });
  });
}

/// Of bools.
Prepared prepareNot(const KernelSpec &spec) {
  ZC_RETURN_IF_ERROR(Check(spec).counts(1, 1).done());
  const TensorType &type = spec.operands[0];
  if (type.dtype != DType::boolean || !(spec.operands[1] == type))
    return decline();
  return makeKernel([n = type.numElements(), threads = threadsFor(spec.threads, type.numElements())](
                        void *const *operands, const StepContext &) {
    parallelRanges(threads, n, kPieceElements, [&](int64_t begin, int64_t end, int) {
      HWY_DYNAMIC_DISPATCH(negateBools)(as<uint8_t>(operands[0]) + begin, as<uint8_t>(operands[1]) + begin,
                                        end - begin);
    });
  });
}

/// Floats of the sizes that training has; shapes that do not fit, and all errors, are the plain kernel's.
Prepared prepareSelect(const KernelSpec &spec) {
  const auto &types = spec.operands;
  ZC_RETURN_IF_ERROR(Check(spec).counts(3, 1).done());
  const Dims &result = types[3].dims;
  if (types[0].dtype != DType::boolean || !isFast(types[3].dtype) || types[1].dtype != types[3].dtype ||
      types[2].dtype != types[3].dtype || !broadcastsTo(types[0].dims, result) ||
      !broadcastsTo(types[1].dims, result) || !broadcastsTo(types[2].dims, result))
    return decline();
  Walk<4> walk(result, {rowMajorStrides(result), broadcastStrides(types[0].dims, result),
                        broadcastStrides(types[1].dims, result), broadcastStrides(types[2].dims, result)});
  return makeKernel(
      [walk, n = types[3].numElements(), size = sizeOf(types[3].dtype),
       threads = threadsFor(spec.threads, types[3].numElements())](void *const *operands, const StepContext &) {
        const uint8_t *condition = as<uint8_t>(operands[0]);
        const char *a = as<char>(operands[1]), *b = as<char>(operands[2]);
        char *y = as<char>(operands[3]);
        int64_t cStride = walk.runStride(1), aStride = walk.runStride(2), bStride = walk.runStride(3);
        if (walk.numRuns() == 1)
          return parallelRanges(threads, n, kPieceElements, [&](int64_t begin, int64_t end, int) {
            HWY_DYNAMIC_DISPATCH(selectRun)
            (size, condition + begin * cStride, cStride, a + begin * aStride * size, aStride,
             b + begin * bStride * size, bStride, y + begin * size, end - begin);
          });
        parallelRanges(threads, walk.numRuns(), 1, [&](int64_t begin, int64_t end, int) {
          walk.forRuns(begin, end, [&](const Walk<4>::Offsets &at) {
            HWY_DYNAMIC_DISPATCH(selectRun)
            (size, condition + at[1], cStride, a + at[2] * size, aStride, b + at[3] * size, bStride, y + at[0] * size,
             walk.runLength());
          });
        });
      });
}

Prepared prepareCast(const KernelSpec &spec) {
  ZC_RETURN_IF_ERROR(Check(spec).counts(1, 1).done());
  const TensorType &from = spec.operands[0], &to = spec.operands[1];
  if (from.dims != to.dims || from.dtype == to.dtype || !isFast(from.dtype) || !isFast(to.dtype))
    return decline();
  return makeKernel(
      [from = from.dtype, to = to.dtype, n = from.numElements(),
       threads = threadsFor(spec.threads, from.numElements())](void *const *operands, const StepContext &) {
        parallelRanges(threads, n, kPieceElements, [&](int64_t begin, int64_t end, int) {
          convertFast(from, as<char>(operands[0]) + begin * sizeOf(from), to,
                      as<char>(operands[1]) + begin * sizeOf(to), end - begin);
        });
      });
}

} // namespace

void addFastElementwise(KernelRegistry &registry) {
  int op = 0;
  for (const char *name : kBinary)
    registry.add(name, [op = op++](const KernelSpec &spec) { return prepareBinary(spec, op); });
  registry.add("not", prepareNot);
  registry.add("select", prepareSelect);
  registry.add("cast", prepareCast);
}

} // namespace zc::cpu
#endif
