#include "kernels/cpu/Copy.h"

#include <gtest/gtest.h>
#include <random>
#include <vector>

using namespace zc;

/// Any size, alignment and number of threads: the bytes arrive, and no others change.
TEST(Copy, MovesTheBytesAndNoOthers) {
  const size_t megabyte = size_t(1) << 20, most = 4 * megabyte + 100;
  std::mt19937 random(1);
  std::vector<char> source(most + 64), expected;
  for (char &byte : source)
    byte = static_cast<char>(random());
  for (size_t bytes : {size_t(0), size_t(1), size_t(4095), megabyte - 1, megabyte, megabyte + 1, 2 * megabyte, most})
    for (size_t to : {0, 1, 63})
      for (int threads : {1, 2, 3}) {
        std::vector<char> target(most + 128, 42);
        expected = target;
        std::copy_n(source.begin() + 3, bytes, expected.begin() + static_cast<std::ptrdiff_t>(to));
        cpu::copy(target.data() + to, source.data() + 3, bytes, threads);
        EXPECT_TRUE(target == expected) << bytes << " bytes to offset " << to << ", " << threads << " threads";
      }
}
