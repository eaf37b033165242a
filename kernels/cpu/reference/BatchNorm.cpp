// batch_norm, its gradient and its evaluation form, the sums of both by themselves; moving_average. Statistics in
// double, two passes.
#include "kernels/cpu/FusedPlain.h"
#include "kernels/cpu/Tiles.h"
#include "kernels/cpu/reference/StatisticTypes.h"
#include "kernels/shapes/Windows.h"

namespace zc::cpu {
namespace {

/// fn(position) for all elements of channel `c`.
template <typename Fn> void forChannel(const BatchNormShape &s, int64_t c, Fn fn) {
  const int64_t step = s.order().step();
  for (int64_t n = 0; n < s.batch; ++n) {
    int64_t begin = s.order().begin(n * s.channels + c, s.inner);
    for (int64_t i = begin; i < begin + s.inner * step; i += step)
      fn(i);
  }
}

struct Statistics {
  double mean, variance;
};
/// Of channel `c`.
template <typename T> Statistics statisticsOf(const BatchNormShape &s, const T *x, int64_t c) {
  const auto count = static_cast<double>(s.batch * s.inner);
  double sum = 0, squares = 0;
  forChannel(s, c, [&](int64_t i) { sum += load(x[i]); });
  const double mean = sum / count;
  forChannel(s, c, [&](int64_t i) { squares += (load(x[i]) - mean) * (load(x[i]) - mean); });
  return {mean, squares / count};
}

struct GradSums {
  double scale = 0, bias = 0;
};
/// Gradients of channel `c`'s scale and bias; grad(i): that of element i of the result.
template <typename T, typename Grad>
GradSums gradSumsOf(const BatchNormShape &s, const T *x, int64_t c, double mean, double invStd, Grad grad) {
  GradSums sums;
  forChannel(s, c, [&](int64_t i) {
    const double g = grad(i);
    sums.scale += g * ((load(x[i]) - mean) * invStd);
    sums.bias += g;
  });
  return sums;
}

Prepared prepareBatchNorm(const KernelSpec &spec) {
  Result<BatchNormShape> read = readBatchNorm(spec);
  ZC_RETURN_IF_ERROR(read.status());
  return withTypes(*read, [&](auto tag, auto statTag) {
    using T = TypeOf<decltype(tag)>;
    using S = TypeOf<decltype(statTag)>;
    return makeKernel([s = *read](void *const *operands, const StepContext &) {
      const T *x = as<T>(operands[0]);
      T *y = as<T>(operands[3]);
      for (int64_t c = 0; c < s.channels; ++c) {
        const Statistics of = statisticsOf(s, x, c);
        double scale = load(as<T>(operands[1])[c]), bias = load(as<T>(operands[2])[c]);
        double invStd = 1 / std::sqrt(of.variance + s.epsilon);
        forChannel(s, c, [&](int64_t i) { y[i] = storeSum<T>((load(x[i]) - of.mean) * invStd * scale + bias); });
        as<S>(operands[4])[c] = static_cast<S>(of.mean);
        as<S>(operands[5])[c] = static_cast<S>(of.variance);
      }
    });
  });
}

Prepared prepareBatchNormStatistics(const KernelSpec &spec) {
  Result<BatchNormShape> read = readBatchNormStatistics(spec);
  ZC_RETURN_IF_ERROR(read.status());
  return withTypes(*read, [&](auto tag, auto statTag) {
    using T = TypeOf<decltype(tag)>;
    using S = TypeOf<decltype(statTag)>;
    return makeKernel([s = *read](void *const *operands, const StepContext &) {
      for (int64_t c = 0; c < s.channels; ++c) {
        const Statistics of = statisticsOf(s, as<T>(operands[0]), c);
        const double values[] = {of.mean, of.variance, load(as<T>(operands[1])[c]) / std::sqrt(of.variance + s.epsilon),
                                 load(as<T>(operands[2])[c])};
        for (size_t i = 0; i < std::size(values); ++i)
          as<S>(operands[3 + i])[c] = static_cast<S>(values[i]);
      }
    });
  });
}

/// With xhat the normalised input, over a channel of M elements:
/// dscale = sum g xhat; dbias = sum g; dx = scale / std * (g - (dbias + xhat dscale) / M).
Prepared prepareBatchNormGrad(const KernelSpec &spec) {
  Result<BatchNormShape> read = readBatchNormGrad(spec);
  ZC_RETURN_IF_ERROR(read.status());
  return withTypes(*read, [&](auto tag, auto statTag) {
    using T = TypeOf<decltype(tag)>;
    using S = TypeOf<decltype(statTag)>;
    return makeKernel([s = *read](void *const *operands, const StepContext &) {
      const T *g = as<T>(operands[0]), *x = as<T>(operands[1]);
      T *dx = as<T>(operands[5]);
      auto count = static_cast<double>(s.batch * s.inner);
      for (int64_t c = 0; c < s.channels; ++c) {
        double mean = as<S>(operands[3])[c], invStd = 1 / std::sqrt(as<S>(operands[4])[c] + s.epsilon);
        double scale = load(as<T>(operands[2])[c]);
        const GradSums sums = gradSumsOf(s, x, c, mean, invStd, [&](int64_t i) { return load(g[i]); });
        forChannel(s, c, [&](int64_t i) {
          double xhat = (load(x[i]) - mean) * invStd;
          dx[i] = storeSum<T>(scale * invStd * (load(g[i]) - (sums.bias + xhat * sums.scale) / count));
        });
        as<T>(operands[6])[c] = storeSum<T>(sums.scale);
        as<T>(operands[7])[c] = storeSum<T>(sums.bias);
      }
    });
  });
}

/// Of the gradient what is there for each channel, so that dx = factor (g - mean_grad - (x - mean) slope).
Prepared prepareBatchNormGradSums(const KernelSpec &spec) {
  Result<ProgrammedSpec> seen = throughProgram(spec);
  ZC_RETURN_IF_ERROR(seen.status());
  Result<BatchNormShape> read = readBatchNormGradSums(seen->spec);
  ZC_RETURN_IF_ERROR(read.status());
  std::optional<PlainProgram> program;
  if (seen->prologue)
    program.emplace(*seen->prologue);
  return withTypes(*read, [&](auto tag, auto statTag) {
    using T = TypeOf<decltype(tag)>;
    using S = TypeOf<decltype(statTag)>;
    return makeKernel([s = *read, program, first = seen->place(0)](void *const *operands, const StepContext &) {
      void *const *own = operands + first; // as described, but for the gradient where a program computes it
      const T *g = as<T>(own[0]), *x = as<T>(own[1]);
      const auto count = static_cast<double>(s.batch * s.inner);
      for (int64_t c = 0; c < s.channels; ++c) {
        const double mean = as<S>(own[3])[c], invStd = 1 / std::sqrt(as<S>(own[4])[c] + s.epsilon);
        const GradSums sums = gradSumsOf(s, x, c, mean, invStd, [&](int64_t i) -> double {
          return program ? program->result(operands, i) : load(g[i]);
        });
        as<T>(own[5])[c] = storeSum<T>(sums.scale);
        as<T>(own[6])[c] = storeSum<T>(sums.bias);
        const double values[] = {load(as<T>(own[2])[c]) * invStd, sums.bias / count, sums.scale * invStd / count};
        for (size_t i = 0; i < std::size(values); ++i)
          as<S>(own[7 + i])[c] = static_cast<S>(values[i]);
      }
    });
  });
}

Prepared prepareBatchNormApply(const KernelSpec &spec) {
  Result<BatchNormShape> read = readBatchNormApply(spec);
  ZC_RETURN_IF_ERROR(read.status());
  return withFloat(read->dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    return makeKernel([s = *read](void *const *operands, const StepContext &) {
      const T *x = as<T>(operands[0]);
      T *y = as<T>(operands[5]);
      for (int64_t c = 0; c < s.channels; ++c) {
        auto of = [&](size_t operand) { return static_cast<double>(load(as<T>(operands[operand])[c])); };
        double factor = of(1) / std::sqrt(of(4) + s.epsilon), mean = of(3), bias = of(2);
        forChannel(s, c, [&](int64_t i) { y[i] = storeSum<T>((load(x[i]) - mean) * factor + bias); });
      }
    });
  });
}

Prepared prepareMovingAverage(const KernelSpec &spec) {
  ZC_RETURN_IF_ERROR(checkMovingAverage(spec));
  return withFloat(spec.operands[0].dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    return makeKernel([n = spec.operands[0].numElements(), momentum = spec.getReal("momentum", 0),
                       factor = spec.getReal("factor", 1)](void *const *operands, const StepContext &) {
      const T *old = as<T>(operands[0]), *next = as<T>(operands[1]);
      for (int64_t i = 0; i < n; ++i)
        as<T>(operands[2])[i] = storeSum<T>(momentum * load(old[i]) + (1 - momentum) * factor * load(next[i]));
    });
  });
}

