//===- Reduce.h - sum, mean, product and extrema over axes -----------------------===//
//
// Floats are summed in double. Three ways, chosen by shape: a block per result; where results are few and long, parts
// of each that are then added in order; and where the kept dimension is the innermost, columns (neighbouring threads
// read neighbours). Limit: memory; goal 0.85 of a device copy.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "kernels/cuda/Launch.h"
#include "kernels/cuda/StridedIndex.h"
#include "kernels/formula/Reduce.h"
#include "kernels/shapes/MoveShapes.h"

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

/// partial[part * results + column]: a thread per V neighbouring columns, over a part of the rows. V > 1: columns lie
/// side by side, and `places` has one reduced dimension.
template <typename Op, typename T, int V> struct ReduceColumnsBody {
  const T *x;
  Sum<T> *partial;
  int64_t results, n, parts;
  ReducePlaces places;
  Op op;
  template <typename Block> ZC_HD void operator()(Block &block, int64_t index, const Frame &) const {
    const int64_t groups = results / V, rest = groups * parts - index * kReduceColumns;
    block.forEach(rest < kReduceColumns ? rest : kReduceColumns, [&](int64_t t) {
      const int64_t at = index * kReduceColumns + t, column = at % groups * V, part = at / groups;
      const int64_t begin = n * part / parts, end = n * (part + 1) / parts;
      Sum<T> value[V];
      for (int k = 0; k < V; ++k)
        value[k] = op.template start<T>();
      auto use = [&](const Pack<T, V> &pack) {
        for (int k = 0; k < V; ++k)
          value[k] = op.apply(value[k], static_cast<Sum<T>>(load(pack.element[k])));
      };
      const T *own = x + places.at(column, 0);
      if (places.reduced.rank == 1) { // a bias' gradient
        const int64_t stride = places.reduced.stride[0][0];
        inBatches(begin, end, [&](int64_t i) { return *reinterpret_cast<const Pack<T, V> *>(own + i * stride); }, use);
      } else {
        for (int64_t i = begin; i < end; ++i)
          use(*reinterpret_cast<const Pack<T, V> *>(x + places.at(column, i)));
      }
      for (int k = 0; k < V; ++k)
        partial[part * results + column + k] = value[k];
    });
  }
};

/// sums[left][results]: of `parts` of partial, [parts][results], as many to each as make `left` of them, in order.
template <typename In, typename Out, typename Op> struct JoinColumnsBody {
  const In *partial;
  Out *sums;
  int64_t results, parts, left;
  Op op;
  template <typename Block> ZC_HD void operator()(Block &block, int64_t index, const Frame &) const {
    forResults(block, index, results * left, [&](int64_t at) {
      const In *own = partial + at % results;
      const int64_t group = at / results, begin = parts * group / left, end = parts * (group + 1) / left;
      Out value = static_cast<Out>(own[begin * results]);
      inBatches(
          begin + 1, end, [&](int64_t p) { return own[p * results]; },
          [&](In part) { value = op.apply(value, static_cast<Out>(part)); });
      sums[at] = value;
    });
  }
};
template <typename Launcher, typename In, typename Out, typename Op>
void joinColumns(const Launcher &launch, const In *partial, Out *sums, int64_t results, int64_t parts, int64_t left,
                 const Op &op) {
  overResults(launch, results * left, JoinColumnsBody<In, Out, Op>{partial, sums, results, parts, left, op});
}

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
  if (!cut.areColumns)
    return overRows(launch, cut.results * cut.parts, cut.n / cut.parts,
                    ReducePartBody<Op, T>{x, partial, cut.n, cut.parts, places, op});
  auto start = [&](auto v) {
    launch.template blocks<kReduceColumns>(
        (cut.results / v() * cut.parts + kReduceColumns - 1) / kReduceColumns,
        ReduceColumnsBody<Op, T, v()>{x, partial, cut.results, cut.n, cut.parts, places, op});
  };
  constexpr int V = sizeof(T) <= 4 ? kReducePack : 1;
  // Neighbouring columns lie side by side, in every row at a multiple of a pack.
  if (places.kept.rank == 1 && places.reduced.rank == 1 && cut.results % V == 0 &&
      places.reduced.stride[0][0] % V == 0 && reinterpret_cast<uintptr_t>(x) % (sizeof(T) * V) == 0)
    start(std::integral_constant<int, V>());
  else
    start(std::integral_constant<int, 1>());
}

template <typename Target, ReductionKind kind> Prepared<Target> prepareReduce(const KernelSpec &spec) {
  Result<shapes::ReduceShape> read = shapes::readReduce(spec);
  ZC_RETURN_IF_ERROR(read.status());
  shapes::Walk<1> kept(read->kept, {read->keptStrides}), reduced(read->reduced, {read->reducedStrides});
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
      int64_t parts = cut.parts;
      if (const int64_t left = partsLeft(parts); cut.areColumns && left < parts) {
        Sum<T> *joined = partial + cut.results * parts;
        joinColumns(launch, partial, joined, cut.results, parts, left, ChosenReduction{kind});
        partial = joined, parts = left;
      }
      overResults(launch, cut.results,
                  ReduceFinishBody<T>{partial, static_cast<T *>(operands[1]), cut.results, cut.n, parts,
                                      cut.areColumns ? 1 : parts, cut.areColumns ? cut.results : 1,
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
