//===- ValueNames.h - the names of values as numbers ---------------------------===//
//
// A name is looked for when the model is validated, when the nodes that its outputs need are found, when a node is
// imported. Of a large graph that was most of what tables cost, so text is hashed once: validateModel gives every name
// a number and writes the numbers beside the names of each node.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "compiler/import/file/onnx.pb.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/xxhash.h"

#include <utility>
#include <vector>

namespace zc::importer {

/// Names that stand for values. The same name has the same number in every graph and function. A table of its own, of
/// eight bytes a name and never more than half full: a table of texts is three times as long, and what is not in a
/// cache is what looking up costs.
class ValueNames {
public:
  /// Of no name: an input that is not given, a name that the model does not have.
  static constexpr uint32_t none = 0;

  uint32_t find(llvm::StringRef name) const { return slots[slotOf(name, hashOf(name))].number; }
  /// Adds it where it is new; the text must outlive this.
  uint32_t number(llvm::StringRef name) {
    reserve(texts.size() + 1);
    const uint32_t hash = hashOf(name);
    Slot &slot = slots[slotOf(name, hash)];
    if (slot.number == none) {
      texts.push_back(name);
      slot = {hash, static_cast<uint32_t>(texts.size())};
    }
    return slot.number;
  }
  /// Brings where a name is, or would be, into the caches.
  void prefetch(llvm::StringRef name) const { __builtin_prefetch(&slots[hashOf(name) & (slots.size() - 1)]); }
  void reserve(size_t names) {
    if (2 * names <= slots.size())
      return;
    const std::vector<Slot> before =
        std::exchange(slots, std::vector<Slot>(static_cast<size_t>(llvm::PowerOf2Ceil(2 * names))));
    texts.reserve(names);
    for (const Slot &slot : before)
      if (slot.number != none)
        slots[slotOf(texts[slot.number - 1], slot.hash)] = slot;
  }
  size_t size() const { return texts.size(); }

private:
  struct Slot {
    uint32_t hash = 0;
    uint32_t number = none;
  };
  static uint32_t hashOf(llvm::StringRef name) { return static_cast<uint32_t>(llvm::xxh3_64bits(name)); }
  /// Where it is, or would be.
  size_t slotOf(llvm::StringRef name, uint32_t hash) const {
    size_t at = hash;
    for (;; ++at) {
      at &= slots.size() - 1;
      const Slot &slot = slots[at];
      if (slot.number == none || (slot.hash == hash && texts[slot.number - 1] == name))
        return at;
    }
  }

  std::vector<Slot> slots = std::vector<Slot>(2); ///< a power of two of them
  std::vector<llvm::StringRef> texts;             ///< by number, of which the first is 1
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
