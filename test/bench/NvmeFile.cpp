//===- NvmeFile.cpp - the NVMe tier's file, both ways at once ------------------------===//
//
// usage: bench_nvme_file DIR READ WRITE CHUNK. Reads and writes so many bytes through the tier, in transfers of CHUNK
// as a plan's are, each way alone and then both at once, from a thread each: a disk seldom gives both rates together.
// Prints
// {"read": SECONDS, "write": SECONDS, "both": SECONDS}, medians of three.
//
//===----------------------------------------------------------------------===//
#include "runtime/device/Arena.h"
#include "runtime/device/Nvme.h"
#include "test/support/Seconds.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <thread>

using namespace zc;
using zc::test::secondsOf;

namespace {

void check(const Status &status) {
  if (status.ok())
    return;
  std::fprintf(stderr, "bench_nvme_file: %s\n", status.error().message.c_str());
  std::exit(1);
}

/// One way through the file: a channel and memory of a few chunks.
struct Way {
  NvmeArena &file;
  uint64_t start, bytes, chunk;
  bool isWrite;
  Arena memory = std::move(*Arena::map(std::max(4 * chunk, uint64_t(64) << 20))); // in large pages, as a plan's
  std::vector<std::string> notes = {};
  std::unique_ptr<NvmeChannel> channel = NvmeChannel::open(file, {{memory.data(), memory.bytes()}}, notes);

  void run(bool writes) {
    for (uint64_t at = 0; at < bytes; at += chunk) {
      char *buffer = memory.data() + at / chunk % 4 * chunk;
      uint64_t now = std::min(chunk, bytes - at);
      check(writes ? channel->write(start + at, buffer, now) : channel->read(start + at, buffer, now));
    }
  }
  void run() { run(isWrite); }
};

} // namespace

int main(int argc, char **argv) {
  if (argc != 5)
    return 2;
  auto blocks = [&](int i) { return std::strtoull(argv[i], nullptr, 10) / 4096 * 4096; };
  uint64_t bytesRead = blocks(2), bytesWritten = blocks(3), chunk = blocks(4);
  std::vector<std::string> notes;
  auto file = NvmeArena::create({argv[1], true}, bytesRead + bytesWritten, notes);
  check(file.status());
  Way reads{**file, 0, bytesRead, chunk, false}, writes{**file, bytesRead, bytesWritten, chunk, true};
  for (uint64_t i = 0; i < reads.memory.bytes() / 8; ++i) // what a disk may not leave out because it is all alike
    reinterpret_cast<uint64_t *>(reads.memory.data())[i] = reinterpret_cast<uint64_t *>(writes.memory.data())[i] =
        i * 0x9E3779B97F4A7C15u;
  reads.run(true);
  std::array<std::vector<double>, 3> seconds;
  for (int round = -1; round < 3; ++round) {
    std::array<double, 3> taken = {secondsOf([&] { reads.run(); }), secondsOf([&] { writes.run(); }), secondsOf([&] {
                                     std::thread other([&] { writes.run(); });
                                     reads.run();
                                     other.join();
                                   })};
    for (size_t i = 0; i < taken.size() && round >= 0; ++i)
      seconds[i].push_back(taken[i]);
  }
  for (auto &values : seconds)
    std::sort(values.begin(), values.end());
  std::printf("{\"read\": %.4f, \"write\": %.4f, \"both\": %.4f}\n", seconds[0][1], seconds[1][1], seconds[2][1]);
}
