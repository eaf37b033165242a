// Any bytes as an ONNX file (or, behind the letter C, as a checkpoint of ONNX Runtime): opened, scanned, taken apart,
// validated, every tensor looked at, small ones read. Whatever comes out is an error value or a model.
#include "compiler/import/file/Initializer.h"
#include "compiler/import/parameters/Origins.h"
#include "compiler/import/training/ExportRecord.h"
#include "compiler/import/training/TrainingInfo.h"

#include <cstdio>
#include <cstdlib>
#include <string>
#include <unistd.h>

using namespace zc;
using namespace zc::importer;

/// A folder of its own, with a file that external data may name.
static const std::string &folder() {
  // Never destroyed: the handler at exit needs it.
  static const std::string &path = *[] {
    char name[] = "/tmp/zc-fuzz-XXXXXX";
    if (!mkdtemp(name))
      std::abort();
    std::FILE *file = std::fopen((std::string(name) + "/w.bin").c_str(), "wb");
    std::string zeros(4096, '\0');
    std::fwrite(zeros.data(), 1, zeros.size(), file);
    std::fclose(file);
    std::atexit([] {
      for (const char *each : {"/w.bin", "/model.onnx"})
        unlink((folder() + each).c_str());
      rmdir(folder().c_str());
    });
    return new std::string(name);
  }();
  return path;
}

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
  std::string path = folder() + "/model.onnx";
  std::FILE *out = std::fopen(path.c_str(), "wb");
  if (!out)
    std::abort();
  std::fwrite(bytes + isCheckpoint, 1, count - isCheckpoint, out);
  std::fclose(out);
  if (!isCheckpoint)
    tryModel(path);
  else if (auto file = io::File::open(path); file.ok())
    (void)readOrtCheckpoint(*file).ok();
  return 0;
}
