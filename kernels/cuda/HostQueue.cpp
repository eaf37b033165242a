#include "kernels/cuda/HostQueue.h"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace zc::cuda {

void runBlocks(const HostLaunch &launch) {
  using Sixteen = Pack<uint32_t, 4>;
  constexpr uint32_t kNan = 0xffffffffu; // of any type of float
  std::vector<Sixteen> shared(launch.shared / sizeof(Sixteen));
  for (unsigned index = 0; index < launch.blocks; ++index) {
    std::fill(shared.begin(), shared.end(), Sixteen{{kNan, kNan, kNan, kNan}});
    launch.block(launch.arguments, index, shared.data());
  }
}

void sortPairsOnHost(int32_t *keys, int32_t *values, int64_t n) {
  std::vector<int32_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&](int32_t a, int32_t b) { return std::tie(keys[a], a) < std::tie(keys[b], b); });
  for (int64_t i = 0; i < n; ++i) {
    keys[n + i] = keys[order[static_cast<size_t>(i)]];
    values[n + i] = values[order[static_cast<size_t>(i)]];
  }
}

LaunchStatus QueueAtOnce::launch(const HostLaunch &launch) {
  runBlocks(launch);
  return kLaunched;
}
LaunchStatus QueueAtOnce::zero(void *bytes, size_t count) {
  std::memset(bytes, 0, count);
  return kLaunched;
}
LaunchStatus QueueAtOnce::copy(void *to, const void *from, size_t count) {
  std::memcpy(to, from, count);
  return kLaunched;
}
LaunchStatus QueueAtOnce::sortPairs(int32_t *keys, int32_t *values, int64_t n, void *) {
  sortPairsOnHost(keys, values, n);
  return kLaunched;
}
/// As much as a GPU of compute capability 8.0 has.
int64_t QueueAtOnce::mostShared() const { return 160 * 1024; }
std::string QueueAtOnce::textOf(LaunchStatus status) const { return "CUDA error " + std::to_string(status); }

} // namespace zc::cuda
