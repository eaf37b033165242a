// Any bytes as an ONNX file (or, behind the letter C, as a checkpoint of ONNX Runtime): opened, scanned, taken apart,
// validated, every tensor looked at, small ones read. Whatever comes out is an error value or a model.
#include "compiler/import/file/Initializer.h"
#include "compiler/import/parameters/Origins.h"
#include "compiler/import/training/ExportRecord.h"
#include "compiler/import/training/TrainingInfo.h"
#include "test/fuzz/Folder.h"

using namespace zc;
using namespace zc::importer;

static void tryModel(const std::string &path) {
  ImportLimits limits;
  limits.nodes = 10000;
  auto file = openModel(path, limits);
  if (!file.ok())
    return (void)render(file.error());
  ImportOptions options;
  if (Status status = adoptExportRecord(**file, options); !status.ok())
    return (void)render(status.error());
  std::string loss;
  if (isOrtTrainingModel((*file)->graph()))
    (void)adoptOrtTrainingModel(**file, "w.bin").ok();
  else if ((*file)->model.training_info_size() > 0)
    (void)adoptTrainingInfo(**file, loss).ok();
  if (Status status = validateModel(**file, limits); !status.ok())
    return (void)render(status.error());
  Origins origins((*file)->model);
  for (const onnxpb::Tensor &tensor : (*file)->graph().initializer()) {
    (void)origins.of(tensor.name());
    auto info = inspectTensor(**file, tensor, limits, "fuzz");
    if (info.ok() && info->elements <= limits.foldedElements)
      (void)readTensor(**file, *info, "fuzz").ok();
  }
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count) {
  bool isCheckpoint = count > 0 && bytes[0] == 'C';
  static const std::string external = fuzz::written("w.bin", std::string(4096, '\0')); // that external data may name
  std::string path =
      fuzz::written("model.onnx", {reinterpret_cast<const char *>(bytes) + isCheckpoint, count - isCheckpoint});
  if (!isCheckpoint)
    tryModel(path);
  else if (auto file = io::File::open(path); file.ok())
    (void)readOrtCheckpoint(*file).ok();
  return 0;
}
