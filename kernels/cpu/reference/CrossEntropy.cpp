// cross_entropy and its gradient. Labels are checked before they are used.
#include "kernels/cpu/Support.h"
#include "kernels/cpu/reference/ElementTypes.h"
#include "kernels/shapes/Shapes.h"

namespace zc::cpu {
namespace {

Prepared prepareCrossEntropy(const KernelSpec &spec) {
  Result<CrossEntropyShape> read = readCrossEntropy(spec);
  ZC_RETURN_IF_ERROR(read.status());
  return withFloat(read->dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    return makeKernel([spec, s = *read, stats = StatElements(read->stat),
                       labels = IndexElements(read->label)](void *const *operands, const StepContext &) -> Status {
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
        stats.set(operands[3], r, lse);
        int64_t label = labels.get(operands[1], r);
        if (label == s.ignoreIndex)
          continue;
        if (label < 0 || label >= s.classes)
          return outOfRange(spec, "label", label, 0, s.classes);
        loss += lse - load(x[label]);
        ++count;
      }
      stats.set(operands[2], 0, s.sum ? loss : loss / static_cast<double>(count));
      return Status::success();
    });
  });
}

Prepared prepareCrossEntropyGrad(const KernelSpec &spec) {
  Result<CrossEntropyShape> read = readCrossEntropyGrad(spec);
  ZC_RETURN_IF_ERROR(read.status());
  return withFloat(read->dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    return makeKernel([spec, s = *read, stats = StatElements(read->stat),
                       labels = IndexElements(read->label)](void *const *operands, const StepContext &) -> Status {
      int64_t count = 0;
      for (int64_t r = 0; r < s.rows; ++r)
        if (int64_t label = labels.get(operands[2], r); label != s.ignoreIndex) {
          if (label < 0 || label >= s.classes)
            return outOfRange(spec, "label", label, 0, s.classes);
          ++count;
        }
      double factor = stats.get(operands[0], 0) / (s.sum ? 1.0 : static_cast<double>(count));
      for (int64_t r = 0; r < s.rows; ++r) {
        const T *x = as<T>(operands[1]) + r * s.classes;
        T *d = as<T>(operands[4]) + r * s.classes;
        const double lse = stats.get(operands[3], r);
        const int64_t label = labels.get(operands[2], r);
        for (int64_t c = 0; c < s.classes; ++c)
          d[c] = storeSum<T>(label == s.ignoreIndex ? 0 : (std::exp(load(x[c]) - lse) - (c == label)) * factor);
      }
      return Status::success();
    });
  });
}

Prepared prepareLabelIndex(const KernelSpec &spec) {
  Result<LabelIndexShape> read = readLabelIndex(spec);
  ZC_RETURN_IF_ERROR(read.status());
  return makeKernel([spec, s = *read, labels = IndexElements(spec.operands[0].dtype)](void *const *operands,
                                                                                      const StepContext &) -> Status {
    for (int64_t i = 0; i < s.n; ++i) {
      int64_t label = labels.get(operands[0], i);
      if (label != s.ignoreIndex && (label < 0 || label >= s.classes))
        return outOfRange(spec, "label", label, 0, s.classes);
      labels.set(operands[1], i, label == s.ignoreIndex ? 0 : label);
    }
    return Status::success();
  });
}

} // namespace

void addCrossEntropy(KernelRegistry &registry) {
  registry.add("cross_entropy", prepareCrossEntropy);
  registry.add("cross_entropy_grad", prepareCrossEntropyGrad, KernelTraits().overwriting(InputSet(1) << 1)); // logits
  registry.add("label_index", prepareLabelIndex, elementwise());
}

} // namespace zc::cpu
