#include "kernels/cpu/fast/MatmulTiles.h"
#include "kernels/cpu/fast/Fast.h"
#include "kernels/cpu/fast/TilesBf16.h"

#include <array>
#include <atomic>
#include <thread>

namespace zc::cpu {
namespace {

using namespace bf16;

class MatmulTiles : public Kernel {
public:
  MatmulTiles(const KernelSpec &spec, const MatmulPartShape &shape, std::string method)
      : s(shape.product), by(*engine()), out(shape.out), hasAddend(shape.hasAddend), blocks(s),
        threads(std::min(spec.threads, blocks.threads)),
        streams(by.streams && out == DType::bf16 && s.n * sizeOf(out) % LinesAhead::kLine == 0 &&
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
  static constexpr int64_t kTasks = 6; ///< of a thread
  /// Bytes of a result that goes past the caches: the second one has no room for most of it.
  static constexpr int64_t kStreamed = 1 << 20;

  /// Rows, columns and terms of the product.
  struct Block {
    int64_t i0, i1, j0, j1, k0, k1;
  };

  /// Rows of the left factor by tiles: first those that are used where they are, then copies, made and rearranged
  /// when a tile first needs them.
  struct Left {
    int64_t begin, end; ///< counted from the block's first row
    uint32_t *own;      ///< the copies
    Rows inPlace, copied;
    int64_t inPlaceStride, copiedStride; ///< bytes from a tile's to the next one's
    int64_t inPlaceTiles, tiles;
    int64_t there; ///< tiles that have been used, or copied
    Rows of(int64_t tile) const {
      const bool isCopied = tile >= inPlaceTiles;
      Rows rows = isCopied ? copied : inPlace;
      rows.at += isCopied ? (tile - inPlaceTiles) * copiedStride : tile * inPlaceStride;
      return rows;
    }
  };

  /// A thread's sums of one tile, and of the one before, which is rounded meanwhile; and what it asks for.
  struct Tiles {
    alignas(64) float sums[2][kMostSums];
    int place = 0;
    Rounding rounding;
    LinesAhead left, right;
    float *other() { return sums[place = 1 - place]; }
  };

  /// The rows of the left factor that each thread has copied. Other columns are multiplied by the same.
  using Held = std::array<Range, Bf16Blocks::kMostThreads>;

  /// The panels of a block in groups, each rearranged by the thread that needs it first.
  class Groups {
  public:
    explicit Groups(bool areThere) {
      for (std::atomic<State> &state : states)
        state.store(areThere ? State::there : State::missing, std::memory_order_relaxed);
    }
    bool isMissing(int64_t group) const { return of(group).load(std::memory_order_relaxed) == State::missing; }
    bool isThere(int64_t group) const { return of(group).load(std::memory_order_acquire) == State::there; }
    /// Calls fn(), or waits for the thread that does; if neither has been.
    template <typename Fn> void need(int64_t group, Fn fn) {
      std::atomic<State> &state = states[static_cast<size_t>(group)];
      State found = State::missing;
      if (state.compare_exchange_strong(found, State::begun, std::memory_order_acq_rel)) {
        fn();
        state.store(State::there, std::memory_order_release);
      }
      while (!isThere(group))
        std::this_thread::yield();
    }

  private:
    enum class State : uint8_t { missing, begun, there };
    const std::atomic<State> &of(int64_t group) const { return states[static_cast<size_t>(group)]; }
    std::array<std::atomic<State>, Bf16Blocks::kMostColumns / Panels::kNarrow> states;
  };

  /// A task is some rows times a group of panels. `isThere`: the right factor has been rearranged.
  void addBlock(void *const *operands, const Block &b, bool isThere, Held &held) const {
    const int team = TeamLimit::of(threads);
    const Panels panels(b.j1 - b.j0, by);
    const int64_t groups = quotientUp(panels.count(), by.panels);
    const int64_t rows = b.i1 - b.i0, chunk = rowsOfTask(rows, groups, team);
    SharedTasks tasks(quotientUp(rows, chunk) * groups, team);
    const bool packsAll = by.packsFirst && team > 1 && !isThere;
    if (packsAll)
      parallelRanges(team, panels.count(), std::clamp<int64_t>(panels.count() / (2 * team), 1, by.panels),
                     [&](int64_t begin, int64_t end, int) { pack(operands, b, panels, begin, end); });
    Groups rearranged(isThere || packsAll);
    parallelTeam(team, [&](int thread) {
      const Multiplying here(&by);
      Tiles tiles;
      for (int64_t task = tasks.take(thread); task >= 0; task = tasks.take(thread)) {
        // Threads begin with different panels, which the others find rearranged.
        const int64_t chunkOfRows = task / groups, first = tasks.ownerOf(chunkOfRows * groups) * groups / team;
        Range &had = held[static_cast<size_t>(thread)];
        addTask(operands, b,
                leftRows(operands, b, chunkOfRows * chunk, std::min(rows, (chunkOfRows + 1) * chunk), thread, had),
                (task + first) % groups, rearranged, tiles);
      }
      tiles.rounding.rest();
    });
  }

  /// As many as a thread has room for, but enough tasks that none waits long for the last one.
  int64_t rowsOfTask(int64_t rows, int64_t groups, int team) const {
    const int64_t wanted = std::min(quotientUp(kTasks * team, groups), quotientUp(rows, by.rows));
    return roundUp(quotientUp(rows, std::max(quotientUp(rows, rowsAtATime()), wanted)), by.rows);
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

  void pack(void *const *operands, const Block &b, const Panels &panels, int64_t first, int64_t last) const {
    packPanels(factorOf(operands, b), panels, first, last, units(b), blockOf(operands, b));
  }

  /// Rows of a block times a group of its panels. What the next group is made of, or else the next panel, comes nearer
  /// meanwhile.
  void addTask(void *const *operands, const Block &b, Left rows, int64_t group, Groups &rearranged,
               Tiles &tiles) const {
    const Panels panels(b.j1 - b.j0, by);
    const int64_t count = panels.count(), first = group * by.panels, last = std::min(count, first + by.panels);
    rearranged.need(group, [&] { pack(operands, b, panels, first, last); });
    const int64_t next = last < count ? group + 1 : 0, steps = rows.tiles * LinesAhead::steps(units(b));
    if (rearranged.isMissing(next))
      tiles.right = panelsAhead(factorOf(operands, b), panels, next * by.panels,
                                std::min(count, (next + 1) * by.panels), (last - first) * steps);
    for (int64_t panel = first; panel < last; ++panel) {
      if (by.asksForPanels && (panel + 1 < last || rearranged.isThere(next)))
        tiles.right = panelAhead(operands, b, panels[panel + 1 < count ? panel + 1 : 0], steps);
      for (int64_t tile = 0; tile < rows.tiles; ++tile) {
        if (tile >= rows.there)
          bringTiles(operands, b, rows, tiles);
        addTile(operands, b, rows, tile, panels[panel], tiles);
      }
    }
  }

  LinesAhead panelAhead(void *const *operands, const Block &b, const Panel &panel, int64_t steps) const {
    return {panelOf(operands, b, panel), quotientUp(units(b) * panel.width * 4, LinesAhead::kLine), LinesAhead::kLine,
            LinesAhead::kLine, steps};
  }

  /// Rows [begin, end) of the block, which may be those that the thread has.
  Left leftRows(void *const *operands, const Block &b, int64_t begin, int64_t end, int thread, Range &held) const {
    const Range had = std::exchange(held, {begin, end});
    const int64_t count = end - begin;
    Left rows{};
    rows.begin = begin;
    rows.end = end;
    rows.own = left.of(operands) + thread * blocks.left();
    rows.copied = by.copied(rows.own, units(b));
    if (s.transLhs)
      rows.copied = {rows.copied.at, by.packedRowStride, by.packedStepStride};
    rows.copiedStride = 4 * blocks.leftStride(by.rows);
    rows.tiles = quotientUp(count, by.rows);
    if (isInPlace(b)) {
      const int64_t stride = s.k * sizeOf(DType::bf16);
      rows.inPlace = {reinterpret_cast<const char *>(leftSource(operands, b, begin).at), stride, 4 * by.unitStep};
      rows.inPlaceStride = by.rows * stride;
      rows.inPlaceTiles = count % by.rowStep == 0 ? rows.tiles : count / by.rows;
    }
    rows.there = had.begin == begin && had.end == end ? rows.tiles : 0;
    return rows;
  }
  /// From row `i` of the block on.
  Matrix leftSource(void *const *operands, const Block &b, int64_t i) const {
    const int64_t row = b.i0 + i, width = s.transLhs ? s.m : s.k;
    return {as<Bf16>(operands[0]) + (s.transLhs ? b.k0 * width + row : row * width + b.k0), width};
  }

  /// Makes the rows of the next tile there, or of all that are copied; asks for the next ones that are used in place.
  void bringTiles(void *const *operands, const Block &b, Left &rows, Tiles &tiles) const {
    const int64_t i = rows.begin + rows.there * by.rows, terms = b.k1 - b.k0;
    if (rows.there < rows.inPlaceTiles) {
      const Matrix next = leftSource(operands, b, i + by.rows);
      if (by.asksForRows)
        tiles.left = {next.at, std::min(rows.end - i - by.rows, by.rows), 2 * terms, 2 * next.stride,
                      LinesAhead::steps(units(b))};
      ++rows.there;
      return;
    }
    const Matrix source = leftSource(operands, b, i);
    const int64_t stride = rows.copiedStride / static_cast<int64_t>(sizeof(uint32_t));
    if (s.transLhs)
      by.packLeft(source, terms, rows.end - i, rows.own, stride);
    else
      by.copyLeft(source, terms, units(b), rows.end - i, rows.own, stride);
    rows.there = rows.tiles;
  }

  /// A tile of the result, or of the sums of several passes.
  void addTile(void *const *operands, const Block &b, const Left &rows, int64_t tile, const Panel &panel,
               Tiles &tiles) const {
    const bool isLast = b.k1 == s.k, rounds = isLast && out == DType::bf16;
    const int64_t i = rows.begin + tile * by.rows, height = std::min(by.rows, rows.end - i);
    const Sums to = blocks.passes == 1 ? Sums{tiles.other(), panel.width}
                                       : Sums{sums.of(operands) + i * blocks.columns + panel.begin, blocks.columns};
    const int64_t j = b.j0 + panel.begin, width = std::min(panel.width, b.j1 - j), at = (b.i0 + i) * s.n + j;
    char *result = as<char>(operands[s.hasBias || hasAddend ? 3 : 2]) + at * sizeOf(out);
    if (isLast && !streams && !(rounds && by.roundsOwn))
      prefetch(result, height, width * sizeOf(out));
    Rounding rounding;
    if (rounds)
      rounding = {to.at, to.stride, s.hasBias ? as<Bf16>(operands[2]) + j : nullptr, height, width, as<Bf16>(result),
                  s.n,   streams};
    Rounding *const own = rounds ? &rounding : nullptr, *const rounded = by.roundsOwn ? own : &tiles.rounding;
    by.multiply({rows.of(tile), panelOf(operands, b, panel), roundUp(height, by.rowStep), panel.width, units(b), to.at,
                 to.stride, b.k0 > 0, &tiles.left, &tiles.right, rounded});
    tiles.rounding.rest();
    if (rounds && !by.roundsOwn)
      tiles.rounding = rounding;
    else if (isLast && !rounds)
      copyTile(to, hasAddend ? as<float>(operands[2]) + at : nullptr, height, width, as<float>(result));
  }

  struct Sums {
    float *at;
    int64_t stride;
  };

  /// Of the result, to be there when the tile is.
  void prefetch(const char *result, int64_t height, int64_t bytes) const {
    for (int64_t r = 0; r < height; ++r, result += s.n * sizeOf(out))
      prefetchToWrite(result, bytes);
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
