//===- CoreAttention.h - attention of 16-bit numbers on tensor cores ------------------------===//
//
// A block per 128 queries of a head (64 of more than 64 numbers), to which keys and values pass. Softmax is made as
// scores come (Milakov, Gimelshein 2018), of powers of two: e^x is an instruction of a GPU's then.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "kernels/cuda/CoreDropout.h"

namespace zc::cuda {

/// What becomes of products: they are scores, the larger the larger; with a mask; or with all that there may be, a
/// mask, a softcap, dropout, any scale, which takes registers that the others have not to give.
enum class CoreForm : uint8_t { plain, masked, general };

enum class CoreSide : uint8_t { queries, keys };

/// Scores as tiles ask for them.
template <typename T, CoreForm kForm> struct CoreScores {
  int heads, keyHeads, queries, keys, depth, valueDepth;
  int before, behind; ///< query i sees keys from i + before to i + behind
  DType maskType;
  float scale, power; ///< by which products are multiplied; for powers of two
  float inner, cap;   ///< cap tanh(inner product), for powers of two; cap 0: scores are the products
  CoreDropout dropout;
  int64_t headsOfSample, headsBefore; ///< AttentionShape's
  const void *mask;
  int64_t maskStrides[4];

  CoreScores(const shapes::AttentionShape &s, const void *mask)
      : heads(static_cast<int>(s.heads)), keyHeads(static_cast<int>(s.keyHeads)), queries(static_cast<int>(s.queries)),
        keys(static_cast<int>(s.keys)), depth(static_cast<int>(s.depth)), valueDepth(static_cast<int>(s.valueDepth)),
        before(keys - queries + static_cast<int>(s.firstSeen())),
        behind(keys - queries + static_cast<int>(s.endOfSeen()) - 1), maskType(s.mask),
        scale(static_cast<float>(s.scale)), power(static_cast<float>(s.scale * kLog2E)),
        inner(s.softcap == 0 ? 0 : static_cast<float>(s.scale / s.softcap)),
        cap(static_cast<float>(s.softcap * kLog2E)), dropout(s), headsOfSample(s.headsOfSample),
        headsBefore(s.headsBefore), mask(mask) {
    std::copy(s.maskStrides.begin(), s.maskStrides.end(), maskStrides);
  }

  static constexpr bool kMasked = kForm != CoreForm::plain, kGeneral = kForm == CoreForm::general;
  static ZC_HD float lowest() { return -std::numeric_limits<float>::infinity(); }
  /// Heads that share a head of keys.
  ZC_HD int group() const { return heads / keyHeads; }
  /// Is nothing added to the scores of these queries and keys, so many of either, and none hidden?
  ZC_HD bool isPlain(int query, int ofQueries, int key, int ofKeys) const {
    return !kMasked && key + ofKeys - 1 <= query + behind && key >= query + ofQueries - 1 + before;
  }
  /// Are they all hidden from each other?
  ZC_HD bool isHidden(int query, int ofQueries, int key, int ofKeys) const {
    return key > query + ofQueries - 1 + behind || key + ofKeys - 1 < query + before;
  }
  /// tanh of what a product is of the cap: of little by its series, where 1 less a number next to it has few digits.
  ZC_HD float bent(float product) const {
    const float x = inner * product, square = x * x;
    const float series =
        x * (1 + square * (-0.33333333f + square * (0.13333333f + square * (-0.053968254f + square * 0.021869489f))));
    const float whole = 1 - 2 / (1 + powerOfTwo(static_cast<float>(2 * kLog2E) * x));
    return square < 0.0625f ? series : whole;
  }
  /// A product's score, as a power of two.
  ZC_HD float score(float product) const { return isCapped() ? cap * bent(product) : power * product; }
  ZC_HD bool isCapped() const { return kGeneral && cap != 0; }
  /// What the largest of a row is found of: where nothing but -inf is added to scores, products; else scores.
  ZC_HD float ordered(float product) const { return kMasked ? score(product) : product; }
  /// The score of that.
  ZC_HD float scoreOf(float ordered) const { return kMasked ? ordered : power * ordered; }
  /// 2^(that + other), of a product in one instruction less.
  ZC_HD float powerOf(float ordered, float other) const {
    return powerOfTwo(kMasked ? ordered + other : std::fma(ordered, power, other));
  }
  /// What that grows by where power * product does.
  ZC_HD float growth(float product) const {
    const float part = bent(product);
    return 1 - part * part;
  }
  /// Where the mask of a head begins, in elements.
  ZC_HD int64_t maskOf(int64_t sample, int64_t head) const {
    return kMasked ? sample * maskStrides[0] + head * maskStrides[1] : 0;
  }
  /// A number is no infinity then: rows of nothing but the lowest are averages.
  static ZC_HD float asPower(float natural) {
    constexpr float kLowest = -3.2e38f; // which times ln 2 and log2 e is itself, as 3e38 is not
    const float power = static_cast<float>(kLog2E) * natural;
    return power < kLowest && natural > lowest() ? kLowest : power;
  }
  /// What is added to the scores of a warp's queries and keys from these on, as powers of two; its rows are queries or
  /// keys. Of queries that are not there it is any number: whoever asks adds none of theirs.
  template <int D, CoreSide kRows, typename Warp>
  ZC_HD void added(const Warp &warp, int64_t maskAt, int query, int key, CoreSums<Warp, D> &to) const {
    if (!kMasked || (kGeneral && !mask))
      clearSums<D>(warp, to);
    else if (maskType == DType::boolean)
      readMask<D, kRows>(warp, maskAt, query, key, to,
                         [own = static_cast<const uint8_t *>(mask)](int64_t at) { return own[at] ? 0 : lowest(); });
    else if (maskType == DType::f32)
      readMask<D, kRows>(warp, maskAt, query, key, to,
                         [own = static_cast<const float *>(mask)](int64_t at) { return asPower(own[at]); });
    else
      readMask<D, kRows>(warp, maskAt, query, key, to,
                         [own = static_cast<const T *>(mask)](int64_t at) { return asPower(load(own[at])); });
    forSums<D>(warp, [&](int at, int tall, int half, int e, int row, int other) {
      const int i = query + (kRows == CoreSide::queries ? row : other),
                j = key + (kRows == CoreSide::queries ? other : row);
      float &sum = to[tall][half].of[at][e];
      const bool isHidden = (j >= keys) | (j > i + behind) | (j < i + before);
      sum = isHidden ? lowest() : sum;
    });
  }

  ZC_HD bool drops() const { return kGeneral && dropout.isThere(); }
  /// What dropout draws from in a step.
  ZC_HD Words drawn(const Frame &frame) const { return kGeneral ? dropout.drawn(frame) : Words{}; }
  /// Where the numbers that it draws for a head stand among those of all heads: of a query and a key `place` further
  /// on.
  ZC_HD int64_t firstNumber(int64_t sample, int head) const {
    return (sample * headsOfSample + headsBefore + head) * queries * keys;
  }
  ZC_HD int64_t place(int query, int key) const { return int64_t{query} * keys + key; }
  /// Drops of a warp's sums, of queries from `query` and keys from `key` on.
  template <int D, typename Warp>
  ZC_HD void drop(const Warp &warp, const Words &numbers, int64_t sample, int head, int query, int key,
                  CoreSums<Warp, D> &sums) const {
    if (!drops())
      return;
    CoreKept<Warp> kept;
    const int64_t first = firstNumber(sample, head);
    dropout.template draw<D>(
        warp, numbers, [&](int row, int other) { return first + place(query + row, key + other); }, kept);
    dropout.template apply<D>(warp, kept, sums);
  }

private:
  /// valueAt(place in the mask) of what a warp's sums are of; what is not there is asked as the last one that is. A
  /// mask of keys alone, for padding, a quarter as often.
  template <int D, CoreSide kRows, typename Warp, typename ValueAt>
  ZC_HD void readMask(const Warp &warp, int64_t maskAt, int query, int key, CoreSums<Warp, D> &to,
                      const ValueAt &valueAt) const {
    constexpr bool kQueries = kRows == CoreSide::queries;
    auto ofKey = [&](int j) { return maskAt + (j < keys ? j : keys - 1) * maskStrides[3]; };
    if (maskStrides[2] != 0)
      return forSums<D>(warp, [&](int at, int tall, int half, int e, int row, int other) {
        const int i = query + (kQueries ? row : other), j = key + (kQueries ? other : row);
        to[tall][half].of[at][e] = valueAt(ofKey(j) + (i < queries ? i : queries - 1) * maskStrides[2]);
      });
    forSums<D>(warp, [&](int at, int tall, int half, int e, int row, int other) {
      const bool isFirst = kQueries ? tall == 0 && e < 2 : half == 0 && e % 2 == 0; // that a lane has of the key
      to[tall][half].of[at][e] = isFirst    ? valueAt(ofKey(key + (kQueries ? other : row)))
                                 : kQueries ? to[0][half].of[at][e % 2]
                                            : to[tall][0].of[at][e / 2 * 2];
    });
  }
};

/// The queries that a block holds, and the keys and values that pass it.
template <typename T, int D, CoreForm kForm> struct CoreQueries {
  using Cut = CoreCut<D>;
  const CoreScores<T, kForm> &scores;
  int64_t sample;
  int head, keyHead; ///< of the sample
  int first, count;  ///< queries, to the last one of the head

  ZC_HD CoreQueries(const CoreScores<T, kForm> &scores, int64_t index) : scores(scores) {
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

  /// take() when what is held is there, and use(key, tiles) for the tiles of keys and values, of which some query sees
  /// some.
  template <typename Block, typename Copies, typename Take, typename Use>
  ZC_HD void pass(Block &block, Copies &copies, const HeadRows<const T> &k, const HeadRows<const T> &v, bool packed,
                  const Take &take, const Use &use) const {
    const T *keys = k.of(sample, keyHead, 0), *values = v.of(sample, keyHead, 0);
    const int begin = first + scores.before, last = first + Cut::kOfBlock - 1 + scores.behind;
    passTiles<D>(
        block, copies, begin > 0 ? begin / Cut::kPassing * Cut::kPassing : 0,
        [&](int key) { return key < scores.keys && key <= last; }, [](int key) { return key + Cut::kPassing; },
        [&](int key, char *stage) {
          const int left = scores.keys - key;
          bringRows<D, Cut::kPassing>(block, copies, stage,
                                      CoreSource<T>{keys + key * k.row, k.row, left, scores.depth}, packed);
          bringRows<D, Cut::kPassing>(block, copies, stage + Cut::kPassingBytes,
                                      CoreSource<T>{values + key * v.row, v.row, left, scores.valueDepth}, packed);
        },
        take, use);
  }
};

/// A block per so many queries.
template <typename T, int D, CoreForm kForm> struct CoreAttentionBody {
  using Cut = CoreCut<D>;
  using Own = CoreQueries<T, D, kForm>;
  static constexpr int kShared = Cut::sharedWith(1);
  CoreScores<T, kForm> scores;
  HeadRows<const T> q, k, v;
  HeadRows<T> y;
  float *lse;
  bool packed;

  template <typename Warp> struct State {
    CoreRows<Warp, D> queries;
    CoreResults<Warp, D> results;
    typename Warp::template Held<float, 2> top[Cut::kTall], total[Cut::kTall]; ///< of rows, and of those 8 further down
  };

  template <typename Block> ZC_HD void operator()(Block &block, int64_t index, const Frame &frame) const {
    using Warp = typename Warps<Block>::Warp;
    const Own own(scores, index);
    const Words numbers = scores.drawn(frame);
    typename Warps<Block>::Copies copies;
    State<Warp> states[Warps<Block>::kHeld];
    const CoreSource<T> held[] = {own.of(q, scores.depth)};
    bringHeld<D>(block, copies, held, packed);
    auto take = [&] {
      const char *tile = static_cast<char *>(block.shared()) + Cut::heldAt(0);
      forWarps(block, states, [&](auto &warp, State<Warp> &state) { begin(warp, tile, state); });
    };
    own.pass(block, copies, k, v, packed, take, [&](int key, const char *tiles) {
      forWarps(block, states, [&](auto &warp, State<Warp> &state) {
        const int query = own.first + warp.index * Cut::kOfWarp;
        if (!scores.isHidden(query, Cut::kOfWarp, key, Cut::kPassing))
          add(warp, tiles, own, numbers, query, key, state);
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
  ZC_HD void add(const Warp &warp, const char *tile, const Own &own, const Words &numbers, int query, int key,
                 State<Warp> &state) const {
    const CoreTile<Warp, D> keys(tile), values(tile + Cut::kPassingBytes);
    const int64_t maskAt = scores.maskOf(own.sample, own.head);
    const bool isPlain = key + Cut::kPassing <= scores.keys && scores.isPlain(query, Cut::kOfWarp, key, Cut::kPassing);
    CoreSums<Warp, D> p[Cut::kSteps];
    ZC_UNROLL
    for (int step = 0; step < Cut::kSteps; ++step) {
      multiplyRows<T, D>(warp, state.queries, keys, 16 * step, p[step]);
      forSums<D>(warp, [&](int at, int tall, int half, int e, int, int) {
        float &product = p[step][tall][half].of[at][e];
        product = scores.ordered(product);
      });
      if (!isPlain) {
        CoreSums<Warp, D> added;
        scores.template added<D, CoreSide::queries>(warp, maskAt, query, key + 16 * step, added);
        forSums<D>(warp, [&](int at, int tall, int half, int e, int, int) {
          p[step][tall][half].of[at][e] += added[tall][half].of[at][e];
        });
      }
    }
    raise(warp, p, state);
    ZC_UNROLL
    for (int step = 0; step < Cut::kSteps; ++step) {
      forSums<D>(warp, [&](int at, int tall, int half, int e, int, int) {
        float &weight = p[step][tall][half].of[at][e];
        const float top = state.top[tall].of[at][e / 2];
        weight = scores.powerOf(weight, top == scores.lowest() ? 0 : -top);
        state.total[tall].of[at][e / 2] += weight;
      });
      scores.template drop<D>(warp, numbers, own.sample, own.head, query, key + 16 * step, p[step]);
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
          top[tall].of[at][lower] = scores.lowest();
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
          const float now = LargerOf::apply(known, scores.scoreOf(top[tall].of[at][lower]));
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

/// fn(integral_constant<CoreForm, form>)
template <typename Fn> void withForm(const shapes::AttentionShape &s, const Fn &fn) {
  const bool isOrdered = s.hasMask || static_cast<float>(s.scale) > 0;
  if (s.dropout != 0 || s.softcap != 0 || !isOrdered)
    fn(std::integral_constant<CoreForm, CoreForm::general>());
  else if (s.hasMask)
    fn(std::integral_constant<CoreForm, CoreForm::masked>());
  else
    fn(std::integral_constant<CoreForm, CoreForm::plain>());
}

template <typename T, typename Launcher>
void launchCoreAttention(const shapes::AttentionShape &s, const shapes::AttentionTensors &t, void *const *operands,
                         const Launcher &launch) {
  const HeadRows<const T> q(t.query, operands), k(t.key, operands), v(t.value, operands);
  const HeadRows<T> y(t.result, operands);
  const bool packed = isPackedRows(q, s.depth) && isPackedRows(k, s.depth) && isPackedRows(v, s.valueDepth) &&
                      isPackedRows(y, s.valueDepth);
  withColumns(std::max(s.depth, s.valueDepth), [&](auto columns) {
    withForm(s, [&](auto form) {
      using Body = CoreAttentionBody<T, columns(), form()>;
      const CoreScores<T, form()> scores(s, s.hasMask ? operands[3] : nullptr);
      launch.template blocks<Body::Cut::kThreads>(
          s.batch * s.heads * Body::Own::tilesOf(s.queries),
          Body{scores, q, k, v, y, static_cast<float *>(operands[t.lse]), packed}, Body::kShared);
    });
  });
}

} // namespace zc::cuda
