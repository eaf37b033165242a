//===- RankGroup.h - the ranks of a job that live in this process ------------------===//
#pragma once

#include "runtime/comm/Communicator.h"

#include <memory>
#include <optional>
#include <vector>

namespace zc {

/// A job has W ranks; a process runs some of them, in a row: all W as threads (Inproc.h), or one per process under MPI
/// (runtime/mpi).
class RankGroup {
public:
  virtual ~RankGroup() = default;
  virtual const Mesh &mesh() const = 0;
  /// This process runs ranks [firstRank, firstRank + count).
  virtual int firstRank() const = 0;
  virtual int count() const = 0;
  bool isWhole() const { return count() == mesh().worldSize(); }

  /// One end of the job for a rank of this process; call once per rank. The group must outlive it.
  virtual std::unique_ptr<Communicator> communicator(int rank) = 0;
  /// The error that made the job fail, and the rank that had it, as far as this process knows.
  struct Failure {
    int rank = 0;
    Error error;
  };
  virtual std::optional<Failure> failure() const = 0;

  /// For each rank, the lowest rank on the same machine as the transport sees it; empty when everything is in one
  /// process.
  virtual std::vector<int> machines() const { return {}; }
  /// Ends this process with exit code `code` so that the others end too, without waiting for anybody. Returns when all
  /// ranks are in this process.
  virtual void kill(int code) = 0;
};

} // namespace zc
