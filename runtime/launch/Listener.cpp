#include "runtime/launch/Listener.h"

#include "runtime/launch/RankLines.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <poll.h>
#include <unistd.h>

namespace zc::launch {

/// Of mpirun, to end the ranks of all hosts once one has ended.
static constexpr double kEndSeconds = 2;

void Listener::take(const char *bytes, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    line += bytes[i];
    if (bytes[i] == '\n' || line.size() > 1 << 16)
      flush();
  }
}

void Listener::flush() {
  if (line.compare(0, kStartedLine.size(), kStartedLine) == 0)
    note(std::atoi(line.c_str() + kStartedLine.size()));
  else if (line.compare(0, kEndedLine.size(), kEndedLine) == 0)
    code = code ? code : std::atoi(line.c_str() + kEndedLine.size());
  else if (line.compare(0, 20, "--------------------") == 0)
    inside = !inside;
  else if (inside)
    words += line;
  else
    say(line);
  line.clear();
}

bool Listener::allStarted() const { return std::find(started.begin(), started.end(), false) == started.end(); }

void Listener::note(int rank) {
  if (rank >= 0 && static_cast<size_t>(rank) < started.size())
    started[static_cast<size_t>(rank)] = true;
}

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
      wait = int(std::min<int64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(limit - Clock::now()).count(),
                                   1 << 30));
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

} // namespace zc::launch
