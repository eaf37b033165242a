//===- Update.h - optimizers; sums of losses, gradients and norms ----------------------===//
//
// What the host may do as well (a tier may hold optimizer state): the same bits as the CPU's kernels, by one source in
// formula/. Limit: memory, 28 bytes per fp32 parameter of Adam; goal 0.85 of a device copy.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "kernels/cuda/Launch.h"
#include "kernels/shapes/MetricShapes.h"
#include "kernels/shapes/Shapes.h"

namespace zc::cuda {

using namespace formula;

//===-- optimizers -------------------------------------------------------------------===//

/// Floats of whatever type, read and written through its number, V at a time.
struct AnyFloats {
  static constexpr int kPack = 1;
  void *data;
  DType type;
  template <int V, typename P> ZC_HD void read(int64_t at, P (&x)[V]) const {
    for (int k = 0; k < V; ++k)
      x[k] = static_cast<P>(load(at + k));
  }
  template <int V, typename P> ZC_HD void write(int64_t at, const P (&x)[V]) const {
    for (int k = 0; k < V; ++k)
      store(at + k, x[k]);
  }
  bool isAligned() const { return true; }

private:
  ZC_HD double load(int64_t i) const {
    switch (type) {
    case DType::bf16:
      return formula::load(static_cast<const Bf16 *>(data)[i]);
    case DType::f16:
      return formula::load(static_cast<const F16 *>(data)[i]);
    case DType::f64:
      return static_cast<const double *>(data)[i];
    default:
      return static_cast<const float *>(data)[i];
    }
  }
  template <typename P> ZC_HD void store(int64_t i, P x) const {
    switch (type) {
    case DType::bf16:
      static_cast<Bf16 *>(data)[i] = formula::store<Bf16>(static_cast<float>(x));
      return;
    case DType::f16:
      static_cast<F16 *>(data)[i] = formula::store<F16>(static_cast<float>(x));
      return;
    case DType::f64:
      static_cast<double *>(data)[i] = static_cast<double>(x);
      return;
    default:
      static_cast<float *>(data)[i] = static_cast<float>(x);
    }
  }
};
/// Floats of a known type, behind the same functions: V are loaded or stored at once.
template <typename T> struct Floats {
  static constexpr int kPack = 4;
  void *data;
  DType type;
  template <int V, typename P> ZC_HD void read(int64_t at, P (&x)[V]) const {
    const auto pack = *reinterpret_cast<const Pack<T, V> *>(static_cast<const T *>(data) + at);
    for (int k = 0; k < V; ++k)
      x[k] = static_cast<P>(formula::load(pack.element[k]));
  }
  template <int V, typename P> ZC_HD void write(int64_t at, const P (&x)[V]) const {
    Pack<T, V> pack;
    for (int k = 0; k < V; ++k)
      pack.element[k] = formula::store<T>(static_cast<Compute<T>>(x[k]));
    *reinterpret_cast<Pack<T, V> *>(static_cast<T *>(data) + at) = pack;
  }
  bool isAligned() const { return reinterpret_cast<uintptr_t>(data) % (sizeof(T) * kPack) == 0; }
};

/// `grad` and `out` are Floats, or AnyFloats where little is updated. A block has several parts of elements, so that
/// each thread makes what they have in common once: powers, quotients and a root, all of doubles.
template <typename G, typename P, typename O> struct OptimizerBody {
  static constexpr int64_t kParts = 4;
  OptimizerRule rule;
  G grad;
  const float *factor;
  Floats<P> p, m, v; ///< moments may be null
  O out;             ///< a copy of the parameters in its own type, or of null
  int64_t n;
  bool packed;
  template <typename Block> ZC_HD void operator()(Block &block, int64_t index, const Frame &frame) const {
    const auto step = stepOf<P>(rule, *frame.context, static_cast<P>(*factor));
    for (int64_t i = index * kParts; i < (index + 1) * kParts && i * kElementsPerBlock < n; ++i) {
      const Part part(i, n);
      const int64_t whole = packed ? part.count / G::kPack * G::kPack : 0;
      block.template forEach<G::kPack>(whole, [&](int64_t at) { update<G::kPack>(step, part.first + at); });
      block.forEach(part.count - whole, [&](int64_t at) { update<1>(step, part.first + whole + at); });
    }
  }
  template <int V> ZC_HD void update(const OptimizerStep<P> &step, int64_t at) const {
    P own[V], slope[V], first[V] = {}, second[V] = {};
    p.template read<V>(at, own);
    if (step.factor == step.factor) { // else the step is skipped; who takes the copy still does
      grad.template read<V>(at, slope);
      if (m.data)
        m.template read<V>(at, first);
      if (v.data)
        v.template read<V>(at, second);
      for (int k = 0; k < V; ++k)
        updateOne<P>(rule.rule, step, slope[k], own[k], &first[k], &second[k]);
      p.template write<V>(at, own);
      if (m.data)
        m.template write<V>(at, first);
      if (v.data)
        v.template write<V>(at, second);
    }
    if (out.data)
      out.template write<V>(at, own);
  }
};

template <typename Target, typename G, typename P, typename O>
Prepared<Target> updating(const KernelSpec &spec, const shapes::OptimizerShape &shape) {
  return launching<Target>(spec, [s = shape](void *const *operands, const auto &launch) {
    using Body = OptimizerBody<G, P, O>;
    auto moment = [&](size_t i) { return Floats<P>{s.moments > i ? operands[3 + i] : nullptr, s.param}; };
    Body body{s.rule,
              {operands[0], s.grad},
              static_cast<const float *>(operands[1]),
              {operands[2], s.param},
              moment(0),
              moment(1),
              {s.out ? operands[3 + s.moments] : nullptr, s.out.value_or(DType::f32)},
              s.n,
              false};
    body.packed =
        body.grad.isAligned() && body.p.isAligned() && body.m.isAligned() && body.v.isAligned() && body.out.isAligned();
    launch.template blocks<kElementThreads>((blocksFor(s.n) + Body::kParts - 1) / Body::kParts, body);
  });
}

template <typename Target> Prepared<Target> prepareOptimizer(const KernelSpec &spec) {
  Result<shapes::OptimizerShape> read = shapes::readOptimizer(spec);
  ZC_RETURN_IF_ERROR(read.status());
  DType out = read->out.value_or(DType::f32);
  if (read->param == DType::f64)
    return updating<Target, AnyFloats, double, AnyFloats>(spec, *read);
  if (!isFast(read->grad) || !isFast(out))
    return updating<Target, AnyFloats, float, AnyFloats>(spec, *read);
  return withFast(read->grad, [&](auto gradTag) {
    return withFast(out, [&](auto outTag) {
      return updating<Target, Floats<TypeOf<decltype(gradTag)>>, float, Floats<TypeOf<decltype(outTag)>>>(spec, *read);
    });
  });
}

//===-- sums ---------------------------------------------------------------------------===//

template <typename T> struct AccumulateGradientBody {
  static constexpr int V = packOf<T>();
  const T *part;
  T *sum;
  int64_t n;
  bool restart, packed;
  template <typename Block> ZC_HD void operator()(Block &block, int64_t index, const Frame &frame) const {
    bool copies = restart && frame.context->micro == 0;
    forPacks<V>(block, index, n, packed, [&](auto count, int64_t at) {
      using Values = Pack<T, count>;
      Values own = *reinterpret_cast<const Values *>(part + at);
      auto *to = reinterpret_cast<Values *>(sum + at);
      if (!copies) {
        const Values before = *to;
        for (int k = 0; k < count; ++k)
          own.element[k] = store<T>(load(before.element[k]) + load(own.element[k]));
      }
      *to = own;
    });
  }
};

template <typename Target> Prepared<Target> prepareAccumulateGradient(const KernelSpec &spec) {
  ZC_RETURN_IF_ERROR(shapes::checkAccumulateGradient(spec));
  return withFloat(spec.operands[0].dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    return launching<Target>(spec, [n = spec.operands[0].numElements(), restart = spec.getInt("restart", 0) != 0](
                                       void *const *operands, const auto &launch) {
      using Body = AccumulateGradientBody<T>;
      auto *part = static_cast<const T *>(operands[0]);
      auto *sum = static_cast<T *>(operands[1]);
      overElements(launch, n, Body{part, sum, n, restart, isAligned<Body::V>(part, sum)});
    });
  });
}

