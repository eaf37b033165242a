#include "base/CallMemory.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <new>

namespace zc {

namespace {

/// Before each object of a block.
struct alignas(std::max_align_t) Header {
  uint32_t before; ///< where the header of the object below begins
  std::atomic<uint32_t> isFree;
};

/// Of one thread at a time, and a stack: what is freed on top can be had again while others below are alive. A product
/// within a convolution makes and frees its objects for each image, beside those of the convolution.
struct Block {
  alignas(64) std::array<char, CallMemory::kBytes> bytes{};
  std::atomic<bool> isOwned{false};
  uint32_t used = 0, top = 0; ///< where the last object ends, and its header begins

  Header *at(uint32_t offset) { return reinterpret_cast<Header *>(bytes.data() + offset); }
  /// Other threads may free, but only the owner takes what is free off the stack.
  void drop() {
    while (used > 0 && at(top)->isFree.load(std::memory_order_acquire) != 0) {
      used = top;
      top = at(top)->before;
    }
  }
};

// Threads beyond as many ask malloc. Zeros, of which only what is used becomes memory.
constexpr size_t kBlocks = 256;
Block blocks[kBlocks];

thread_local Block *open = nullptr;

/// A thread's block, from its first call to its end.
class Owner {
public:
  Owner() {
    for (Block &candidate : blocks) {
      bool isOwned = false;
      if (candidate.isOwned.compare_exchange_strong(isOwned, true)) {
        block = &candidate;
        return;
      }
    }
  }
  ~Owner() {
    open = nullptr; // what the thread still asks for is another's block by then
    if (block)
      block->isOwned = false;
  }
  Block *block = nullptr;
};

} // namespace

void CallMemory::openForGood() {
  thread_local Owner owner;
  open = owner.block;
}

CallMemory::CallMemory() { openForGood(); }

void CallMemory::close() { open = nullptr; }

CallMemory::~CallMemory() { close(); }

CallMemory::Pause::Pause() : before(open) { open = nullptr; }

CallMemory::Pause::~Pause() { open = static_cast<Block *>(before); }

void *CallMemory::take(size_t bytes) {
  if (!open || bytes > kBytes)
    return nullptr;
  open->drop();
  const size_t needed = sizeof(Header) + (bytes + alignof(Header) - 1) / alignof(Header) * alignof(Header);
  if (needed > kBytes - open->used)
    return nullptr;
  auto *header = new (open->at(open->used)) Header{open->top, 0};
  open->top = open->used;
  open->used += static_cast<uint32_t>(needed);
  return header + 1;
}

bool CallMemory::give(void *memory) {
  auto *at = static_cast<char *>(memory);
  auto *first = reinterpret_cast<char *>(blocks);
  if (std::less<>()(at, first) || !std::less<>()(at, first + sizeof blocks))
    return false;
  (static_cast<Header *>(memory) - 1)->isFree.store(1, std::memory_order_release);
  return true;
}

} // namespace zc
