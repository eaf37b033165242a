//===- ComposeTransposes.h - transposes on both sides of a reshape -------------------------===//
#pragma once

#include "mlir/IR/PatternMatch.h"

namespace zc {

/// transpose(reshape(transpose(x))) is a reshape where the two undo each other, as those around rows of pixels do, and
/// one transpose where nobody else reads what is between.
void addComposeTransposes(mlir::RewritePatternSet &patterns);

} // namespace zc
