#include "base/Failpoint.h"
#include "base/Suggest.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <iterator>
#include <mutex>
#include <thread>
#include <unistd.h>
#include <vector>

namespace zc {

std::atomic<bool> detail::anyFailpoints{false};

namespace {

/// Every place that is one, so that a rule of another name is an error and not a fault that never comes; a test
/// compares them with the sources. "nothing" is none: a rule of it has passages counted.
constexpr const char *kSites[] = {
    "nothing",        "arena.reserve",  "ckpt.exchange",      "ckpt.manifest",   "ckpt.remove",     "ckpt.removed",
    "ckpt.rename",    "ckpt.replaced",  "ckpt.write",         "coll.allgather",  "coll.allreduce",  "coll.alltoall",
    "coll.barrier",   "coll.broadcast", "coll.reducescatter", "data.range",      "device.lost",     "file.allocate",
    "file.close",     "file.create",    "file.fsync",         "file.open",       "file.read",       "file.rename",
    "file.stat",      "file.write",     "file.writeback",     "folder.fsync",    "folder.list",     "folder.make",
    "folder.open",    "folder.rename",  "kernel.run",         "memory.events",   "memory.resident", "metrics.write",
    "product.onednn", "spill.bounce",   "spill.engine",       "spill.fallocate", "spill.open",      "spill.pin",
    "spill.read",     "spill.uring",    "spill.write",        "step.begin",      "stream.capture",  "whole.open",
    "whole.read"};

struct Rule {
  std::string site;
  std::optional<int64_t> rank, step, n;
  bool onwards = false; ///< from the n-th passage on
  int64_t passages = 0; ///< that fit, so far

