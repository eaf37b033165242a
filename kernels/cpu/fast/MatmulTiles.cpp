#include "kernels/cpu/fast/MatmulTiles.h"
#include "kernels/cpu/fast/Fast.h"
#include "kernels/cpu/fast/TilesBf16.h"

#include <array>

namespace zc::cpu {
namespace {

using namespace bf16;

class MatmulTiles : public Kernel {
public:
  MatmulTiles(const KernelSpec &spec, const MatmulPartShape &shape, std::string method)
      : s(shape.product), by(*engine()), out(shape.out), hasAddend(shape.hasAddend), blocks(s),
        threads(std::min(spec.threads, blocks.threads)),
        streams(by.streams && out == DType::bf16 && s.n * sizeOf(out) % PanelAhead::kLine == 0 &&
                s.m * s.n * sizeOf(out) >= kStreamed),
        text(std::move(method)) {
    Workspace workspace(spec);
    right = workspace.take<uint32_t>(blocks.right());
    if (spec.kept > 0) {
      keeps = true;
      right = {spec.operands.size() + 1, 0, Bf16Blocks::unitsOf(s)};
      text += ", weights kept";
    }
    sums = workspace.take<float>(blocks.sums());
    left = workspace.take<uint32_t>(blocks.left() * threads);
  }

  Status run(void *const *operands, const StepContext &context) override {
    Block block;
    Held held;
    held.fill({});
    for (block.i0 = 0; block.i0 < s.m; block.i0 = block.i1) {
      block.i1 = std::min(s.m, block.i0 + blocks.rows);
      for (block.j0 = 0; block.j0 < s.n; block.j0 = block.j1) {
        block.j1 = std::min(s.n, block.j0 + blocks.columns);
        for (block.k0 = 0; block.k0 < s.k; block.k0 = block.k1) {
          block.k1 = std::min(s.k, block.k0 + blocks.terms);
          addBlock(operands, block, keeps && (context.micro > 0 || block.i0 > 0), held);
          if (blocks.passes > 1)
            held.fill({});
        }
      }
    }
    return Status::success();
  }
  std::string method() const override { return text; }

private:
  static constexpr int64_t kPackedPanels = 4; ///< that a thread takes at a time to rearrange, at most
  static constexpr int64_t kTasks = 6;        ///< of a thread
  /// Bytes of a result that goes past the caches: the second one has no room for most of it.
  static constexpr int64_t kStreamed = 1 << 20;

  /// Rows, columns and terms of the product.
  struct Block {
    int64_t i0, i1, j0, j1, k0, k1;
  };

  /// Rows [begin, end) of a block, counted from its first, by tiles; those of the last one may lie elsewhere.
  struct Left {
    int64_t begin, end;
    Rows first;
    int64_t stride; ///< bytes from a tile's to the next one's
    int64_t whole;  ///< tiles that are so
    Rows last;
    Rows of(int64_t tile) const {
      return tile < whole ? Rows{first.at + tile * stride, first.rowStride, first.stepStride} : last;
    }
  };

  /// A thread's sums of one tile, and of the one before, which is rounded meanwhile.
  struct Tiles {
    alignas(64) float sums[2][kMostSums];
    int place = 0;
    Rounding rounding;
    float *other() { return sums[place = 1 - place]; }
  };

  /// What tiles ask for of the next panel, each the next lines of it.
  struct PanelAhead {
    static constexpr int64_t kLine = 64; ///< bytes
    const char *at = nullptr;
    int64_t lines = 0, ofStep = 0, ofTile = 0;
    Lines of(int64_t tile) const {
      const int64_t first = tile * ofTile;
      return {at + first * kLine, first < lines ? ofStep : 0, kLine, ofStep * kLine};
    }
  };

  /// The rows of the left factor that each thread has. Other columns are multiplied by the same.
  using Held = std::array<Range, Bf16Blocks::kMostThreads>;

  /// `isThere`: the right factor has been rearranged.
  void addBlock(void *const *operands, const Block &b, bool isThere, Held &held) const {
    if (const int team = TeamLimit::of(threads); team > 1)
      addTogether(operands, b, isThere, team, held);
    else
      addAlone(operands, b, isThere, held[0]);
  }

  /// Panels of the right factor are rearranged just before they are needed.
  void addAlone(void *const *operands, const Block &b, bool isThere, Range &held) const {
    const Multiplying here(&by);
    Tiles tiles;
    const int64_t rows = b.i1 - b.i0, chunk = rowsAtATime();
    for (int64_t i = 0; i < rows; i += chunk)
      addRows(operands, b, leftRows(operands, b, i, std::min(rows, i + chunk), 0, held),
              {0, Panels(b.j1 - b.j0, by).count()}, i == 0 && !isThere, tiles);
    tiles.rounding.rest();
  }

