//===- BatchNorm.h - batch norm over channels, its gradient and its evaluation form ------===//
//
// Statistics are sums in double over a channel's elements, in parts that depend on shapes alone; parts are added in
// order. Then a pass over elements. Limit: memory (three passes forward, two backward); goal 0.85 of a device copy.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "kernels/cpu/Windows.h"
#include "kernels/cuda/Launch.h"
#include "kernels/cuda/StridedIndex.h"

namespace zc::cuda {

using namespace formula;

/// Statistics are f32, or f64 for f64 tensors.
template <typename T> using Statistic = std::conditional_t<std::is_same_v<T, double>, double, float>;

/// Channels of a tensor [batch, channels, inner].
struct Channels {
  int64_t channels, count, inner; ///< count: elements of a channel
  int parts;                      ///< into which a channel's sums are cut
  StridedIndex<1> element;        ///< element i of channel 0
  StridedIndex<1> channel;        ///< of element i of the tensor

  explicit Channels(const cpu::BatchNormShape &s)
      : channels(s.channels), count(s.batch * s.inner), inner(s.inner), parts(channelParts(s)),
        element(cpu::Walk<1>({s.batch, s.inner}, {cpu::Dims{s.channels * s.inner, 1}})),
        channel(cpu::Walk<1>({s.batch, s.channels, s.inner}, {cpu::Dims{0, 1, 0}})) {}
  ZC_HD int64_t at(int64_t c, int64_t i) const {
    int64_t offset[1];
    element.offsets(i, offset);
    return c * inner + offset[0];
  }
  ZC_HD int64_t channelOf(int64_t i) const {
    int64_t offset[1];
    channel.offsets(i, offset);
    return offset[0];
  }
  /// The sum of a channel's parts.
  ZC_HD double total(const double *partial, int64_t c) const {
    double sum = 0;
    inBatches(0, parts, [&](int64_t p) { return partial[c * parts + p]; }, [&](double part) { sum += part; });
    return sum;
  }
};

/// Block (channel, part): sums[k][index] of f(place, channel) for k in [0, N).
template <int N, typename F> struct ChannelSumsBody {
  Channels s;
  double *sums; ///< N runs of channels * parts
  F f;
  template <typename Block> ZC_HD void operator()(Block &block, int64_t index, const Frame &) const {
    int64_t c = index / s.parts, part = index % s.parts;
    int64_t begin = s.count * part / s.parts, end = s.count * (part + 1) / s.parts;
    auto channel = f.of(s, c);
    for (int k = 0; k < N; ++k) {
      double sum =
          block.template reduce<AddOf>(end - begin, 0.0, [&](int64_t i) { return channel(k, s.at(c, begin + i)); });
      block.once([&] { sums[k * s.channels * s.parts + index] = sum; });
    }
  }
};

/// What is summed of a channel's elements: x, or squares of what differs from the mean.
template <typename T> struct PlainSum {
  const T *x;
  struct Of {
    const T *x;
    ZC_HD double operator()(int, int64_t at) const { return static_cast<double>(load(x[at])); }
  };
  ZC_HD Of of(const Channels &, int64_t) const { return {x}; }
};
template <typename T> struct SquaresSum {
  const T *x;
  const double *sums;
  struct Of {
    const T *x;
    double mean;
    ZC_HD double operator()(int, int64_t at) const {
      double centred = static_cast<double>(load(x[at])) - mean;
      return centred * centred;
    }
  };
  ZC_HD Of of(const Channels &s, int64_t c) const { return {x, s.total(sums, c) / static_cast<double>(s.count)}; }
};
/// Of the gradient: g * xhat, and g.
template <typename T> struct GradSums {
  const T *grad, *x;
  const Statistic<T> *mean, *variance;
  double epsilon;
  struct Of {
    const T *grad, *x;
    double mean, invStd;
    ZC_HD double operator()(int k, int64_t at) const {
      auto g = static_cast<double>(load(grad[at]));
      return k == 0 ? g * ((static_cast<double>(load(x[at])) - mean) * invStd) : g;
    }
  };
  ZC_HD Of of(const Channels &, int64_t c) const {
    return {grad, x, static_cast<double>(mean[c]), 1 / std::sqrt(static_cast<double>(variance[c]) + epsilon)};
  }
};

/// y = x * factor + shift of each channel: what statistics, scale and bias make of it is found once per channel.
template <typename T> struct BatchNormFinishBody {
  Channels s;
  const double *sums, *squares;
  const T *scale, *bias;
  double *centre, *factor, *shift; ///< per channel
  Statistic<T> *mean, *variance;
  double epsilon;
  template <typename Block> ZC_HD void operator()(Block &block, int64_t index, const Frame &) const {
    forResults(block, index, s.channels, [&](int64_t c) {
      double m = s.total(sums, c) / static_cast<double>(s.count),
             v = s.total(squares, c) / static_cast<double>(s.count);
      centre[c] = m;
      factor[c] = 1 / std::sqrt(v + epsilon) * static_cast<double>(load(scale[c]));
      shift[c] = static_cast<double>(load(bias[c]));
      mean[c] = static_cast<Statistic<T>>(m);
      variance[c] = static_cast<Statistic<T>>(v);
    });
  }
};
template <typename T> struct BatchNormApplyFinishBody {
  const T *scale, *bias, *mean, *variance;
  double *centre, *factor, *shift;
  int64_t channels;
  double epsilon;
  template <typename Block> ZC_HD void operator()(Block &block, int64_t index, const Frame &) const {
    forResults(block, index, channels, [&](int64_t c) {
      centre[c] = static_cast<double>(load(mean[c]));
      factor[c] = static_cast<double>(load(scale[c])) / std::sqrt(static_cast<double>(load(variance[c])) + epsilon);
      shift[c] = static_cast<double>(load(bias[c]));
    });
  }
};
template <typename T> struct NormalizeChannelsBody {
  Channels s;
  const T *x;
  T *y;
  const double *centre, *factor, *shift;
  int64_t n;
  template <typename Block> ZC_HD void operator()(Block &block, int64_t index, const Frame &) const {
    forElements(block, index, n, [&](int64_t i) {
      int64_t c = s.channelOf(i);
      y[i] = storeSum<T>((static_cast<double>(load(x[i])) - centre[c]) * factor[c] + shift[c]);
    });
  }
};

/// dx = g * onGrad - x * onX - rest, of each channel: with xhat = (x - mean) / std,
/// dx = scale / std * (g - (dbias + xhat dscale) / count).
template <typename T> struct BatchNormGradFinishBody {
  Channels s;
  const double *sums; ///< of g xhat, then of g
  const T *scale;
  const Statistic<T> *mean, *variance;
  double *onGrad, *onX, *rest;
  T *dScale, *dBias;
  double epsilon;
  template <typename Block> ZC_HD void operator()(Block &block, int64_t index, const Frame &) const {
    forResults(block, index, s.channels, [&](int64_t c) {
      double forScale = s.total(sums, c), forBias = s.total(sums + s.channels * s.parts, c);
      double invStd = 1 / std::sqrt(static_cast<double>(variance[c]) + epsilon);
      auto count = static_cast<double>(s.count);
      onGrad[c] = static_cast<double>(load(scale[c])) * invStd;
      onX[c] = onGrad[c] * invStd * forScale / count;
      rest[c] = onGrad[c] * forBias / count - onX[c] * static_cast<double>(mean[c]);
      dScale[c] = storeSum<T>(forScale);
      dBias[c] = storeSum<T>(forBias);
    });
  }
};
template <typename T> struct BatchNormGradBody {
  Channels s;
  const T *grad, *x;
  T *d;
  const double *onGrad, *onX, *rest;
  int64_t n;
  template <typename Block> ZC_HD void operator()(Block &block, int64_t index, const Frame &) const {
    forElements(block, index, n, [&](int64_t at) {
      int64_t c = s.channelOf(at);
      d[at] = storeSum<T>(static_cast<double>(load(grad[at])) * onGrad[c] - static_cast<double>(load(x[at])) * onX[c] -
                          rest[c]);
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

template <int N, typename Launcher, typename F>
void channelSums(const Launcher &launch, const Channels &s, double *sums, const F &f) {
  overRows(launch, s.channels * s.parts, s.count / s.parts, ChannelSumsBody<N, F>{s, sums, f});
}

template <typename Target> Prepared<Target> prepareBatchNorm(const KernelSpec &spec) {
  Result<cpu::BatchNormShape> read = cpu::readBatchNorm(spec);
  ZC_RETURN_IF_ERROR(read.status());
  return withFloat(read->dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    return launching<Target>(spec, [s = Channels(*read), epsilon = read->epsilon,
                                    n = spec.operands[0].numElements()](void *const *operands, const auto &launch) {
      auto *x = static_cast<const T *>(operands[0]);
      auto *sums = static_cast<double *>(launch.workspace()), *squares = sums + s.channels * s.parts;
      double *centre = squares + s.channels * s.parts, *factor = centre + s.channels, *shift = factor + s.channels;
      channelSums<1>(launch, s, sums, PlainSum<T>{x});
      channelSums<1>(launch, s, squares, SquaresSum<T>{x, sums});
      overResults(launch, s.channels,
                  BatchNormFinishBody<T>{s, sums, squares, static_cast<const T *>(operands[1]),
                                         static_cast<const T *>(operands[2]), centre, factor, shift,
                                         static_cast<Statistic<T> *>(operands[4]),
                                         static_cast<Statistic<T> *>(operands[5]), epsilon});
      overElements(launch, n, NormalizeChannelsBody<T>{s, x, static_cast<T *>(operands[3]), centre, factor, shift, n});
    });
  });
}

template <typename Target> Prepared<Target> prepareBatchNormGrad(const KernelSpec &spec) {
  Result<cpu::BatchNormShape> read = cpu::readBatchNormGrad(spec);
  ZC_RETURN_IF_ERROR(read.status());
  return withFloat(read->dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    return launching<Target>(spec, [s = Channels(*read), epsilon = read->epsilon,
                                    n = spec.operands[0].numElements()](void *const *operands, const auto &launch) {
      auto *grad = static_cast<const T *>(operands[0]), *x = static_cast<const T *>(operands[1]);
      auto *mean = static_cast<const Statistic<T> *>(operands[3]);
      auto *variance = static_cast<const Statistic<T> *>(operands[4]);
      auto *sums = static_cast<double *>(launch.workspace());
      double *onGrad = sums + 2 * s.channels * s.parts, *onX = onGrad + s.channels, *rest = onX + s.channels;
      channelSums<2>(launch, s, sums, GradSums<T>{grad, x, mean, variance, epsilon});
      overResults(launch, s.channels,
                  BatchNormGradFinishBody<T>{s, sums, static_cast<const T *>(operands[2]), mean, variance, onGrad, onX,
                                             rest, static_cast<T *>(operands[6]), static_cast<T *>(operands[7]),
                                             epsilon});
      overElements(launch, n, BatchNormGradBody<T>{s, grad, x, static_cast<T *>(operands[5]), onGrad, onX, rest, n});
    });
  });
}

template <typename Target> Prepared<Target> prepareBatchNormApply(const KernelSpec &spec) {
  Result<cpu::BatchNormShape> read = cpu::readBatchNormApply(spec);
  ZC_RETURN_IF_ERROR(read.status());
  return withFloat(read->dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    return launching<Target>(spec, [s = Channels(*read), epsilon = read->epsilon,
                                    n = spec.operands[0].numElements()](void *const *operands, const auto &launch) {
      auto of = [&](size_t i) { return static_cast<const T *>(operands[i]); };
      auto *centre = static_cast<double *>(launch.workspace()), *factor = centre + s.channels;
      double *shift = factor + s.channels;
      overResults(launch, s.channels,
                  BatchNormApplyFinishBody<T>{of(1), of(2), of(3), of(4), centre, factor, shift, s.channels, epsilon});
      overElements(launch, n,
                   NormalizeChannelsBody<T>{s, of(0), static_cast<T *>(operands[5]), centre, factor, shift, n});
    });
  });
}

template <typename Target> Prepared<Target> prepareMovingAverage(const KernelSpec &spec) {
  ZC_RETURN_IF_ERROR(cpu::checkMovingAverage(spec));
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

template <typename Target, typename Registry> void addBatchNorms(Registry &registry) {
  registry.add("batch_norm", prepareBatchNorm<Target>);
  registry.add("batch_norm_grad", prepareBatchNormGrad<Target>);
  registry.add("batch_norm_apply", prepareBatchNormApply<Target>);
  registry.add("moving_average", prepareMovingAverage<Target>);
}

} // namespace zc::cuda
