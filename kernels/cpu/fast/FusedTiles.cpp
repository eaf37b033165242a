#include "kernels/cpu/fast/FusedTiles.h"
#include "kernels/cpu/Support.h"

#include <algorithm>
#include <cstring>

namespace zc::cpu {

/// n times an element of `size` bytes.
static void fillWith(const void *x, int64_t size, void *y, int64_t n) {
  auto fill = [&](auto element) {
    std::memcpy(&element, x, sizeof element);
    std::fill_n(static_cast<decltype(element) *>(y), n, element);
  };
  if (size == 4)
    fill(uint32_t());
  else if (size == 2)
    fill(uint16_t());
  else
    fill(uint8_t());
}

FusedTiles::FusedTiles(FusedProgram given, const std::vector<StridedView> &views, const Dims &shape, Results over)
    : program(std::move(given)) {
  for (size_t i = 0; i < program.inputs.size(); ++i)
    addInput(views[i], shape);
  for (const FusedInstruction &instruction : program.instructions)
    addInstruction(instruction);
  for (size_t i = 0; i < program.results.size(); ++i)
    addResult(i, views[program.inputs.size() + i], over);
  readThroughRelus();
  pairUp();
  assignTiles();
  findAhead(shape);
}

void FusedTiles::addInput(const StridedView &view, const Dims &shape) {
  const DType type = program.inputs[inputs.size()];
  Walk<2> walk(shape, {rowMajorStrides(shape), stridesAlong(view, shape)});
  const bool isScalar = view.numElements() == 1, isInOrder = walk.runStride(1) == 1,
             isOneRun = isInOrder && walk.numRuns() == 1;
  same.push_back(places.size());
  places.push_back({});
  if (!isScalar && isOneRun)
    places.back() = {Place::Kind::input, inputs.size()};
  else if (isInOrder && walk.numDims() == 2 && walk.stride(1, 0) == 0 && walk.runLength() <= kTile)
    places.back().period = walk.runLength();
  else if (isInOrder && walk.numDims() == 3 && walk.stride(1, 1) == 0 && walk.runLength() <= kTile) {
    places.back().period = walk.runLength();
    places.back().span = walk.runLength() * walk.dim(1);
    changing.push_back(inputs.size());
  } else if (isInOrder && walk.runLength() > kTile)
    places.back().row = walk.runLength();
  inputs.push_back({walk, view.offset, sizeOf(type), isScalar, isOneRun});
}

void FusedTiles::addInstruction(const FusedInstruction &instruction) {
  const size_t reg = places.size();
  const DType first = fusedOperands(instruction.code) > 0 ? program.typeOf(instruction.from[0]) : instruction.type;
  const bool isCast = instruction.code == FusedCode::cast,
             isSame = isCast && !isResult(reg) && first == instruction.type;
  same.push_back(isSame ? same[instruction.from[0]] : reg);
  places.push_back({});
  Step step{instruction.code,
            isCast ? castOf(first, instruction.type)
                   : stepOf(instruction.code, instruction.type == DType::boolean ? first : instruction.type),
            fusedPlain(instruction.code),
            {},
            isSame || instruction.code == FusedCode::constant};
  for (size_t i = 0; i < fusedOperands(instruction.code); ++i)
    step.from.push_back(same[instruction.from[i]]);
  steps.push_back(std::move(step));
}

bool FusedTiles::isRelu(size_t reg) const {
  return reg >= inputs.size() && steps[reg - inputs.size()].code == FusedCode::relu;
}

/// 0 < relu(x) is 0 < x.
void FusedTiles::readThroughRelus() {
  for (Step &step : steps)
    if (step.code == FusedCode::less && isFilledOnce(step.from[0]) && step.from[0] >= inputs.size() &&
        program.instructions[step.from[0] - inputs.size()].value == 0 && isRelu(step.from[1]))
      step.from[1] = steps[step.from[1] - inputs.size()].from[0];
}

/// Joins steps with the only one that reads what they make, and leaves out those that nobody reads.
void FusedTiles::pairUp() {
  std::vector<size_t> reads(places.size());
  for (const Step &step : steps)
    if (!step.isNone)
      for (size_t reg : step.from)
        ++reads[reg];
  for (size_t i = steps.size(); i-- > 0;)
    if (const size_t reg = inputs.size() + i;
        reads[reg] == 0 && same[reg] == reg && !isResult(reg) && !steps[i].isNone) {
      steps[i].isNone = true;
      for (size_t from : steps[i].from)
        --reads[from];
    }
  for (size_t j = 0; j < steps.size(); ++j)
    for (size_t place = 0; place < steps[j].from.size() && !steps[j].isNone; ++place) {
      const size_t reg = steps[j].from[place];
      if (reg < inputs.size() || reads[reg] != 1 || isResult(reg))
        continue;
      Step &first = steps[reg - inputs.size()], &second = steps[j];
      const DType type = program.instructions[j].type;
      FusedStep pair = first.isNone || first.from.empty() || program.typeOf(first.from[0]) != type ||
                               (program.typeOf(reg) != type && program.typeOf(reg) != DType::boolean)
                           ? nullptr
                           : pairOf(first.code, second.code, place, type);
      if (!pair)
        continue;
      std::vector<size_t> from = first.from;
      for (size_t k = 0; k < second.from.size(); ++k)
        if (k != place)
          from.push_back(second.from[k]);
      second.code = FusedCode::end;
      second.vectors = pair;
      second.from = std::move(from);
      first.isNone = true;
    }
}

/// A result over an input is written last, or by the last instruction.
void FusedTiles::addResult(size_t index, const StridedView &view, Results over) {
  const size_t reg = program.results[index];
  const DType type = program.typeOf(reg);
  const bool isLast = reg + 1 == places.size();
  std::optional<Walk<2>> walk;
  if (view.offset != 0 || !view.isContiguous())
    walk.emplace(view.sizes, std::array<Dims, 2>{rowMajorStrides(view.sizes), view.strides});
  const bool isDirect = !walk && (isLast || !over[index]);
  if (isDirect)
    places[reg] = {Place::Kind::result, index};
  outputs.push_back({reg, isDirect, sizeOf(type), view.offset, walk});
}

FusedTiles::Uses FusedTiles::findUses() const {
  Uses uses{std::vector<size_t>(places.size(), steps.size()), std::vector<size_t>(places.size(), 0)};
  auto use = [&](size_t reg, size_t step) {
    uses.first[reg] = std::min(uses.first[reg], step);
    uses.last[reg] = step;
  };
  for (size_t step = 0; step < steps.size(); ++step) {
    if (steps[step].isNone)
      continue;
    use(inputs.size() + step, step);
    for (size_t reg : steps[step].from)
      use(reg, step);
  }
  return uses;
}

bool FusedTiles::isResult(size_t reg) const {
  return std::find(program.results.begin(), program.results.end(), reg) != program.results.end();
}

/// A register has its tile from the first instruction that needs it to the last; of a result, and of what is filled
/// once, to the end. A row that repeats has two tiles.
void FusedTiles::assignTiles() {
  const Uses uses = findUses();
  std::vector<size_t> free;
  size_t used = 0;
  auto give = [&](size_t reg) {
    if (free.empty())
      free.push_back(used++);
    places[reg].index = free.back();
    free.pop_back();
  };
  auto inTile = [&](size_t reg) { return places[reg].kind == Place::Kind::tile && !isFilledOnce(reg); };
  for (size_t reg = 0; reg < places.size(); ++reg)
    if (isFilledOnce(reg)) {
      give(reg);
      used += places[reg].period != 0;
    }
  loads.resize(steps.size());
  for (size_t step = 0; step < steps.size(); ++step) {
    for (size_t reg = 0; reg < places.size(); ++reg)
      if (uses.first[reg] == step && inTile(reg)) {
        give(reg);
        if (reg < inputs.size())
          loads[step].push_back(reg);
      }
    for (size_t reg = 0; reg < places.size(); ++reg)
      if (uses.first[reg] <= step && uses.last[reg] == step && inTile(reg) && !isResult(reg))
        free.push_back(places[reg].index);
  }
}

bool FusedTiles::isFilledOnce(size_t reg) const {
  return reg < inputs.size() ? inputs[reg].isScalar || places[reg].period != 0
                             : program.instructions[reg - inputs.size()].code == FusedCode::constant;
}

void FusedTiles::fillOnce(void *const *operands, Tiles tiles, int64_t n) const {
  for (size_t reg = 0; reg < places.size(); ++reg) {
    if (!isFilledOnce(reg) || places[reg].span != 0)
      continue;
    char *tile = tiles[places[reg].index];
    const char *x = reg < inputs.size() ? as<char>(operands[reg]) + inputs[reg].offset * inputs[reg].size : nullptr;
    if (places[reg].period)
      writeOut(reg, x, tile, n);
    else if (x)
      fillWith(x, inputs[reg].size, tile, n);
    else {
      const void *value = &program.instructions[reg - inputs.size()].value;
      char stored[sizeof(float)];
      castOf(DType::f32, program.typeOf(reg))(&value, stored, 1);
      fillWith(stored, sizeOfRegister(reg), tile, n);
    }
  }
}

/// A row that repeats, to be read from any of its elements on, n of them.
void FusedTiles::writeOut(size_t reg, const char *row, char *tile, int64_t n) const {
  const int64_t period = places[reg].period, size = inputs[reg].size;
  for (int64_t at = 0; at < n + period; at += period)
    std::memcpy(tile + at * size, row, static_cast<size_t>(std::min(period, n + period - at) * size));
}

/// Writes out the rows that elements [at, at + n) are the first to read; where these read two, what they read.
void FusedTiles::findRows(void *const *operands, Tiles tiles, Rows &rows, int64_t at, int64_t n) const {
  for (size_t reg : changing) {
    const Place &place = places[reg];
    const Input &input = inputs[reg];
    const int64_t row = at / place.span;
    const bool isOne = (at + n - 1) / place.span == row;
    if (isOne && rows[reg] == row)
      continue;
    const char *x = as<char>(operands[reg]);
    if (isOne)
      writeOut(reg, x + (input.offset + input.walk.startOf(at / place.period, 1)) * input.size, tiles[place.index],
               kTile);
    else
      loadTile(input, x, tiles[place.index], at, n);
    rows[reg] = isOne ? row : -1;
  }
}

/// Calls fn(first, count) for the pieces that elements [at, at + n) of a result are in the other tensor: side by side
/// there, or one element for all.
template <typename Fn> static void forPieces(const Walk<2> &walk, int64_t at, int64_t n, Fn fn) {
  const int64_t length = walk.runLength(), stride = walk.runStride(1);
  int64_t skip = at % length;
  walk.forRuns(at / length, (at + n + length - 1) / length, [&](const Walk<2>::Offsets &run) {
    const int64_t count = std::min(length - skip, n), together = stride == 0 || stride == 1 ? count : 1;
    for (int64_t k = skip; k < skip + count; k += together)
      fn(run[1] + k * stride, together);
    n -= count;
    skip = 0;
  });
}

constexpr int64_t kShortest = 8; ///< elements of a run, of which a tile has as many as fit

/// What is left of a run, whole ones at once, and the beginning of one.
void FusedTiles::loadShortRuns(const Input &input, const char *x, char *y, int64_t at, int64_t n) {
  const int64_t length = input.walk.runLength(), skip = at % length;
  int64_t starts[kTile / kShortest + 2], runs = 0;
  input.walk.forRuns(at / length, (at + n + length - 1) / length,
                     [&](const Walk<2>::Offsets &run) { starts[runs++] = run[1]; });
  const int64_t first = skip == 0 ? 0 : std::min(length - skip, n), whole = (n - first) / length, size = input.size;
  if (first > 0)
    std::memcpy(y, x + (starts[0] + skip) * size, static_cast<size_t>(first * size));
  const int64_t begun = first > 0 ? 1 : 0;
  copyRunsOf(x, starts + begun, whole, length, size, y + first * size);
  if (const int64_t rest = n - first - whole * length)
    std::memcpy(y + (n - rest) * size, x + starts[begun + whole] * size, static_cast<size_t>(rest * size));
}

/// Elements [at, at + n) of an input.
void FusedTiles::loadTile(const Input &input, const char *x, char *y, int64_t at, int64_t n) {
  x += input.offset * input.size;
  if (input.walk.runStride(1) == 1 && input.walk.runLength() >= kShortest)
    return loadShortRuns(input, x, y, at, n);
  forPieces(input.walk, at, n, [&](int64_t first, int64_t count) {
    if (input.walk.runStride(1) == 0)
      fillWith(x + first * input.size, input.size, y, count);
    else
      std::memcpy(y, x + first * input.size, static_cast<size_t>(count * input.size));
    y += count * input.size;
  });
}

/// Elements [at, at + n) of a result; `y`: as run's.
void FusedTiles::storeTile(const Output &output, const char *x, char *y, int64_t begin, int64_t at, int64_t n) {
  const int64_t size = output.size;
  if (!output.walk) {
    std::memcpy(y + (at - begin) * size, x, static_cast<size_t>(n * size));
    return;
  }
  forPieces(*output.walk, at, n, [&](int64_t first, int64_t count) {
    std::memcpy(y + (output.offset + first) * size, x, static_cast<size_t>(count * size));
    x += count * size;
  });
}

/// While a loop computes on what it has in the first cache, and where it ends and the CPU has guessed wrong, memory
/// would wait. What the second cache may hold is not asked for, which would take a fifth of the rate.
void FusedTiles::findAhead(const Dims &shape) {
  constexpr int64_t kCached = 1 << 20;
  loops = std::count_if(steps.begin(), steps.end(), [](const Step &step) { return !step.isNone; });
  const int64_t elements = TensorType{DType::f32, shape}.numElements();
  int64_t bytes = 0;
  for (const Output &output : outputs)
    bytes += elements * output.size;
  std::vector<size_t> streamed;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (!inputs[i].isScalar && inputs[i].isInOrder) {
      streamed.push_back(i);
      bytes += elements * inputs[i].size;
    }
  if (bytes > kCached)
    ahead = std::move(streamed);
}

/// Asks memory for the next part, of `parts`, of the tile that comes next.
void FusedTiles::askFor(Soon &soon, int64_t parts) const {
  const int64_t part = soon.asked++;
  for (size_t i : ahead) {
    const char *x = as<char>(soon.operands[i]) + (inputs[i].offset + soon.at) * inputs[i].size;
    const int64_t lines = (soon.n * inputs[i].size + 63) / 64;
    for (int64_t line = lines * part / parts; line < lines * (part + 1) / parts; ++line)
      __builtin_prefetch(x + line * 64);
  }
}

void FusedTiles::runVectors(size_t index, const void *(&from)[4], void *y, int64_t n, Soon &soon) const {
  const Step &step = steps[index];
  if (ahead.empty())
    return step.vectors(from, y, n);
  const int64_t count = loops == 1 ? kTile : kAtOnce, size = sizeOfRegister(inputs.size() + index);
  for (int64_t done = 0; done < n; done += count) {
    askFor(soon, loops * (kTile / count));
    step.vectors(from, y, std::min(count, n - done));
    y = static_cast<char *>(y) + count * size;
    for (size_t k = 0; k < step.from.size(); ++k)
      from[k] = static_cast<const char *>(from[k]) + count * sizeOfRegister(step.from[k]);
  }
}

/// By elements, in fp32.
void FusedTiles::runPlain(size_t index, const void *const (&from)[4], void *y, int64_t n) const {
  const Step &step = steps[index];
  float operands[3][kTile], result[kTile];
  for (size_t k = 0; k < step.from.size(); ++k)
    castOf(program.typeOf(step.from[k]), DType::f32)(&from[k], operands[k], n);
  const size_t given = step.from.size();
  for (int64_t k = 0; k < n; ++k)
    result[k] = step.plain(operands[0][k], given > 1 ? operands[1][k] : 0, given > 2 ? operands[2][k] : 0);
  const void *const results = result;
  castOf(DType::f32, program.typeOf(inputs.size() + index))(&results, y, n);
}

void FusedTiles::run(void *const *operands, void *const *results, int64_t begin, int64_t end) const {
  alignas(64) char tiles[kFusedRegisters + kFusedInputs][kTile * sizeof(float)];
  Rows rows;
  rows.fill(-1);
  fillOnce(operands, tiles, std::min(kTile, end - begin));
  for (int64_t at = begin; at < end; at += kTile)
    runTile(operands, results, tiles, rows, begin, at, end);
}

void FusedTiles::runTile(void *const *operands, void *const *results, Tiles tiles, Rows &rows, int64_t begin,
                         int64_t at, int64_t end) const {
  const int64_t n = std::min(kTile, end - at), next = std::min(at + kTile, end);
  findRows(operands, tiles, rows, at, n);
  auto isWithinRow = [&](const Place &place) { return place.row != 0 && at % place.row + n <= place.row; };
  auto placeOf = [&](size_t reg) -> char * {
    const Place &place = places[reg];
    const int64_t size = sizeOfRegister(reg);
    switch (place.kind) {
    case Place::Kind::input:
      return as<char>(operands[place.index]) + (inputs[reg].offset + at) * size;
    case Place::Kind::result:
      return as<char>(results[place.index]) + (at - begin) * size;
    case Place::Kind::tile:
      if (isWithinRow(place))
        return as<char>(operands[reg]) +
               (inputs[reg].offset + inputs[reg].walk.startOf(at / place.row, 1) + at % place.row) * size;
    }
    const bool isWrittenOut = place.period && (place.span == 0 || rows[reg] >= 0);
    return tiles[place.index] + (isWrittenOut ? at % place.period * size : 0);
  };
  Soon soon{operands, next, std::min(kTile, end - next), 0};
  for (size_t i = 0; i < steps.size(); ++i) {
    for (size_t reg : loads[i])
      if (!isWithinRow(places[reg]))
        loadTile(inputs[reg], as<char>(operands[reg]), tiles[places[reg].index], at, n);
    const Step &step = steps[i];
    if (step.isNone)
      continue;
    const void *from[4] = {};
    for (size_t k = 0; k < step.from.size(); ++k)
      from[k] = placeOf(step.from[k]);
    void *y = placeOf(inputs.size() + i);
    if (step.vectors)
      runVectors(i, from, y, n, soon);
    else
      runPlain(i, from, y, n);
  }
  for (size_t i = 0; i < outputs.size(); ++i)
    if (!outputs[i].isDirect)
      storeTile(outputs[i], tiles[places[outputs[i].reg].index], as<char>(results[i]), begin, at, n);
}

} // namespace zc::cpu
