//===- ExternalFiles.h - the files that a plan's weights lie in -----------------===//
#pragma once

#include "base/Status.h"
#include "runtime/plan/plan.pb.h"

namespace zc {

/// Fingerprints of the model's external data, by which zero-run notices that it changed; those that the plan has
/// already are kept. Reads the files, so only a plan that is written is worth it. Errors: a file cannot be read (io and
/// badInput as io::File::openBeneath).
Status recordExternalFiles(planpb::Plan &plan);

} // namespace zc
