#include "kernels/cpu/fast/MatmulTiles.h"
#include "kernels/cpu/fast/Dnnl.h"
#include "kernels/cpu/fast/Fast.h"
#include "kernels/cpu/fast/TilesBf16.h"

namespace zc::cpu {
namespace {

using namespace bf16;

class MatmulTiles : public Kernel {
public:
  MatmulTiles(const KernelSpec &spec, const MatmulPartShape &shape, ProductCut cut, std::string method)
      : s(shape.product), out(shape.out), hasAddend(shape.hasAddend), byRows(cut == ProductCut::rows), blocks(s),
        threads(std::min(spec.threads, blocks.threads)), text(std::move(method)) {
    Workspace workspace(spec);
    right = workspace.take<uint32_t>(blocks.right());
    sums = workspace.take<float>(blocks.sums());
    left = workspace.take<uint32_t>(blocks.left() * threads);
  }

  Status run(void *const *operands, const StepContext &) override {
    Block block;
    for (block.i0 = 0; block.i0 < s.m; block.i0 = block.i1) {
      block.i1 = std::min(s.m, block.i0 + blocks.rows);
      for (block.j0 = 0; block.j0 < s.n; block.j0 = block.j1) {
        block.j1 = std::min(s.n, block.j0 + blocks.columns);
        for (block.k0 = 0; block.k0 < s.k; block.k0 = block.k1) {
          block.k1 = std::min(s.k, block.k0 + blocks.terms);
          addBlock(operands, block);
        }
      }
    }
    return Status::success();
  }
  std::string method() const override { return text; }

private:
  /// Rows, columns and terms of the product.
  struct Block {
    int64_t i0, i1, j0, j1, k0, k1;
    int64_t units() const { return (k1 - k0 + 1) / 2; }
  };

  void addBlock(void *const *operands, const Block &b) const {
    const Panels panels(b.j1 - b.j0);
    const int64_t rows = b.i1 - b.i0;
    if (!byRows || threads == 1) // who needs a panel packs it
      return parallelParts(threads, panels.count(), 1, [&](int64_t begin, int64_t end, int part) {
        for (int64_t i = 0; i < rows; i += Bf16Blocks::kLeftRows)
          addRows(operands, b, i, std::min(rows, i + Bf16Blocks::kLeftRows), {begin, end}, part, i == 0);
      });
    parallelParts(threads, panels.count(), 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t panel = begin; panel < end; ++panel)
        packRight(operands, b, panels[panel]);
    });
    parallelParts(threads, rows, kRows, [&](int64_t begin, int64_t end, int part) {
      for (int64_t i = begin; i < end; i += Bf16Blocks::kLeftRows)
        addRows(operands, b, i, std::min(end, i + Bf16Blocks::kLeftRows), {0, panels.count()}, part, false);
    });
  }

  uint32_t *panelOf(void *const *operands, const Block &b, const Panel &panel) const {
    return right.of(operands) + panel.begin * b.units();
  }

  /// What a panel is made of.
  Matrix sourceOf(void *const *operands, const Block &b, const Panel &panel) const {
    const int64_t j = b.j0 + panel.begin;
    return {as<Bf16>(operands[1]) + (s.transRhs ? j * s.k + b.k0 : b.k0 * s.n + j), s.transRhs ? s.k : s.n};
  }
  static int64_t columnsOf(const Block &b, const Panel &panel) {
    return std::min(panel.width, b.j1 - b.j0 - panel.begin);
  }

  void packRight(void *const *operands, const Block &b, const Panel &panel) const {
    packPanel(sourceOf(operands, b, panel), s.transRhs, b.k1 - b.k0, columnsOf(b, panel), panel.width,
              panelOf(operands, b, panel));
  }

  /// Rows [begin, end) of a block, counted from its first, and some of its panels, which are packed first if `packs`:
  /// what the next one is made of comes from memory meanwhile.
  void addRows(void *const *operands, const Block &b, int64_t begin, int64_t end, Range range, int part,
               bool packs) const {
    const Panels panels(b.j1 - b.j0);
    int64_t stride = 0;
    const Rows rows = leftRows(operands, b, begin, end, part, stride);
    const int64_t tiles = (end - begin + kRows - 1) / kRows;
    for (int64_t panel = range.begin; panel < range.end; ++panel) {
      if (packs)
        packRight(operands, b, panels[panel]);
      for (int64_t tile = 0; tile < tiles; ++tile) {
        if (const Panel next = panels[panel + 1]; packs && panel + 1 < range.end)
          prefetchPanel(sourceOf(operands, b, next), s.transRhs, b.k1 - b.k0, columnsOf(b, next), tile, tiles);
        const int64_t i = begin + tile * kRows;
        addTile(operands, {rows.at + tile * stride, rows.rowStride, rows.unitStride}, b, i, std::min(kRows, end - i),
                panels[panel]);
      }
    }
  }

