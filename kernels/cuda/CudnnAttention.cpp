#include "kernels/cuda/CudnnAttention.h"

namespace zc::cuda {

int64_t CudnnAttention::gradBytes(const cpu::AttentionShape &s) {
  auto padded = [](int64_t n, int64_t to) { return (n + to - 1) / to * to; };
  int64_t slopes = 2 * padded(s.queries, 64) * padded(s.keys, 128), sums = 4 * s.queries;
  int64_t ofGroups = s.heads > s.keyHeads ? 2 * s.keys * (s.depth + s.valueDepth) : 0; // dK and dV of each query head
  return s.batch * s.heads * (slopes + sums + ofGroups) + 256;
}

CudnnAttention::CudnnAttention(const cpu::AttentionShape &whole, bool isGradient) : shape(whole) {
  constexpr int64_t kMostAtOnce = int64_t(256) << 20, kMost = int64_t(1) << 30;
  const cpu::AttentionShape &s = whole;
  bool isHalf = s.dtype == DType::bf16 || s.dtype == DType::f16;
  bool isThere = s.batch && s.heads && s.queries && s.keys && s.depth && s.valueDepth;
  // Rows that see no key are 0 with us.
  bool seesKeys = !s.causal || s.queries <= s.keys;
  bool adds = !s.hasMask || s.mask == DType::f32 || s.mask == s.dtype;
  if (!isHalf || !isThere || !seesKeys || !adds || s.hasMaskGrad || s.dropout != 0 || s.stat != DType::f32 ||
      s.depth % 8 || s.valueDepth != s.depth || s.depth > 128 || std::max(s.queries, s.keys) > (1 << 20))
    return;
  calls = 1;
  if (!isGradient || gradBytes(s) <= kMostAtOnce)
    return;
  // Heads that share keys stay together, and samples where the mask is not the same for all.
  if (!s.hasMask || (s.maskStrides[0] == 0 && s.maskStrides[1] == 0)) {
    shape.batch = s.batch * s.keyHeads;
    shape.heads = s.heads / s.keyHeads;
    shape.keyHeads = 1;
  }
  int64_t pieces = shape.batch;
  for (calls = 2; calls <= pieces; ++calls) {
    shape.batch = pieces / calls;
    if (pieces % calls == 0 && gradBytes(shape) <= (calls == pieces ? kMost : kMostAtOnce))
      return;
  }
  calls = 0;
}

CudnnAttention CudnnAttention::of(const KernelSpec &spec) {
  bool isGradient = spec.name == "attention_grad";
  Result<cpu::AttentionShape> shape = isGradient ? cpu::readAttentionGrad(spec) : cpu::readAttention(spec);
  return CudnnAttention(shape.ok() ? *shape : cpu::AttentionShape{}, isGradient);
}

std::vector<int64_t> CudnnAttention::strides(const KernelSpec &spec) const {
  size_t mask = !shape.hasMask ? SIZE_MAX : spec.operands.size() > 7 ? 6 : 3; // of the gradient, of attention
  std::vector<int64_t> strides;
  for (size_t i = 0; i < spec.operands.size(); ++i)
    strides.push_back(i == mask && shape.maskStrides[0] == 0 ? 0 : spec.operands[i].numBytes() / calls);
  return strides;
}

} // namespace zc::cuda
