//===- AttentionTensors.h - where attention's tensors are -----------------------------------===//
//
// What readAttention and readAttentionGrad say of a spec's shapes holds of what it sees through views as well. Here is
// where that is: rows of heads anywhere in the step's operands, each in one piece, and all else as it is.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "kernels/Views.h"
#include "kernels/shapes/Shapes.h"

#include <algorithm>

namespace zc::shapes {

/// A tensor [batch, heads, rows, depth] inside of an operand, in elements.
struct HeadTensor {
  size_t operand;
  int64_t offset, batch, head, row; ///< strides
  int64_t at(int64_t b, int64_t h, int64_t i) const { return offset + b * batch + h * head + i * row; }
};

struct AttentionTensors {
  HeadTensor query, key, value, result;
  size_t lse; ///< operand
};
struct AttentionGradTensors {
  HeadTensor grad, query, key, value, output, dQuery, dKey, dValue;
  size_t dMask; ///< operand, if the spec has it
};

/// Tensors of heads, by their places among what the kernel sees.
using HeadPlaces = std::vector<std::pair<size_t, HeadTensor *>>;

/// Sets them. Errors: rows that are not in one piece, or others that are not seen as they are (corrupt plan).
inline Status locate(const SeenSpec &seen, const HeadPlaces &heads) {
  for (size_t i = 0; i < seen.views.size(); ++i) {
    const StridedView &view = seen.views[i];
    auto found = std::find_if(heads.begin(), heads.end(), [&](const auto &head) { return head.first == i; });
    auto isBackwards = [&](size_t d) { return view.sizes[d] > 1 && view.strides[d] < 0; };
    bool isTaken = found == heads.end() ? view.offset == 0 && view.isContiguous()
                                        : (view.sizes[3] <= 1 || view.strides[3] == 1) && !isBackwards(0) &&
                                              !isBackwards(1) && !isBackwards(2);
    if (!isTaken)
      return wrongSpec(seen.spec, "views of heads, forwards, whose rows are each in one piece, and of nothing else");
    if (found != heads.end())
      *found->second = {view.tensor, view.offset, view.strides[0], view.strides[1], view.strides[2]};
  }
  return {};
}

/// Of a spec that readAttention takes.
inline Result<AttentionTensors> readAttentionTensors(const KernelSpec &spec) {
  Result<SeenSpec> seen = throughViews(spec);
  ZC_RETURN_IF_ERROR(seen.status());
  AttentionTensors t{};
  const size_t out = spec.numInputs;
  ZC_RETURN_IF_ERROR(locate(*seen, {{0, &t.query}, {1, &t.key}, {2, &t.value}, {out, &t.result}}));
  t.lse = seen->views[out + 1].tensor;
  return t;
}

/// Of a spec that readAttentionGrad takes; its lse is operand 5.
inline Result<AttentionGradTensors> readAttentionGradTensors(const KernelSpec &spec) {
  Result<SeenSpec> seen = throughViews(spec);
  ZC_RETURN_IF_ERROR(seen.status());
  AttentionGradTensors t{};
  const size_t out = spec.numInputs;
  ZC_RETURN_IF_ERROR(locate(*seen, {{0, &t.grad},
                                    {1, &t.query},
                                    {2, &t.key},
                                    {3, &t.value},
                                    {4, &t.output},
                                    {out, &t.dQuery},
                                    {out + 1, &t.dKey},
                                    {out + 2, &t.dValue}}));
  if (seen->views.size() > out + 3)
    t.dMask = seen->views[out + 3].tensor;
  return t;
}

} // namespace zc::shapes
