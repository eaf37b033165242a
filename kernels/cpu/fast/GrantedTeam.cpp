#include "kernels/cpu/GrantedTeam.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <climits>
#include <exception>
#include <mutex>
#include <string>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace zc::cpu {

/// The system counts a thread for a moment after it was joined, until then its folder is there.
static void awaitEnd(const std::vector<pid_t> &ended) {
  for (const pid_t thread : ended)
    for (int i = 0; i < 1000 && ::access(("/proc/self/task/" + std::to_string(thread)).c_str(), F_OK) == 0; ++i)
      std::this_thread::sleep_for(std::chrono::microseconds(100));
}

/// How many of `threads` start beside this one, all at once.
static int startable(int threads) {
  std::vector<std::thread> tried;
  std::vector<pid_t> numbers(static_cast<size_t>(threads));
  std::mutex held;
  {
    std::lock_guard<std::mutex> hold(held);
    try {
      tried.reserve(numbers.size());
      for (pid_t &number : numbers)
        tried.emplace_back([&held, &number] {
          number = static_cast<pid_t>(::syscall(SYS_gettid)); // glibc has a wrapper from 2.30 on
          std::lock_guard<std::mutex> wait(held);
        });
    } catch (const std::exception &) { // no thread, or no memory for one
    }
  }
  for (std::thread &thread : tried)
    thread.join();
  numbers.resize(tried.size());
  awaitEnd(numbers);
  return static_cast<int>(tried.size());
}

int grantedTeam(int threads) {
  thread_local int known = 1, most = INT_MAX;
  threads = std::min(threads, most);
  if (threads <= known)
    return threads;
  static std::mutex one;
  std::lock_guard<std::mutex> turn(one);
  // Twice, since for a smaller team OpenMP lets threads go, and starts others while those still count.
  const int team = 1 + startable(2 * (threads - 1)) / 2;
  std::atomic<int> present{0};
#pragma omp parallel num_threads(team)
  present.fetch_add(1); // or there would be nothing to make a team for
  known = present.load();
  if (known < threads) // OMP_THREAD_LIMIT counts as well
    most = known;
  return known;
}

} // namespace zc::cpu
