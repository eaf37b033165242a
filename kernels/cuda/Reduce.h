//===- Reduce.h - sum, mean, product and extrema over axes -----------------------===//
//
// Floats are summed in double. Three ways, chosen by shape: a block per result; where results are few and long, parts
// of each that are then added in order; and where the kept dimension is the innermost, columns (neighbouring threads
// read neighbours). Limit: memory; goal 0.85 of a device copy.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "kernels/cpu/MoveShapes.h"
#include "kernels/cuda/Launch.h"
#include "kernels/cuda/StridedIndex.h"
#include "kernels/formula/Reduce.h"

namespace zc::cuda {

using namespace formula;

/// Where element i of result r lies: kept offset of r + reduced offset of i.
struct ReducePlaces {
  StridedIndex<1> kept, reduced;
  ZC_HD int64_t at(int64_t result, int64_t i) const {
    int64_t outer[1], inner[1];
    kept.offsets(result, outer);
    reduced.offsets(i, inner);
    return outer[0] + inner[0];
  }
};

/// partial[result * parts + part] = Op over a part of what belongs to a result.
template <typename Op, typename T> struct ReducePartBody {
  const T *x;
  Sum<T> *partial;
  int64_t n, parts;
  ReducePlaces places;
  template <typename Block> ZC_HD void operator()(Block &block, int64_t index, const Frame &) const {
    int64_t result = index / parts, part = index % parts;
    int64_t begin = n * part / parts, end = n * (part + 1) / parts;
    auto value = block.template reduce<Op>(end - begin, Op::template start<T>(), [&](int64_t i) {
      return static_cast<Sum<T>>(load(x[places.at(result, begin + i)]));
    });
    block.once([&] { partial[index] = value; });
  }
};

/// partial[part * results + column]: a thread per column, over a part of the rows.
template <typename Op, typename T> struct ReduceColumnsBody {
  const T *x;
  Sum<T> *partial;
  int64_t results, n, parts;
  ReducePlaces places;
  template <typename Block> ZC_HD void operator()(Block &block, int64_t index, const Frame &) const {
    int64_t tiles = (results + kReduceColumns - 1) / kReduceColumns, part = index / tiles;
    int64_t begin = n * part / parts, end = n * (part + 1) / parts;
    block.forEach(kReduceColumns, [&](int64_t t) {
      int64_t column = index % tiles * kReduceColumns + t;
      if (column >= results)
        return;
      auto value = Op::template start<T>();
      for (int64_t i = begin; i < end; ++i)
        value = Op::apply(value, static_cast<Sum<T>>(load(x[places.at(column, i)])));
      partial[part * results + column] = value;
    });
  }
};

/// y[result] = Op over its parts, in order, `stride` apart.
template <typename Op, typename T> struct ReduceFinishBody {
  const Sum<T> *partial;
  T *y;
  int64_t results, n, parts, resultStride, partStride;
  template <typename Block> ZC_HD void operator()(Block &block, int64_t index, const Frame &) const {
    int64_t first = index * kElementsPerBlock, rest = results - first;
    block.forEach(rest < kElementsPerBlock ? rest : kElementsPerBlock, [&](int64_t i) {
      const Sum<T> *own = partial + (first + i) * resultStride;
      Sum<T> value = own[0];
      for (int64_t p = 1; p < parts; ++p)
        value = Op::apply(value, own[p * partStride]);
      y[first + i] = storeSum<T>(Op::finish(value, n));
    });
  }
};

template <typename Target, typename Op> Prepared<Target> prepareReduce(const KernelSpec &spec) {
  Result<cpu::ReduceShape> read = cpu::readReduce(spec);
  ZC_RETURN_IF_ERROR(read.status());
  cpu::Walk<1> kept(read->kept, {read->keptStrides}), reduced(read->reduced, {read->reducedStrides});
  ReduceCut cut(*read);
  return withElement(read->dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    return launching<Target>(spec, [cut, places = ReducePlaces{StridedIndex<1>(kept), StridedIndex<1>(reduced)}](
                                       void *const *operands, const auto &launch) {
      auto [results, n, parts, columnBlocks] = cut;
      if (results == 0)
        return;
      auto *x = static_cast<const T *>(operands[0]);
      auto *partial = static_cast<Sum<T> *>(launch.workspace());
      if (columnBlocks)
        launch.template blocks<kReduceColumns>(columnBlocks * parts,
                                               ReduceColumnsBody<Op, T>{x, partial, results, n, parts, places});
      else
        overRows(launch, results * parts, n / parts, ReducePartBody<Op, T>{x, partial, n, parts, places});
      overElements(launch, results,
                   ReduceFinishBody<Op, T>{partial, static_cast<T *>(operands[1]), results, n, parts,
                                           columnBlocks ? 1 : parts, columnBlocks ? results : 1});
    });
  });
}

template <typename Target, typename Registry> void addReductions(Registry &registry) {
  registry.add("reduce_sum", prepareReduce<Target, SumOf>);
  registry.add("reduce_mean", prepareReduce<Target, MeanOf>);
  registry.add("reduce_max", prepareReduce<Target, LargestOf>);
  registry.add("reduce_min", prepareReduce<Target, SmallestOf>);
  registry.add("reduce_prod", prepareReduce<Target, ProductOf>);
}

} // namespace zc::cuda
