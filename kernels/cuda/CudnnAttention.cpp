#include "kernels/cuda/CudnnAttention.h"
#include "kernels/Views.h"
#include "kernels/cuda/Workspace.h"

#include <algorithm>

namespace zc::cuda {

int64_t CudnnAttention::gradBytes(const shapes::AttentionShape &s) {
  using Space = shapes::Workspace;
  auto padded = [](int64_t n, int64_t to) { return (n + to - 1) / to * to; };
  int64_t slopes = Space::times(2, padded(s.queries, 64), padded(s.keys, 128)), sums = Space::times(4, s.queries);
  int64_t ofGroups = // dK and dV of each query head
      s.heads > s.keyHeads ? Space::times(2, s.keys, Space::sum(s.depth, s.valueDepth)) : 0;
  return Space::sum(Space::times(s.batch, s.heads, Space::sum(slopes, sums, ofGroups)), 256);
}

namespace {

/// The deepest heads of which ours is the faster one, of what tensor cores take (isOnTensorCores): forward, gradient.
/// None, as long as nobody has measured it beside cuDNN's: zc-gpu-bench attention. Of deeper heads than these a warp
/// holds half as many rows, and reads all that passes twice as often.
constexpr int64_t kOursIsFasterTo[] = {0, 0}, kMayBeFasterTo = 64;
static_assert(kOursIsFasterTo[0] <= kMayBeFasterTo && kOursIsFasterTo[1] <= kMayBeFasterTo);

bool isOursFaster(AttentionPass pass, const shapes::AttentionShape &s) {
  return isOnTensorCores(s) && std::max(s.depth, s.valueDepth) <= kOursIsFasterTo[size_t(pass)];
}

bool isTaken(const shapes::AttentionShape &s) {
  bool isHalf = s.dtype == DType::bf16 || s.dtype == DType::f16;
  bool isThere = s.batch && s.heads && s.queries && s.keys && s.depth && s.valueDepth;
  // Rows that see no key are 0 with us; masks go with positions where queries and keys have the same.
  bool seesKeys = (!s.causal && s.window == 0) || (s.hasMask ? s.queries == s.keys : s.queries <= s.keys);
  // A product with no scale or a negative one, of what is masked before, would be no number, or shown.
  bool isScaled = s.scale > 0;
  bool adds = !s.hasMask || s.mask == DType::f32 || s.mask == s.dtype;
  return isHalf && isThere && seesKeys && isScaled && adds && !s.hasMaskGrad && s.dropout == 0 && s.softcap == 0 &&
         s.stat == DType::f32 && s.depth % 8 == 0 && s.valueDepth == s.depth && s.depth <= 128 &&
         std::max(s.queries, s.keys) <= (1 << 20);
}

/// Do all rows begin with 16 bytes that are loaded at once?
bool isAligned(const StridedView &view) {
  for (size_t d = 0; d < 3; ++d)
    if (view.sizes[d] > 1 && view.strides[d] % 8)
      return false;
  return view.strides[3] == 1 && view.offset % 8 == 0;
}

/// What the tensors of a kernel are, in its description's order.
enum class Role { queries, keys, mask, sums };
std::vector<Role> rolesOf(AttentionPass pass, bool hasMask) {
  using R = Role;
  std::vector<Role> roles = pass == AttentionPass::forward
                                ? std::vector<Role>{R::queries, R::keys, R::keys, R::queries, R::sums}
                                : std::vector<Role>{R::queries, R::queries, R::keys, R::keys, R::queries,
                                                    R::sums,    R::queries, R::keys, R::keys};
  if (hasMask)
    roles.insert(roles.begin() + (pass == AttentionPass::forward ? 3 : 6), R::mask);
  return roles;
}

/// Of the mask's own extents: 1 where it is the same along a dimension.
void setMask(CudnnHeads &tensor, const shapes::AttentionShape &s) {
  tensor.dims = {s.batch, s.heads, s.queries, s.keys};
  for (size_t d = 4; d-- > 0;) {
    const bool isSame = s.maskStrides[d] == 0;
    tensor.dims[d] = isSame ? 1 : tensor.dims[d];
    tensor.strides[d] = !isSame ? s.maskStrides[d] : d == 3 ? 1 : tensor.dims[d + 1] * tensor.strides[d + 1];
  }
}

CudnnHeads locate(Role role, const StridedView &view, int64_t size, const shapes::AttentionShape &s) {
  CudnnHeads tensor{};
  tensor.operand = view.tensor;
  tensor.offset = view.offset * size;
  if (role == Role::mask) {
    setMask(tensor, s);
    tensor.batchStep = s.maskStrides[0] * s.batch * size;
    tensor.headStep = s.maskStrides[1] * s.heads * size;
    return tensor;
  }
  tensor.dims = {s.batch, role == Role::keys ? s.keyHeads : s.heads, view.sizes[2], 1};
  tensor.strides = {view.strides[0], view.strides[1], view.strides[2], 1};
  if (role != Role::sums)
    tensor.dims[3] = view.sizes[3];
  tensor.batchStep = tensor.dims[0] * tensor.strides[0] * size;
  tensor.headStep = tensor.dims[1] * tensor.strides[1] * size;
  if (tensor.dims[0] == 1) // cuDNN before 9.26 wants sums without gaps, even where no sample follows
    tensor.strides[0] = tensor.dims[1] * tensor.strides[1];
  return tensor;
}

} // namespace

bool CudnnAttention::cut() {
  constexpr int64_t kMostAtOnce = int64_t(256) << 20, kMost = int64_t(1) << 30;
  const shapes::AttentionShape whole = shape;
  bool isFound = false;
  // Heads that share keys stay together; parts of heads are of one sample, so that their sums have no gaps.
  for (int64_t ofHeads = 1; ofHeads <= whole.keyHeads; ++ofHeads)
    for (int64_t ofBatch = 1; ofBatch <= whole.batch; ++ofBatch) {
      if (whole.keyHeads % ofHeads || whole.batch % ofBatch || (ofHeads > 1 && ofBatch < whole.batch) ||
          (isFound && ofHeads * ofBatch >= calls()))
        continue;
      shapes::AttentionShape part = whole;
      part.batch /= ofBatch;
      part.heads /= ofHeads;
      part.keyHeads /= ofHeads;
      const bool isSmallest = part.batch == 1 && part.keyHeads == 1;
      if (gradBytes(part) > (isSmallest && !isFound ? kMost : kMostAtOnce))
        continue;
      isFound = true;
      shape = part;
      batchParts = ofBatch;
      headParts = ofHeads;
    }
  return isFound;
}

std::optional<CudnnAttention> CudnnAttention::of(const KernelSpec &spec) {
  const AttentionPass pass = spec.name == "attention_grad" ? AttentionPass::gradient : AttentionPass::forward;
  Result<shapes::AttentionShape> whole =
      pass == AttentionPass::gradient ? shapes::readAttentionGrad(spec) : shapes::readAttention(spec);
  if (!whole || !isTaken(*whole))
    return std::nullopt;
  CudnnAttention made(pass, *whole);
  if (pass == AttentionPass::gradient && !made.cut())
    return std::nullopt;
  Result<SeenSpec> seen = throughViews(spec);
  const std::vector<Role> roles = rolesOf(pass, whole->hasMask);
  for (size_t i = 0; i < roles.size(); ++i) {
    const StridedView &view = seen->views[i];
    const bool isHeads = roles[i] == Role::queries || roles[i] == Role::keys;
    if (isHeads ? !isAligned(view) : view.offset != 0 || !view.isContiguous())
      return std::nullopt;
    made.tensors.push_back(locate(roles[i], view, sizeOf(seen->spec.operands[i].dtype), made.shape));
  }
  return made;
}

std::optional<CudnnAttention> CudnnAttention::chosen(const KernelSpec &spec) {
  std::optional<CudnnAttention> made = of(spec);
  const bool isAsked = spec.getInt("own", 0) != 0;
  const bool isOurs = made && (isOursFaster(made->pass, made->shape) || (isAsked && isOnTensorCores(made->shape)));
  return isOurs ? std::nullopt : std::move(made);
}

std::vector<int64_t> CudnnAttention::offsetsOf(int64_t call) const {
  std::vector<int64_t> offsets;
  for (const CudnnHeads &tensor : tensors)
    offsets.push_back(tensor.offset + call / headParts * tensor.batchStep + call % headParts * tensor.headStep);
  return offsets;
}

} // namespace zc::cuda
