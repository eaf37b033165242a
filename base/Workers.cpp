#include "base/Workers.h"

#include "base/BlockedSignals.h"
#include "base/Failpoint.h"
#include "base/SignalStack.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
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
  std::exception_ptr thrown; // instead of an error

  void help(int worker) {
    for (size_t index; (index = next.fetch_add(1)) < count;)
      try {
        if (Status status = work(worker, index); !status.ok())
          fail(index, status.error(), nullptr);
      } catch (...) { // which may not leave a thread, nor this function while others have it
        fail(index, std::nullopt, std::current_exception());
      }
  }
  void fail(size_t index, std::optional<Error> why, std::exception_ptr exception) {
    next.store(count);
    std::lock_guard<std::mutex> lock(mutex);
    if ((error || thrown) && index > failedAt)
      return;
    failedAt = index;
    error = std::move(why);
    thrown = std::move(exception);
  }
};

} // namespace

Status forEachOf(size_t count, int threads, const std::function<Status(int, size_t)> &work) {
  Shared shared(count, work);
  std::vector<std::thread> helpers;
  auto wanted = std::min(size_t(std::max(threads, 1)), count);
  helpers.reserve(wanted);
  try {
    BlockedSignals blocked; // which threads inherit
    for (size_t worker = 1; worker < wanted; ++worker)
      helpers.emplace_back([&shared, worker, rank = faultRank(), step = faultStep()] {
        SignalStack stack;
        setFaultContext(rank, step);
        shared.help(int(worker));
      });
  } catch (const std::exception &) { // no thread, or no memory for one
  }
  shared.help(0);
  for (std::thread &helper : helpers)
    helper.join();
  if (shared.thrown)
    std::rethrow_exception(shared.thrown);
  return shared.error ? Status(*shared.error) : Status::success();
}

} // namespace zc
