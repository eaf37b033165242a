#include "base/StridedView.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>

using namespace zc;

namespace {

using Ints = std::vector<int64_t>;

/// The elements that a view shows, row major.
Ints elementsOf(const StridedView &view) {
  Ints all;
  for (int64_t i = 0; i < view.numElements(); ++i) {
    int64_t rest = i, at = view.offset;
    for (size_t d = view.sizes.size(); d-- > 0; rest /= view.sizes[d])
      at += rest % view.sizes[d] * view.strides[d];
    all.push_back(at);
  }
  return all;
}

class Dice {
public:
  explicit Dice(unsigned seed) : engine(seed) {}
  int64_t roll(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(engine); }

  std::mt19937 engine;
};

/// A few dimensions, with the numbers of elements that split or join well.
Ints anyShape(Dice &dice) {
  Ints shape;
  for (int64_t rank = dice.roll(0, 4); rank > 0; --rank)
    shape.push_back(Ints{1, 2, 3, 4, 6}[static_cast<size_t>(dice.roll(0, 4))]);
  return shape;
}

TEST(StridedView, isWhatTheOperationsMake) {
  Dice dice(1);
  for (int round = 0; round < 3000; ++round) {
    StridedView view = StridedView::whole(0, anyShape(dice));
    for (int op = 0; op < 4; ++op) {
      const size_t rank = view.sizes.size();
      const Ints before = elementsOf(view);
      const StridedView apart = StridedView::whole(0, view.sizes); // as a tensor of its own
      Ints expected;
      if (dice.roll(0, 1) == 0) {
        Ints permutation(rank);
        std::iota(permutation.begin(), permutation.end(), 0);
        std::shuffle(permutation.begin(), permutation.end(), dice.engine);
        for (int64_t at : elementsOf(apart.transposed(permutation)))
          expected.push_back(before[static_cast<size_t>(at)]);
        view = view.transposed(permutation);
      } else {
        Ints offsets, sizes, strides;
        for (int64_t size : view.sizes) {
          strides.push_back(dice.roll(1, 2));
          offsets.push_back(dice.roll(0, size - 1));
          sizes.push_back(dice.roll(1, (size - 1 - offsets.back()) / strides.back() + 1));
          if (dice.roll(0, 3) == 0) { // the same backwards
            offsets.back() += (sizes.back() - 1) * strides.back();
            strides.back() = -strides.back();
          }
        }
        for (int64_t at : elementsOf(apart.sliced(offsets, sizes, strides)))
          expected.push_back(before[static_cast<size_t>(at)]);
        view = view.sliced(offsets, sizes, strides);
      }
      EXPECT_EQ(elementsOf(view), expected);
      for (size_t i = 0; i < expected.size(); ++i)
        EXPECT_EQ(view.at(static_cast<int64_t>(i)), expected[i]);
    }
  }
}

TEST(StridedView, isReshapedWhereNothingMoves) {
  Dice dice(2);
  int reshaped = 0, refused = 0;
  for (int round = 0; round < 20000; ++round) {
    StridedView view = StridedView::whole(0, anyShape(dice));
    if (view.sizes.size() > 1 && dice.roll(0, 1) == 0) {
      Ints permutation(view.sizes.size());
      std::iota(permutation.begin(), permutation.end(), 0);
      std::shuffle(permutation.begin(), permutation.end(), dice.engine);
      view = view.transposed(permutation);
    }
    Ints shape = anyShape(dice);
    if (StridedView::whole(0, shape).numElements() != view.numElements())
      continue;
    std::optional<StridedView> other = view.reshaped(shape);
    ++(other ? reshaped : refused);
    if (other) {
      EXPECT_EQ(other->sizes, shape);
      EXPECT_EQ(elementsOf(*other), elementsOf(view));
    }
    EXPECT_TRUE(other || !view.isContiguous());
  }
  EXPECT_GT(reshaped, 500);
  EXPECT_GT(refused, 50);
}

TEST(StridedView, isReadBackAsWritten) {
  const std::vector<StridedView> views = {{0, 5, {2, 3}, {10, 1}}, {1, 0, {}, {}}, {2, 7, {4}, {2}}};
  auto again = decodeViews(encode(views));
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(encode(*again), encode(views));
  for (const Ints &words :
       {Ints{0}, {0, 0}, {0, 0, 1}, {0, 0, 1, 2}, {-1, 0, 0}, {0, 0, -1}, {0, 0, 65}, {0, 0, INT64_MAX}})
    EXPECT_FALSE(decodeViews(words).has_value());
}

/// Whatever passes is inside, shows no element twice, and writes each once.
TEST(StridedView, isSoundWhereNoProblemIsFound) {
  Dice dice(3);
  std::map<std::string, int> found;
  for (int round = 0; round < 100000; ++round) {
    const int64_t room = dice.roll(1, 16);
    std::vector<StridedView> views = {{0, 0, {}, {}}};
    for (int64_t n = dice.roll(1, 3); n > 0; --n) {
      StridedView view{1, dice.roll(0, 3), {}, {}};
      for (int64_t rank = dice.roll(0, 2); rank > 0; --rank) {
        view.sizes.push_back(dice.roll(0, 4));
        view.strides.push_back(dice.roll(-2, 6));
      }
      views.push_back(view);
    }
    auto problem = findProblem(views, {1, room}, 1);
    ++found[problem ? problem->label : "none"];
    if (problem)
      continue;
    Ints written;
    for (const StridedView &view : views)
      if (view.tensor == 1)
        for (int64_t at : elementsOf(view))
          written.push_back(at);
    std::sort(written.begin(), written.end());
    Ints all(static_cast<size_t>(room));
    std::iota(all.begin(), all.end(), 0);
    ASSERT_EQ(written, all);
  }
  for (const char *label : {"none", "view_c2", "view_c3", "view_c4"})
    EXPECT_GT(found[label], 300) << label;
}

} // namespace
