#include "tools/zero-run/Hosts.h"

#include "runtime/base/File.h"
#include "runtime/base/Limits.h"
#include "runtime/base/Size.h"
#include "runtime/plan/PlanFile.h"
#include "runtime/plan/PlanMesh.h"
#include "runtime/train/RunFolder.h"
#include "tools/zero-run/Files.h"
#include "tools/zero-run/Process.h"
#include "tools/zero-run/Progress.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <poll.h>
#include <sstream>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace zc::run {

static Error badHost(const std::string &line) {
  return makeError(Code::usage, 972, "\"" + line + "\" is no host", "--hosts",
                   "give a:2,b:2 or a file with lines like \"a slots=2\"");
}

static Result<Host> parseHost(const std::string &line, int perHost) {
  Host host;
  host.ranks = perHost;
  size_t end = line.find_first_of(": \t");
  host.name = line.substr(0, end);
  std::string rest = end == std::string::npos ? "" : line.substr(line.find_first_not_of(": \t", end));
  if (rest.compare(0, 6, "slots=") == 0)
    rest.erase(0, 6);
  if (host.name.empty() || host.name[0] == '-' || rest.size() > 5 ||
      rest.find_first_not_of("0123456789") != std::string::npos)
    return badHost(line);
  if (!rest.empty())
    host.ranks = std::stoi(rest);
  if (host.ranks < 1)
    return badHost(line);
  return host;
}

Result<std::vector<Host>> parseHosts(const std::string &text, int perHost) {
  std::string list = text;
  struct stat status;
  bool isFile = ::stat(text.c_str(), &status) == 0;
  if (isFile) {
    auto read = readFile(text, 1 << 20);
    if (!read)
      return read.error();
    list = *read;
  }
  std::vector<Host> hosts;
  std::istringstream in(list);
  for (std::string line; std::getline(in, line, isFile ? '\n' : ',');) {
    line = line.substr(0, line.find('#'));
    line.erase(line.find_last_not_of(" \t\r") + 1);
    line.erase(0, std::min(line.find_first_not_of(" \t"), line.size()));
    if (line.empty())
      continue;
    auto host = parseHost(line, perHost);
    if (!host)
      return host.error();
    hosts.push_back(std::move(*host));
  }
  if (hosts.empty())
    return badHost(text);
  return hosts;
}

std::vector<std::string> mpirunCommand(const std::vector<Host> &hosts, const std::string &program,
                                       const std::vector<std::string> &arguments) {
  std::string list;
  int total = 0;
  for (const Host &host : hosts) {
    list += (list.empty() ? "" : ",") + host.name + ":" + std::to_string(host.ranks);
    total += host.ranks;
  }
  // By slot: ranks of a host are neighbours, as the plan's nodes have them. Unbound: kernels and communication share
  // the cores. No grace before mpirun kills: it only does when a rank has failed; who wants to stop a run is asked by
  // SIGUSR1.
  std::vector<std::string> words = {"mpirun", "--host",    list,   "-np",   std::to_string(total),       "--map-by",
                                    "slot",   "--bind-to", "none", "--mca", "odls_base_sigkill_timeout", "0"};
  if (::geteuid() == 0)
    words.push_back("--allow-run-as-root");
  for (char **variable = environ; *variable; ++variable)
    for (const char *prefix : {"ZERO_", "OMP_", "OPENBLAS_"})
      if (std::strncmp(*variable, prefix, std::strlen(prefix)) == 0) {
        words.push_back("-x");
        words.push_back(std::string(*variable, std::strcspn(*variable, "=")));
      }
  words.insert(words.end(), {"-x", std::string(kLaunchedVariable) + "=1"});
  words.push_back(program);
  words.insert(words.end(), arguments.begin(), arguments.end());
  return words;
}

