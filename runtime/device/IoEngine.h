//===- IoEngine.h - many reads and writes of one file at a time ---------------===//
//
// Two engines behind one interface: io_uring, and threads with pread and pwrite where the kernel or a sandbox refuses
// io_uring. They move bytes and count completions; what a result means (short, interrupted, to be retried) is for their
// user, NvmeChannel.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace zc {

struct IoRequest {
  bool isWrite = false;
  void *memory = nullptr;
  uint32_t bytes = 0;
  uint64_t offset = 0; ///< in the file
  uint32_t tag = 0;    ///< comes back with the completion
};

struct IoCompletion {
  uint32_t tag = 0;
  int32_t result = 0; ///< bytes moved, or -errno
};

/// Memory that requests will lie in.
struct IoRegion {
  void *base = nullptr;
  uint64_t bytes = 0;
};

/// One user at a time; nothing allocates after creation.
class IoEngine {
public:
  virtual ~IoEngine() = default;
  virtual const char *name() const = 0;
  /// Takes and starts a request; at most `depth` may be unfinished.
  virtual void push(const IoRequest &request) = 0;
  /// Waits until something has finished and stores what has, at most `depth`. The number stored, or -errno when the
  /// engine itself has failed.
  virtual int reap(IoCompletion *completions) = 0;
  /// After the engine itself has failed: returns when nothing pushed touches memory any more, done or not. It takes no
  /// further requests.
  virtual void stop() = 0;
};

/// Null where io_uring is refused, with the reason. Pins `regions`; where that is refused (RLIMIT_MEMLOCK), `why` says
/// so and the engine works without.
std::unique_ptr<IoEngine> makeUringEngine(int fd, unsigned depth, const std::vector<IoRegion> &regions,
                                          std::string &why);
/// `depth` requests on as many threads, at most 8. Throws std::system_error where there is to be no thread at all.
std::unique_ptr<IoEngine> makeThreadEngine(int fd, unsigned depth);

} // namespace zc
