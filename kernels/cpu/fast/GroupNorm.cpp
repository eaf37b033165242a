// group_norm, its gradient, and the sums of both by themselves, in either order. Channels last: rows of channels, a
// vector of channels at a time; each sample's rows are cut into parts by the shape alone, and parts into blocks that
// stay in a cache, as BatchNormLast.cpp has them. In the model's order a sample's channels are runs of `inner`
// elements, those of a group side by side. Runs and blocks are summed in fp32, their sums in double, so that results do
// not depend on threads; statistics by two passes, about a block's own mean or the group's.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/fast/GroupNorm.cpp"
#include <hwy/foreach_target.h>

#include "kernels/cpu/fast/ChannelRows-inl.h"
#include "kernels/cpu/fast/ChannelRuns-inl.h"

#include <algorithm>
#include <cmath>

HWY_BEFORE_NAMESPACE();
namespace zc::cpu {
namespace HWY_NAMESPACE {

/// Adds a block [rows, n] to totals[3][groups]: its sum and its elements' squares about each channel's mean, and what
/// the means' own squares weigh. `room`: [2][n].
void blockOfGroups(DType type, const void *x, int64_t rows, int64_t n, int64_t groups, float *room, double *totals) {
  withFast(type, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    blockStatistics(static_cast<const T *>(x), rows, n, room);
  });
  const float *mean = room, *squares = room + n;
  for (int64_t g = 0; g < groups; ++g)
    for (int64_t c = n / groups * g; c < n / groups * (g + 1); ++c) {
      const double part = static_cast<double>(rows) * mean[c];
      totals[g] += part;
      totals[groups + g] += part * mean[c];
      totals[2 * groups + g] += squares[c];
    }
}

/// Mean and variance of `planes` runs of `n` elements, side by side.
void statisticsOfRuns(DType type, const void *x, int64_t planes, int64_t n, double *mean, double *variance) {
  withFast(type, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    const T *first = static_cast<const T *>(x);
    const auto count = static_cast<double>(planes * n);
    double sum = 0, squares = 0;
    for (int64_t p = 0; p < planes; ++p)
      sum += sumRun(first + p * n, n);
    *mean = static_cast<float>(sum / count);
    for (int64_t p = 0; p < planes; ++p)
      squares += squaresRun(first + p * n, n, static_cast<float>(*mean));
    *variance = squares / count;
  });
}

/// Adds a block's sums of g (x - mean) and of g to totals[2][n]. `room`: [2][n].
void blockOfGradSums(DType type, const void *g, const void *x, int64_t rows, int64_t n, const float *mean, float *room,
                     double *totals) {
  withFast(type, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    gradSumsOf(static_cast<const T *>(g), static_cast<const T *>(x), rows, n, mean, room, totals);
  });
}
void runOfGradSums(DType type, const void *g, const void *x, int64_t n, float mean, double *products, double *sum) {
  withFast(type, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    *products = *sum = 0;
    gradSumsRun(static_cast<const T *>(g), static_cast<const T *>(x), n, mean, *products, *sum);
  });
}

/// y = (x - centre) factor + shift
void affineBlock(DType type, const void *x, void *y, int64_t rows, int64_t n, const float *centre, const float *factor,
                 const float *shift) {
  withFast(type, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    affineRows(static_cast<const T *>(x), static_cast<T *>(y), rows, n, centre, factor, shift);
  });
}
void affineOfRun(DType type, const void *x, void *y, int64_t n, float centre, float factor, float shift) {
  withFast(type, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    affineRun(static_cast<const T *>(x), static_cast<T *>(y), n, centre, factor, shift);
  });
}

