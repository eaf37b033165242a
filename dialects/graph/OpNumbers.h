//===- OpNumbers.h - numbers of a program's operations ----------------------------------------===//
#pragma once

#include "mlir/IR/Operation.h"

#include <array>
#include <deque>

namespace zc::graph {

/// A number per operation, such as its place in a block. Kept by where operations lie in memory, since those that
/// follow one another mostly lie near each other: what is asked for next is in a cache then, which a hash of every
/// pointer would scatter over a table as long as the program. For one thread.
class OpNumbers {
public:
  void set(const mlir::Operation *op, size_t number) {
    const size_t page = pageOf(op);
    auto [entry, isNew] = indices.try_emplace(page, pages.size());
    if (isNew)
      pages.emplace_back();
    pages[entry->second][slotOf(op)] = static_cast<uint32_t>(number);
  }
  /// 0 of operations that have none.
  size_t lookup(const mlir::Operation *op) const {
    if (const size_t page = pageOf(op); page != lastPage) {
      auto found = indices.find(page);
      if (found == indices.end())
        return 0;
      lastPage = page;
      last = &pages[found->second];
    }
    return (*last)[slotOf(op)];
  }

private:
  // No two operations begin within one slot.
  static constexpr size_t kSlot = 16, kSlots = 256;
  static_assert(sizeof(mlir::Operation) >= kSlot);
  using Page = std::array<uint32_t, kSlots>;
  static size_t pageOf(const mlir::Operation *op) { return reinterpret_cast<uintptr_t>(op) / (kSlot * kSlots); }
  static size_t slotOf(const mlir::Operation *op) { return reinterpret_cast<uintptr_t>(op) / kSlot % kSlots; }

  llvm::DenseMap<size_t, uint32_t> indices; ///< of pages
  std::deque<Page> pages;
  mutable size_t lastPage = 0; ///< the last that was asked for, which nothing lies in at first
  mutable const Page *last = nullptr;
};

} // namespace zc::graph