namespace {

std::string quoted(const std::string &word) {
  if (!word.empty() &&
      word.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:=,+%@") ==
          std::string::npos)
    return word;
  std::string out = "'";
  for (char c : word)
    out += c == '\'' ? "'\\''" : std::string(1, c);
  return out + "'";
}

std::string ownPath() {
  char self[PATH_MAX];
  ssize_t length = ::readlink("/proc/self/exe", self, sizeof self);
  return length > 0 ? std::string(self, size_t(length)) : "zero-run";
}

volatile sig_atomic_t launched = 0; ///< pid of mpirun
volatile sig_atomic_t asked = 0;    ///< signals so far

void passOn(int number) {
  int saved = errno;
  // mpirun passes USR1 on to the ranks, which then save and end; TERM would make it kill them after a second.
  if (launched > 0)
    ::kill(pid_t(launched), asked == 0 && number != SIGUSR1 ? SIGUSR1 : number == SIGUSR1 ? SIGUSR1 : SIGTERM);
  if (number != SIGUSR1)
    asked = asked + 1;
  errno = saved;
}

/// Of mpirun, to end the ranks of all hosts once one has ended.
constexpr double kEndSeconds = 2;

/// mpirun's stderr: the ranks' lines go on to ours, its own words between lines of dashes are kept for later, and so is
/// which ranks have started.
class Listener {
public:
  explicit Listener(int ranks) : started(size_t(ranks)) {}
  void take(const char *bytes, size_t count) {
    for (size_t i = 0; i < count; ++i) {
      line += bytes[i];
      if (bytes[i] == '\n' || line.size() > 1 << 16)
        flush();
    }
  }
  void flush() {
    if (line.compare(0, kStartedLine.size(), kStartedLine) == 0)
      note(std::atoi(line.c_str() + kStartedLine.size()));
    else if (line.compare(0, kEndedLine.size(), kEndedLine) == 0)
      code = code ? code : std::atoi(line.c_str() + kEndedLine.size());
    else if (line.compare(0, 20, "--------------------") == 0)
      inside = !inside;
    else if (inside)
      words += line;
    else
      print(2, line);
    line.clear();
  }
  std::string words;         ///< mpirun's own
  std::vector<bool> started; ///< by rank
  std::optional<int> code;   ///< of the first rank that ended because the job has failed
  bool allStarted() const { return std::find(started.begin(), started.end(), false) == started.end(); }

private:
  void note(int rank) {
    if (rank >= 0 && size_t(rank) < started.size())
      started[size_t(rank)] = true;
  }
  std::string line;
  bool inside = false;
};

pid_t start(const std::vector<std::string> &command, int errors) {
  pid_t parent = ::getpid(), child = ::fork();
  if (child != 0)
    return child;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent)
    ::_exit(1);
  // A group of its own: the terminal's ^C is ours to pass on. Nobody reads the terminal.
  ::setpgid(0, 0);
  int null = ::open("/dev/null", O_RDONLY);
  ::dup2(null, 0);
  ::dup2(errors, 2);
  std::vector<char *> words;
  for (const std::string &word : command)
    words.push_back(const_cast<char *>(word.c_str()));
  words.push_back(nullptr);
  for (int number : {SIGPIPE, SIGXFSZ})
    std::signal(number, SIG_DFL);
  ::execvp(words[0], words.data());
  ::_exit(127);
}

/// Passes on what mpirun and the ranks say until they close the pipe; false when the ranks have not all started in
/// time, or mpirun does not end although a rank has ended the job: a host is gone.
bool listen(int pipe, Listener &listener, double seconds) {
  using Clock = std::chrono::steady_clock;
  auto after = [](double seconds) {
    return Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  };
  auto limit = after(seconds);
  bool ends = false;
  char bytes[4096];
  for (;;) {
    if (listener.code && !ends) {
      ends = true;
      limit = after(kEndSeconds);
    }
    const bool isTimed = ends || !listener.allStarted();
    int wait = -1;
    if (isTimed)
      wait = int(std::chrono::duration_cast<std::chrono::milliseconds>(limit - Clock::now()).count());
    if (isTimed && wait <= 0)
      return false;
    pollfd poll = {pipe, POLLIN, 0};
    if (::poll(&poll, 1, wait) <= 0)
      continue;
    ssize_t count = ::read(pipe, bytes, sizeof bytes);
    if (count < 0 && errno == EINTR)
      continue;
    if (count <= 0)
      break;
    listener.take(bytes, size_t(count));
  }
  listener.flush();
  return true;
}

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
int64_t stepOf(const std::string &out) {
  auto text = readFile(out + "/metrics.jsonl", uint64_t(1) << 30);
  if (!text || text->size() < 2)
    return text ? 1 : 0;
  size_t begin = text->rfind('\n', text->size() - 2);
  auto line = nlohmann::json::parse(text->substr(begin == std::string::npos ? 0 : begin + 1), nullptr, false);
  return line.is_object() && line.contains("step") && line["step"].is_number_integer() ? line["step"].get<int64_t>() + 1
                                                                                       : 0;
}