  /// Threads rearrange the right factor, then multiply: a task is some rows times a group of panels.
  void addTogether(void *const *operands, const Block &b, bool isThere, int team, Held &held) const {
    const Panels panels(b.j1 - b.j0, by);
    const int64_t rows = b.i1 - b.i0, groups = quotientUp(panels.count(), by.panels);
    // As many rows at a time as a thread has room for, but enough tasks that none waits long for the last one.
    const int64_t wanted = std::min(quotientUp(kTasks * team, groups), tilesOf(rows));
    const int64_t chunk = roundUp(quotientUp(rows, std::max(quotientUp(rows, rowsAtATime()), wanted)), by.rows);
    if (!isThere)
      parallelRanges(team, panels.count(), std::clamp<int64_t>(panels.count() / (2 * team), 1, kPackedPanels),
                     [&](int64_t begin, int64_t end, int) { packRight(operands, b, panels, begin, end); });
    SharedTasks tasks(quotientUp(rows, chunk) * groups, team);
    parallelTeam(team, [&](int thread) {
      const Multiplying here(&by);
      Tiles tiles;
      for (int64_t task = tasks.take(thread); task >= 0; task = tasks.take(thread)) {
        const int64_t i = task / groups * chunk, group = task % groups * by.panels;
        const Left left =
            leftRows(operands, b, i, std::min(rows, i + chunk), thread, held[static_cast<size_t>(thread)]);
        addRows(operands, b, left, {group, std::min(panels.count(), group + by.panels)}, false, tiles);
      }
      tiles.rounding.rest();
    });
  }

  /// Are copies of the left factor's rows quicker than where they are? Measured: not beside results that take the
  /// caches.
  bool copiesLeft() const { return by.copiesLeft && (blocks.passes > 1 || streams); }
  /// Can they be used where they are?
  bool isInPlace(const Block &b) const {
    return !copiesLeft() && !s.transLhs && (b.k1 - b.k0) % (2 * by.unitStep) == 0;
  }
  /// Of the left factor, that a thread has: each panel comes once for all of them.
  int64_t rowsAtATime() const { return by.copiesLeft ? blocks.leftRows() : Bf16Blocks::kLeftRows; }
  int64_t tilesOf(int64_t rows) const { return quotientUp(rows, by.rows); }
  int64_t units(const Block &b) const { return by.units(b.k1 - b.k0); }

  /// Of the right factor, rearranged.
  uint32_t *blockOf(void *const *operands, const Block &b) const {
    return right.of(operands) + (keeps ? Bf16Blocks::begin(s, b.j0, b.j1 - b.j0, b.k0) : 0);
  }
  uint32_t *panelOf(void *const *operands, const Block &b, const Panel &panel) const {
    return blockOf(operands, b) + panel.begin * units(b);
  }

  /// From the block's first column on.
  RightFactor factorOf(void *const *operands, const Block &b) const {
    return {{as<Bf16>(operands[1]) + (s.transRhs ? b.j0 * s.k + b.k0 : b.k0 * s.n + b.j0), s.transRhs ? s.k : s.n},
            s.transRhs,
            b.k1 - b.k0};
  }

  void packRight(void *const *operands, const Block &b, const Panels &panels, int64_t begin, int64_t end) const {
    for (int64_t i = begin; i < end; i += by.panels)
      packPanels(factorOf(operands, b), panels, i, std::min(end, i + by.panels), units(b), blockOf(operands, b));
  }

  /// Rows of a block times some of its panels, which are packed first if `packs`, some at a time: what the next ones
  /// are made of comes from memory meanwhile. Or else others have packed them.
  void addRows(void *const *operands, const Block &b, const Left &rows, Range range, bool packs, Tiles &of) const {
    const Panels panels(b.j1 - b.j0, by);
    const int64_t tiles = tilesOf(rows.end - rows.begin);
    for (int64_t panel = range.begin; panel < range.end; ++panel) {
      const int64_t inGroup = (panel - range.begin) % by.panels, next = panel - inGroup + by.panels;
      if (packs && inGroup == 0)
        packRight(operands, b, panels, panel, std::min(range.end, next));
      const PanelAhead following =
          packs || panel + 1 == panels.count() ? PanelAhead{} : panelAhead(operands, b, panels[panel + 1], tiles);
      for (int64_t tile = 0; tile < tiles; ++tile) {
        if (packs && next < range.end)
          prefetchPanels(factorOf(operands, b), panels, next, std::min(range.end, next + by.panels),
                         inGroup * tiles + tile, by.panels * tiles);
        const int64_t i = rows.begin + tile * by.rows;
        addTile(operands, rows.of(tile), b, i, std::min(by.rows, rows.end - i), panels[panel], following.of(tile), of);
      }
    }
  }

