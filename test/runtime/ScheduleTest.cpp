//===- ScheduleTest.cpp - learning rates beside the formulas of those who named them --===//
#include "runtime/plan/Schedule.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace zc;

namespace {

constexpr int64_t kSteps = 14;

double at(const std::string &text, int64_t step) {
  auto schedule = Schedule::create(text, 2, std::nullopt, kSteps);
  EXPECT_TRUE(schedule.ok()) << text << ": " << (schedule.ok() ? "" : schedule.error().message);
  return schedule.ok() ? schedule->at(step) : NAN;
}

void expectAll(const std::string &text, double (*expected)(int64_t step), int64_t last = kSteps) {
  for (int64_t step = 1; step <= last; ++step)
    EXPECT_NEAR(at(text, step), expected(step), 1e-12) << text << ", step " << step;
}

double wave(double progress) { return 0.5 * (1 + std::cos(std::acos(-1.0) * progress)); }

} // namespace

TEST(Schedule, Shapes) {
  for (const char *name : {"constant:warmup=4", "linear:warmup=4", "cosine:warmup=4", "wsd:warmup=4"}) {
    EXPECT_EQ(at(name, 1), 0.5) << name;
    EXPECT_EQ(at(name, 4), 2) << name;
    EXPECT_EQ(at(name, 5), 2) << name;
  }
  EXPECT_EQ(at("constant:warmup=4", 14), 2);
  EXPECT_DOUBLE_EQ(at("linear:warmup=4", 10), 1);
  EXPECT_DOUBLE_EQ(at("cosine:warmup=4", 10), 1);
  EXPECT_EQ(at("wsd:warmup=4", 12), 2);
  EXPECT_DOUBLE_EQ(at("wsd:warmup=4", 14), 1);
}

TEST(Schedule, GivenWarmupTakesThePlaceOfTheTexts) {
  EXPECT_EQ(Schedule::create("linear:warmup=9", 2, 4, kSteps)->at(4), 2);
  EXPECT_EQ(Schedule::create("linear:warmup=9", 2, 4, kSteps)->warmup(), 4);
}

// transformers 4.57, optimization.py: LambdaLR, whose first step is number 0.
TEST(Schedule, AsTransformers) {
  expectAll("linear:warmup=4,rise=linear-from-zero", [](int64_t step) {
    double current = double(step - 1);
    return 2 * (current < 4 ? current / 4 : (14 - current) / 10);
  });
  expectAll("cosine:warmup=4,rise=linear-from-zero,end=0.1", [](int64_t step) {
    double current = double(step - 1);
    return 2 * (current < 4 ? current / 4 : wave((current - 4) / 10) * 0.9 + 0.1);
  });
  expectAll("cosine-restarts:cycles=3",
            [](int64_t step) { return 2 * wave(std::fmod(3 * double(step - 1) / 14, 1.0)); });
  expectAll("polynomial:power=2,end=0.05", [](int64_t step) {
    double left = 1 - double(step - 1) / 14;
    return 2 * (0.95 * left * left + 0.05);
  });
  expectAll("inverse-sqrt:warmup=4,rise=linear-from-zero", [](int64_t step) {
    double current = double(step - 1);
    return 2 * (current < 4 ? current / 4 : 1 / std::sqrt(current / 4));
  });
  expectAll("wsd:warmup=2,rise=linear-from-zero,decay=5,fall=cosine", [](int64_t step) {
    double current = double(step - 1);
    return 2 * (current < 2 ? current / 2 : current < 9 ? 1 : wave((current - 9) / 5));
  });
  EXPECT_NEAR(at("wsd:decay=4,fall=sqrt", 12), 2 * (1 - std::sqrt(0.25)), 1e-12);
}

// DeepSpeed 0.19.8, runtime/lr_schedules.py; engine.py calls the schedule after the step, so the first step's rate is
// the constructor's.
TEST(Schedule, AsDeepSpeed) {
  expectAll("deepspeed-warmup:warmup=5,rise=log,from=0.1", [](int64_t step) {
    double it = double(step - 2);
    return it < 0 ? 0.2 : 0.2 + 1.8 * (it < 5 ? std::log(it + 1) / std::log(5.0) : 1);
  });
  expectAll("deepspeed-warmup:warmup=5,rise=linear-from-zero",
            [](int64_t step) { return 2 * std::min(1.0, std::max(0.0, double(step - 2)) / 5); });
  expectAll(
      "deepspeed-warmup-decay:warmup=4,rise=linear-from-zero,from=0.1,steps=10",
      [](int64_t step) {
        double it = double(step - 2);
        return 0.2 + 1.8 * (it < 0 ? 0 : it < 4 ? it / 4 : std::max(0.0, (10 - it) / 6));
      },
      20);
  expectAll(
      "deepspeed-warmup-cosine:warmup=4,rise=log,from=0.2,end=0.01,steps=10",
      [](int64_t step) {
        double it = double(step - 2);
        if (it < 4)
          return it < 0 ? 0.0 : 2 * (0.2 + 0.8 * std::log(it + 1) / std::log(4.0)); // 0, whatever "from" is
        return 2 * (0.01 + 0.99 * wave(std::min(1.0, (it - 3) / 6)));
      },
      20);
  expectAll(
      "deepspeed-one-cycle:from=0.25,up=4,down=6,every=2,rate=0.5",
      [](int64_t step) {
        double it = double(step - 2), batch = it + 1;
        if (it >= 10)
          return 0.5 / (1 + 0.5 * (it - 10 + 1) / 2);
        double x = batch / 10 - std::floor(batch / 10), scale = x <= 0.4 ? x / 0.4 : (x - 1) / (0.4 - 1);
        return 0.5 + 1.5 * scale;
      },
      20);
}

TEST(Schedule, WhatIsNoScheduleIsRefused) {
  for (const char *text : {"", "step", "linear:warmup", "linear:warmup=-1", "linear:warmup=1.5", "linear:warmup=1e300",
                           "linear:warmup=3x", "linear:end=2", "linear:end=nan", "linear:rise=fast", "linear:pace=3",
                           "wsd:decay=0", "deepspeed-one-cycle:up=0", "linear:warmup=3,,end=0"}) {
    EXPECT_FALSE(Schedule::problem(text).empty()) << text;
    auto schedule = Schedule::create(text, 1, std::nullopt, 10);
    ASSERT_FALSE(schedule.ok()) << text;
    EXPECT_EQ(schedule.error().code, Code::usage) << text;
  }
  EXPECT_NE(Schedule::problem("cosin").find("did you mean \"cosine\""), std::string::npos);
  EXPECT_EQ(Schedule::create("linear", -1, std::nullopt, 1).error().code, Code::usage);
  EXPECT_EQ(Schedule::create("linear", NAN, std::nullopt, 1).error().code, Code::usage);
  EXPECT_EQ(Schedule::create("linear", 1, -3, 1).error().code, Code::usage);
}