template <typename T> struct AccumulateLossBody {
  const T *loss, *weight;
  double *sums;
  template <typename Block> ZC_HD void operator()(Block &block, int64_t, const Frame &frame) const {
    block.once([&] {
      bool starts = frame.context->micro == 0;
      sums[0] = starts ? static_cast<double>(load(*loss)) : sums[0] + static_cast<double>(load(*loss));
      if (weight)
        sums[1] = starts ? static_cast<double>(load(*weight)) : sums[1] + static_cast<double>(load(*weight));
    });
  }
};

template <typename Target> Prepared<Target> prepareAccumulateLoss(const KernelSpec &spec) {
  ZC_RETURN_IF_ERROR(shapes::checkAccumulateLoss(spec));
  return withFloat(spec.operands[0].dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    return launching<Target>(spec, [n = spec.numInputs](void *const *operands, const auto &launch) {
      launch.template blocks<32>(1, AccumulateLossBody<T>{static_cast<const T *>(operands[0]),
                                                          n == 2 ? static_cast<const T *>(operands[1]) : nullptr,
                                                          static_cast<double *>(operands[n])});
    });
  });
}

/// Adds the sums of blocks of 64 elements to the limbs. A thread has a block, whose order of sums is fixed;
/// neighbouring threads load what lies side by side, into memory that they share. What is added is collected in
/// registers, and added once by all threads together: atomic sums at one place come one after the other.
template <typename T> struct NormPartialBody {
  static constexpr int kThreads = 128, kTiles = 4; ///< a tile: a block for each thread
  static constexpr int V = 16 / sizeof(T), kPacks = kNormBlock / V;
  static constexpr int kTileBytes = kThreads * kPacks * 16, kNormBlocks = kThreads * kTiles;
  using Values = Pack<T, V>;
  const T *x;
  int64_t *limbs;
  int64_t blocks;
  bool shares; ///< else values are loaded where they are summed: doubles, and what is not aligned

  int64_t sharedBytes() const { return kThreads * 8 + (shares ? kTileBytes : 0); }
  template <typename Block> ZC_HD void operator()(Block &block, int64_t index, const Frame &) const {
    auto *sums = static_cast<double *>(block.shared()); // each thread's own
    NormWindow windows[Block::template kSlots<1>] = {};
    int first = -1;
    for (int64_t at = index * kNormBlocks; at < blocks && at < (index + 1) * kNormBlocks; at += kThreads) {
      const int count = static_cast<int>(blocks - at < kThreads ? blocks - at : kThreads);
      sumBlocks(block, x + at * kNormBlock, count, sums);
      if (first < 0)
        first = NormWindow::firstFor(
            block.template reduceSlots<MaxOf, 1, 1>(count, 0.0, [&](int64_t i, int) { return sums[i]; }));
      block.template forSlots<1, 1>(count, [&](int64_t i, int slot) {
        if (NormWindow::takes(first, sums[i]))
          windows[slot].add(first, sums[i]);
      });
      const bool others = block.template reduceSlots<MaxOf, 1, 1>(
          count, 0, [&](int64_t i, int) { return NormWindow::takes(first, sums[i]) ? 0 : 1; });
      if (others)
        block.template addIntegers<kNormLimbs>(count, limbs, [&](int64_t i, int64_t *acc) {
          if (!NormWindow::takes(first, sums[i]))
            addToNorm(acc, sums[i]);
        });
    }
    const auto all = block.template reduceSlots<Together, 1, 1>(kThreads, NormWindow{},
                                                                [&](int64_t, int slot) { return windows[slot]; });
    block.template addIntegers<NormWindow::kLimbs>(1, limbs + first, [&](int64_t, int64_t *acc) {
      for (int k = 0; k < NormWindow::kLimbs; ++k)
        acc[k] += all.limbs[k];
    });
  }

private:
  struct Together {
    template <typename S> static ZC_HD S apply(S a, const S &b) {
      a.add(b);
      return a;
    }
  };

  /// blockSum of each block: its order, and so its bits.
  template <typename Block> ZC_HD void sumBlocks(Block &block, const T *from, int count, double *sums) const {
    if constexpr (sizeof(T) < 8)
      if (shares) {
        auto *tile = reinterpret_cast<Values *>(sums + kThreads);
        share(block, reinterpret_cast<const Values *>(from), count, tile);
        return block.template forSlots<1, 1>(count,
                                             [&](int64_t i, int) { sums[i] = sharedSum(tile, static_cast<int>(i)); });
      }
    block.template forSlots<1, 1>(count, [&](int64_t i, int) { sums[i] = blockSum(from + i * kNormBlock); });
  }
  /// Where pack p of block i is: eight neighbouring threads read from eight places that lie apart.
  static ZC_HD int placeOf(int i, int p) { return i * kPacks + (p ^ i % 8); }

  template <typename Block> static ZC_HD void share(Block &block, const Values *from, int count, Values *tile) {
    Values held[Block::template kSlots<kPacks>];
    block.template forSlots<kPacks, 1>(count * kPacks, [&](int64_t i, int slot) { held[slot] = from[i]; });
    block.sync(); // whoever still reads the last tile
    block.template forSlots<kPacks, 1>(count * kPacks, [&](int64_t i, int slot) {
      const int at = static_cast<int>(i);
      tile[placeOf(at / kPacks, at % kPacks)] = held[slot];
    });
    block.sync();
  }
  static ZC_HD double sharedSum(const Values *tile, int i) {
    double part[8] = {};
    for (int p = 0; p < kPacks; ++p) {
      const Values values = tile[placeOf(i, p)];
      for (int k = 0; k < V; ++k) {
        const double value = load(values.element[k]);
        part[(p * V + k) % 8] += value * value;
      }
    }
    return sumOfParts(part);
  }
};
struct NormalizeBody {
  int64_t *limbs;
  template <typename Block> ZC_HD void operator()(Block &block, int64_t, const Frame &) const {
    block.once([&] { normalizeNorm(limbs); });
  }
};

