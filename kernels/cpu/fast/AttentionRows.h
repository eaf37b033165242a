//===- AttentionRows.h - what attention does to rows of scores ------------------===//
#pragma once

#include "kernels/cpu/Tiles.h"
#include "kernels/formula/Elements.h"
#include "kernels/formula/Philox.h"

namespace zc::cpu {
using namespace formula;

/// A row of scores in a block, and what becomes of it in place. Columns from `visible` on become zeros up to `end`, a
/// multiple of the vectors' lanes up to which there is room.
struct ScoreRow {
  float *at;
  int64_t visible, end;
};

/// scores = scores scale + mask. The mask's elements are of a float type or bool (false: -inf), one for each score or,
/// with `isSplat`, one for all.
void maskScores(DType type, const void *mask, bool isSplat, float scale, float *scores, int64_t n);

/// scores = cap tanh(scores scale / cap). `growth`, unless null: 1 - tanh^2, what they grow by where scores scale does.
void capScores(float scale, float cap, float *scores, float *growth, int64_t n);

/// The largest of scores scale; -inf of none. NaN if all but NaN is -inf: sums of e^x then are NaN.
float topOf(const float *scores, int64_t n, float scale);

/// Scores to e^(scores scale - top), in fp32, or in bf16 from the row's beginning on (`isNarrow`), each times its
/// factor if there are `factors`. Returns their sum, of what they were before that and before they were rounded.
float exponentiate(const ScoreRow &row, float scale, float top, const float *factors, bool isNarrow);

/// What dropout draws in a step.
struct DropoutNumbers {
  Words key;
  uint32_t threshold;
  float scale;
};
/// What dropout multiplies elements [first, first + n) by: where those of the first stand in `buffer`, which has room
/// for n and kDropoutRoom (kernels/cpu/Tiles.h).
const float *dropoutFactors(const DropoutNumbers &numbers, int64_t first, int64_t n, float *buffer);

/// What a row of the gradient is made with.
struct SlopeRow {
  float *scores, *slopes; ///< slopes: products of the result's gradient and values
  int64_t visible;
  float lse, normal, delta; ///< normal: what weights are multiplied by
  float *sums;              ///< what slopes are added to; null: nothing
  const float *factors;     ///< dropout's; null: none
  const float *growth;      ///< what slopes are multiplied by once they are added; null: nothing
};
/// Where two rows become pairs of bf16: units of panels of kTileColumns keys, `panelStride` units apart, for products
/// that sum over rows; and slopes also rows of two keys a unit.
struct SlopePairs {
  float *probabilities, *slopes;
  int64_t panelStride;
  float *rows;
  int64_t rowStride;
  /// The next rows', `count` pairs on.
  SlopePairs from(int64_t count) const {
    return {probabilities + count * kTileColumns, slopes + count * kTileColumns, panelStride,
            rows + 2 * count * rowStride, rowStride};
  }
};
/// Two rows: p = e^(scores scale - lse) normal, slopes = p (slopes factors - delta) growth, then p times its factor.
/// Without `pairs` each becomes the one it is made of.
void differentiate(const SlopeRow &first, const SlopeRow &second, int64_t end, float scale, const SlopePairs *pairs);

/// to = x factor, in `type`.
void storeScaled(DType type, const float *x, float factor, void *to, int64_t n);
void scaleInPlace(float *x, float factor, int64_t n);
/// Of rows of n, `stride` elements apart in either, each one's a . b.
void dotRows(DType type, const void *a, int64_t strideOfA, const void *b, int64_t strideOfB, int64_t rows, int64_t n,
             float *dots);

} // namespace zc::cpu
