//===- GroupNorm.h - group norm over each sample's groups of channels, and its gradient ------===//
//
// Statistics: a block per group, two passes in double. Sums of a gradient: a block per plane, or, channels last,
// columns of each sample's rows in parts that depend on shapes alone; parts are added in order. Then a pass over
// elements, in fp32 (f64 for f64), as it is where it is apart and joins the programs around it. Limit: memory (three
// passes forward, two backward).
//
//===----------------------------------------------------------------------===//
#pragma once

#include "kernels/cuda/BatchNorm.h"
#include "kernels/cuda/GroupNormCut.h"

namespace zc::cuda {

/// Groups of a tensor [batch, channels, inner], or [batch, inner, channels].
struct Groups {
  int64_t batch, channels, inner, groups;
  int64_t perGroup, count; ///< channels and elements of a group
  int64_t parts;
  bool areLast;
  double epsilon;
  StridedIndex<1> element; ///< element i of a group
  StridedIndex<2> place;   ///< of element i of the tensor: which of N * C it is of, and which channel

  explicit Groups(const shapes::GroupNormShape &s)
      : batch(s.batch), channels(s.channels), inner(s.inner), groups(s.groups), perGroup(s.perGroup()),
        count(s.count()), parts(groupNormParts(s)), areLast(s.channelsLast), epsilon(s.epsilon),
        element(areLast ? shapes::Walk<1>({inner, perGroup}, {shapes::Dims{channels, 1}})
                        : shapes::Walk<1>({count}, {shapes::Dims{1}})),
        place(areLast
                  ? shapes::Walk<2>({batch, inner, channels}, {shapes::Dims{channels, 0, 1}, shapes::Dims{0, 0, 1}})
                  : shapes::Walk<2>({batch, channels, inner}, {shapes::Dims{channels, 1, 0}, shapes::Dims{0, 1, 0}})) {}
  int64_t planes() const { return batch * channels; }
  int64_t elements() const { return planes() * inner; }
  /// Element i of group `index` of all samples'.
  ZC_HD int64_t at(int64_t index, int64_t i) const {
    int64_t offset[1];
    element.offsets(i, offset);
    return offset[0] +
           (areLast ? index / groups * inner * channels + index % groups * perGroup : index * perGroup * inner);
  }
};

/// Block i: statistics of group i of all samples', and y = (x - centre) * factor + shift of its channels; `shift` may
/// be null.
template <typename T> struct GroupStatisticsBody {
  Groups s;
  const T *x, *scale, *bias;
  Statistic<T> *mean, *variance, *centre, *factor, *shift;
  template <typename Block> ZC_HD void operator()(Block &block, int64_t index, const Frame &) const {
    const auto n = static_cast<double>(s.count);
    const double m = block.template reduce<AddOf>(s.count, 0.0, [&](int64_t i) {
      return static_cast<double>(formula::load(x[s.at(index, i)]));
    }) / n;
    const double v = block.template reduce<AddOf>(s.count, 0.0, [&](int64_t i) {
      const double centred = static_cast<double>(formula::load(x[s.at(index, i)])) - m;
      return centred * centred;
    }) / n;
    block.once([&] {
      mean[index] = static_cast<Statistic<T>>(m);
      variance[index] = static_cast<Statistic<T>>(v);
    });
    const double deviation = std::sqrt(v + s.epsilon);
    block.forEach(s.perGroup, [&](int64_t k) {
      const int64_t plane = index * s.perGroup + k;
      centre[plane] = static_cast<Statistic<T>>(m);
      factor[plane] = static_cast<Statistic<T>>(static_cast<double>(load(scale[plane % s.channels])) / deviation);
      if (shift)
        shift[plane] = load(bias[plane % s.channels]);
    });
  }
};

template <typename T> struct NormalizeGroupsBody {
  Groups s;
  const T *x, *bias;
  T *y;
  const Statistic<T> *centre, *factor;
  int64_t n;
  template <typename Block> ZC_HD void operator()(Block &block, int64_t index, const Frame &) const {
    forElements(block, index, n, [&](int64_t i) {
      int64_t at[2];
      s.place.offsets(i, at);
      y[i] = store<T>((load(x[i]) - centre[at[0]]) * factor[at[0]] + load(bias[at[1]]));
    });
  }
};

/// What is summed of a gradient's channels of a sample: g xhat, and g.
template <typename T> struct GroupGradSums {
  static constexpr int kSums = 2;
  const T *grad, *x;
  const Statistic<T> *mean, *variance;
  int64_t elements, groups, perGroup; ///< of a sample
  double epsilon;

  ZC_HD GroupGradSums ofSample(int64_t n) const {
    return {grad + n * elements,
            x + n * elements,
            mean + n * groups,
            variance + n * groups,
            elements,
            groups,
            perGroup,
            epsilon};
  }
  template <int V> struct Of {
    const T *grad, *x;
    double mean[V], invStd[V];
    struct Loaded {
      Pack<T, V> grad, x;
    };
    ZC_HD Loaded load(int64_t at) const { return {loadPack<V, T>(grad, at), loadPack<V, T>(x, at)}; }
    ZC_HD void add(const Loaded &loaded, double (&to)[kSums][V]) const {
      for (int v = 0; v < V; ++v) {
        const auto g = static_cast<double>(formula::load(loaded.grad.element[v]));
        to[0][v] += g * ((static_cast<double>(formula::load(loaded.x.element[v])) - mean[v]) * invStd[v]);
        to[1][v] += g;
      }
    }
  };
  template <int V> ZC_HD Of<V> of(int64_t c) const {
    Of<V> own{grad, x, {}, {}};
    for (int v = 0; v < V; ++v) {
      const int64_t g = (c + v) / perGroup;
      own.mean[v] = static_cast<double>(mean[g]);
      own.invStd[v] = 1 / std::sqrt(static_cast<double>(variance[g]) + epsilon);
    }
    return own;
  }
};

/// Block i of a sample's: its columns' sums, to partial[sample][2][channels][parts].
template <int V, typename T> struct GroupColumnsBody {
  ColumnCut cut;
  int64_t blocks; ///< of a sample
  GroupGradSums<T> f;
  template <typename Block> ZC_HD void operator()(Block &block, int64_t index, const Frame &) const {
    const int64_t n = index / blocks;
    ColumnCut own = cut;
    own.partial += n * 2 * cut.channels * cut.parts;
    columnSums<V>(block, index % blocks, own, f.ofSample(n));
  }
};
/// The same of channels that are not last: block (sample, channel).
template <typename T> struct GroupPlanesBody {
  int64_t channels, inner;
  double *totals;
  GroupGradSums<T> f;
  template <typename Block> ZC_HD void operator()(Block &block, int64_t index, const Frame &) const {
    const int64_t n = index / channels, c = index % channels;
    const GroupGradSums<T> sample = f.ofSample(n);
    const auto own = sample.template of<1>(c);
    const auto sums = block.template reduce<AddOf>(inner, Two<double>{0, 0}, [&](int64_t i) {
      double to[2][1] = {};
      own.add(own.load(c * inner + i), to);
      return Two<double>{to[0][0], to[1][0]};
    });
    block.once([&] {
      totals[n * 2 * channels + c] = sums.first;
      totals[(n * 2 + 1) * channels + c] = sums.second;
    });
  }
};

/// dx = factor * g - ((x - centre) * slope + offset), of each group: with xhat = (x - mean) / std and means over the
/// group, dx = (g scale - mean(g scale) - xhat mean(g scale xhat)) / std.
template <typename T> struct GroupGradFinishBody {
  Groups s;
  const double *totals; ///< of g xhat, then of g, of each sample
  const T *scale;
  const Statistic<T> *mean, *variance;
  Statistic<T> *centre, *factor, *slope, *offset;
  template <typename Block> ZC_HD void operator()(Block &block, int64_t index, const Frame &) const {
    forResults(block, index, s.batch * s.groups, [&](int64_t i) {
      const int64_t n = i / s.groups, first = i % s.groups * s.perGroup;
      const double *products = totals + n * 2 * s.channels + first, *sums = products + s.channels;
      double product = 0, sum = 0;
      for (int64_t k = 0; k < s.perGroup; ++k) {
        const auto weight = static_cast<double>(load(scale[first + k]));
        product += weight * products[k];
        sum += weight * sums[k];
      }
      const double invStd = 1 / std::sqrt(static_cast<double>(variance[i]) + s.epsilon);
      const auto count = static_cast<double>(s.count);
      for (int64_t k = 0; k < s.perGroup; ++k) {
        const int64_t plane = i * s.perGroup + k;
        centre[plane] = mean[i];
        factor[plane] = static_cast<Statistic<T>>(static_cast<double>(load(scale[first + k])) * invStd);
        slope[plane] = static_cast<Statistic<T>>(product / count * invStd * invStd);
        offset[plane] = static_cast<Statistic<T>>(sum / count * invStd);
      }
    });
  }
};
/// Of scale and bias: sums over the samples.
template <typename T> struct GroupChannelsBody {
  int64_t batch, channels;
  const double *totals;
  T *dScale, *dBias;
  template <typename Block> ZC_HD void operator()(Block &block, int64_t index, const Frame &) const {
    forResults(block, index, channels, [&](int64_t c) {
      double forScale = 0, forBias = 0;
      for (int64_t n = 0; n < batch; ++n) {
        forScale += totals[n * 2 * channels + c];
        forBias += totals[(n * 2 + 1) * channels + c];
      }
      dScale[c] = storeSum<T>(forScale);
      dBias[c] = storeSum<T>(forBias);
    });
  }
};
template <typename T> struct GroupGradBody {
  Groups s;
  const T *grad, *x;
  T *d;
  const Statistic<T> *centre, *factor, *slope, *offset;
  int64_t n;
  template <typename Block> ZC_HD void operator()(Block &block, int64_t index, const Frame &) const {
    forElements(block, index, n, [&](int64_t i) {
      int64_t at[2];
      s.place.offsets(i, at);
      const int64_t p = at[0];
      d[i] = store<T>(load(grad[i]) * factor[p] - ((load(x[i]) - centre[p]) * slope[p] + offset[p]));
    });
  }
};

/// A norm's operands, and where what it finds goes.
template <typename T> struct GroupStatistics {
  const T *x, *scale, *bias;
  Statistic<T> *mean, *variance, *centre, *factor, *shift;
};
template <typename T, typename Launcher>
void groupStatistics(const Launcher &launch, const Groups &s, const GroupStatistics<T> &of) {
  overRows(launch, s.batch * s.groups, s.count,
           GroupStatisticsBody<T>{s, of.x, of.scale, of.bias, of.mean, of.variance, of.centre, of.factor, of.shift});
}

/// A gradient's operands as group_norm_grad has them, and where what it sums goes.
template <typename T> struct GroupGradients {
  const T *grad, *x, *scale;
  const Statistic<T> *mean, *variance;
  T *dScale, *dBias;
  Statistic<T> *centre, *factor, *slope, *offset;
};
template <typename T, typename Launcher>
void groupGradSums(const Launcher &launch, const Groups &s, const GroupGradients<T> &of) {
  double *totals = static_cast<double *>(launch.workspace()), *partial = totals + 2 * s.planes();
  const GroupGradSums<T> f{of.grad, of.x, of.mean, of.variance, s.channels * s.inner, s.groups, s.perGroup, s.epsilon};
  constexpr int V = kColumnPack<T>;
  const ColumnCut cut{s.inner, s.channels, s.parts, partial};
  auto isAligned = [](const T *x) { return reinterpret_cast<uintptr_t>(x) % (V * sizeof(T)) == 0; };
  if (!s.areLast)
    overRows(launch, s.planes(), s.inner, GroupPlanesBody<T>{s.channels, s.inner, totals, f});
  else if (s.channels % V == 0 && isAligned(of.grad) && isAligned(of.x))
    launch.template blocks<kColumnThreads>(s.batch * cut.blocks(V), GroupColumnsBody<V, T>{cut, cut.blocks(V), f});
  else
    launch.template blocks<kColumnThreads>(s.batch * cut.blocks(1), GroupColumnsBody<1, T>{cut, cut.blocks(1), f});
  if (s.areLast)
    overRows(launch, 2 * s.planes(), s.parts, JoinPartsBody{partial, totals, s.parts});
  overResults(
      launch, s.batch * s.groups,
      GroupGradFinishBody<T>{s, totals, of.scale, of.mean, of.variance, of.centre, of.factor, of.slope, of.offset});
  overResults(launch, s.channels, GroupChannelsBody<T>{s.batch, s.channels, totals, of.dScale, of.dBias});
}

/// A kernel that `run` launches, of the element type's tag, the groups of the shape that was `read`, and operands.
template <typename Target, typename Run>
Prepared<Target> overGroups(const KernelSpec &spec, const Result<shapes::GroupNormShape> &read, Run run) {
  ZC_RETURN_IF_ERROR(read.status());
  return withFloat(read->dtype, [&](auto tag) {
    return launching<Target>(spec, [tag, s = Groups(*read), run = std::move(run)](
                                       void *const *operands, const auto &launch) { run(tag, s, operands, launch); });
  });
}

template <typename Target> Prepared<Target> prepareGroupNorm(const KernelSpec &spec) {
  return overGroups<Target>(spec, shapes::readGroupNorm(spec),
                            [](auto tag, const Groups &s, void *const *operands, const auto &launch) {
                              using T = TypeOf<decltype(tag)>;
                              using S = Statistic<T>;
                              auto of = [&](size_t i) { return static_cast<const T *>(operands[i]); };
                              S *centre = static_cast<S *>(launch.workspace()), *factor = centre + s.planes();
                              groupStatistics<T>(launch, s,
                                                 {of(0), of(1), of(2), static_cast<S *>(operands[4]),
                                                  static_cast<S *>(operands[5]), centre, factor, nullptr});
                              overElements(launch, s.elements(),
                                           NormalizeGroupsBody<T>{s, of(0), of(2), static_cast<T *>(operands[3]),
                                                                  centre, factor, s.elements()});
                            });
}

template <typename Target> Prepared<Target> prepareGroupNormStatistics(const KernelSpec &spec) {
  return overGroups<Target>(spec, shapes::readGroupNormStatistics(spec),
                            [](auto tag, const Groups &s, void *const *operands, const auto &launch) {
                              using T = TypeOf<decltype(tag)>;
                              auto to = [&](size_t i) { return static_cast<Statistic<T> *>(operands[i]); };
                              auto of = [&](size_t i) { return static_cast<const T *>(operands[i]); };
                              groupStatistics<T>(launch, s, {of(0), of(1), of(2), to(3), to(4), to(5), to(6), to(7)});
                            });
}

template <typename Target> Prepared<Target> prepareGroupNormGrad(const KernelSpec &spec) {
  return overGroups<Target>(
      spec, shapes::readGroupNormGrad(spec), [](auto tag, const Groups &s, void *const *operands, const auto &launch) {
        using T = TypeOf<decltype(tag)>;
        using S = Statistic<T>;
        auto of = [&](size_t i) { return static_cast<const T *>(operands[i]); };
        auto statistic = [&](size_t i) { return static_cast<const S *>(operands[i]); };
        S *numbers = reinterpret_cast<S *>(static_cast<double *>(launch.workspace()) + 2 * (s.parts + 1) * s.planes());
        auto number = [&](int64_t i) { return numbers + i * s.planes(); };
        groupGradSums<T>(launch, s,
                         {of(0), of(1), of(2), statistic(3), statistic(4), static_cast<T *>(operands[6]),
                          static_cast<T *>(operands[7]), number(0), number(1), number(2), number(3)});
        overElements(launch, s.elements(),
                     GroupGradBody<T>{s, of(0), of(1), static_cast<T *>(operands[5]), number(0), number(1), number(2),
                                      number(3), s.elements()});
      });
}

template <typename Target> Prepared<Target> prepareGroupNormGradSums(const KernelSpec &spec) {
  return overGroups<Target>(spec, shapes::readGroupNormGradSums(spec),
                            [](auto tag, const Groups &s, void *const *operands, const auto &launch) {
                              using T = TypeOf<decltype(tag)>;
                              using S = Statistic<T>;
                              auto of = [&](size_t i) { return static_cast<const T *>(operands[i]); };
                              auto statistic = [&](size_t i) { return static_cast<S *>(operands[i]); };
                              groupGradSums<T>(launch, s,
                                               {of(0), of(1), of(2), statistic(3), statistic(4),
                                                static_cast<T *>(operands[5]), static_cast<T *>(operands[6]),
                                                statistic(7), statistic(8), statistic(9), statistic(10)});
                            });
}

template <typename Target, typename Registry> void addGroupNorms(Registry &registry) {
  registry.add("group_norm", prepareGroupNorm<Target>);
  registry.add("group_norm_grad", prepareGroupNormGrad<Target>);
  registry.add("group_norm_statistics", prepareGroupNormStatistics<Target>);
  registry.add("group_norm_grad_sums", prepareGroupNormGradSums<Target>);
}

} // namespace zc::cuda
