// attention and its gradient against the plain ones: blocks, tiles, masks, grouped heads, and what they work in.
#include "test/kernels/FastTest.h"

namespace zc::test {
namespace {

struct AttentionCase {
  Ints query, key, value, mask; ///< no mask: empty
  DType maskType;
  bool causal;
};

Value maskOf(const AttentionCase &row) {
  if (row.maskType == DType::boolean)
    return uniform({DType::boolean, row.mask}, 4, 0, 2);
  return random(row.maskType, row.mask, 4, -2, 2);
}

/// Forward and backward; the gradient is given what the plain forward made.
void expectAttentionMatches(const AttentionCase &row, DType type, const Value *mask = nullptr) {
  Value q = random(type, row.query, 1), k = random(type, row.key, 2), v = random(type, row.value, 3);
  Value y({type, {row.query[0], row.query[1], row.query[2], row.value[3]}});
  Value lse({DType::f32, {row.query[0], row.query[1], row.query[2]}});
  Attributes attributes = {{"scale", 0.3}};
  if (row.causal)
    attributes["causal"] = kOne;
  Call forward{"attention", {q, k, v}, {y, lse}, attributes};
  if (!row.mask.empty())
    forward.inputs.push_back(mask ? *mask : maskOf(row));
  expectFastMatches(forward, 2e-6, Bits::always);
  auto results = run(forward);
  ASSERT_TRUE(results.ok());
  Call backward{"attention_grad",
                {random(type, y.type.dims, 5), q, k, v, (*results)[0], (*results)[1]},
                {Value(q.type), Value(k.type), Value(v.type)},
                attributes};
  if (!row.mask.empty())
    backward.inputs.push_back(forward.inputs[3]);
  expectFastMatches(backward, 1e-5, Bits::always);
}

TEST(FastAttention, andGradient) {
  for (const AttentionCase &row :
       {AttentionCase{{1, 1, 1, 1}, {1, 1, 1, 1}, {1, 1, 1, 1}, {}, {}, false},
        AttentionCase{{2, 3, 33, 16}, {2, 3, 33, 16}, {2, 3, 33, 16}, {}, {}, true},
        AttentionCase{{1, 4, 150, 8}, {1, 2, 150, 8}, {1, 2, 150, 12}, {}, {}, true}, // grouped heads
        AttentionCase{{1, 3, 20, 35}, {1, 1, 20, 35}, {1, 1, 20, 33}, {}, {}, true},  // odd widths
        AttentionCase{{0, 2, 7, 8}, {0, 2, 7, 8}, {0, 2, 7, 8}, {}, {}, false},
        AttentionCase{{1, 2, 3, 0}, {1, 2, 5, 0}, {1, 2, 5, 4}, {}, {}, false},
        AttentionCase{{1, 1, 3, 4}, {1, 1, 0, 4}, {1, 1, 0, 4}, {}, {}, false}})
    forFastTypes([&](DType type) { expectAttentionMatches(row, type); });
}

/// Several blocks of queries and keys, the last ones partial; with more queries than keys some see none.
TEST(FastAttention, andGradientOfManyBlocks) {
  for (const AttentionCase &row : {AttentionCase{{1, 1, 300, 8}, {1, 1, 300, 8}, {1, 1, 300, 8}, {}, {}, true},
                                   AttentionCase{{1, 1, 130, 8}, {1, 1, 550, 8}, {1, 1, 550, 8}, {}, {}, true},
                                   AttentionCase{{1, 1, 400, 8}, {1, 1, 261, 8}, {1, 1, 261, 8}, {}, {}, true},
                                   AttentionCase{{1, 2, 131, 8}, {1, 1, 513, 8}, {1, 1, 513, 8}, {}, {}, false}})
    forFastTypes([&](DType type) { expectAttentionMatches(row, type); });
}

TEST(FastAttention, takesMasksOfAnyBroadcastShape) {
  for (const Ints &mask :
       {Ints{2, 2, 20, 41}, Ints{1, 2, 1, 41}, Ints{2, 1, 20, 1}, Ints{1, 1, 1, 1}, Ints{1, 1, 20, 41}})
    for (bool causal : {false, true})
      forFastTypes([&](DType type) {
        for (DType of : {DType::boolean, DType::f32, type})
          expectAttentionMatches({{2, 2, 20, 8}, {2, 1, 41, 8}, {2, 1, 41, 8}, mask, of, causal}, type);
      });
}

/// What earlier blocks have is nothing, or is scaled down by a larger score, at the borders of blocks.
TEST(FastAttention, carriesMaximaOverBlocksOfKeys) {
  const AttentionCase row{{1, 1, 5, 8}, {1, 1, 600, 8}, {1, 1, 600, 8}, {1, 1, 5, 600}, DType::f32, false};
  Value mask({DType::f32, row.mask});
  for (int64_t i = 0; i < 5; ++i)
    for (int64_t j = 0; j < 600; ++j) {
      const bool isSeen = i == 0 ? j >= 256 : i == 1 ? j == 599 : i == 2 ? j < 3 : i == 3; // the last row: nothing
      mask.set(size_t(i * 600 + j), !isSeen ? -kInfinity : i == 3 ? static_cast<double>(j) * 0.1 : 0);
    }
  forFastTypes([&](DType type) { expectAttentionMatches(row, type, &mask); });
}

TEST(FastAttention, masksWholeRows) {
  Value q = random(DType::f32, {1, 1, 3, 4}, 1), mask = boolean({1, 1, 3, 3}, {1, 0, 1, 0, 0, 0, 1, 1, 1});
  Call forward{"attention", {q, q, q, mask}, {Value(q.type), Value({DType::f32, {1, 1, 3}})}, {{"scale", 1.0}}};
  expectFastMatches(forward, 1e-6, Bits::always);
  auto results = run(forward, false);
  ASSERT_TRUE(results.ok());
  EXPECT_EQ((*results)[1].get(1), -kInfinity);
  Call backward{"attention_grad",
                {q, q, q, q, (*results)[0], (*results)[1], mask},
                {Value(q.type), Value(q.type), Value(q.type)},
                {{"scale", 1.0}}};
  expectFastMatches(backward, 1e-6, Bits::always);
}

TEST(FastAttention, passesNanOn) {
  for (DType type : {DType::f32, DType::bf16}) {
    Value q = random(type, {1, 1, 3, 4}, 1), k = random(type, {1, 1, 300, 4}, 2);
    q.set(5, std::nan("")); // of the second query
    auto results = run({"attention", {q, k, k}, {Value(q.type), Value({DType::f32, {1, 1, 3}})}}, false);
    ASSERT_TRUE(results.ok());
    for (size_t i = 0; i < 12; ++i)
      EXPECT_EQ(std::isnan((*results)[0].get(i)), i / 4 == 1) << i;
  }
}

/// Bytes of all operands and of the workspace.
int64_t bytesOf(const char *name, int64_t heads, int64_t length, DType type) {
  const TensorType head{type, {1, heads, length, 64}}, lse{DType::f32, {1, heads, length}};
  KernelSpec spec;
  spec.name = name;
  if (spec.name == "attention") {
    spec.operands = {head, head, head, head, lse};
    spec.numInputs = 3;
  } else {
    spec.operands = {head, head, head, head, head, lse, head, head, head};
    spec.numInputs = 6;
  }
  int64_t bytes = workspaceBytes(spec, Target::cpu);
  for (const TensorType &operand : spec.operands)
    bytes += operand.numBytes();
  return bytes;
}

TEST(FastAttention, hasMemoryLinearInTheLength) {
  for (const char *name : {"attention", "attention_grad"})
    for (DType type : {DType::f32, DType::bf16}) {
      EXPECT_LT(bytesOf(name, 4, 32768, type), int64_t(1) << 30) << name;
      EXPECT_LE(bytesOf(name, 1, 1 << 20, type), 2 * bytesOf(name, 1, 1 << 19, type)) << name;
    }
}

/// Equal keys average the values that a query sees: here those before it count up.
TEST(FastAttention, runsOnLongSequences) {
  const int64_t length = 8192;
  for (DType type : {DType::f32, DType::bf16}) {
    Value q = random(type, {1, 1, length, 8}, 1), k({type, {1, 1, length, 8}}), v = k;
    for (int64_t i = 0; i < length * 8; ++i) {
      k.set(size_t(i), 0.5);
      v.set(size_t(i), static_cast<double>(i / 8 % 2));
    }
    Call call{"attention", {q, k, v}, {Value(q.type), Value({DType::f32, {1, 1, length}})}, {{"causal", kOne}}};
    call.threads = 2;
    auto results = run(call, false);
    ASSERT_TRUE(results.ok());
    for (int64_t i = 0; i < length; i += 97)
      ASSERT_NEAR((*results)[0].get(size_t(i * 8 + 3)), static_cast<double>((i + 1) / 2) / static_cast<double>(i + 1),
                  1e-5 + roundingOf(type))
          << i;
  }
}

} // namespace
} // namespace zc::test
