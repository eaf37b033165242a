//===- FusedTiles.h - a program of element-wise operations, tile by tile ----------------------===//
//
// What the kernel `fused` runs over whole tensors, and other kernels over what they are about to read (Prologue.h):
// each instruction is a loop of vectors over a tile in the first cache, of its register's type, with the functions that
// the kernels of single operations have; two instructions, of which one alone reads the other, are often one loop. What
// is of the results' shape is read, and written, where it is. Inputs that are broadcast, or seen through views, are
// written out tile by tile, but where a tile lies in one run of them; scalars, constants and short rows that repeat
// once for each run, or for as long as they do. Results that are seen through views are made in tiles.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "kernels/Prologue.h"
#include "kernels/Views.h"
#include "kernels/cpu/FusedPlain.h"
#include "kernels/cpu/fast/FusedSteps.h"
#include "kernels/shapes/Strided.h"

#include <bitset>
#include <optional>

namespace zc::cpu {

/// A program and the types of its tensors. Running allocates nothing.
class FusedTiles {
public:
  /// Elements of a tile: two KiB at most, so that those of some sixteen registers are in the first cache.
  static constexpr int64_t kTile = 512;
  /// Of them so many are computed between requests to memory, which takes some at a time; by a single loop, whose own
  /// reads are as many, all.
  static constexpr int64_t kAtOnce = 128;

  /// Results, by their places.
  using Results = std::bitset<kFusedResults>;

  /// `views`: of the program's inputs, then results, all of shape `shape`. `over`: which results may lie over inputs.
  FusedTiles(FusedProgram program, const std::vector<StridedView> &views, const Dims &shape, Results over);
  explicit FusedTiles(const Prologue &prologue)
      : FusedTiles(prologue.program, prologue.views(), prologue.result.dims, {}) {}

  /// Elements [begin, end) of the results, in row-major order: inputs[i] points at the whole of the tensor that input i
  /// is of, results[i] likewise, or where it is all of that in order at its element `begin`.
  void run(void *const *inputs, void *const *results, int64_t begin, int64_t end) const;
  bool isInOrder(size_t result) const { return !outputs[result].walk; }

private:
  /// Where a register's elements are while a tile is computed.
  struct Place {
    /// input: a tensor of the results' shape; result: one that a step writes, and others read
    enum class Kind { tile, input, result } kind = Kind::tile;
    size_t index = 0;
    int64_t period = 0; ///< of a row that repeats: the tile has it written out from any of its elements on
    int64_t span = 0;   ///< elements over which it does, before the next row; 0: all
    int64_t row = 0;    ///< of a long run: a tile that lies within one is read where the run is
  };
  struct Input {
    Walk<2> walk;   ///< result, input
    int64_t offset; ///< of its first element
    int64_t size;
    bool isScalar;
    bool isInOrder; ///< one run
  };
  struct Step {
    FusedCode code;    ///< end: a pair
    FusedStep vectors; ///< null: `plain`, on fp32
    FusedPlain plain;
    std::vector<size_t> from; ///< registers
    bool isNone;              ///< a constant, a cast to its own type, or part of a later step
  };
  struct Output {
    size_t reg;
    bool isDirect; ///< computed where it is
    int64_t size;
    int64_t offset;              ///< of its first element
    std::optional<Walk<2>> walk; ///< result, tensor; nothing: in order
  };
  /// The steps that need a register first and last: its own, and those that read it.
  struct Uses {
    std::vector<size_t> first, last;
  };
  /// The tile that comes next, n elements from `at` on, and how many parts of it memory was asked for.
  struct Soon {
    void *const *operands;
    int64_t at, n, asked;
  };
  using Tiles = char (*)[kTile * sizeof(float)];
  /// Of each register, which of its rows its tile has written out; -1: none, but what is to be read of it.
  using Rows = std::array<int64_t, kFusedRegisters + kFusedInputs>;

  void addInput(const StridedView &view, const Dims &shape);
  void addInstruction(const FusedInstruction &instruction);
  void addResult(size_t index, const StridedView &view, Results over);
  bool isRelu(size_t reg) const;
  void readThroughRelus();
  void pairUp();
  void assignTiles();
  void findAhead(const Dims &shape);
  Uses findUses() const;
  bool isResult(size_t reg) const;
  bool isFilledOnce(size_t reg) const;
  void fillOnce(void *const *operands, Tiles tiles, int64_t n) const;
  void writeOut(size_t reg, const char *row, char *tile, int64_t n) const;
  void findRows(void *const *operands, Tiles tiles, Rows &rows, int64_t at, int64_t n) const;
  static void loadTile(const Input &input, const char *x, char *y, int64_t at, int64_t n);
  static void loadShortRuns(const Input &input, const char *x, char *y, int64_t at, int64_t n);
  static void storeTile(const Output &output, const char *x, char *y, int64_t begin, int64_t at, int64_t n);
  void askFor(Soon &soon, int64_t parts) const;
  int64_t sizeOfRegister(size_t reg) const { return sizeOf(program.typeOf(reg)); }
  void runVectors(size_t index, const void *(&from)[4], void *y, int64_t n, Soon &soon) const;
  void runPlain(size_t index, const void *const (&from)[4], void *y, int64_t n) const;
  /// Of elements [begin, end) those of the tile that begins with `at`.
  void runTile(void *const *operands, void *const *results, Tiles tiles, Rows &rows, int64_t begin, int64_t at,
               int64_t end) const;

  FusedProgram program;
  std::vector<Input> inputs;
  std::vector<Step> steps;
  std::vector<Output> outputs;
  std::vector<Place> places;              ///< of registers
  std::vector<size_t> same;               ///< the register whose elements each register has: its own, mostly
  std::vector<std::vector<size_t>> loads; ///< inputs whose tiles are loaded before a step
  std::vector<size_t> ahead;              ///< inputs that are asked for a tile ahead
  int64_t loops = 0;                      ///< steps that are one
  std::vector<size_t> changing;           ///< registers with rows of which there are several
};

} // namespace zc::cpu