  /// The left factor's rows of them: eight are `stride` bytes behind the eight before.
  Rows leftRows(void *const *operands, const Block &b, int64_t begin, int64_t end, int part, int64_t &stride) const {
    const int64_t terms = b.k1 - b.k0, i = b.i0 + begin;
    const Bf16 *source = as<Bf16>(operands[0]) + (s.transLhs ? b.k0 * s.m + i : i * s.k + b.k0);
    if (!s.transLhs && (end - begin) % kRows == 0 && terms % 2 == 0) {
      stride = kRows * s.k * sizeOf(DType::bf16);
      return {reinterpret_cast<const char *>(source), stride / kRows, 4};
    }
    uint32_t *own = left.of(operands) + part * blocks.left();
    stride = blocks.leftStride() * 4;
    (s.transLhs ? packLeft : copyLeft)({source, s.transLhs ? s.m : s.k}, terms, end - begin, own, blocks.leftStride());
    const char *at = reinterpret_cast<const char *>(own);
    return s.transLhs ? Rows{at, 4, 4 * kRows} : Rows{at, 4 * b.units(), 4};
  }

  /// Rows [i, i + height) of the block, counted from its first.
  void addTile(void *const *operands, Rows rows, const Block &b, int64_t i, int64_t height, const Panel &panel) const {
    alignas(64) float own[kRows * Bf16Blocks::kTileColumns];
    const bool isLast = b.k1 == s.k;
    const Sums to = blocks.passes == 1 ? Sums{own, panel.width}
                                       : Sums{sums.of(operands) + i * blocks.columns + panel.begin, blocks.columns};
    const int64_t j = b.j0 + panel.begin, width = std::min(panel.width, b.j1 - j), at = (b.i0 + i) * s.n + j;
    char *result = as<char>(operands[s.hasBias || hasAddend ? 3 : 2]) + at * sizeOf(out);
    if (isLast)
      prefetch(result, height, width * sizeOf(out));
    multiplyTile(rows, panelOf(operands, b, panel), panel.width, b.units(), to.at, to.stride, b.k0 > 0);
    if (isLast && out == DType::bf16)
      roundTile(to.at, to.stride, s.hasBias ? as<Bf16>(operands[2]) + j : nullptr, height, width, as<Bf16>(result),
                s.n);
    else if (isLast)
      copyTile(to, hasAddend ? as<float>(operands[2]) + at : nullptr, height, width, as<float>(result));
  }

  struct Sums {
    float *at;
    int64_t stride;
  };

  /// Of the result, to be there when the tile is.
  void prefetch(const char *result, int64_t height, int64_t bytes) const {
    for (int64_t r = 0; r < height; ++r, result += s.n * sizeOf(out)) {
      for (int64_t at = 0; at < bytes; at += 64)
        __builtin_prefetch(result + at, 1);
      __builtin_prefetch(result + bytes - 1, 1);
    }
  }

  /// `addend`, in rows as the result's, may be null.
  void copyTile(Sums from, const float *addend, int64_t height, int64_t width, float *result) const {
    for (int64_t r = 0; r < height; ++r)
      for (int64_t j = 0; j < width; ++j)
        result[r * s.n + j] = from.at[r * from.stride + j] + (addend ? addend[r * s.n + j] : 0);
  }

  MatmulShape s;
  DType out;
  bool hasAddend, byRows;
  Bf16Blocks blocks;
  int threads;
  std::string text;
  Piece<uint32_t> right, left;
  Piece<float> sums;
};

} // namespace

bool hasBf16Tiles() { return hasTiles(); }

bool hasAmx() {
  constexpr auto amx = static_cast<unsigned>(dnnl::cpu_isa::avx512_core_amx);
  return (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & amx) == amx;
}

std::unique_ptr<Kernel> makeMatmulTiles(const KernelSpec &spec, const MatmulPartShape &shape, ProductCut cut,
                                        std::string method) {
  return std::make_unique<MatmulTiles>(spec, shape, cut, std::move(method));
}

} // namespace zc::cpu
