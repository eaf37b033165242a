//===- FastTest.h - each fast kernel against its plain version ------------------===//
#pragma once

#include "kernels/cpu/Team.h"
#include "test/kernels/KernelTest.h"

namespace zc::test {

inline const Attribute kOne = int64_t{1};

inline Call atOffset(Call call, size_t offset) {
  for (Value &value : call.inputs)
    value = value.at(offset);
  for (Value &value : call.outputs)
    value = value.at(offset);
  return call;
}

/// Has a kernel the same bits on any number of threads, or for one number of them?
enum class Bits { perThreads, always };

/// `tolerance` is of f32 outputs, relative to 1 + |expected|; 16-bit outputs may be one rounding further off.
inline void expectFastMatches(Call call, double tolerance, Bits bits = Bits::perThreads) {
  std::string shapes = call.name;
  for (const Value &value : call.inputs) {
    shapes += " " + std::string(nameOf(value.type.dtype)) + "[";
    for (int64_t d : value.type.dims)
      shapes += std::to_string(d) + ",";
    shapes += "]";
  }
  SCOPED_TRACE(shapes);
  Result<std::vector<Value>> expected = run(call, true);
  ASSERT_TRUE(expected.ok()) << expected.error().message;
  std::vector<Value> ofOneThread;
  for (int threads : {1, 2, 3}) {
    call.threads = threads;
    Result<std::vector<Value>> first = run(call, false);
    ASSERT_TRUE(first.ok()) << first.error().message;
    ASSERT_EQ(first->size(), expected->size());
    if (threads == 1)
      ofOneThread = *first;
    for (size_t i = 0; bits == Bits::always && i < first->size(); ++i)
      ASSERT_TRUE((*first)[i] == ofOneThread[i]) << "output " << i << " of " << threads << " threads";
    for (size_t i = 0; i < first->size(); ++i) {
      SCOPED_TRACE("output " + std::to_string(i) + " threads " + std::to_string(threads));
      double bound = tolerance + roundingOf((*first)[i].type.dtype);
      expectNear((*first)[i], elements((*expected)[i]), bound);
      if (testing::Test::HasFatalFailure())
        return;
    }
    {
      cpu::TeamLimit one(1);
      Result<std::vector<Value>> alone = run(call, false);
      ASSERT_TRUE(alone.ok());
      for (size_t i = 0; i < first->size(); ++i)
        ASSERT_TRUE((*alone)[i] == (*first)[i]) << "output " << i << " of " << threads << " parts on one thread";
    }
    for (size_t offset : {0, 1, 7}) {
      Result<std::vector<Value>> again = run(atOffset(call, offset), false);
      ASSERT_TRUE(again.ok()) << again.error().message;
      for (size_t i = 0; i < first->size(); ++i)
        ASSERT_TRUE((*again)[i] == (*first)[i]) << "output " << i << " at offset " << offset;
    }
  }
}

/// fn(dtype, tolerance factor) for the types fast kernels are written for.
template <typename Fn> void forFastTypes(Fn fn) {
  for (DType type : {DType::f32, DType::bf16, DType::f16})
    fn(type);
}

inline Value random(DType type, Ints dims, unsigned seed, double low = -1, double high = 1) {
  return uniform({type, std::move(dims)}, seed, low, high);
}

/// The call in micro-steps, with room for what its kernel keeps of its weight: the bits of one without, and nothing
/// beside that room. Is the weight looked at in the first alone?
inline bool keepsItsWeight(Call call) {
  KernelSpec spec = call.spec();
  const KeptInput kept = keptInput(spec, Target::cpu);
  if (kept.bytes == 0)
    return false;
  EXPECT_EQ(kept.input, 1u);
  spec.kept = kept.bytes;
  spec.keptInput = kept.input;
  const auto kernel = must(registry(false).prepare(spec));
  WorkspaceOf workspace(spec);
  std::vector<char> room(static_cast<size_t>(kept.bytes) + 128, '\x5a');
  char *place = room.data() + 64 - reinterpret_cast<uintptr_t>(room.data()) % 64;
  auto runIn = [&](int64_t micro) {
    std::vector<void *> operands;
    for (std::vector<Value> *values : {&call.inputs, &call.outputs})
      for (Value &value : *values)
        operands.push_back(value.data());
    operands.insert(operands.end(), {workspace.data(), place});
    StepContext context;
    context.micro = micro;
    EXPECT_TRUE(kernel->run(operands.data(), context).ok());
    return call.outputs[0];
  };
  EXPECT_TRUE(runIn(0) == must(run(call, false))[0]);
  call.inputs[0] = uniform(spec.operands[0], 4, -1, 1);
  const Value next = must(run(call, false))[0];
  EXPECT_TRUE(runIn(1) == next);
  call.inputs[1] = uniform(spec.operands[1], 5, -1, 1);
  const Value changed = must(run(call, false))[0], got = runIn(1);
  const bool keeps = kernel->method().find("kept") != std::string::npos;
  EXPECT_TRUE(got == (keeps ? next : changed));
  EXPECT_TRUE(runIn(0) == changed);
  EXPECT_TRUE(std::all_of(room.data(), place, [](char c) { return c == '\x5a'; }) &&
              std::all_of(place + kept.bytes, room.data() + room.size(), [](char c) { return c == '\x5a'; }));
  return keeps;
}

} // namespace zc::test
