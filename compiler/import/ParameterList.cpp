//===- ParameterList.cpp - what --list-parameters shows --------------------------===//
#include "base/Names.h"
#include "compiler/import/Import.h"
#include "compiler/import/base/HostTensor.h"
#include "dialects/graph/Graph.h"

#include "llvm/Support/JSON.h"

using namespace zc;
using namespace zc::importer;
using namespace mlir;

namespace {

/// A parameter as people and machines are told of it.
struct Listed {
  std::string name, dtype, role, evidence; ///< evidence: empty where there is none
  ArrayRef<int64_t> shape;
  std::vector<std::string> tied;
  bool trains = false;
};

std::vector<Listed> listed(ModuleOp module) {
  std::vector<Listed> all;
  for (auto parameter : module.getOps<graph::ParameterOp>()) {
    auto type = cast<RankedTensorType>(parameter.getType());
    Listed &each = all.emplace_back();
    each.name = parameter.getSymName().str();
    auto dtype = dtypeOf(type.getElementType());
    each.dtype = dtype ? std::string(nameOf(*dtype)) : "?";
    each.role = graph::stringifyRole(parameter.getRole()).str();
    each.evidence = parameter.getEvidence().value_or("").str();
    each.shape = type.getShape();
    if (auto names = parameter.getTied())
      for (Attribute name : *names)
        each.tied.push_back(cast<StringAttr>(name).str());
    each.trains = parameter.getRole() == graph::Role::trainable;
  }
  return all;
}

std::array<std::string, 6> rowOf(const Listed &each) {
  std::string shape, tied;
  for (int64_t d : each.shape)
    shape += (shape.empty() ? "" : "x") + std::to_string(d);
  for (const std::string &name : each.tied)
    tied += (tied.empty() ? "" : ",") + escapeName(name);
  return {escapeName(each.name),
          each.dtype,
          shape.empty() ? "scalar" : shape,
          each.role,
          tied.empty() ? "-" : tied,
          each.evidence.empty() ? "-" : escapeName(each.evidence)};
}

} // namespace

std::string zc::importer::listParameters(ModuleOp module) {
  std::vector<std::array<std::string, 6>> rows{{"name", "dtype", "shape", "role", "tied to", "evidence"}};
  int64_t trained = 0, all = 0;
  for (const Listed &each : listed(module)) {
    rows.push_back(rowOf(each));
    const int64_t elements = ShapedType::getNumElements(each.shape);
    all += elements;
    trained += each.trains ? elements : 0;
  }
  std::array<size_t, 6> widths{};
  for (const auto &row : rows)
    for (size_t c = 0; c < row.size(); ++c)
      widths[c] = std::max(widths[c], row[c].size());
  std::string text;
  for (const auto &row : rows) {
    for (size_t c = 0; c < row.size(); ++c)
      text += c + 1 < row.size() ? row[c] + std::string(widths[c] + 2 - row[c].size(), ' ') : row[c];
    text += '\n';
  }
  return text + std::to_string(trained) + " of " + std::to_string(all) + " elements are trained\n";
}

std::string zc::importer::parametersAsJson(ModuleOp module) {
  llvm::json::Array all;
  for (const Listed &each : listed(module)) {
    llvm::json::Array tied;
    for (const std::string &name : each.tied)
      tied.push_back(llvm::json::fixUTF8(name));
    all.push_back(llvm::json::Object{{"name", llvm::json::fixUTF8(each.name)},
                                     {"dtype", each.dtype},
                                     {"shape", llvm::json::Array(each.shape)},
                                     {"role", each.role},
                                     {"trainable", each.trains},
                                     {"tied", std::move(tied)},
                                     {"evidence", each.evidence.empty()
                                                      ? llvm::json::Value(nullptr)
                                                      : llvm::json::Value(llvm::json::fixUTF8(each.evidence))}});
  }
  std::string text;
  llvm::raw_string_ostream(text) << llvm::json::Value(std::move(all)) << '\n';
  return text;
}
