#include "dialects/graph/Build.h"
#include "mlir/IR/Verifier.h"

using namespace mlir;

namespace zc::graph {

FailureOr<Operation *> createInferred(OpBuilder &builder, Location location, OperationName name, ValueRange operands,
                                      ArrayRef<NamedAttribute> attributes) {
  auto fail = [&](const Twine &message) -> LogicalResult { return emitError(location, message); };
  auto *inference = name.getInterface<InferTypeOpInterface>();
  if (!inference)
    return fail("'" + name.getStringRef() + "' does not infer its result types");
  OperationState state(location, name);
  state.addOperands(operands);
  state.addAttributes(attributes);
  // An op without result types first: inference needs the properties, and those live in an op.
  auto complain = [&] { return emitError(location); };
  auto properties = std::make_unique<char[]>(name.getOpPropertyByteSize());
  OpaqueProperties storage(properties.get());
  DictionaryAttr dictionary = builder.getDictionaryAttr(attributes);
  name.initOpProperties(storage, nullptr);
  LogicalResult converted = name.setOpPropertiesFromAttribute(name, storage, dictionary, complain);
  if (succeeded(converted))
    converted =
        inference->inferReturnTypes(builder.getContext(), location, operands, dictionary, storage, {}, state.types);
  name.destroyOpProperties(storage);
  if (failed(converted))
    return failure();
  Operation *op = builder.create(state);
  if (succeeded(verify(op)))
    return op;
  op->erase();
  return failure();
}

} // namespace zc::graph
