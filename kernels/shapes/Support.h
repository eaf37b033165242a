//===- Support.h - what every kernel's factory uses: checks, a workspace cut into pieces -----------===//
#pragma once

#include "kernels/Kernel.h"
#include "kernels/formula/Elements.h"
#include "kernels/shapes/Strided.h"

namespace zc::shapes {
using namespace formula;

using Prepared = Result<std::unique_ptr<Kernel>>;

/// "plan asks kernel 'x' with (f32[2,3], ...): it needs <what>".
Error wrongSpec(const KernelSpec &spec, const std::string &what);

/// Have all of these operands the type?
bool allOf(const KernelSpec &spec, std::initializer_list<size_t> operands, DType type);
/// May statistics of a tensor of `type` have type `stat`? They are f32; f64 tensors may have f64 ones.
bool isStat(DType stat, DType type);
/// Whether as many steps as the product of `sizes` can be counted (in 2^62 of them a machine would be busy for weeks).
bool canCountSteps(std::initializer_list<int64_t> sizes);
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

/// A kernel from a callable (void *const *operands, const StepContext &) returning void or Status, that computes by
/// `text` (Kernel::method).
template <typename Fn> class FunctionKernel : public Kernel {
public:
  FunctionKernel(Fn fn, std::string text) : fn(std::move(fn)), text(std::move(text)) {}
  std::string method() const override { return text; }
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
  std::string text;
};

template <typename Fn> Prepared makeKernel(Fn fn, std::string method = {}) {
  return std::unique_ptr<Kernel>(std::make_unique<FunctionKernel<Fn>>(std::move(fn), std::move(method)));
}

template <typename T> T *as(void *pointer) { return static_cast<T *>(pointer); }

/// `count` elements of a kernel's workspace.
template <typename T> struct Piece {
  size_t operand = 0; ///< where runs find the workspace
  int64_t offset = 0; ///< bytes from its start
  int64_t count = 0;
  T *of(void *const *operands) const { return count == 0 ? nullptr : as<T>(as<char>(operands[operand]) + offset); }
};

/// Cuts a workspace into pieces, each from a cache line on, while its kernel is prepared.
class Workspace {
public:
  explicit Workspace(const KernelSpec &spec) : operand(spec.operands.size()), given(spec.workspace) {}
  template <typename T> Piece<T> take(int64_t count) {
    Piece<T> piece{operand, used, count};
    used = sum(used, bytesOf(count, sizeof(T)));
    return piece;
  }
  int64_t left() const { return given - used; }
  bool fits() const { return used <= given; }

  // How large a workspace must be. They saturate: a crafted plan's numbers may be anything.
  /// What take() uses up.
  static int64_t bytesOf(int64_t count, size_t size);
  template <typename T> static int64_t bytesOf(int64_t count) { return bytesOf(count, sizeof(T)); }
  static int64_t times(int64_t a, int64_t b);
  static int64_t sum(int64_t a, int64_t b);
  template <typename... Rest> static int64_t times(int64_t a, int64_t b, int64_t c, Rest... rest) {
    return times(times(a, b), c, rest...);
  }
  template <typename... Rest> static int64_t sum(int64_t a, int64_t b, int64_t c, Rest... rest) {
    return sum(sum(a, b), c, rest...);
  }

private:
  size_t operand;
  int64_t given, used = 0;
};

/// A formula of a workspace: of the shape that `read` makes of a spec.
template <auto read, auto bytes> int64_t bytesOf(const KernelSpec &spec) {
  const auto shape = read(spec);
  return shape.ok() ? bytes(*shape) : 0;
}

inline int64_t quotientUp(int64_t n, int64_t by) { return (n + by - 1) / by; }
inline int64_t roundUp(int64_t n, int64_t granule) { return quotientUp(n, granule) * granule; }

/// Product of dims[begin, end).
int64_t product(const Dims &dims, size_t begin, size_t end);

} // namespace zc::shapes
