// attention whose heads are parts of other tensors.
#include "base/StridedView.h"
#include "test/kernels/AttentionCases.h"

namespace zc::test {
namespace {

/// Tensors of heads beside each other in the rows of one tensor, [B, T, sum of H * D], as a linear layer makes them.
class Packed {
public:
  Packed(DType type, std::vector<Ints> heads) : type(type), heads(std::move(heads)) {
    for (const Ints &dims : this->heads)
      width += dims[1] * dims[3];
  }
  Value empty() const { return Value({type, {heads[0][0], heads[0][2], width}}); }
  StridedView view(size_t tensor, size_t which) const {
    const Ints &dims = heads[which];
    int64_t offset = 0;
    for (size_t i = 0; i < which; ++i)
      offset += heads[i][1] * heads[i][3];
    return {tensor, offset, dims, {dims[2] * width, dims[3], width, 1}};
  }
  void put(Value &packed, size_t which, const Value &from) const {
    forEach(which, [&](size_t i, size_t at) { packed.set(at, from.get(i)); });
  }
  Value get(const Value &packed, size_t which) const {
    Value to({type, heads[which]});
    forEach(which, [&](size_t i, size_t at) { to.set(i, packed.get(at)); });
    return to;
  }

private:
  template <typename Fn> void forEach(size_t which, Fn fn) const {
    const Ints &dims = heads[which];
    const StridedView seen = view(0, which);
    for (int64_t i = 0, n = dims[0] * dims[1] * dims[2] * dims[3]; i < n; ++i) {
      int64_t rest = i, at = seen.offset;
      for (size_t d = 4; d-- > 0; rest /= dims[d])
        at += rest % dims[d] * seen.strides[d];
      fn(static_cast<size_t>(i), static_cast<size_t>(at));
    }
  }

