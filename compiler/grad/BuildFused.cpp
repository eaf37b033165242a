#include "compiler/grad/BuildFused.h"
#include "dialects/graph/Infer.h"
#include "dialects/graph/KernelSpec.h"

#include "llvm/ADT/SmallPtrSet.h"

#include <cstring>

using namespace mlir;
using namespace zc::graph;

namespace zc {

std::optional<float> immediateOf(Value value) {
  auto constant = value.getDefiningOp<ConstantOp>();
  auto elements = constant ? dyn_cast<DenseElementsAttr>(constant.getValue()) : DenseElementsAttr();
  auto type = elements ? dtypeOf(elements.getElementType()) : std::nullopt;
  if (!type || !elements.isSplat() || !isFusedType(*type))
    return std::nullopt;
  if (*type == DType::boolean)
    return elements.getSplatValue<bool>() ? 1.0f : 0.0f;
  return static_cast<float>(elements.getSplatValue<APFloat>().convertToDouble());
}

std::optional<FusedInstruction> findInstruction(Operation *op) {
  if (!isElementwise(op) || op->getNumResults() != 1 || !isa<KernelOp>(op))
    return std::nullopt;
  for (Type type : llvm::concat<Type>(llvm::to_vector(op->getOperandTypes()), llvm::to_vector(op->getResultTypes())))
    if (auto dtype = dtypeOf(cast<RankedTensorType>(type).getElementType()); !dtype || !isFusedType(*dtype))
      return std::nullopt;
  FailureOr<KernelSpec> spec = toKernelSpec(op);
  return succeeded(spec) ? fusedInstructionOf(*spec) : std::nullopt;
}

namespace {

bool isSame(const FusedInstruction &a, const FusedInstruction &b) {
  return a.code == b.code && a.type == b.type && a.from == b.from &&
         std::memcmp(&a.value, &b.value, sizeof a.value) == 0;
}

class Builder {
public:
  Builder(ArrayRef<FusedStep> steps, ArrayRef<Value> results) {
    // Inputs have the first registers.
    for (const FusedStep &step : steps)
      made.insert(step.op);
    for (const FusedStep &step : steps)
      for (Value operand : step.op->getOperands())
        if (!made.contains(operand.getDefiningOp()) && !immediateOf(operand) &&
            registers.try_emplace(operand, fused.inputs.size()).second) {
          fused.inputs.push_back(operand);
          fused.program.inputs.push_back(*dtypeOf(elementOf(operand)));
        }
    fused.results.assign(results.begin(), results.end());
    for (const FusedStep &step : steps)
      add(step);
    for (Value result : results)
      fused.program.results.push_back(registers.lookup(result));
  }

  llvm::SmallPtrSet<Operation *, 8> made;
  DenseMap<Value, size_t> registers;
  Fused fused;

private:
  void add(const FusedStep &step) {
    Operation *op = step.op;
    if (!step.instruction) {
      registers[op->getResult(0)] = registerOf(op->getOperand(0));
      return;
    }
    FusedInstruction instruction = *step.instruction;
    for (auto [i, operand] : llvm::enumerate(op->getOperands()))
      instruction.from[i] = registerOf(operand);
    if (instruction.code == FusedCode::masked)
      instruction.from[2] = define({FusedCode::constant, DType::f32, {}, std::exchange(instruction.value, 0)}, true);
    // Each result has a register of its own.
    registers[op->getResult(0)] = define(instruction, !llvm::is_contained(fused.results, op->getResult(0)));
  }

  size_t registerOf(Value value) {
    if (auto found = registers.find(value); found != registers.end())
      return found->second;
    return registers[value] = define({FusedCode::constant, *dtypeOf(elementOf(value)), {}, *immediateOf(value)}, true);
  }

  /// One that is the same stands behind what both read.
  size_t define(const FusedInstruction &instruction, bool mayShare) {
    auto &all = fused.program.instructions;
    const size_t inputs = fused.inputs.size(), last = *llvm::max_element(instruction.from);
    size_t at = mayShare ? std::max(last, inputs) - inputs : all.size();
    while (at < all.size() && !isSame(instruction, all[at]))
      ++at;
    if (at == all.size())
      all.push_back(instruction);
    return inputs + at;
  }
};

} // namespace

Fused buildFused(ArrayRef<FusedStep> steps, ArrayRef<Value> results) {
  return std::move(Builder(steps, results).fused);
}

} // namespace zc