template <typename Target> Prepared<Target> prepareNormPartial(const KernelSpec &spec) {
  ZC_RETURN_IF_ERROR(shapes::checkNormPartial(spec));
  return withFloat(spec.operands[0].dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    return launching<Target>(spec, [blocks = spec.operands[0].numElements() / kNormBlock,
                                    first = spec.getInt("first", 0) != 0](void *const *operands, const auto &launch) {
      auto *x = static_cast<const T *>(operands[0]);
      auto *limbs = static_cast<int64_t *>(operands[1]);
      if (first)
        launch.zero(limbs, kNormLimbs * static_cast<int64_t>(sizeof(int64_t)));
      using Body = NormPartialBody<T>;
      const Body body{x, limbs, blocks, sizeof(T) < 8 && reinterpret_cast<uintptr_t>(x) % 16 == 0};
      if (blocks > 0)
        launch.template blocks<Body::kThreads>((blocks + Body::kNormBlocks - 1) / Body::kNormBlocks, body,
                                               body.sharedBytes());
      launch.template blocks<32>(1, NormalizeBody{limbs});
    });
  });
}

struct NormFinishBody {
  ClipRule rule;
  const int64_t *limbs;
  const double *weight;
  float *norm, *factor;
  template <typename Block> ZC_HD void operator()(Block &block, int64_t, const Frame &frame) const {
    block.once([&] {
      int64_t own[kNormLimbs];
      for (int i = 0; i < kNormLimbs; ++i)
        own[i] = limbs[i];
      normalizeNorm(own);
      Clipped clipped = clip(rule, normValue(own), rule.weighted ? *weight : 0, frame.context->lossScale);
      *norm = clipped.norm;
      *factor = clipped.factor;
    });
  }
};

template <typename Target> Prepared<Target> prepareNormFinish(const KernelSpec &spec) {
  Result<ClipRule> rule = shapes::readNormFinish(spec);
  ZC_RETURN_IF_ERROR(rule.status());
  return launching<Target>(spec, [rule = *rule, n = spec.numInputs](void *const *operands, const auto &launch) {
    launch.template blocks<32>(1, NormFinishBody{rule, static_cast<const int64_t *>(operands[0]),
                                                 rule.weighted ? static_cast<const double *>(operands[1]) : nullptr,
                                                 static_cast<float *>(operands[n]),
                                                 static_cast<float *>(operands[n + 1])});
  });
}

template <typename Target, typename Registry> void addOptimizers(Registry &registry) {
  for (const char *name : namesOf(UpdateRule()))
    registry.add(name, prepareOptimizer<Target>);
}
template <typename Target, typename Registry> void addMetrics(Registry &registry) {
  registry.add("accumulate_loss", prepareAccumulateLoss<Target>);
  registry.add("accumulate_gradient", prepareAccumulateGradient<Target>);
  registry.add("norm_partial", prepareNormPartial<Target>);
  registry.add("norm_finish", prepareNormFinish<Target>);
}

} // namespace zc::cuda
