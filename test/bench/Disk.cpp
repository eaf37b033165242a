//===- Disk.cpp - what a disk does with a file at most ---------------------------------===//
//
// usage: bench_disk FILE BYTES. Writes a file of so many bytes past the page cache, from a few threads, and brings it
// to disk; then reads it from there, the same way or one after the other through the page cache, whichever is quicker;
// and removes it. Prints {"write": SECONDS, "read": SECONDS}.
//
//===----------------------------------------------------------------------===//
#include "test/support/Seconds.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <memory>
#include <thread>
#include <unistd.h>
#include <vector>

namespace {

constexpr int64_t kPiece = 4 << 20;

[[noreturn]] void fail(const char *what) {
  std::perror(what);
  std::exit(1);
}

/// Moves the file's bytes in pieces, from several threads.
void move(int fd, int64_t bytes, bool writes, int threads) {
  std::atomic<int64_t> next{0};
  auto work = [&] {
    std::unique_ptr<char, decltype(&std::free)> memory(static_cast<char *>(std::aligned_alloc(4096, kPiece)),
                                                       &std::free);
    for (int64_t i = 0; i < kPiece / 8; ++i) // what a disk may not leave out because it is all alike
      reinterpret_cast<uint64_t *>(memory.get())[i] = uint64_t(i) * 0x9E3779B97F4A7C15u;
    for (int64_t at; (at = next.fetch_add(kPiece)) < bytes;) {
      auto now = size_t(std::min(kPiece, bytes - at));
      if ((writes ? ::pwrite(fd, memory.get(), now, at) : ::pread(fd, memory.get(), now, at)) != ssize_t(now))
        fail(writes ? "write" : "read");
    }
  };
  std::vector<std::thread> others;
  for (int i = 1; i < threads; ++i)
    others.emplace_back(work);
  work();
  for (std::thread &other : others)
    other.join();
}

double seconds(const char *path, int64_t bytes, bool writes, bool direct, int threads) {
  if (writes)
    ::unlink(path);
  int fd = ::open(path, (writes ? O_RDWR | O_CREAT : O_RDONLY) | (direct ? O_DIRECT : 0), 0666);
  if (fd < 0)
    fail(path);
  double taken = zc::test::secondsOf([&] {
    if (writes && ::posix_fallocate(fd, 0, bytes) != 0)
      fail("allocate");
    move(fd, bytes, writes, threads);
    if (writes && ::fsync(fd) != 0)
      fail("fsync");
  });
  ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
  ::close(fd);
  return taken;
}

} // namespace

int main(int argc, char **argv) {
  if (argc != 3)
    return 2;
  int64_t bytes = std::strtoll(argv[2], nullptr, 10) / 4096 * 4096;
  double write = seconds(argv[1], bytes, true, true, 4);
  double read = std::min(seconds(argv[1], bytes, false, true, 4), seconds(argv[1], bytes, false, false, 1));
  ::unlink(argv[1]);
  std::printf("{\"write\": %.4f, \"read\": %.4f}\n", write, read);
}
