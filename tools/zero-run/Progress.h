//===- Progress.h - what a person sees of a run -------------------------------------------------------===//
#pragma once

#include "runtime/train/Train.h"
#include "tools/zero-run/Flags.h"

#include <mutex>

namespace zc::run {

/// A bar that is redrawn on a terminal, a line per --log-every elsewhere, both on stderr; with --log-format json one
/// object per step on stdout. Formats into fixed buffers: a step allocates nothing here. Lines of several ranks are
/// written one after the other.
class Progress : public train::RunObserver {
public:
  /// `rank` is the first of this process; notes of others than 0 say whose they are.
  Progress(const Flags &flags, int rank);
  void starting(const train::RunSummary &summary) override;
  void step(const train::StepRecord &record) override;
  void note(const std::string &text) override;
  void warning(const std::string &text) override;
  /// Ends the line of the bar.
  void close();

private:
  void endBar();
  const Flags &flags;
  std::string prefix;
  bool terminal;
  std::mutex writing; ///< of what follows, and of what is written
  bool open = false;  ///< the bar stands on an unfinished line
  train::RunSummary summary;
  double begin = 0, drawn = 0;
};

/// Writes `text` if that is possible without waiting, or within `milliseconds`: nobody who has stopped reading a pipe
/// or a terminal holds up a step. Whether it was written.
bool tell(int fd, std::string_view text, int milliseconds = 0);
/// Writes all of `text` that can be written: for what is told beside what was asked for (io::writeToStdout).
void print(int fd, std::string_view text);
/// For a launcher that listens: this process ends with `code` because the job has failed.
void announceEnd(Code code);
/// Says the error and ends the process at once with its code.
void endProcess(const Error &error);
/// The same for ranks that have not met in time: all may say so; the first has a second to be the only one.
void failToMeet(const Error &error);

} // namespace zc::run
