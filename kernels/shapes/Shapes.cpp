#include "kernels/shapes/Shapes.h"

namespace zc::shapes {

Result<MatmulShape> readMatmul(const KernelSpec &spec) {
  MatmulShape shape{};
  shape.transLhs = spec.getInt("trans_lhs", 0) != 0;
  shape.transRhs = spec.getInt("trans_rhs", 0) != 0;
  shape.hasBias = spec.numInputs == 3;
  auto matches = [&] {
    const Dims &lhs = spec.operands[0].dims, &rhs = spec.operands[1].dims, &out = spec.operands.back().dims;
    if (lhs.size() < 2 || rhs.size() < 2 || out.size() < 2)
      return false;
    auto fromEnd = [](const Dims &dims, int i) { return dims[dims.size() - static_cast<size_t>(i)]; };
    shape.m = fromEnd(out, 2);
    shape.n = fromEnd(out, 1);
    shape.k = fromEnd(lhs, shape.transLhs ? 2 : 1);
    shape.batch.assign(out.begin(), out.end() - 2);
    Dims lhsBatch(lhs.begin(), lhs.end() - 2), rhsBatch(rhs.begin(), rhs.end() - 2);
    if (fromEnd(lhs, shape.transLhs ? 1 : 2) != shape.m || fromEnd(rhs, shape.transRhs ? 2 : 1) != shape.n ||
        fromEnd(rhs, shape.transRhs ? 1 : 2) != shape.k || !broadcastsTo(lhsBatch, shape.batch) ||
        !broadcastsTo(rhsBatch, shape.batch) ||
        !canCountSteps({product(shape.batch, 0, shape.batch.size()), shape.m, shape.n, shape.k}))
      return false;
    shape.lhsStrides = broadcastStrides(lhsBatch, shape.batch);
    shape.rhsStrides = broadcastStrides(rhsBatch, shape.batch);
    for (int64_t &stride : shape.lhsStrides)
      stride *= shape.m * shape.k;
    for (int64_t &stride : shape.rhsStrides)
      stride *= shape.k * shape.n;
    return true;
  };
  ZC_RETURN_IF_ERROR(
      Check(spec)
          .counts(2, 3, 1, 1)
          .that(
              [&] {
                return isComputeFloat(spec.operands[0].dtype) &&
                       allOf(spec, {1, spec.operands.size() - 1}, spec.operands[0].dtype);
              },
              "f32, bf16, f16 or f64 of one type")
          .that(matches, "shapes that multiply")
          .that([&] { return !shape.hasBias || spec.operands[2] == TensorType{spec.operands[0].dtype, {shape.n}}; },
                "a bias of one row")
          .done());
  shape.dtype = spec.operands[0].dtype;
  shape.numBatches = product(shape.batch, 0, shape.batch.size());
  return shape;
}

bool isRowMajorBatch(const Dims &strides, const Dims &batch, int64_t matrix) {
  Dims whole = rowMajorStrides(batch);
  for (size_t i = 0; i < batch.size(); ++i)
    if (batch[i] != 1 && strides[i] != whole[i] * matrix)
      return false;
  return true;
}

MatmulShape foldedBatch(MatmulShape s) {
  bool shared = std::all_of(s.rhsStrides.begin(), s.rhsStrides.end(), [](int64_t stride) { return stride == 0; });
  if (s.numBatches > 1 && shared && !s.transLhs && isRowMajorBatch(s.lhsStrides, s.batch, s.m * s.k)) {
    s.m *= s.numBatches;
    s.numBatches = 1;
    s.batch.clear();
    s.lhsStrides.clear();
    s.rhsStrides.clear();
  }
  return s;
}

Result<MatmulPartShape> readMatmulPart(const KernelSpec &spec) {
  ZC_RETURN_IF_ERROR(Check(spec).counts(2, 3, 1, 1).done());
  MatmulPartShape part{};
  part.hasAddend = spec.numInputs == 3;
  part.out = spec.operands.back().dtype;
  part.whole = static_cast<double>(spec.getInt("whole", 0));
  // The product alone: the same checks, of operands of one type.
  KernelSpec plain = spec;
  plain.numInputs = 2;
  plain.operands = {spec.operands[0], spec.operands[1], {spec.operands[0].dtype, spec.operands.back().dims}};
  Result<MatmulShape> product = readMatmul(plain);
  ZC_RETURN_IF_ERROR(product.status());
  part.product = *product;
  ZC_RETURN_IF_ERROR(Check(spec)
                         .that([&] { return part.product.batch.empty(); }, "matrices")
                         .that([&] { return part.out == part.product.dtype || part.out == DType::f32; },
                               "a result of f32 or its own type")
                         .that([&] { return !part.hasAddend || spec.operands[2] == spec.operands[3]; },
                               "an addend of the result's type")
                         .that([&] { return part.whole >= 1; }, "the multiplications of the whole")
                         .done());
  return part;
}

Result<AxisShape> readAxis(const KernelSpec &spec, size_t inputs) {
  int64_t axis = spec.getInt("axis", -1);
  ZC_RETURN_IF_ERROR(
      Check(spec)
          .counts(inputs, 1)
          .that([&] { return isComputeFloat(spec.operands[0].dtype); }, "f32, bf16, f16 or f64")
          .that([&] { return spec.operands[1] == spec.operands[0] && spec.operands.back() == spec.operands[0]; },
                "operands of one type")
          .that([&] { return axis >= 0 && axis < static_cast<int64_t>(spec.operands[0].dims.size()); },
                "an axis of the operand")
          .done());
  const Dims &dims = spec.operands[0].dims;
  auto at = static_cast<size_t>(axis);
  return AxisShape{spec.operands[0].dtype, product(dims, 0, at), dims[at], product(dims, at + 1, dims.size())};
}

/// `input`: index of the normalised tensor; `same`: operands of its type; `weights`: of shape input[axis:]; `stats`: of
/// shape input[:axis].
static Result<NormShape> readNorm(const KernelSpec &spec, Check &check, size_t input, std::vector<size_t> same,
                                  std::vector<size_t> weights, std::vector<size_t> stats) {
  int64_t axis = spec.getInt("axis", -1);
  auto matches = [&] {
    const TensorType &x = spec.operands[input];
    if (axis < 0 || axis > static_cast<int64_t>(x.dims.size()) || !isComputeFloat(x.dtype))
      return false;
    TensorType weight{x.dtype, Dims(x.dims.begin() + axis, x.dims.end())};
    TensorType stat{spec.operands[stats[0]].dtype, Dims(x.dims.begin(), x.dims.begin() + axis)};
    for (size_t i : same)
      if (!(spec.operands[i] == x))
        return false;
    for (size_t i : weights)
      if (!(spec.operands[i] == weight))
        return false;
    for (size_t i : stats)
      if (!(spec.operands[i] == stat))
        return false;
    return isStat(stat.dtype, x.dtype);
  };
  ZC_RETURN_IF_ERROR(
      check.that(matches, "f32, bf16, f16 or f64, weights of shape input[axis:], statistics of shape input[:axis]")
          .done());
  const TensorType &x = spec.operands[input];
  auto at = static_cast<size_t>(axis);
  return NormShape{x.dtype, spec.operands[stats[0]].dtype, product(x.dims, 0, at), product(x.dims, at, x.dims.size()),
                   false,   spec.getReal("epsilon", 1e-5)};
}

Result<NormShape> readLayerNorm(const KernelSpec &spec) {
  Check check(spec);
  check.counts(2, 3, 3, 3);
  size_t out = spec.numInputs;
  std::vector<size_t> weights = {1};
  if (out == 3)
    weights.push_back(2);
  Result<NormShape> shape = readNorm(spec, check, 0, {out}, weights, {out + 1, out + 2});
  if (shape.ok())
    shape->hasBias = out == 3;
  return shape;
}

Result<NormShape> readLayerNormGrad(const KernelSpec &spec) {
  Check check(spec);
  check.counts(5, 3);
  return readNorm(spec, check, 1, {0, 5}, {2, 6, 7}, {3, 4});
}

Result<NormShape> readRmsNorm(const KernelSpec &spec) {
  Check check(spec);
  check.counts(2, 2);
  return readNorm(spec, check, 0, {2}, {1}, {3});
}

Result<NormShape> readRmsNormGrad(const KernelSpec &spec) {
  Check check(spec);
  check.counts(4, 2);
  return readNorm(spec, check, 1, {0, 4}, {2, 5}, {3});
}

static Result<CrossEntropyShape> readLoss(const KernelSpec &spec, Check &check, size_t logits, size_t loss,
                                          size_t lse) {
  ZC_RETURN_IF_ERROR(
      check
          .that([&] { return isComputeFloat(spec.operands[logits].dtype) && spec.operands[logits].dims.size() == 2; },
                "logits [N,C] of f32, bf16, f16 or f64")
          .that(
              [&] {
                const TensorType &x = spec.operands[logits];
                DType stat = spec.operands[lse].dtype;
                return isIndex(spec.operands[logits + 1].dtype) && spec.operands[logits + 1].dims == Dims{x.dims[0]} &&
                       spec.operands[lse].dims == Dims{x.dims[0]} && isStat(stat, x.dtype) &&
                       isComputeFloat(spec.operands[loss].dtype) && spec.operands[loss].numElements() == 1 &&
                       spec.operands[loss].dtype == stat;
              },
              "labels [N], and a scalar loss and lse [N] in fp32")
          .done());
  const TensorType &x = spec.operands[logits];
  return CrossEntropyShape{x.dtype,   spec.operands[lse].dtype,          spec.operands[logits + 1].dtype, x.dims[0],
                           x.dims[1], spec.getInt("ignore_index", -100), spec.getInt("sum", 0) != 0};
}

Result<CrossEntropyShape> readCrossEntropy(const KernelSpec &spec) {
  Check check(spec);
  check.counts(2, 2);
  return readLoss(spec, check, 0, 2, 3);
}

Result<CrossEntropyShape> readCrossEntropyGrad(const KernelSpec &spec) {
  Check check(spec);
  check.counts(4, 1).that([&] { return spec.operands[1] == spec.operands[4]; }, "a result of the logits' type");
  return readLoss(spec, check, 1, 0, 3);
}

Result<LabelIndexShape> readLabelIndex(const KernelSpec &spec) {
  int64_t classes = spec.getInt("classes", 0), ignored = spec.getInt("ignore_index", -100);
  ZC_RETURN_IF_ERROR(Check(spec)
                         .counts(1, 1)
                         .that([&] { return isIndex(spec.operands[0].dtype) && spec.operands[0] == spec.operands[1]; },
                               "i64 or i32 labels and a result of their type")
                         .that([&] { return classes >= 1; }, "at least one class")
                         .done());
  return LabelIndexShape{spec.operands[0].numElements(), classes, ignored};
}

/// `part` has the slices of `full` at the indices.
static Result<GatherShape> readGather(const KernelSpec &spec, const TensorType &full, const TensorType &part) {
  int64_t axis = spec.getInt("axis", 0);
  ZC_RETURN_IF_ERROR(
      Check(spec)
          .that([&] { return isIndex(spec.operands[1].dtype) && full.dtype == part.dtype; },
                "i64 or i32 indices and one element type")
          .that([&] { return axis >= 0 && axis < static_cast<int64_t>(full.dims.size()); }, "an axis of its data")
          .that(
              [&] {
                Dims dims = full.dims;
                const Dims &indices = spec.operands[1].dims;
                dims.erase(dims.begin() + axis);
                dims.insert(dims.begin() + axis, indices.begin(), indices.end());
                return dims == part.dims;
              },
              "the shape data[:axis] ++ indices ++ data[axis+1:]")
          .done());
  auto at = static_cast<size_t>(axis);
  return GatherShape{full.dtype,
                     spec.operands[1].dtype,
                     product(full.dims, 0, at),
                     full.dims[at],
                     product(full.dims, at + 1, full.dims.size()),
                     spec.operands[1].numElements()};
}

Result<GatherShape> readGather(const KernelSpec &spec) {
  ZC_RETURN_IF_ERROR(Check(spec).counts(2, 1).done());
  return readGather(spec, spec.operands[0], spec.operands[2]);
}

Result<GatherShape> readGatherGrad(const KernelSpec &spec) {
  ZC_RETURN_IF_ERROR(Check(spec)
                         .counts(2, 3, 1, 1)
                         .that([&] { return !addsOnto(spec) || spec.operands[2] == spec.operands[3]; },
                               "something of the result's type to add onto")
                         .done());
  return readGather(spec, spec.operands.back(), spec.operands[0]);
}

Result<GatherNdShape> readGatherNd(const KernelSpec &spec, size_t full, size_t part) {
  int64_t batchDims = spec.getInt("batch_dims", 0);
  GatherNdShape shape;
  auto matches = [&] {
    const Dims &data = spec.operands[full].dims, &indices = spec.operands[1].dims;
    if (indices.empty() || batchDims < 0 || batchDims >= static_cast<int64_t>(indices.size()))
      return false;
    auto b = static_cast<size_t>(batchDims);
    if (indices.back() < 0 || indices.back() > static_cast<int64_t>(data.size()) - batchDims)
      return false;
    size_t end = b + static_cast<size_t>(indices.back());
    for (size_t i = 0; i < b; ++i)
      if (data[i] != indices[i])
        return false;
    Dims result(indices.begin(), indices.end() - 1);
    result.insert(result.end(), data.begin() + static_cast<ptrdiff_t>(end), data.end());
    shape.batch = product(data, 0, b);
    shape.perBatch = product(indices, b, indices.size() - 1);
    shape.bounds.assign(data.begin() + batchDims, data.begin() + static_cast<ptrdiff_t>(end));
    shape.slices = product(data, b, end);
    shape.inner = product(data, end, data.size());
    return result == spec.operands[part].dims;
  };
  ZC_RETURN_IF_ERROR(
      Check(spec)
          .counts(2, 1)
          .that([&] { return isIndex(spec.operands[1].dtype) && spec.operands[0].dtype == spec.operands[2].dtype; },
                "i64 or i32 indices and one element type")
          .that(matches, "index tuples into data[batch_dims:]")
          .done());
  return shape;
}

Result<ElementsShape> readElements(const KernelSpec &spec, size_t full, size_t part) {
  int64_t axis = spec.getInt("axis", 0);
  ZC_RETURN_IF_ERROR(
      Check(spec)
          .counts(2, 1)
          .that([&] { return isIndex(spec.operands[1].dtype) && spec.operands[0].dtype == spec.operands[2].dtype; },
                "i64 or i32 indices and one element type")
          .that([&] { return spec.operands[1].dims == spec.operands[part].dims; }, "one element for each index")
          .that(
              [&] {
                const Dims &data = spec.operands[full].dims, &indices = spec.operands[1].dims;
                if (axis < 0 || axis >= static_cast<int64_t>(data.size()) || indices.size() != data.size())
                  return false;
                for (size_t i = 0; i < data.size(); ++i)
                  if (static_cast<int64_t>(i) != axis && indices[i] > data[i])
                    return false;
                return true;
              },
              "indices no larger than the data outside the axis")
          .done());
  const Dims &data = spec.operands[full].dims, &indices = spec.operands[1].dims;
  auto at = static_cast<size_t>(axis);
  Dims strides = rowMajorStrides(data);
  int64_t axisStride = strides[at];
  strides[at] = 0;
  return ElementsShape{Walk<2>(indices, {rowMajorStrides(indices), strides}), data[at], axisStride};
}

Result<OptimizerShape> readOptimizer(const KernelSpec &spec) {
  const std::optional<UpdateRule> rule = valueNamed<UpdateRule>(spec.name);
  if (!rule)
    return wrongSpec(spec, "the name of an update rule");
  const size_t moments = momentsOf(*rule);
  auto isParameter = [](DType type) { return type == DType::f32 || type == DType::f64; };
  ZC_RETURN_IF_ERROR(
      Check(spec)
          .counts(2, 2, 1 + moments, 2 + moments)
          .that([&] { return isComputeFloat(spec.operands[0].dtype); }, "a gradient of f32, bf16, f16 or f64")
          .that([&] { return spec.operands[1].dtype == DType::f32 && spec.operands[1].numElements() == 1; },
                "a scalar factor in fp32")
          .that(
              [&] {
                for (size_t i = 2; i < 3 + moments; ++i)
                  if (!isParameter(spec.operands[i].dtype) || spec.operands[i].dtype != spec.operands[2].dtype)
                    return false;
                return true;
              },
              "parameter and moments in fp32")
          .that(
              [&] {
                for (size_t i = 0; i < spec.operands.size(); ++i)
                  if (i != 1 && spec.operands[i].numElements() != spec.operands[0].numElements())
                    return false;
                return true;
              },
              "as many elements in all operands")
          .that([&] { return isComputeFloat(spec.operands.back().dtype); }, "an output of f32, bf16, f16 or f64")
          .done());
  OptimizerShape shape{};
  shape.rule = {*rule,
                spec.getReal("beta1", 0.9),
                spec.getReal("beta2", 0.999),
                spec.getReal("eps", 1e-8),
                spec.getReal("weight_decay", 0),
                spec.getReal("momentum", 0),
                spec.getReal("lr_scale", 1),
                spec.getInt("eps_uncorrected", 0) != 0};
  shape.grad = spec.operands[0].dtype;
  shape.param = spec.operands[2].dtype;
  shape.n = spec.operands[0].numElements();
  shape.moments = moments;
  if (spec.operands.size() == 4 + moments)
    shape.out = spec.operands.back().dtype;
  return shape;
}

} // namespace zc::shapes
