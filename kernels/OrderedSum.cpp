#include "kernels/OrderedSum.h"

#include <algorithm>
#include <iterator>

namespace zc {

namespace {

/// How elements of a type are stored and computed with.
struct F32 {
  using Stored = float;
  using Computed = float;
  static float load(float x) { return x; }
  static float store(float x) { return x; }
};
struct F64 {
  using Stored = double;
  using Computed = double;
  static double load(double x) { return x; }
  static double store(double x) { return x; }
};
struct BF16 {
  using Stored = uint16_t;
  using Computed = float;
  static float load(uint16_t x) { return fromBf16(x); }
  static uint16_t store(float x) { return toBf16(x); }
};
struct F16 {
  using Stored = uint16_t;
  using Computed = float;
  static float load(uint16_t x) { return fromF16(x); }
  static uint16_t store(float x) { return toF16(x); }
};
struct I64 { // unsigned: wraps instead of being undefined
  using Stored = uint64_t;
  using Computed = uint64_t;
  static uint64_t load(uint64_t x) { return x; }
  static uint64_t store(uint64_t x) { return x; }
};

/// Block by block, so that partial sums stay in the first-level cache while ranks are added one after the other.
template <typename In, typename Out> void sumBlocks(const OrderedSum &sum) {
  using Computed = typename In::Computed;
  constexpr uint64_t kBlock = 1024;
  Computed partial[kBlock];
  auto *output = static_cast<typename Out::Stored *>(sum.output);
  auto scale = static_cast<Computed>(sum.scale);
  for (uint64_t start = 0; start < sum.elements; start += kBlock) {
    uint64_t n = std::min(kBlock, sum.elements - start);
    for (int rank = 0; rank < sum.ranks; ++rank) {
      const auto *input = static_cast<const typename In::Stored *>(sum.inputs[rank]) + sum.skip + start;
      for (uint64_t i = 0; i < n; ++i)
        partial[i] = rank == 0 ? In::load(input[i]) : static_cast<Computed>(partial[i] + In::load(input[i]));
    }
    if (scale != Computed(1))
      for (uint64_t i = 0; i < n; ++i)
        partial[i] *= scale;
    if (sum.accumulate)
      for (uint64_t i = 0; i < n; ++i)
        partial[i] = static_cast<Computed>(Out::load(output[start + i]) + Out::load(Out::store(partial[i])));
    for (uint64_t i = 0; i < n; ++i)
      output[start + i] = Out::store(partial[i]);
  }
}

struct Entry {
  DType input, output;
  void (*run)(const OrderedSum &);
};
constexpr Entry kSums[] = {
    {DType::f32, DType::f32, sumBlocks<F32, F32>},   {DType::bf16, DType::bf16, sumBlocks<BF16, BF16>},
    {DType::bf16, DType::f32, sumBlocks<BF16, F32>}, {DType::f64, DType::f64, sumBlocks<F64, F64>},
    {DType::f16, DType::f16, sumBlocks<F16, F16>},   {DType::f16, DType::f32, sumBlocks<F16, F32>},
    {DType::i64, DType::i64, sumBlocks<I64, I64>},
};

const Entry *find(DType input, DType output) {
  const Entry *end = std::end(kSums);
  const Entry *entry =
      std::find_if(std::begin(kSums), end, [&](const Entry &e) { return e.input == input && e.output == output; });
  return entry == end ? nullptr : entry;
}

} // namespace

bool isSummable(DType input, DType output) { return find(input, output) != nullptr; }

void orderedSum(const OrderedSum &sum) {
  if (!orderedSumByVectors(sum))
    plainOrderedSum(sum);
}

void plainOrderedSum(const OrderedSum &sum) {
  if (const Entry *entry = find(sum.inputType, sum.outputType))
    entry->run(sum);
}

} // namespace zc
