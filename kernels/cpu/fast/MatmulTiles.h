//===- MatmulTiles.h - bf16 products by tiles of registers ----------------------------===//
//
// BLIS's loops (Van Zee, van de Geijn, ACM TOMS 41(3)) around the tiles of TilesBf16.h: a block of the right factor is
// rearranged, its panels are then multiplied with 128 rows or more of the left one at a time, which are read where they
// are if each has its terms one after the other. Tasks are some rows times a panel, or a group of them: threads take
// them as they have time (SharedTasks.h), and the first one that needs a panel rearranges it, having asked for what it
// is made of while it multiplied the one before. None of that changes bits, nor does the number of threads: what is
// summed in which order depends on the number of terms alone.
//
// Of what the CPU can compute (vdpbf16ps alone) the products of GPT-2 124M and 1,024 tokens reach 0.92 to 0.97 on a
// Zen 5.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "kernels/cpu/Products.h"

namespace zc::cpu {

/// What the CPU multiplies tiles with, for people; null if it cannot.
const char *nameOfBf16Tiles();

/// matmul of bf16 factors, no batch; or, with `part`, matmul_part of them. Needs Bf16Blocks::bytes of workspace.
std::unique_ptr<Kernel> makeMatmulTiles(const KernelSpec &spec, const MatmulPartShape &shape, std::string method);

} // namespace zc::cpu
