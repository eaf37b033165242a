#include "kernels/shapes/GroupNorm.h"
#include "kernels/shapes/ModelOrder.h"

#include <algorithm>

namespace zc::shapes {

namespace {

/// Which operands are of which kind.
struct GroupNormOperands {
  size_t inputs, outputs;
  std::vector<size_t> same;       ///< as the input, which is the first
  std::vector<size_t> perChannel; ///< [C], of its type
  std::vector<size_t> stats;      ///< [N, groups]
  std::vector<size_t> ofChannels; ///< [N, C, 1...] in the input's order
};

Result<GroupNormShape> read(const KernelSpec &spec, const GroupNormOperands &of) {
  const int64_t groups = spec.getInt("groups", 0);
  auto matches = [&] {
    const TensorType &x = spec.operands[of.same[0]];
    if (!isComputeFloat(x.dtype) || x.dims.size() < 2)
      return false;
    const Dims model = inModelOrder(spec, of.same[0]);
    if (groups < 1 || groups > std::max<int64_t>(1, model[1]) || model[1] % groups != 0)
      return false;
    const DType stat = x.dtype == DType::f64 ? DType::f64 : DType::f32;
    Dims ofChannels(x.dims.size(), 1);
    ofChannels[0] = model[0];
    ofChannels[isChannelsLast(spec) ? x.dims.size() - 1 : 1] = model[1];
    auto all = [&](const std::vector<size_t> &operands, const TensorType &type) {
      return std::all_of(operands.begin(), operands.end(), [&](size_t i) { return spec.operands[i] == type; });
    };
    return all(of.same, x) && all(of.perChannel, {x.dtype, {model[1]}}) && all(of.stats, {stat, {model[0], groups}}) &&
           all(of.ofChannels, {stat, ofChannels});
  };
  ZC_RETURN_IF_ERROR(Check(spec)
                         .counts(of.inputs, of.outputs)
                         .that(matches, "tensors [N, C, ...] of f32, bf16 or f64, groups that divide C, C elements per "
                                        "channel and statistics [N, groups]")
                         .that([&] { return spec.getReal("epsilon", -1) >= 0; }, "an epsilon that is not negative")
                         .done());
  const DType type = spec.operands[of.same[0]].dtype;
  const Dims x = inModelOrder(spec, of.same[0]);
  const int64_t inner = product(x, 2, x.size());
  return GroupNormShape{type,
                        type == DType::f64 ? DType::f64 : DType::f32,
                        x[0],
                        x[1],
                        inner,
                        groups,
                        spec.getReal("epsilon", 0),
                        isChannelsLast(spec) || inner == 1};
}

} // namespace

Result<GroupNormShape> readGroupNorm(const KernelSpec &spec) { return read(spec, {3, 3, {0, 3}, {1, 2}, {4, 5}, {}}); }
Result<GroupNormShape> readGroupNormGrad(const KernelSpec &spec) {
  return read(spec, {5, 3, {1, 0, 5}, {2, 6, 7}, {3, 4}, {}});
}
Result<GroupNormShape> readGroupNormStatistics(const KernelSpec &spec) {
  return read(spec, {3, 5, {0}, {1, 2}, {3, 4}, {5, 6, 7}});
}
Result<GroupNormShape> readGroupNormGradSums(const KernelSpec &spec) {
  return read(spec, {5, 6, {1, 0}, {2, 5, 6}, {3, 4}, {7, 8, 9, 10}});
}

} // namespace zc::shapes
