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

/// What MLIR keeps of an OpaqueLoc. OpaqueLoc::get looks for an equal one among all before it makes one, in a table
/// that compares what it meets without hashes: two or three misses of the cache for each node, a tenth of the time to
/// compile. Nodes' names differ always, so theirs are made here, as MLIR makes those of DistinctAttr. MLIR's own header
/// hides this struct; NodeNamesTest reads what lies in one through OpaqueLoc.
struct NodeLocStorage : AttributeStorage {
  NodeLocStorage(const NodeName *name, Location fallback)
      : underlyingLocation(reinterpret_cast<uintptr_t>(name)), underlyingTypeID(TypeID::get<const NodeName *>()),
        fallbackLocation(fallback) {
    initializeAbstractAttribute(AbstractAttribute::lookup(OpaqueLoc::getTypeID(), fallback.getContext()));
  }
  uintptr_t underlyingLocation;
  TypeID underlyingTypeID;
  Location fallbackLocation;
};
} // namespace

NodeNames &NodeNames::of(MLIRContext *context) {
  return *context->getLoadedDialect<GraphDialect>()->getRegisteredInterface<NodeNames>();
}

Location NodeNames::makeLocation(const Twine &name) {
  SmallString<128> text;
  const auto *kept = new (allocator) NodeName{name.toStringRef(text).copy(allocator)};
  return Location(new (allocator) NodeLocStorage(kept, UnknownLoc::get(getDialect()->getContext())));
}

StringRef nodeOf(Location location) {
  if (auto named = dyn_cast<NameLoc>(location))
    return named.getName();
  const auto *name = OpaqueLoc::getUnderlyingLocationOrNull<const NodeName *>(location);
  return name ? name->text : StringRef();
}

static void collectNodes(Location location, llvm::SetVector<StringRef> &nodes) {
  if (StringRef node = nodeOf(location); !node.empty())
    nodes.insert(node);
  else if (auto fused = dyn_cast<FusedLoc>(location)) // as most that name several; MLIR's walk keeps a table of each
    for (Location part : fused.getLocations())
      collectNodes(part, nodes);
  else
    location->walk([&](Location part) {
      if (part != location)
        collectNodes(part, nodes);
      return part == location ? WalkResult::advance() : WalkResult::skip();
    });
}

llvm::SetVector<StringRef> nodesOf(Location location) {
  llvm::SetVector<StringRef> nodes;
  collectNodes(location, nodes);
  return nodes;
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
