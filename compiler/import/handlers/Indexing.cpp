//===- Indexing.cpp - picking elements by index --------------------------------===//
#include "compiler/import/handlers/Handlers.h"
#include "compiler/import/node/Node.h"

#include <optional>

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

/// torch's Embedding with a padding_idx leaves out one row's gradient, a word that ONNX's Gather does not have. It is
/// the third argument in torch.export's trace.
std::optional<int64_t> tracedPadding(Node &node, int64_t rows) {
  auto arguments = node.tracedCall("aten.embedding.default");
  int64_t index = 0;
  if (arguments && arguments->size() > 2 && !(*arguments)[2].getAsInteger(10, index) && index >= 0 && index < rows)
    return index;
  return std::nullopt;
}

/// The first of known indices that are neighbours, in their order, as one alone is.
std::optional<int64_t> firstOfNeighbours(const HostTensor *known, int64_t size) {
  if (!known || known->isFloat() || known->numElements() == 0)
    return std::nullopt;
  auto at = [&](int64_t i) { return known->intAt(i) < 0 ? known->intAt(i) + size : known->intAt(i); };
  for (int64_t i = 1; i < known->numElements(); ++i)
    if (at(i) != at(0) + i)
      return std::nullopt;
  return at(0);
}

/// data[..., indices, ...] of known neighbours as a slice. Gradients of slices that are neighbours join into one
/// tensor, where each gather's would be one of data's size: a scan that is unrolled over T positions has T of them.
Value pickNeighbours(Node &node, Value data, int64_t axis, int64_t first, Value indices, const HostTensor &known) {
  llvm::SmallVector<int64_t> shape(dimsOf(data));
  Value slice = node.slice(data, axis, first, known.numElements());
  shape.erase(shape.begin() + axis);
  shape.insert(shape.begin() + axis, dimsOf(indices).begin(), dimsOf(indices).end());
  return node.reshape(slice, shape);
}

void gather(Node &node) {
  Value data = node.input(0), indices = node.input(1);
  int64_t axis = node.axis(node.intAttr("axis", 0), rankOf(data));
  if (node.failed())
    return;
  if (auto traced = node.tracedCall("aten.embedding.default"); traced && traced->size() > 3 && (*traced)[3] == "True")
    return node.unsupported("with scale_grad_by_freq");
  int64_t rows = dimsOf(data)[axis];
  checkIndices(node, indices, rows);
  Attrs attributes = node.attrs().integer("axis", axis);
  std::optional<int64_t> padding;
  if (axis == 0 && isFloat(data) && rankOf(data) == 2 && node.isInitializer(0))
    padding = node.paddingOf(0, tracedPadding(node, rows));
  if (padding) {
    if (*padding < -rows || *padding >= rows)
      return node.invalid("padding index " + std::to_string(*padding) + " is outside [" + std::to_string(-rows) + ", " +
                          std::to_string(rows) + ")");
    attributes.integer("padding_index", *padding < 0 ? *padding + rows : *padding); // from the end, as torch counts
  }
  const HostTensor *known = node.constantOf(indices);
  const bool isEmbedding = node.isInitializer(0); // found to be a parameter by its gathers
  if (std::optional<int64_t> first = firstOfNeighbours(known, rows);
      first && !node.failed() && isFloat(data) && !isEmbedding)
    return node.set(pickNeighbours(node, data, axis, *first, indices, *known));
  node.set(node.make<GatherOp>({data, indices}, attributes));
}

void gatherElements(Node &node) {
  Value data = node.input(0), indices = node.input(1);
  int64_t axis = node.axis(node.intAttr("axis", 0), rankOf(data));
  if (node.failed())
    return;
  checkIndices(node, indices, dimsOf(data)[axis]);
  node.set(node.make<GatherElementsOp>({data, indices}, node.attrs().integer("axis", axis)));
}

void gatherNd(Node &node) {
  node.set(node.make<GatherNdOp>({node.input(0), node.input(1)},
                                 node.attrs().integer("batch_dims", node.intAttr("batch_dims", 0))));
}

} // namespace

void zc::importer::addIndexHandlers(HandlerTable &table) {
  table.add("Gather", 1, 2, 2, gather);
  table.add("GatherElements", 11, 2, 2, gatherElements);
  table.add("GatherND", 11, 2, 2, gatherNd);
}
