#include "runtime/train/Export.h"

#include "tools/zero-run/Commands.h"

namespace zc::run {

Status exportCommand(const Flags &flags) {
  auto manifest = train::readManifest(flags.checkpoint);
  if (!manifest)
    return manifest.error();
  return flags.onnx.empty() ? train::exportSafetensors(*manifest, flags.safetensors)
                            : train::exportOnnx(*manifest, flags.onnx, flags.model);
}

} // namespace zc::run
