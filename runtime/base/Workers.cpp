#include "runtime/base/Workers.h"

#include "runtime/base/Failpoint.h"
#include "runtime/base/SignalStack.h"

#include <algorithm>
#include <atomic>
#include <csignal>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <vector>

namespace zc {

namespace {

struct Shared {
  Shared(size_t count, const std::function<Status(int, size_t)> &work) : count(count), work(work) {}
  size_t count;
  const std::function<Status(int, size_t)> &work;
  std::atomic<size_t> next{0};
  std::mutex mutex; // of what follows
  size_t failedAt = 0;
  std::optional<Error> error;

  void help(int worker) {
    for (size_t index; (index = next.fetch_add(1)) < count;)
      if (Status status = work(worker, index); !status.ok()) {
        next.store(count);
        std::lock_guard<std::mutex> lock(mutex);
        if (!error || index < failedAt) {
          failedAt = index;
          error = status.error();
        }
      }
  }
};

} // namespace

Status forEachOf(size_t count, int threads, const std::function<Status(int, size_t)> &work) {
  Shared shared(count, work);
  std::vector<std::thread> helpers;
  auto wanted = size_t(std::max(threads, 1));
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, &before); // which threads inherit
  try {
    for (size_t worker = 1; worker < std::min(wanted, count); ++worker)
      helpers.emplace_back([&shared, worker, rank = faultRank(), step = faultStep()] {
        SignalStack stack;
        setFaultContext(rank, step);
        shared.help(int(worker));
      });
  } catch (const std::system_error &) {
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  shared.help(0);
  for (std::thread &helper : helpers)
    helper.join();
  return shared.error ? Status(*shared.error) : Status::success();
}

} // namespace zc
