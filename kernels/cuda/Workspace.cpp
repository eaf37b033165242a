#include "kernels/cuda/Workspace.h"

namespace zc::cuda {

ReduceCut::ReduceCut(const shapes::ReduceShape &shape)
    : results(shapes::product(shape.kept, 0, shape.kept.size())),
      n(shapes::product(shape.reduced, 0, shape.reduced.size())) {
  areColumns = results >= 32 && !shape.keptStrides.empty() && shape.keptStrides.back() == 1 && n > 1;
  if (areColumns) { // threads for 132 multiprocessors, of which each has a pack of columns
    const int64_t groups = results % kReducePack == 0 ? results / kReducePack : results;
    parts = std::max<int64_t>(1, std::min(n / 64, 256 * 1024 / groups));
  } else {
    parts = std::max<int64_t>(1, std::min(n / 4096, 1024 / std::max<int64_t>(1, results)));
  }
}

NormGradCut::NormGradCut(int64_t rows, int64_t n, int64_t elementBytes, int64_t sums)
    : results(Space::times(sums, n)), parts(rowParts(rows)), heldParts(0) {
  const int64_t pack = 16 / elementBytes;
  const int threads = elementBytes < 8 && n % pack == 0 ? threadsThatHold(n / pack) : 0;
  if (!threads || rows == 0 || n == 0)
    return;
  // Sixteen rows at least for each sum that is written; as many warps as 132 multiprocessors have at work at once.
  heldParts = std::min<int64_t>((rows + 15) / 16, 132 * (threads == 32 ? 12 : 512 / threads));
}

HeadSpace::HeadSpace(const shapes::HeadShape &s)
    : scratch(matmulBytes(Space::times(s.chunk, s.classes))), logits(Space::times(s.chunk, s.classes)),
      losses(s.isEach ? 0 : s.rows), factors(s.isGrad),
      biasParts(s.trainsLayer() && s.hasBias ? std::min<int64_t>(16, (s.chunk + 63) / 64) : 0),
      biasSums(Space::times(biasParts, s.classes)), weightSums(s.widens() ? Space::times(s.classes, s.width) : 0) {
  if (s.isGrad)
    scratch = std::max(scratch, matmulBytes(Space::times(s.chunk, s.width)));
  if (s.trainsLayer())
    scratch = std::max(scratch, matmulBytes(Space::times(s.classes, s.width)));
}

int64_t HeadSpace::bytes(const shapes::HeadShape &s) const {
  int64_t total =
      Space::sum(Space::bytesOf<char>(scratch), Space::bytesOf(logits, static_cast<size_t>(sizeOf(s.dtype))));
  for (int64_t doubles : {losses, factors, biasSums})
    total = Space::sum(total, Space::bytesOf<double>(doubles));
  return Space::sum(total, Space::bytesOf<float>(weightSums));
}

AttentionTiles::AttentionTiles(const shapes::AttentionShape &s)
    : size(s.dtype == DType::f64 ? sizeof(double) : sizeof(float)), rows(Space::times(s.batch, s.heads, s.queries)),
      queryTiles(Space::times(s.batch, s.heads, (s.queries + kAttentionTile - 1) / kAttentionTile)),
      keyTiles(Space::times(s.batch, s.keyHeads, (s.keys + kAttentionTile - 1) / kAttentionTile)),
      queryScores(Space::times(kAttentionTile, s.keys)),
      keyScores(Space::times(2 * kAttentionTile, s.keyHeads ? s.heads / s.keyHeads : 0, s.queries)) {
  auto atOnce = [&](int64_t tiles, int64_t scores) {
    int64_t fit = (int64_t{32} << 20) / std::max<int64_t>(1, Space::times(size, scores));
    return std::max<int64_t>(1, std::min(tiles, fit));
  };
  queriesAtOnce = atOnce(queryTiles, queryScores);
  keysAtOnce = atOnce(keyTiles, keyScores);
}

} // namespace zc::cuda
