#include "kernels/shapes/HeadShapes.h"
#include "kernels/Workspace.h"

#include <algorithm>

namespace zc::shapes {

namespace {

/// Whether operands have the types that `s` says.
struct HeadTypes {
  const KernelSpec &spec;
  HeadShape &s;

  bool isLayer() const {
    const TensorType &input = spec.operands[s.inputAt()], &weight = spec.operands[s.weightAt()];
    s.dtype = input.dtype;
    if (!isComputeFloat(s.dtype) || weight.dtype != s.dtype || input.dims.size() != 2 || weight.dims.size() != 2)
      return false;
    s.rows = input.dims[0];
    s.width = input.dims[1];
    s.classes = weight.dims[s.transWeight ? 0 : 1];
    return weight.dims[s.transWeight ? 1 : 0] == s.width &&
           Workspace::times(s.rows, s.classes, s.width) < int64_t(1) << 60 &&
           Workspace::times(s.rows, s.classes) < int64_t(1) << 56 &&
           (!s.hasBias || spec.operands[s.biasAt()] == TensorType{s.dtype, {s.classes}});
  }

  bool isLabelled() const {
    const TensorType &labels = spec.operands[s.labelsAt()];
    s.label = labels.dtype;
    s.stat = spec.operands[s.resultsAt()].dtype;
    const TensorType result{s.stat, s.isEach ? Dims{s.rows} : Dims{}};
    auto isResult = [&](size_t first) {
      return std::count(spec.operands.begin() + first, spec.operands.begin() + first + s.resultsOf(), result) ==
             static_cast<std::ptrdiff_t>(s.resultsOf());
    };
    return isIndex(s.label) && labels.dims == Dims{s.rows} && isResult(s.resultsAt()) &&
           (s.stat == DType::f32 || (s.stat == DType::f64 && s.dtype == DType::f64)) && (!s.isGrad || isResult(0)) &&
           (!s.isEach || spec.operands[s.sharesAt()] == TensorType{s.stat, {s.classes}});
  }

