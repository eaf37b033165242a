#include "kernels/Traits.h"
#include "kernels/Views.h"
#include "kernels/cpu/Registries.h"

namespace zc {

bool KernelTraits::mayOverwrite(const KernelSpec &spec, size_t input, size_t output) const {
  const bool isOneOfIts = output == spec.numInputs || (output > spec.numInputs && anyOutput);
  return isOneOfIts && input < 32 && (overwritten >> input & 1) != 0 && spec.operands[input] == spec.operands[output] &&
         isSeenWhole(spec, input) && isSeenWhole(spec, output);
}

const KernelTraits &traitsOf(std::string_view kernel) { return cpu::plainKernels().traitsOf(kernel); }

} // namespace zc
