#include "kernels/InPlace.h"
#include "kernels/formula/Elementwise.h"

#include <map>

namespace zc {

namespace {

std::map<std::string_view, InputSet> makeTable() {
  std::map<std::string_view, InputSet> table;
  // Element i of the result needs element i of each input of its type alone.
  auto elementwise = [&](const char *name, auto) { table[name] = kAnyInput; };
  formula::forFloatFunctions(elementwise);
  formula::forAnyFunctions(elementwise);
  formula::forArithmetic(elementwise);
  formula::forComparisons(elementwise);
  formula::forBitFunctions(elementwise);
  for (const char *name : {"not", "is_nan", "select", "gelu", "gelu_grad", "silu_grad", "dropout_grad",
                           "moving_average", "label_index", "copy", "fused"})
    table[name] = kAnyInput;
  // Sums along a row are known before its first element is written.
  table["softmax_grad"] = table["log_softmax_grad"] = kAnyInput;
  table["cross_entropy_grad"] = InputSet(1) << 1; // logits
  table["matmul_part"] = InputSet(1) << 2;        // the addend
  table["gather_grad"] = InputSet(1) << 2;        // what is added onto
  return table;
}

} // namespace

InputSet overwritableInputs(std::string_view kernel) {
  static const std::map<std::string_view, InputSet> table = makeTable();
  auto found = table.find(kernel);
  return found == table.end() ? kNoInput : found->second;
}

bool mayOverwrite(const KernelSpec &spec, InputSet allowed, size_t input, size_t output) {
  const bool isOneOfIts = output == spec.numInputs || (output > spec.numInputs && spec.name == "fused");
  return isOneOfIts && input < 32 && (allowed >> input & 1) != 0 && spec.operands[input] == spec.operands[output];
}

} // namespace zc
