//===- Indexing.cpp - picking elements by index --------------------------------===//
#include "compiler/import/Handlers.h"
#include "compiler/import/Node.h"

using namespace zc::importer;
using namespace zc::graph;
using mlir::Value;

namespace {

/// Indices that are already known are checked now, not on the first step.
void checkIndices(Node &node, Value indices, int64_t size) {
  const HostTensor *known = node.constantOf(indices);
  for (int64_t i = 0, n = known && !known->isFloat() ? known->stored() : 0; i < n; ++i)
    if (known->intAt(i) < -size || known->intAt(i) >= size)
      return node.invalid("index " + std::to_string(known->intAt(i)) + " is outside [" + std::to_string(-size) + ", " +
                          std::to_string(size) + ")");
}

template <typename OpT> void gather(Node &node) {
  Value data = node.input(0), indices = node.input(1);
  int64_t axis = node.axis(node.intAttr("axis", 0), rankOf(data));
  if (node.failed())
    return;
  checkIndices(node, indices, dimsOf(data)[axis]);
  node.set(node.make<OpT>({data, indices}, node.attrs().integer("axis", axis)));
}

void gatherNd(Node &node) {
  node.set(node.make<GatherNdOp>({node.input(0), node.input(1)},
                                 node.attrs().integer("batch_dims", node.intAttr("batch_dims", 0))));
}

} // namespace

void zc::importer::addIndexHandlers(HandlerTable &table) {
  table.add("Gather", 1, 2, 2, gather<GatherOp>);
  table.add("GatherElements", 11, 2, 2, gather<GatherElementsOp>);
  table.add("GatherND", 11, 2, 2, gatherNd);
}
