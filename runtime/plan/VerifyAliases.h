//===- VerifyAliases.h - operands of one step that share bytes ------------------===//
#pragma once

#include "runtime/plan/Overlap.h"
#include "runtime/plan/PlanMesh.h"

#include <optional>
#include <utility>
#include <vector>

namespace zc::verify {

/// What a written operand may share with one that is only read.
enum class Sharing : uint8_t {
  none,
  whole,   ///< all its bytes: the step works in place
  ownPart, ///< of a collective's two operands the smaller is this rank's part of the larger
};

/// Compares the operands of steps whose ranges are known to lie inside their slices (operand_c2), on all ranks.
class AliasFinder {
public:
  struct Alias {
    int written, other; ///< positions among the operands
    int64_t rank;
  };
  struct Finding {
    std::optional<Alias> alias; ///< not allowed by the rule
    bool tooMany = false;       ///< the work of all calls together has come to its limit
  };

  explicit AliasFinder(const planpb::Plan &plan);
  /// By a sweep over the operands in order of their first bytes: as long as few of them reach across each other, n log
  /// n.
  Finding find(const planpb::Step &step, Sharing sharing);
  /// For tests: comparisons so far.
  uint64_t workSoFar() const { return work; }
  /// Inputs and outputs that are the same bytes, on every rank: (input, output) by position. Others share none, in
  /// steps that `find` takes.
  std::vector<std::pair<size_t, size_t>> inPlace(const planpb::Step &step) const;

private:
  /// The bytes of an operand.
  struct Range {
    int position;
    bool isWritten;
    uint32_t arena;
    Affine begin;
    int64_t bytes;
    int64_t hullEnd; ///< behind the last byte on any rank
  };
  Range rangeOf(const planpb::Step &step, int position) const;
  /// Of the operands that have bytes, by their first one.
  std::vector<Range> rangesOf(const planpb::Step &step) const;
  std::optional<Alias> compare(const Range &a, const Range &b, Sharing sharing, AxisSet axes);
  /// Where the smaller of two operands begins within the larger.
  Affine ownPlace(AxisSet axes, int64_t partBytes) const;

  const planpb::Plan &plan;
  Mesh mesh;
  RankBox ranks;
  uint64_t work = 0;
};

} // namespace zc::verify
