//===- NodeNames.cpp - operations' locations: the ONNX nodes they come from -------------------===//
#include "dialects/graph/NodeNames.h"
#include "dialects/graph/Graph.h"

#include "llvm/ADT/SmallString.h"

using namespace mlir;

namespace zc::graph {
namespace {
struct NodeName {
  StringRef text;
};
} // namespace

NodeNames &NodeNames::of(MLIRContext *context) {
  return *context->getLoadedDialect<GraphDialect>()->getRegisteredInterface<NodeNames>();
}

Location NodeNames::makeLocation(const Twine &name) {
  SmallString<128> text;
  const auto *kept = new (allocator) NodeName{name.toStringRef(text).copy(allocator)};
  return OpaqueLoc::get(kept, getDialect()->getContext());
}

StringRef nodeOf(Location location) {
  if (auto named = dyn_cast<NameLoc>(location))
    return named.getName();
  const auto *name = OpaqueLoc::getUnderlyingLocationOrNull<const NodeName *>(location);
  return name ? name->text : StringRef();
}

static Location spelled(Location location) {
  if (auto fused = dyn_cast<FusedLoc>(location)) {
    SmallVector<Location> parts = llvm::map_to_vector(fused.getLocations(), spelled);
    return FusedLoc::get(parts, fused.getMetadata(), location.getContext());
  }
  StringRef name = isa<OpaqueLoc>(location) ? nodeOf(location) : StringRef();
  return name.empty() ? location : NameLoc::get(StringAttr::get(location.getContext(), name));
}

void spellLocations(ModuleOp module) {
  module->walk([](Operation *op) { op->setLoc(spelled(op->getLoc())); });
}

} // namespace zc::graph
