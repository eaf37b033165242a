#include "tools/zero-run/Progress.h"

#include "base/Blocking.h"
#include "base/Clock.h"
#include "base/Size.h"
#include "runtime/io/OutputFile.h"
#include "runtime/launch/RankLines.h"
#include "tools/zero-run/Environment.h"

#include <algorithm>
#include <chrono>
#include <climits>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <poll.h>
#include <thread>
#include <unistd.h>

namespace zc::run {

void print(int fd, std::string_view text) { (void)io::writeOn(fd, text); }

bool tell(int fd, std::string_view text, int milliseconds) {
  // Writable means room for PIPE_BUF bytes at least.
  for (size_t at = 0; at < text.size(); at += PIPE_BUF) {
    pollfd ready = {fd, POLLOUT, 0};
    if (::poll(&ready, 1, milliseconds) <= 0)
      return false;
    print(fd, text.substr(at, PIPE_BUF));
  }
  return true;
}

Progress::Progress(const Flags &flags, int rank)
    : flags(flags), prefix(rank > 0 ? "[rank " + std::to_string(rank) + "] " : ""), terminal(::isatty(2)) {}

void Progress::starting(const train::RunSummary &what) {
  summary = what;
  begin = now();
  if (flags.quiet)
    return;
  if (what.firstStep > what.steps)
    return;
  std::string text = (what.evaluates ? "evaluating " : "training ") + counted(what.steps - what.firstStep + 1, "step") +
                     " of " + counted(what.samplesPerStep, "sample") + " on " + counted(what.worldSize, "rank") +
                     " x " + counted(what.threads, "thread") +
                     (what.products.empty() ? "" : ", " + escapeName(what.products)) +
                     (what.out.empty() ? "" : " into " + escapeName(what.out)) + "\n";
  tell(2, text);
}

namespace {
struct Line {
  char text[320];
  int length = 0;
  template <typename... Args> void add(const char *format, Args... args) {
    int wrote = std::snprintf(text + length, sizeof text - size_t(length), format, args...);
    length = std::min(length + std::max(wrote, 0), int(sizeof text) - 1);
  }
};
} // namespace

void Progress::step(const train::StepRecord &record) {
  bool last = record.step == summary.steps;
  bool due = record.step % flags.logEvery == 0 || last || record.eval;
  if (flags.jsonLog && due) {
    std::array<char, 512> buffer;
    std::string_view json = toJson(record, buffer);
    buffer[json.size()] = '\n';
    tell(1, {buffer.data(), json.size() + 1});
    return;
  }
  double time = now();
  // A terminal is redrawn at most ten times a second.
  if (flags.quiet || flags.jsonLog || (terminal ? !last && !record.eval && time - drawn < 0.1 : !due))
    return;
  drawn = time;
  Line line;
  if (terminal) {
    constexpr int kWidth = 24;
    int filled = int(kWidth * record.step / std::max<int64_t>(1, summary.steps));
    line.add("\r\x1b[K[%.*s%.*s] ", filled, "========================", kWidth - filled, "                        ");
  }
  line.add("step %lld/%lld", static_cast<long long>(record.step), static_cast<long long>(summary.steps));
  if (!summary.evaluates || !std::isnan(record.loss)) // of an evaluation: so far; it need not have any
    line.add("  loss %.4f", record.loss);
  if (summary.isLikelihood && !std::isnan(record.loss))
    line.add(" (perplexity %.4g)", std::exp(record.loss));
  if (record.skipped)
    line.add("  skipped at loss scale %g", record.lossScale.value_or(1));
  else if (record.gradNorm)
    line.add("  norm %.3g", *record.gradNorm);
  if (!summary.evaluates)
    line.add("  lr %.3g", record.lr);
  if (record.eval)
    line.add("  val %.4f", record.eval->loss);
  if (record.eval && record.eval->isLikelihood)
    line.add(" (perplexity %.4g)", std::exp(record.eval->loss));
  if (record.seconds > 0) {
    double samples = double(record.samples) / record.seconds;
    if (summary.tokensPerSample > 0)
      line.add("  %.0f tokens/s", samples * double(summary.tokensPerSample));
    else
      line.add("  %.4g samples/s", samples);
  }
  double done = std::max(1.0, double(record.step - summary.firstStep + 1));
  line.add("  %.0fs left%s", (time - begin) / done * double(summary.steps - record.step), terminal ? "" : "\n");
  std::lock_guard<std::mutex> lock(writing);
  open = terminal;
  tell(2, {line.text, size_t(line.length)});
}

void Progress::endBar() {
  if (open)
    tell(2, "\n");
  open = false;
}

void Progress::close() {
  std::lock_guard<std::mutex> lock(writing);
  endBar();
}

void Progress::note(const std::string &text) {
  if (flags.quiet)
    return;
  std::lock_guard<std::mutex> lock(writing);
  endBar();
  tell(2, prefix + escapeName(text) + "\n");
}

void Progress::warning(const std::string &text) {
  std::lock_guard<std::mutex> lock(writing);
  endBar();
  tell(2, prefix + "warning: " + escapeName(text) + "\n", 200);
}

void announceEnd(Code code) {
  if (std::getenv(launch::kLaunchedVariable))
    print(2, std::string(launch::kEndedLine) + std::to_string(int(code)) + "\n");
}

void endProcess(const Error &error) {
  finishesWithin(2, [error] { // a pipe that nobody reads must not keep it
    print(2, "\n" + render(error) + "\n");
    announceEnd(error.code);
  });
  ::_exit(int(error.code));
}

void failToMeet(const Error &error) {
  if (isLaterRank())
    std::this_thread::sleep_for(std::chrono::seconds(1));
  endProcess(error);
}

} // namespace zc::run
