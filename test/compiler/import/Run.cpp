#include "test/compiler/import/Run.h"
#include "compiler/import/base/HostTensor.h"
#include "dialects/graph/ModuleAttrs.h"
#include "runtime/io/File.h"

using namespace zc;

test::Bytes test::bytesOf(mlir::ElementsAttr value) {
  auto tensor = importer::fromAttribute(value);
  int64_t size = sizeOf(tensor->dtype);
  Bytes bytes(tensor->numElements() * size);
  for (int64_t i = 0, n = tensor->numElements(); i < n; ++i)
    tensor->encode(i, bytes.data() + i * size);
  return bytes;
}

Status test::loadParameters(mlir::ModuleOp module, const std::string &folder, Interpreter &interpreter) {
  for (auto parameter : module.getOps<graph::ParameterOp>()) {
    Bytes &bytes = interpreter.parameters[parameter.getSymName().str()];
    if (auto value = parameter.getValue()) {
      bytes = bytesOf(*value);
      continue;
    }
    auto source = *parameter.getSource();
    auto file = io::File::openBeneath(folder, source.getFile().str());
    if (!file.ok())
      return file.error();
    bytes.resize(source.getBytes());
    ZC_RETURN_IF_ERROR(file->readAt(bytes.data(), source.getBytes(), source.getOffset()));
  }
  return {};
}

KernelRegistry test::referenceKernels(Target target) {
  KernelRegistry filled(target);
  registerReferenceKernels(filled);
  return filled;
}

Result<test::Interpreter> test::prepareModel(mlir::ModuleOp module, const KernelRegistry &kernels) {
  auto interpreter = Interpreter::prepare(module, kernels);
  if (!interpreter.ok())
    return interpreter.error();
  std::string path = graph::modelOf(module).path;
  ZC_RETURN_IF_ERROR(loadParameters(module, path.substr(0, path.rfind('/')), *interpreter));
  return interpreter;
}
