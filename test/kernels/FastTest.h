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

} // namespace zc::test
