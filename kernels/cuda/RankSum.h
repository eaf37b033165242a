//===- RankSum.h - sums over ranks, and a row written many times --------------------------===//
//
// Not kernels of a plan: what collectives and products are made with. Limit: memory.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "kernels/OrderedSum.h"
#include "kernels/cuda/Launch.h"

#include <algorithm>

namespace zc::cuda {

using namespace formula;

/// As many members as a sum may have: their addresses are a kernel's arguments, of which CUDA takes 32764 bytes (since
/// 12.1; before, and faster, 4096).
constexpr int kFewSummed = 256, kMaxSummed = 4000;

/// orderedSum of kernels/OrderedSum.h, with its bits. Each element is read from all inputs before it is written: a
/// result may lie over the part of an input that is summed.
template <typename In, typename Out, int kMost> struct OrderedSumBody {
  static constexpr int V = packOf<In, Out>();
  const In *inputs[kMost];
  Out *output;
  int64_t n;
  int ranks;
  bool scales, accumulate, packed;
  Compute<In> scale;
  template <typename Block> ZC_HD void operator()(Block &block, int64_t index, const Frame &) const {
    forPacks<V>(block, index, n, packed, [&](auto count, int64_t at) { add<count>(at); });
  }
  template <int N> ZC_HD void add(int64_t at) const {
    auto of = [&](int rank) { return *reinterpret_cast<const Pack<In, N> *>(inputs[rank] + at); };
    const Pack<In, N> first = of(0);
    Compute<In> sums[N];
    for (int k = 0; k < N; ++k)
      sums[k] = load(first.element[k]);
    for (int rank = 1; rank < ranks; ++rank) {
      const Pack<In, N> own = of(rank);
      for (int k = 0; k < N; ++k)
        sums[k] = sums[k] + load(own.element[k]);
    }
    auto *to = reinterpret_cast<Pack<Out, N> *>(output + at);
    Pack<Out, N> results = {};
    if (accumulate)
      results = *to;
    for (int k = 0; k < N; ++k) {
      Compute<In> sum = scales ? sums[k] * scale : sums[k];
      if (accumulate)
        sum = static_cast<Compute<In>>(load(results.element[k]) + load(store<Out>(static_cast<Compute<Out>>(sum))));
      results.element[k] = store<Out>(static_cast<Compute<Out>>(sum));
    }
    *to = results;
  }
};

template <typename In, typename Out, int kMost, typename Launcher>
void launchSumOf(const OrderedSum &sum, const Launcher &launch) {
  OrderedSumBody<In, Out, kMost> body{};
  static_assert(sizeof body + sizeof(Frame) <= (kMost <= kFewSummed ? 4096 : 32764), "arguments of a kernel");
  for (int rank = 0; rank < sum.ranks; ++rank)
    body.inputs[rank] = static_cast<const In *>(sum.inputs[rank]) + sum.skip;
  body.output = static_cast<Out *>(sum.output);
  body.n = static_cast<int64_t>(sum.elements);
  body.ranks = sum.ranks;
  body.scale = static_cast<Compute<In>>(sum.scale);
  body.scales = body.scale != Compute<In>(1);
  body.accumulate = sum.accumulate;
  using Body = decltype(body);
  body.packed =
      isAligned<Body::V>(body.output) &&
      std::all_of(body.inputs, body.inputs + sum.ranks, [](const In *input) { return isAligned<Body::V>(input); });
  overElements(launch, body.n, body);
}

template <typename In, typename Out, typename Launcher> void launchSum(const OrderedSum &sum, const Launcher &launch) {
  if (sum.ranks <= kFewSummed)
    launchSumOf<In, Out, kFewSummed>(sum, launch);
  else
    launchSumOf<In, Out, kMaxSummed>(sum, launch);
}

/// False: types that are not summed, or too many ranks.
template <typename Launcher> bool launchOrderedSum(const OrderedSum &sum, const Launcher &launch) {
  if (!isSummable(sum.inputType, sum.outputType) || sum.ranks > kMaxSummed)
    return false;
  bool widens = sum.inputType != sum.outputType;
  if (sum.inputType == DType::f32)
    launchSum<float, float>(sum, launch);
  else if (sum.inputType == DType::f64)
    launchSum<double, double>(sum, launch);
  else if (sum.inputType == DType::i64)
    launchSum<uint64_t, uint64_t>(sum, launch);
  else if (sum.inputType == DType::bf16)
    widens ? launchSum<Bf16, float>(sum, launch) : launchSum<Bf16, Bf16>(sum, launch);
  else
    widens ? launchSum<F16, float>(sum, launch) : launchSum<F16, F16>(sum, launch);
  return true;
}

/// Element i of a row of n, into all rows.
template <typename T> struct RepeatRowBody {
  const T *row;
  T *to;
  int64_t n, total;
  template <typename Block> ZC_HD void operator()(Block &block, int64_t index, const Frame &) const {
    forElements(block, index, total, [&](int64_t i) { to[i] = row[i % n]; });
  }
};

/// Each of `rows` rows of `to` = the `bytes` bytes at `from`, an even number of them.
template <typename Launcher>
void launchRepeatRow(void *to, const void *from, int64_t rows, int64_t bytes, const Launcher &launch) {
  auto inWords = [&](auto word) {
    using T = decltype(word);
    const int64_t n = bytes / static_cast<int64_t>(sizeof(T));
    overElements(launch, rows * n, RepeatRowBody<T>{static_cast<const T *>(from), static_cast<T *>(to), n, rows * n});
  };
  if (bytes % 8 == 0 && reinterpret_cast<uintptr_t>(to) % 8 == 0 && reinterpret_cast<uintptr_t>(from) % 8 == 0)
    inWords(uint64_t());
  else
    inWords(uint16_t());
}

} // namespace zc::cuda
