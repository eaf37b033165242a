//===- Conv.h - convolutions by definition, where no library takes the spec ----------===//
//
// A thread per result, a block per weight's gradient; sums in double, in the CPU's order where a thread sums. For f64
// and for more than three dimensions: the rest is a library's.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "kernels/cuda/Launch.h"
#include "kernels/cuda/Windows.h"

namespace zc::cuda {

using namespace formula;

/// shapes::ConvShape as a kernel's argument, and the planes of its tensors: [n, c], [n, m] and the weight's [m, c of
/// group].
struct ConvPlaces {
  int64_t batch, inChannels, outChannels, inPerGroup, outPerGroup;
  PlaneOrder inOrder, outOrder;
  Windows windows;

  explicit ConvPlaces(const shapes::ConvShape &s)
      : batch(s.batch), inChannels(s.inChannels), outChannels(s.outChannels), inPerGroup(s.inPerGroup()),
        outPerGroup(s.outPerGroup()), inOrder(s.in()), outOrder(s.out()), windows(s.windows) {}
  /// Where element `i` of a channel lies.
  ZC_HD int64_t in(int64_t n, int64_t c, int64_t i) const {
    return inOrder.begin(n * inChannels + c, windows.inPlane) + i * inOrder.step();
  }
  ZC_HD int64_t out(int64_t n, int64_t m, int64_t i) const {
    return outOrder.begin(n * outChannels + m, windows.outPlane) + i * outOrder.step();
  }
  ZC_HD int64_t weight(int64_t m, int64_t c) const { return (m * inPerGroup + c) * windows.taps; }
};

template <typename T> ZC_HD double product(T a, T b) {
  return static_cast<double>(load(a)) * static_cast<double>(load(b));
}

template <typename T> struct ConvBody {
  ConvPlaces s;
  const T *x, *w, *bias;
  T *y;
  int64_t n;
  template <typename Block> ZC_HD void operator()(Block &block, int64_t index, const Frame &) const {
    forElements(block, index, n, [&](int64_t i) {
      const auto [plane, window] = s.outOrder.placeOf(i, s.windows.outPlane);
      int64_t m = plane % s.outChannels, sample = plane / s.outChannels;
      double sum = bias ? static_cast<double>(load(bias[m])) : 0;
      for (int64_t c = 0; c < s.inPerGroup; ++c)
        for (int64_t t = 0; t < s.windows.taps; ++t)
          if (int64_t from = s.windows.readBy(window, t); from >= 0)
            sum += product(w[s.weight(m, c) + t], x[s.in(sample, m / s.outPerGroup * s.inPerGroup + c, from)]);
      y[i] = storeSum<T>(sum);
    });
  }
};

template <typename T> struct ConvTransposeBody {
  ConvPlaces s;
  const T *y, *w, *bias;
  T *x;
  int64_t n;
  template <typename Block> ZC_HD void operator()(Block &block, int64_t index, const Frame &) const {
    forElements(block, index, n, [&](int64_t i) {
      const auto [plane, position] = s.inOrder.placeOf(i, s.windows.inPlane);
      int64_t c = plane % s.inChannels, sample = plane / s.inChannels, group = c / s.inPerGroup;
      double sum = bias ? static_cast<double>(load(bias[c])) : 0;
      for (int64_t m = group * s.outPerGroup; m < (group + 1) * s.outPerGroup; ++m)
        for (int64_t t = s.windows.taps; t-- > 0;)
          if (int64_t window = s.windows.reading(position, t); window >= 0)
            sum += product(y[s.out(sample, m, window)], w[s.weight(m, c % s.inPerGroup) + t]);
      x[i] = storeSum<T>(sum);
    });
  }
};

/// A block per element of the weight.
template <typename T> struct ConvWeightGradBody {
  ConvPlaces s;
  const T *x, *grad;
  T *d;
  template <typename Block> ZC_HD void operator()(Block &block, int64_t index, const Frame &) const {
    int64_t t = index % s.windows.taps, c = index / s.windows.taps % s.inPerGroup;
    int64_t m = index / s.windows.taps / s.inPerGroup, channel = m / s.outPerGroup * s.inPerGroup + c;
    double sum = block.template reduce<AddOf>(s.batch * s.windows.outPlane, 0.0, [&](int64_t i) {
      int64_t window = i % s.windows.outPlane, sample = i / s.windows.outPlane;
      int64_t from = s.windows.readBy(window, t);
      return from < 0 ? 0.0 : product(grad[s.out(sample, m, window)], x[s.in(sample, channel, from)]);
    });
    block.once([&] { d[index] = storeSum<T>(sum); });
  }
};

/// conv, or conv_transpose: alike but for the body.
template <typename Target, template <typename> typename Body, Result<shapes::ConvShape> (*read)(const KernelSpec &)>
Prepared<Target> prepareConv(const KernelSpec &spec) {
  Result<shapes::ConvShape> shape = read(spec);
  ZC_RETURN_IF_ERROR(shape.status());
  return withFloat(shape->dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    size_t result = spec.numInputs;
    return launching<Target>(
        spec, [s = ConvPlaces(*shape), hasBias = shape->hasBias, result,
               n = spec.operands[result].numElements()](void *const *operands, const auto &launch) {
          auto of = [&](size_t i) { return static_cast<const T *>(operands[i]); };
          overElements(launch, n,
                       Body<T>{s, of(0), of(1), hasBias ? of(2) : nullptr, static_cast<T *>(operands[result]), n});
        });
  });
}

template <typename Target> Prepared<Target> prepareConvWeightGrad(const KernelSpec &spec) {
  Result<shapes::ConvShape> shape = shapes::readConvWeightGrad(spec);
  ZC_RETURN_IF_ERROR(shape.status());
  return withFloat(shape->dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    return launching<Target>(
        spec, [s = ConvPlaces(*shape), n = spec.operands[2].numElements()](void *const *operands, const auto &launch) {
          if (n > 0)
            launch.template blocks<kElementThreads>(n, ConvWeightGradBody<T>{s, static_cast<const T *>(operands[0]),
                                                                             static_cast<const T *>(operands[1]),
                                                                             static_cast<T *>(operands[2])});
        });
  });
}

template <typename Target, typename Registry> void addConvs(Registry &registry) {
  registry.add("conv", prepareConv<Target, ConvBody, shapes::readConv>);
  registry.add("conv_transpose", prepareConv<Target, ConvTransposeBody, shapes::readConvTranspose>);
  registry.add("conv_weight_grad", prepareConvWeightGrad<Target>);
}

} // namespace zc::cuda
