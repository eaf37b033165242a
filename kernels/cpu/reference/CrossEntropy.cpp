// cross_entropy and its gradient. Labels are checked before they are used.
#include "kernels/cpu/Shapes.h"

namespace zc::cpu {
namespace {

/// fn(Tag<storage>, Tag<statistics>, Tag<label>).
template <typename Fn> Prepared withTypes(const CrossEntropyShape &s, Fn fn) {
  return withFloat(s.dtype, [&](auto tag) {
    return withIndex(s.label, [&](auto label) {
      return s.stat == DType::f64 ? fn(tag, Tag<double>(), label) : fn(tag, Tag<float>(), label);
    });
  });
}

Prepared prepareCrossEntropy(const KernelSpec &spec) {
  Result<CrossEntropyShape> read = readCrossEntropy(spec);
  ZC_RETURN_IF_ERROR(read.status());
  return withTypes(*read, [&](auto tag, auto statTag, auto labelTag) {
    using T = TypeOf<decltype(tag)>;
    using S = TypeOf<decltype(statTag)>;
    using L = TypeOf<decltype(labelTag)>;
    return makeKernel([spec, s = *read](void *const *operands, const StepContext &) -> Status {
      double loss = 0;
      int64_t count = 0;
      for (int64_t r = 0; r < s.rows; ++r) {
        const T *x = as<T>(operands[0]) + r * s.classes;
        double top = -std::numeric_limits<double>::infinity(), sum = 0;
        for (int64_t c = 0; c < s.classes; ++c)
          top = load(x[c]) > top || std::isnan(load(x[c])) ? load(x[c]) : top;
        for (int64_t c = 0; c < s.classes; ++c)
          sum += std::exp(load(x[c]) - top);
        double lse = top + std::log(sum);
        as<S>(operands[3])[r] = static_cast<S>(lse);
        int64_t label = as<L>(operands[1])[r];
        if (label == s.ignoreIndex)
          continue;
        if (label < 0 || label >= s.classes)
          return outOfRange(spec, "label", label, 0, s.classes);
        loss += lse - load(x[label]);
        ++count;
      }
      *as<S>(operands[2]) = static_cast<S>(s.sum ? loss : loss / static_cast<double>(count));
      return Status::success();
    });
  });
}

Prepared prepareCrossEntropyGrad(const KernelSpec &spec) {
  Result<CrossEntropyShape> read = readCrossEntropyGrad(spec);
  ZC_RETURN_IF_ERROR(read.status());
  return withTypes(*read, [&](auto tag, auto statTag, auto labelTag) {
    using T = TypeOf<decltype(tag)>;
    using S = TypeOf<decltype(statTag)>;
    using L = TypeOf<decltype(labelTag)>;
    return makeKernel([spec, s = *read](void *const *operands, const StepContext &) -> Status {
      const L *labels = as<L>(operands[2]);
      int64_t count = 0;
      for (int64_t r = 0; r < s.rows; ++r)
        if (labels[r] != s.ignoreIndex) {
          if (labels[r] < 0 || labels[r] >= s.classes)
            return outOfRange(spec, "label", labels[r], 0, s.classes);
          ++count;
        }
      double factor = *as<S>(operands[0]) / (s.sum ? 1.0 : static_cast<double>(count));
      for (int64_t r = 0; r < s.rows; ++r) {
        const T *x = as<T>(operands[1]) + r * s.classes;
        T *d = as<T>(operands[4]) + r * s.classes;
        double lse = as<S>(operands[3])[r];
        for (int64_t c = 0; c < s.classes; ++c)
          d[c] = storeSum<T>(labels[r] == s.ignoreIndex ? 0 : (std::exp(load(x[c]) - lse) - (c == labels[r])) * factor);
      }
      return Status::success();
    });
  });
}

Prepared prepareLabelIndex(const KernelSpec &spec) {
  Result<LabelIndexShape> read = readLabelIndex(spec);
  ZC_RETURN_IF_ERROR(read.status());
  return withIndex(spec.operands[0].dtype, [&](auto labelTag) {
    using L = TypeOf<decltype(labelTag)>;
    return makeKernel([spec, s = *read](void *const *operands, const StepContext &) -> Status {
      for (int64_t i = 0; i < s.n; ++i) {
        int64_t label = as<L>(operands[0])[i];
        if (label != s.ignoreIndex && (label < 0 || label >= s.classes))
          return outOfRange(spec, "label", label, 0, s.classes);
        as<L>(operands[1])[i] = static_cast<L>(label == s.ignoreIndex ? 0 : label);
      }
      return Status::success();
    });
  });
}

} // namespace

void addCrossEntropy(KernelRegistry &registry) {
  registry.add("cross_entropy", prepareCrossEntropy);
  registry.add("cross_entropy_grad", prepareCrossEntropyGrad);
  registry.add("label_index", prepareLabelIndex);
}

} // namespace zc::cpu