  DType type;
  std::vector<Ints> heads;
  int64_t width = 0;
};

StridedView wholeOf(size_t tensor, const Value &value) { return StridedView::whole(tensor, value.type.dims); }

/// `forward` with its operands packed into one, and its result as it stands in `output`.
Call throughViews(const Call &forward, const Packed &inputs, const Packed &output) {
  Value packed = inputs.empty();
  for (size_t i : {0u, 1u, 2u})
    inputs.put(packed, i, forward.inputs[i]);
  Call seen = forward;
  seen.inputs[0] = seen.inputs[1] = seen.inputs[2] = packed;
  seen.outputs[0] = output.empty();
  const size_t numInputs = seen.inputs.size();
  std::vector<StridedView> views = {inputs.view(0, 0), inputs.view(1, 1), inputs.view(2, 2)};
  if (numInputs > 3)
    views.push_back(wholeOf(3, seen.inputs[3]));
  views.push_back(output.view(numInputs, 0));
  views.push_back(wholeOf(numInputs + 1, seen.outputs[1]));
  seen.attributes["views"] = encode(views);
  return seen;
}

/// `backward` likewise, of operands as `throughViews` packed them; its gradients are packed, too.
Call gradientThroughViews(const Call &backward, const Packed &inputs, const Packed &output) {
  Value packed = inputs.empty(), packedGrad = output.empty(), packedOutput = output.empty();
  for (size_t i : {0u, 1u, 2u})
    inputs.put(packed, i, backward.inputs[i + 1]);
  output.put(packedGrad, 0, backward.inputs[0]);
  output.put(packedOutput, 0, backward.inputs[4]);
  Call seen = backward;
  seen.inputs[0] = packedGrad;
  seen.inputs[1] = seen.inputs[2] = seen.inputs[3] = packed;
  seen.inputs[4] = packedOutput;
  seen.outputs = {inputs.empty()};
  std::vector<StridedView> views = {output.view(0, 0), inputs.view(1, 0), inputs.view(2, 1),
                                    inputs.view(3, 2), output.view(4, 0), wholeOf(5, seen.inputs[5])};
  if (seen.inputs.size() > 6)
    views.push_back(wholeOf(6, seen.inputs[6]));
  for (size_t i : {0u, 1u, 2u})
    views.push_back(inputs.view(seen.inputs.size(), i));
  if (backward.outputs.size() > 3) {
    seen.outputs.push_back(backward.outputs[3]);
    views.push_back(wholeOf(seen.inputs.size() + 1, backward.outputs[3]));
  }
  seen.attributes["views"] = encode(views);
  return seen;
}

/// What is computed on operands packed into one and to results packed into one has the bits of that on each by itself.
void expectViewsAgree(const AttentionCase &row, DType type, const KernelRegistry &kernels) {
  Value q = random(type, row.query, 1), k = random(type, row.key, 2), v = random(type, row.value, 3);
  Value y({type, {row.query[0], row.query[1], row.query[2], row.value[3]}});
  Value lse({type == DType::f64 ? DType::f64 : DType::f32, {row.query[0], row.query[1], row.query[2]}});
  Attributes attributes = {{"scale", 0.3}};
  if (row.causal)
    attributes["causal"] = kOne;
  Call forward{"attention", {q, k, v}, {y, lse}, attributes, 2};
  if (!row.mask.empty())
    forward.inputs.push_back(maskOf(row));
  auto plain = runOn(kernels, forward);
  ASSERT_TRUE(plain.ok()) << plain.error().message;
  const Packed inputs(type, {row.query, row.key, row.value}), output(type, {y.type.dims});
  auto results = runOn(kernels, throughViews(forward, inputs, output));
  ASSERT_TRUE(results.ok()) << results.error().message;
  EXPECT_TRUE(output.get((*results)[0], 0) == (*plain)[0]);
  EXPECT_TRUE((*results)[1] == (*plain)[1]);

  const Value g = random(type, y.type.dims, 5);
  Call backward{"attention_grad", {g, q, k, v, (*plain)[0], (*plain)[1]}, {q, k, v}, attributes, 2};
  if (!row.mask.empty())
    backward.inputs.push_back(forward.inputs[3]);
  if (!row.mask.empty() && row.maskType != DType::boolean) {
    backward.attributes["mask_grad"] = kOne;
    backward.outputs.push_back(Value({lse.type.dtype, row.mask}));
  }
  auto grads = runOn(kernels, backward);
  ASSERT_TRUE(grads.ok()) << grads.error().message;
  auto packedGrads = runOn(kernels, gradientThroughViews(backward, inputs, output));
  ASSERT_TRUE(packedGrads.ok()) << packedGrads.error().message;
  for (size_t i : {0u, 1u, 2u})
    EXPECT_TRUE(inputs.get((*packedGrads)[0], i) == (*grads)[i]) << "gradient " << i;
  for (size_t i = 3; i < grads->size(); ++i)
    EXPECT_TRUE((*packedGrads)[i - 2] == (*grads)[i]) << "gradient " << i;
}

TEST(Attention, hasTheSameBitsThroughViews) {
  for (const AttentionCase &row :
       {AttentionCase{{1, 1, 1, 1}, {1, 1, 1, 1}, {1, 1, 1, 1}, {}, {}, false},
        AttentionCase{{2, 3, 33, 16}, {2, 3, 33, 16}, {2, 3, 33, 16}, {}, {}, true},
        AttentionCase{{1, 4, 150, 8}, {1, 2, 150, 8}, {1, 2, 150, 12}, {}, {}, true}, // grouped heads
        AttentionCase{{2, 3, 20, 35}, {2, 1, 20, 35}, {2, 1, 20, 33}, {}, {}, true},  // odd widths
        AttentionCase{{2, 2, 20, 8}, {2, 1, 20, 8}, {2, 1, 20, 8}, {2, 1, 1, 20}, DType::boolean, false},
        AttentionCase{{2, 2, 20, 8}, {2, 2, 20, 8}, {2, 2, 20, 8}, {1, 2, 20, 20}, DType::f32, false},
        AttentionCase{{1, 2, 300, 8}, {1, 2, 300, 8}, {1, 2, 300, 8}, {}, {}, true}}) {
    forFastTypes([&](DType type) { expectViewsAgree(row, type, registry(false)); });
    for (const KernelRegistry *kernels : {&registry(true), &blockRegistry()})
      for (DType type : {DType::f32, DType::bf16, DType::f64})
        expectViewsAgree(row, type, *kernels);
  }
}

TEST(Attention, refusesViewsThatItCannotHave) {
  Value x = random(DType::f32, {1, 5, 12}, 1), y({DType::f32, {1, 1, 5, 4}}), lse({DType::f32, {1, 1, 5}});
  const StridedView third{0, 0, {1, 1, 5, 4}, {60, 4, 12, 1}}, result = StridedView::whole(3, y.type.dims),
                                                               rows = StridedView::whole(4, lse.type.dims);
  auto seenAt = [&](size_t tensor, int64_t offset) {
    StridedView view = third;
    view.tensor = tensor;
    view.offset = offset;
    return view;
  };
  auto number = [&](const std::vector<StridedView> &views, const char *name = "attention") {
    Call call{name, {x, x, x}, {y, lse}, {{"views", encode(views)}}};
    KernelSpec spec = call.spec();
    spec.workspace = 1 << 20;
    Status status = registry(false).prepare(spec).status(), onGpu = blockRegistry().prepare(spec).status();
    EXPECT_EQ(status.ok() ? 0 : status.error().number, onGpu.ok() ? 0 : onGpu.error().number);
    return status.ok() ? 0 : status.error().number;
  };
  EXPECT_EQ(number({third, seenAt(1, 4), seenAt(2, 8), result, rows}), 0);
  EXPECT_EQ(number({third, seenAt(1, 4), seenAt(2, 9), result, rows}), 711); // leaves its operand
  EXPECT_EQ(number({third, seenAt(1, 4), result, rows}), 711);
  EXPECT_EQ(number({third, seenAt(1, 4), seenAt(2, 8), result, rows}, "concat"), 711);
  StridedView columns{0, 0, {1, 1, 5, 4}, {60, 20, 1, 5}}; // rows are not in one piece
  EXPECT_EQ(number({columns, seenAt(1, 4), seenAt(2, 8), result, rows}), 703);
  StridedView turned{4, 0, {1, 5, 1}, {5, 1, 1}};
  EXPECT_EQ(number({third, seenAt(1, 4), seenAt(2, 8), result, turned}), 703); // another shape
}

} // namespace
} // namespace zc::test
