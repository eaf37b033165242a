//===- CoreAttention.h - attention of 16-bit numbers on tensor cores ------------------------===//
//
// A block per 128 queries of a head (64 of more than 64 numbers), to which keys and values pass. Softmax is made as
// scores come (Milakov, Gimelshein 2018), of powers of two: e^x is an instruction of a GPU's then.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "kernels/cuda/CoreTiles.h"

namespace zc::cuda {

/// Scores as tiles ask for them. kMasked: with a mask.
template <typename T, bool kMasked> struct CoreScores {
  int heads, keyHeads, queries, keys, depth, valueDepth;
  int lead; ///< query i sees keys up to i + this
  bool causal;
  DType maskType;
  float scale, power; ///< by which products are multiplied; for powers of two
  const void *mask;
  int64_t maskStrides[4];

  CoreScores(const cpu::AttentionShape &s, const void *mask)
      : heads(static_cast<int>(s.heads)), keyHeads(static_cast<int>(s.keyHeads)), queries(static_cast<int>(s.queries)),
        keys(static_cast<int>(s.keys)), depth(static_cast<int>(s.depth)), valueDepth(static_cast<int>(s.valueDepth)),
        lead(keys - queries), causal(s.causal), maskType(s.mask), scale(static_cast<float>(s.scale)),
        power(static_cast<float>(s.scale * kLog2E)), mask(mask) {
    std::copy(s.maskStrides.begin(), s.maskStrides.end(), maskStrides);
  }

  static ZC_HD float lowest() { return -std::numeric_limits<float>::infinity(); }
  /// Heads that share a head of keys.
  ZC_HD int group() const { return heads / keyHeads; }
  /// Is nothing added to the scores of these queries and keys, and none hidden?
  ZC_HD bool isPlain(int lastKey, int firstQuery) const {
    return !kMasked && (!causal || lastKey <= firstQuery + lead);
  }
  /// Are they all hidden from each other?
  ZC_HD bool isHidden(int firstKey, int lastQuery) const { return causal && firstKey > lastQuery + lead; }
  /// Where the mask of a head begins, in elements.
  ZC_HD int64_t maskOf(int64_t sample, int64_t head) const {
    return kMasked ? sample * maskStrides[0] + head * maskStrides[1] : 0;
  }
  /// What is added to the score, as a power of two. Without branches, so that masks are on their way together. Of
  /// queries that are not there it is any number: whoever asks adds none of theirs.
  ZC_HD float added(int64_t maskAt, int i, int j) const {
    const bool isHidden = (j >= keys) | (causal & (j > i + lead));
    float sum = 0;
    if constexpr (kMasked) { // what is not there is asked as the last one that is
      const int64_t at =
          maskAt + (i < queries ? i : queries - 1) * maskStrides[2] + (j < keys ? j : keys - 1) * maskStrides[3];
      if (maskType == DType::boolean)
        sum = static_cast<const uint8_t *>(mask)[at] ? 0 : lowest();
      else
        sum = static_cast<float>(kLog2E) *
              (maskType == DType::f32 ? static_cast<const float *>(mask)[at] : load(static_cast<const T *>(mask)[at]));
    }
    return isHidden ? lowest() : sum;
  }
};

/// The queries that a block holds, and the keys and values that pass it.
template <typename T, int D, bool kMasked> struct CoreQueries {
  using Cut = CoreCut<D>;
  const CoreScores<T, kMasked> &scores;
  int64_t sample;
  int head, keyHead; ///< of the sample
  int first, count;  ///< queries, to the last one of the head

  ZC_HD CoreQueries(const CoreScores<T, kMasked> &scores, int64_t index) : scores(scores) {
    const int64_t tiles = tilesOf(scores.queries), ofAll = index / tiles;
    sample = ofAll / scores.heads;
    head = static_cast<int>(ofAll % scores.heads);
    keyHead = head / scores.group();
    first = static_cast<int>(tiles - 1 - index % tiles) * Cut::kOfBlock; // what takes longest begins
    count = scores.queries - first;
  }
  static ZC_HD int64_t tilesOf(int64_t rows) { return (rows + Cut::kOfBlock - 1) / Cut::kOfBlock; }
  /// Of its first query, among those of all heads.
  ZC_HD int64_t row() const { return (sample * scores.heads + head) * scores.queries + first; }
  ZC_HD CoreSource<T> of(const HeadRows<const T> &rows, int depth) const {
    return {rows.of(sample, head, first), rows.row, count, depth};
  }

  /// use(key, tiles) for the tiles of keys and values, of which some query sees some.
  template <typename Block, typename Copies, typename Use>
  ZC_HD void pass(Block &block, Copies &copies, const HeadRows<const T> &k, const HeadRows<const T> &v, bool packed,
                  const Use &use) const {
    const T *keys = k.of(sample, keyHead, 0), *values = v.of(sample, keyHead, 0);
    passTiles<D>(
        block, copies, 0,
        [&](int key) { return key < scores.keys && !scores.isHidden(key, first + Cut::kOfBlock - 1); },
        [](int key) { return key + Cut::kPassing; },
        [&](int key, char *stage) {
          const int left = scores.keys - key;
          bringRows<D, Cut::kPassing>(block, copies, stage,
                                      CoreSource<T>{keys + key * k.row, k.row, left, scores.depth}, packed);
          bringRows<D, Cut::kPassing>(block, copies, stage + Cut::kPassingBytes,
                                      CoreSource<T>{values + key * v.row, v.row, left, scores.valueDepth}, packed);
        },
        use);
  }
};

/// A block per so many queries.
template <typename T, int D, bool kMasked> struct CoreAttentionBody {
  using Cut = CoreCut<D>;
  using Own = CoreQueries<T, D, kMasked>;
  CoreScores<T, kMasked> scores;
  HeadRows<const T> q, k, v;
  HeadRows<T> y;
  float *lse;
  bool packed;

  template <typename Warp> struct State {
    CoreRows<Warp, D> queries;
    CoreResults<Warp, D> results;
    typename Warp::template Held<float, 2> top[Cut::kTall], total[Cut::kTall]; ///< of rows, and of those 8 further down
  };

  template <typename Block> ZC_HD void operator()(Block &block, int64_t index, const Frame &) const {
    using Warp = typename Warps<Block>::Warp;
    const Own own(scores, index);
    typename Warps<Block>::Copies copies;
    State<Warp> states[Warps<Block>::kHeld];
    bringHeld<D, T>(block, copies, own.of(q, scores.depth), nullptr, packed);
    forWarps(block, states, [&](auto &warp, State<Warp> &state) { begin(warp, block.shared(), state); });
    block.sync();
    own.pass(block, copies, k, v, packed, [&](int key, const char *tiles) {
      forWarps(block, states, [&](auto &warp, State<Warp> &state) {
        const int query = own.first + warp.index * Cut::kOfWarp;
        if (!scores.isHidden(key, query + Cut::kOfWarp - 1))
          add(warp, tiles, scores.maskOf(own.sample, own.head), query, key, state);
      });
    });
    forWarps(block, states, [&](auto &warp, State<Warp> &state) { end(warp, own, state); });
  }

private:
  template <typename Warp> ZC_HD void begin(const Warp &warp, const void *tile, State<Warp> &state) const {
    takeRows<D>(warp, CoreTile<Warp, D>(tile), state.queries);
    clear<D>(warp, state.results);
    warp.forLanes([&](int, int at) {
      ZC_UNROLL
      for (int tall = 0; tall < Cut::kTall; ++tall)
        ZC_UNROLL
      for (int lower = 0; lower < 2; ++lower) {
        state.top[tall].of[at][lower] = scores.lowest();
        state.total[tall].of[at][lower] = 0;
      }
    });
  }

  /// A tile of keys and values, from `key` on, for the warp's queries, from `query` on.
  template <typename Warp>
  ZC_HD void add(const Warp &warp, const char *tile, int64_t maskAt, int query, int key, State<Warp> &state) const {
    const CoreTile<Warp, D> keys(tile), values(tile + Cut::kPassingBytes);
    const int last = key + Cut::kPassing - 1;
    const bool isPlain = last < scores.keys && scores.isPlain(last, query);
    CoreSums<Warp, D> p[Cut::kSteps];
    ZC_UNROLL
    for (int step = 0; step < Cut::kSteps; ++step) {
      multiplyRows<T, D>(warp, state.queries, keys, 16 * step, p[step]);
      forSums<D>(warp,
                 [&](int at, int tall, int half, int e, int, int) { p[step][tall][half].of[at][e] *= scores.power; });
      if (!isPlain)
        forSums<D>(warp, [&](int at, int tall, int half, int e, int row, int other) {
          p[step][tall][half].of[at][e] += scores.added(maskAt, query + row, key + 16 * step + other);
        });
    }
    raise(warp, p, state);
    ZC_UNROLL
    for (int step = 0; step < Cut::kSteps; ++step) {
      forSums<D>(warp, [&](int at, int tall, int half, int e, int, int) {
        float &score = p[step][tall][half].of[at][e];
        const float top = state.top[tall].of[at][e / 2];
        score = powerOfTwo(score - (top == scores.lowest() ? 0 : top));
        state.total[tall].of[at][e / 2] += score;
      });
      addWeightedRows<T, D>(warp, p[step], values, 16 * step, state.results);
    }
  }

  /// The largest score so far, to which results and totals are brought.
  template <typename Warp>
  ZC_HD void raise(const Warp &warp, const CoreSums<Warp, D> (&p)[Cut::kSteps], State<Warp> &state) const {
    typename Warp::template Held<float, 2> top[Cut::kTall];
    warp.forLanes([&](int, int at) {
      for (int tall = 0; tall < Cut::kTall; ++tall)
        for (int lower = 0; lower < 2; ++lower)
          top[tall].of[at][lower] = state.top[tall].of[at][lower];
    });
    ZC_UNROLL
    for (int step = 0; step < Cut::kSteps; ++step)
      forSums<D>(warp, [&](int at, int tall, int half, int e, int, int) {
        float &own = top[tall].of[at][e / 2];
        own = LargerOf::apply(own, p[step][tall][half].of[at][e]);
      });
    ZC_UNROLL
    for (int tall = 0; tall < Cut::kTall; ++tall) {
      warp.template overQuads<LargerOf>(top[tall]);
      warp.forLanes([&](int, int at) {
        ZC_UNROLL
        for (int lower = 0; lower < 2; ++lower) {
          float &known = state.top[tall].of[at][lower];
          const float now = top[tall].of[at][lower];
          const float less = now == scores.lowest() ? 1 : powerOfTwo(known - now);
          known = now;
          state.total[tall].of[at][lower] *= less;
          ZC_UNROLL
          for (int n = 0; n < D / 8; ++n)
            ZC_UNROLL
          for (int e = 2 * lower; e < 2 * lower + 2; ++e)
            state.results[tall][n].of[at][e] *= less;
        }
      });
    }
  }
  /// Of NaN and a number the number: a NaN among scores makes sums NaN, wherever it is.
  struct LargerOf {
    static ZC_HD float apply(float a, float b) { return std::fmax(a, b); }
  };

  template <typename Warp> ZC_HD void end(const Warp &warp, const Own &own, State<Warp> &state) const {
    ZC_UNROLL
    for (int tall = 0; tall < Cut::kTall; ++tall)
      warp.template overQuads<AddOf>(state.total[tall]);
    warp.forLanes([&](int lane, int at) {
      for (int tall = 0; tall < Cut::kTall; ++tall)
        for (int lower = 0; lower < 2; ++lower) {
          const int row = warp.index * Cut::kOfWarp + tall * 16 + lane / 4 + lower * 8;
          const float total = state.total[tall].of[at][lower], top = state.top[tall].of[at][lower];
          if (lane % 4 == 0 && row < own.count)
            lse[own.row() + row] = total == 0 ? scores.lowest() : static_cast<float>(kLn2) * (top + std::log2(total));
        }
    });
    writeRows<D>(warp, state.results, y.of(own.sample, own.head, own.first), y.row, own.count, scores.valueDepth,
                 packed, [&](int at, int tall, int lower) {
                   const float total = state.total[tall].of[at][lower];
                   return total == 0 ? 0 : 1 / total;
                 });
  }
};

/// fn(bool constant): are scores masked?
template <typename Fn> void withMasks(const cpu::AttentionShape &s, const Fn &fn) {
  if (s.hasMask)
    fn(std::true_type());
  else
    fn(std::false_type());
}

template <typename T, typename Launcher>
void launchCoreAttention(const cpu::AttentionShape &s, const cpu::AttentionTensors &t, void *const *operands,
                         const Launcher &launch) {
  const HeadRows<const T> q(t.query, operands), k(t.key, operands), v(t.value, operands);
  const HeadRows<T> y(t.result, operands);
  const bool packed = isPackedRows(q, s.depth) && isPackedRows(k, s.depth) && isPackedRows(v, s.valueDepth) &&
                      isPackedRows(y, s.valueDepth);
  withColumns(std::max(s.depth, s.valueDepth), [&](auto columns) {
    withMasks(s, [&](auto masked) {
      using Body = CoreAttentionBody<T, columns(), masked()>;
      const CoreScores<T, masked()> scores(s, s.hasMask ? operands[3] : nullptr);
      launch.template blocks<Body::Cut::kThreads>(
          s.batch * s.heads * Body::Own::tilesOf(s.queries),
          Body{scores, q, k, v, y, static_cast<float *>(operands[t.lse]), packed}, Body::Cut::kShared);
    });
  });
}

} // namespace zc::cuda
