// The ONNX backend node tests (ZC_SHARED/testdata): every test whose operators and types are supported gives the
// expected outputs. What is not supported is counted, and must be refused as such.
#include "compiler/import/HostTensor.h"
#include "compiler/import/onnx.pb.h"
#include "test/compiler/import/Run.h"

#include "llvm/Support/MemoryBuffer.h"
#include "gtest/gtest.h"

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>

using namespace zc;
using namespace zc::test;
namespace fs = std::filesystem;

namespace {

std::optional<onnxpb::Tensor> readTensor(const fs::path &path) {
  auto buffer = llvm::MemoryBuffer::getFile(path.string());
  onnxpb::Tensor tensor;
  if (!buffer || !tensor.ParseFromString((*buffer)->getBuffer().str()))
    return std::nullopt;
  return tensor;
}

/// Backend tests keep values in raw_data.
Bytes rawBytes(const onnxpb::Tensor &tensor) {
  Bytes bytes(tensor.raw_data().begin(), tensor.raw_data().end());
  if (bytes.empty())
    for (float value : tensor.float_data()) {
      const char *raw = reinterpret_cast<const char *>(&value);
      bytes.insert(bytes.end(), raw, raw + sizeof(value));
    }
  return bytes;
}

double elementAt(const Bytes &bytes, mlir::Type type, int64_t i) {
  auto load = [&](auto zero) {
    std::memcpy(&zero, bytes.data() + i * sizeof(zero), sizeof(zero));
    return static_cast<double>(zero);
  };
  switch (*importer::dtypeOf(type)) {
  case DType::f32:
    return load(float());
  case DType::f64:
    return load(double());
  case DType::i64:
    return load(int64_t());
  case DType::i32:
    return load(int32_t());
  case DType::u8:
    return load(uint8_t());
  default:
    return load(int8_t());
  }
}

enum class Outcome { passed, unsupported, failed };

Outcome runTest(const fs::path &folder) {
  mlir::MLIRContext context;
  importer::ImportOptions options;
  options.forwardOnly = true;
  auto module = importer::importOnnx(context, (folder / "model.onnx").string(), options);
  if (!module.ok()) {
    if (module.error().code == Code::unsupported || module.error().code == Code::usage)
      return Outcome::unsupported;
    ADD_FAILURE() << render(module.error());
    return Outcome::failed;
  }
  auto interpreter = prepareModel(**module);
  if (!interpreter.ok()) // a type that only the importer knows
    return Outcome::unsupported;
  graph::ProgramOp program = *(**module).getOps<graph::ProgramOp>().begin();
  fs::path data = folder / "test_data_set_0";
  for (auto [i, name] : llvm::enumerate(program.getInputNames())) {
    auto tensor = readTensor(data / ("input_" + std::to_string(i) + ".pb"));
    if (!tensor)
      return Outcome::unsupported;
    interpreter->inputs[mlir::cast<mlir::StringAttr>(name).str()] = rawBytes(*tensor);
    Bytes &bytes = interpreter->inputs[mlir::cast<mlir::StringAttr>(name).str()];
    bytes.resize(std::max<size_t>(bytes.size(), 1)); // an empty tensor has an address
  }
  auto status = interpreter->run();
  if (!status.ok()) {
    ADD_FAILURE() << render(status.error());
    return Outcome::failed;
  }
  auto results = program.getBlock().getTerminator()->getOperands();
  for (size_t k = 0; k < results.size(); ++k) {
    auto wanted = readTensor(data / ("output_" + std::to_string(k) + ".pb"));
    if (!wanted)
      return Outcome::unsupported;
    auto type = mlir::cast<mlir::RankedTensorType>(results[k].getType());
    EXPECT_EQ(type.getShape(), llvm::ArrayRef<int64_t>(wanted->dims().data(), wanted->dims_size()));
    Bytes expected = rawBytes(*wanted);
    for (int64_t i = 0; i < type.getNumElements(); ++i) {
      double a = elementAt(interpreter->results[k], type.getElementType(), i);
      double b = elementAt(expected, type.getElementType(), i);
      if (a == b || (std::isnan(a) && std::isnan(b)) || std::abs(a - b) <= 1e-7 + 1e-3 * std::abs(b))
        continue;
      ADD_FAILURE() << "output " << k << " element " << i << " is " << a << ", not " << b;
      return Outcome::failed;
    }
  }
  return Outcome::passed;
}

TEST(Nodes, matchTheReference) {
  std::string shared = sharedFolder();
  if (shared.empty())
    GTEST_SKIP() << "no backend tests: set ZC_SHARED";
  char scratch[] = "/tmp/zc-nodes-XXXXXX";
  ASSERT_NE(mkdtemp(scratch), nullptr);
  std::string command = "tar -xJf '" + shared + "/testdata/onnx-1.22-node-tests.tar.xz' -C " + scratch;
  ASSERT_EQ(std::system(command.c_str()), 0);
  std::map<Outcome, int> counts;
  for (const auto &entry : fs::recursive_directory_iterator(scratch)) {
    if (entry.path().filename() != "model.onnx")
      continue;
    SCOPED_TRACE(entry.path().parent_path().filename().string());
    Outcome outcome = runTest(entry.path().parent_path());
    ++counts[outcome];
    if (std::getenv("ZC_VERBOSE"))
      llvm::errs() << int(outcome) << ' ' << entry.path().parent_path().filename().string() << '\n';
  }
  fs::remove_all(scratch);
  RecordProperty("passed", counts[Outcome::passed]);
  llvm::outs() << counts[Outcome::passed] << " node tests pass, " << counts[Outcome::unsupported]
               << " are not supported\n";
  EXPECT_EQ(counts[Outcome::failed], 0);
  EXPECT_GE(counts[Outcome::passed], 600);
}

} // namespace
