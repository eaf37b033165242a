//===- MachineModel.cpp - the machine file ------------------------------------------===//

#include "compiler/schedule/MachineModel.h"

#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"

#include <cmath>

using namespace zc;

Result<MachineModel> zc::readMachine(const std::string &path) {
  auto buffer = llvm::MemoryBuffer::getFile(path, /*IsText=*/true);
  if (std::error_code code = buffer.getError())
    return makeError(Code::io, 390, "cannot read the machine file: " + code.message(), path,
                     "zero-run bench-io writes one; machines known by name: " + machineNames());
  llvm::Expected<llvm::json::Value> json = llvm::json::parse((*buffer)->getBuffer());
  if (!json)
    return makeError(Code::badInput, 391, "machine file: " + llvm::toString(json.takeError()), path);
  const llvm::json::Object *object = json->getAsObject();
  if (!object)
    return makeError(Code::badInput, 397, "a machine file is one JSON object", path);
  MachineModel machine;
  for (const auto &[key, value] : *object) {
    llvm::StringRef name = key;
    const auto *field = llvm::find_if(MachineModel::kFields, [&](const auto &f) { return name == f.name; });
    if (field == std::end(MachineModel::kFields))
      return makeError(Code::badInput, 392, "unknown field \"" + name.str() + "\" in the machine file", path);
    std::optional<double> number = value.getAsNumber();
    if (!number || !(*number > 0) || !std::isfinite(*number))
      return makeError(Code::badInput, 393, "field \"" + name.str() + "\" is no positive number", path);
    machine.*field->rate = *number;
  }
  return machine;
}