  PanelAhead panelAhead(void *const *operands, const Block &b, const Panel &panel, int64_t tiles) const {
    const int64_t steps = units(b) / by.unitStep, lines = quotientUp(units(b) * panel.width * 4, PanelAhead::kLine),
                  each = quotientUp(lines, tiles * steps);
    return {reinterpret_cast<const char *>(panelOf(operands, b, panel)), lines, each, steps * each};
  }

  /// Rows [begin, end) of the block, copied unless they are what the thread has.
  Left leftRows(void *const *operands, const Block &b, int64_t begin, int64_t end, int thread, Range &held) const {
    const Range had = std::exchange(held, {begin, end});
    const bool isHeld = had.begin == begin && had.end == end;
    const int64_t terms = b.k1 - b.k0, count = end - begin, step = 4 * by.unitStep, width = s.transLhs ? s.m : s.k;
    const Bf16 *source =
        as<Bf16>(operands[0]) + (s.transLhs ? b.k0 * s.m : b.k0) + (b.i0 + begin) * (s.transLhs ? 1 : s.k);
    uint32_t *own = left.of(operands) + thread * blocks.left();
    const Rows copied = by.copied(own, units(b));
    if (isInPlace(b)) {
      const int64_t whole = count % by.rowStep == 0 ? tilesOf(count) : count / by.rows;
      if (whole < tilesOf(count) && !isHeld)
        by.copyLeft({source + whole * by.rows * width, width}, terms, units(b), count - whole * by.rows, own, 0);
      const int64_t stride = width * sizeOf(DType::bf16);
      return {begin, end, {reinterpret_cast<const char *>(source), stride, step}, by.rows * stride, whole, copied};
    }
    const int64_t stride = blocks.leftStride(by.rows), all = tilesOf(count);
    if (s.transLhs) {
      if (!isHeld)
        by.packLeft({source, width}, terms, count, own, stride);
      return {begin, end, {copied.at, by.packedRowStride, by.packedStepStride}, 4 * stride, all, {}};
    }
    if (!isHeld)
      by.copyLeft({source, width}, terms, units(b), count, own, stride);
    return {begin, end, copied, 4 * stride, all, {}};
  }

  /// Rows [i, i + height) of the block, counted from its first.
  void addTile(void *const *operands, Rows rows, const Block &b, int64_t i, int64_t height, const Panel &panel,
               Lines ahead, Tiles &tiles) const {
    const bool isLast = b.k1 == s.k;
    const Sums to = blocks.passes == 1 ? Sums{tiles.other(), panel.width}
                                       : Sums{sums.of(operands) + i * blocks.columns + panel.begin, blocks.columns};
    const int64_t j = b.j0 + panel.begin, width = std::min(panel.width, b.j1 - j), at = (b.i0 + i) * s.n + j;
    char *result = as<char>(operands[s.hasBias || hasAddend ? 3 : 2]) + at * sizeOf(out);
    if (isLast && !streams)
      prefetch(result, height, width * sizeOf(out));
    by.multiply({rows, panelOf(operands, b, panel), roundUp(height, by.rowStep), panel.width, units(b), to.at,
                 to.stride, b.k0 > 0, ahead, &tiles.rounding});
    tiles.rounding.rest();
    if (isLast && out == DType::bf16)
      tiles.rounding = {to.at,  to.stride, s.hasBias ? as<Bf16>(operands[2]) + j : nullptr,
                        height, width,     as<Bf16>(result),
                        s.n,    streams};
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
  const Engine &by;
  DType out;
  bool hasAddend;
  Bf16Blocks blocks;
  int threads;
  bool streams;       ///< the result past the caches
  bool keeps = false; ///< the right factor, rearranged, for the next micro-steps
  std::string text;
  Piece<uint32_t> right, left;
  Piece<float> sums;
};

} // namespace

const char *nameOfBf16Tiles() { return engine() ? engine()->name : nullptr; }

std::unique_ptr<Kernel> makeMatmulTiles(const KernelSpec &spec, const MatmulPartShape &shape, std::string method) {
  return std::make_unique<MatmulTiles>(spec, shape, std::move(method));
}

} // namespace zc::cpu
