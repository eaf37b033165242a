//===- HandlerTable.cpp - which ONNX operator is imported by what -----------===//
#include "compiler/import/node/HandlerTable.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallString.h"

using namespace zc::importer;

/// Asked for at each node: no allocation.
static llvm::SmallString<64> keyOf(llvm::StringRef domain, llvm::StringRef op) {
  llvm::SmallString<64> key(domain == "ai.onnx" ? llvm::StringRef() : domain);
  key += '.';
  key += op;
  return key;
}

void HandlerTable::add(llvm::StringRef domain, llvm::StringRef op, HandlerRow row) {
  auto &versions = rows[keyOf(domain, op)];
  auto at = llvm::find_if(versions, [&](const HandlerRow &other) { return other.since > row.since; });
  versions.insert(at, row);
}

const HandlerRow *HandlerTable::find(llvm::StringRef domain, llvm::StringRef op, int64_t opset) const {
  auto found = rows.find(keyOf(domain, op));
  if (found == rows.end())
    return nullptr;
  const HandlerRow *newest = nullptr;
  for (const HandlerRow &row : found->second)
    if (row.since <= opset)
      newest = &row;
  return newest;
}

void HandlerTable::limit(llvm::StringRef domain, llvm::StringRef op, llvm::StringRef text) {
  std::string &known = limits[keyOf(domain, op)];
  known += (known.empty() ? "" : "; ") + text.str();
}

void HandlerTable::forEach(llvm::function_ref<void(const std::string &, const std::string &,
                                                   const std::vector<HandlerRow> &, const std::string &)>
                               visit) const {
  std::vector<std::string> keys;
  for (const auto &entry : rows)
    keys.push_back(entry.first().str());
  llvm::sort(keys);
  for (const std::string &key : keys) {
    size_t dot = key.rfind('.');
    const std::vector<HandlerRow> &versions = rows.find(key)->second;
    std::string text;
    for (const KnownInput &input : versions.back().known)
      text += (text.empty() ? "" : ", ") + std::string(input.name);
    text += text.empty() ? "" : " known when compiling";
    if (auto more = limits.find(key); more != limits.end())
      text += (text.empty() ? "" : "; ") + more->second;
    visit(key.substr(0, dot), key.substr(dot + 1), versions, text);
  }
}
