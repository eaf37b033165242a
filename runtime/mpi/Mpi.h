//===- Mpi.h - one process per rank, under MPI's launchers ---------------------------===//
//
// The MPI side is a shared object of its own, loaded when a run needs it, so that the programs start where no MPI is
// installed. It takes what it shares with the program (Communicator, sums, failpoints) from the program itself.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/comm/RankGroup.h"

#include <functional>

namespace zc {

struct MpiOptions {
  /// The mesh of so many ranks, one a process; null: one node.
  std::function<Mesh(int worldSize)> meshOf;
  double initTimeout = 60; ///< seconds until all processes must have met
  /// Called when they have not, from a thread of its own; must end the process.
  void (*fail)(const Error &error) = nullptr;
};

/// Starts MPI and meets the other processes. Call from the main thread, once; destroying the group there ends MPI,
/// unless the job has failed. Errors: unsupported (no plugin, no MPI, or one without threads), peer lost.
Result<std::unique_ptr<RankGroup>> connectMpi(const MpiOptions &options);

/// Why `connectMpi` would not find MPI here, or nothing. For `zero-run doctor`.
std::optional<std::string> mpiProblem();

/// The plugin's only symbol: "zcMpiConnect". The caller owns the result; null: `error` says why.
using MpiConnect = RankGroup *(*)(const MpiOptions &options, Error &error);

} // namespace zc
