//===- CoreAttentionGrad.h - the gradient of attention of 16-bit numbers on tensor cores ---------===//
//
// With P = e^(scores - lse), delta = rowsum(grad * output): dS = P (grad V^T - delta); dQ = dS K; dK = dS^T Q; dV = P^T
// grad. A block per tile of queries makes dQ, and deltas on the way; then a block per tile of keys makes dK and dV.
// Both compute scores: seven products where five would do, and no sum in memory is added to by two blocks, whose order
// nobody knows. The same bits every time.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "kernels/cuda/CoreMaskGrad.h"

namespace zc::cuda {

/// dQ of a tile of queries.
template <typename T, int D, CoreForm kForm> struct CoreQueryGradBody {
  using Cut = CoreCut<D>;
  using Own = CoreQueries<T, D, kForm>;
  static constexpr int kShared = Cut::sharedWith(3);
  CoreGradients<T, kForm> g;
  HeadRows<const T> output;
  HeadRows<T> dq;

  template <typename Warp> struct State {
    CoreRows<Warp, D> queries, grads;
    CoreResults<Warp, D> results;
    typename Warp::template Held<float, 2> exponent[Cut::kTall], delta[Cut::kTall];
  };

  template <typename Block> ZC_HD void operator()(Block &block, int64_t index, const Frame &frame) const {
    using Warp = typename Warps<Block>::Warp;
    const Own own(g.scores, index);
    const Words numbers = g.scores.drawn(frame);
    typename Warps<Block>::Copies copies;
    State<Warp> states[Warps<Block>::kHeld];
    const CoreSource<T> held[] = {own.of(g.q, g.scores.depth), own.of(g.grad, g.scores.valueDepth),
                                  own.of(output, g.scores.valueDepth)};
    bringHeld<D>(block, copies, held, g.packed);
    auto take = [&] {
      const char *shared = static_cast<char *>(block.shared());
      forWarps(block, states, [&](auto &warp, State<Warp> &state) { begin(warp, shared, own, state); });
    };
    own.pass(block, copies, g.k, g.v, g.packed, take, [&](int key, const char *tiles) {
      forWarps(block, states, [&](auto &warp, State<Warp> &state) {
        add(warp, tiles, own, numbers, own.first + warp.index * Cut::kOfWarp, key, state);
      });
    });
    forWarps(block, states, [&](auto &warp, State<Warp> &state) {
      writeRows<D>(warp, state.results, dq.of(own.sample, own.head, own.first), dq.row, own.count, g.scores.depth,
                   g.packed, [&](int, int, int) { return g.scores.scale; });
    });
  }

private:
  /// Queries, gradients of their results, and what all of a row share.
  template <typename Warp>
  ZC_HD void begin(const Warp &warp, const char *shared, const Own &own, State<Warp> &state) const {
    CoreRows<Warp, D> outputs;
    takeRows<D>(warp, CoreTile<Warp, D>(shared + Cut::heldAt(0)), state.queries);
    takeRows<D>(warp, CoreTile<Warp, D>(shared + Cut::heldAt(1)), state.grads);
    takeRows<D>(warp, CoreTile<Warp, D>(shared + Cut::heldAt(2)), outputs);
    clear<D>(warp, state.results);
    ZC_UNROLL
    for (int tall = 0; tall < Cut::kTall; ++tall) {
      warp.forLanes([&](int, int at) {
        ZC_UNROLL
        for (int lower = 0; lower < 2; ++lower) {
          float sum = 0;
          ZC_UNROLL
          for (int k = 0; k < D / 16; ++k)
            ZC_UNROLL
          for (int e = 0; e < 4; ++e)
            sum += ofPair<T>(state.grads[tall][k].of[at][lower + e / 2 * 2], e % 2) *
                   ofPair<T>(outputs[tall][k].of[at][lower + e / 2 * 2], e % 2);
          state.delta[tall].of[at][lower] = sum;
        }
      });
      warp.template overQuads<AddOf>(state.delta[tall]);
    }
    warp.forLanes([&](int lane, int at) {
      ZC_UNROLL
      for (int tall = 0; tall < Cut::kTall; ++tall)
        ZC_UNROLL
      for (int lower = 0; lower < 2; ++lower) {
        const int i = warp.index * Cut::kOfWarp + tall * 16 + lane / 4 + lower * 8;
        const int64_t row = own.row() + i;
        const float lowest = g.scores.lowest(), sum = i < own.count ? g.lse[row] : lowest;
        // Rows that see nothing weigh nothing. Beside numbers alone lse may be too large for a power of two.
        const float power = g.scores.kMasked ? g.scores.asPower(sum) : static_cast<float>(kLog2E) * sum;
        const float exponent = sum == lowest ? lowest : -power;
        state.exponent[tall].of[at][lower] = exponent;
        if (lane % 4 == 0 && i < own.count) {
          g.deltas[row] = state.delta[tall].of[at][lower];
          g.exponents[row] = exponent;
        }
      }
    });
  }

  /// A tile of keys and values, from `key` on, for the warp's queries, from `query` on.
  template <typename Warp>
  ZC_HD void add(const Warp &warp, const char *tile, const Own &own, const Words &numbers, int query, int key,
                 State<Warp> &state) const {
    withPlainness<D, kForm>(isPlain(query, key, Cut::kPassing), [&](auto isPlainTile) {
      forSteps<D, kForm>(
          [&](int step) { addStep<isPlainTile()>(warp, tile, own, numbers, query, key + 16 * step, step, state); });
    });
  }
  /// Of the warp's queries and so many keys.
  ZC_HD bool isPlain(int query, int key, int ofKeys) const {
    return key + ofKeys <= g.scores.keys && g.scores.isPlain(query, Cut::kOfWarp, key, ofKeys);
  }
  template <bool kPlain, typename Warp>
  ZC_HD void addStep(const Warp &warp, const char *tile, const Own &own, const Words &numbers, int query, int first,
                     int step, State<Warp> &state) const {
    const CoreTile<Warp, D> keys(tile), values(tile + Cut::kPassingBytes);
    const int64_t maskAt = g.scores.maskOf(own.sample, own.head);
    if (!kPlain && g.scores.isHidden(query, Cut::kOfWarp, first, 16))
      return;
    CoreSums<Warp, D> p, slopes;
    multiplyRows<T, D>(warp, state.queries, keys, 16 * step, p);
    multiplyRows<T, D>(warp, state.grads, values, 16 * step, slopes);
    g.scores.template drop<D>(warp, numbers, own.sample, own.head, query, first, slopes);
    g.template steepen<D>(warp, p, slopes,
                          [&](int at, int tall, int e, int) { return state.delta[tall].of[at][e / 2]; });
    g.template weigh<D, CoreSide::queries>(
        warp, p, kPlain || (!kSplits<D, kForm> && isPlain(query, first, 16)), maskAt, query, first,
        [&](int at, int tall, int e, int) { return state.exponent[tall].of[at][e / 2]; });
    forSums<D>(warp, [&](int at, int tall, int half, int e, int, int) {
      slopes[tall][half].of[at][e] *= p[tall][half].of[at][e];
    });
    addWeightedRows<T, D>(warp, slopes, keys, 16 * step, state.results);
  }
};

/// dK and dV of a tile of keys, over the queries of all heads that share them.
template <typename T, int D, CoreForm kForm> struct CoreKeyGradBody {
  using Cut = CoreCut<D>;
  using G = CoreGradients<T, kForm>;
  static constexpr int kShared = Cut::sharedWith(2);
  G g;
  HeadRows<T> dk, dv;

  template <typename Warp> struct State {
    CoreRows<Warp, D> keys, values;
    CoreResults<Warp, D> ofKeys, ofValues;
  };
  /// The keys that a block holds.
  struct Own {
    int64_t sample;
    int head;         ///< of keys
    int first, count; ///< keys, to the last one of the head
    int begin, end;   ///< of the queries none else sees them
  };
  /// A tile of queries that passes them.
  struct Passing {
    int head, first;
  };

  template <typename Block> ZC_HD void operator()(Block &block, int64_t index, const Frame &frame) const {
    using Warp = typename Warps<Block>::Warp;
    const Own own = ownOf(index);
    const Words numbers = g.scores.drawn(frame);
    const int depth = g.scores.depth, valueDepth = g.scores.valueDepth;
    typename Warps<Block>::Copies copies;
    State<Warp> states[Warps<Block>::kHeld];
    const CoreSource<T> held[] = {{g.k.of(own.sample, own.head, own.first), g.k.row, own.count, depth},
                                  {g.v.of(own.sample, own.head, own.first), g.v.row, own.count, valueDepth}};
    bringHeld<D>(block, copies, held, g.packed);
    auto take = [&] {
      const char *shared = static_cast<char *>(block.shared());
      forWarps(block, states, [&](auto &warp, State<Warp> &state) {
        takeRows<D>(warp, CoreTile<Warp, D>(shared + Cut::heldAt(0)), state.keys);
        takeRows<D>(warp, CoreTile<Warp, D>(shared + Cut::heldAt(1)), state.values);
        clear<D>(warp, state.ofKeys);
        clear<D>(warp, state.ofValues);
      });
    };
    pass(block, copies, own, take, [&](const Passing &at, const char *stage) {
      forWarps(block, states, [&](auto &warp, State<Warp> &state) {
        add(warp, stage, own.sample, at, numbers, own.first + warp.index * Cut::kOfWarp, state);
      });
    });
    forWarps(block, states, [&](auto &warp, State<Warp> &state) {
      writeRows<D>(warp, state.ofKeys, dk.of(own.sample, own.head, own.first), dk.row, own.count, depth, g.packed,
                   [&](int, int, int) { return g.scores.scale; });
      writeRows<D>(warp, state.ofValues, dv.of(own.sample, own.head, own.first), dv.row, own.count, valueDepth,
                   g.packed, [&](int, int, int) { return 1.0f; });
    });
  }

private:
  ZC_HD Own ownOf(int64_t index) const {
    const int64_t tiles = (g.scores.keys + Cut::kOfBlock - 1) / Cut::kOfBlock, head = index / tiles;
    const int first = static_cast<int>(index % tiles) * Cut::kOfBlock, since = first - g.scores.behind,
              end = first + Cut::kOfBlock - g.scores.before;
    return {head / g.scores.keyHeads,
            static_cast<int>(head % g.scores.keyHeads),
            first,
            g.scores.keys - first,
            since > 0 ? since / Cut::kPassing * Cut::kPassing : 0,
            end < g.scores.queries ? end : g.scores.queries};
  }

  /// take() when what is held is there, and use(which queries, stage) for the queries, their results' gradients,
  /// exponents and deltas, of all heads that share the keys.
  template <typename Block, typename Copies, typename Take, typename Use>
  ZC_HD void pass(Block &block, Copies &copies, const Own &own, const Take &take, const Use &use) const {
    const int first = own.head * g.scores.group(), end = first + g.scores.group();
    passTiles<D>(
        block, copies, Passing{first, own.begin},
        [&](const Passing &at) { return at.head < end && at.first < own.end; },
        [&](const Passing &at) {
          return at.first + Cut::kPassing < own.end ? Passing{at.head, at.first + Cut::kPassing}
                                                    : Passing{at.head + 1, own.begin};
        },
        [&](const Passing &at, char *stage) { bring(block, copies, own.sample, at, stage); }, take, use);
  }
  template <typename Block, typename Copies>
  ZC_HD void bring(Block &block, Copies &copies, int64_t sample, const Passing &at, char *stage) const {
    const int count = g.scores.queries - at.first;
    auto bringTile = [&](const HeadRows<const T> &rows, int depth, char *tile) {
      const CoreSource<T> source{rows.of(sample, at.head, at.first), rows.row, count, depth};
      bringRows<D, Cut::kPassing>(block, copies, tile, source, g.packed);
    };
    bringTile(g.q, g.scores.depth, stage);
    bringTile(g.grad, g.scores.valueDepth, stage + Cut::kPassingBytes);
    const int64_t row = (sample * g.scores.heads + at.head) * g.scores.queries + at.first;
    auto *exponents = reinterpret_cast<float *>(stage + 2 * Cut::kPassingBytes), *deltas = exponents + Cut::kPassing;
    block.forEach(Cut::kPassing, [&](int64_t i) {
      const bool isThere = i < count; // what is not weighs nothing, whatever its mask
      if (isThere)
        copies.template copy<4>(exponents + i, g.exponents + row + i, true);
      else
        exponents[i] = g.scores.lowest();
      copies.template copy<4>(deltas + i, g.deltas + row + (isThere ? i : 0), isThere);
    });
  }

  /// A tile of queries for the warp's keys, from `key` on.
  template <typename Warp>
  ZC_HD void add(const Warp &warp, const char *stage, int64_t sample, const Passing &at, const Words &numbers, int key,
                 State<Warp> &state) const {
    withPlainness<D, kForm>(g.scores.isPlain(at.first, Cut::kPassing, key, Cut::kOfWarp), [&](auto isPlainTile) {
      forSteps<D, kForm>([&](int step) { addStep<isPlainTile()>(warp, stage, sample, at, numbers, key, step, state); });
    });
  }
  template <bool kPlain, typename Warp>
  ZC_HD void addStep(const Warp &warp, const char *stage, int64_t sample, const Passing &at, const Words &numbers,
                     int key, int step, State<Warp> &state) const {
    const CoreTile<Warp, D> queries(stage), grads(stage + Cut::kPassingBytes);
    const int64_t maskAt = g.scores.maskOf(sample, at.head);
    const auto *rows = reinterpret_cast<const Pack<float, 2> *>(stage + 2 * Cut::kPassingBytes);
    const int first = at.first + 16 * step;
    const Pack<float, 2> *exponents = rows + 8 * step, *deltas = exponents + Cut::kPassing / 2;
    if (!kPlain && g.scores.isHidden(first, 16, key, Cut::kOfWarp))
      return;
    const bool isPlain = kPlain || (!kSplits<D, kForm> && g.scores.isPlain(first, 16, key, Cut::kOfWarp));
    CoreSums<Warp, D> p, slopes;
    auto weigh = [&] {
      g.template weigh<D, CoreSide::keys>(warp, p, isPlain, maskAt, first, key, [&](int, int, int e, int other) {
        return exponents[other / 2].element[e % 2];
      });
    };
    [[maybe_unused]] CoreKept<Warp> kept;
    multiplyRows<T, D>(warp, state.keys, queries, 16 * step, p);
    if constexpr (!G::Scores::kGeneral) // before there are slopes: registers
      weigh();
    multiplyRows<T, D>(warp, state.values, grads, 16 * step, slopes);
    if (g.scores.drops()) {
      const int64_t ofHead = g.scores.firstNumber(sample, at.head);
      auto place = [&](int down, int other) { return ofHead + g.scores.place(first + other, key + down); };
      g.scores.dropout.template draw<D>(warp, numbers, place, kept);
      g.scores.dropout.template apply<D>(warp, kept, slopes);
    }
    g.template steepen<D>(warp, p, slopes,
                          [&](int, int, int e, int other) { return deltas[other / 2].element[e % 2]; });
    if constexpr (G::Scores::kGeneral) // after the products' last use
      weigh();
    forSums<D>(warp, [&](int lane, int tall, int half, int e, int, int) {
      slopes[tall][half].of[lane][e] *= p[tall][half].of[lane][e];
    });
    if (g.scores.drops())
      g.scores.dropout.template apply<D>(warp, kept, p);
    addWeightedRows<T, D>(warp, p, grads, 16 * step, state.ofValues);
    addWeightedRows<T, D>(warp, slopes, queries, 16 * step, state.ofKeys);
  }
};

template <typename T, typename Launcher>
void launchCoreAttentionGrad(const shapes::AttentionShape &s, const shapes::AttentionGradTensors &t,
                             void *const *operands, const Launcher &launch) {
  const HeadRows<const T> grad(t.grad, operands), q(t.query, operands), k(t.key, operands), v(t.value, operands),
      output(t.output, operands);
  const HeadRows<T> dq(t.dQuery, operands), dk(t.dKey, operands), dv(t.dValue, operands);
  const bool packed = isPackedRows(q, s.depth) && isPackedRows(k, s.depth) && isPackedRows(v, s.valueDepth) &&
                      isPackedRows(grad, s.valueDepth) && isPackedRows(output, s.valueDepth) &&
                      isPackedRows(dq, s.depth) && isPackedRows(dk, s.depth) && isPackedRows(dv, s.valueDepth);
  auto *deltas = static_cast<float *>(launch.workspace());
  withColumns(std::max(s.depth, s.valueDepth), [&](auto columns) {
    withForm(s, [&](auto form) {
      using Cut = CoreCut<columns()>;
      using Queries = CoreQueryGradBody<T, columns(), form()>;
      using Keys = CoreKeyGradBody<T, columns(), form()>;
      const CoreScores<T, form()> scores(s, s.hasMask ? operands[6] : nullptr);
      const auto *lse = static_cast<const float *>(operands[5]);
      const CoreGradients<T, form()> g{scores, grad, q, k, v, lse, deltas, deltas + s.batch * s.heads * s.queries,
                                       packed};
      launch.template blocks<Cut::kThreads>(s.batch * s.heads * Queries::Own::tilesOf(s.queries),
                                            Queries{g, output, dq}, Queries::kShared);
      launch.template blocks<Cut::kThreads>(s.batch * s.keyHeads * Queries::Own::tilesOf(s.keys), Keys{g, dk, dv},
                                            Keys::kShared);
      if constexpr (form() != CoreForm::plain)
        if (s.hasMaskGrad)
          launchCoreMaskGrad<columns()>(s, g, static_cast<float *>(operands[t.dMask]), launch);
    });
  });
}

} // namespace zc::cuda
