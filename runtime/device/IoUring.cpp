#include "runtime/device/IoEngine.h"

#include "base/Failpoint.h"
#include "runtime/io/File.h"

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <liburing.h>

namespace zc {

namespace {

/// The kernel's limit for one registered buffer.
constexpr uint64_t kChunk = uint64_t(1) << 30;

class UringEngine : public IoEngine {
public:
  UringEngine(int fd, unsigned depth) : fd(fd), depth(depth) {}
  ~UringEngine() override {
    if (isOpen)
      ::io_uring_queue_exit(&ring);
  }
  const char *name() const override { return "io_uring"; }

  bool open(const std::vector<IoRegion> &regions, std::string &why);
  void push(const IoRequest &request) override;
  int reap(IoCompletion *completions) override;
  void stop() override;

private:
  /// The registered buffer that holds all of the request, or -1.
  int bufferOf(const IoRequest &request) const;

  int fd;
  unsigned depth;
  unsigned unfinished = 0; ///< pushed and not yet reaped
  io_uring ring = {};
  bool isOpen = false, hasFile = false;
  std::vector<iovec> buffers;
};

bool UringEngine::open(const std::vector<IoRegion> &regions, std::string &why) {
  // Twice as many completions as submissions is the kernel's default: with `depth` unfinished requests at most the
  // completion queue cannot overflow.
  if (int error = ::io_uring_queue_init(depth, &ring, 0); error < 0) {
    why = io::reasonOf(-error);
    return false;
  }
  isOpen = true;
  hasFile = ::io_uring_register_files(&ring, &fd, 1) == 0;
  for (const IoRegion &region : regions)
    for (uint64_t at = 0; at < region.bytes; at += kChunk)
      buffers.push_back({static_cast<char *>(region.base) + at, std::min(kChunk, region.bytes - at)});
  if (buffers.empty())
    return true;
  std::optional<FaultAction> fault = failpoint("spill.pin");
  int error = fault ? -fault->errnum
                    : ::io_uring_register_buffers(&ring, buffers.data(), static_cast<unsigned>(buffers.size()));
  if (error < 0) {
    why = io::reasonOf(-error);
    buffers.clear();
  }
  return true;
}

int UringEngine::bufferOf(const IoRequest &request) const {
  auto *begin = static_cast<char *>(request.memory);
  for (size_t i = 0; i < buffers.size(); ++i) {
    auto *base = static_cast<char *>(buffers[i].iov_base);
    if (begin >= base && begin + request.bytes <= base + buffers[i].iov_len)
      return static_cast<int>(i);
  }
  return -1;
}

void UringEngine::push(const IoRequest &request) {
  io_uring_sqe *sqe = ::io_uring_get_sqe(&ring); // there are `depth` of them
  int file = hasFile ? 0 : fd, buffer = bufferOf(request);
  if (request.isWrite && buffer >= 0)
    ::io_uring_prep_write_fixed(sqe, file, request.memory, request.bytes, request.offset, buffer);
  else if (request.isWrite)
    ::io_uring_prep_write(sqe, file, request.memory, request.bytes, request.offset);
  else if (buffer >= 0)
    ::io_uring_prep_read_fixed(sqe, file, request.memory, request.bytes, request.offset, buffer);
  else
    ::io_uring_prep_read(sqe, file, request.memory, request.bytes, request.offset);
  if (hasFile)
    ::io_uring_sqe_set_flags(sqe, IOSQE_FIXED_FILE);
  ::io_uring_sqe_set_data64(sqe, request.tag);
  ++unfinished;
  // The disk begins while the next piece is hashed. Should the kernel have no room now, reap hands over what is left.
  ::io_uring_submit(&ring);
}

int UringEngine::reap(IoCompletion *completions) {
  for (;;) {
    int result = ::io_uring_submit_and_wait(&ring, 1);
    bool isBusy = result == -EAGAIN || result == -EBUSY; // no memory for requests now, or completions to be taken first
    if (result < 0 && result != -EINTR && !isBusy)
      return result;
    unsigned count = 0;
    for (io_uring_cqe *cqe; count < depth && ::io_uring_peek_cqe(&ring, &cqe) == 0; ++count) {
      completions[count] = {static_cast<uint32_t>(::io_uring_cqe_get_data64(cqe)), cqe->res};
      ::io_uring_cqe_seen(&ring, cqe);
      --unfinished;
    }
    if (count > 0)
      return static_cast<int>(count);
    if (isBusy) {
      timespec pause = {0, 1000000};
      ::nanosleep(&pause, nullptr);
    }
  }
}

void UringEngine::stop() {
  // What the kernel has not taken from the ring it never will: nobody calls it again. The others complete without a
  // call of ours; those that have not after a minute never will, and the pages that they go to are pinned, whatever
  // becomes of our mapping.
  unsigned waiting = unfinished - std::min(unfinished, ::io_uring_sq_ready(&ring));
  timespec pause = {0, 1000000};
  for (int tries = 0; tries < 60000 && ::io_uring_cq_ready(&ring) < waiting; ++tries)
    ::nanosleep(&pause, nullptr);
}

} // namespace

std::unique_ptr<IoEngine> makeUringEngine(int fd, unsigned depth, const std::vector<IoRegion> &regions,
                                          std::string &why) {
  auto engine = std::make_unique<UringEngine>(fd, depth);
  if (!engine->open(regions, why))
    return nullptr;
  return engine;
}

} // namespace zc