HWY_INLINE V gradOf(V g, V x, V centre, V factor, V slope, V offset) {
  return hn::Sub(hn::Mul(g, factor), hn::Add(hn::Mul(hn::Sub(x, centre), slope), offset));
}
/// dx = g factor - ((x - centre) slope + offset)
void gradBlock(DType type, const void *grad, const void *input, void *d, int64_t rows, int64_t n, const float *centre,
               const float *factor, const float *slope, const float *offset) {
  withFast(type, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    const T *g = static_cast<const T *>(grad), *x = static_cast<const T *>(input);
    T *dx = static_cast<T *>(d);
    for (int64_t r = 0; r < rows; ++r, g += n, x += n, dx += n)
      forVectors(0, n, [&](int64_t j, size_t c) HWY_ATTR {
        storePart(gradOf(loadPart(g + j, c), loadPart(x + j, c), loadPart(centre + j, c), loadPart(factor + j, c),
                         loadPart(slope + j, c), loadPart(offset + j, c)),
                  dx + j, c);
      });
  });
}
void gradOfRun(DType type, const void *grad, const void *input, void *d, int64_t n, float centre, float factor,
               float slope, float offset) {
  withFast(type, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    const T *g = static_cast<const T *>(grad), *x = static_cast<const T *>(input);
    T *dx = static_cast<T *>(d);
    const V m = hn::Set(kF, centre), f = hn::Set(kF, factor), s = hn::Set(kF, slope), o = hn::Set(kF, offset);
    forVectors(0, n, [&](int64_t i, size_t c) HWY_ATTR {
      storePart(gradOf(loadPart(g + i, c), loadPart(x + i, c), m, f, s, o), dx + i, c);
    });
  });
}

} // namespace HWY_NAMESPACE
} // namespace zc::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "kernels/cpu/GroupNormCut.h"
#include "kernels/cpu/fast/Fast.h"

namespace zc::cpu {
HWY_EXPORT(blockOfGroups);
HWY_EXPORT(statisticsOfRuns);
HWY_EXPORT(blockOfGradSums);
HWY_EXPORT(runOfGradSums);
HWY_EXPORT(affineBlock);
HWY_EXPORT(affineOfRun);
HWY_EXPORT(gradBlock);
HWY_EXPORT(gradOfRun);

namespace {

/// What elements are computed with, of each sample's channels [N, C].
struct ForwardNumbers {
  float *centre, *factor;
};
struct GradNumbers {
  float *centre, *factor, *slope, *offset;
};

/// A step's cut and workspace.
class GroupSteps {
public:
  GroupSteps(const KernelSpec &spec, const GroupNormShape &s, bool isWhole, bool isGrad)
      : s(s), cut(s, isWhole, isGrad), threads(threadsFor(spec.threads, s.batch * s.channels * s.inner)),
        workspace(spec), totals(workspace.take<double>(cut.totals())), room(workspace.take<float>(cut.room())),
        table(workspace.take<float>(cut.table())) {}

  /// Run `i` of the numbers of each sample's channels that a whole norm has.
  float *numbers(void *const *operands, int64_t i) const { return table.of(operands) + i * s.batch * s.channels; }
  const char *at(const void *x, int64_t i) const { return static_cast<const char *>(x) + i * sizeOf(s.dtype); }
  char *at(void *x, int64_t i) const { return static_cast<char *>(x) + i * sizeOf(s.dtype); }

  /// fn(sample, part of all, first element, rows) for blocks of a sample's rows, those of a part in order.
  template <typename Begin, typename Fn> void forBlocks(Begin begin, Fn fn) const {
    parallelRanges(threads, s.batch * cut.parts, 1, [&](int64_t from, int64_t to, int) {
      for (int64_t part = from; part < to; ++part) {
        begin(part);
        const int64_t n = part / cut.parts;
        const Range range =
            partOf(s.inner, cut.blockRows, static_cast<int>(cut.parts), static_cast<int>(part % cut.parts));
        for (int64_t r = range.begin; r < range.end; r += cut.blockRows)
          fn(n, part, (n * s.inner + r) * s.channels, std::min(cut.blockRows, range.end - r));
      }
    });
  }
  template <typename Fn> void forBlocks(Fn fn) const {
    forBlocks([](int64_t) {}, fn);
  }
  /// fn(plane of N * C) in the model's order, and fn(group of N * groups).
  template <typename Fn> void forPlanes(Fn fn) const { forEach(s.batch * s.channels, fn); }
  template <typename Fn> void forGroups(Fn fn) const { forEach(s.batch * s.groups, fn); }

