// softmax, log_softmax and their gradients along any axis. The gradients may overwrite either operand.
#include "kernels/cpu/Support.h"
#include "kernels/shapes/Shapes.h"

namespace zc::cpu {
namespace {

/// Calls fn(T *const *columns, stride) for each line along the axis; columns are the operands' first elements.
template <typename T, size_t N, typename Fn> void forLines(const AxisShape &s, void *const *operands, Fn fn) {
  for (int64_t o = 0; o < s.outer; ++o)
    for (int64_t i = 0; i < s.inner; ++i) {
      std::array<T *, N> lines;
      for (size_t t = 0; t < N; ++t)
        lines[t] = as<T>(operands[t]) + o * s.n * s.inner + i;
      fn(lines);
    }
}

template <bool logarithm> Prepared prepareSoftmax(const KernelSpec &spec) {
  Result<AxisShape> read = readAxis(spec, 1);
  ZC_RETURN_IF_ERROR(read.status());
  return withFloat(read->dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    return makeKernel(
        [s = *read, zeroMasked = spec.getInt("zero_masked", 0) != 0](void *const *operands, const StepContext &) {
          forLines<T, 2>(s, operands, [&](const std::array<T *, 2> &line) {
            double top = -std::numeric_limits<double>::infinity(), sum = 0;
            for (int64_t i = 0; i < s.n; ++i) {
              double x = load(line[0][i * s.inner]);
              top = x > top || std::isnan(x) ? x : top;
            }
            bool masked = zeroMasked && top == -std::numeric_limits<double>::infinity();
            for (int64_t i = 0; i < s.n; ++i)
              sum += std::exp(load(line[0][i * s.inner]) - top);
            for (int64_t i = 0; i < s.n; ++i) {
              double shifted = load(line[0][i * s.inner]) - top;
              double y = logarithm ? shifted - std::log(sum) : std::exp(shifted) / sum;
              line[1][i * s.inner] = storeSum<T>(masked ? 0 : y);
            }
          });
        });
  });
}

template <bool logarithm> Prepared prepareSoftmaxGrad(const KernelSpec &spec) {
  Result<AxisShape> read = readAxis(spec, 2);
  ZC_RETURN_IF_ERROR(read.status());
  return withFloat(read->dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    return makeKernel([s = *read](void *const *operands, const StepContext &) {
      forLines<T, 3>(s, operands, [&](const std::array<T *, 3> &line) {
        double sum = 0;
        for (int64_t i = 0; i < s.n; ++i)
          sum += load(line[0][i * s.inner]) * (logarithm ? 1.0 : static_cast<double>(load(line[1][i * s.inner])));
        for (int64_t i = 0; i < s.n; ++i) {
          double g = load(line[0][i * s.inner]), y = load(line[1][i * s.inner]);
          line[2][i * s.inner] = storeSum<T>(logarithm ? g - std::exp(y) * sum : y * (g - sum));
        }
      });
    });
  });
}

} // namespace

void addSoftmax(KernelRegistry &registry) {
  registry.add("softmax", prepareSoftmax<false>);
  registry.add("log_softmax", prepareSoftmax<true>);
  // Sums along a row are known before its first element is written.
  registry.add("softmax_grad", prepareSoftmaxGrad<false>, elementwise());
  registry.add("log_softmax_grad", prepareSoftmaxGrad<true>, elementwise());
}

} // namespace zc::cpu
