//===- Constants.cpp - values of a program that are known when compiling ---===//
#include "compiler/import/fold/Constants.h"
#include "compiler/import/base/Errors.h"
#include "compiler/import/fold/Fold.h"

using namespace zc;
using namespace zc::importer;
using namespace mlir;

constexpr int64_t shapeElements = 64; ///< as many as a shape may have dimensions

const HostTensor *Constants::of(Value value) const {
  auto found = known.find(value);
  return found == known.end() ? nullptr : found->second.get();
}

Value Constants::make(HostTensor tensor, Location loc) {
  if (tensor.numElements() > shapeElements) // what is made of such ones may be larger than what may be folded
    tensor.compress();
  auto value =
      builder.create<graph::ConstantOp>(loc, RankedTensorType::get(tensor.dims, typeOf(tensor.dtype, loc.getContext())),
                                        toAttribute(tensor, loc.getContext()));
  known[value] = std::make_unique<HostTensor>(std::move(tensor));
  return value;
}

/// Shape arithmetic is always done: the number of nodes bounds it.
bool Constants::spend(int64_t &work, int64_t elements) const {
  if (elements <= shapeElements)
    return true;
  if (elements > limits.foldingWork - work)
    return false;
  work += elements;
  return true;
}

Constants::Values Constants::replace(Operation *op, llvm::MutableArrayRef<HostTensor> results) {
  Location loc = op->getLoc();
  op->erase();
  Values values;
  for (HostTensor &result : results)
    values.push_back(make(std::move(result), loc));
  return values;
}

Result<Constants::Values> Constants::fold(Operation *op) {
  llvm::SmallVector<const HostTensor *> operands;
  for (Value operand : op->getOperands()) {
    operands.push_back(of(operand));
    if (!operands.back())
      return Values();
  }
  const Fold *fold = op->getNumResults() == 1 ? findFold(op->getName().getStringRef()) : nullptr;
  auto out = fold ? shapedLike(op->getResult(0).getType()) : std::nullopt;
  if (!out)
    return foldByKernel(op, operands);
  bool allSplats = !operands.empty();
  int64_t largest = out->numElements();
  for (const HostTensor *operand : operands) {
    allSplats &= operand->stored() == 1;
    largest = std::max(largest, operand->numElements());
  }
  out->splat = allSplats && fold->keepsSplats && out->numElements() > 1;
  if (!out->splat && largest > limits.foldedElements)
    return Values();
  if (!spend(foldingWork, out->splat ? 1 : largest))
    return Values();
  out->allocate();
  std::string error;
  if (fold->evaluate(op, operands, *out, error))
    return replace(op, *out);
  if (error.empty())
    return foldByKernel(op, operands);
  return badFile(badNode, error);
}

/// Ops without an evaluator of their own run on their reference kernel.
Result<Constants::Values> Constants::foldByKernel(Operation *op, llvm::ArrayRef<const HostTensor *> operands) {
  auto kernel = dyn_cast<graph::KernelOp>(op);
  if (!kernel || operands.empty() || kernel.dependsOnMicroStep())
    return Values();
  double work = kernel.getFlops();
  std::vector<HostTensor> results;
  for (const HostTensor *operand : operands)
    if (operand->numElements() > limits.foldedElements)
      return Values();
  for (Type type : op->getResultTypes()) {
    auto result = shapedLike(type);
    if (!result || result->numElements() > limits.foldedElements)
      return Values();
    work += static_cast<double>(result->numElements());
    results.push_back(std::move(*result));
  }
  if (!(work <= static_cast<double>(limits.foldingWork)) || !spend(foldingWork, static_cast<int64_t>(work)))
    return Values();
  bool done = false;
  if (Status failure = evaluateByKernel(kernel, operands, results, done); !failure.ok())
    return badFile(badNode, failure.error().message);
  return done ? replace(op, results) : Values();
}