  template <typename T>
  void findStatistics(void *const *operands, const void *x, const T *scale, float *mean, float *variance,
                      const ForwardNumbers &to) const {
    sumGroups(operands, x);
    for (int64_t i = 0; i < s.batch * s.groups; ++i) {
      const auto [m, v] = statisticsOf(operands, i);
      mean[i] = static_cast<float>(m);
      variance[i] = static_cast<float>(v);
      const double deviation = std::sqrt(v + s.epsilon);
      for (int64_t k = 0; k < s.perGroup(); ++k) {
        const int64_t plane = i * s.perGroup() + k;
        to.centre[plane] = mean[i];
        to.factor[plane] = static_cast<float>(load(scale[plane % s.channels]) / deviation);
      }
    }
  }

  template <typename T>
  void findGradSums(void *const *operands, const void *grad, const void *x, const T *scale, const float *mean,
                    const float *variance, T *dScale, T *dBias, const GradNumbers &to) const {
    for (int64_t plane = 0; plane < s.batch * s.channels; ++plane)
      to.centre[plane] = mean[plane / s.perGroup()];
    sumGrads(operands, grad, x, to.centre);
    const double *all = totals.of(operands);
    for (int64_t i = 0; i < s.batch * s.groups; ++i)
      finishGroup(all, i, scale, 1 / std::sqrt(variance[i] + s.epsilon), to);
    for (int64_t c = 0; c < s.channels; ++c) {
      double products = 0, sum = 0;
      for (int64_t n = 0; n < s.batch; ++n) {
        const double invStd = 1 / std::sqrt(variance[(n * s.channels + c) / s.perGroup()] + s.epsilon);
        products += of(all, n, 0, c) * invStd;
        sum += of(all, n, 1, c);
      }
      dScale[c] = store<T>(static_cast<float>(products));
      dBias[c] = store<T>(static_cast<float>(sum));
    }
  }

  GroupNormShape s;
  GroupNormCut cut;

private:
  struct Statistics {
    double mean, variance;
  };

  template <typename Fn> void forEach(int64_t count, Fn fn) const {
    parallelRanges(threads, count, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i)
        fn(i);
    });
  }

  /// Leaves totals[part][3][groups], or, in the model's order, mean and variance of each group.
  void sumGroups(void *const *operands, const void *x) const {
    double *all = totals.of(operands);
    const int64_t own = 3 * s.groups;
    if (s.channelsLast)
      return forBlocks([&](int64_t part) { std::fill_n(all + part * own, own, 0.0); },
                       [&](int64_t, int64_t part, int64_t first, int64_t rows) {
                         HWY_DYNAMIC_DISPATCH(blockOfGroups)
                         (s.dtype, at(x, first), rows, s.channels, s.groups, room.of(operands) + part * 2 * s.channels,
                          all + part * own);
                       });
    forGroups([&](int64_t i) {
      HWY_DYNAMIC_DISPATCH(statisticsOfRuns)
      (s.dtype, at(x, i * s.count()), s.perGroup(), s.inner, all + 2 * i, all + 2 * i + 1);
    });
  }
  /// Of group `i` of all samples', of what sumGroups left.
  Statistics statisticsOf(void *const *operands, int64_t i) const {
    const double *all = totals.of(operands);
    if (!s.channelsLast)
      return {all[2 * i], all[2 * i + 1]};
    double sum = 0, ofMeans = 0, squares = 0;
    for (int64_t part = 0; part < cut.parts; ++part) {
      const double *own = all + (i / s.groups * cut.parts + part) * 3 * s.groups + i % s.groups;
      sum += own[0];
      ofMeans += own[s.groups];
      squares += own[2 * s.groups];
    }
    const auto count = static_cast<double>(s.count());
    const double mean = sum / count;
    return {mean, (squares + std::max(0.0, ofMeans - sum * mean)) / count};
  }

