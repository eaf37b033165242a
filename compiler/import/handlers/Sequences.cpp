//===- Sequences.cpp - lists of tensors, resolved when compiling ----------------===//
#include "compiler/import/handlers/Handlers.h"
#include "compiler/import/node/Node.h"

using namespace zc;
using namespace zc::importer;
using namespace zc::graph;
using mlir::Value;

namespace {

using Dims = llvm::SmallVector<int64_t>;

/// torch.split: pieces of one size (scalar) or of given sizes.
void splitToSequence(Node &node) {
  Value x = node.input(0);
  int64_t axis = node.axis(node.intAttr("axis", 0), rankOf(x));
  if (node.failed())
    return;
  bool isScalar = !node.has(1) || rankOf(node.input(1)) == 0;
  Dims sizes = node.has(1) ? node.constantInts(1) : Dims{1};
  if (node.failed())
    return;
  int64_t dim = dimsOf(x)[axis];
  if (isScalar) {
    int64_t size = sizes[0];
    if (size < 1)
      return node.invalid("split size is " + std::to_string(size));
    if (dim / size > 65536)
      return node.unsupported("into " + std::to_string(dim / size) + " pieces");
    sizes.clear();
    for (int64_t at = 0; at < dim; at += size)
      sizes.push_back(std::min(size, dim - at));
  }
  auto parts = splitBy(node, x, axis, sizes);
  // Without `split` the axis goes, unless keepdims.
  if (!node.has(1) && node.intAttr("keepdims", 1) == 0)
    for (Value &part : parts) {
      Dims shape(dimsOf(part));
      if (part)
        shape.erase(shape.begin() + axis);
      part = node.failed() ? part : node.reshape(part, shape);
    }
  if (!node.failed())
    node.setSequence(parts);
}

void sequenceConstruct(Node &node) { node.setSequence(node.inputs()); }

void sequenceAt(Node &node) {
  auto values = node.sequence(0);
  int64_t at = node.constantInt(1), count = values.size();
  if (!node.failed() && (at < -count || at >= count))
    node.invalid("position " + std::to_string(at) + " of a sequence of " + std::to_string(count));
  if (!node.failed())
    node.set(values[at < 0 ? at + count : at]);
}

void concatFromSequence(Node &node) {
  llvm::SmallVector<Value> values = node.sequence(0);
  if (!node.failed() && values.empty())
    node.invalid("the sequence is empty");
  if (node.failed())
    return;
  bool newAxis = node.intAttr("new_axis", 0) != 0;
  int64_t axis = node.axis(node.intAttr("axis", 0), rankOf(values[0]) + newAxis);
  if (node.failed())
    return;
  for (Value &value : values) {
    Dims shape(dimsOf(value));
    if (newAxis && axis <= static_cast<int64_t>(shape.size()))
      shape.insert(shape.begin() + axis, 1);
    value = node.reshape(value, shape);
  }
  node.set(node.make<ConcatOp>(values, node.attrs().integer("axis", axis)));
}

/// Where `position` (input `i`, default: the end) is in a sequence of `count`.
int64_t positionOf(Node &node, unsigned i, int64_t count, int64_t fallback, bool mayBeEnd) {
  int64_t at = node.has(i) ? node.constantInt(i) : fallback;
  if (!node.failed() && (at < -count || at >= count + mayBeEnd))
    node.invalid("position " + std::to_string(at) + " of a sequence of " + std::to_string(count));
  return node.failed() ? 0 : at < 0 ? at + count : at;
}

void sequenceInsert(Node &node) {
  auto values = node.sequence(0);
  int64_t count = values.size(), at = positionOf(node, 2, count, count, true);
  if (node.failed())
    return;
  values.insert(values.begin() + at, node.input(1));
  node.setSequence(values);
}

void sequenceErase(Node &node) {
  auto values = node.sequence(0);
  int64_t count = values.size(), at = positionOf(node, 1, count, count - 1, false);
  if (node.failed())
    return;
  values.erase(values.begin() + at);
  node.setSequence(values);
}

void sequenceLength(Node &node) {
  HostTensor length = HostTensor::ofInts(static_cast<int64_t>(node.sequence(0).size()));
  length.dims.clear();
  node.set(node.constant(length));
}

void sequenceEmpty(Node &node) { node.setSequence({}); }

//===-- optionals: trivially known ------------------------------------------------===//

void optional(Node &node) { node.setBinding(0, node.binding(0)); }

void optionalHasElement(Node &node) {
  Binding given = node.binding(0);
  node.set(node.constant(HostTensor::scalar(given.isEmpty ? 0 : 1, DType::boolean)));
}

void optionalGetElement(Node &node) {
  Binding given = node.binding(0);
  if (!node.failed() && given.isEmpty)
    return node.invalid("the optional has no element");
  node.setBinding(0, std::move(given));
}

} // namespace

void zc::importer::addSequenceHandlers(HandlerTable &table) {
  table.add("SplitToSequence", 11, 1, 2, splitToSequence, {{1, "split"}});
  table.add("SequenceConstruct", 11, 1, -1, sequenceConstruct);
  auto add = [&](llvm::StringRef op, int64_t since, int minInputs, int maxInputs, Handler handler,
                 std::vector<KnownInput> known = {}) {
    table.add("", op, {since, minInputs, maxInputs, handler, true, std::move(known)});
  };
  add("SequenceEmpty", 11, 0, 0, sequenceEmpty);
  add("SequenceAt", 11, 2, 2, sequenceAt, {{1, "position"}});
  add("SequenceInsert", 11, 2, 3, sequenceInsert, {{2, "position"}});
  add("SequenceErase", 11, 1, 2, sequenceErase, {{1, "position"}});
  add("SequenceLength", 11, 1, 1, sequenceLength);
  add("ConcatFromSequence", 11, 1, 1, concatFromSequence);
  add("Optional", 15, 0, 1, optional);
  add("OptionalHasElement", 15, 0, 1, optionalHasElement);
  add("OptionalGetElement", 15, 1, 1, optionalGetElement);
}
