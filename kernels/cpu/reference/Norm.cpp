// layer_norm, rms_norm and their gradients. Statistics in double, two passes.
#include "kernels/cpu/Tiles.h"
#include "kernels/cpu/reference/StatisticTypes.h"
#include "kernels/shapes/Shapes.h"

namespace zc::cpu {
namespace {

Prepared prepareLayerNorm(const KernelSpec &spec) {
  Result<NormShape> read = readLayerNorm(spec);
  ZC_RETURN_IF_ERROR(read.status());
  return withTypes(*read, [&](auto tag, auto statTag) {
    using T = TypeOf<decltype(tag)>;
    using S = TypeOf<decltype(statTag)>;
    return makeKernel([s = *read](void *const *operands, const StepContext &) {
      const T *scale = as<T>(operands[1]), *bias = s.hasBias ? as<T>(operands[2]) : nullptr;
      void *const *outputs = operands + (s.hasBias ? 3 : 2);
      for (int64_t r = 0; r < s.rows; ++r) {
        const T *x = as<T>(operands[0]) + r * s.n;
        T *y = as<T>(outputs[0]) + r * s.n;
        double sum = 0, squares = 0;
        for (int64_t i = 0; i < s.n; ++i)
          sum += load(x[i]);
        double mean = sum / static_cast<double>(s.n);
        for (int64_t i = 0; i < s.n; ++i)
          squares += (load(x[i]) - mean) * (load(x[i]) - mean);
        double invStd = 1 / std::sqrt(squares / static_cast<double>(s.n) + s.epsilon);
        for (int64_t i = 0; i < s.n; ++i)
          y[i] = storeSum<T>((load(x[i]) - mean) * invStd * load(scale[i]) + (bias ? load(bias[i]) : 0));
        as<S>(outputs[1])[r] = static_cast<S>(mean);
        as<S>(outputs[2])[r] = static_cast<S>(invStd);
      }
    });
  });
}

/// With xhat the normalised input and u = g * scale:
/// dx = (u - mean(u) - xhat mean(u xhat)) / std; dscale = sum g xhat; dbias = sum g.
Prepared prepareLayerNormGrad(const KernelSpec &spec) {
  Result<NormShape> read = readLayerNormGrad(spec);
  ZC_RETURN_IF_ERROR(read.status());
  return withTypes(*read, [&](auto tag, auto statTag) {
    using T = TypeOf<decltype(tag)>;
    using S = TypeOf<decltype(statTag)>;
    Workspace workspace(spec);
    auto scaleSums = workspace.take<double>(read->n), biasSums = workspace.take<double>(read->n);
    return makeKernel([s = *read, scaleSums, biasSums](void *const *operands, const StepContext &) {
      double *dScale = scaleSums.of(operands), *dBias = biasSums.of(operands);
      std::fill(dScale, dScale + s.n, 0);
      std::fill(dBias, dBias + s.n, 0);
      const T *scale = as<T>(operands[2]);
      for (int64_t r = 0; r < s.rows; ++r) {
        const T *g = as<T>(operands[0]) + r * s.n, *x = as<T>(operands[1]) + r * s.n;
        double mean = as<S>(operands[3])[r], invStd = as<S>(operands[4])[r], sumU = 0, sumUx = 0;
        for (int64_t i = 0; i < s.n; ++i) {
          double xhat = (load(x[i]) - mean) * invStd, u = static_cast<double>(load(g[i])) * load(scale[i]);
          sumU += u;
          sumUx += u * xhat;
          dScale[i] += load(g[i]) * xhat;
          dBias[i] += load(g[i]);
        }
        T *dx = as<T>(operands[5]) + r * s.n;
        for (int64_t i = 0; i < s.n; ++i) {
          double xhat = (load(x[i]) - mean) * invStd, u = static_cast<double>(load(g[i])) * load(scale[i]);
          dx[i] = storeSum<T>(invStd * (u - (sumU + xhat * sumUx) / static_cast<double>(s.n)));
        }
      }
      for (int64_t i = 0; i < s.n; ++i) {
        as<T>(operands[6])[i] = storeSum<T>(dScale[i]);
        as<T>(operands[7])[i] = storeSum<T>(dBias[i]);
      }
    });
  });
}

Prepared prepareRmsNorm(const KernelSpec &spec) {
  Result<NormShape> read = readRmsNorm(spec);
  ZC_RETURN_IF_ERROR(read.status());
  return withTypes(*read, [&](auto tag, auto statTag) {
    using T = TypeOf<decltype(tag)>;
    using S = TypeOf<decltype(statTag)>;
    return makeKernel([s = *read](void *const *operands, const StepContext &) {
      for (int64_t r = 0; r < s.rows; ++r) {
        const T *x = as<T>(operands[0]) + r * s.n;
        double squares = 0;
        for (int64_t i = 0; i < s.n; ++i)
          squares += static_cast<double>(load(x[i])) * load(x[i]);
        double invRms = 1 / std::sqrt(squares / static_cast<double>(s.n) + s.epsilon);
        for (int64_t i = 0; i < s.n; ++i)
          as<T>(operands[2])[r * s.n + i] = storeSum<T>(load(x[i]) * invRms * load(as<T>(operands[1])[i]));
        as<S>(operands[3])[r] = static_cast<S>(invRms);
      }
    });
  });
}

/// With u = g * scale and r = 1 / rms: dx = r (u - x r^2 mean(u x)); dscale = sum g x r.
Prepared prepareRmsNormGrad(const KernelSpec &spec) {
  Result<NormShape> read = readRmsNormGrad(spec);
  ZC_RETURN_IF_ERROR(read.status());
  return withTypes(*read, [&](auto tag, auto statTag) {
    using T = TypeOf<decltype(tag)>;
    using S = TypeOf<decltype(statTag)>;
    Workspace workspace(spec);
    return makeKernel(
        [s = *read, scaleSums = workspace.take<double>(read->n)](void *const *operands, const StepContext &) {
          double *dScale = scaleSums.of(operands);
          std::fill(dScale, dScale + s.n, 0);
          const T *scale = as<T>(operands[2]);
          for (int64_t r = 0; r < s.rows; ++r) {
            const T *g = as<T>(operands[0]) + r * s.n, *x = as<T>(operands[1]) + r * s.n;
            double invRms = as<S>(operands[3])[r], sumUx = 0;
            for (int64_t i = 0; i < s.n; ++i) {
              sumUx += static_cast<double>(load(g[i])) * load(scale[i]) * load(x[i]);
              dScale[i] += load(g[i]) * (load(x[i]) * invRms);
            }
            double slope = invRms * invRms * sumUx / static_cast<double>(s.n);
            for (int64_t i = 0; i < s.n; ++i)
              as<T>(operands[4])[r * s.n + i] =
                  storeSum<T>(invRms * (static_cast<double>(load(g[i])) * load(scale[i]) - load(x[i]) * slope));
          }
          for (int64_t i = 0; i < s.n; ++i)
            as<T>(operands[5])[i] = storeSum<T>(dScale[i]);
        });
  });
}

//===-- workspace: the larger of what this and the fast version need ---------===//

template <int64_t sums> int64_t normGradBytes(const NormShape &s) {
  const int64_t fast = Workspace::bytesOf<float>(Workspace::times(2, normGradTile(s), normGradTiles(s)));
  return std::max(Workspace::times(sums, Workspace::bytesOf<double>(s.n)), isFast(s.dtype) ? fast : 0);
}

} // namespace

void addNorm(KernelRegistry &registry) {
  registry.add("layer_norm", prepareLayerNorm);
  registry.add("layer_norm_grad", prepareLayerNormGrad, bytesOf<readLayerNormGrad, normGradBytes<2>>);
  registry.add("rms_norm", prepareRmsNorm);
  registry.add("rms_norm_grad", prepareRmsNormGrad, bytesOf<readRmsNormGrad, normGradBytes<1>>);
}

} // namespace zc::cpu
