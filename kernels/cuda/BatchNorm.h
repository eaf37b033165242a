//===- BatchNorm.h - batch norm over channels, its gradient and its evaluation form ------===//
//
// Statistics are sums in double over a channel's elements, in parts that depend on shapes alone; parts are added in
// order. Then a pass over elements, in fp32 (f64 for f64), as it is where it is apart and joins the programs around it.
// Limit: memory (three passes forward, two backward); goal 0.85 of a device copy.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "kernels/Prologue.h"
#include "kernels/cuda/ChannelSums.h"
#include "kernels/cuda/Launch.h"
#include "kernels/cuda/StridedIndex.h"
#include "kernels/shapes/Windows.h"

namespace zc::cuda {

using namespace formula;

/// Statistics are f32, or f64 for f64 tensors.
template <typename T> using Statistic = std::conditional_t<std::is_same_v<T, double>, double, float>;

/// Channels of a tensor [batch, channels, inner], or [batch, inner, channels].
struct Channels {
  int64_t channels, count; ///< count: elements of a channel
  int64_t parts;           ///< into which a channel's sums are cut
  bool areLast;
  int64_t step;            ///< from a channel's first element to the next one's
  StridedIndex<1> element; ///< element i of channel 0
  StridedIndex<1> channel; ///< of element i of the tensor

