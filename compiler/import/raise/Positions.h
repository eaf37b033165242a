//===- Positions.h - masks that say how far keys may be from queries ---------------===//
#pragma once

#include "compiler/import/raise/Mask.h"

namespace zc::importer {

/// Of a matrix of scores [queries, keys]: query i is let see the keys i + first to i + last, within the matrix.
struct Band {
  int64_t first, last;
  bool contains(int64_t distance) const { return first <= distance && distance <= last; }
};

/// What a mask leaves of such a matrix, if that is a band: a bool one, or a float one of 0 and low numbers. The same of
/// every sample and head.
std::optional<Band> bandOf(mlir::Value mask, int64_t queries, int64_t keys, bool keeps = true);

/// Does it let query i see exactly the keys j <= i + keys - queries, so that every query sees one?
bool isCausalMask(mlir::Value mask, int64_t queries, int64_t keys, bool keeps = true);

/// Is it known that each row of a bool mask for [queries, keys] keeps a key? Then what stands for the others is nothing
/// but low.
bool everyRowKeepsOne(mlir::Value mask, int64_t queries, int64_t keys, bool keeps = true);

/// Is it known that query i keeps its own key, i + keys - queries?
bool everyRowKeepsItsOwn(const Condition &part, int64_t queries, int64_t keys);

/// What the attention op itself masks.
struct Positions {
  bool causal = false;
  int64_t window = 0; ///< 0: none
};
/// Positions that mask what `known` and a band do.
std::optional<Positions> withBand(Positions known, Band band, int64_t queries, int64_t keys);
/// `known` and what of `conditions` can be said so: that is no longer among them.
Positions takePositions(llvm::SmallVectorImpl<Condition> &conditions, Positions known, int64_t queries, int64_t keys);

} // namespace zc::importer
