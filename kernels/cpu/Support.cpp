#include "kernels/cpu/Support.h"

#include <cstring>

namespace zc::cpu {

static std::string text(const TensorType &type) {
  std::string result(nameOf(type.dtype));
  result += '[';
  for (size_t i = 0; i < type.dims.size(); ++i)
    result += (i ? "," : "") + std::to_string(type.dims[i]);
  return result + ']';
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

int64_t product(const Dims &dims, size_t begin, size_t end) {
  int64_t result = 1;
  for (size_t i = begin; i < end; ++i)
    result *= dims[i];
  return result;
}

float fromF16(uint16_t bits) {
  uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
  int exponent = (bits >> 10) & 31;
  int mantissa = bits & 1023;
  if (exponent == 31) {
    uint32_t word = sign | 0x7f800000u | static_cast<uint32_t>(mantissa) << 13;
    float result;
    std::memcpy(&result, &word, sizeof(result));
    return result;
  }
  float magnitude = exponent ? std::ldexp(static_cast<float>(mantissa + 1024), exponent - 25)
                             : std::ldexp(static_cast<float>(mantissa), -24);
  return sign ? -magnitude : magnitude;
}

uint16_t toF16(float value) {
  uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  float magnitude = std::fabs(value);
  if (std::isnan(value))
    return sign | 0x7e00;
  if (magnitude >= 65520.0f)
    return sign | 0x7c00;
  int exponent;
  std::frexp(magnitude, &exponent);
  // The unit of the last place: 2^-24 for subnormals. nearbyint rounds ties to even.
  int unit = std::max(exponent - 11, -24);
  auto steps = static_cast<uint32_t>(std::nearbyint(std::ldexp(magnitude, -unit)));
  // For a normal number steps is in [1024, 2048]; 2048 carries into the exponent by itself.
  uint32_t bits = steps < 1024 ? steps : static_cast<uint32_t>(unit + 24) * 1024 + steps;
  return static_cast<uint16_t>(sign | bits);
}

} // namespace zc::cpu
