//===- EvictionWindow.h - how far compute runs ahead of what leaves the device ----------------===//
#pragma once

#include "mlir/IR/Block.h"

#include "llvm/ADT/STLFunctionalExtras.h"

namespace zc {

/// Says of each operation of compute which copies to the host it has to wait for (`waits(compute, evict)`), so that
/// never more than the two largest pieces wait to leave the device: a link slower than compute then holds compute up
/// instead of filling memory. In turn, bytes that are kept until then hold nobody up whose link is slower than
/// expected.
void boundEvictions(mlir::Block &block, llvm::function_ref<void(mlir::Operation *, mlir::Operation *)> waits);

} // namespace zc
