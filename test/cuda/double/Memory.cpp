// Memory of GPUs and of the host, and copies.
#include "test/cuda/double/Double.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <sys/mman.h>
#include <unistd.h>

namespace zc::doubled {

namespace {

struct Allocation {
  uint64_t bytes;
  Place place;
  int gpu;
  bool isRegistered; ///< the program's own
};

struct Memory {
  std::mutex mutex; ///< of `Gpu::peers` too
  std::map<uintptr_t, Allocation> allocations;
  std::map<uintptr_t, uint64_t> refused; ///< bytes that could not be pinned, by where they begin
  /// What `address` is in, or the end.
  auto find(uintptr_t address) {
    auto next = allocations.upper_bound(address);
    if (next == allocations.begin())
      return allocations.end();
    --next;
    return address < next->first + next->second.bytes ? next : allocations.end();
  }
};
Memory &memory() {
  static Memory &all = *new Memory; // as long as threads may be at work
  return all;
}

uintptr_t numberOf(const void *address) { return reinterpret_cast<uintptr_t>(address); }
std::string text(const void *address, uint64_t bytes) {
  char number[40];
  std::snprintf(number, sizeof number, "%p", address);
  return std::to_string(bytes) + " bytes at " + number;
}

bool isMapped(uintptr_t address) {
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  unsigned char in = 0;
  return ::mincore(reinterpret_cast<void *>(address / page * page), page, &in) == 0 || errno != ENOMEM;
}

/// Nobody's numbers are in it, and what stands behind it is nobody's.
void *mapped(uint64_t bytes, Place place) {
  const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE)), whole = (bytes + page - 1) / page * page;
  void *made = ::mmap(nullptr, whole + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (made == MAP_FAILED)
    return nullptr;
  ::mprotect(static_cast<char *>(made) + whole, page, PROT_NONE);
  std::memset(made, 0xa5, bytes);
  std::lock_guard<std::mutex> lock(memory().mutex);
  memory().allocations[numberOf(made)] = {bytes, place, currentGpu().ordinal, false};
  return made;
}

cudaError_t freed(const char *call, void *address, Place place) {
  std::lock_guard<std::mutex> lock(memory().mutex);
  auto found = memory().allocations.find(numberOf(address));
  if (found == memory().allocations.end() || found->second.place != place || found->second.isRegistered)
    return wrong(cudaErrorInvalidValue, call, text(address, 0) + " is not what it frees");
  const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  if (place == Place::device)
    gpuOf(found->second.gpu).allocated -= static_cast<int64_t>(found->second.bytes);
  ::munmap(address, (found->second.bytes + page - 1) / page * page + page);
  memory().allocations.erase(found);
  return ended(cudaSuccess);
}

} // namespace

Range rangeOf(const char *call, const void *bytes, uint64_t count) {
  std::lock_guard<std::mutex> lock(memory().mutex);
  auto first = memory().find(numberOf(bytes)), end = count ? memory().find(numberOf(bytes) + count - 1) : first;
  if (first != end)
    undefined(call, text(bytes, count) + " are partly outside of what was allocated");
  return first == memory().allocations.end() ? Range{} : Range{first->second.place, first->second.gpu};
}

char *checkArguments(const Gpu &gpu, const char *what, const void *arguments, size_t count) {
  char *first = nullptr;
  for (size_t at = 0; at + sizeof(uintptr_t) <= count; at += sizeof(uintptr_t)) {
    uintptr_t word;
    std::memcpy(&word, static_cast<const char *>(arguments) + at, sizeof word);
    if (word >> 47 != 0 || word >> 32 == 0) // no address of a program
      continue;
    std::lock_guard<std::mutex> lock(memory().mutex);
    auto found = memory().find(word);
    const bool isDevice = found != memory().allocations.end() && found->second.place == Place::device;
    if (isDevice && found->second.gpu == gpu.ordinal && !first)
      first = reinterpret_cast<char *>(word);
    if (isDevice && found->second.gpu != gpu.ordinal && !gpu.peers.count(found->second.gpu))
      undefined(what, "of GPU " + std::to_string(gpu.ordinal) + " is told of memory of GPU " +
                          std::to_string(found->second.gpu) + ", which it does not reach");
    // Of sums over ranks, which are all zeroes but for what they are told: between a body's members lies what was in
    // the stack before.
    for (auto [begin, bytes] : memory().refused)
      if (word >= begin && word < begin + bytes && std::strstr(what, "OrderedSum"))
        undefined(what, "is told of memory of the host that could not be pinned");
  }
  return first;
}

} // namespace zc::doubled

