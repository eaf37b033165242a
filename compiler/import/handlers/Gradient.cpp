//===- Gradient.cpp - Gradient of ai.onnx.preview.training ----------------------===//
//
// d y / d xs[i], by the project's own derivatives. xs and y name tensors of the graph; the inputs say at which values
// of xs (and zs) the derivative is taken. Where they are other tensors than those named, what leads from xs to y is
// built again on them.
//
//===----------------------------------------------------------------------===//
#include "dialects/graph/Gradient.h"
#include "compiler/import/handlers/Handlers.h"
#include "compiler/import/node/Node.h"

#include "mlir/IR/IRMapping.h"

using namespace zc::importer;
using namespace zc::graph;
using mlir::Operation;
using mlir::Value;

namespace {

/// The operations of the block that `y` depends on and that depend on one of `from`, in program order.
llvm::SmallVector<Operation *> between(llvm::ArrayRef<Value> from, Value y) {
  llvm::DenseSet<Value> reached(from.begin(), from.end()), wanted{y};
  mlir::Block *block = y.getParentBlock();
  llvm::SmallVector<Operation *> path;
  for (Operation &op : *block)
    if (llvm::any_of(op.getOperands(), [&](Value operand) { return reached.contains(operand); }) &&
        llvm::none_of(op.getResults(), [&](Value result) { return llvm::is_contained(from, result); })) {
      reached.insert(op.result_begin(), op.result_end());
      path.push_back(&op);
    }
  llvm::SmallVector<Operation *> needed;
  for (Operation *op : llvm::reverse(path))
    if (llvm::any_of(op->getResults(), [&](Value result) { return wanted.contains(result); })) {
      wanted.insert(op->operand_begin(), op->operand_end());
      needed.push_back(op);
    }
  return {needed.rbegin(), needed.rend()};
}

/// Reverse mode over `path`; the derivatives of the sum of y's elements, null where there is none.
llvm::SmallVector<Value> differentiate(Node &node, llvm::ArrayRef<Operation *> path, Value y,
                                       llvm::ArrayRef<Value> xs) {
  mlir::OpBuilder &builder = node.builder();
  llvm::DenseSet<Value> active(xs.begin(), xs.end());
  auto isActive = [&](Value value) { return active.contains(value) && isFloat(value); };
  for (Operation *op : path)
    if (!stopsGradient(op) && llvm::any_of(op->getOperands(), isActive))
      active.insert(op->result_begin(), op->result_end());
  llvm::DenseMap<Value, Value> gradients;
  gradients[y] = node.expand(node.scalar(1, zc::importer::elementOf(y)), dimsOf(y));
  for (Operation *op : llvm::reverse(path)) {
    llvm::SmallVector<Value> results, operands(op->getNumOperands());
    llvm::SmallVector<bool> wanted = llvm::map_to_vector(op->getOperands(), isActive);
    for (Value result : op->getResults())
      results.push_back(isActive(result) ? gradients.lookup(result) : Value());
    if (llvm::none_of(results, [](Value gradient) { return gradient; }) ||
        llvm::none_of(wanted, [](bool w) { return w; }))
      continue;
    auto differentiable = mlir::dyn_cast<Differentiable>(op);
    if (!differentiable || mlir::failed(differentiable.buildGradient(builder, results, wanted, operands))) {
      node.unsupported("of '" + op->getName().getStringRef().str() + "', which has no derivative here");
      return {};
    }
    for (auto [operand, gradient, isWanted] : llvm::zip(op->getOperands(), operands, wanted)) {
      if (!gradient || !isWanted)
        continue;
      Value &sum = gradients[operand];
      sum = sum ? builder.create<AddOp>(node.loc, sum, gradient).getResult() : gradient;
    }
  }
  llvm::SmallVector<Value> found;
  for (Value x : xs)
    found.push_back(gradients.lookup(x));
  return found;
}

llvm::SmallVector<std::string> names(Node &node, llvm::StringRef attribute) {
  llvm::SmallVector<std::string> list;
  for (const zc::onnxpb::Attribute &a : node.proto.attribute())
    if (a.name() == attribute)
      list.append(a.strings().begin(), a.strings().end());
  return list;
}

/// The tensor of the graph that is called `name`; null, with an error, if there is none yet.
Value named(Node &node, const std::string &name) {
  Value value = node.named(name);
  if (!value)
    node.invalid("'" + name + "' is no tensor that is computed before this node");
  return value;
}

void gradient(Node &node) {
  auto xs = names(node, "xs"), zs = names(node, "zs");
  std::string yName = node.stringAttr("y", "");
  if (xs.empty() || xs.size() + zs.size() != node.numInputs() || node.numOutputs() > xs.size())
    return node.invalid("has " + std::to_string(node.numInputs()) + " inputs and " + std::to_string(node.numOutputs()) +
                        " outputs for " + std::to_string(xs.size()) + " xs and " + std::to_string(zs.size()) + " zs");
  Value y = named(node, yName);
  llvm::SmallVector<Value> tensors;
  for (const std::string &name : llvm::concat<std::string>(xs, zs))
    tensors.push_back(named(node, name));
  for (unsigned i = 0; i < node.numInputs(); ++i)
    if (!node.has(i))
      node.invalid("input " + std::to_string(i) + " is missing");
  if (node.failed())
    return;
  llvm::SmallVector<Value> inputs = node.inputs();
  if (node.pickedRows().isAny(tensors) || node.pickedRows().isAny(inputs) || node.pickedRows().isAny(y))
    return node.unsupported("of rows that a mask picked");
  auto path = between(tensors, y);
  mlir::IRMapping mapping;
  for (auto [tensor, input, index] : llvm::zip(tensors, inputs, llvm::seq<size_t>(0, tensors.size()))) {
    if (tensor.getType() != input.getType())
      return node.invalid("input " + std::to_string(index) + " has another type than the tensor it stands for");
    mapping.map(tensor, input);
  }
  bool elsewhere = tensors != inputs;
  for (Operation *&op : path)
    if (elsewhere)
      op = node.builder().clone(*op, mapping);
  Value at = elsewhere ? mapping.lookupOrDefault(y) : y;
  auto found = differentiate(node, path, at, llvm::ArrayRef<Value>(elsewhere ? inputs : tensors).take_front(xs.size()));
  for (size_t i = 0; i < found.size() && !node.failed(); ++i) {
    Value zero = node.wants(i) && !found[i]
                     ? node.expand(node.scalar(0, zc::importer::elementOf(tensors[i])), dimsOf(tensors[i]))
                     : Value();
    node.set(i, zero ? zero : found[i]);
  }
}

} // namespace

void zc::importer::addGradientHandlers(HandlerTable &table) {
  table.add("ai.onnx.preview.training", "Gradient", {1, 1, -1, gradient});
}
