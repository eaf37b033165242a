#include "kernels/shapes/IndexShapes.h"

namespace zc::shapes {

//===-- scatters -------------------------------------------------------------===//

static Result<ScatterReduction> readReduction(const KernelSpec &spec) {
  const auto named = valueNamed<ScatterReduction>(spec.getText("reduction"));
  ZC_RETURN_IF_ERROR(
      Check(spec)
          .counts(3, 1)
          .that([&] { return named.has_value(); }, "a known reduction")
          .that([&] { return isIndex(spec.operands[1].dtype); }, "i64 or i32 indices")
          .that(
              [&] { return spec.operands[0] == spec.operands[3] && spec.operands[0].dtype == spec.operands[2].dtype; },
              "one element type and a result like the data")
          .done());
  return *named;
}

Result<ScatterElementsShape> readScatterElements(const KernelSpec &spec) {
  Result<ScatterReduction> reduction = readReduction(spec);
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
  auto at = static_cast<size_t>(axis);
  Dims strides = rowMajorStrides(data);
  int64_t step = strides[at];
  strides[at] = 0;
  return ScatterElementsShape{*reduction, Walk<2>(indices, {rowMajorStrides(indices), strides}), data[at], step};
}

Result<ScatterNdShape> readScatterNd(const KernelSpec &spec) {
  Result<ScatterReduction> reduction = readReduction(spec);
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
  return ScatterNdShape{*reduction, Dims(data.begin(), data.begin() + indices.back()),
                        product(indices, 0, indices.size() - 1), product(data, 0, length),
                        product(data, length, data.size())};
}

//===-- along an axis --------------------------------------------------------===//

static bool hasAxis(const KernelSpec &spec) {
  int64_t axis = spec.getInt("axis", -1);
  return axis >= 0 && axis < static_cast<int64_t>(spec.operands[0].dims.size());
}

Result<Lines> readTopK(const KernelSpec &spec) {
  int64_t k = spec.getInt("k", 0), axis = spec.getInt("axis", -1);
  auto matches = [&] {
    TensorType expected = spec.operands[0];
    if (k < 0 || k > expected.dims[static_cast<size_t>(axis)])
      return false;
    expected.dims[static_cast<size_t>(axis)] = k;
    return spec.operands[1] == expected && spec.operands[2] == TensorType{DType::i64, expected.dims};
  };
  ZC_RETURN_IF_ERROR(Check(spec)
                         .counts(1, 2)
                         .that([&] { return hasAxis(spec); }, "an axis of its operand")
                         .that(matches, "results with k elements along the axis")
                         .done());
  return Lines(spec.operands[0].dims, axis);
}

Result<Lines> readArgMax(const KernelSpec &spec) {
  int64_t axis = spec.getInt("axis", -1);
  auto matches = [&] {
    Dims dims = spec.operands[0].dims;
    if (dims[static_cast<size_t>(axis)] == 0)
      return false;
    dims.erase(dims.begin() + axis);
    return spec.operands[1] == TensorType{DType::i64, dims};
  };
  ZC_RETURN_IF_ERROR(Check(spec)
                         .counts(1, 1)
                         .that([&] { return hasAxis(spec); }, "an axis of its operand")
                         .that(matches, "an axis with elements and i64 indices without it")
                         .done());
  return Lines(spec.operands[0].dims, axis);
}

Result<Lines> readCumulative(const KernelSpec &spec) {
  ZC_RETURN_IF_ERROR(Check(spec)
                         .counts(1, 1)
                         .that([&] { return hasAxis(spec); }, "an axis of its operand")
                         .that([&] { return spec.operands[0] == spec.operands[1]; }, "a result of the operand's type")
                         .done());
  return Lines(spec.operands[0].dims, spec.getInt("axis", 0));
}

} // namespace zc::shapes
