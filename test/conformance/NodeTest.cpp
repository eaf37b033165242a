#include "test/conformance/NodeTest.h"
#include "compiler/import/base/HostTensor.h"
#include "compiler/import/file/Initializer.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <map>
#include <sstream>

using namespace zc;
using namespace zc::test;
namespace fs = std::filesystem;

static std::optional<std::string> readFile(const fs::path &path) {
  std::ifstream file(path, std::ios::binary);
  if (!file)
    return std::nullopt;
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

static std::string withoutSuffix(const std::string &name) {
  size_t at = name.find("_expanded");
  return at == std::string::npos ? name : name.substr(0, at);
}

std::vector<NodeTest> test::findNodeTests(const fs::path &root) {
  std::vector<NodeTest> tests;
  std::map<std::string, std::string> families;
  for (const auto &entry : fs::recursive_directory_iterator(root)) {
    if (entry.path().filename() != "model.onnx")
      continue;
    NodeTest test;
    test.folder = entry.path().parent_path();
    test.name = test.folder.filename().string();
    auto bytes = readFile(entry.path());
    if (!bytes || !test.model.ParseFromString(*bytes) || test.model.graph().node_size() == 0)
      continue;
    const onnxpb::Graph &graph = test.model.graph();
    const onnxpb::Node &last = graph.node(graph.node_size() - 1);
    test.family = (last.domain().empty() ? "" : last.domain() + ".") + last.op_type();
    families[test.name] = test.family;
    tests.push_back(std::move(test));
  }
  for (NodeTest &test : tests) // a function's body tests the function
    if (auto base = families.find(withoutSuffix(test.name)); base != families.end())
      test.family = base->second;
  std::sort(tests.begin(), tests.end(), [](const NodeTest &a, const NodeTest &b) { return a.name < b.name; });
  return tests;
}

//===-- data --------------------------------------------------------------------===//

static NodeValue toValue(const onnxpb::Tensor &tensor, const std::string &name) {
  NodeValue value{name, importer::dtypeOfOnnx(tensor.data_type()), {tensor.dims().begin(), tensor.dims().end()}, {}};
  if (!value.dtype)
    return value;
  value.bytes.assign(tensor.raw_data().begin(), tensor.raw_data().end());
  if (!value.bytes.empty())
    return value;
  importer::HostTensor numbers = importer::decodeNumbers(tensor, *value.dtype);
  value.bytes.resize(numbers.numElements() * sizeOf(*value.dtype));
  for (int64_t i = 0, n = numbers.numElements(); i < n; ++i)
    numbers.encode(i, value.bytes.data() + i * sizeOf(*value.dtype));
  return value;
}

/// The messages in field `number` of SequenceProto (3, tensors) or OptionalProto (3, a tensor; 5, a sequence).
static std::vector<std::string> messagesIn(const std::string &bytes, uint32_t number) {
  namespace io = google::protobuf::io;
  io::ArrayInputStream stream(bytes.data(), static_cast<int>(bytes.size()));
  io::CodedInputStream in(&stream);
  std::vector<std::string> found;
  while (uint32_t tag = in.ReadTag()) {
    uint64_t length = 0;
    if ((tag & 7) == 0 && in.ReadVarint64(&length))
      continue;
    std::string payload;
    if ((tag & 7) != 2 || !in.ReadVarint64(&length) || !in.ReadString(&payload, static_cast<int>(length)))
      break;
    if (tag >> 3 == number)
      found.push_back(std::move(payload));
  }
  return found;
}

static bool addTensor(const std::string &bytes, const std::string &name, std::vector<NodeValue> &values) {
  onnxpb::Tensor tensor;
  if (!tensor.ParseFromString(bytes))
    return false;
  values.push_back(toValue(tensor, name));
  return true;
}

static bool addSequence(const std::string &bytes, const std::string &name, std::vector<NodeValue> &values) {
  int index = 0;
  for (const std::string &element : messagesIn(bytes, 3))
    if (!addTensor(element, name + "[" + std::to_string(index++) + "]", values))
      return false;
  return true;
}

static bool addValue(const std::string &bytes, const onnxpb::ValueInfo &info, std::vector<NodeValue> &values) {
  if (info.type().has_tensor_type())
    return addTensor(bytes, info.name(), values);
  if (info.type().has_sequence_type())
    return addSequence(bytes, info.name(), values);
  // An optional: empty, a tensor, or a sequence.
  for (const std::string &tensor : messagesIn(bytes, 3))
    if (!addTensor(tensor, info.name(), values))
      return false;
  for (const std::string &sequence : messagesIn(bytes, 5))
    if (!addSequence(sequence, info.name(), values))
      return false;
  return true;
}

bool test::readData(NodeTest &test, std::string &problem) {
  const onnxpb::Graph &graph = test.model.graph();
  auto read = [&](const auto &infos, const char *kind, std::vector<NodeValue> &values) {
    for (int i = 0; i < infos.size(); ++i) {
      std::string file = std::string(kind) + "_" + std::to_string(i) + ".pb";
      auto bytes = readFile(test.folder / "test_data_set_0" / file);
      if (!bytes || !addValue(*bytes, infos[i], values)) {
        problem = file + " is missing or cannot be read";
        return false;
      }
    }
    return true;
  };
  for (const onnxpb::ValueInfo &input : graph.input())
    test.plainInputs &= input.type().has_tensor_type();
  return read(graph.input(), "input", test.inputs) && read(graph.output(), "output", test.expected);
}

//===-- comparison ----------------------------------------------------------------===//

int64_t test::countElements(const NodeValue &value) { return TensorType{DType::u8, value.dims}.numElements(); }

double test::elementAt(const NodeValue &value, int64_t i) {
  importer::HostTensor one;
  one.dtype = *value.dtype;
  one.allocate();
  one.decode(0, value.bytes.data() + i * sizeOf(*value.dtype));
  return one.valueAt(0);
}

std::string test::difference(const NodeValue &expected, const NodeValue &actual) {
  std::string who = "output '" + expected.name + "'";
  if (!expected.dtype || !actual.dtype || *expected.dtype != *actual.dtype)
    return who + " has another element type";
  auto text = [](const std::vector<int64_t> &dims) {
    std::string result = "[";
    for (int64_t d : dims)
      result += (result.size() > 1 ? ", " : "") + std::to_string(d);
    return result + "]";
  };
  if (expected.dims != actual.dims)
    return who + " has shape " + text(actual.dims) + ", not " + text(expected.dims);
  // Where large terms cancel, what is left of either side is rounding of the largest.
  int64_t n = countElements(expected);
  double largest = 0;
  for (int64_t i = 0; i < n && *expected.dtype == DType::f32; ++i)
    if (double b = std::abs(elementAt(expected, i)); std::isfinite(b))
      largest = std::max(largest, b);
  double absolute = 1e-7 + 0x1p-24 * largest;
  for (int64_t i = 0; i < n; ++i) {
    double a = elementAt(actual, i), b = elementAt(expected, i);
    if (a == b || (std::isnan(a) && std::isnan(b)) || std::abs(a - b) <= absolute + 1e-3 * std::abs(b))
      continue;
    return who + " element " + std::to_string(i) + " is " + std::to_string(a) + ", not " + std::to_string(b);
  }
  return "";
}
