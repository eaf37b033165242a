//===- GraphDialect.cpp - registration of ops, attributes, interfaces --------===//
#include "dialects/graph/Graph.h"
#include "dialects/graph/NodeNames.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace zc::graph;

namespace zc::graph {

/// One of the names of E's values.
template <typename E> static FailureOr<E> parseNamed(AsmParser &parser) {
  SMLoc loc = parser.getCurrentLocation();
  std::string name;
  if (failed(parser.parseKeywordOrString(&name)))
    return failure();
  if (std::optional<E> value = valueNamed<E>(name))
    return *value;
  InFlightDiagnostic error = parser.emitError(loc, "expected one of ");
  llvm::interleaveComma(namesOf(E()), error);
  return error;
}

} // namespace zc::graph

#include "dialects/graph/GraphDialect.cpp.inc"
#include "dialects/graph/GraphEnums.cpp.inc"
#include "dialects/graph/GraphInterfaces.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/graph/GraphAttrs.cpp.inc"

void GraphDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/graph/GraphAttrs.cpp.inc"
      >();
  registerGraphDialectOperations(this);
  addInterfaces<NodeNames>();
}

Operation *GraphDialect::materializeConstant(OpBuilder &builder, Attribute value, Type type, Location location) {
  auto elements = dyn_cast<DenseElementsAttr>(value);
  if (!elements || elements.getType() != type)
    return nullptr;
  return builder.create<ConstantOp>(location, elements);
}
