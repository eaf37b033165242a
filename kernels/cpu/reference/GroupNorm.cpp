// group_norm, its gradient, and the sums of both by themselves. Statistics in double, two passes.
#include "kernels/cpu/GroupNormCut.h"
#include "kernels/cpu/reference/StatisticTypes.h"

namespace zc::cpu {
namespace {

/// fn(position) for all elements of channel `c` of sample `n`.
template <typename Fn> void forPlane(const GroupNormShape &s, int64_t n, int64_t c, Fn fn) {
  const int64_t step = s.order().step(), begin = s.order().begin(n * s.channels + c, s.inner);
  for (int64_t i = begin; i < begin + s.inner * step; i += step)
    fn(i);
}
/// fn(sample, group).
template <typename Fn> void forGroups(const GroupNormShape &s, Fn fn) {
  for (int64_t n = 0; n < s.batch; ++n)
    for (int64_t g = 0; g < s.groups; ++g)
      fn(n, g);
}
/// fn(channel) for those of a group.
template <typename Fn> void forChannels(const GroupNormShape &s, int64_t g, Fn fn) {
  for (int64_t c = g * s.perGroup(); c < (g + 1) * s.perGroup(); ++c)
    fn(c);
}

struct GroupStatistics {
  double mean, variance;
};
template <typename T> GroupStatistics groupStatistics(const GroupNormShape &s, const T *x, int64_t n, int64_t g) {
  const auto count = static_cast<double>(s.count());
  double sum = 0, squares = 0;
  forChannels(s, g, [&](int64_t c) { forPlane(s, n, c, [&](int64_t i) { sum += load(x[i]); }); });
  const double mean = sum / count;
  forChannels(s, g, [&](int64_t c) {
    forPlane(s, n, c, [&](int64_t i) { squares += (load(x[i]) - mean) * (load(x[i]) - mean); });
  });
  return {mean, squares / count};
}

Prepared prepareGroupNorm(const KernelSpec &spec) {
  Result<GroupNormShape> read = readGroupNorm(spec);
  ZC_RETURN_IF_ERROR(read.status());
  return withTypes(*read, [&](auto tag, auto statTag) {
    using T = TypeOf<decltype(tag)>;
    using S = TypeOf<decltype(statTag)>;
    return makeKernel([s = *read](void *const *operands, const StepContext &) {
      const T *x = as<T>(operands[0]);
      T *y = as<T>(operands[3]);
      forGroups(s, [&](int64_t n, int64_t g) {
        const GroupStatistics of = groupStatistics(s, x, n, g);
        const double invStd = 1 / std::sqrt(of.variance + s.epsilon);
        forChannels(s, g, [&](int64_t c) {
          const double scale = load(as<T>(operands[1])[c]), bias = load(as<T>(operands[2])[c]);
          forPlane(s, n, c, [&](int64_t i) { y[i] = storeSum<T>((load(x[i]) - of.mean) * invStd * scale + bias); });
        });
        as<S>(operands[4])[n * s.groups + g] = static_cast<S>(of.mean);
        as<S>(operands[5])[n * s.groups + g] = static_cast<S>(of.variance);
      });
    });
  });
}

Prepared prepareGroupNormStatistics(const KernelSpec &spec) {
  Result<GroupNormShape> read = readGroupNormStatistics(spec);
  ZC_RETURN_IF_ERROR(read.status());
  return withTypes(*read, [&](auto tag, auto statTag) {
    using T = TypeOf<decltype(tag)>;
    using S = TypeOf<decltype(statTag)>;
    return makeKernel([s = *read](void *const *operands, const StepContext &) {
      forGroups(s, [&](int64_t n, int64_t g) {
        const GroupStatistics of = groupStatistics(s, as<T>(operands[0]), n, g);
        as<S>(operands[3])[n * s.groups + g] = static_cast<S>(of.mean);
        as<S>(operands[4])[n * s.groups + g] = static_cast<S>(of.variance);
        forChannels(s, g, [&](int64_t c) {
          const double values[] = {of.mean, load(as<T>(operands[1])[c]) / std::sqrt(of.variance + s.epsilon),
                                   load(as<T>(operands[2])[c])};
          for (size_t i = 0; i < std::size(values); ++i)
            as<S>(operands[5 + i])[n * s.channels + c] = static_cast<S>(values[i]);
        });
      });
    });
  });
}

/// With xhat the normalised input and a mean over a group's elements:
/// dscale = sum g xhat; dbias = sum g; dx = (g scale - mean(g scale) - xhat mean(g scale xhat)) / std.
template <typename T, typename S> class GroupGradient {
public:
  GroupGradient(const GroupNormShape &s, const T *grad, const T *x, const T *scale, const S *mean, const S *variance)
      : s(s), grad(grad), x(x), scale(scale), mean(mean), variance(variance) {}

  void toChannels(T *dScale, T *dBias) const {
    for (int64_t c = 0; c < s.channels; ++c) {
      double forScale = 0, forBias = 0;
      for (int64_t n = 0; n < s.batch; ++n)
        forPlane(s, n, c, [&](int64_t i) {
          forScale += load(grad[i]) * xhat(n, c, i);
          forBias += load(grad[i]);
        });
      dScale[c] = storeSum<T>(forScale);
      dBias[c] = storeSum<T>(forBias);
    }
  }
  /// Of a group.
  struct Means {
    double grad, product; ///< of g scale, of g scale xhat
  };
  Means meansOf(int64_t n, int64_t g) const {
    Means sums{0, 0};
    forChannels(s, g, [&](int64_t c) {
      forPlane(s, n, c, [&](int64_t i) {
        sums.grad += load(grad[i]) * load(scale[c]);
        sums.product += load(grad[i]) * load(scale[c]) * xhat(n, c, i);
      });
    });
    const auto count = static_cast<double>(s.count());
    return {sums.grad / count, sums.product / count};
  }
  double invStd(int64_t n, int64_t g) const { return 1 / std::sqrt(variance[n * s.groups + g] + s.epsilon); }
  double xhat(int64_t n, int64_t c, int64_t i) const {
    const int64_t g = c / s.perGroup();
    return (load(x[i]) - mean[n * s.groups + g]) * invStd(n, g);
  }

private:
  const GroupNormShape &s;
  const T *grad, *x, *scale;
  const S *mean, *variance;
};

Prepared prepareGroupNormGrad(const KernelSpec &spec) {
  Result<GroupNormShape> read = readGroupNormGrad(spec);
  ZC_RETURN_IF_ERROR(read.status());
  return withTypes(*read, [&](auto tag, auto statTag) {
    using T = TypeOf<decltype(tag)>;
    using S = TypeOf<decltype(statTag)>;
    return makeKernel([s = *read](void *const *operands, const StepContext &) {
      const T *grad = as<T>(operands[0]), *scale = as<T>(operands[2]);
      const GroupGradient<T, S> of(s, grad, as<T>(operands[1]), scale, as<S>(operands[3]), as<S>(operands[4]));
      T *dx = as<T>(operands[5]);
      forGroups(s, [&](int64_t n, int64_t g) {
        const auto means = of.meansOf(n, g);
        const double invStd = of.invStd(n, g);
        forChannels(s, g, [&](int64_t c) {
          forPlane(s, n, c, [&](int64_t i) {
            dx[i] =
                storeSum<T>(invStd * (load(grad[i]) * load(scale[c]) - means.grad - of.xhat(n, c, i) * means.product));
          });
        });
      });
      of.toChannels(as<T>(operands[6]), as<T>(operands[7]));
    });
  });
}

/// Of the gradient what is there for each channel, so that dx = factor g - ((x - centre) slope + offset).
Prepared prepareGroupNormGradSums(const KernelSpec &spec) {
  Result<GroupNormShape> read = readGroupNormGradSums(spec);
  ZC_RETURN_IF_ERROR(read.status());
  return withTypes(*read, [&](auto tag, auto statTag) {
    using T = TypeOf<decltype(tag)>;
    using S = TypeOf<decltype(statTag)>;
    return makeKernel([s = *read](void *const *operands, const StepContext &) {
      const T *scale = as<T>(operands[2]);
      const S *mean = as<S>(operands[3]);
      const GroupGradient<T, S> of(s, as<T>(operands[0]), as<T>(operands[1]), scale, mean, as<S>(operands[4]));
      of.toChannels(as<T>(operands[5]), as<T>(operands[6]));
      forGroups(s, [&](int64_t n, int64_t g) {
        const auto means = of.meansOf(n, g);
        const double invStd = of.invStd(n, g);
        forChannels(s, g, [&](int64_t c) {
          const double values[] = {mean[n * s.groups + g], load(scale[c]) * invStd, means.product * invStd * invStd,
                                   means.grad * invStd};
          for (size_t i = 0; i < std::size(values); ++i)
            as<S>(operands[7 + i])[n * s.channels + c] = static_cast<S>(values[i]);
        });
      });
    });
  });
}

//===-- workspace: what the fast versions need ---------------------------------===//

template <bool isWhole, bool isGrad> int64_t bytesFor(const GroupNormShape &s) {
  return isFast(s.dtype) ? GroupNormCut(s, isWhole, isGrad).bytes() : 0;
}

} // namespace

void addGroupNorm(KernelRegistry &registry) {
  registry.add("group_norm", prepareGroupNorm, bytesOf<readGroupNorm, bytesFor<true, false>>);
  registry.add("group_norm_grad", prepareGroupNormGrad, bytesOf<readGroupNormGrad, bytesFor<true, true>>);
  registry.add("group_norm_statistics", prepareGroupNormStatistics,
               bytesOf<readGroupNormStatistics, bytesFor<false, false>>);
  registry.add("group_norm_grad_sums", prepareGroupNormGradSums, bytesOf<readGroupNormGradSums, bytesFor<false, true>>);
}

} // namespace zc::cpu
