//===- Chains.h - which sources add to each row, in index order ---------------===//
#pragma once

#include "kernels/cpu/Support.h"

namespace zc::cpu {

/// For scatter-adds: a list of source numbers per target row. Gives each target one writer, and sums in index order
/// however rows are split over threads.
class Chains {
public:
  /// Of no sources yet. `head` has an element per row, `next` one per source.
  Chains(int64_t *head, int64_t rows, int64_t *next) : head(head), next(next) { std::fill(head, head + rows, -1); }

  /// Sources must be added from the last to the first.
  void add(int64_t row, int64_t source) {
    next[source] = head[row];
    head[row] = source;
  }
  /// First source of a row, or -1; then the one after `source`.
  int64_t first(int64_t row) const { return head[row]; }
  int64_t after(int64_t source) const { return next[source]; }

private:
  int64_t *head, *next;
};

/// The memory of such lists.
struct ChainPieces {
  ChainPieces(Workspace &workspace, int64_t rows, int64_t sources)
      : head(workspace.take<int64_t>(rows)), next(workspace.take<int64_t>(sources)) {}
  static int64_t bytes(int64_t rows, int64_t sources) {
    return Workspace::sum(Workspace::bytesOf<int64_t>(rows), Workspace::bytesOf<int64_t>(sources));
  }
  Chains make(void *const *operands) const { return {head.of(operands), head.count, next.of(operands)}; }

  Piece<int64_t> head, next;
};

} // namespace zc::cpu
