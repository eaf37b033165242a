#include "kernels/shapes/Support.h"

#include <algorithm>
#include <cstring>

namespace zc::shapes {

static std::string text(const TensorType &type) {
  std::string result(nameOf(type.dtype));
  result += '[';
  for (size_t i = 0; i < type.dims.size(); ++i)
    result += (i ? "," : "") + std::to_string(type.dims[i]);
  return result + ']';
}

bool allOf(const KernelSpec &spec, std::initializer_list<size_t> operands, DType type) {
  return std::all_of(operands.begin(), operands.end(), [&](size_t i) { return spec.operands[i].dtype == type; });
}

bool isStat(DType stat, DType type) { return stat == DType::f32 || (stat == DType::f64 && type == DType::f64); }

bool canCountSteps(std::initializer_list<int64_t> sizes) {
  int64_t steps = 1;
  for (int64_t size : sizes)
    if (size != 0 && (__builtin_mul_overflow(steps, size, &steps) || steps > int64_t(1) << 62))
      return false;
  return true;
}

Error wrongSpec(const KernelSpec &spec, const std::string &what) {
  std::string operands;
  for (size_t i = 0; i < spec.operands.size(); ++i)
    operands += (i == 0 ? "" : i == spec.numInputs ? " -> " : ", ") + text(spec.operands[i]);
  return makeError(Code::corrupt, 703, "plan asks kernel '" + spec.name + "' for (" + operands + "): it needs " + what);
}

Error outOfRange(const KernelSpec &spec, const char *what, int64_t value, int64_t low, int64_t high) {
  return makeError(Code::badInput, 704,
                   std::string(what) + " " + std::to_string(value) + " of kernel '" + spec.name + "' is not in [" +
                       std::to_string(low) + ", " + std::to_string(high) + ")");
}

Check &Check::counts(size_t minInputs, size_t maxInputs, size_t minOutputs, size_t maxOutputs) {
  size_t inputs = spec.numInputs, outputs = spec.operands.size() - spec.numInputs;
  auto range = [](size_t low, size_t high) {
    return low == high ? std::to_string(low) : std::to_string(low) + " to " + std::to_string(high);
  };
  if (!status.ok())
    return *this;
  if (inputs < minInputs || inputs > maxInputs || outputs < minOutputs || outputs > maxOutputs)
    status = wrongSpec(spec, range(minInputs, maxInputs) + " inputs and " + range(minOutputs, maxOutputs) + " outputs");
  for (const TensorType &type : spec.operands)
    if (type.dims.size() > kMaxRank)
      status = wrongSpec(spec, "ranks of at most " + std::to_string(kMaxRank));
  return *this;
}

constexpr int64_t kMostBytes = int64_t(1) << 60;

int64_t Workspace::times(int64_t a, int64_t b) {
  int64_t result = 0;
  return __builtin_mul_overflow(a, b, &result) ? kMostBytes : std::min(result, kMostBytes);
}

int64_t Workspace::sum(int64_t a, int64_t b) {
  int64_t result = 0;
  return __builtin_add_overflow(a, b, &result) ? kMostBytes : std::min(result, kMostBytes);
}

int64_t Workspace::bytesOf(int64_t count, size_t size) {
  return (times(count, static_cast<int64_t>(size)) + 63) / 64 * 64;
}

int64_t product(const Dims &dims, size_t begin, size_t end) {
  int64_t result = 1;
  for (size_t i = begin; i < end; ++i)
    result *= dims[i];
  return result;
}

} // namespace zc::shapes
