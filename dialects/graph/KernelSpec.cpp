#include "dialects/graph/KernelSpec.h"

using namespace mlir;

namespace zc::graph {

FailureOr<zc::TensorType> toTensorType(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  auto dtype = tensor ? dtypeOf(tensor.getElementType()) : std::nullopt;
  if (!dtype)
    return failure();
  return zc::TensorType{*dtype, tensor.getShape().vec()};
}

FailureOr<zc::Attribute> toKernelAttribute(mlir::Attribute attribute) {
  if (isa<UnitAttr>(attribute))
    return zc::Attribute(int64_t(1));
  if (auto number = dyn_cast<IntegerAttr>(attribute))
    return zc::Attribute(number.getType().isInteger(1) ? int64_t(number.getValue().getBoolValue()) : number.getInt());
  if (auto number = dyn_cast<FloatAttr>(attribute))
    return zc::Attribute(number.getValueAsDouble());
  if (auto text = dyn_cast<StringAttr>(attribute))
    return zc::Attribute(text.str());
  if (auto array = dyn_cast<DenseI64ArrayAttr>(attribute))
    return zc::Attribute(array.asArrayRef().vec());
  if (auto elements = dyn_cast<DenseElementsAttr>(attribute))
    return zc::Attribute(elementBytes(elements));
  return failure();
}

FailureOr<zc::KernelSpec> toKernelSpec(Operation *op) {
  auto kernel = dyn_cast<KernelOp>(op);
  if (!kernel)
    return op->emitOpError("has no kernel");
  zc::KernelSpec spec;
  spec.name = kernel.getKernelName().str();
  spec.numInputs = op->getNumOperands();
  for (Type type : llvm::concat<Type>(llvm::to_vector(op->getOperandTypes()), llvm::to_vector(op->getResultTypes()))) {
    FailureOr<zc::TensorType> tensor = toTensorType(type);
    if (failed(tensor))
      return op->emitOpError("type ") << type << " cannot be given to a kernel";
    spec.operands.push_back(std::move(*tensor));
  }
  for (NamedAttribute attribute : kernelAttributes(op)) {
    FailureOr<zc::Attribute> value = toKernelAttribute(attribute.getValue());
    if (failed(value))
      return op->emitOpError("attribute '") << attribute.getName().getValue() << "' cannot be given to a kernel";
    spec.attributes[attribute.getName().str()] = std::move(*value);
  }
  return spec;
}

int64_t defaultWorkspaceBytes(Operation *op, zc::Target target) {
  StringRef name = cast<KernelOp>(op).getKernelName();
  if (isView(op) || !zc::mayHaveWorkspace({name.data(), name.size()}))
    return 0;
  FailureOr<zc::KernelSpec> spec = toKernelSpec(op);
  return failed(spec) ? 0 : zc::workspaceBytes(*spec, target);
}

zc::KeptInput keptInput(Operation *op, zc::Target target) {
  StringRef name = cast<KernelOp>(op).getKernelName();
  if (isView(op) || !zc::traitsOf({name.data(), name.size()}).keeps().formula)
    return {};
  FailureOr<zc::KernelSpec> spec = toKernelSpec(op);
  return failed(spec) ? zc::KeptInput() : zc::keptInput(*spec, target);
}

} // namespace zc::graph
