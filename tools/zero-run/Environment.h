//===- Environment.h - which rank the launcher says this process is ------------------------------------===//
#pragma once

#include "base/Status.h"

#include <optional>
#include <string>

namespace zc::run {

/// What mpirun, srun or a torchrun-like launcher put into the environment.
struct LaunchedRank {
  std::string sizeName; ///< variable the size is from, for messages
  int rank = 0, size = 1;
};

/// The first of Open MPI's, PMI's, Slurm's and torchrun's variables that is there; nothing when none is. Errors: usage,
/// when a number is none, the rank is not below the size, one of a pair is there alone, or two launchers disagree (both
/// are printed). Slurm's variables are not compared with those of mpirun: inside a batch script all processes inherit
/// the script's, and those of an allocation are there without a rank. Where ranks were asked for `asThreads`, one of a
/// pair alone, which may be a script's own, says nothing.
Result<std::optional<LaunchedRank>> launchedRank(bool asThreads);
/// Whether some launcher says that this is a rank other than 0, sound or not.
bool isLaterRank();

} // namespace zc::run
