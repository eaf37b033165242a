//===- FillMemory.cpp - memory that is new is not full of zeros -----------------------===//
//
// Preloaded: what a program maps for itself, as arenas are, is full of bytes of ZC_FILL. Whoever reads what nobody
// wrote has other results then.
//
//===----------------------------------------------------------------------===//
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

extern "C" void *mmap(void *at, size_t bytes, int protection, int flags, int file, off_t offset) noexcept {
  auto *mapped = reinterpret_cast<void *>(::syscall(SYS_mmap, at, bytes, protection, flags, file, offset));
  const char *fill = std::getenv("ZC_FILL");
  const bool isOwn = file == -1 && at == nullptr && protection == (PROT_READ | PROT_WRITE) && (flags & MAP_PRIVATE) &&
                     !(flags & (MAP_STACK | MAP_NORESERVE));
  if (fill && mapped != MAP_FAILED && isOwn)
    std::memset(mapped, std::atoi(fill), bytes);
  return mapped;
}
extern "C" void *mmap64(void *at, size_t bytes, int protection, int flags, int file, off_t offset) noexcept {
  return mmap(at, bytes, protection, flags, file, offset);
}