  bool hasGradients() const {
    if (!s.isGrad)
      return true;
    const size_t ofLayer = s.isFrozen ? 0 : s.hasBias ? 2 : 1;
    const auto gradients = spec.operands.begin() + s.gradientsAt();
    return spec.operands.size() == s.gradientsAt() + 1 + ofLayer && *gradients == spec.operands[s.inputAt()] &&
           std::equal(gradients + 1, spec.operands.end(), spec.operands.begin() + s.weightAt());
  }
};

} // namespace

static Result<HeadShape> read(const KernelSpec &spec, bool isEach, bool isGrad) {
  HeadShape s{};
  s.isEach = isEach;
  s.isGrad = isGrad;
  s.tf32 = spec.tf32;
  s.cap = spec.getReal("cap", 0);
  s.isFrozen = spec.getInt("frozen", 0) != 0;
  s.transWeight = spec.getInt("trans_weight", 0) != 0;
  const size_t least = s.resultsAt(), results = s.resultsOf(); // of inputs
  s.hasBias = spec.numInputs == least + 1;
  Check check(spec);
  check.counts(least, least + 1, results + (isGrad ? 1 : 0), results + (isGrad ? 3 : 0));
  const HeadTypes types{spec, s};
  int64_t chunk = spec.getInt("chunk", 0);
  ZC_RETURN_IF_ERROR(
      check
          .that([&] { return types.isLayer(); }, "input [N,K], a weight that multiplies, a bias [C], of one float type")
          .that([&] { return types.isLabelled(); },
                isEach ? "labels [N], and shares [C] and results [N] in fp32" : "labels [N], and a scalar loss in fp32")
          .that([&] { return types.hasGradients(); }, "gradients of the operands' types")
          .that([&] { return chunk >= 1; }, "a chunk of at least one row")
          .that([&] { return !spec.has("cap") || isLogitCap(s.cap); }, "a cap above 0")
          .done());
  s.chunk = std::max<int64_t>(1, std::min(chunk, s.rows));
  s.ignoreIndex = spec.getInt("ignore_index", -100);
  s.sum = spec.getInt("sum", 0) != 0;
  return s;
}

Result<HeadShape> readHead(const KernelSpec &spec) { return read(spec, false, false); }
Result<HeadShape> readHeadGrad(const KernelSpec &spec) { return read(spec, false, true); }
Result<HeadShape> readLogHead(const KernelSpec &spec) { return read(spec, true, false); }
Result<HeadShape> readLogHeadGrad(const KernelSpec &spec) { return read(spec, true, true); }

static const Attribute kSet = int64_t(1);

static TensorType weightOf(const HeadShape &s) {
  return {s.dtype, s.transWeight ? Dims{s.classes, s.width} : Dims{s.width, s.classes}};
}
static TensorType rowsOf(const HeadShape &s, int64_t rows, int64_t columns) { return {s.dtype, {rows, columns}}; }

KernelSpec logitsOf(const HeadShape &s, int64_t rows) {
  KernelSpec spec;
  spec.name = "matmul";
  spec.tf32 = s.tf32;
  spec.operands = {rowsOf(s, rows, s.width), weightOf(s)};
  if (s.hasBias)
    spec.operands.push_back({s.dtype, {s.classes}});
  spec.numInputs = spec.operands.size();
  spec.operands.push_back(rowsOf(s, rows, s.classes));
  if (s.transWeight)
    spec.attributes["trans_rhs"] = kSet;
  return spec;
}

KernelSpec lossOf(const HeadShape &s, int64_t rows) {
  KernelSpec spec;
  spec.name = "cross_entropy";
  spec.operands = {rowsOf(s, rows, s.classes), {s.label, {rows}}, {s.stat, {}}, {s.stat, {rows}}};
  spec.numInputs = 2;
  spec.attributes = {{"ignore_index", s.ignoreIndex}, {"sum", kSet}};
  return spec;
}

KernelSpec logitsGradOf(const HeadShape &s, int64_t rows) {
  KernelSpec spec;
  spec.name = "cross_entropy_grad";
  TensorType logits = rowsOf(s, rows, s.classes);
  spec.operands = {{s.stat, {}}, logits, {s.label, {rows}}, {s.stat, {rows}}, logits};
  spec.numInputs = 4;
  spec.attributes = {{"ignore_index", s.ignoreIndex}, {"sum", kSet}};
  spec.inPlace = {{1, 4}};
  return spec;
}

KernelSpec inputGradOf(const HeadShape &s, int64_t rows) {
  KernelSpec spec;
  spec.name = "matmul";
  spec.tf32 = s.tf32;
  spec.operands = {rowsOf(s, rows, s.classes), weightOf(s), rowsOf(s, rows, s.width)};
  spec.numInputs = 2;
  if (!s.transWeight)
    spec.attributes["trans_rhs"] = kSet;
  return spec;
}

KernelSpec weightGradOf(const HeadShape &s, int64_t rows, bool adds) {
  KernelSpec spec;
  spec.name = "matmul_part";
  spec.tf32 = s.tf32;
  spec.operands = {rowsOf(s, rows, s.classes), rowsOf(s, rows, s.width)};
  if (!s.transWeight)
    std::swap(spec.operands[0], spec.operands[1]);
  TensorType sums = weightOf(s);
  sums.dtype = s.widens() ? DType::f32 : s.dtype;
  if (adds) {
    spec.operands.push_back(sums);
    spec.inPlace = {{2, 3}};
  }
  spec.numInputs = spec.operands.size();
  spec.operands.push_back(sums);
  int64_t whole = Workspace::times(s.rows, s.classes, s.width);
  spec.attributes = {{"trans_lhs", kSet}, {"whole", std::max<int64_t>(1, whole)}};
  return spec;
}

HeadPieces::HeadPieces(const HeadShape &s) {
  auto needs = [&](const KernelSpec &spec) { scratch = std::max(scratch, workspaceBytes(spec, Target::cpu)); };
  for (int64_t rows : {s.chunk, s.rows % s.chunk}) {
    needs(logitsOf(s, rows));
    if (!s.isGrad)
      continue;
    needs(inputGradOf(s, rows));
    if (s.isFrozen)
      continue;
    needs(weightGradOf(s, rows, false));
    needs(weightGradOf(s, rows, true));
  }
  logits = Workspace::times(s.chunk, s.classes);
  lse = s.chunk;
  losses = s.cap == 0 || s.isEach ? 0 : s.chunk;
  weightSums = s.widens() ? Workspace::times(s.classes, s.width) : 0;
  biasSums = s.trainsLayer() && s.hasBias ? s.classes : 0;
  if (s.chunk < s.rows && !s.isEach) {
    places = labels = s.chunk;
    inputs = Workspace::times(s.chunk, s.width);
    inputGrads = s.isGrad ? inputs : 0;
  }
}

int64_t HeadPieces::bytes(const HeadShape &s) const {
  int64_t total = Workspace::sum(Workspace::bytesOf<char>(scratch), Workspace::bytesOf<int64_t>(places),
                                 Workspace::bytesOf(labels, static_cast<size_t>(sizeOf(s.label))));
  for (int64_t elements : {logits, inputs, inputGrads})
    total = Workspace::sum(total, Workspace::bytesOf(elements, static_cast<size_t>(sizeOf(s.dtype))));
  for (int64_t floats : {lse, losses, weightSums, biasSums})
    total = Workspace::sum(total, Workspace::bytesOf<float>(floats));
  return total;
}

} // namespace zc::shapes
