#include "runtime/train/Export.h"

#include "tools/zero-run/Commands.h"
#include "tools/zero-run/Progress.h"

namespace zc::run {

Status exportCommand(const Flags &flags) {
  auto tell = [](const std::string &text) { print(2, escapeName(text) + "\n"); };
  auto checkpoint = train::openCheckpoint(flags.checkpoint, tell);
  if (!checkpoint)
    return checkpoint.error();
  return flags.onnx.empty() ? train::exportSafetensors(std::move(*checkpoint), flags.safetensors, flags.model, tell)
                            : train::exportOnnx(*checkpoint, flags.onnx, flags.model);
}

} // namespace zc::run