  /// Leaves totals[sample's first part][2][channels]: sums of g (x - mean) and of g.
  void sumGrads(void *const *operands, const void *grad, const void *x, const float *centre) const {
    double *all = totals.of(operands);
    const int64_t own = 2 * s.channels;
    if (!s.channelsLast)
      return forPlanes([&](int64_t plane) {
        double *to = all + plane / s.channels * own + plane % s.channels;
        HWY_DYNAMIC_DISPATCH(runOfGradSums)
        (s.dtype, at(grad, plane * s.inner), at(x, plane * s.inner), s.inner, centre[plane], to, to + s.channels);
      });
    forBlocks([&](int64_t part) { std::fill_n(all + part * own, own, 0.0); },
              [&](int64_t n, int64_t part, int64_t first, int64_t rows) {
                HWY_DYNAMIC_DISPATCH(blockOfGradSums)
                (s.dtype, at(grad, first), at(x, first), rows, s.channels, centre + n * s.channels,
                 room.of(operands) + part * own, all + part * own);
              });
    for (int64_t n = 0; n < s.batch; ++n)
      for (int64_t part = 1; part < cut.parts; ++part)
        for (int64_t k = 0; k < own; ++k)
          all[n * cut.parts * own + k] += all[(n * cut.parts + part) * own + k];
  }
  double of(const double *all, int64_t n, int64_t sum, int64_t c) const {
    return all[(n * cut.parts * 2 + sum) * s.channels + c];
  }

  /// What makes of g and x the gradient of the input, for group `i` of all samples'.
  template <typename T>
  void finishGroup(const double *all, int64_t i, const T *scale, double invStd, const GradNumbers &to) const {
    const int64_t n = i / s.groups, first = i % s.groups * s.perGroup(), last = first + s.perGroup();
    double products = 0, sum = 0;
    for (int64_t c = first; c < last; ++c) {
      products += load(scale[c]) * of(all, n, 0, c);
      sum += load(scale[c]) * of(all, n, 1, c);
    }
    const auto count = static_cast<double>(s.count());
    for (int64_t c = first; c < last; ++c) {
      const int64_t plane = n * s.channels + c;
      to.factor[plane] = static_cast<float>(load(scale[c]) * invStd);
      to.slope[plane] = static_cast<float>(products * invStd * invStd * invStd / count);
      to.offset[plane] = static_cast<float>(sum * invStd / count);
    }
  }

  int threads;
  Workspace workspace;
  Piece<double> totals;
  Piece<float> room, table;
};

/// The kernel that `make` makes of the element type's tag and the step's cut; of what has no vectors, none.
template <typename Make>
Prepared prepareBy(const KernelSpec &spec, const Result<GroupNormShape> &read, bool isWhole, bool isGrad,
                   const Make &make) {
  ZC_RETURN_IF_ERROR(read.status());
  if (!isFast(read->dtype) || read->isEmpty())
    return decline();
  return withFast(read->dtype, [&](auto tag) { return make(tag, GroupSteps(spec, *read, isWhole, isGrad)); });
}

Prepared prepareGroupNorm(const KernelSpec &spec) {
  return prepareBy(spec, readGroupNorm(spec), true, false, [](auto tag, const GroupSteps &steps) {
    using T = TypeOf<decltype(tag)>;
    return makeKernel([steps](void *const *operands, const StepContext &) {
      const GroupNormShape &s = steps.s;
      const ForwardNumbers of{steps.numbers(operands, 0), steps.numbers(operands, 1)};
      float *shift = steps.numbers(operands, 2);
      for (int64_t c = 0; c < s.channels; ++c)
        shift[c] = load(as<T>(operands[2])[c]);
      steps.findStatistics(operands, operands[0], as<T>(operands[1]), as<float>(operands[4]), as<float>(operands[5]),
                           of);
      if (s.channelsLast)
        return steps.forBlocks([&](int64_t n, int64_t, int64_t first, int64_t rows) {
          const int64_t sample = n * s.channels;
          HWY_DYNAMIC_DISPATCH(affineBlock)
          (s.dtype, steps.at(operands[0], first), steps.at(operands[3], first), rows, s.channels, of.centre + sample,
           of.factor + sample, shift);
        });
      steps.forPlanes([&](int64_t plane) {
        HWY_DYNAMIC_DISPATCH(affineOfRun)
        (s.dtype, steps.at(operands[0], plane * s.inner), steps.at(operands[3], plane * s.inner), s.inner,
         of.centre[plane], of.factor[plane], shift[plane % s.channels]);
      });
    });
  });
}

