//===- CoreDropout.h - what attention on tensor cores drops of a warp's sums ------------------===//
//
// The numbers that `dropout` would draw for all scores, [B, H, S, L], drawn where the scores are. A block of four is of
// neighbouring keys: where a warp's rows are queries a lane has two of them at a time, where they are keys one.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "kernels/cuda/CoreTiles.h"

namespace zc::cuda {

/// Of CoreSums, a bit for each: is it kept?
template <typename Warp> using CoreKept = typename Warp::template Held<uint32_t, 1>;

class CoreDropout {
public:
  explicit CoreDropout(const shapes::AttentionShape &s)
      : id(s.dropoutId), seed(s.seed), rank(s.rank), threshold(static_cast<uint32_t>(dropoutThreshold(s.dropout))),
        scale(static_cast<float>(1 / (1 - s.dropout))) {}

  ZC_HD bool isThere() const { return threshold != 0; }
  /// What is drawn from in a step.
  ZC_HD Words drawn(const Frame &frame) const {
    return randomKey(id, frame.context->step, frame.context->micro, rank, seed);
  }

  /// place(row, other) is where the number of a sum stands among those of all heads.
  template <int D, typename Warp, typename Place>
  ZC_HD void draw(const Warp &warp, const Words &numbers, const Place &place, CoreKept<Warp> &kept) const {
    warp.forLanes([&](int lane, int at) {
      uint32_t bits = 0;
      ZC_ROLLED // registers: blocks of numbers beside each other would take many
          for (int pair = 0; pair < CoreCut<D>::kTall * 4; ++pair) { // two neighbours of a row: of tall, half, lower
        const int row = pair / 4 * 16 + lane / 4 + pair % 2 * 8, other = pair / 2 % 2 * 8 + lane % 4 * 2;
        const int64_t first = place(row, other), second = place(row, other + 1);
        Words words = randomBlock(numbers, first / 4);
        bits |= keeps(words, first) << (2 * pair);
        if (second / 4 != first / 4)
          words = randomBlock(numbers, second / 4);
        bits |= keeps(words, second) << (2 * pair + 1);
      }
      kept.of[at][0] = bits;
    });
  }

  /// Each sum times its factor.
  template <int D, typename Warp>
  ZC_HD void apply(const Warp &warp, const CoreKept<Warp> &kept, CoreSums<Warp, D> &sums) const {
    forSums<D>(warp, [&](int at, int tall, int half, int e, int, int) {
      float &sum = sums[tall][half].of[at][e];
      sum = kept.of[at][0] >> bitOf(tall, half, e) & 1 ? scale * sum : 0;
    });
  }

private:
  static ZC_HD int bitOf(int tall, int half, int e) { return (tall * 2 + half) * 4 + e; }
  /// Without an index that registers cannot have.
  ZC_HD uint32_t keeps(const Words &words, int64_t place) const {
    const uint32_t low = place & 1 ? words[1] : words[0], high = place & 1 ? words[3] : words[2];
    return (place & 2 ? high : low) >= threshold;
  }

  int64_t id;
  uint64_t seed;
  int rank;
  uint32_t threshold;
  float scale;
};

} // namespace zc::cuda
