//===- KernelAttributes.h - which attributes of an op are its kernel's ----------===//
#pragma once

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Operation.h"

#include <string>

namespace zc::graph {

/// Is it a note of some pass, named after a dialect, and no attribute of the operation's own?
inline bool isNote(mlir::NamedAttribute attribute) { return attribute.getName().getValue().contains('.'); }

/// The attributes that an op's kernel has, in a plan as when it is prepared: its own, without types, which the operands
/// tell, and with views as arrays (base/StridedView.h). A constant has `value` if it is a splat, else `data`.
mlir::NamedAttrList kernelAttributes(mlir::Operation *op);

/// Elements' bytes as a kernel sees them: little endian, a byte per bool.
std::string elementBytes(mlir::DenseElementsAttr elements);

} // namespace zc::graph
