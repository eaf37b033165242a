//===- Listener.h - what mpirun and its ranks say ------------------------------------===//
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace zc::launch {

/// mpirun's stderr: the ranks' lines go on to `say`, its own words between lines of dashes are kept for later, and so
/// is which ranks have started.
class Listener {
public:
  Listener(int ranks, std::function<void(const std::string &)> say)
      : started(static_cast<size_t>(ranks)), say(std::move(say)) {}
  void take(const char *bytes, size_t count);
  /// What has come of a line is all of it.
  void flush();

  std::string words;         ///< mpirun's own
  std::vector<bool> started; ///< by rank
  std::optional<int> code;   ///< of the first rank that ended because the job has failed
  bool allStarted() const;

private:
  void note(int rank);

  const std::function<void(const std::string &)> say;
  std::string line;
  bool inside = false; ///< of mpirun's own words
};

/// Passes on what comes from `pipe` until it is closed; false when the ranks have not all started in `seconds`, or
/// mpirun does not end although a rank has ended the job: a host is gone.
bool listen(int pipe, Listener &listener, double seconds);

} // namespace zc::launch
