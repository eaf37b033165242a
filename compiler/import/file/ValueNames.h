//===- ValueNames.h - the names of values as numbers ---------------------------===//
//
// A name is looked for when the model is validated, when the nodes that its outputs need are found, when a node is
// imported. Of a large graph that was most of what tables cost, so text is hashed once: validateModel gives every name
// a number and writes the numbers beside the names of each node.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "compiler/import/file/onnx.pb.h"

#include "llvm/ADT/CachedHashString.h"
#include "llvm/ADT/DenseMap.h"

namespace zc::importer {

/// Names that stand for values. The same name has the same number in every graph and function.
class ValueNames {
public:
  /// Of no name: an input that is not given, a name that the model does not have.
  static constexpr uint32_t none = 0;

  uint32_t find(llvm::StringRef name) const { return numbers.lookup(llvm::CachedHashStringRef(name)); }
  /// Adds it where it is new; the text must outlive this.
  uint32_t number(llvm::StringRef name) {
    return numbers.try_emplace(llvm::CachedHashStringRef(name), numbers.size() + 1).first->second;
  }
  void reserve(size_t names) { numbers.reserve(static_cast<unsigned>(names)); }
  size_t size() const { return numbers.size(); }

private:
  llvm::DenseMap<llvm::CachedHashStringRef, uint32_t> numbers;
};

/// A name as text, for what the file keeps by name and for messages, and as number.
struct ValueName {
  const std::string &text;
  uint32_t number;
};

/// Of a node of a validated model.
inline ValueName inputOf(const onnxpb::Node &node, int i) { return {node.input(i), node.value_name(i)}; }
inline ValueName outputOf(const onnxpb::Node &node, int i) {
  return {node.output(i), node.value_name(node.input_size() + i)};
}

} // namespace zc::importer
