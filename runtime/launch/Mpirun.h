//===- Mpirun.h - ranks on several machines, started by mpirun ----------------------===//
#pragma once

#include "runtime/launch/Hosts.h"

#include <functional>

namespace zc::launch {

/// The words that start `program` with `arguments` on the hosts, in rank order, by Open MPI's mpirun.
std::vector<std::string> mpirunCommand(const std::vector<Host> &hosts, const std::string &program,
                                       const std::vector<std::string> &arguments);

struct MpiJob {
  std::vector<Host> hosts;
  std::vector<std::string> command; ///< of mpirunCommand
  double initTimeout = 60;          ///< seconds for all ranks to start
  std::string out;                  ///< the run's folder, whose metrics tell at which step a rank was killed
  std::function<void(const std::string &)> say; ///< hears the ranks' stderr, line by line
};

/// Runs the command and stays until it ends; once in a process. SIGINT and SIGTERM become SIGUSR1 for the ranks (mpirun
/// would kill them), a second one ends the job. Errors: what the ranks ended with, without a message where a rank has
/// said why; peer lost when one was killed or a host cannot be reached.
Status runMpirun(const MpiJob &job);

} // namespace zc::launch
