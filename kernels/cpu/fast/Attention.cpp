// attention and its gradient in blocks of queries: the scores of one block of one head live in a scratch tile per
// thread, never the whole [B, H, S, L]. Both products of a tile are library products; with `causal` a block takes only
// the keys that its last row can see. bf16 and f16 heads are widened to fp32 scratch first. The scheme of
// FlashAttention (Dao et al. 2022) without the online softmax: a tile holds whole rows, so each row is normalised
// exactly once.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/fast/Attention.cpp"
#include <hwy/foreach_target.h>

#include "kernels/cpu/fast/Simd-inl.h"

#include <cmath>

HWY_BEFORE_NAMESPACE();
namespace zc::cpu {
namespace HWY_NAMESPACE {

/// Scores to e^(score - top); returns their sum, sets `top`. Masked rows (top = -inf) become zeros with sum 0.
float expRow(float *scores, int64_t n, float *top) {
  *top = maxOf(scores, n);
  if (*top == -std::numeric_limits<float>::infinity()) {
    std::memset(scores, 0, static_cast<size_t>(n) * sizeof(float));
    return 0;
  }
  const V shift = hn::Set(kF, *top);
  return sumVectors(n, [&](int64_t i, size_t c) HWY_ATTR {
    const V e = expV(hn::Sub(loadPart(scores + i, c), shift));
    storePart(e, scores + i, c);
    return keepFirst(e, c);
  });
}

/// Scores to probabilities e^(score - lse).
void probabilityRow(float *scores, int64_t n, float lse) {
  const V shift = hn::Set(kF, lse);
  forVectors(0, n, [&](int64_t i, size_t c) HWY_ATTR {
    storePart(expV(hn::Sub(loadPart(scores + i, c), shift)), scores + i, c);
  });
}

/// slopes = p (slopes - delta) scale.
void slopeRow(const float *p, float *slopes, int64_t n, float delta, float scale) {
  const V d = hn::Set(kF, delta), s = hn::Set(kF, scale);
  forVectors(0, n, [&](int64_t i, size_t c) HWY_ATTR {
    storePart(hn::Mul(hn::Mul(loadPart(p + i, c), s), hn::Sub(loadPart(slopes + i, c), d)), slopes + i, c);
  });
}

void addMask(float *scores, const float *mask, int64_t n) {
  forVectors(0, n, [&](int64_t i, size_t c) HWY_ATTR {
    storePart(hn::Add(loadPart(scores + i, c), loadPart(mask + i, c)), scores + i, c);
  });
}

void scaleRow(const float *x, float *y, int64_t n, float factor) {
  const V f = hn::Set(kF, factor);
  forVectors(0, n, [&](int64_t i, size_t c) HWY_ATTR { storePart(hn::Mul(loadPart(x + i, c), f), y + i, c); });
}

float dotRow(const float *a, const float *b, int64_t n) {
  return sumVectors(n, [&](int64_t i, size_t c) HWY_ATTR { return hn::Mul(loadPart(a + i, c), loadPart(b + i, c)); });
}

} // namespace HWY_NAMESPACE
} // namespace zc::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "kernels/cpu/Tiles.h"
#include "kernels/cpu/fast/Convert.h"
#include "kernels/cpu/fast/Fast.h"
#include "kernels/cpu/fast/Gemm.h"