  enum class Effect : uint8_t { act, signal, delay, crash, exit };
  Effect effect = Effect::act;
  FaultAction action;
  int number = 0; ///< of the signal or the exit code
  std::chrono::milliseconds delay{0};
};

struct Named {
  const char *name;
  int number;
};
constexpr Named kErrors[] = {
    {"EIO", EIO},       {"ENOSPC", ENOSPC},        {"EDQUOT", EDQUOT}, {"EFBIG", EFBIG},   {"EINTR", EINTR},
    {"EAGAIN", EAGAIN}, {"EACCES", EACCES},        {"EPERM", EPERM},   {"ENOENT", ENOENT}, {"ENOMEM", ENOMEM},
    {"EINVAL", EINVAL}, {"ESTALE", ESTALE},        {"ENOSYS", ENOSYS}, {"EROFS", EROFS},   {"EBUSY", EBUSY},
    {"EMFILE", EMFILE}, {"EOPNOTSUPP", EOPNOTSUPP}};
constexpr Named kSignals[] = {{"SIGKILL", SIGKILL}, {"SIGSEGV", SIGSEGV}, {"SIGSTOP", SIGSTOP}, {"SIGTERM", SIGTERM},
                              {"SIGINT", SIGINT},   {"SIGABRT", SIGABRT}, {"SIGBUS", SIGBUS},   {"SIGUSR1", SIGUSR1}};

struct Context {
  int rank = -1;
  int64_t step = -1;
};
thread_local Context context;

std::mutex mutex; // of the two below; passages are rare enough when there are rules at all
std::vector<Rule> rules;
std::map<std::string, int64_t> passages; // by site, since the rules were set

std::string trimmed(const std::string &text) {
  size_t begin = text.find_first_not_of(" \t\n"), end = text.find_last_not_of(" \t\n");
  return begin == std::string::npos ? "" : text.substr(begin, end - begin + 1);
}

std::vector<std::string> split(const std::string &text, char separator) {
  std::vector<std::string> parts;
  size_t begin = 0;
  for (size_t end; (end = text.find(separator, begin)) != std::string::npos; begin = end + 1)
    parts.push_back(trimmed(text.substr(begin, end - begin)));
  parts.push_back(trimmed(text.substr(begin)));
  return parts;
}

/// "KEY=123", with what follows the digits in `rest`.
std::optional<int64_t> numberAfter(const std::string &text, const std::string &key, std::string &rest) {
  if (text.compare(0, key.size(), key) != 0)
    return std::nullopt;
  std::string digits = text.substr(key.size());
  size_t end = digits.find_first_not_of("0123456789");
  rest = end == std::string::npos ? "" : digits.substr(end);
  digits = digits.substr(0, end);
  if (digits.empty() || digits.size() > 15)
    return std::nullopt;
  return std::stoll(digits);
}

bool readSelector(const std::string &text, Rule &rule) {
  std::string rest;
  if (auto rank = numberAfter(text, "rank=", rest); rank && rest.empty())
    return rule.rank = rank, true;
  if (auto step = numberAfter(text, "step=", rest); step && rest.empty())
    return rule.step = step, true;
  if (auto n = numberAfter(text, "n=", rest); n && *n > 0 && (rest.empty() || rest == "+"))
    return rule.n = n, rule.onwards = rest == "+", true;
  return false;
}

bool readAction(const std::string &text, Rule &rule) {
  std::string rest;
  for (const Named &known : kErrors)
    if (text == known.name)
      return rule.action = {FaultAction::Kind::error, known.number}, true;
  for (const Named &known : kSignals)
    if (text == known.name)
      return rule.effect = Rule::Effect::signal, rule.number = known.number, true;
  if (text == "short")
    return rule.action = {FaultAction::Kind::shorten, 0}, true;
  if (text == "flip")
    return rule.action = {FaultAction::Kind::flip, 0}, true;
  if (text == "crash")
    return rule.effect = Rule::Effect::crash, true;
  if (auto code = numberAfter(text, "exit=", rest); code && rest.empty() && *code < 256)
    return rule.effect = Rule::Effect::exit, rule.number = static_cast<int>(*code), true;
  if (auto time = numberAfter(text, "delay=", rest); time && (rest == "s" || rest == "ms")) {
    rule.effect = Rule::Effect::delay;
    rule.delay = std::chrono::milliseconds(rest == "s" ? *time * 1000 : *time);
    return true;
  }
  return false;
}

std::optional<Rule> readRule(const std::string &text) {
  Rule rule;
  size_t colon = text.find(':');
  if (colon == std::string::npos)
    return std::nullopt;
  std::string place = text.substr(0, colon);
  size_t at = place.find('@');
  rule.site = trimmed(place.substr(0, at));
  if (rule.site.empty() || !readAction(trimmed(text.substr(colon + 1)), rule))
    return std::nullopt;
  if (at != std::string::npos)
    for (const std::string &selector : split(place.substr(at + 1), ','))
      if (!readSelector(selector, rule))
        return std::nullopt;
  return rule;
}

bool isSite(const std::string &name) {
  return std::find(std::begin(kSites), std::end(kSites), name) != std::end(kSites);
}

std::string adviceOnSite(const std::string &name) {
  const std::vector<std::string> sites(std::begin(kSites), std::end(kSites));
  if (const std::string near = nearest(name, sites); !near.empty())
    return "did you mean \"" + near + "\"?";
  std::string all;
  for (const std::string &site : sites)
    all += (all.empty() ? "there are " : ", ") + site;
  return all;
}

/// Whether this thread passing `site` is what the rule waits for; counts the passage.
bool fits(Rule &rule, const char *site) {
  if (rule.site != site || (rule.rank && *rule.rank != context.rank) || (rule.step && *rule.step != context.step))
    return false;
  ++rule.passages;
  return !rule.n || rule.passages == *rule.n || (rule.onwards && rule.passages > *rule.n);
}

/// What is told in a step is not to be heard in a later one. So this thread hears it itself: of the process's, another
/// may, which is long in coming beside other work. What threads of ranks block they leave to the main thread.
void sendSignal(int number) {
  sigset_t blocked;
  if (::pthread_sigmask(SIG_BLOCK, nullptr, &blocked) != 0 || ::sigismember(&blocked, number) != 1) {
    ::raise(number);
    return;
  }
  ::kill(::getpid(), number);
  sigset_t waiting; // of those that this thread blocks
  for (int tries = 0; tries < 10000; ++tries) {
    if (::sigpending(&waiting) != 0 || ::sigismember(&waiting, number) != 1)
      return;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

std::optional<FaultAction> carryOut(const Rule &rule) {
  switch (rule.effect) {
  case Rule::Effect::act:
    return rule.action;
  case Rule::Effect::signal:
    sendSignal(rule.number);
    return std::nullopt;
  case Rule::Effect::delay:
    std::this_thread::sleep_for(rule.delay);
    return std::nullopt;
  case Rule::Effect::crash:
    ::kill(::getpid(), SIGKILL);
    return std::nullopt;
  case Rule::Effect::exit:
    ::_exit(rule.number);
  }
  return std::nullopt;
}

} // namespace

Status setFailpoints(const std::string &text) {
  std::vector<Rule> read;
  for (const std::string &part : split(text, ';')) {
    if (part.empty())
      continue;
    std::optional<Rule> rule = readRule(part);
    if (!rule)
      return makeError(Code::usage, 110, "\"" + part + "\" is no rule for failpoints", "ZERO_FAULT",
                       "site@rank=R,step=S,n=K:action; actions are ENOSPC and other errors, SIGKILL and other signals, "
                       "delay=10s, crash, exit=N, short, flip");
    if (!isSite(rule->site))
      return makeError(Code::usage, 111, "there is no failpoint \"" + rule->site + "\"", "ZERO_FAULT",
                       adviceOnSite(rule->site));
    read.push_back(std::move(*rule));
  }
  std::lock_guard<std::mutex> lock(mutex);
  rules = std::move(read);
  passages.clear();
  detail::anyFailpoints.store(!rules.empty(), std::memory_order_relaxed);
  return {};
}

void setFaultContext(int rank, int64_t step) { context = {rank, step}; }

std::map<std::string, int64_t> passedFailpoints() {
  std::lock_guard<std::mutex> lock(mutex);
  return passages;
}

int faultRank() { return context.rank; }

int64_t faultStep() { return context.step; }

std::optional<FaultAction> detail::passFailpoint(const char *site) {
  std::optional<Rule> due;
  {
    std::lock_guard<std::mutex> lock(mutex);
    ++passages[site];
    for (Rule &rule : rules)
      if (fits(rule, site) && !due)
        due = rule;
  }
  return due ? carryOut(*due) : std::nullopt;
}

} // namespace zc
