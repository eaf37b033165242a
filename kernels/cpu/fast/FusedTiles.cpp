#include "kernels/cpu/fast/FusedTiles.h"
#include "kernels/cpu/Support.h"

#include <algorithm>

namespace zc::cpu {

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
  if (type == DType::f32 && !isScalar && isOneRun)
    places.back() = {Place::Kind::input, inputs.size()};
  else if (isInOrder && walk.numDims() == 2 && walk.stride(1, 0) == 0 && walk.runLength() <= kTile)
    places.back().period = walk.runLength();
  else if (isInOrder && walk.numDims() == 3 && walk.stride(1, 1) == 0 && walk.runLength() <= kTile) {
    places.back().period = walk.runLength();
    places.back().span = walk.runLength() * walk.dim(1);
    changing.push_back(inputs.size());
  } else if (isInOrder && type == DType::f32 && walk.runLength() > kTile)
    places.back().row = walk.runLength();
  inputs.push_back({walk, view.offset, sizeOf(type), loadOf(type), loadRunsOf(type), isScalar, isOneRun});
}

void FusedTiles::addInstruction(const FusedInstruction &instruction) {
  const size_t reg = places.size();
  const bool isCast = instruction.code == FusedCode::cast && !isResult(reg) &&
                      (instruction.type == DType::f32 || instruction.type == program.typeOf(instruction.from[0]));
  same.push_back(isCast ? same[instruction.from[0]] : reg);
  places.push_back({});
  Step step{instruction.code,
            stepOf(instruction.code, instruction.type),
            fusedPlain(instruction.code),
            roundingOf(instruction.type),
            {},
            false,
            isCast || instruction.code == FusedCode::constant};
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
      const DType firsts = program.typeOf(reg), type = program.instructions[j].type;
      FusedStep pair = first.isNone || (firsts != type && firsts != DType::boolean)
                           ? nullptr
                           : pairOf(first.code, second.code, place, type, second.isDirect);
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

/// A result over an input is written last, or by the last instruction. In 16 bits it is written at once where no other
/// instruction reads it.
void FusedTiles::addResult(size_t index, const StridedView &view, Results over) {
  const size_t reg = program.results[index];
  const DType type = program.typeOf(reg);
  const bool isLast = reg + 1 == places.size();
  std::optional<Walk<2>> walk;
  if (view.offset != 0 || !view.isContiguous())
    walk.emplace(view.sizes, std::array<Dims, 2>{rowMajorStrides(view.sizes), view.strides});
  bool isDirect = isFast(type) && !walk && (isLast || !over[index]);
  if (isDirect && type != DType::f32) {
    Step &step = steps[reg - inputs.size()];
    step.isDirect = isDirect = step.vectors && !isRead(reg);
    if (isDirect)
      step.vectors = stepOf(step.code, type, true);
  }
  if (isDirect)
    places[reg] = {Place::Kind::result, index};
  outputs.push_back({reg, storeOf(type), isDirect, sizeOf(type), view.offset, walk});
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

bool FusedTiles::isRead(size_t reg) const {
  return std::any_of(program.instructions.begin(), program.instructions.end(), [&](const FusedInstruction &i) {
    const auto *end = i.from.begin() + fusedOperands(i.code);
    return std::find(i.from.begin(), end, reg) != end;
  });
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
    float *tile = tiles[places[reg].index];
    const char *x = reg < inputs.size() ? as<char>(operands[reg]) + inputs[reg].offset * inputs[reg].size : nullptr;
    if (places[reg].period)
      writeOut(reg, x, tile, n);
    else if (x)
      inputs[reg].load(x, 0, tile, n);
    else
      fillWith(program.instructions[reg - inputs.size()].value, tile, n);
  }
}

/// A row that repeats, to be read from any of its elements on, n of them.
void FusedTiles::writeOut(size_t reg, const char *row, float *tile, int64_t n) const {
  const int64_t period = places[reg].period;
  for (int64_t at = 0; at < n + period; at += period)
    inputs[reg].load(row, 1, tile + at, std::min(period, n + period - at));
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
void FusedTiles::loadShortRuns(const Input &input, const char *x, float *y, int64_t at, int64_t n) {
  const int64_t length = input.walk.runLength(), skip = at % length;
  int64_t starts[kTile / kShortest + 2], runs = 0;
  input.walk.forRuns(at / length, (at + n + length - 1) / length,
                     [&](const Walk<2>::Offsets &run) { starts[runs++] = run[1]; });
  const int64_t first = skip == 0 ? 0 : std::min(length - skip, n), whole = (n - first) / length;
  if (first > 0)
    input.load(x + (starts[0] + skip) * input.size, 1, y, first);
  const int64_t begun = first > 0 ? 1 : 0;
  input.loadRuns(x, starts + begun, whole, length, y + first);
  if (const int64_t rest = n - first - whole * length)
    input.load(x + starts[begun + whole] * input.size, 1, y + n - rest, rest);
}

/// Elements [at, at + n) of an input as fp32.
void FusedTiles::loadTile(const Input &input, const char *x, float *y, int64_t at, int64_t n) const {
  if (input.isInOrder)
    return input.load(x + (input.offset + at) * input.size, 1, y, n);
  if (input.walk.runStride(1) == 1 && input.walk.runLength() >= kShortest)
    return loadShortRuns(input, x + input.offset * input.size, y, at, n);
  forPieces(input.walk, at, n, [&](int64_t first, int64_t count) {
    input.load(x + (input.offset + first) * input.size, input.walk.runStride(1), y, count);
    y += count;
  });
}

/// Elements [at, at + n) of a result; `y`: as run's.
void FusedTiles::storeTile(const Output &output, const float *x, char *y, int64_t begin, int64_t at, int64_t n) const {
  if (!output.walk)
    return output.store(x, y + (at - begin) * output.size, n);
  forPieces(*output.walk, at, n, [&](int64_t first, int64_t count) {
    output.store(x, y + (output.offset + first) * output.size, count);
    x += count;
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

void FusedTiles::runVectors(const Step &step, const float *(&from)[4], float *y, int64_t n, Soon &soon) const {
  if (ahead.empty())
    return step.vectors(from, y, n);
  const int64_t count = loops == 1 ? kTile : kAtOnce, size = step.isDirect ? 2 : 4;
  for (int64_t done = 0; done < n; done += count) {
    askFor(soon, loops * (kTile / count));
    step.vectors(from, y, std::min(count, n - done));
    y = reinterpret_cast<float *>(reinterpret_cast<char *>(y) + count * size);
    for (size_t k = 0; k < step.from.size(); ++k)
      from[k] += count;
  }
}

void FusedTiles::runPlain(const Step &step, const float *(&from)[4], float *y, int64_t n) {
  for (int64_t k = 0; k < n; ++k)
    y[k] = step.plain(from[0][k], from[1] ? from[1][k] : 0, from[2] ? from[2][k] : 0);
  from[0] = y;
  step.rounding(from, y, n);
}

void FusedTiles::run(void *const *operands, void *const *results, int64_t begin, int64_t end) const {
  alignas(64) float tiles[kFusedRegisters + kFusedInputs][kTile];
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
  auto placeOf = [&](size_t reg) -> float * {
    const Place &place = places[reg];
    switch (place.kind) {
    case Place::Kind::input:
      return as<float>(operands[place.index]) + inputs[reg].offset + at;
    case Place::Kind::result:
      return reinterpret_cast<float *>(as<char>(results[place.index]) + (at - begin) * outputs[place.index].size);
    case Place::Kind::tile:
      if (isWithinRow(place))
        return as<float>(operands[reg]) + inputs[reg].offset + inputs[reg].walk.startOf(at / place.row, 1) +
               at % place.row;
    }
    const bool isWrittenOut = place.period && (place.span == 0 || rows[reg] >= 0);
    return tiles[place.index] + (isWrittenOut ? at % place.period : 0);
  };
  Soon soon{operands, next, std::min(kTile, end - next), 0};
  for (size_t i = 0; i < steps.size(); ++i) {
    for (size_t reg : loads[i])
      if (!isWithinRow(places[reg]))
        loadTile(inputs[reg], as<char>(operands[reg]), tiles[places[reg].index], at, n);
    const Step &step = steps[i];
    if (step.isNone)
      continue;
    const float *from[4] = {};
    for (size_t k = 0; k < step.from.size(); ++k)
      from[k] = placeOf(step.from[k]);
    float *y = placeOf(inputs.size() + i);
    if (step.vectors)
      runVectors(step, from, y, n, soon);
    else
      runPlain(step, from, y, n);
  }
  for (size_t i = 0; i < outputs.size(); ++i)
    if (!outputs[i].isDirect)
      storeTile(outputs[i], tiles[places[outputs[i].reg].index], as<char>(results[i]), begin, at, n);
}

} // namespace zc::cpu