using namespace zc::doubled;

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned) {
  ZC_DOUBLE_UNCAPTURED("cudaDeviceEnablePeerAccess");
  std::lock_guard<std::mutex> lock(memory().mutex);
  if (peer == currentGpu().ordinal || !options().peers)
    return wrong(cudaErrorInvalidDevice, "cudaDeviceEnablePeerAccess", "the GPU is not to be reached");
  return ended(currentGpu().peers.insert(peer).second ? cudaSuccess : cudaErrorPeerAccessAlreadyEnabled);
}

cudaError_t cudaMemGetInfo(size_t *free, size_t *total) {
  ZC_DOUBLE_UNCAPTURED("cudaMemGetInfo");
  *total = static_cast<size_t>(options().memory);
  *free = static_cast<size_t>(std::max<int64_t>(0, options().memory - options().context - currentGpu().allocated));
  return cudaSuccess;
}

cudaError_t cudaMalloc(void **made, size_t bytes) {
  ZC_DOUBLE_UNCAPTURED("cudaMalloc");
  static std::once_flag others;
  std::call_once(others, [] { gpuOf(0).allocated += options().others; });
  auto more = static_cast<int64_t>(bytes);
  if (currentGpu().allocated.fetch_add(more) + more > options().memory - options().context) {
    currentGpu().allocated -= more;
    return ended(cudaErrorMemoryAllocation);
  }
  *made = mapped(bytes, Place::device);
  return ended(*made ? cudaSuccess : cudaErrorMemoryAllocation);
}

cudaError_t cudaFree(void *address) {
  ZC_DOUBLE_UNCAPTURED("cudaFree");
  return address ? freed("cudaFree", address, Place::device) : cudaSuccess;
}

cudaError_t cudaHostAlloc(void **made, size_t bytes, unsigned) {
  ZC_DOUBLE_UNCAPTURED("cudaHostAlloc");
  *made = mapped(bytes, Place::pinned);
  return ended(*made ? cudaSuccess : cudaErrorMemoryAllocation);
}

cudaError_t cudaFreeHost(void *address) {
  ZC_DOUBLE_UNCAPTURED("cudaFreeHost");
  return freed("cudaFreeHost", address, Place::pinned);
}

cudaError_t cudaHostRegister(void *address, size_t bytes, unsigned) {
  ZC_DOUBLE_UNCAPTURED("cudaHostRegister");
  if (!options().pins) {
    std::lock_guard<std::mutex> lock(memory().mutex);
    memory().refused[numberOf(address)] = bytes;
    return ended(cudaErrorNotSupported);
  }
  if (!address || bytes == 0 || !isMapped(numberOf(address)) || !isMapped(numberOf(address) + bytes - 1))
    return wrong(cudaErrorInvalidValue, "cudaHostRegister", text(address, bytes) + " are no memory");
  std::lock_guard<std::mutex> lock(memory().mutex);
  auto next = memory().allocations.lower_bound(numberOf(address));
  if (memory().find(numberOf(address)) != memory().allocations.end() ||
      (next != memory().allocations.end() && next->first < numberOf(address) + bytes))
    return wrong(cudaErrorHostMemoryAlreadyRegistered, "cudaHostRegister",
                 text(address, bytes) + " are pinned already");
  memory().allocations[numberOf(address)] = {bytes, Place::pinned, 0, true};
  return ended(cudaSuccess);
}

