#include "kernels/cpu/Products.h"
#include "kernels/cpu/Tiles.h"
#include "kernels/shapes/HeadShapes.h"
#include "kernels/shapes/LinearParts.h"

#include <algorithm>
#include <charconv>

namespace zc {

using namespace cpu;

namespace cpu {
ProductShape productOf(const MatmulShape &s, int threads) {
  return {s.dtype, s.transLhs, s.transRhs, s.numBatches, s.m, s.n, s.k, threads};
}
} // namespace cpu

static std::string spell(const ProductShape &s, const std::string &between, const char *batch) {
  std::string text =
      std::string(nameOf(s.type)) + between + (s.transLhs ? "t" : "n") + (s.transRhs ? "t" : "n") + between;
  text += std::to_string(s.m) + "x" + std::to_string(s.n) + "x" + std::to_string(s.k);
  return s.batch == 1 ? text : text + batch + std::to_string(s.batch);
}
std::string nameOf(const ProductShape &shape) { return spell(shape, " ", " x"); }
std::string textOf(const ProductShape &shape) { return spell(shape, ":", ":"); }

/// A positive number in front of `text`, which then begins behind it and `end`.
static bool takeNumber(std::string_view &text, char end, int64_t &value) {
  auto [at, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc() || value < 1 || value > std::numeric_limits<int32_t>::max())
    return false;
  text.remove_prefix(static_cast<size_t>(at - text.data()));
  if (text.empty() || text[0] != end)
    return false;
  text.remove_prefix(1);
  return true;
}

Result<ProductShape> productFromText(const std::string &whole) {
  ProductShape shape;
  std::string padded = whole + ":";
  std::string_view text = padded;
  auto word = [&] {
    std::string_view found = text.substr(0, text.find(':'));
    text.remove_prefix(std::min(text.size(), found.size() + 1));
    return found;
  };
  const std::string_view type = word(), factors = word();
  bool isRead = false;
  for (DType each : {DType::f32, DType::bf16, DType::f16})
    if (type == nameOf(each)) {
      shape.type = each;
      isRead = true;
    }
  isRead &= factors.size() == 2 && factors.find_first_not_of("nt") == factors.npos;
  shape.transLhs = isRead && factors[0] == 't';
  shape.transRhs = isRead && factors[1] == 't';
  isRead = isRead && takeNumber(text, 'x', shape.m) && takeNumber(text, 'x', shape.n) &&
           takeNumber(text, ':', shape.k) && (text.empty() || takeNumber(text, ':', shape.batch)) && text.empty();
  // Matrices have bytes that can be counted, and products steps.
  auto areCountable = [&](int64_t rows, int64_t columns) {
    return Workspace::times(shape.batch, rows * columns) <= kMaxElements;
  };
  isRead = isRead && areCountable(shape.m, shape.k) && areCountable(shape.k, shape.n) &&
           areCountable(shape.m, shape.n) && shape.flops() < 0x1p62;
  if (!isRead)
    return makeError(Code::usage, 713, "\"" + whole.substr(0, 100) + "\" is not TYPE:FACTORS:MxNxK[:BATCH]", {},
                     "as in bf16:nt:1024x768x3072, factors n(ot) or t(ransposed); of f32, bf16 or f16");
  return shape;
}

KernelSpec specOf(const ProductShape &s) {
  auto matrix = [&](int64_t rows, int64_t columns, bool isTransposed) {
    Dims dims = isTransposed ? Dims{columns, rows} : Dims{rows, columns};
    if (s.batch > 1)
      dims.insert(dims.begin(), s.batch);
    return TensorType{s.type, dims};
  };
  KernelSpec spec;
  spec.name = "matmul";
  spec.operands = {matrix(s.m, s.k, s.transLhs), matrix(s.k, s.n, s.transRhs), matrix(s.m, s.n, false)};
  spec.numInputs = 2;
  spec.threads = s.threads;
  if (s.transLhs)
    spec.attributes["trans_lhs"] = int64_t(1);
  if (s.transRhs)
    spec.attributes["trans_rhs"] = int64_t(1);
  return spec;
}

static std::vector<ProductShape> ofHead(const HeadShape &head, int threads) {
  std::vector<ProductShape> found;
  for (int64_t rows : {head.chunk, head.rows % head.chunk}) {
    if (rows == 0)
      continue;
    std::vector<KernelSpec> parts = {logitsOf(head, rows)};
    if (head.isGrad)
      parts.push_back(inputGradOf(head, rows));
    if (head.trainsLayer())
      parts.push_back(weightGradOf(head, rows, true));
    for (KernelSpec &part : parts) {
      part.threads = threads;
      for (const ProductShape &shape : productsOf(part))
        found.push_back(shape);
    }
  }
  return found;
}

/// Null of other kernels.
static Result<HeadShape> (*readerOfHead(const std::string &name))(const KernelSpec &) {
  return name == "linear_cross_entropy"        ? readHead
         : name == "linear_cross_entropy_grad" ? readHeadGrad
         : name == "linear_log_softmax"        ? readLogHead
         : name == "linear_log_softmax_grad"   ? readLogHeadGrad
                                               : nullptr;
}

std::vector<ProductShape> productsOf(const KernelSpec &spec) {
  MatmulShape shape;
  bool isOfOrderedWhole = true;
  if (spec.name == "matmul") {
    Result<MatmulShape> read = readMatmul(spec);
    if (!read)
      return {};
    shape = foldedBatch(*read);
  } else if (spec.name == "matmul_part") {
    Result<MatmulPartShape> read = readMatmulPart(spec);
    if (!read)
      return {};
    shape = read->product;
    isOfOrderedWhole = isOrdered(read->whole);
  } else if (auto readSpec = readerOfHead(spec.name)) {
    Result<HeadShape> head = readSpec(spec);
    return head ? ofHead(*head, spec.threads) : std::vector<ProductShape>();
  } else if (spec.name == "linear_gelu_grad") { // of plans for GPUs, on a CPU
    Result<LinearParts> parts = LinearParts::of(spec);
    return parts ? productsOf(parts->product) : std::vector<ProductShape>();
  } else {
    return {};
  }
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  const double multiplications = double(shape.m) * double(shape.n) * double(shape.k);
  if (!isFast(shape.dtype) || shape.numBatches * shape.m * shape.n * shape.k == 0 ||
      std::max({shape.m, shape.n, shape.k}) > kMost ||
      (isOfOrderedWhole && shape.numBatches == 1 && isOrdered(multiplications)))
    return {};
  return {productOf(shape, spec.threads)};
}

} // namespace zc
