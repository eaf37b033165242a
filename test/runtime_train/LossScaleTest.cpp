#include "runtime/train/LossScale.h"

#include <gtest/gtest.h>
#include <string>
#include <vector>

using namespace zc;
using namespace zc::train;

namespace {

planpb::LossScale ruleOf(double initial, double minimum, uint64_t window, uint64_t hysteresis,
                         bool consecutive = false) {
  planpb::LossScale rule;
  rule.set_initial(initial);
  rule.set_minimum(minimum);
  rule.set_window(window);
  rule.set_hysteresis(hysteresis);
  rule.set_consecutive_hysteresis(consecutive);
  return rule;
}

/// What a step leaves.
struct After {
  double scale;
  int64_t hysteresis;
  bool operator==(const After &other) const { return scale == other.scale && hysteresis == other.hysteresis; }
};
void PrintTo(const After &after, std::ostream *out) { *out << after.scale << "/" << after.hysteresis; }

/// Step by step, 'o' where gradients overflow, until the scale is exhausted.
std::vector<After> play(const planpb::LossScale &rule, const std::string &steps) {
  LossScale scale(rule);
  std::vector<After> result;
  for (size_t i = 0; i < steps.size(); ++i) {
    auto step = static_cast<int64_t>(i) + 1;
    Status status;
    if (steps[i] == 'o')
      status = scale.skip(step);
    else
      scale.advance(step);
    if (!status.ok()) {
      EXPECT_EQ(status.error().code, Code::numeric);
      break;
    }
    result.push_back({scale.state().scale, scale.state().hysteresis});
  }
  return result;
}

} // namespace

// What DynamicLossScaler of DeepSpeed 0.19.8 gives (cur_scale, cur_hysteresis after each update_scale).
TEST(LossScale, GoesAsDeepSpeeds) {
  EXPECT_EQ(play(ruleOf(65536, 1, 4, 2), "oo..o....oooo.........o.o.o"),
            (std::vector<After>{{65536, 1}, {32768, 1}, {32768, 1}, {32768, 1}, {16384, 1}, {16384, 1}, {16384, 1},
                                {16384, 1}, {16384, 1}, {8192, 1},  {4096, 1},  {2048, 1},  {1024, 1},  {1024, 1},
                                {1024, 1},  {1024, 1},  {1024, 1},  {2048, 2},  {2048, 2},  {2048, 2},  {2048, 2},
                                {4096, 2},  {4096, 1},  {4096, 1},  {2048, 1},  {2048, 1},  {1024, 1}}));
  EXPECT_EQ(play(ruleOf(65536, 1, 4, 2, true), "oo..o....oooo.........o.o.o"),
            (std::vector<After>{{65536, 1}, {32768, 1}, {32768, 2}, {32768, 2}, {32768, 1}, {32768, 2}, {32768, 2},
                                {32768, 2}, {32768, 2}, {32768, 1}, {16384, 1}, {8192, 1},  {4096, 1},  {4096, 2},
                                {4096, 2},  {4096, 2},  {4096, 2},  {8192, 2},  {8192, 2},  {8192, 2},  {8192, 2},
                                {16384, 2}, {16384, 1}, {16384, 2}, {16384, 1}, {16384, 2}, {16384, 1}}));
  EXPECT_EQ(play(ruleOf(8, 1, 2, 1), "..o...o.........."), (std::vector<After>{{8, 1},
                                                                               {8, 1},
                                                                               {4, 1},
                                                                               {4, 1},
                                                                               {4, 1},
                                                                               {8, 1},
                                                                               {4, 1},
                                                                               {4, 1},
                                                                               {4, 1},
                                                                               {8, 1},
                                                                               {8, 1},
                                                                               {16, 1},
                                                                               {16, 1},
                                                                               {32, 1},
                                                                               {32, 1},
                                                                               {64, 1},
                                                                               {64, 1}}));
  EXPECT_EQ(play(ruleOf(4, 0.25, 1, 2), "....o...oo..."), (std::vector<After>{{4, 2},
                                                                              {8, 2},
                                                                              {16, 2},
                                                                              {32, 2},
                                                                              {32, 1},
                                                                              {32, 1},
                                                                              {64, 2},
                                                                              {128, 2},
                                                                              {128, 1},
                                                                              {64, 1},
                                                                              {64, 1},
                                                                              {128, 2},
                                                                              {256, 2}}));
}

TEST(LossScale, EndsAtItsFloor) {
  EXPECT_EQ(play(ruleOf(4, 1, 1000, 1), "ooooo"), (std::vector<After>{{2, 1}, {1, 1}}));
  EXPECT_EQ(play(ruleOf(6, 1, 3, 3), "oooooo..o.ooooo"),
            (std::vector<After>{{6, 2}, {6, 1}, {3, 1}, {1.5, 1}, {1, 1}}));
}

TEST(LossScale, AFixedOneEndsAfterManySkips) {
  std::string steps(LossScale::kMostSkipped + 5, 'o');
  EXPECT_EQ(play(ruleOf(64, 64, 0, 2), steps).size(), size_t(LossScale::kMostSkipped - 1));
  steps[50] = '.';
  auto all = play(ruleOf(64, 64, 0, 2), steps);
  EXPECT_EQ(all.size(), steps.size());
  EXPECT_EQ(all.back(), (After{64, 2}));
}

TEST(LossScale, StaysANumber) {
  auto last = play(ruleOf(0x1p126, 1, 1, 1), std::string(10, '.')).back();
  EXPECT_EQ(last.scale, 0x1p127);
}

TEST(LossScale, ContinuesWhereItWas) {
  planpb::LossScale rule = ruleOf(65536, 1, 4, 2);
  LossScale straight(rule);
  for (int64_t step = 1; step <= 9; ++step) {
    if (step % 4 == 1)
      EXPECT_TRUE(straight.skip(step).ok());
    else
      straight.advance(step);
  }
  LossScale again(rule);
  ASSERT_TRUE(again.restore(straight.state(), 9).ok());
  EXPECT_EQ(again.state().skipped, 3);
  for (int64_t step = 10; step <= 20; ++step) {
    straight.advance(step);
    again.advance(step);
    EXPECT_EQ(again.state().scale, straight.state().scale) << step;
  }
}

TEST(LossScale, AFixedOneIsThePlansAfterAnotherPlansAsWell) {
  for (double fixed : {128.0, 1048576.0}) {
    LossScale scale(ruleOf(fixed, fixed, 0, 1));
    (void)scale.restore({65536, 1, 5, 3, 0}, 9);
    EXPECT_EQ(scale.state().scale, fixed);
  }
}

TEST(LossScale, AStateThatCannotBeIsRefused) {
  planpb::LossScale rule = ruleOf(65536, 1, 4, 2);
  LossScaleState sound{1024, 1, 5, 3, 0};
  EXPECT_TRUE(LossScale(rule).restore(sound, 5).ok());
  for (auto damage : std::vector<void (*)(LossScaleState &)>{
           [](LossScaleState &s) { s.scale = 0.5; }, [](LossScaleState &s) { s.scale = 0x1p128; },
           [](LossScaleState &s) { s.scale = 0; }, [](LossScaleState &s) { s.hysteresis = 0; },
           [](LossScaleState &s) { s.hysteresis = 3; }, [](LossScaleState &s) { s.lastOverflow = 6; },
           [](LossScaleState &s) { s.skipped = 6; }, [](LossScaleState &s) { s.inARow = 4; }}) {
    LossScaleState state = sound;
    damage(state);
    Status status = LossScale(rule).restore(state, 5);
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code, Code::corrupt);
  }
}
