#include "runtime/train/Export.h"

#include "runtime/train/Resume.h"
#include "tools/zero-run/Commands.h"
#include "tools/zero-run/Progress.h"

namespace zc::run {

Status exportCommand(const Flags &flags) {
  auto tell = [](const std::string &text) { print(2, escapeName(text) + "\n"); };
  auto manifest = train::openCheckpoint(flags.checkpoint, tell);
  if (!manifest)
    return manifest.error();
  return flags.onnx.empty() ? train::exportSafetensors(*manifest, flags.safetensors, flags.model, tell)
                            : train::exportOnnx(*manifest, flags.onnx, flags.model);
}

} // namespace zc::run
