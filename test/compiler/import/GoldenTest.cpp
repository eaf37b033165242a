// The exported models of test/models: each imports, trains what exports.json says, and computes PyTorch's loss.
#include "runtime/io/Safetensors.h"
#include "test/compiler/import/Run.h"

#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"
#include "gtest/gtest.h"

#include <cstring>

using namespace zc;
using namespace zc::test;

namespace {

llvm::json::Object readJson(const std::string &path) {
  auto buffer = llvm::MemoryBuffer::getFile(path);
  if (!buffer)
    return {};
  auto value = llvm::json::parse((*buffer)->getBuffer());
  return value && value->getAsObject() ? std::move(*value->getAsObject()) : llvm::json::Object();
}

importer::ImportOptions optionsFor(llvm::StringRef name) {
  importer::ImportOptions options;
  if (name.contains("dynbatch"))
    options.dims = {{"batch", 2}, {"seq", 16}};
  return options;
}

/// The first two rows of every input.
void setInputs(const io::SafetensorsFile &file, mlir::ModuleOp module, Interpreter &interpreter) {
  graph::ProgramOp program = *module.getOps<graph::ProgramOp>().begin();
  for (mlir::Attribute attribute : program.getInputNames()) {
    std::string name = mlir::cast<mlir::StringAttr>(attribute).str();
    const io::SafetensorsEntry *entry = file.find(name);
    ASSERT_NE(entry, nullptr) << name;
    Bytes &bytes = interpreter.inputs[name];
    bytes.resize(entry->bytes / entry->type.dims[0] * 2);
    ASSERT_TRUE(file.file().readAt(bytes.data(), bytes.size(), entry->offset).ok());
  }
}

struct Golden : testing::TestWithParam<std::string> {
  void SetUp() override {
    folder = ZC_SOURCE_DIR "/test/models/" + GetParam() + "/";
    exports = readJson(folder + "exports.json");
    ASSERT_NE(exports.getObject("exports"), nullptr);
  }
  std::string folder;
  llvm::json::Object exports;
};

TEST_P(Golden, trainsWhatPyTorchTrains) {
  int checked = 0;
  for (auto &[key, value] : *exports.getObject("exports")) {
    std::string name = key.str();
    // Not valid ONNX (adds a bool mask); batch norm multiplied into convolutions: no parameters of PyTorch any more.
    if (name == "dynamo23_sdpa_dropout" || (GetParam() == "resnet" && name == "dynamo20opt"))
      continue;
    SCOPED_TRACE(name);
    mlir::MLIRContext context;
    auto module = importer::importOnnx(context, folder + name + ".onnx", optionsFor(name));
    ASSERT_TRUE(module.ok()) << render(module.error());
    std::vector<std::string> found, wanted;
    for (auto parameter : (**module).getOps<graph::ParameterOp>())
      if (parameter.getRole() == graph::Role::trainable)
        found.push_back(parameter.getSymName().str());
    for (const llvm::json::Value &parameter : *value.getAsObject()->getArray("trainable"))
      wanted.push_back(parameter.getAsString()->str());
    llvm::sort(found);
    llvm::sort(wanted);
    EXPECT_EQ(found, wanted);
    ++checked;
  }
  EXPECT_GE(checked, 3);
}

TEST_P(Golden, computesPyTorchsLoss) {
  double loss = *readJson(folder + "golden.json").getNumber("loss_first_half");
  auto inputs = io::SafetensorsFile::open(folder + "inputs.safetensors");
  ASSERT_TRUE(inputs.ok()) << render(inputs.error());
  int checked = 0;
  for (auto &[key, value] : *exports.getObject("exports")) {
    if (!value.getAsObject()->getBoolean("golden").value_or(false))
      continue;
    for (bool raise : {false, true}) {
      std::string name = key.str();
      SCOPED_TRACE(name + (raise ? "" : ", as exported"));
      mlir::MLIRContext context;
      importer::ImportOptions options = optionsFor(name);
      options.raise = raise;
      auto module = importer::importOnnx(context, folder + name + ".onnx", options);
      ASSERT_TRUE(module.ok()) << render(module.error());
      auto interpreter = prepareModel(**module);
      ASSERT_TRUE(interpreter.ok()) << render(interpreter.error());
      setInputs(*inputs, **module, *interpreter);
      auto status = interpreter->run();
      ASSERT_TRUE(status.ok()) << render(status.error());
      float result;
      std::memcpy(&result, interpreter->results.at(0).data(), sizeof(result));
      EXPECT_NEAR(result, loss, 1e-5 * loss);
      ++checked;
    }
  }
  EXPECT_GE(checked, 2);
}

INSTANTIATE_TEST_SUITE_P(Models, Golden, testing::Values("mlp", "gpt2", "llama", "resnet", "vit"),
                         [](const auto &info) { return info.param; });

} // namespace
