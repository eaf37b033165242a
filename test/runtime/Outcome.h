//===- Outcome.h - what a run ends with, to be compared with another's --------------------===//
#pragma once

#include "runtime/exec/Executor.h"

#include <gtest/gtest.h>
#include <string>
#include <vector>

namespace zc::test {

struct Outcome {
  std::vector<double> losses;
  std::string state; ///< of all persistent slices of rank 0
  bool operator==(const Outcome &o) const { return losses == o.losses && state == o.state; }
};

inline std::string persistentBytes(RankExecutor &executor) {
  std::string bytes;
  for (int i = 0; i < executor.plan().slices_size(); ++i)
    if (executor.plan().slices(i).persistent()) {
      std::string slice(executor.plan().slices(i).bytes(), '\0');
      EXPECT_TRUE(executor.readSlice(static_cast<uint32_t>(i), 0, slice.data(), slice.size()).ok());
      bytes += slice;
    }
  return bytes;
}

} // namespace zc::test
