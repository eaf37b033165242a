#include "runtime/launch/Outcome.h"

#include "base/File.h"
#include "base/Limits.h"

#include <csignal>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <sstream>
#include <sys/wait.h>

namespace zc::launch {

Error notAll(const std::vector<Host> &hosts, const std::vector<bool> &started, double seconds) {
  std::string came, missing;
  size_t rank = 0;
  for (const Host &host : hosts)
    for (int i = 0; i < host.ranks; ++i, ++rank)
      if (started[rank])
        came += (came.empty() ? "" : ", ") + std::to_string(rank);
      else
        missing += (missing.empty() ? "" : ", ") + std::to_string(rank) + " on " + host.name;
  char limit[32];
  std::snprintf(limit, sizeof limit, "%g", seconds);
  Error error = makeError(Code::peerLost, 978,
                          "not all ranks have started within " + std::string(limit) + " s: " + "missing are " + missing,
                          "--hosts",
                          "see that every host can be reached and reaches this one, or give a longer "
                          "--init-timeout");
  error.note = came.empty() ? "no rank has started" : "started are ranks " + came;
  return error;
}

/// The step that a run was in, from its metrics; 0: unknown.
static int64_t stepOf(const std::string &out) {
  auto text = readFile(out + "/metrics.jsonl", uint64_t(1) << 30);
  if (!text || text->size() < 2)
    return text ? 1 : 0;
  size_t begin = text->rfind('\n', text->size() - 2);
  auto line = nlohmann::json::parse(text->substr(begin == std::string::npos ? 0 : begin + 1), nullptr, false);
  return line.is_object() && line.contains("step") && line["step"].is_number_integer() ? line["step"].get<int64_t>() + 1
                                                                                       : 0;
}

/// Of a rank that a signal ended.
static Error killed(int rank, int number, const std::string &out, uint64_t oomKillsBefore) {
  int64_t step = stepOf(out);
  std::string what = "rank " + std::to_string(rank) + " was killed by signal " + std::to_string(number) + " (" +
                     strsignal(number) + ")" + (step > 0 ? " at step " + std::to_string(step) : "");
  const uint64_t kills = oomKills();
  const bool isOfMemory = number == SIGKILL && kills > oomKillsBefore;
  const bool fromOutside = number == SIGKILL || number == SIGTERM;
  Error error =
      makeError(fromOutside ? Code::peerLost : Code(128 + number), 973, what + (isOfMemory ? ": out of memory" : ""),
                out, "continue with --resume auto if a checkpoint was saved");
  if (isOfMemory) {
    error.help = "compile for more ranks, a higher ZeRO stage or a smaller batch; --reserve refuses before the first "
                 "step; " +
                 error.help;
    error.note = "the system killed for want of memory: oom_kill rose from " + std::to_string(oomKillsBefore) + " to " +
                 std::to_string(kills);
  }
  return error;
}

/// Words of several lines, with lines of dashes between them.
static std::string inOneLine(const std::string &text) {
  std::istringstream words(text);
  std::string line;
  for (std::string word; words >> word;)
    if (word.find_first_not_of('-') != std::string::npos)
      line += (line.empty() ? "" : " ") + word;
  return line;
}

Error toldBefore(int code) { return Error{Code(code), 975, "", "", "", ""}; }

Status outcomeOf(int status, const std::string &words, const std::string &out, uint64_t oomKillsBefore) {
  int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  if (code == 0)
    return Status::success();
  int rank = 0, number = 0;
  size_t at = words.find("process rank "), on = words.find("exited on signal ");
  if (at != std::string::npos && on != std::string::npos &&
      std::sscanf(words.c_str() + at, "process rank %d", &rank) == 1 &&
      std::sscanf(words.c_str() + on, "exited on signal %d", &number) == 1)
    return killed(rank, number, out, oomKillsBefore);
  if (words.find("unable to reliably start one or more daemons") != std::string::npos) {
    Error error = makeError(Code::peerLost, 974, "not all hosts could be reached", "--hosts",
                            "each host must let mpirun in without a password, and have this program at the same path");
    error.note = inOneLine(words).substr(0, 400);
    return error;
  }
  if (code == 127 && words.empty())
    return makeError(Code::unsupported, 979, "mpirun cannot be started", "--hosts",
                     "install Open MPI (Debian: openmpi-bin), or give -n to run all ranks on this machine");
  return toldBefore(code);
}

} // namespace zc::launch
