#include "kernels/Views.h"
#include "kernels/shapes/ElementShapes.h"
#include "kernels/shapes/Shapes.h"

#include <cmath>

namespace zc::shapes {

/// Blocks of scores of all threads can be counted in bytes.
constexpr int64_t kMostPositions = int64_t(1) << 40;

/// Where a spec has what forward and gradient have in common.
struct AttentionOperands {
  size_t query; ///< key and value follow
  size_t lse;
  std::optional<size_t> mask;
};

/// Sizes of heads; false where they do not go together.
static bool readSizes(const KernelSpec &spec, size_t q, AttentionShape &shape) {
  const Dims &query = spec.operands[q].dims, &key = spec.operands[q + 1].dims, &value = spec.operands[q + 2].dims;
  if (query.size() != 4 || key.size() != 4 || value.size() != 4)
    return false;
  shape.batch = query[0];
  shape.heads = query[1];
  shape.queries = query[2];
  shape.depth = query[3];
  shape.keyHeads = key[1];
  shape.keys = key[2];
  shape.valueDepth = value[3];
  return key == Dims{shape.batch, shape.keyHeads, shape.keys, shape.depth} &&
         value == Dims{shape.batch, shape.keyHeads, shape.keys, shape.valueDepth} &&
         (shape.keyHeads ? shape.heads % shape.keyHeads == 0 : shape.heads == 0) &&
         std::max(shape.queries, shape.keys) <= kMostPositions &&
         canCountSteps({shape.batch, shape.heads, shape.queries, shape.keys, std::max(shape.depth, shape.valueDepth)});
}

/// How scores see their mask; false where it is none of theirs.
static bool readMask(const TensorType &type, AttentionShape &shape) {
  const Dims scores = {shape.batch, shape.heads, shape.queries, shape.keys};
  if (type.dims.size() != 4 || !broadcastsTo(type.dims, scores) ||
      !(type.dtype == DType::boolean || type.dtype == DType::f32 || type.dtype == shape.dtype))
    return false;
  const Dims strides = broadcastStrides(type.dims, scores);
  std::copy(strides.begin(), strides.end(), shape.maskStrides.begin());
  shape.mask = type.dtype;
  return true;
}

static bool readDropRate(const KernelSpec &spec, AttentionShape &shape) {
  shape.dropout = spec.getReal("dropout", 0);
  shape.dropoutId = spec.getInt("dropout_id", 0);
  shape.seed = spec.seed;
  shape.rank = spec.rank;
  shape.headsOfSample = shape.heads;
  shape.headsBefore = 0;
  // A rank has some of each sample's heads, or some of the samples.
  const NumbersOfPart part = numbersOfPart(spec);
  const int64_t scores = std::max<int64_t>(1, shape.queries * shape.keys), run = part.run / scores;
  bool isPart = part.run % scores == 0 && part.stride % scores == 0;
  if (part.run != 0) {
    shape.headsBefore = part.first / scores;
    if (run == shape.heads)
      shape.headsOfSample = part.stride / scores;
    else
      isPart &= run == shape.batch * shape.heads;
  }
  return shape.dropout >= 0 && shape.dropout < 1 && isPart;
}

/// What becomes of scores.
static bool readScores(const KernelSpec &spec, AttentionShape &shape) {
  shape.scale = spec.getReal("scale", 1);
  shape.causal = spec.getInt("causal", 0) != 0;
  const int64_t window = spec.getInt("window", 0);
  shape.window = std::min(window, shape.queries + shape.keys); // more hides nothing either
  shape.softcap = spec.getReal("softcap", 0);
  return window >= 0 && shape.softcap >= 0 && std::isfinite(shape.softcap);
}

/// `same`: operands that have the type of another one, or (SIZE_MAX) of the result.
static Result<AttentionShape> readHeads(const KernelSpec &spec, Check &check, const AttentionOperands &at,
                                        const std::vector<std::pair<size_t, size_t>> &same) {
  AttentionShape shape{};
  auto types = [&] {
    shape.dtype = spec.operands[at.query].dtype;
    shape.stat = spec.operands[at.lse].dtype;
    const TensorType result{shape.dtype, {shape.batch, shape.heads, shape.queries, shape.valueDepth}};
    for (auto [a, b] : same)
      if (!(spec.operands[a] == (b == SIZE_MAX ? result : spec.operands[b])))
        return false;
    return isComputeFloat(shape.dtype) && allOf(spec, {at.query + 1, at.query + 2}, shape.dtype) &&
           shape.stat == (shape.dtype == DType::f64 ? DType::f64 : DType::f32) &&
           spec.operands[at.lse].dims == Dims{shape.batch, shape.heads, shape.queries};
  };
  shape.hasMask = at.mask.has_value();
  ZC_RETURN_IF_ERROR(check
                         .that([&] { return readSizes(spec, at.query, shape); },
                               "query [B,H,S,D], key [B,Hk,L,D], value [B,Hk,L,Dv] with Hk dividing H")
                         .that(types, "f32, bf16, f16 or f64 of one type, results and lse of the operands' shapes")
                         .that([&] { return !at.mask || readMask(spec.operands[*at.mask], shape); },
                               "a bool or float mask of rank 4 that broadcasts to [B,H,S,L]")
                         .that([&] { return readDropRate(spec, shape); },
                               "dropout in [0, 1), of all or some heads of a sample, or of some samples")
                         .that([&] { return readScores(spec, shape); }, "a window and a softcap of 0 or more")
                         .done());
  return shape;
}

Result<AttentionShape> readAttention(const KernelSpec &spec) {
  Result<SeenSpec> seen = throughViews(spec);
  ZC_RETURN_IF_ERROR(seen.status());
  Check check(seen->spec);
  check.counts(3, 4, 2, 2);
  size_t out = spec.numInputs;
  return readHeads(seen->spec, check, {0, out + 1, out == 4 ? std::optional<size_t>(3) : std::nullopt},
                   {{out, SIZE_MAX}});
}

Result<AttentionShape> readAttentionGrad(const KernelSpec &spec) {
  Result<SeenSpec> seen = throughViews(spec);
  ZC_RETURN_IF_ERROR(seen.status());
  Check check(seen->spec);
  const bool hasMaskGrad = spec.getInt("mask_grad", 0) != 0;
  check.counts(hasMaskGrad ? 7 : 6, 7, hasMaskGrad ? 4 : 3, hasMaskGrad ? 4 : 3);
  size_t out = spec.numInputs;
  Result<AttentionShape> shape =
      readHeads(seen->spec, check, {1, 5, out == 7 ? std::optional<size_t>(6) : std::nullopt},
                {{0, SIZE_MAX}, {4, SIZE_MAX}, {out, 1}, {out + 1, 2}, {out + 2, 3}});
  if (!shape.ok() || !hasMaskGrad)
    return shape;
  shape->hasMaskGrad = true;
  const TensorType &mask = seen->spec.operands[6], &gradient = seen->spec.operands[out + 3];
  ZC_RETURN_IF_ERROR(check
                         .that(
                             [&] {
                               return mask.dtype != DType::boolean && mask.dims[2] == shape->queries &&
                                      mask.dims[3] == shape->keys && gradient.dims == mask.dims &&
                                      gradient.dtype == shape->stat;
                             },
                             "a float mask [.,.,S,L] and its gradient in lse's type")
                         .done());
  return shape;
}

} // namespace zc::shapes