namespace zc::cpu {
HWY_EXPORT(expRow);
HWY_EXPORT(probabilityRow);
HWY_EXPORT(slopeRow);
HWY_EXPORT(addMask);
HWY_EXPORT(scaleRow);
HWY_EXPORT(dotRow);

namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

/// `n` elements as fp32: the operand itself, or a widened copy in `scratch`, which then advances.
const float *asF32(const void *base, int64_t offset, int64_t n, DType dtype, float *&scratch) {
  if (dtype == DType::f32)
    return static_cast<const float *>(base) + offset;
  float *copy = scratch;
  scratch += n;
  convertFast(dtype, static_cast<const char *>(base) + offset * sizeOf(dtype), DType::f32, copy, n);
  return copy;
}

/// Where to compute an fp32 result: the operand itself, or scratch, which then advances.
float *resultF32(void *base, int64_t offset, int64_t n, DType dtype, float *&scratch) {
  if (dtype == DType::f32)
    return static_cast<float *>(base) + offset;
  float *place = scratch;
  scratch += n;
  return place;
}
void finishResult(const float *result, void *base, int64_t offset, int64_t n, DType dtype) {
  if (dtype != DType::f32)
    convertFast(DType::f32, result, dtype, static_cast<char *>(base) + offset * sizeOf(dtype), n);
}

/// Keys that query i may see under `causal`: [0, visible).
int64_t visibleKeys(const AttentionShape &s, int64_t i) {
  return s.causal ? std::min(s.keys, std::max<int64_t>(0, i + s.keys - s.queries + 1)) : s.keys;
}

/// Adds the mask to a row of `n` scores; positions from `visible` on become -inf.
void maskRow(const AttentionShape &s, const void *mask, int64_t b, int64_t h, int64_t i, float *scores, int64_t visible,
             int64_t n) {
  std::fill(scores + visible, scores + n, kMinusInfinity);
  if (!s.hasMask)
    return;
  int64_t at = b * s.maskStrides[0] + h * s.maskStrides[1] + i * s.maskStrides[2], step = s.maskStrides[3];
  if (s.mask == DType::boolean) {
    const uint8_t *row = static_cast<const uint8_t *>(mask) + at;
    for (int64_t j = 0; j < visible; ++j)
      scores[j] = row[j * step] ? scores[j] : kMinusInfinity;
  } else if (s.mask == DType::f32 && step == 1) {
    HWY_DYNAMIC_DISPATCH(addMask)(scores, static_cast<const float *>(mask) + at, visible);
  } else {
    withFast(s.mask, [&](auto tag) {
      const auto *row = static_cast<const TypeOf<decltype(tag)> *>(mask) + at;
      for (int64_t j = 0; j < visible; ++j)
        scores[j] += load(row[j * step]);
    });
  }
}

//===-- forward ------------------------------------------------------------===//

/// Blocks of one head's queries; `q`, `k`, `v` and `y` are the head's own.
void forwardHead(const AttentionShape &s, const float *q, const float *k, const float *v, const void *mask, int64_t b,
                 int64_t h, float *y, float *lse, float *tile) {
  for (int64_t i0 = 0; i0 < s.queries; i0 += kQueryBlock) {
    int64_t rows = std::min(kQueryBlock, s.queries - i0), keys = visibleKeys(s, i0 + rows - 1);
    gemm(false, true, rows, keys, s.depth, static_cast<float>(s.scale), q + i0 * s.depth, s.depth, k, s.depth, 0, tile,
         keys);
    float *sums = tile + rows * keys;
    for (int64_t i = 0; i < rows; ++i) {
      float top;
      maskRow(s, mask, b, h, i0 + i, tile + i * keys, visibleKeys(s, i0 + i), keys);
      sums[i] = HWY_DYNAMIC_DISPATCH(expRow)(tile + i * keys, keys, &top);
      lse[i0 + i] = sums[i] == 0 ? kMinusInfinity : top + std::log(sums[i]);
    }
    gemm(false, false, rows, s.valueDepth, keys, 1, tile, keys, v, s.valueDepth, 0, y + i0 * s.valueDepth,
         s.valueDepth);
    for (int64_t i = 0; i < rows; ++i) {
      float *row = y + (i0 + i) * s.valueDepth;
      HWY_DYNAMIC_DISPATCH(scaleRow)(row, row, s.valueDepth, sums[i] == 0 ? 0 : 1 / sums[i]);
    }
  }
}

Prepared prepareAttention(const KernelSpec &spec) {
  Result<AttentionShape> read = readAttention(spec);
  ZC_RETURN_IF_ERROR(read.status());
  const AttentionShape &shape = *read;
  if (!isFast(shape.dtype) || shape.stat != DType::f32 || shape.keyHeads == 0)
    return decline();
  int threads = std::min(spec.threads, attentionTiles(shape));
  int64_t tile = attentionTile(shape);
  Piece<float> tiles = Workspace(spec).take<float>(tile * threads);
  return makeKernel([s = shape, threads, tile, tiles](void *const *operands, const StepContext &) {
    void *const *outputs = operands + (s.hasMask ? 4 : 3);
    // A task is a head of the batch: tasks write apart from each other.
    parallelParts(threads, s.batch * s.heads, 1, [&](int64_t begin, int64_t end, int part) {
      for (int64_t task = begin; task < end; ++task) {
        int64_t b = task / s.heads, h = task % s.heads, key = b * s.keyHeads + h / (s.heads / s.keyHeads);
        int64_t qSize = s.queries * s.depth, kSize = s.keys * s.depth, vSize = s.keys * s.valueDepth;
        int64_t ySize = s.queries * s.valueDepth;
        float *free = tiles.of(operands) + tile * part;
        const float *q = asF32(operands[0], task * qSize, qSize, s.dtype, free);
        const float *k = asF32(operands[1], key * kSize, kSize, s.dtype, free);
        const float *v = asF32(operands[2], key * vSize, vSize, s.dtype, free);
        float *y = resultF32(outputs[0], task * ySize, ySize, s.dtype, free);
        forwardHead(s, q, k, v, operands[3], b, h, y, as<float>(outputs[1]) + task * s.queries, free);
        finishResult(y, outputs[0], task * ySize, ySize, s.dtype);
      }
    });
  });
}

//===-- backward -----------------------------------------------------------===//

/// The tensors of one head in fp32.
struct BackwardHead {
  const float *grad, *q, *k, *v, *output, *lse;
  float *dq, *dk, *dv;
};

/// Adds one query head's part to dk and dv and makes its dq.
void backwardHead(const AttentionShape &s, const BackwardHead &t, const void *mask, int64_t b, int64_t h, float *p) {
  float *slopes = p + std::min(kQueryBlock, s.queries) * s.keys;
  for (int64_t i0 = 0; i0 < s.queries; i0 += kQueryBlock) {
    int64_t rows = std::min(kQueryBlock, s.queries - i0), keys = visibleKeys(s, i0 + rows - 1);
    const float *q = t.q + i0 * s.depth, *grad = t.grad + i0 * s.valueDepth;
    gemm(false, true, rows, keys, s.depth, static_cast<float>(s.scale), q, s.depth, t.k, s.depth, 0, p, keys);
    gemm(false, true, rows, keys, s.valueDepth, 1, grad, s.valueDepth, t.v, s.valueDepth, 0, slopes, keys);
    for (int64_t i = 0; i < rows; ++i) {
      float *row = p + i * keys, lse = t.lse[i0 + i];
      maskRow(s, mask, b, h, i0 + i, row, lse == kMinusInfinity ? 0 : visibleKeys(s, i0 + i), keys);
      HWY_DYNAMIC_DISPATCH(probabilityRow)(row, keys, lse == kMinusInfinity ? 0 : lse);
      float delta =
          HWY_DYNAMIC_DISPATCH(dotRow)(grad + i * s.valueDepth, t.output + (i0 + i) * s.valueDepth, s.valueDepth);
      HWY_DYNAMIC_DISPATCH(slopeRow)(row, slopes + i * keys, keys, delta, static_cast<float>(s.scale));
    }
    gemm(true, false, keys, s.valueDepth, rows, 1, p, keys, grad, s.valueDepth, 1, t.dv, s.valueDepth);
    gemm(false, false, rows, s.depth, keys, 1, slopes, keys, t.k, s.depth, 0, t.dq + i0 * s.depth, s.depth);
    gemm(true, false, keys, s.depth, rows, 1, slopes, keys, q, s.depth, 1, t.dk, s.depth);
  }
}

Prepared prepareAttentionGrad(const KernelSpec &spec) {
  Result<AttentionShape> read = readAttentionGrad(spec);
  ZC_RETURN_IF_ERROR(read.status());
  const AttentionShape &shape = *read;
  if (!isFast(shape.dtype) || shape.stat != DType::f32 || shape.keyHeads == 0)
    return decline();
  int threads = std::min(spec.threads, attentionGradTiles(shape));
  int64_t tile = attentionGradTile(shape);
  Piece<float> tiles = Workspace(spec).take<float>(tile * threads);
  return makeKernel([s = shape, threads, tile, tiles](void *const *operands, const StepContext &) {
    void *const *outputs = operands + (s.hasMask ? 7 : 6);
    int64_t qSize = s.queries * s.depth, kSize = s.keys * s.depth, vSize = s.keys * s.valueDepth;
    int64_t ySize = s.queries * s.valueDepth, group = s.heads / s.keyHeads;
    // A task is a key head: the query heads that share it add to one dk and dv, in order.
    parallelParts(threads, s.batch * s.keyHeads, 1, [&](int64_t begin, int64_t end, int part) {
      for (int64_t key = begin; key < end; ++key) {
        float *shared = tiles.of(operands) + tile * part;
        BackwardHead t{};
        t.k = asF32(operands[2], key * kSize, kSize, s.dtype, shared);
        t.v = asF32(operands[3], key * vSize, vSize, s.dtype, shared);
        t.dk = resultF32(outputs[1], key * kSize, kSize, s.dtype, shared);
        t.dv = resultF32(outputs[2], key * vSize, vSize, s.dtype, shared);
        std::fill(t.dk, t.dk + kSize, 0.0f);
        std::fill(t.dv, t.dv + vSize, 0.0f);
        for (int64_t g = 0; g < group; ++g) {
          int64_t b = key / s.keyHeads, h = key % s.keyHeads * group + g, head = b * s.heads + h;
          float *free = shared;
          t.grad = asF32(operands[0], head * ySize, ySize, s.dtype, free);
          t.q = asF32(operands[1], head * qSize, qSize, s.dtype, free);
          t.output = asF32(operands[4], head * ySize, ySize, s.dtype, free);
          t.lse = as<float>(operands[5]) + head * s.queries;
          t.dq = resultF32(outputs[0], head * qSize, qSize, s.dtype, free);
          backwardHead(s, t, operands[6], b, h, free);
          finishResult(t.dq, outputs[0], head * qSize, qSize, s.dtype);
        }
        finishResult(t.dk, outputs[1], key * kSize, kSize, s.dtype);
        finishResult(t.dv, outputs[2], key * vSize, vSize, s.dtype);
      }
    });
  });
}

} // namespace

void addFastAttention(KernelRegistry &registry) {
  registry.add("attention", prepareAttention);
  registry.add("attention_grad", prepareAttentionGrad);
}

} // namespace zc::cpu
#endif
