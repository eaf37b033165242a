//===- Support.h - what every CPU kernel's factory uses -----------------------===//
#pragma once

#include "kernels/Kernel.h"
#include "kernels/cpu/Elements.h"
#include "kernels/cpu/Strided.h"

namespace zc::cpu {

using Prepared = Result<std::unique_ptr<Kernel>>;

/// "plan asks kernel 'x' with (f32[2,3], ...): it needs <what>".
Error wrongSpec(const KernelSpec &spec, const std::string &what);
/// Index or label `value` outside [low, high): bad input.
Error outOfRange(const KernelSpec &spec, const char *what, int64_t value, int64_t low, int64_t high);

/// Checks of a spec, chained; the first that fails is the status.
class Check {
public:
  explicit Check(const KernelSpec &spec) : spec(spec) {}
  /// Operand counts, and ranks up to kMaxRank. Must come first: later checks index operands.
  Check &counts(size_t minInputs, size_t maxInputs, size_t minOutputs, size_t maxOutputs);
  Check &counts(size_t inputs, size_t outputs) { return counts(inputs, inputs, outputs, outputs); }
  /// `holds` is called only while all checks before held.
  template <typename Fn> Check &that(Fn holds, const char *what) {
    if (status.ok() && !holds())
      status = wrongSpec(spec, what);
    return *this;
  }
  Status done() { return std::move(status); }

private:
  const KernelSpec &spec;
  Status status;
};

/// A kernel from a callable (void *const *operands, const StepContext &) returning void or Status.
template <typename Fn> class FunctionKernel : public Kernel {
public:
  explicit FunctionKernel(Fn fn) : fn(std::move(fn)) {}
  Status run(void *const *operands, const StepContext &context) override {
    if constexpr (std::is_void_v<std::invoke_result_t<Fn &, void *const *, const StepContext &>>) {
      fn(operands, context);
      return Status::success();
    } else {
      return fn(operands, context);
    }
  }

private:
  Fn fn;
};

template <typename Fn> Prepared makeKernel(Fn fn) {
  return std::unique_ptr<Kernel>(std::make_unique<FunctionKernel<Fn>>(std::move(fn)));
}

template <typename T> T *as(void *pointer) { return static_cast<T *>(pointer); }

/// Product of dims[begin, end).
int64_t product(const Dims &dims, size_t begin, size_t end);

// One function per file of reference/, each adding its kernels.
void addElementwise(KernelRegistry &registry);
void addActivation(KernelRegistry &registry);
void addCast(KernelRegistry &registry);
void addMove(KernelRegistry &registry);
void addConstant(KernelRegistry &registry);
void addIndex(KernelRegistry &registry);
void addScatter(KernelRegistry &registry);
void addOrder(KernelRegistry &registry);
void addReduce(KernelRegistry &registry);
void addMatmul(KernelRegistry &registry);
void addNorm(KernelRegistry &registry);
void addSoftmax(KernelRegistry &registry);
void addAttention(KernelRegistry &registry);
void addCrossEntropy(KernelRegistry &registry);
void addDropout(KernelRegistry &registry);
void addOptimizer(KernelRegistry &registry);
void addMetrics(KernelRegistry &registry);
void addQuantize(KernelRegistry &registry);
void addConv(KernelRegistry &registry);
void addPool(KernelRegistry &registry);
void addBatchNorm(KernelRegistry &registry);

} // namespace zc::cpu