//===-- workspace: what the fast versions need ---------------------------------===//

int64_t batchNormBytes(const BatchNormShape &s) {
  return s.channelsLast && isFast(s.dtype) ? BatchNormRows(s).bytes() : 0;
}
/// A block of what a program computes is there for each part that threads may have.
int64_t gradSumsBytes(const KernelSpec &spec) {
  Result<ProgrammedSpec> seen = throughProgram(spec);
  if (!seen)
    return 0;
  Result<BatchNormShape> read = readBatchNormGradSums(seen->spec);
  const int64_t own = read ? batchNormBytes(*read) : 0;
  if (own == 0 || !seen->prologue)
    return own;
  const BatchNormRows rows(*read);
  return Workspace::sum(own, Workspace::bytesOf<float>(Workspace::times(rows.block(), rows.tiles())));
}

} // namespace

void addBatchNorm(KernelRegistry &registry) {
  registry.add("batch_norm", prepareBatchNorm, bytesOf<readBatchNorm, batchNormBytes>);
  registry.add("batch_norm_grad", prepareBatchNormGrad, bytesOf<readBatchNormGrad, batchNormBytes>);
  registry.add("batch_norm_statistics", prepareBatchNormStatistics, bytesOf<readBatchNormStatistics, batchNormBytes>);
  registry.add("batch_norm_grad_sums", prepareBatchNormGradSums, KernelTraits(gradSumsBytes).behindProgram(5));
  registry.add("batch_norm_apply", prepareBatchNormApply, bytesOf<readBatchNormApply, batchNormBytes>);
  registry.add("moving_average", prepareMovingAverage, elementwise());
}

} // namespace zc::cpu
