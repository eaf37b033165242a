//===- NodeTest.h - one of ONNX's backend node tests ---------------------------===//
//
// A folder with model.onnx and test_data_set_0/{input,output}_k.pb. Sequences are flattened: their elements stand one
// after the other.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "base/Tensor.h"
#include "compiler/import/file/onnx.pb.h"

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace zc::test {

struct NodeValue {
  std::string name;
  std::optional<DType> dtype; ///< nothing for element types this project has no tensors of
  std::vector<int64_t> dims;
  std::vector<char> bytes; ///< raw little-endian elements
};

struct NodeTest {
  std::string name;
  std::string family; ///< the operator under test
  std::filesystem::path folder;
  onnxpb::Model model;
  std::vector<NodeValue> inputs;   ///< graph inputs, in order
  std::vector<NodeValue> expected; ///< graph outputs, in order
  bool plainInputs = true;         ///< every input is one tensor
};

/// All tests below `root`, by name, without their data.
std::vector<NodeTest> findNodeTests(const std::filesystem::path &root);
/// Reads inputs and expected outputs. False, with `problem`, if a file is missing or cannot be read.
bool readData(NodeTest &test, std::string &problem);

/// What of `actual` is not as expected: shape, type or an element further off than numpy's allclose with rtol 1e-3 and
/// atol 1e-7, the tolerance of ONNX's own runner. Empty if all is.
std::string difference(const NodeValue &expected, const NodeValue &actual);
/// Element `i` as a double.
double elementAt(const NodeValue &value, int64_t i);
int64_t countElements(const NodeValue &value);

} // namespace zc::test
