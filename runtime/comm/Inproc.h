//===- Inproc.h - ranks as threads of one process -----------------------------===//
#pragma once

#include "runtime/comm/Communicator.h"

#include <memory>
#include <optional>
#include <vector>

namespace zc {

/// W communicators over shared memory: each rank reads its peers' buffers directly, nothing is staged. A rank waits by
/// a short spin and then sleeps. Destroying a rank's communicator while others wait for it fails their calls.
class InprocGroup {
public:
  /// `ranksPerNode` divides `worldSize`; it only decides which bytes count as sent between nodes.
  static std::unique_ptr<InprocGroup> create(int worldSize, int ranksPerNode);
  virtual ~InprocGroup() = default;

  /// Rank `rank`'s end; call once per rank. The group must outlive it.
  virtual std::unique_ptr<Communicator> communicator(int rank) = 0;
  /// The error that made the group fail, and the rank that had it.
  struct Failure {
    int rank = 0;
    Error error;
  };
  virtual std::optional<Failure> failure() const = 0;
};

} // namespace zc
