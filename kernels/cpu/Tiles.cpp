#include "kernels/cpu/Tiles.h"
#include "kernels/cpu/Products.h"

#include <algorithm>
#include <utility>

namespace zc::cpu {

int tilesFor(int64_t tileBytes, int64_t tasks) {
  constexpr int64_t room = int64_t(32) << 20;
  int64_t fitting = std::clamp<int64_t>(room / std::max<int64_t>(tileBytes, 1), 2, 16);
  return static_cast<int>(std::clamp<int64_t>(tasks, 1, fitting));
}

ProductTile::ProductTile(const MatmulShape &s) {
  int64_t m = std::min(s.m, kBlock), n = std::min(s.n, kBlock), k = std::min(s.k, kBlock);
  lhs = m * k;
  rhs = k * n;
  sums = m * n;
}

int ProductTile::tiles(const MatmulShape &s) {
  int64_t panels = quotientUp(std::max(s.m, s.n), kPanel);
  return tilesFor(ProductTile(s).bytes(), Workspace::times(panels, s.numBatches));
}

Bf16Blocks::Bf16Blocks(const MatmulShape &s)
    : passes(std::max<int64_t>(1, quotientUp(s.k, kMostTerms))), terms(roundUp(quotientUp(s.k, passes), kTermStep)),
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

int64_t productBytes(const MatmulPartShape &part, bool isSummedInOrder) {
  const MatmulShape &s = part.product;
  if (!isFast(s.dtype))
    return 0;
  if (isSummedInOrder) {
    OrderedPieces pieces(part);
    return Workspace::sum(Workspace::bytesOf<float>(pieces.lhs), Workspace::bytesOf<float>(pieces.rhs),
                          Workspace::bytesOf<float>(pieces.sums));
  }
  if (s.dtype == DType::f32)
    return Workspace::bytesOf<float>(DepthSums::floats(s));
  const int64_t widened = Workspace::times(ProductTile(s).bytes(), ProductTile::tiles(s));
  return s.dtype == DType::bf16 && s.numBatches == 1 ? std::max(widened, Bf16Blocks(s).bytes()) : widened;
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
  normals = places.take(rows);
  staging = places.take(kTileColumns, std::max(depth, valueDepth));
  factorStride = dropoutWidth(s, columns);
  factors = places.take(2, factorStride);
  growthStride = s.softcap == 0 ? 0 : columns;
  growth = places.take(2, growthStride);
  floats = places.total();
}

} // namespace zc::cpu