cudaError_t cudaHostUnregister(void *address) {
  ZC_DOUBLE_UNCAPTURED("cudaHostUnregister");
  std::lock_guard<std::mutex> lock(memory().mutex);
  auto found = memory().allocations.find(numberOf(address));
  if (found == memory().allocations.end() || !found->second.isRegistered)
    return wrong(cudaErrorHostMemoryNotRegistered, "cudaHostUnregister", text(address, 0) + " was not registered");
  if (!isMapped(found->first) || !isMapped(found->first + found->second.bytes - 1))
    undefined("cudaHostUnregister", text(address, found->second.bytes) + " have gone before");
  memory().allocations.erase(found);
  return ended(cudaSuccess);
}

/// A copy in a stream's order. Memory that is not pinned is read when the call is made, and written before it returns.
static cudaError_t copied(const char *call, void *to, const void *from, size_t bytes, cudaMemcpyKind kind,
                          CUstream_st &stream) {
  const Range target = rangeOf(call, to, bytes), source = rangeOf(call, from, bytes);
  if (numberOf(to) < numberOf(from) + bytes && numberOf(from) < numberOf(to) + bytes)
    undefined(call, "what is copied overlaps what it is copied to");
  if (kind == cudaMemcpyDeviceToDevice && (target.place != Place::device || source.place != Place::device))
    return wrong(cudaErrorInvalidValue, call, "of memory of the host, as of a GPU's");
  const bool isPageable = target.place == Place::pageable || source.place == Place::pageable;
  if (isPageable && stream.capture) {
    stream.capture->isSpoiled = true;
    return wrong(cudaErrorStreamCaptureUnsupported, call, "of memory that is not pinned, in a capture");
  }
  if (source.place != Place::pageable)
    stream.addTouching(call, [=] { std::memcpy(to, from, bytes); });
  else
    stream.addTouching(
        call, [to, kept = std::vector<char>(static_cast<const char *>(from), static_cast<const char *>(from) + bytes)] {
          std::memcpy(to, kept.data(), kept.size());
        });
  if (target.place == Place::pageable)
    stream.worker.drain();
  return ended(cudaSuccess);
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  ZC_DOUBLE("cudaMemcpyAsync");
  cudaError_t status;
  CUstream_st *found = streamOf("cudaMemcpyAsync", stream, false, status);
  return found ? copied("cudaMemcpyAsync", to, from, bytes, kind, *found) : status;
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, cudaMemcpyKind kind) {
  ZC_DOUBLE_UNCAPTURED("cudaMemcpy");
  CUstream_st &stream = *currentGpu().legacy;
  cudaError_t status = copied("cudaMemcpy", to, from, bytes, kind, stream);
  // Of pageable memory it returns when all is on its way.
  if (status == cudaSuccess && rangeOf("cudaMemcpy", from, bytes).place != Place::pageable)
    stream.worker.drain();
  return status == cudaSuccess ? ended(static_cast<cudaError_t>(currentGpu().lost.load())) : status;
}

static cudaError_t filled(const char *call, void *to, int value, size_t bytes, CUstream_st &stream) {
  if (rangeOf(call, to, bytes).place == Place::pageable)
    return wrong(cudaErrorInvalidValue, call, "of memory that no GPU reaches");
  stream.addTouching(call, [=] { std::memset(to, value, bytes); });
  return ended(cudaSuccess);
}

cudaError_t cudaMemset(void *to, int value, size_t bytes) {
  ZC_DOUBLE_UNCAPTURED("cudaMemset");
  return filled("cudaMemset", to, value, bytes, *currentGpu().legacy);
}

cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream) {
  ZC_DOUBLE("cudaMemsetAsync");
  cudaError_t status;
  CUstream_st *found = streamOf("cudaMemsetAsync", stream, true, status);
  return found ? filled("cudaMemsetAsync", to, value, bytes, *found) : status;
}
