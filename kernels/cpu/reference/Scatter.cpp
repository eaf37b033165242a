// scatter_elements and scatter_nd: a copy of the data, then the updates in index order. Every index is checked before
// it is used.
#include "kernels/cpu/Support.h"

#include <cstring>

namespace zc::cpu {
namespace {

enum class Reduction { none, add, mul, min, max };

constexpr const char *kReductions[] = {"none", "add", "mul", "min", "max"};

template <typename T> void put(Reduction reduction, T &target, T update) {
  auto a = load(target), b = load(update);
  using C = Compute<T>;
  switch (reduction) {
  case Reduction::none:
    target = update;
    return;
  case Reduction::add:
    target = store<T>(static_cast<C>(a + b));
    return;
  case Reduction::mul:
    target = store<T>(static_cast<C>(a * b));
    return;
  case Reduction::min:
    target = b < a || b != b ? update : target;
    return;
  case Reduction::max:
    target = b > a || b != b ? update : target;
    return;
  }
}

Result<Reduction> readReduction(const KernelSpec &spec) {
  auto found = std::find(std::begin(kReductions), std::end(kReductions), spec.getText("reduction"));
  ZC_RETURN_IF_ERROR(
      Check(spec)
          .counts(3, 1)
          .that([&] { return found != std::end(kReductions); }, "a known reduction")
          .that([&] { return isIndex(spec.operands[1].dtype); }, "i64 or i32 indices")
          .that(
              [&] { return spec.operands[0] == spec.operands[3] && spec.operands[0].dtype == spec.operands[2].dtype; },
              "one element type and a result like the data")
          .done());
  return static_cast<Reduction>(found - std::begin(kReductions));
}

/// Index in [-n, n) to [0, n); -1 if outside.
int64_t wrap(int64_t index, int64_t n) { return index < -n || index >= n ? -1 : index < 0 ? index + n : index; }

void copyData(const KernelSpec &spec, void *const *operands) {
  if (int64_t bytes = spec.operands[0].numBytes())
    std::memmove(operands[3], operands[0], static_cast<size_t>(bytes));
}

Prepared prepareScatterElements(const KernelSpec &spec) {
  Result<Reduction> reduction = readReduction(spec);
  ZC_RETURN_IF_ERROR(reduction.status());
  const Dims &data = spec.operands[0].dims, &indices = spec.operands[1].dims;
  int64_t axis = spec.getInt("axis", 0);
  auto matches = [&] {
    if (axis < 0 || axis >= static_cast<int64_t>(data.size()) || indices.size() != data.size() ||
        indices != spec.operands[2].dims)
      return false;
    for (size_t i = 0; i < data.size(); ++i)
      if (static_cast<int64_t>(i) != axis && indices[i] > data[i])
        return false;
    return true;
  };
  ZC_RETURN_IF_ERROR(Check(spec).that(matches, "one update for each index, inside the data").done());
  Dims strides = rowMajorStrides(data);
  int64_t n = data[static_cast<size_t>(axis)], step = strides[static_cast<size_t>(axis)];
  strides[static_cast<size_t>(axis)] = 0;
  Walk<2> walk(indices, {rowMajorStrides(indices), strides});
  return withIndex(spec.operands[1].dtype, [&](auto indexTag) {
    return withElement(spec.operands[0].dtype, [&](auto tag) {
      using I = TypeOf<decltype(indexTag)>;
      using T = TypeOf<decltype(tag)>;
      return makeKernel([=, reduction = *reduction](void *const *operands, const StepContext &) {
        copyData(spec, operands);
        Status status;
        walk.forEach([&](const Walk<2>::Offsets &at) {
          int64_t index = as<I>(operands[1])[at[0]], i = wrap(index, n);
          if (i >= 0)
            put(reduction, as<T>(operands[3])[at[1] + i * step], as<T>(operands[2])[at[0]]);
          else if (status.ok())
            status = outOfRange(spec, "index", index, -n, n);
        });
        return status;
      });
    });
  });
}

Prepared prepareScatterNd(const KernelSpec &spec) {
  Result<Reduction> reduction = readReduction(spec);
  ZC_RETURN_IF_ERROR(reduction.status());
  const Dims &data = spec.operands[0].dims, &indices = spec.operands[1].dims;
  auto matches = [&] {
    if (indices.empty() || indices.back() < 0 || indices.back() > static_cast<int64_t>(data.size()))
      return false;
    Dims updates(indices.begin(), indices.end() - 1);
    updates.insert(updates.end(), data.begin() + indices.back(), data.end());
    return updates == spec.operands[2].dims;
  };
  ZC_RETURN_IF_ERROR(Check(spec).that(matches, "one slice of updates for each index tuple").done());
  auto length = static_cast<size_t>(indices.back());
  int64_t inner = product(data, length, data.size()), tuples = product(indices, 0, indices.size() - 1);
  return withIndex(spec.operands[1].dtype, [&](auto indexTag) {
    return withElement(spec.operands[0].dtype, [&](auto tag) {
      using I = TypeOf<decltype(indexTag)>;
      using T = TypeOf<decltype(tag)>;
      return makeKernel([=, bounds = Dims(data.begin(), data.begin() + indices.back()),
                         reduction = *reduction](void *const *operands, const StepContext &) -> Status {
        copyData(spec, operands);
        const I *index = as<I>(operands[1]);
        for (int64_t t = 0; t < tuples; ++t) {
          int64_t slice = 0;
          for (size_t j = 0; j < length; ++j, ++index) {
            int64_t i = wrap(*index, bounds[j]);
            if (i < 0)
              return outOfRange(spec, "index", *index, -bounds[j], bounds[j]);
            slice = slice * bounds[j] + i;
          }
          for (int64_t j = 0; j < inner; ++j)
            put(reduction, as<T>(operands[3])[slice * inner + j], as<T>(operands[2])[t * inner + j]);
        }
        return Status::success();
      });
    });
  });
}

} // namespace

void addScatter(KernelRegistry &registry) {
  registry.add("scatter_elements", prepareScatterElements);
  registry.add("scatter_nd", prepareScatterNd);
}

} // namespace zc::cpu
