// In which parts cuDNN computes attention, and where it finds them: together they are the whole.
#include "kernels/cuda/CudnnAttention.h"
#include "base/StridedView.h"
#include "kernels/Workspace.h"
#include "kernels/cuda/Implementations.h"
#include "test/kernels/FastTest.h"

namespace zc::test {
namespace {

using cuda::CudnnAttention;
using cuda::CudnnHeads;

struct Case {
  Ints query, key, mask; ///< no mask: empty
  bool causal;
  int64_t batchParts = 1, headParts = 1;
};

/// Both passes of bf16; the gradient is given what the plain forward made.
struct Calls {
  Call forward, gradient;
};
Calls callsOf(const Case &row) {
  Value q = random(DType::bf16, row.query, 1), k = random(DType::bf16, row.key, 2), v = random(DType::bf16, row.key, 3);
  Attributes attributes = {{"scale", 0.3}, {"causal", int64_t(row.causal)}};
  Value lse({DType::f32, {row.query[0], row.query[1], row.query[2]}});
  Call forward{"attention", {q, k, v}, {Value(q.type), lse}, attributes};
  if (!row.mask.empty())
    forward.inputs.push_back(random(DType::f32, row.mask, 4));
  auto made = runOn(registry(true), forward);
  EXPECT_TRUE(made.ok());
  Call gradient{"attention_grad",
                {random(DType::bf16, row.query, 5), q, k, v, (*made)[0], (*made)[1]},
                {Value(q.type), Value(k.type), Value(v.type)},
                attributes};
  if (!row.mask.empty())
    gradient.inputs.push_back(forward.inputs[3]);
  return {forward, gradient};
}

/// [B, H, T, D] seen in [B, T, H, D], beside `before` other numbers of a row of `width`.
StridedView beside(size_t tensor, const Ints &dims, int64_t before, int64_t width) {
  return {tensor, before, dims, {dims[2] * width, dims[3], width, 1}};
}

/// Its operands in rows of larger ones, as linear layers make them: each operand by itself, gradients in one result.
Call throughViews(const Call &call) {
  Call seen = call;
  std::vector<StridedView> views;
  auto scatter = [&](Value &value, size_t tensor) {
    const Ints &dims = value.type.dims;
    const int64_t before = 16, width = dims[1] * dims[3] + 24;
    Value packed = random(value.type.dtype, {dims[0], dims[2], width}, 9);
    StridedView view = beside(tensor, dims, before, width);
    for (int64_t i = 0; i < value.type.numElements(); ++i) {
      int64_t at = view.offset, rest = i;
      for (size_t d = 4; d-- > 0; rest /= dims[d])
        at += rest % dims[d] * view.strides[d];
      packed.set(static_cast<size_t>(at), value.get(static_cast<size_t>(i)));
    }
    value = packed;
    return view;
  };
  const bool isGradient = call.name == "attention_grad";
  const size_t lse = isGradient ? 5 : SIZE_MAX, mask = isGradient ? 6 : 3;
  for (size_t i = 0; i < call.inputs.size(); ++i)
    views.push_back(i == lse || i == mask ? StridedView::whole(i, call.inputs[i].type.dims)
                                          : scatter(seen.inputs[i], i));
  const size_t out = call.inputs.size();
  int64_t width = 0, before = 0;
  const size_t heads = isGradient ? 3 : 1;
  for (size_t i = 0; i < heads; ++i)
    width += call.outputs[i].type.dims[1] * call.outputs[i].type.dims[3];
  const Ints &first = call.outputs[0].type.dims;
  seen.outputs = {Value({call.outputs[0].type.dtype, {first[0], first[2], width}})};
  for (size_t i = 0; i < heads; ++i) {
    const Ints &dims = call.outputs[i].type.dims;
    views.push_back(beside(out, dims, before, width));
    before += dims[1] * dims[3];
  }
  if (!isGradient) {
    seen.outputs.push_back(call.outputs[1]);
    views.push_back(StridedView::whole(out + 1, call.outputs[1].type.dims));
  }
  seen.attributes["views"] = encode(views);
  return seen;
}

/// What a call finds of a tensor, as one of its own.
Value found(const CudnnHeads &tensor, int64_t offset, const Value &operand, size_t rank) {
  Ints dims(tensor.dims.begin(), tensor.dims.begin() + static_cast<std::ptrdiff_t>(rank));
  Value value({operand.type.dtype, dims});
  const int64_t first = offset / sizeOf(operand.type.dtype);
  for (int64_t i = 0; i < value.type.numElements(); ++i) {
    int64_t at = first, rest = i;
    for (size_t d = rank; d-- > 0; rest /= dims[d])
      at += rest % dims[d] * tensor.strides[d];
    value.set(static_cast<size_t>(i), operand.get(static_cast<size_t>(at)));
  }
  return value;
}

/// Each call's operands, computed by themselves, give the whole's results where it would write them.
void expectPartsAreTheWhole(const Call &whole, const Case &row) {
  SCOPED_TRACE(whole.name + (whole.attributes.count("views") ? " through views" : ""));
  auto cudnn = CudnnAttention::of(whole.spec());
  ASSERT_TRUE(cudnn);
  const bool isGradient = whole.name == "attention_grad";
  EXPECT_EQ(cudnn->batchParts, isGradient ? row.batchParts : 1);
  EXPECT_EQ(cudnn->headParts, isGradient ? row.headParts : 1);
  if (isGradient) {
    EXPECT_LE(CudnnAttention::gradBytes(cudnn->shape), int64_t(256) << 20);
    EXPECT_GE(workspaceBytes(whole.spec(), Target::cuda), CudnnAttention::gradBytes(cudnn->shape));
  }
  auto expected = runOn(registry(true), whole);
  ASSERT_TRUE(expected.ok()) << expected.error().message;
  const size_t numInputs = whole.inputs.size(), lse = isGradient ? 5 : numInputs + 1;
  const CudnnHeads &sums = cudnn->tensors[lse];
  EXPECT_EQ(sums.strides[1], sums.dims[2]) << "cuDNN before 9.26 takes no sums with gaps";
  EXPECT_EQ(sums.strides[0], sums.dims[1] * sums.dims[2]) << "cuDNN before 9.26 takes no sums with gaps";
  for (int64_t call = 0; call < cudnn->calls(); ++call) {
    const std::vector<int64_t> offsets = cudnn->offsetsOf(call);
    Call part{whole.name, {}, {}, whole.attributes};
    part.attributes.erase("views");
    std::vector<Value> results;
    for (size_t i = 0; i < cudnn->tensors.size(); ++i) {
      const CudnnHeads &tensor = cudnn->tensors[i];
      const Value &operand =
          i < numInputs ? whole.inputs[tensor.operand] : (*expected)[tensor.operand - whole.inputs.size()];
      (i < numInputs ? part.inputs : results).push_back(found(tensor, offsets[i], operand, i == lse ? 3 : 4));
    }
    for (const Value &result : results)
      part.outputs.emplace_back(result.type);
    auto own = runOn(registry(true), part);
    ASSERT_TRUE(own.ok()) << own.error().message;
    for (size_t i = 0; i < results.size(); ++i)
      EXPECT_TRUE((*own)[i] == results[i]) << "output " << i << " of call " << call;
  }
}

TEST(CudnnAttention, partsAreTheWhole) {
  for (const Case &row :
       {Case{{34, 512, 1, 8}, {34, 256, 2, 8}, {}, true, 2},
        Case{{34, 512, 1, 8}, {34, 512, 2, 8}, {34, 1, 1, 2}, false, 2},
        Case{{3, 8, 2, 8}, {3, 4, 5, 8}, {3, 8, 2, 5}, false}, Case{{3, 8, 5, 8}, {3, 4, 5, 8}, {3, 8, 5, 5}, true},
        Case{{2, 8192, 2, 8}, {2, 8192, 2, 8}, {1, 8192, 1, 2}, false, 2},
        Case{{3, 8192, 2, 8}, {3, 8192, 2, 8}, {}, false, 3}, // two parts of heads would have gaps
        // A sample is still too much, and heads have masks of their own.
        Case{{2, 32768, 1, 8}, {2, 16384, 1, 8}, {1, 32768, 1, 1}, false, 2, 4}}) {
    Calls calls = callsOf(row);
    for (const Call &call : {calls.forward, calls.gradient, throughViews(calls.forward)})
      expectPartsAreTheWhole(call, row);
    if (row.query[2] == row.key[2]) // gradients share their rows
      expectPartsAreTheWhole(throughViews(calls.gradient), row);
  }
}

TEST(CudnnAttention, isNotForAll) {
  auto takes = [](Ints query, Ints key, bool causal, DType type, Attributes more = {}) {
    TensorType q{type, query}, k{type, key}, lse{DType::f32, {query[0], query[1], query[2]}};
    more["causal"] = int64_t(causal);
    KernelSpec spec{"attention_grad", {q, q, k, k, q, lse, q, k, k}, 6, more};
    return CudnnAttention::of(spec).has_value();
  };
  EXPECT_TRUE(takes({1, 2, 3, 8}, {1, 2, 3, 8}, false, DType::bf16));
  EXPECT_TRUE(takes({1, 2, 3, 8}, {1, 2, 3, 8}, false, DType::f16));
  EXPECT_FALSE(takes({1, 2, 3, 8}, {1, 2, 3, 8}, false, DType::f32)); // no tensor cores
  EXPECT_FALSE(takes({1, 2, 3, 12}, {1, 2, 3, 12}, false, DType::bf16));
  EXPECT_FALSE(takes({1, 2, 3, 136}, {1, 2, 3, 136}, false, DType::bf16));
  EXPECT_FALSE(takes({1, 2, 5, 8}, {1, 2, 3, 8}, true, DType::bf16)); // rows that see no key
  EXPECT_FALSE(takes({1, 2, 5, 8}, {1, 2, 3, 8}, false, DType::bf16, {{"window", int64_t{4}}}));
  EXPECT_TRUE(takes({1, 2, 3, 8}, {1, 2, 5, 8}, false, DType::bf16, {{"window", int64_t{4}}}));
  EXPECT_FALSE(takes({1, 2, 0, 8}, {1, 2, 3, 8}, false, DType::bf16));
  EXPECT_FALSE(takes({1, 2, 3, 8}, {1, 2, 3, 8}, false, DType::bf16, {{"dropout", 0.1}}));
  EXPECT_FALSE(takes({1, 2, 3, 8}, {1, 2, 3, 8}, false, DType::bf16, {{"softcap", 30.0}}));
  EXPECT_FALSE(takes({1, 2, 32768, 8}, {1, 2, 32768, 8}, false, DType::bf16)); // 2 GiB a head
  EXPECT_TRUE(takes({1, 2, 16384, 8}, {1, 2, 16384, 8}, false, DType::bf16));  // half of one
  EXPECT_FALSE(CudnnAttention::of(callsOf({{1, 2, 3, 8}, {1, 2, 5, 8}, {1, 2, 3, 5}, true}).gradient.spec()));
  Call trained = callsOf({{1, 2, 3, 8}, {1, 2, 3, 8}, {1, 2, 3, 3}, false}).gradient;
  EXPECT_TRUE(CudnnAttention::of(trained.spec()));
  trained.outputs.emplace_back(trained.inputs[6].type);
  trained.attributes["mask_grad"] = int64_t{1};
  EXPECT_FALSE(CudnnAttention::of(trained.spec()));
}

/// A bench asks for ours; what is planned to work in is then ours too.
TEST(CudnnAttention, leavesToUsWhatIsOurs) {
  KernelSpec spec = callsOf({{1, 2, 300, 64}, {1, 2, 300, 64}, {}, true}).gradient.spec();
  EXPECT_TRUE(CudnnAttention::chosen(spec));
  const int64_t bytes = workspaceBytes(spec, Target::cuda);
  spec.attributes["own"] = int64_t{1};
  EXPECT_TRUE(CudnnAttention::of(spec));
  EXPECT_FALSE(CudnnAttention::chosen(spec));
  EXPECT_EQ(cuda::implementationOf(spec)->kind, Implementation::Kind::own);
  EXPECT_EQ(workspaceBytes(spec, Target::cuda), 2 * 2 * 300 * int64_t(sizeof(float)));
  EXPECT_LT(workspaceBytes(spec, Target::cuda), bytes);
}

/// Rows that begin somewhere are ours.
TEST(CudnnAttention, asksForRowsOf16Bytes) {
  auto takes = [](int64_t before, int64_t width) {
    const Ints dims = {2, 2, 3, 8};
    TensorType packed{DType::bf16, {2, 3, width}}, heads{DType::bf16, dims}, lse{DType::f32, {2, 2, 3}};
    KernelSpec spec{"attention", {packed, heads, heads, heads, lse}, 3, {}};
    spec.attributes["views"] =
        encode({beside(0, dims, before, width), StridedView::whole(1, dims), StridedView::whole(2, dims),
                StridedView::whole(3, dims), StridedView::whole(4, lse.dims)});
    EXPECT_TRUE(shapes::readAttention(spec).ok());
    return CudnnAttention::of(spec).has_value();
  };
  EXPECT_TRUE(takes(0, 24));
  EXPECT_TRUE(takes(8, 24));
  EXPECT_FALSE(takes(4, 24));
  EXPECT_FALSE(takes(0, 20));
}

} // namespace
} // namespace zc::test
