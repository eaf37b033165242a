//===- HandlerTable.h - which ONNX operator is imported by what -------------------===//
//
// One small handler per operator and meaning: a new since-version gets a row of its own only where behaviour changed.
// Rows live beside the handlers (handlers/*.cpp); there is no central list of operators.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "llvm/ADT/StringMap.h"

#include <cstdint>
#include <vector>

namespace zc::importer {

class Node;
using Handler = void (*)(Node &node);

/// An input whose values decide shapes, or the program's form: it must be known when compiling.
struct KnownInput {
  unsigned index = 0;
  const char *name = "";      ///< the standard's
  const char *help = nullptr; ///< what to do where it is computed from the data; null: the general word
  bool mayCount = false;      ///< numbers of rows that a mask picks may be in it: the handler asks Node::countedAt
};

struct HandlerRow {
  int64_t since = 1;
  int minInputs = 0;  ///< these must be given and named
  int maxInputs = -1; ///< -1: any number
  Handler handler = nullptr;
  bool takesSequences = false;
  std::vector<KnownInput> known = {}; ///< checked before the handler runs, where given
};

class HandlerTable {
public:
  /// The default operator set's domain is "" (alias "ai.onnx").
  void add(llvm::StringRef domain, llvm::StringRef op, HandlerRow row);
  void add(llvm::StringRef op, int64_t since, int minInputs, int maxInputs, Handler handler,
           std::vector<KnownInput> known = {}) {
    add("", op, {since, minInputs, maxInputs, handler, false, std::move(known)});
  }
  /// The newest row not newer than `opset`; null if there is none.
  const HandlerRow *find(llvm::StringRef domain, llvm::StringRef op, int64_t opset) const;

  /// What else of an operator is not supported, for people: a phrase.
  void limit(llvm::StringRef domain, llvm::StringRef op, llvm::StringRef text);
  /// Every operator, by domain and name: its rows, oldest first, and its limits (those of `known` too).
  void forEach(llvm::function_ref<void(const std::string &domain, const std::string &op,
                                       const std::vector<HandlerRow> &rows, const std::string &limits)>
                   visit) const;

private:
  llvm::StringMap<std::vector<HandlerRow>> rows; ///< key "domain.op", sorted by `since`
  llvm::StringMap<std::string> limits;
};

/// The newest version of the default operator set whose meaning is known here.
constexpr int64_t newestOpset = 27;

} // namespace zc::importer
