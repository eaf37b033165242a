//===- Inputs.h - the inputs of the graph, with sizes -------------------===//
#pragma once

#include "compiler/import/parameters/Parameters.h"

namespace zc::importer {

/// An input of the graph that is no initializer, its dimensions bound.
struct GraphInput {
  std::string name;
  DType dtype = DType::f32;
  llvm::SmallVector<int64_t> dims;
  const std::vector<char> *fixed = nullptr; ///< the value given when compiling, as many bytes as the shape needs
};

/// What a dimension without a size is called.
std::string symbolOf(const onnxpb::ValueInfo &input, int d);

/// In the graph's order. Errors: unsupported (no tensor with a shape), bad input (sizes), usage (symbolic dimensions
/// without a size, all at once; sizes of dimensions that do not exist; fixed values of another size).
Result<std::vector<GraphInput>> readInputs(const ModelFile &file, const ImportOptions &options,
                                           const Parameters &parameters);

} // namespace zc::importer
