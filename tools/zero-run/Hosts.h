//===- Hosts.h - ranks on several machines, started by mpirun ------------------------------------------===//
#pragma once

#include "tools/zero-run/Flags.h"

namespace zc::run {

/// Where this is set, a rank's first line on stderr is kStartedLine and its number: the launcher counts them. One that
/// ends because the job has failed says kEndedLine and its exit code: mpirun may wait for a host that is gone.
inline constexpr const char *kLaunchedVariable = "ZC_LAUNCHED";
inline constexpr std::string_view kStartedLine = "zero-run: started rank ";
inline constexpr std::string_view kEndedLine = "zero-run: ended with code ";

struct Host {
  std::string name;
  int ranks = 0;
};
/// `text` is "a:2,b:2", or a file with one host per line, "a", "a:2" or "a slots=2", and # for comments. A host without
/// a number gets `perHost`. Errors: usage (nothing there, a bad number, a name that starts with "-"), badInput.
Result<std::vector<Host>> parseHosts(const std::string &text, int perHost);

/// The words that start `program` with `arguments` on the hosts, in rank order, by Open MPI's mpirun.
std::vector<std::string> mpirunCommand(const std::vector<Host> &hosts, const std::string &program,
                                       const std::vector<std::string> &arguments);

/// Shows that command, runs it and stays until it ends. SIGINT and SIGTERM become SIGUSR1 for the ranks (mpirun would
/// kill them), a second one ends the job. Errors: what the ranks ended with; peer lost when one was killed or a host
/// cannot be reached.
Status launchCommand(const Flags &flags);

} // namespace zc::run