  explicit Channels(const shapes::BatchNormShape &s)
      : channels(s.channels), count(s.batch * s.inner), parts(channelParts(s)), areLast(s.channelsLast),
        step(areLast ? 1 : s.inner),
        element(areLast ? shapes::Walk<1>({count}, {shapes::Dims{channels}})
                        : shapes::Walk<1>({s.batch, s.inner}, {shapes::Dims{channels * s.inner, 1}})),
        channel(areLast ? shapes::Walk<1>({count, channels}, {shapes::Dims{0, 1}})
                        : shapes::Walk<1>({s.batch, channels, s.inner}, {shapes::Dims{0, 1, 0}})) {}
  int64_t elements() const { return channels * count; }
  ZC_HD int64_t at(int64_t c, int64_t i) const {
    int64_t offset[1];
    element.offsets(i, offset);
    return c * step + offset[0];
  }
  ZC_HD int64_t channelOf(int64_t i) const {
    int64_t offset[1];
    channel.offsets(i, offset);
    return offset[0];
  }
};

/// Block (channel, part): partial[k][channel][part] of what F says is summed (ChannelSums.h).
template <typename F> struct ChannelSumsBody {
  Channels s;
  double *partial;
  F f;
  template <typename Block> ZC_HD void operator()(Block &block, int64_t index, const Frame &) const {
    const int64_t c = index / s.parts, part = index % s.parts;
    const int64_t begin = s.count * part / s.parts, end = s.count * (part + 1) / s.parts;
    const auto own = f.template of<1>(c);
    for (int k = 0; k < F::kSums; ++k) {
      double sum = block.template reduce<AddOf>(end - begin, 0.0, [&](int64_t i) {
        double sums[F::kSums][1] = {};
        own.add(own.load(s.at(c, begin + i)), sums);
        return sums[k][0];
      });
      block.once([&] { partial[k * s.channels * s.parts + index] = sum; });
    }
  }
};
/// The same of channels that are last.
template <int V, typename F> struct ColumnSumsBody {
  ColumnCut cut;
  F f;
  template <typename Block> ZC_HD void operator()(Block &block, int64_t index, const Frame &) const {
    columnSums<V>(block, index, cut, f);
  }
};
/// Block i: the sum of its parts.
struct JoinPartsBody {
  const double *partial;
  double *totals;
  int64_t parts;
  template <typename Block> ZC_HD void operator()(Block &block, int64_t index, const Frame &) const {
    const double sum = block.template reduce<AddOf>(parts, 0.0, [&](int64_t i) { return partial[index * parts + i]; });
    block.once([&] { totals[index] = sum; });
  }
};

/// What is summed of a channel's elements: x, or squares of what differs from the mean.
template <typename T> struct PlainSum {
  static constexpr int kSums = 1;
  const T *x;
  template <int V> struct Of {
    const T *x;
    ZC_HD Pack<T, V> load(int64_t at) const { return loadPack<V, T>(x, at); }
    ZC_HD void add(const Pack<T, V> &loaded, double (&to)[kSums][V]) const {
      for (int v = 0; v < V; ++v)
        to[0][v] += static_cast<double>(formula::load(loaded.element[v]));
    }
  };
  template <int V> ZC_HD Of<V> of(int64_t) const { return {x}; }
};
template <typename T> struct SquaresSum {
  static constexpr int kSums = 1;
  const T *x;
  const double *totals;
  double count;
  template <int V> struct Of {
    const T *x;
    double mean[V];
    ZC_HD Pack<T, V> load(int64_t at) const { return loadPack<V, T>(x, at); }
    ZC_HD void add(const Pack<T, V> &loaded, double (&to)[kSums][V]) const {
      for (int v = 0; v < V; ++v) {
        const double centred = static_cast<double>(formula::load(loaded.element[v])) - mean[v];
        to[0][v] += centred * centred;
      }
    }
  };
  template <int V> ZC_HD Of<V> of(int64_t c) const {
    Of<V> own{x, {}};
    for (int v = 0; v < V; ++v)
      own.mean[v] = totals[c + v] / count;
    return own;
  }
};

/// y = (x - mean) * factor + shift of each channel: what statistics, scale and bias make of it is found once per
/// channel.
template <typename T> struct BatchNormFinishBody {
  int64_t channels;
  double count;
  const double *totals, *squares;
  const T *scale, *bias;
  Statistic<T> *mean, *variance, *factor, *shift;
  double epsilon;
  template <typename Block> ZC_HD void operator()(Block &block, int64_t index, const Frame &) const {
    forResults(block, index, channels, [&](int64_t c) {
      const double v = squares[c] / count;
      mean[c] = static_cast<Statistic<T>>(totals[c] / count);
      variance[c] = static_cast<Statistic<T>>(v);
      factor[c] = static_cast<Statistic<T>>(static_cast<double>(load(scale[c])) / std::sqrt(v + epsilon));
      shift[c] = load(bias[c]);
    });
  }
};
template <typename T> struct BatchNormApplyFinishBody {
  int64_t channels;
  const T *scale, *bias, *mean, *variance;
  Statistic<T> *centre, *factor, *shift;
  double epsilon;
  template <typename Block> ZC_HD void operator()(Block &block, int64_t index, const Frame &) const {
    forResults(block, index, channels, [&](int64_t c) {
      centre[c] = load(mean[c]);
      factor[c] = static_cast<Statistic<T>>(static_cast<double>(load(scale[c])) /
                                            std::sqrt(static_cast<double>(load(variance[c])) + epsilon));
      shift[c] = load(bias[c]);
    });
  }
};
template <typename T> struct NormalizeChannelsBody {
  Channels s;
  const T *x;
  T *y;
  const Statistic<T> *centre, *factor, *shift;
  int64_t n;
  template <typename Block> ZC_HD void operator()(Block &block, int64_t index, const Frame &) const {
    forElements(block, index, n, [&](int64_t i) {
      const int64_t c = s.channelOf(i);
      y[i] = store<T>((load(x[i]) - centre[c]) * factor[c] + shift[c]);
    });
  }
};

/// dx = factor * ((g - mean_grad) - (x - mean) * slope), of each channel: with xhat = (x - mean) / std,
/// dx = scale / std * (g - (dbias + xhat dscale) / count).
template <typename T> struct BatchNormGradFinishBody {
  int64_t channels;
  double count;
  const double *totals; ///< of g xhat, then of g
  const T *scale;
  const Statistic<T> *variance;
  T *dScale, *dBias;
  Statistic<T> *factor, *meanGrad, *slope;
  double epsilon;
  template <typename Block> ZC_HD void operator()(Block &block, int64_t index, const Frame &) const {
    forResults(block, index, channels, [&](int64_t c) {
      const double forScale = totals[c], forBias = totals[channels + c];
      const double invStd = 1 / std::sqrt(static_cast<double>(variance[c]) + epsilon);
      dScale[c] = storeSum<T>(forScale);
      dBias[c] = storeSum<T>(forBias);
      factor[c] = static_cast<Statistic<T>>(static_cast<double>(load(scale[c])) * invStd);
      meanGrad[c] = static_cast<Statistic<T>>(forBias / count);
      slope[c] = static_cast<Statistic<T>>(forScale * invStd / count);
    });
  }
};
template <typename T> struct BatchNormGradBody {
  Channels s;
  const T *grad, *x;
  T *d;
  const Statistic<T> *mean, *factor, *meanGrad, *slope;
  int64_t n;
  template <typename Block> ZC_HD void operator()(Block &block, int64_t index, const Frame &) const {
    forElements(block, index, n, [&](int64_t at) {
      const int64_t c = s.channelOf(at);
      d[at] = store<T>(factor[c] * ((load(grad[at]) - meanGrad[c]) - (load(x[at]) - mean[c]) * slope[c]));
    });
  }
};

template <typename T> struct MovingAverageBody {
  const T *old, *next;
  T *y;
  int64_t n;
  double momentum, factor;
  template <typename Block> ZC_HD void operator()(Block &block, int64_t index, const Frame &) const {
    forElements(block, index, n, [&](int64_t i) {
      y[i] = storeSum<T>(momentum * static_cast<double>(load(old[i])) +
                         (1 - momentum) * factor * static_cast<double>(load(next[i])));
    });
  }
};

/// What these kernels work in: batchNormBytes.
template <typename T> struct NormSpace {
  double *partial, *totals;
  Statistic<T> *ofChannels; ///< three runs
  NormSpace(void *workspace, const Channels &s, int64_t sums)
      : partial(static_cast<double *>(workspace)), totals(partial + sums * s.channels * s.parts),
        ofChannels(reinterpret_cast<Statistic<T> *>(totals + sums * s.channels)) {}
};

template <typename Launcher>
void joinParts(const Launcher &launch, const Channels &s, int64_t sums, const double *partial, double *totals) {
  overRows(launch, sums * s.channels, s.parts, JoinPartsBody{partial, totals, s.parts});
}

/// totals[k][channel] of what F says is summed; `tensors`: that it loads.
template <typename T, typename Launcher, typename F, typename... Tensors>
void channelSums(const Launcher &launch, const Channels &s, double *partial, double *totals, const F &f,
                 const Tensors *...tensors) {
  const ColumnCut cut{s.count, s.channels, s.parts, partial};
  constexpr int V = kColumnPack<T>;
  if (!s.areLast)
    overRows(launch, s.channels * s.parts, s.count / s.parts, ChannelSumsBody<F>{s, partial, f});
  else if (s.channels % V == 0 && ((reinterpret_cast<uintptr_t>(tensors) % (V * sizeof(T)) == 0) && ...))
    launch.template blocks<kColumnThreads>(cut.blocks(V), ColumnSumsBody<V, F>{cut, f});
  else
    launch.template blocks<kColumnThreads>(cut.blocks(1), ColumnSumsBody<1, F>{cut, f});
  joinParts(launch, s, F::kSums, partial, totals);
}

/// Statistics, and what makes the result of them.
template <typename T, typename Launcher>
void statistics(const Launcher &launch, const Channels &s, const NormSpace<T> &space, double epsilon, const T *x,
                const T *scale, const T *bias, Statistic<T> *mean, Statistic<T> *variance, Statistic<T> *factor,
                Statistic<T> *shift) {
  double *squares = space.totals + s.channels;
  const auto count = static_cast<double>(s.count);
  channelSums<T>(launch, s, space.partial, space.totals, PlainSum<T>{x}, x);
  channelSums<T>(launch, s, space.partial + s.channels * s.parts, squares, SquaresSum<T>{x, space.totals, count}, x);
  overResults(launch, s.channels,
              BatchNormFinishBody<T>{s.channels, count, space.totals, squares, scale, bias, mean, variance, factor,
                                     shift, epsilon});
}

/// A kernel that `run` launches, of the element type's tag, the shape that was `read`, and operands.
template <typename Target, typename Run>
Prepared<Target> overChannels(const KernelSpec &spec, const Result<shapes::BatchNormShape> &read, Run run) {
  ZC_RETURN_IF_ERROR(read.status());
  return withFloat(read->dtype, [&](auto tag) {
    return launching<Target>(spec, [tag, s = Channels(*read), epsilon = read->epsilon,
                                    run = std::move(run)](void *const *operands, const auto &launch) {
      run(tag, s, epsilon, operands, launch);
    });
  });
}

template <typename Target> Prepared<Target> prepareBatchNorm(const KernelSpec &spec) {
  return overChannels<Target>(
      spec, shapes::readBatchNorm(spec),
      [](auto tag, const Channels &s, double epsilon, void *const *operands, const auto &launch) {
        using T = TypeOf<decltype(tag)>;
        auto of = [&](size_t i) { return static_cast<const T *>(operands[i]); };
        auto to = [&](size_t i) { return static_cast<Statistic<T> *>(operands[i]); };
        const NormSpace<T> space(launch.workspace(), s, 2);
        Statistic<T> *factor = space.ofChannels, *shift = factor + s.channels;
        statistics<T>(launch, s, space, epsilon, of(0), of(1), of(2), to(4), to(5), factor, shift);
        overElements(
            launch, s.elements(),
            NormalizeChannelsBody<T>{s, of(0), static_cast<T *>(operands[3]), to(4), factor, shift, s.elements()});
      });
}

template <typename Target> Prepared<Target> prepareBatchNormStatistics(const KernelSpec &spec) {
  return overChannels<Target>(
      spec, shapes::readBatchNormStatistics(spec),
      [](auto tag, const Channels &s, double epsilon, void *const *operands, const auto &launch) {
        using T = TypeOf<decltype(tag)>;
        auto of = [&](size_t i) { return static_cast<const T *>(operands[i]); };
        auto to = [&](size_t i) { return static_cast<Statistic<T> *>(operands[i]); };
        statistics<T>(launch, s, NormSpace<T>(launch.workspace(), s, 2), epsilon, of(0), of(1), of(2), to(3), to(4),
                      to(5), to(6));
      });
}

template <typename Target> Prepared<Target> prepareBatchNormGrad(const KernelSpec &spec) {
  return overChannels<Target>(
      spec, shapes::readBatchNormGrad(spec),
      [](auto tag, const Channels &s, double epsilon, void *const *operands, const auto &launch) {
        using T = TypeOf<decltype(tag)>;
        using S = Statistic<T>;
        auto *grad = static_cast<const T *>(operands[0]), *x = static_cast<const T *>(operands[1]);
        auto *mean = static_cast<const S *>(operands[3]), *variance = static_cast<const S *>(operands[4]);
        const NormSpace<T> space(launch.workspace(), s, 2);
        S *factor = space.ofChannels, *meanGrad = factor + s.channels, *slope = meanGrad + s.channels;
        channelSums<T>(launch, s, space.partial, space.totals,
                       GradSums<StoredGrad<T>, T, S>{{grad}, x, mean, variance, epsilon}, grad, x);
        overResults(launch, s.channels,
                    BatchNormGradFinishBody<T>{s.channels, static_cast<double>(s.count), space.totals,
                                               static_cast<const T *>(operands[2]), variance,
                                               static_cast<T *>(operands[6]), static_cast<T *>(operands[7]), factor,
                                               meanGrad, slope, epsilon});
        overElements(launch, s.elements(),
                     BatchNormGradBody<T>{s, grad, x, static_cast<T *>(operands[5]), mean, factor, meanGrad, slope,
                                          s.elements()});
      });
}

/// `ofProgram` makes, of a spec with a program, what leaves partial sums where the workspace begins.
template <typename Target>
Prepared<Target> prepareBatchNormGradSums(const KernelSpec &spec, const PartMaker<Target> &ofProgram) {
  Result<ProgrammedSpec> seen = throughProgram(spec);
  ZC_RETURN_IF_ERROR(seen.status());
  Result<shapes::BatchNormShape> read = shapes::readBatchNormGradSums(seen->spec);
  ZC_RETURN_IF_ERROR(read.status());
  std::shared_ptr<typename Target::KernelType> program;
  if (seen->prologue) {
    if (!read->channelsLast)
      return shapes::wrongSpec(spec, "a program of tensors whose channels are last");
    Prepared<Target> made = ofProgram(spec);
    ZC_RETURN_IF_ERROR(made.status());
    program = std::move(*made);
  }
  return overChannels<Target>(
      spec, read,
      [first = seen->place(0), program](auto tag, const Channels &s, double epsilon, void *const *operands,
                                        const auto &launch) {
        using T = TypeOf<decltype(tag)>;
        using S = Statistic<T>;
        void *const *own = operands + first; // as described, but for the gradient where a program computes it
        auto *grad = static_cast<const T *>(own[0]), *x = static_cast<const T *>(own[1]);
        auto *mean = static_cast<const S *>(own[3]), *variance = static_cast<const S *>(own[4]);
        const NormSpace<T> space(launch.workspace(), s, 2);
        if (program) {
          launch.call(*program, operands);
          joinParts(launch, s, 2, space.partial, space.totals);
        } else {
          channelSums<T>(launch, s, space.partial, space.totals,
                         GradSums<StoredGrad<T>, T, S>{{grad}, x, mean, variance, epsilon}, grad, x);
        }
        overResults(launch, s.channels,
                    BatchNormGradFinishBody<T>{s.channels, static_cast<double>(s.count), space.totals,
                                               static_cast<const T *>(own[2]), variance, static_cast<T *>(own[5]),
                                               static_cast<T *>(own[6]), static_cast<S *>(own[7]),
                                               static_cast<S *>(own[8]), static_cast<S *>(own[9]), epsilon});
      });
}

template <typename Target> Prepared<Target> prepareBatchNormApply(const KernelSpec &spec) {
  return overChannels<Target>(
      spec, shapes::readBatchNormApply(spec),
      [](auto tag, const Channels &s, double epsilon, void *const *operands, const auto &launch) {
        using T = TypeOf<decltype(tag)>;
        auto of = [&](size_t i) { return static_cast<const T *>(operands[i]); };
        Statistic<T> *centre = NormSpace<T>(launch.workspace(), s, 0).ofChannels, *factor = centre + s.channels,
                     *shift = factor + s.channels;
        overResults(
            launch, s.channels,
            BatchNormApplyFinishBody<T>{s.channels, of(1), of(2), of(3), of(4), centre, factor, shift, epsilon});
        overElements(
            launch, s.elements(),
            NormalizeChannelsBody<T>{s, of(0), static_cast<T *>(operands[5]), centre, factor, shift, s.elements()});
      });
}

template <typename Target> Prepared<Target> prepareMovingAverage(const KernelSpec &spec) {
  ZC_RETURN_IF_ERROR(shapes::checkMovingAverage(spec));
  return withFloat(spec.operands[0].dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    return launching<Target>(spec, [n = spec.operands[0].numElements(), momentum = spec.getReal("momentum", 0),
                                    factor = spec.getReal("factor", 1)](void *const *operands, const auto &launch) {
      overElements(launch, n,
                   MovingAverageBody<T>{static_cast<const T *>(operands[0]), static_cast<const T *>(operands[1]),
                                        static_cast<T *>(operands[2]), n, momentum, factor});
    });
  });
}

/// `ofProgram`: prepareBatchNormGradSums'.
template <typename Target, typename Registry> void addBatchNorms(Registry &registry, PartMaker<Target> ofProgram) {
  registry.add("batch_norm", prepareBatchNorm<Target>);
  registry.add("batch_norm_grad", prepareBatchNormGrad<Target>);
  registry.add("batch_norm_statistics", prepareBatchNormStatistics<Target>);
  registry.add("batch_norm_grad_sums", [ofProgram = std::move(ofProgram)](const KernelSpec &spec) {
    return prepareBatchNormGradSums<Target>(spec, ofProgram);
  });
  registry.add("batch_norm_apply", prepareBatchNormApply<Target>);
  registry.add("moving_average", prepareMovingAverage<Target>);
}

} // namespace zc::cuda
