//===- MatmulOrdered.h - products whose sums do not depend on the cut ----------===//
//
// A library's product rounds as its blocks fall, so that rows, columns and terms of a product may not be computed apart
// and give the same bits. These sums run over k in order, one fused multiply-add each, from the addend on: any cut of
// rows, columns or k, on any number of threads, gives the bits of the whole. They cost up to half of a library's speed,
// and are used where a product is too small for that to matter.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "kernels/cpu/Tiles.h"

namespace zc::cpu {

/// One product (no batch) of f32, bf16 or f16, with bias or addend; sums in f32. Of products that isOrdered()
/// (Tiles.h).
std::unique_ptr<Kernel> makeMatmulOrdered(const KernelSpec &spec, const MatmulPartShape &shape);

} // namespace zc::cpu
