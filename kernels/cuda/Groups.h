//===- Groups.h - groups of a block's threads, each with a result of its own --------------===//
//
// Beside Block.h, whose reductions are those of whole blocks: shuffles and shared memory stand here, too.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "kernels/cuda/Block.h"

namespace zc::cuda {

/// Two phases of threads 0 to T - 1 in groups of `group`, a power of two up to T. first(thread, state) gives what each
/// has; then(thread, state, result) is told Op over what all of its group have, in any order. What `state` holds stays
/// in registers between them. Once per body.
template <typename Op, typename State, int T, typename First, typename Then>
void inGroups(HostBlock<T> &, int group, First first, Then then) {
  State state[T];
  decltype(first(0, state[0])) part[T];
  for (int t = 0; t < T; ++t)
    part[t] = first(t, state[t]);
  for (int half = 1; half < group; half *= 2)
    for (int t = 0; t < T; ++t)
      if (!(t & half))
        part[t] = part[t + half] = Op::apply(part[t], part[t + half]);
  for (int t = 0; t < T; ++t)
    then(t, state[t], part[t]);
}

#ifdef __CUDACC__
template <typename Op, typename State, int T, typename First, typename Then>
__device__ void inGroups(DeviceBlock<T> &, int group, First first, Then then) {
  static_assert(T > 32, "warps of a block would share what groups share");
  const int thread = static_cast<int>(threadIdx.x);
  State state;
  auto part = first(thread, state);
#pragma unroll
  for (int half = 16; half; half /= 2)
    if (half < group) // for all threads or for none
      part = Op::apply(part, __shfl_xor_sync(0xffffffffu, part, half));
  if (group > 32) {
    __shared__ decltype(part) warps[T / 32];
    if (thread % 32 == 0)
      warps[thread / 32] = part;
    __syncthreads();
    const int own = (thread & -group) / 32;
    part = warps[own];
    for (int warp = 1; warp < group / 32; ++warp)
      part = Op::apply(part, warps[own + warp]);
  }
  then(thread, state, part);
}
#endif

} // namespace zc::cuda
