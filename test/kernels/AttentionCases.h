//===- AttentionCases.h - attention and its gradient against the plain ones --------------===//
#pragma once

#include "test/kernels/FastTest.h"

namespace zc::test {

struct AttentionCase {
  Ints query, key, value, mask; ///< no mask: empty
  DType maskType;
  bool causal;
};

inline Value maskOf(const AttentionCase &row) {
  if (row.maskType == DType::boolean)
    return uniform({DType::boolean, row.mask}, 4, 0, 2);
  return random(row.maskType, row.mask, 4, -2, 2);
}

/// Forward and backward; the gradient is given what the plain forward made. `more`: attributes.
inline void expectAttentionMatches(const AttentionCase &row, DType type, const Value *mask = nullptr,
                                   const Attributes &more = {}) {
  Value q = random(type, row.query, 1), k = random(type, row.key, 2), v = random(type, row.value, 3);
  Value y({type, {row.query[0], row.query[1], row.query[2], row.value[3]}});
  Value lse({DType::f32, {row.query[0], row.query[1], row.query[2]}});
  Attributes attributes = more;
  attributes.emplace("scale", 0.3);
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
  const bool mayTrain =
      !row.mask.empty() && row.maskType != DType::boolean && row.mask[2] == row.query[2] && row.mask[3] == row.key[2];
  if (!mayTrain)
    return;
  backward.attributes["mask_grad"] = kOne;
  backward.outputs.push_back(Value({DType::f32, row.mask}));
  expectFastMatches(backward, 1e-5, Bits::always);
}

} // namespace zc::test
