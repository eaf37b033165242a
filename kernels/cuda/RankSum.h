//===- RankSum.h - sums over ranks, and a row written many times --------------------------===//
//
// Not kernels of a plan: what collectives and products are made with. Limit: memory.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "kernels/cuda/Launch.h"
#include "runtime/comm/Sums.h"

namespace zc::cuda {

using namespace formula;

/// As many members as a sum may have: their addresses are a kernel's argument.
constexpr int kMaxSummed = 256;

/// orderedSum of runtime/comm/Sums.h, with its bits. Each element is read from all inputs before it is written: a
/// result may lie over the part of an input that is summed.
template <typename In, typename Out> struct OrderedSumBody {
  const In *inputs[kMaxSummed];
  Out *output;
  int64_t n;
  int ranks;
  bool scales, accumulate;
  Compute<In> scale;
  template <typename Block> ZC_HD void operator()(Block &block, int64_t index, const Frame &) const {
    forElements(block, index, n, [&](int64_t at) {
      Compute<In> sum = load(inputs[0][at]);
      for (int rank = 1; rank < ranks; ++rank)
        sum = sum + load(inputs[rank][at]);
      if (scales)
        sum = sum * scale;
      if (accumulate)
        sum = static_cast<Compute<In>>(load(output[at]) + load(store<Out>(static_cast<Compute<Out>>(sum))));
      output[at] = store<Out>(static_cast<Compute<Out>>(sum));
    });
  }
};

template <typename In, typename Out, typename Launcher> void launchSum(const OrderedSum &sum, const Launcher &launch) {
  OrderedSumBody<In, Out> body{};
  for (int rank = 0; rank < sum.ranks; ++rank)
    body.inputs[rank] = static_cast<const In *>(sum.inputs[rank]) + sum.skip;
  body.output = static_cast<Out *>(sum.output);
  body.n = static_cast<int64_t>(sum.elements);
  body.ranks = sum.ranks;
  body.scale = static_cast<Compute<In>>(sum.scale);
  body.scales = body.scale != Compute<In>(1);
  body.accumulate = sum.accumulate;
  overElements(launch, body.n, body);
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

template <typename T, typename Launcher>
void launchRepeatRow(T *to, const T *row, int64_t rows, int64_t n, const Launcher &launch) {
  overElements(launch, rows * n, RepeatRowBody<T>{row, to, n, rows * n});
}

} // namespace zc::cuda
