// conv, conv_transpose, conv_weight_grad by definition: all three walk the same table of which element each tap of each
// window reads. Sums in double.
#include "kernels/cpu/Tiles.h"
#include "kernels/shapes/Windows.h"

namespace zc::cpu {
namespace {

/// Positions of elements in the tensors' planes: [n, c], [n, m], and of the weight's [m, c in group].
struct Planes {
  const ConvShape &s;
  int64_t in(int64_t n, int64_t c, int64_t i) const {
    return s.in().begin(n * s.inChannels + c, s.windows.inPlane) + i * s.in().step();
  }
  int64_t out(int64_t n, int64_t m, int64_t o) const {
    return s.out().begin(n * s.outChannels + m, s.windows.outPlane) + o * s.out().step();
  }
  int64_t weight(int64_t m, int64_t c) const { return (m * s.inPerGroup() + c) * s.windows.taps; }
};

Prepared prepareConv(const KernelSpec &spec) {
  Result<ConvShape> read = readConv(spec);
  ZC_RETURN_IF_ERROR(read.status());
  return withFloat(read->dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    Workspace workspace(spec);
    auto positions = read->windows.takeTable(workspace);
    return makeKernel([s = *read, positions](void *const *operands, const StepContext &) {
      int64_t *table = positions.of(operands);
      s.windows.fillTable(table);
      const T *x = as<T>(operands[0]), *w = as<T>(operands[1]), *bias = s.hasBias ? as<T>(operands[2]) : nullptr;
      T *y = as<T>(operands[s.hasBias ? 3 : 2]);
      Planes at{s};
      for (int64_t n = 0; n < s.batch; ++n)
        for (int64_t m = 0; m < s.outChannels; ++m)
          for (int64_t o = 0; o < s.windows.outPlane; ++o) {
            double sum = bias ? load(bias[m]) : 0;
            const int64_t *taps = table + o * s.windows.taps;
            for (int64_t c = 0; c < s.inPerGroup(); ++c)
              for (int64_t t = 0; t < s.windows.taps; ++t)
                if (taps[t] >= 0)
                  sum += static_cast<double>(load(w[at.weight(m, c) + t])) *
                         load(x[at.in(n, m / s.outPerGroup() * s.inPerGroup() + c, taps[t])]);
            y[at.out(n, m, o)] = storeSum<T>(sum);
          }
    });
  });
}

Prepared prepareConvTranspose(const KernelSpec &spec) {
  Result<ConvShape> read = readConvTranspose(spec);
  ZC_RETURN_IF_ERROR(read.status());
  return withFloat(read->dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    Workspace workspace(spec);
    auto positions = read->windows.takeTable(workspace);
    return makeKernel([s = *read, positions, sums = workspace.take<double>(read->windows.inPlane)](
                          void *const *operands, const StepContext &) {
      PlaneSums plane(s.windows, sums.of(operands), positions.of(operands));
      const T *y = as<T>(operands[0]), *w = as<T>(operands[1]), *bias = s.hasBias ? as<T>(operands[2]) : nullptr;
      T *x = as<T>(operands[s.hasBias ? 3 : 2]);
      Planes at{s};
      for (int64_t n = 0; n < s.batch; ++n)
        for (int64_t c = 0; c < s.inChannels; ++c) {
          plane.begin(bias ? load(bias[c]) : 0);
          int64_t group = c / s.inPerGroup();
          for (int64_t m = group * s.outPerGroup(); m < (group + 1) * s.outPerGroup(); ++m)
            plane.add([&](int64_t o, int64_t t) {
              return static_cast<double>(load(y[at.out(n, m, o)])) * load(w[at.weight(m, c % s.inPerGroup()) + t]);
            });
          plane.store(x + at.in(n, c, 0), s.in().step());
        }
    });
  });
}

Prepared prepareConvWeightGrad(const KernelSpec &spec) {
  Result<ConvShape> read = readConvWeightGrad(spec);
  ZC_RETURN_IF_ERROR(read.status());
  return withFloat(read->dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    Workspace workspace(spec);
    auto positions = read->windows.takeTable(workspace);
    return makeKernel([s = *read, positions](void *const *operands, const StepContext &) {
      int64_t *table = positions.of(operands);
      s.windows.fillTable(table);
      const T *x = as<T>(operands[0]), *g = as<T>(operands[1]);
      Planes at{s};
      for (int64_t m = 0; m < s.outChannels; ++m)
        for (int64_t c = 0; c < s.inPerGroup(); ++c)
          for (int64_t t = 0; t < s.windows.taps; ++t) {
            double sum = 0;
            for (int64_t n = 0; n < s.batch; ++n)
              for (int64_t o = 0; o < s.windows.outPlane; ++o)
                if (int64_t from = table[o * s.windows.taps + t]; from >= 0)
                  sum += static_cast<double>(load(g[at.out(n, m, o)])) *
                         load(x[at.in(n, m / s.outPerGroup() * s.inPerGroup() + c, from)]);
            as<T>(operands[2])[at.weight(m, c) + t] = storeSum<T>(sum);
          }
    });
  });
}

//===-- workspace: the larger of what this and the fast version need ---------===//

template <bool isWeightGrad> int64_t convBytes(const ConvShape &s) {
  const int64_t plain = Workspace::sum(s.windows.tableBytes(), Workspace::bytesOf<double>(s.windows.inPlane));
  return std::max(plain, isFast(s.dtype) ? convAllowance(s, isWeightGrad) : 0);
}

} // namespace

void addConv(KernelRegistry &registry) {
  registry.add("conv", prepareConv,
               KernelTraits(bytesOf<readConv, convBytes<false>>).keeping(1, bytesOf<readConv, convKept>));
  registry.add(
      "conv_transpose", prepareConvTranspose,
      KernelTraits(bytesOf<readConvTranspose, convBytes<false>>).keeping(1, bytesOf<readConvTranspose, convKept>));
  registry.add("conv_weight_grad", prepareConvWeightGrad, bytesOf<readConvWeightGrad, convBytes<true>>);
}

} // namespace zc::cpu
