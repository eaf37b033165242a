//===- CoreMaskGrad.h - the gradient of attention's mask on tensor cores --------------------===//
//
// Of a mask that is trained (T5's table of relative positions): a block per tile of its queries and keys adds dS = P
// (grad V^T - delta) of the samples and heads that share it, one after the other, in registers.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "kernels/cuda/CoreGradients.h"

namespace zc::cuda {

template <typename T, int D, CoreForm kForm> struct CoreMaskGradBody {
  using Cut = CoreCut<D>;
  /// Queries and their results' gradients, keys and values.
  static constexpr int kShared = 2 * Cut::kHeldBytes + 2 * Cut::kPassingBytes;
  CoreGradients<T, kForm> g;
  int samples, heads; ///< that share a mask
  int maskHeads;
  float *dMask;

  template <typename Warp> struct State {
    CoreRows<Warp, D> queries, grads;
    CoreSums<Warp, D> sums[Cut::kSteps];
    typename Warp::template Held<float, 2> exponent[Cut::kTall], delta[Cut::kTall];
  };
  /// What a block makes.
  struct Tile {
    int64_t mask; ///< of all
    int query, key;
  };

  ZC_HD static int64_t tilesOf(int queries, int keys) {
    return static_cast<int64_t>((queries + Cut::kOfBlock - 1) / Cut::kOfBlock) *
           ((keys + Cut::kPassing - 1) / Cut::kPassing);
  }

  template <typename Block> ZC_HD void operator()(Block &block, int64_t index, const Frame &frame) const {
    using Warp = typename Warps<Block>::Warp;
    const Words numbers = g.scores.drawn(frame);
    const int64_t tiles = tilesOf(g.scores.queries, g.scores.keys), tile = index % tiles;
    const int wide = (g.scores.keys + Cut::kPassing - 1) / Cut::kPassing;
    const Tile own{index / tiles, static_cast<int>(tile / wide) * Cut::kOfBlock,
                   static_cast<int>(tile % wide) * Cut::kPassing};
    typename Warps<Block>::Copies copies;
    State<Warp> states[Warps<Block>::kHeld];
    forWarps(block, states, [&](auto &warp, State<Warp> &state) {
      ZC_UNROLL
      for (int step = 0; step < Cut::kSteps; ++step)
        clearSums<D>(warp, state.sums[step]);
    });
    for (int n = 0; n < samples * heads; ++n) {
      const int64_t sample = own.mask / maskHeads * samples + n / heads;
      const int head = static_cast<int>(own.mask % maskHeads) + n % heads; // one of both is 0
      bring(block, copies, own, sample, head);
      forWarps(block, states, [&](auto &warp, State<Warp> &state) {
        add(warp, static_cast<char *>(block.shared()), own, numbers, sample, head, state);
      });
      block.sync();
    }
    forWarps(block, states, [&](auto &warp, State<Warp> &state) { write(warp, own, state); });
  }

private:
  template <typename Block, typename Copies>
  ZC_HD void bring(Block &block, Copies &copies, const Tile &own, int64_t sample, int head) const {
    const int keyHead = head / g.scores.group(), queries = g.scores.queries - own.query;
    char *tile = static_cast<char *>(block.shared());
    auto bringTile = [&](auto rows, const HeadRows<const T> &x, int ofHead, int first, int count, int depth) {
      const CoreSource<T> source{x.of(sample, ofHead, first), x.row, count, depth};
      bringRows<D, rows()>(block, copies, tile, source, g.packed);
      tile += 2 * D * rows();
    };
    const std::integral_constant<int, Cut::kOfBlock> held;
    const std::integral_constant<int, Cut::kPassing> passing;
    bringTile(held, g.q, head, own.query, queries, g.scores.depth);
    bringTile(held, g.grad, head, own.query, queries, g.scores.valueDepth);
    bringTile(passing, g.k, keyHead, own.key, g.scores.keys - own.key, g.scores.depth);
    bringTile(passing, g.v, keyHead, own.key, g.scores.keys - own.key, g.scores.valueDepth);
    copies.commit();
    copies.template wait<0>();
    block.sync();
  }

  template <typename Warp>
  ZC_HD void add(const Warp &warp, const char *tiles, const Tile &own, const Words &numbers, int64_t sample, int head,
                 State<Warp> &state) const {
    const int query = own.query + warp.index * Cut::kOfWarp;
    takeRows<D>(warp, CoreTile<Warp, D>(tiles), state.queries);
    takeRows<D>(warp, CoreTile<Warp, D>(tiles + Cut::kHeldBytes), state.grads);
    const CoreTile<Warp, D> keys(tiles + 2 * Cut::kHeldBytes), values(tiles + 2 * Cut::kHeldBytes + Cut::kPassingBytes);
    const int64_t row = (sample * g.scores.heads + head) * g.scores.queries;
    warp.forLanes([&](int lane, int at) {
      ZC_UNROLL
      for (int tall = 0; tall < Cut::kTall; ++tall)
        ZC_UNROLL
      for (int lower = 0; lower < 2; ++lower) {
        const int i = query + tall * 16 + lane / 4 + lower * 8;
        const bool isThere = i < g.scores.queries;
        state.exponent[tall].of[at][lower] = isThere ? g.exponents[row + i] : g.scores.lowest();
        state.delta[tall].of[at][lower] = isThere ? g.deltas[row + i] : 0;
      }
    });
    ZC_UNROLL
    for (int step = 0; step < Cut::kSteps; ++step) {
      const int first = own.key + 16 * step;
      if (g.scores.isHidden(query, Cut::kOfWarp, first, 16))
        continue;
      CoreSums<Warp, D> p, slopes;
      multiplyRows<T, D>(warp, state.queries, keys, 16 * step, p);
      g.template weigh<D, CoreSide::queries>(
          warp, p, false, g.scores.maskOf(sample, head), query, first,
          [&](int at, int tall, int e, int) { return state.exponent[tall].of[at][e / 2]; });
      multiplyRows<T, D>(warp, state.grads, values, 16 * step, slopes);
      g.scores.template drop<D>(warp, numbers, sample, head, query, first, slopes);
      forSums<D>(warp, [&](int at, int tall, int half, int e, int, int) {
        state.sums[step][tall][half].of[at][e] +=
            p[tall][half].of[at][e] * (slopes[tall][half].of[at][e] - state.delta[tall].of[at][e / 2]);
      });
    }
  }

  template <typename Warp> ZC_HD void write(const Warp &warp, const Tile &own, State<Warp> &state) const {
    const int query = own.query + warp.index * Cut::kOfWarp;
    ZC_UNROLL
    for (int step = 0; step < Cut::kSteps; ++step)
      forSums<D>(warp, [&](int at, int tall, int half, int e, int row, int other) {
        const int i = query + row, j = own.key + 16 * step + other;
        if (i < g.scores.queries && j < g.scores.keys)
          dMask[(own.mask * g.scores.queries + i) * g.scores.keys + j] = state.sums[step][tall][half].of[at][e];
      });
  }
};

/// After exponents and deltas are there.
template <int D, typename T, CoreForm kForm, typename Launcher>
void launchCoreMaskGrad(const shapes::AttentionShape &s, const CoreGradients<T, kForm> &g, float *dMask,
                        const Launcher &launch) {
  using Body = CoreMaskGradBody<T, D, kForm>;
  const int64_t masks = s.maskBatches() * s.maskHeads();
  if (masks == 0)
    return;
  launch.template blocks<Body::Cut::kThreads>(masks * Body::tilesOf(g.scores.queries, g.scores.keys),
                                              Body{g, static_cast<int>(s.batch / s.maskBatches()),
                                                   static_cast<int>(s.heads / s.maskHeads()),
                                                   static_cast<int>(s.maskHeads()), dMask},
                                              Body::kShared);
}

} // namespace zc::cuda
