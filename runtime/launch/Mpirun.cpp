#include "runtime/launch/Mpirun.h"

#include "base/Limits.h"
#include "runtime/launch/Listener.h"
#include "runtime/launch/Outcome.h"
#include "runtime/launch/RankLines.h"
#include "runtime/launch/StopSignals.h"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace zc::launch {

std::vector<std::string> mpirunCommand(const std::vector<Host> &hosts, const std::string &program,
                                       const std::vector<std::string> &arguments) {
  std::string list;
  for (const Host &host : hosts)
    list += (list.empty() ? "" : ",") + host.name + ":" + std::to_string(host.ranks);
  // By slot: ranks of a host are neighbours, as the plan's nodes have them. Unbound: kernels and communication share
  // the cores. No grace before mpirun kills: it only does when a rank has failed; who wants to stop a run is asked by
  // SIGUSR1.
  std::vector<std::string> words = {"mpirun", "--host",    list,   "-np",   std::to_string(ranksOf(hosts)), "--map-by",
                                    "slot",   "--bind-to", "none", "--mca", "odls_base_sigkill_timeout",    "0"};
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

volatile sig_atomic_t launched = 0; ///< pid of mpirun
volatile sig_atomic_t asked = 0;    ///< signals so far, but for USR1 and what a terminal that closes repeats
volatile sig_atomic_t hungUp = 0;   ///< by a terminal that closes, which tells twice: by the shell and by the system
volatile sig_atomic_t last = 0;     ///< of them

void passOn(int number) {
  int saved = errno;
  if (number != SIGUSR1 && number != SIGHUP && isSameRequest())
    return;
  const bool isRepeated = number == SIGHUP && (hungUp != 0 || asked > 0);
  const bool isSecond = number != SIGUSR1 && number != SIGHUP && asked > 0;
  // mpirun passes USR1 on to the ranks, which then save and end; TERM would make it kill them after a second. To ranks
  // that a terminal's end has stopped a second USR1 would be a second request.
  if (launched > 0 && !isRepeated && (isSecond || hungUp == 0))
    ::kill(pid_t(launched), isSecond ? SIGTERM : SIGUSR1);
  if (number == SIGHUP)
    hungUp = 1;
  else if (number != SIGUSR1)
    asked = asked + 1;
  if (number != SIGUSR1 && !isRepeated)
    last = number;
  errno = saved;
}

pid_t start(const std::vector<std::string> &command, int errors, const sigset_t &signals) {
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
  for (int number : kStopSignals)
    if (!isIgnored(number))
      std::signal(number, SIG_DFL);
  ::sigprocmask(SIG_SETMASK, &signals, nullptr);
  ::execvp(words[0], words.data());
  ::_exit(127);
}

} // namespace

Status runMpirun(const MpiJob &job) {
  const uint64_t oomKillsBefore = oomKills();
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    return makeError(Code::other, 976, std::string("no pipe: ") + std::strerror(errno));
  struct sigaction action = {};
  action.sa_handler = passOn;
  sigset_t ours, before;
  ::sigemptyset(&ours);
  for (int number : kStopSignals) {
    ::sigaddset(&ours, number);
    if (!isIgnored(number))
      ::sigaction(number, &action, nullptr);
  }
  ::sigprocmask(SIG_BLOCK, &ours, &before); // until there is somebody to pass them on to
  pid_t child = start(job.command, ends[1], before);
  const int errnum = errno;
  launched = child;
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  ::close(ends[1]);
  if (child < 0)
    return makeError(Code::other, 993, std::string("no process: ") + std::strerror(errnum));

  Listener listener(ranksOf(job.hosts), job.say);
  const bool inTime = listen(ends[0], listener, job.initTimeout);
  if (!inTime)
    ::kill(-child, SIGKILL); // the daemons of hosts that can be reached end their ranks then
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!inTime && listener.code)
    return toldBefore(*listener.code);
  if (!inTime)
    return notAll(job.hosts, listener.started, job.initTimeout);
  // Told twice, or once and not soon enough (--grace): as where there is no launcher.
  const bool wasLate = WIFEXITED(status) && WEXITSTATUS(status) == 128 + SIGUSR1;
  if (asked > 1 || (asked + hungUp > 0 && wasLate))
    return toldBefore(128 + last);
  return outcomeOf(status, listener.words, job.out, oomKillsBefore);
}

} // namespace zc::launch