Prepared prepareGroupNormStatistics(const KernelSpec &spec) {
  return prepareBy(spec, readGroupNormStatistics(spec), false, false, [](auto tag, const GroupSteps &steps) {
    using T = TypeOf<decltype(tag)>;
    return makeKernel([steps](void *const *operands, const StepContext &) {
      steps.findStatistics(operands, operands[0], as<T>(operands[1]), as<float>(operands[3]), as<float>(operands[4]),
                           {as<float>(operands[5]), as<float>(operands[6])});
      const GroupNormShape &s = steps.s;
      for (int64_t plane = 0; plane < s.batch * s.channels; ++plane)
        as<float>(operands[7])[plane] = load(as<T>(operands[2])[plane % s.channels]);
    });
  });
}

Prepared prepareGroupNormGrad(const KernelSpec &spec) {
  return prepareBy(spec, readGroupNormGrad(spec), true, true, [](auto tag, const GroupSteps &steps) {
    using T = TypeOf<decltype(tag)>;
    return makeKernel([steps](void *const *operands, const StepContext &) {
      const GroupNormShape &s = steps.s;
      auto numbers = [&](int64_t i) { return steps.numbers(operands, i); };
      const GradNumbers of{numbers(0), numbers(1), numbers(2), numbers(3)};
      steps.findGradSums(operands, operands[0], operands[1], as<T>(operands[2]), as<float>(operands[3]),
                         as<float>(operands[4]), as<T>(operands[6]), as<T>(operands[7]), of);
      if (s.channelsLast)
        return steps.forBlocks([&](int64_t n, int64_t, int64_t first, int64_t rows) {
          const int64_t sample = n * s.channels;
          HWY_DYNAMIC_DISPATCH(gradBlock)
          (s.dtype, steps.at(operands[0], first), steps.at(operands[1], first), steps.at(operands[5], first), rows,
           s.channels, of.centre + sample, of.factor + sample, of.slope + sample, of.offset + sample);
        });
      steps.forPlanes([&](int64_t plane) {
        const int64_t first = plane * s.inner;
        HWY_DYNAMIC_DISPATCH(gradOfRun)
        (s.dtype, steps.at(operands[0], first), steps.at(operands[1], first), steps.at(operands[5], first), s.inner,
         of.centre[plane], of.factor[plane], of.slope[plane], of.offset[plane]);
      });
    });
  });
}

Prepared prepareGroupNormGradSums(const KernelSpec &spec) {
  return prepareBy(spec, readGroupNormGradSums(spec), false, true, [](auto tag, const GroupSteps &steps) {
    using T = TypeOf<decltype(tag)>;
    return makeKernel([steps](void *const *operands, const StepContext &) {
      auto numbers = [&](size_t i) { return as<float>(operands[i]); };
      steps.findGradSums(operands, operands[0], operands[1], as<T>(operands[2]), numbers(3), numbers(4),
                         as<T>(operands[5]), as<T>(operands[6]), {numbers(7), numbers(8), numbers(9), numbers(10)});
    });
  });
}

} // namespace

void addFastGroupNorm(KernelRegistry &registry) {
  registry.add("group_norm", prepareGroupNorm);
  registry.add("group_norm_grad", prepareGroupNormGrad);
  registry.add("group_norm_statistics", prepareGroupNormStatistics);
  registry.add("group_norm_grad_sums", prepareGroupNormGradSums);
}

} // namespace zc::cpu
#endif
