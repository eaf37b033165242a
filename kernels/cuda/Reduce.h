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

/// A reduction of formula/Reduce.h that is chosen while it runs: one kernel for all, where little is reduced by them.
enum class ReductionKind { sum, mean, max, min, prod };
struct ChosenReduction {
  ReductionKind kind = ReductionKind::sum;
  template <typename T> ZC_HD Sum<T> start() const {
    return kind == ReductionKind::max    ? LargestOf::start<T>()
           : kind == ReductionKind::min  ? SmallestOf::start<T>()
           : kind == ReductionKind::prod ? ProductOf::start<T>()
                                         : SumOf::start<T>();
  }
  template <typename S> ZC_HD S apply(S a, S b) const {
    return kind == ReductionKind::max    ? LargestOf::apply(a, b)
           : kind == ReductionKind::min  ? SmallestOf::apply(a, b)
           : kind == ReductionKind::prod ? ProductOf::apply(a, b)
                                         : SumOf::apply(a, b);
  }
};

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
  Op op;
  template <typename Block> ZC_HD void operator()(Block &block, int64_t index, const Frame &) const {
    int64_t result = index / parts, part = index % parts;
    int64_t begin = n * part / parts, end = n * (part + 1) / parts;
    auto value = block.template reduce<Op>(
        end - begin, op.template start<T>(),
        [&](int64_t i) { return static_cast<Sum<T>>(load(x[places.at(result, begin + i)])); }, op);
    block.once([&] { partial[index] = value; });
  }
};

/// partial[part * results + column]: a thread per column, over a part of the rows.
template <typename Op, typename T> struct ReduceColumnsBody {
  const T *x;
  Sum<T> *partial;
  int64_t results, n, parts;
  ReducePlaces places;
  Op op;
  template <typename Block> ZC_HD void operator()(Block &block, int64_t index, const Frame &) const {
    int64_t tiles = (results + kReduceColumns - 1) / kReduceColumns, part = index / tiles;
    int64_t begin = n * part / parts, end = n * (part + 1) / parts;
    block.forEach(kReduceColumns, [&](int64_t t) {
      int64_t column = index % tiles * kReduceColumns + t;
      if (column >= results)
        return;
      auto value = op.template start<T>();
      auto use = [&](T element) { value = op.apply(value, static_cast<Sum<T>>(load(element))); };
      if (places.reduced.rank == 1) { // a bias' gradient
        const T *own = x + places.at(column, 0);
        const int64_t stride = places.reduced.stride[0][0];
        inBatches(begin, end, [&](int64_t i) { return own[i * stride]; }, use);
      } else {
        for (int64_t i = begin; i < end; ++i)
          use(x[places.at(column, i)]);
      }
      partial[part * results + column] = value;
    });
  }
};

/// y[result] = the reduction of its parts, in order, `stride` apart.
template <typename T> struct ReduceFinishBody {
  const Sum<T> *partial;
  T *y;
  int64_t results, n, parts, resultStride, partStride;
  ChosenReduction op;
  template <typename Block> ZC_HD void operator()(Block &block, int64_t index, const Frame &) const {
    forResults(block, index, results, [&](int64_t i) {
      const Sum<T> *own = partial + i * resultStride;
      Sum<T> value = own[0];
      inBatches(
          1, parts, [&](int64_t p) { return own[p * partStride]; },
          [&](Sum<T> part) { value = op.apply(value, part); });
      y[i] = storeSum<T>(op.kind == ReductionKind::mean ? MeanOf::finish(value, n) : value);
    });
  }
};

template <typename Op, typename T, typename Launcher>
void reduceParts(const Launcher &launch, const ReduceCut &cut, const ReducePlaces &places, const T *x, Sum<T> *partial,
                 const Op &op) {
  if (cut.columnBlocks)
    launch.template blocks<kReduceColumns>(
        cut.columnBlocks * cut.parts, ReduceColumnsBody<Op, T>{x, partial, cut.results, cut.n, cut.parts, places, op});
  else
    overRows(launch, cut.results * cut.parts, cut.n / cut.parts,
             ReducePartBody<Op, T>{x, partial, cut.n, cut.parts, places, op});
}

template <typename Target, ReductionKind kind> Prepared<Target> prepareReduce(const KernelSpec &spec) {
  Result<cpu::ReduceShape> read = cpu::readReduce(spec);
  ZC_RETURN_IF_ERROR(read.status());
  cpu::Walk<1> kept(read->kept, {read->keptStrides}), reduced(read->reduced, {read->reducedStrides});
  ReduceCut cut(*read);
  return withElement(read->dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    return launching<Target>(spec, [cut, places = ReducePlaces{StridedIndex<1>(kept), StridedIndex<1>(reduced)}](
                                       void *const *operands, const auto &launch) {
      if (cut.results == 0)
        return;
      auto *x = static_cast<const T *>(operands[0]);
      auto *partial = static_cast<Sum<T> *>(launch.workspace());
      constexpr bool isSum = kind == ReductionKind::sum || kind == ReductionKind::mean;
      if constexpr (isSum && std::is_same_v<Sum<T>, double> && !std::is_same_v<T, double>)
        reduceParts(launch, cut, places, x, partial, SumOf());
      else
        reduceParts(launch, cut, places, x, partial, ChosenReduction{kind});
      overResults(launch, cut.results,
                  ReduceFinishBody<T>{partial, static_cast<T *>(operands[1]), cut.results, cut.n, cut.parts,
                                      cut.columnBlocks ? 1 : cut.parts, cut.columnBlocks ? cut.results : 1,
                                      ChosenReduction{kind}});
    });
  });
}

template <typename Target, typename Registry> void addReductions(Registry &registry) {
  registry.add("reduce_sum", prepareReduce<Target, ReductionKind::sum>);
  registry.add("reduce_mean", prepareReduce<Target, ReductionKind::mean>);
  registry.add("reduce_max", prepareReduce<Target, ReductionKind::max>);
  registry.add("reduce_min", prepareReduce<Target, ReductionKind::min>);
  registry.add("reduce_prod", prepareReduce<Target, ReductionKind::prod>);
}

} // namespace zc::cuda
