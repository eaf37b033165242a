#include "runtime/train/Export.h"

#include "runtime/train/Resume.h"
#include "tools/zero-run/Commands.h"
#include "tools/zero-run/Progress.h"

namespace zc::run {

Status exportCommand(const Flags &flags) {
  auto manifest = train::openCheckpoint(flags.checkpoint, [](const std::string &text) { print(2, text + "\n"); });
  if (!manifest)
    return manifest.error();
  return flags.onnx.empty() ? train::exportSafetensors(*manifest, flags.safetensors)
                            : train::exportOnnx(*manifest, flags.onnx, flags.model);
}

} // namespace zc::run
