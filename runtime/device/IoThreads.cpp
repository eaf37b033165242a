#include "base/SignalStack.h"
#include "runtime/device/IoEngine.h"

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>
#include <unistd.h>

namespace zc {

namespace {

constexpr unsigned kMaxThreads = 8;

/// Two rings of `depth` entries, requests and completions, and threads between them.
class ThreadEngine : public IoEngine {
public:
  ThreadEngine(int fd, unsigned depth) : fd(fd), requests(depth), finished(depth) {
    // As many as the system lets us have, but one.
    for (unsigned i = 0; i < std::min(depth, kMaxThreads); ++i)
      try {
        threads.emplace_back([this] {
          SignalStack stack;
          serve();
        });
      } catch (const std::system_error &) {
        if (threads.empty())
          throw;
        break;
      }
  }
  ~ThreadEngine() override {
    {
      std::lock_guard<std::mutex> guard(lock);
      ending = true;
    }
    hasWork.notify_all();
    for (std::thread &thread : threads)
      thread.join();
  }
  const char *name() const override { return "threads"; }

  void push(const IoRequest &request) override {
    {
      std::lock_guard<std::mutex> guard(lock);
      requests[pushed++ % requests.size()] = request;
    }
    hasWork.notify_one();
  }

  int reap(IoCompletion *completions) override {
    std::unique_lock<std::mutex> guard(lock);
    hasResults.wait(guard, [&] { return reaped < done; });
    int count = 0;
    for (; reaped < done; ++reaped)
      completions[count++] = finished[reaped % finished.size()];
    return count;
  }

  void stop() override {
    std::unique_lock<std::mutex> guard(lock);
    uint64_t begun = taken;
    pushed = taken; // the others are not begun
    hasResults.wait(guard, [&] { return done == begun; });
    reaped = done;
  }

private:
  void serve() {
    std::unique_lock<std::mutex> guard(lock);
    for (;;) {
      hasWork.wait(guard, [&] { return ending || taken < pushed; });
      if (ending)
        return;
      IoRequest request = requests[taken++ % requests.size()];
      guard.unlock();
      ssize_t moved = request.isWrite ? ::pwrite(fd, request.memory, request.bytes, static_cast<off_t>(request.offset))
                                      : ::pread(fd, request.memory, request.bytes, static_cast<off_t>(request.offset));
      int result = moved < 0 ? -errno : static_cast<int>(moved);
      guard.lock();
      finished[done++ % finished.size()] = {request.tag, result};
      hasResults.notify_one();
    }
  }

  int fd;
  std::mutex lock; // of all below
  std::condition_variable hasWork, hasResults;
  std::vector<IoRequest> requests;
  std::vector<IoCompletion> finished;
  uint64_t pushed = 0, taken = 0, done = 0, reaped = 0;
  bool ending = false;
  std::vector<std::thread> threads;
};

} // namespace

std::unique_ptr<IoEngine> makeThreadEngine(int fd, unsigned depth) { return std::make_unique<ThreadEngine>(fd, depth); }

} // namespace zc
