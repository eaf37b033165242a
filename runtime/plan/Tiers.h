//===- Tiers.h - what a memory tier asks of slices and steps ------------------===//
//
// Compiler and runtime share these rules; verifyPlan checks them (tier_c*, copy_c*, slice_c2).
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/plan/plan.pb.h"

#include <cstdint>
#include <string_view>

namespace zc {

/// Unit of NVMe transfers (O_DIRECT) and of their checksums.
constexpr uint64_t kBlockBytes = 4096;

constexpr uint64_t toBlocks(uint64_t bytes) { return (bytes + kBlockBytes - 1) / kBlockBytes * kBlockBytes; }

/// Slices of a tier start at multiples of this.
constexpr uint64_t sliceAlignment(planpb::Tier tier) { return tier == planpb::DEVICE ? 256 : kBlockBytes; }

/// Bytes of its arena that a slice of `bytes` bytes has for itself: whole blocks on host and NVMe, so that a transfer
/// between them may round up.
constexpr uint64_t reservedBytes(planpb::Tier tier, uint64_t bytes) {
  return tier == planpb::DEVICE ? bytes : toBlocks(bytes);
}

inline planpb::Tier tierOf(const planpb::Plan &plan, const planpb::Slice &slice) {
  return plan.arenas(static_cast<int>(slice.arena())).tier();
}
inline planpb::Tier tierOf(const planpb::Plan &plan, uint32_t slice) {
  return tierOf(plan, plan.slices(static_cast<int>(slice)));
}

/// Steps of these queues move whole blocks: what they touch rounds up to kBlockBytes.
constexpr bool movesBlocks(planpb::Queue queue) { return queue == planpb::NVME_READ || queue == planpb::NVME_WRITE; }

/// A step that moves bytes from one tier to the next. Kernels are named like their queues.
struct TierCopy {
  std::string_view kernel;
  planpb::Queue queue;
  planpb::Tier from, to;
};
constexpr TierCopy kTierCopies[] = {
    {"h2d", planpb::H2D, planpb::HOST, planpb::DEVICE},
    {"d2h", planpb::D2H, planpb::DEVICE, planpb::HOST},
    {"nvme_read", planpb::NVME_READ, planpb::NVME, planpb::HOST},
    {"nvme_write", planpb::NVME_WRITE, planpb::HOST, planpb::NVME},
};
/// Null for other names.
constexpr const TierCopy *findTierCopy(std::string_view kernel) {
  for (const TierCopy &copy : kTierCopies)
    if (copy.kernel == kernel)
      return &copy;
  return nullptr;
}

} // namespace zc
