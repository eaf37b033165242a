//===- AttentionPlaces.h - where a GPU's attention finds rows, masks and scores -------------===//
#pragma once

#include "kernels/cuda/Launch.h"
#include "kernels/formula/Philox.h"
#include "kernels/shapes/AttentionTensors.h"

namespace zc::cuda {

using namespace formula;

/// What scores are computed in.
template <typename T> using Score = std::conditional_t<std::is_same_v<T, double>, double, float>;

/// Rows of heads, wherever they are (AttentionTensors.h).
template <typename T> struct HeadRows {
  T *first = nullptr;
  int64_t batch = 0, head = 0, row = 0; ///< elements from one to the next
  HeadRows() = default;
  HeadRows(const shapes::HeadTensor &place, void *const *operands)
      : first(static_cast<T *>(operands[place.operand]) + place.offset), batch(place.batch), head(place.head),
        row(place.row) {}
  /// Row i of head `index`, of all batches, each of which has `heads`.
  ZC_HD T *at(int64_t index, int64_t heads, int64_t i) const { return of(index / heads, index % heads, i); }
  /// Row i of head h of sample b.
  ZC_HD T *of(int64_t b, int64_t h, int64_t i) const { return first + b * batch + h * head + i * row; }
};

/// Tensors [batch, heads, rows, depth] and what is added to their scores.
template <typename T> struct AttentionPlaces {
  using A = Score<T>;
  shapes::AttentionShape s;
  const void *mask;

  static constexpr int kTile = static_cast<int>(kAttentionTile);
  static ZC_HD A lowest() { return -std::numeric_limits<A>::infinity(); }

  /// Tile `tile` of `rows` rows per head: its head (of all batches), its first row there, and how many it has.
  struct Tile {
    int64_t head, first;
    int count;
    ZC_HD Tile(int64_t tile, int64_t rows) {
      int64_t tiles = (rows + kAttentionTile - 1) / kAttentionTile;
      head = tile / tiles;
      first = tile % tiles * kAttentionTile;
      count = static_cast<int>(rows - first < kAttentionTile ? rows - first : kAttentionTile);
    }
  };
  ZC_HD int64_t group() const { return s.heads / s.keyHeads; }
  /// The key head, of all batches, of query head `head` of all batches.
  ZC_HD int64_t keyHeadOf(int64_t head) const { return head / s.heads * s.keyHeads + head % s.heads / group(); }
  /// What dropout draws in a step, and multiplies the probability of key j by in `row` of all.
  ZC_HD Words drawn(const Frame &frame) const {
    return s.dropout == 0 ? Words{} : randomKey(s.dropoutId, frame.context->step, frame.context->micro, s.rank, s.seed);
  }
  ZC_HD A factor(const Words &key, int64_t row, int64_t j) const {
    if (s.dropout == 0)
      return A(1);
    const int64_t head = row / s.queries, i = row % s.queries;
    return static_cast<A>(
        dropoutFactor(key, s.firstNumber(head / s.heads, head % s.heads) + i * s.keys + j, s.dropout));
  }
  ZC_HD bool isHidden(int64_t i, int64_t j) const { return j < s.firstKey(i) || j >= s.endKey(i); }
  /// What a product is before it is masked; and what that grows by where the product times `scale` does.
  ZC_HD A score(A product) const {
    const A scaled = static_cast<A>(s.scale) * product, cap = static_cast<A>(s.softcap);
    return s.softcap == 0 ? scaled : cap * std::tanh(scaled / cap);
  }
  ZC_HD A growth(A product) const {
    if (s.softcap == 0)
      return 1;
    const A part = std::tanh(static_cast<A>(s.scale) * product / static_cast<A>(s.softcap));
    return 1 - part * part;
  }
  /// What is added to score (head, i, j).
  ZC_HD A added(int64_t head, int64_t i, int64_t j) const {
    if (isHidden(i, j))
      return lowest();
    if (!s.hasMask)
      return 0;
    int64_t at = head / s.heads * s.maskStrides[0] + head % s.heads * s.maskStrides[1] + i * s.maskStrides[2] +
                 j * s.maskStrides[3];
    if (s.mask == DType::boolean)
      return static_cast<const uint8_t *>(mask)[at] ? A(0) : lowest();
    if (s.mask == DType::f32)
      return static_cast<A>(static_cast<const float *>(mask)[at]);
    return static_cast<A>(load(static_cast<const T *>(mask)[at]));
  }
  /// dots[r] = row r of `rows`, which are `stride` apart, times `row`.
  static ZC_HD void multiply(const T *rows, int64_t stride, int count, const T *row, int64_t depth, A (&dots)[kTile]) {
    for (int r = 0; r < kTile; ++r)
      dots[r] = 0;
    for (int64_t d = 0; d < depth; ++d) {
      A other = static_cast<A>(load(row[d]));
      for (int r = 0; r < kTile; ++r)
        if (r < count)
          dots[r] += static_cast<A>(load(rows[r * stride + d])) * other;
    }
  }
  /// sums[r] += weights[r * width + j] * x[j * stride] over j in [0, n). What weighs nothing does not count, not even
  /// as NaN.
  static ZC_HD void addWeighted(const A *weights, int64_t width, int count, const T *x, int64_t stride, int64_t n,
                                A (&sums)[kTile]) {
    for (int64_t j = 0; j < n; ++j) {
      A other = static_cast<A>(load(x[j * stride]));
      for (int r = 0; r < kTile; ++r)
        if (r < count && weights[r * width + j] != 0)
          sums[r] += weights[r * width + j] * other;
    }
  }
};

} // namespace zc::cuda
