#include "runtime/device/Arena.h"

#include "base/Failpoint.h"
#include "base/Limits.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>

namespace zc {

namespace {

constexpr uint64_t kHugeThreshold = uint64_t(4) << 20;

uint64_t pageBytes() {
  static const uint64_t bytes = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}

Error refused(uint64_t bytes, const std::string &reason) {
  return makeError(
      Code::budget, 650, "cannot map " + std::to_string(bytes) + " bytes of memory: " + reason, {},
      "compile within what there is (--device-mem, --host-mem, --auto), for more ranks or for a smaller batch");
}

} // namespace

Status Arena::check(uint64_t bytes) {
  MemoryLimit limit = memoryLimit();
  if (bytes > limit.bytes) // overcommit would let it pass and kill us later
    return refused(bytes,
                   (limit.isOfGroup ? "the control group allows " : "the machine has ") + std::to_string(limit.bytes));
  return {};
}

Status Arena::checkFree(uint64_t bytes) {
  ZC_RETURN_IF_ERROR(check(bytes));
  MemoryLimit free = memoryAvailable();
  if (bytes > free.bytes)
    return refused(bytes, std::string(free.isOfGroup ? "of what the control group allows " : "of the machine's ") +
                              std::to_string(free.bytes) + " are free");
  return {};
}

Result<Arena> Arena::map(uint64_t bytes) {
  ZC_RETURN_IF_ERROR(check(bytes));
  Arena arena;
  if (bytes == 0)
    return arena;
  uint64_t page = pageBytes();
  uint64_t size = (bytes + page - 1) / page * page;
  void *base = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED)
    return refused(bytes, std::strerror(errno));
  if (size >= kHugeThreshold)
    ::madvise(base, size, MADV_HUGEPAGE); // a hint; failing is fine
  arena.base = static_cast<char *>(base);
  arena.size = size;
  return arena;
}

Arena::Arena(Arena &&other) noexcept
    : base(std::exchange(other.base, nullptr)), size(std::exchange(other.size, uint64_t(0))) {}

Arena &Arena::operator=(Arena &&other) noexcept {
  std::swap(base, other.base);
  std::swap(size, other.size);
  return *this;
}

Arena::~Arena() {
  if (base)
    ::munmap(base, size);
}

/// errno, 0: all pages of the range are there.
static int populate(char *base, uint64_t bytes) {
#ifdef MADV_POPULATE_WRITE
  if (::madvise(base, bytes, MADV_POPULATE_WRITE) == 0)
    return 0;
  if (errno != EINVAL) // of Linux before 5.14
    return errno;
#endif
  for (uint64_t at = 0; at < bytes; at += pageBytes())
    static_cast<volatile char *>(base)[at] = 0;
  return 0;
}

Status Arena::reserve() {
  constexpr uint64_t kAtOnce = uint64_t(64) << 20;
  for (uint64_t at = 0; at < size; at += kAtOnce) {
    uint64_t now = std::min(kAtOnce, size - at);
    ZC_RETURN_IF_ERROR(checkFree(now));
    auto fault = failpoint("arena.reserve");
    if (int errnum = fault ? fault->errnum : populate(base + at, now))
      return refused(size, "after " + std::to_string(at) + ": " + std::strerror(errnum));
  }
  return {};
}

uint64_t Arena::residentBytes() const {
  std::array<unsigned char, 4096> pages;
  uint64_t chunk = pages.size() * pageBytes(), resident = 0;
  for (uint64_t at = 0; at < size; at += chunk) {
    uint64_t length = std::min(chunk, size - at);
    if (::mincore(base + at, length, pages.data()) != 0)
      return 0;
    for (uint64_t i = 0; i < length / pageBytes(); ++i)
      resident += (pages[i] & 1) * pageBytes();
  }
  return resident;
}

} // namespace zc
