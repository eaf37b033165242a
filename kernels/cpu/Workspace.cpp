#include "kernels/Prologue.h"
#include "kernels/WorkspaceFormulas.h"
#include "kernels/cpu/Chains.h"
#include "kernels/cpu/HeadShapes.h"
#include "kernels/cpu/LinearParts.h"
#include "kernels/cpu/Products.h"
#include "kernels/cpu/Tiles.h"

#include <algorithm>
#include <utility>

namespace zc::cpu {

//===-- tiles --------------------------------------------------------------===//

ProductTile::ProductTile(const MatmulShape &s) {
  int64_t m = std::min(s.m, kBlock), n = std::min(s.n, kBlock), k = std::min(s.k, kBlock);
  lhs = m * k;
  rhs = k * n;
  sums = m * n;
}

int ProductTile::tiles(const MatmulShape &s) {
  int64_t panels = (std::max(s.m, s.n) + kPanel - 1) / kPanel;
  return tilesFor(ProductTile(s).bytes(), Workspace::times(panels, s.numBatches));
}

Bf16Blocks::Bf16Blocks(const MatmulShape &s)
    : passes(std::max<int64_t>(1, (s.k + kMostTerms - 1) / kMostTerms)),
      terms(roundUp((s.k + passes - 1) / passes, kTermStep)),
      rows(passes == 1 ? s.m : std::min(roundUp(s.m, kRowStep), kMostRows)),
      columns(std::clamp(roundUp(s.n, kColumnStep), kColumnStep, kMostColumns)),
      threads(tilesFor(left() * 4, std::max(s.m / kFewestRows, s.n / kColumnStep))) {}

OrderedPieces::OrderedPieces(const MatmulPartShape &part) {
  const MatmulShape &s = part.product;
  bool isWide = s.dtype == DType::f32;
  lhs = isWide ? 0 : Workspace::times(s.m, s.k);
  rhs = isWide && !s.transRhs ? 0 : Workspace::times(s.k, s.n);
  sums = part.out == DType::f32 ? 0 : Workspace::times(s.m, s.n);
}

namespace {
/// Rows of scores of a block, and columns.
int64_t blockRows(const AttentionShape &s) { return roundUp(std::min(kQueryBlock, s.queries), kTileColumns); }
int64_t blockColumns(const AttentionShape &s) { return roundUp(std::min(kKeyBlock, s.keys), kTileColumns); }

/// Pieces one behind the other, each of whole cache lines.
class Places {
public:
  int64_t take(int64_t rows, int64_t width = 1) {
    return std::exchange(end, Workspace::sum(end, Workspace::times(rows, width)));
  }
  int64_t total() const { return end; }

private:
  int64_t end = 0;
};
} // namespace

AttentionPieces::AttentionPieces(const AttentionShape &s)
    : depth(roundUp(s.depth, kTileColumns)), valueDepth(roundUp(s.valueDepth, kTileColumns)), columns(blockColumns(s)),
      parts(attentionParts(s, s.heads)) {
  const int64_t keys = roundUp(s.keys, kTileColumns), rows = blockRows(s);
  Places places;
  keyPanels = places.take(keys, depth);
  valuePanels = places.take(keys, valueDepth);
  queries = places.take(rows, depth);
  scores = places.take(rows, columns);
  sums = places.take(rows, valueDepth);
  tops = places.take(rows);
  totals = places.take(rows);
  staging = places.take(kTileColumns, std::max(depth, valueDepth));
  factors = places.take(dropoutWidth(s, columns));
  floats = places.total();
}

AttentionGradPieces::AttentionGradPieces(const AttentionShape &s)
    : depth(roundUp(s.depth, kTileColumns)), valueDepth(roundUp(s.valueDepth, kTileColumns)), columns(blockColumns(s)),
      parts(std::min(attentionParts(s, s.keyHeads), std::max<int64_t>(1, AttentionGroups(s).groups))) {
  const int64_t keys = roundUp(s.keys, kTileColumns), rows = blockRows(s);
  Places places;
  keysTransposed = places.take(keys, depth);
  valuesTransposed = places.take(keys, valueDepth);
  keyPanels = places.take(keys, depth);
  dKeys = places.take(keys, depth);
  dValues = places.take(keys, valueDepth);
  queries = places.take(rows, depth);
  queryPanels = places.take(rows, depth);
  grads = places.take(rows, valueDepth);
  gradPanels = places.take(rows, valueDepth);
  dQueries = places.take(rows, depth);
  scores = places.take(rows, columns);
  slopes = places.take(rows, columns);
  deltas = places.take(rows);
  staging = places.take(kTileColumns, std::max(depth, valueDepth));
  factorStride = dropoutWidth(s, columns);
  factors = places.take(2, factorStride);
  floats = places.total();
}

namespace {

//===-- of each kernel: the larger of what the plain and the fast version need -------===//

template <typename T> int64_t bytes(int64_t count) { return Workspace::bytesOf<T>(count); }

int64_t ofProduct(const MatmulPartShape &part, bool isSummedInOrder) {
  const MatmulShape &s = part.product;
  if (!isFast(s.dtype))
    return 0;
  if (isSummedInOrder) {
    OrderedPieces pieces(part);
    return Workspace::sum(bytes<float>(pieces.lhs), bytes<float>(pieces.rhs), bytes<float>(pieces.sums));
  }
  if (s.dtype == DType::f32)
    return bytes<float>(DepthSums::floats(s));
  const int64_t widened = Workspace::times(ProductTile(s).bytes(), ProductTile::tiles(s));
  return s.dtype == DType::bf16 && s.numBatches == 1 ? std::max(widened, Bf16Blocks(s).bytes()) : widened;
}

int64_t ofMatmul(const KernelSpec &spec) {
  Result<MatmulShape> read = readMatmul(spec);
  if (!read)
    return 0;
  MatmulShape s = foldedBatch(*read);
  return ofProduct({s, false, s.dtype, 0},
                   s.numBatches == 1 &&
                       isOrdered(static_cast<double>(s.m) * static_cast<double>(s.n) * static_cast<double>(s.k)));
}

int64_t ofLinear(const KernelSpec &spec) {
  Result<LinearParts> parts = LinearParts::of(spec);
  return parts ? ofMatmul(parts->product) : 0;
}

int64_t ofMatmulPart(const KernelSpec &spec) {
  Result<MatmulPartShape> read = readMatmulPart(spec);
  if (!read)
    return 0;
  const MatmulShape &s = read->product;
  return ofProduct(*read, isOrdered(read->whole) && isOrdered(static_cast<double>(s.m) * static_cast<double>(s.n) *
                                                              static_cast<double>(s.k)));
}

template <typename Pieces> int64_t ofTiles(const Pieces &pieces) {
  return bytes<float>(Workspace::times(pieces.floats, pieces.tiles()));
}

int64_t ofAttention(const KernelSpec &spec) {
  Result<AttentionShape> read = readAttention(spec);
  if (!read)
    return 0;
  int64_t plain = Workspace::sum(bytes<double>(read->keys), bytes<double>(read->valueDepth));
  return std::max(plain, isFast(read->dtype) ? ofTiles(AttentionPieces(*read)) : 0);
}

int64_t ofAttentionGrad(const KernelSpec &spec) {
  Result<AttentionShape> read = readAttentionGrad(spec);
  if (!read)
    return 0;
  int64_t plain = Workspace::sum(bytes<double>(read->depth), bytes<double>(Workspace::times(read->keys, read->depth)),
                                 bytes<double>(Workspace::times(read->keys, read->valueDepth)));
  return std::max(plain, isFast(read->dtype) ? ofTiles(AttentionGradPieces(*read)) : 0);
}

int64_t ofHead(const Result<HeadShape> &read) {
  if (!read)
    return 0;
  return std::max(plainHeadBytes(*read), isFast(read->dtype) ? HeadPieces(*read).bytes(*read) : 0);
}

int64_t ofNormGrad(const Result<NormShape> &read, int64_t sums) {
  if (!read)
    return 0;
  return std::max(Workspace::times(sums, bytes<double>(read->n)),
                  isFast(read->dtype) ? bytes<float>(Workspace::times(2, normGradTile(*read), normGradTiles(*read)))
                                      : 0);
}

int64_t ofGatherGrad(const KernelSpec &spec) {
  Result<GatherShape> read = readGatherGrad(spec);
  if (!read)
    return 0;
  const int64_t rows = isFast(read->dtype) ? Workspace::times(gatherGradRows(spec), gatherGradTiles(*read)) : 0;
  return Workspace::sum(ChainPieces::bytes(read->n, read->count), bytes<float>(Workspace::times(read->inner, rows)));
}

int64_t ofGatherNdGrad(const KernelSpec &spec) {
  Result<GatherNdShape> read = readGatherNd(spec, 2, 0);
  return read ? ChainPieces::bytes(Workspace::times(read->batch, read->slices),
                                   Workspace::times(read->batch, read->perBatch))
              : 0;
}

int64_t ofTopK(const KernelSpec &spec) {
  int64_t axis = spec.getInt("axis", -1);
  const Dims &dims = spec.operands[0].dims;
  return axis < 0 || axis >= static_cast<int64_t>(dims.size()) ? 0 : bytes<int64_t>(dims[static_cast<size_t>(axis)]);
}

int64_t tableBytes(const Windows &w) { return bytes<int64_t>(Workspace::times(w.outPlane, w.taps)); }

int64_t ofPool(const Result<PoolShape> &read) { return read ? tableBytes(read->windows) : 0; }

int64_t ofPoolGrad(const Result<PoolShape> &read, bool hasTable) {
  if (!read)
    return 0;
  int64_t plain = Workspace::sum(bytes<double>(read->windows.inPlane), hasTable ? tableBytes(read->windows) : 0);
  bool isNarrow = isFast(read->dtype) && read->dtype != DType::f32;
  if (read->order.channelsLast) {
    int64_t sums = isNarrow ? bytes<float>(Workspace::times(poolBlockTile(*read), poolBlockTiles(*read))) : 0;
    return std::max(plain, Workspace::sum(sums, hasTable ? tableBytes(read->windows) : 0));
  }
  return std::max(plain, isNarrow ? bytes<float>(Workspace::times(read->windows.inPlane, planeTiles(*read))) : 0);
}

int64_t ofBatchNorm(const Result<BatchNormShape> &read) {
  return read && read->channelsLast && isFast(read->dtype) ? BatchNormRows(*read).bytes() : 0;
}

/// A block of what a program computes is there for each part that threads may have.
int64_t ofBatchNormGradSums(const KernelSpec &spec) {
  Result<ProgrammedSpec> seen = throughProgram(spec);
  if (!seen)
    return 0;
  Result<BatchNormShape> read = readBatchNormGradSums(seen->spec);
  int64_t own = ofBatchNorm(read);
  if (own == 0 || !seen->prologue)
    return own;
  BatchNormRows rows(*read);
  return Workspace::sum(own, bytes<float>(Workspace::times(rows.block(), rows.tiles())));
}

/// Does oneDNN compute it on blocked layouts with AVX2 and later, and not as a product of matrices?
bool isDirect(const ConvShape &s) {
  auto isOne = [](int64_t amount) { return amount == 1; };
  auto isSmall = [](int64_t size) { return size <= 7; };
  const Windows &w = s.windows;
  return (s.groups == 1 || (s.inPerGroup() == 1 && s.outPerGroup() == 1)) &&
         std::all_of(w.dilations.begin(), w.dilations.end(), isOne) &&
         std::all_of(w.kernel.begin(), w.kernel.end(), isSmall);
}

/// What oneDNN works in, by what its kernels of 2.6 were seen to ask for: per thread, with 16-bit types, sums of an
/// image in fp32 and a copy of it, of 1x1 windows with strides an image without what they skip, and the columns of one
/// where it multiplies matrices; once, sums of the weights in fp32 per group of threads, few where the weights are
/// large.
int64_t convScratch(const ConvShape &s, bool isBf16, int64_t paddedIn, int64_t paddedOut, int64_t weights) {
  const Windows &w = s.windows;
  const int64_t in = Workspace::times(paddedIn, w.inPlane), out = Workspace::times(paddedOut, w.outPlane);
  int64_t image = Workspace::times(4, std::max(in, out));
  int64_t copies = Workspace::times(2, Workspace::sum(in, out));
  bool skips = w.taps == 1 && w.inPlane > w.outPlane;
  int64_t strided = skips ? Workspace::times(4, Workspace::sum(paddedIn, paddedOut), w.outPlane) : 0;
  int64_t columns = std::min(Workspace::times(4, s.inPerGroup(), w.outPlane, w.taps), int64_t(4) << 20);
  int64_t tile = Workspace::sum(isBf16 ? Workspace::sum(image, copies) : strided, isDirect(s) ? 0 : columns);
  int64_t sums =
      std::min(Workspace::times(8, 4, weights), Workspace::sum(Workspace::times(4, weights), int64_t(8) << 20));
  return Workspace::sum(int64_t(256) << 10, columns, sums, Workspace::times(tile, tilesFor(tile, 16)));
}

/// Where windows are larger than images, oneDNN's gradient of weights with AVX2 is a product of matrices that has
/// weights four times in fp32, per thread.
int64_t smallImageSums(const ConvShape &s, int64_t weights) {
  const Windows &w = s.windows;
  for (size_t i = 0; i < w.in.size(); ++i)
    if (w.in[i] < w.kernel[i])
      return Workspace::times(4, 4, weights);
  return 0;
}

/// The three tensors with channels in blocks of up to 16, and what oneDNN works in. f16 is computed in fp32, bf16 on
/// some CPUs.
int64_t ofConv(const Result<ConvShape> &read, bool isWeightGrad = false) {
  if (!read)
    return 0;
  const ConvShape &s = *read;
  int64_t plain = Workspace::sum(tableBytes(s.windows), bytes<double>(s.windows.inPlane));
  if (!isFast(s.dtype))
    return plain;
  auto padded = [](int64_t channels) { return (channels + 15) / 16 * 16; };
  int64_t in = padded(s.inChannels), out = padded(s.outChannels);
  bool isDepthwise = s.inPerGroup() == 1 && s.groups > 1;
  int64_t filters = isDepthwise ? Workspace::times(padded(s.groups), s.outPerGroup())
                                : Workspace::times(s.groups, padded(s.inPerGroup()), padded(s.outPerGroup()));
  int64_t weights = Workspace::times(filters, s.windows.taps);
  int64_t input = Workspace::times(s.batch, in, s.windows.inPlane);
  int64_t output = Workspace::times(s.batch, out, s.windows.outPlane);
  auto computedIn = [&](DType type) {
    int64_t total = Workspace::sum(convScratch(s, type == DType::bf16, in, out, weights),
                                   isWeightGrad ? smallImageSums(s, weights) : 0);
    for (int64_t elements : {input, output, weights, out + in})
      total = Workspace::sum(total, Workspace::bytesOf(elements, static_cast<size_t>(sizeOf(type))));
    return total;
  };
  int64_t total = computedIn(DType::f32);
  if (s.dtype != DType::f32)
    total = Workspace::sum(total, bytes<float>(std::max({input, output, weights})));
  return std::max({plain, total, s.dtype == DType::bf16 ? computedIn(DType::bf16) : 0});
}

} // namespace

const std::vector<WorkspaceFormula> &workspaceFormulas() {
  static const std::vector<WorkspaceFormula> formulas = {
      {"matmul", ofMatmul},
      {"matmul_part", ofMatmulPart},
      {"linear_gelu_grad", ofLinear},
      {"attention", ofAttention},
      {"attention_grad", ofAttentionGrad},
      {"layer_norm_grad", [](const KernelSpec &spec) { return ofNormGrad(readLayerNormGrad(spec), 2); }},
      {"rms_norm_grad", [](const KernelSpec &spec) { return ofNormGrad(readRmsNormGrad(spec), 1); }},
      {"linear_cross_entropy", [](const KernelSpec &spec) { return ofHead(readHead(spec)); }},
      {"linear_cross_entropy_grad", [](const KernelSpec &spec) { return ofHead(readHeadGrad(spec)); }},
      {"gather_grad", ofGatherGrad},
      {"gather_nd_grad", ofGatherNdGrad},
      {"top_k", ofTopK},
      {"max_pool", [](const KernelSpec &spec) { return ofPool(readMaxPool(spec)); }},
      {"sum_pool", [](const KernelSpec &spec) { return ofPool(readSumPool(spec)); }},
      {"max_pool_grad", [](const KernelSpec &spec) { return ofPoolGrad(readMaxPoolGrad(spec), false); }},
      {"sum_pool_grad", [](const KernelSpec &spec) { return ofPoolGrad(readSumPoolGrad(spec), true); }},
      {"batch_norm", [](const KernelSpec &spec) { return ofBatchNorm(readBatchNorm(spec)); }},
      {"batch_norm_grad", [](const KernelSpec &spec) { return ofBatchNorm(readBatchNormGrad(spec)); }},
      {"batch_norm_statistics", [](const KernelSpec &spec) { return ofBatchNorm(readBatchNormStatistics(spec)); }},
      {"batch_norm_grad_sums", ofBatchNormGradSums},
      {"batch_norm_apply", [](const KernelSpec &spec) { return ofBatchNorm(readBatchNormApply(spec)); }},
      {"conv", [](const KernelSpec &spec) { return ofConv(readConv(spec)); }},
      {"conv_transpose", [](const KernelSpec &spec) { return ofConv(readConvTranspose(spec)); }},
      {"conv_weight_grad", [](const KernelSpec &spec) { return ofConv(readConvWeightGrad(spec), true); }},
  };
  return formulas;
}

} // namespace zc::cpu
