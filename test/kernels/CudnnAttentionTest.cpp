// In which pieces cuDNN computes attention: together they are the whole.
#include "kernels/cuda/CudnnAttention.h"
#include "kernels/Workspace.h"
#include "test/kernels/FastTest.h"

namespace zc::test {
namespace {

/// attention_grad of bf16 with random operands; `mask`: none where empty.
Call gradient(const Ints &query, const Ints &key, const Ints &mask, bool causal) {
  Value q = random(DType::bf16, query, 1), k = random(DType::bf16, key, 2), v = random(DType::bf16, key, 3);
  Attributes attributes = {{"scale", 0.3}, {"causal", int64_t(causal)}};
  Call forward{
      "attention", {q, k, v}, {Value(q.type), Value({DType::f32, {query[0], query[1], query[2]}})}, attributes};
  if (!mask.empty())
    forward.inputs.push_back(random(DType::f32, mask, 4));
  auto made = run(forward, true);
  EXPECT_TRUE(made.ok());
  Call call{"attention_grad",
            {random(DType::bf16, query, 5), q, k, v, (*made)[0], (*made)[1]},
            {Value(q.type), Value(k.type), Value(v.type)},
            attributes};
  if (!mask.empty())
    call.inputs.push_back(forward.inputs[3]);
  return call;
}

/// As many elements of `from` as `type` has, from byte `at` on.
Value slice(const Value &from, const TensorType &type, int64_t at) {
  Value part(type);
  std::memcpy(part.data(), static_cast<const char *>(from.data()) + at, static_cast<size_t>(type.numBytes()));
  return part;
}

/// Its operands for call `number`, of the piece's shape.
Call pieceOf(const Call &whole, const cuda::CudnnAttention &cudnn, int64_t number) {
  const cpu::AttentionShape &s = cudnn.shape;
  std::vector<int64_t> strides = cudnn.strides(whole.spec());
  Call piece = whole;
  auto cut = [&](Value &value, size_t i, int64_t heads, bool isMask) {
    TensorType type = value.type;
    if (!isMask || strides[i])
      type.dims[0] = s.batch;
    if (!isMask)
      type.dims[1] = heads;
    value = slice(value, type, number * strides[i]);
  };
  for (size_t i = 0; i < piece.inputs.size(); ++i)
    cut(piece.inputs[i], i, i == 2 || i == 3 ? s.keyHeads : s.heads, i == 6);
  for (size_t i = 0; i < piece.outputs.size(); ++i)
    cut(piece.outputs[i], piece.inputs.size() + i, i == 0 ? s.heads : s.keyHeads, false);
  return piece;
}

struct Pieces {
  Ints query, key, mask;
  bool causal;
  int64_t calls;
};

TEST(CudnnAttention, piecesAreTheWhole) {
  for (const Pieces &row : {Pieces{{34, 512, 1, 8}, {34, 256, 2, 8}, {}, true, 2},
                            Pieces{{34, 512, 1, 8}, {34, 512, 2, 8}, {34, 1, 1, 2}, false, 2}}) {
    Call whole = gradient(row.query, row.key, row.mask, row.causal);
    auto shape = cpu::readAttentionGrad(whole.spec());
    ASSERT_TRUE(shape.ok());
    cuda::CudnnAttention cudnn(*shape, true);
    ASSERT_EQ(cudnn.calls, row.calls);
    EXPECT_LE(cuda::CudnnAttention::gradBytes(cudnn.shape), int64_t(256) << 20);
    EXPECT_GE(workspaceBytes(whole.spec(), Target::cuda), cuda::CudnnAttention::gradBytes(cudnn.shape));
    auto expected = run(whole);
    ASSERT_TRUE(expected.ok());
    std::vector<int64_t> strides = cudnn.strides(whole.spec());
    for (int64_t number = 0; number < cudnn.calls; ++number) {
      Call piece = pieceOf(whole, cudnn, number);
      auto results = run(piece);
      ASSERT_TRUE(results.ok()) << results.error().message;
      for (size_t i = 0; i < results->size(); ++i) {
        const Value &part = (*results)[i];
        EXPECT_TRUE(part == slice((*expected)[i], part.type, number * strides[whole.inputs.size() + i]))
            << "output " << i << " of call " << number;
      }
    }
  }
}

TEST(CudnnAttention, isNotForAll) {
  auto calls = [](Ints query, Ints key, Ints mask, bool causal, DType type) {
    Call call = gradient(query, key, mask, causal);
    auto shape = cpu::readAttentionGrad(call.spec());
    EXPECT_TRUE(shape.ok());
    shape->dtype = type;
    return cuda::CudnnAttention(*shape, true).calls;
  };
  EXPECT_EQ(calls({1, 2, 3, 8}, {1, 2, 3, 8}, {}, false, DType::bf16), 1);
  EXPECT_EQ(calls({1, 2, 3, 8}, {1, 2, 3, 8}, {}, false, DType::f16), 1);
  EXPECT_EQ(calls({1, 2, 3, 8}, {1, 2, 3, 8}, {}, false, DType::f32), 0); // no tensor cores
  EXPECT_EQ(calls({1, 2, 3, 12}, {1, 2, 3, 12}, {}, false, DType::bf16), 0);
  EXPECT_EQ(calls({1, 2, 3, 136}, {1, 2, 3, 136}, {}, false, DType::bf16), 0);
  EXPECT_EQ(calls({1, 2, 5, 8}, {1, 2, 3, 8}, {}, true, DType::bf16), 0); // rows that see no key
  EXPECT_EQ(calls({1, 2, 0, 8}, {1, 2, 3, 8}, {}, false, DType::bf16), 0);
  Call trained = gradient({1, 2, 3, 8}, {1, 2, 3, 8}, {1, 2, 3, 3}, false);
  EXPECT_EQ(cuda::CudnnAttention::of(trained.spec()).calls, 1);
  Call dropped = trained;
  dropped.attributes["dropout"] = 0.1;
  EXPECT_EQ(cuda::CudnnAttention::of(dropped.spec()).calls, 0);
  trained.outputs.emplace_back(trained.inputs[6].type);
  trained.attributes["mask_grad"] = int64_t{1};
  EXPECT_EQ(cuda::CudnnAttention::of(trained.spec()).calls, 0);
  auto shape = cpu::readAttentionGrad(gradient({1, 2, 3, 8}, {1, 2, 3, 8}, {}, false).spec());
  ASSERT_TRUE(shape.ok());
  shape->queries = shape->keys = 32768; // 2 GiB a head
  EXPECT_EQ(cuda::CudnnAttention(*shape, true).calls, 0);
  EXPECT_EQ(cuda::CudnnAttention(*shape, false).calls, 1);
}

} // namespace
} // namespace zc::test