/// What became of the job, from mpirun's exit code and words.
Status outcome(int status, const std::string &words, const std::string &out, uint64_t oomKillsBefore) {
  int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  if (code == 0)
    return Status::success();
  int rank = 0, number = 0;
  size_t at = words.find("process rank "), on = words.find("exited on signal ");
  if (at != std::string::npos && on != std::string::npos &&
      std::sscanf(words.c_str() + at, "process rank %d", &rank) == 1 &&
      std::sscanf(words.c_str() + on, "exited on signal %d", &number) == 1) {
    int64_t step = stepOf(out);
    std::string what = "rank " + std::to_string(rank) + " was killed by signal " + std::to_string(number) + " (" +
                       strsignal(number) + ")" + (step > 0 ? " at step " + std::to_string(step) : "");
    uint64_t kills = oomKills();
    if (number == SIGKILL && kills > oomKillsBefore) {
      Error error =
          makeError(Code::peerLost, 973, what + ": out of memory", out,
                    "compile for more ranks, a higher ZeRO stage or a smaller batch; --reserve refuses before "
                    "the first step; continue with --resume auto if a checkpoint was saved");
      error.note = "the system killed for want of memory: oom_kill rose from " + std::to_string(oomKillsBefore) +
                   " to " + std::to_string(kills);
      return error;
    }
    bool fromOutside = number == SIGKILL || number == SIGTERM;
    return makeError(fromOutside ? Code::peerLost : Code(128 + number), 973, what, out,
                     "continue with --resume auto if a checkpoint was saved");
  }
  if (words.find("unable to reliably start one or more daemons") != std::string::npos) {
    Error error = makeError(Code::peerLost, 974, "not all hosts could be reached", "--hosts",
                            "each host must let mpirun in without a password, and have this program at the same path");
    error.note = words.substr(0, 400);
    return error;
  }
  if (code == 127 && words.empty())
    return makeError(Code::unsupported, 979, "mpirun cannot be started", "--hosts",
                     "install Open MPI (Debian: openmpi-bin), or give -n to run all ranks on this machine");
  // A rank has said why.
  return Error{Code(code), 975, "", "", "", ""};
}

} // namespace

static Status checkTotal(const std::vector<Host> &hosts, const planpb::Plan &plan, const std::string &path) {
  int total = 0;
  for (const Host &host : hosts)
    total += host.ranks;
  const int planned = worldSizeOf(plan);
  if (total == planned)
    return Status::success();
  return makeError(Code::mismatch, 991,
                   "the plan is for " + counted(planned, "rank") + " but --hosts gives " + std::to_string(total), path,
                   "zero-compile --world-size " + std::to_string(total));
}

Status launchCommand(const Flags &flags) {
  auto hosts = parseHosts(flags.hosts, std::max(1, flags.run.worldSize));
  if (!hosts)
    return hosts.error();
  auto plan = openPlan(flags.run.plan);
  if (!plan)
    return plan.error();
  ZC_RETURN_IF_ERROR(checkTotal(*hosts, *plan, flags.run.plan));
  std::vector<std::string> command = mpirunCommand(*hosts, ownPath(), flags.forwarded);
  std::string shown = "running";
  for (const std::string &word : command)
    shown += " " + quoted(word);
  print(2, shown + "\n");

  uint64_t oomKillsBefore = oomKills();
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    return makeError(Code::other, 976, std::string("no pipe: ") + std::strerror(errno));
  struct sigaction action = {};
  action.sa_handler = passOn;
  for (int number : {SIGINT, SIGTERM, SIGUSR1})
    ::sigaction(number, &action, nullptr);
  pid_t child = start(command, ends[1]);
  ::close(ends[1]);
  if (child < 0)
    return makeError(Code::other, 993, std::string("no process: ") + std::strerror(errno));
  launched = child;

  Listener listener(worldSizeOf(*plan));
  bool inTime = listen(ends[0], listener, flags.initTimeout);
  if (!inTime)
    ::kill(-child, SIGKILL); // the daemons of hosts that can be reached end their ranks then
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!inTime && listener.code) // a rank has said why
    return Error{Code(*listener.code), 975, "", "", "", ""};
  if (!inTime)
    return notAll(*hosts, listener.started, flags.initTimeout);
  if (asked > 1)
    return Error{Code(128 + SIGTERM), 975, "", "", "", ""};
  return outcome(status, listener.words, outputFolder(flags.run, *plan), oomKillsBefore);
}

} // namespace zc::run
