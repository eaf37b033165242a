#include "runtime/base/CallMemory.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>

namespace zc {

namespace {

/// Of one thread at a time. Filled from its beginning, and again from there when nothing in it is alive.
struct Block {
  alignas(64) std::array<char, CallMemory::kBytes> bytes{};
  std::atomic<bool> isOwned{false};
  std::atomic<uint32_t> alive{0};
  size_t used = 0;
};

// Threads beyond as many ask malloc. Zeros, of which only what is used becomes memory.
constexpr size_t kBlocks = 256, kAlignment = alignof(std::max_align_t);
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

void *CallMemory::take(size_t bytes) {
  if (!open || bytes > kBytes)
    return nullptr;
  if (open->alive == 0)
    open->used = 0;
  size_t needed = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  if (needed > kBytes - open->used)
    return nullptr;
  void *memory = open->bytes.data() + open->used;
  open->used += needed;
  ++open->alive;
  return memory;
}

bool CallMemory::give(void *memory) {
  auto *at = static_cast<char *>(memory);
  auto *first = reinterpret_cast<char *>(blocks);
  if (std::less<>()(at, first) || !std::less<>()(at, first + sizeof blocks))
    return false;
  --blocks[static_cast<size_t>(at - first) / sizeof(Block)].alive;
  return true;
}

} // namespace zc
