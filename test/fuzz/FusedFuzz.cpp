// Any bytes as operands, views of them and program of a kernel `fused`, or of one that reads what a program computes:
// refused, or it runs on plain and fast kernels within its operands and workspace, which are allocated to the byte.
#include "base/StridedView.h"
#include "kernels/Prologue.h"
#include "kernels/Workspace.h"
#include "kernels/cpu/fast/Fast.h"

#include <cstring>
#include <optional>
#include <utility>

using namespace zc;

namespace {

/// The fuzzer's bytes, one after the other; 0 behind the last.
struct Bytes {
  const uint8_t *at, *end;
  uint8_t next() { return at < end ? *at++ : uint8_t(0); }
  bool isDone() const { return at == end; }
};

/// A byte is a word; 0x7f stands before a word of four.
int64_t wordOf(Bytes &bytes) {
  const auto byte = static_cast<int8_t>(bytes.next());
  if (byte != 0x7f)
    return byte;
  uint32_t word = 0;
  for (int i = 0; i < 4; ++i)
    word = word << 8 | bytes.next();
  return word;
}

TensorType typeOf(uint8_t byte, std::optional<uint8_t> shape) {
  const DType types[] = {DType::f32, DType::bf16, DType::f16, DType::boolean,
                         DType::i64, DType::f64,  DType::f32, DType::f32};
  const std::vector<int64_t> shapes[] = {{3, 700}, {700}, {3, 1}, {}, {1, 1, 1}, {0}, {3, 700}, {2}};
  return {types[byte & 7], shapes[shape.value_or(byte >> 3) & 7]};
}

/// Of operand i, or something else: a bit of a byte for each way in which it is none of it as a whole.
StridedView viewOf(const KernelSpec &spec, size_t i, Bytes &bytes) {
  StridedView view = StridedView::whole(i, spec.operands[i].dims);
  const uint8_t ways = bytes.next();
  if (ways & 1)
    view.tensor = bytes.next() % (spec.operands.size() + 1);
  if (ways & 2)
    view.offset = wordOf(bytes);
  if (view.sizes.empty())
    return view;
  const size_t d = size_t(ways >> 6) % view.sizes.size();
  if (ways & 4)
    view.sizes[d] = wordOf(bytes);
  if (ways & 8)
    view.strides[d] = wordOf(bytes);
  if (ways & 16) {                                                                                       // backwards
    const auto last = static_cast<uint64_t>(view.sizes[d] - 1) * static_cast<uint64_t>(view.strides[d]); // wraps
    view.offset = static_cast<int64_t>(static_cast<uint64_t>(view.offset) + last);
    view.strides[d] = -view.strides[d];
  }
  if (ways & 32) {
    std::swap(view.sizes.front(), view.sizes.back());
    std::swap(view.strides.front(), view.strides.back());
  }
  return view;
}

/// The operands that batch_norm_grad_sums has beside those of its program.
void addOwn(KernelSpec &spec) {
  const TensorType x{DType::f32, {3, 700}}, channels{DType::f32, {700}};
  spec.name = "batch_norm_grad_sums";
  spec.operands.insert(spec.operands.end(), {x, channels, channels, channels});
  spec.numInputs += 4;
  spec.operands.insert(spec.operands.end(), 5, channels);
  spec.attributes["epsilon"] = 1e-5;
  spec.attributes["channels_last"] = int64_t{1};
}

void runOn(const KernelRegistry &registry, const KernelSpec &spec) {
  auto kernel = registry.prepare(spec);
  if (!kernel.ok())
    return (void)render(kernel.error());
  std::vector<std::vector<char>> memory;
  for (const TensorType &type : spec.operands)
    memory.emplace_back(static_cast<size_t>(type.numBytes()), '\x3f');
  memory.emplace_back(static_cast<size_t>(spec.workspace) + 64);
  std::vector<void *> operands;
  for (std::vector<char> &each : memory)
    operands.push_back(each.data());
  const auto workspace = reinterpret_cast<uintptr_t>(operands.back());
  operands.back() = reinterpret_cast<void *>((workspace + 63) / 64 * 64);
  if (!(*kernel)->run(operands.data(), {}).ok())
    std::abort();
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t count) {
  static const KernelRegistry *plain = [] { // never destroyed
    auto *made = new KernelRegistry;
    cpu::addFused(*made);
    cpu::addBatchNorm(*made);
    return made;
  }();
  static const KernelRegistry *fast = [] {
    auto *made = new KernelRegistry(*plain);
    cpu::addFastFused(*made);
    cpu::addFastBatchNormLast(*made);
    return made;
  }();
  Bytes bytes{data, data + count};
  KernelSpec spec;
  spec.name = "fused";
  const uint8_t first = bytes.next(), second = bytes.next();
  spec.numInputs = first % 18;
  spec.threads = 1 + first / 18 % 4;
  const size_t results = second % 6;
  const uint8_t shape = second / 6; // of all results, its last three bits
  const bool hasViews = second >= 6 * 8;
  const bool isInto = results == 5; // which `fused` refuses
  for (size_t i = 0; i < spec.numInputs + (isInto ? 0 : results); ++i)
    spec.operands.push_back(typeOf(bytes.next(), i < spec.numInputs ? std::nullopt : std::optional(shape)));
  std::vector<StridedView> views;
  for (size_t i = 0; hasViews && i < spec.operands.size(); ++i)
    views.push_back(viewOf(spec, i, bytes));
  if (hasViews)
    spec.attributes["views"] = encode(views);
  std::vector<int64_t> words;
  while (!bytes.isDone())
    words.push_back(wordOf(bytes));
  if (isInto)
    addOwn(spec);
  spec.attributes["program"] = std::move(words);
  spec.workspace = workspaceBytes(spec, Target::cpu);
  runOn(*plain, spec);
  runOn(*fast, spec);
  return 0;
}
