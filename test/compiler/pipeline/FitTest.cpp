//===- FitTest.cpp - tuning and proposals, on needs that are arithmetic -----------------===//

#include "compiler/pipeline/Fit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>

using namespace zc;

namespace {

constexpr ModelSize kSmall{100, 1000};

/// Needs 1000 bytes of the device; each flag saves what it says here.
struct Model {
  int trials = 0;
  size_t operations = 0; ///< of a plan

  Trial trial() {
    return [this](const Strategy &s) -> Result<Planned> {
      ++trials;
      Budgets needs{1000, 0, 0};
      if (s.grad.checkpoint == CheckpointPolicy::selective)
        needs.device -= s.grad.save < 0 ? 100 : std::min<int64_t>(s.grad.save, 400);
      if (s.grad.checkpoint == CheckpointPolicy::block)
        needs.device -= 120;
      if (s.shard.offloadActivation == Offload::host)
        move(needs, 150);
      if (s.shard.offloadOptimizer == Offload::host)
        move(needs, 300);
      if (s.shard.offloadParam == Offload::host)
        move(needs, 100);
      needs.device += std::min<int64_t>(s.shard.resident, 50);
      if (s.shard.offloadOptimizer == Offload::nvme) {
        const int64_t waiting = std::min<int64_t>(s.shard.gradientsOnHost, 100);
        needs.host += 10 + waiting + (s.shard.chunk >> 20);
        needs.nvme += 400 - waiting;
      }
      return Planned{needs, operations};
    };
  }
  static void move(Budgets &needs, int64_t bytes) {
    needs.device -= bytes;
    needs.host += bytes;
  }
};

} // namespace

TEST(Tune, triesNothingWithoutABudget) {
  Model model;
  Strategy strategy;
  strategy.shard.stage = 3;
  strategy.shard.worldSize = 2;
  strategy.grad.checkpoint = CheckpointPolicy::selective;
  Result<Tuned> tuned = tune(strategy, kSmall, model.trial());
  ASSERT_TRUE(tuned);
  EXPECT_EQ(model.trials, 0);
  EXPECT_EQ(tuned->strategy.grad.save, -1);
  EXPECT_EQ(tuned->strategy.shard.resident, 0);
}

TEST(Tune, recomputesNoMoreThanFits) {
  Model model;
  Strategy strategy;
  strategy.grad.checkpoint = CheckpointPolicy::selective;
  for (int64_t budget : {1000, 900, 777, 600}) {
    strategy.schedule.budgets.device = budget;
    Result<Tuned> tuned = tune(strategy, kSmall, model.trial());
    ASSERT_TRUE(tuned);
    EXPECT_LE(tuned->needs.device, budget);
    EXPECT_GE(tuned->needs.device + 10, budget); // a hundredth of what is needed
  }
}

TEST(Tune, keepsAsManyParametersAsFit) {
  Model model;
  Strategy strategy;
  strategy.shard.stage = 3;
  strategy.shard.worldSize = 2;
  for (int64_t budget : {1000, 1025, 1050, 5000}) {
    strategy.schedule.budgets.device = budget;
    Result<Tuned> tuned = tune(strategy, kSmall, model.trial());
    ASSERT_TRUE(tuned);
    EXPECT_EQ(tuned->needs.device, std::min<int64_t>(budget, 1050));
  }
  strategy.shard.quantizeWeights = WeightFormat::int8; // other weights would be computed with
  EXPECT_EQ(tune(strategy, kSmall, model.trial())->strategy.shard.resident, 0);
}

TEST(Tune, keepsAsManyGradientsOnTheHostAsFit) {
  Model model;
  Strategy strategy;
  strategy.shard.offloadOptimizer = Offload::nvme;
  for (int64_t budget : {10, 35, 110, 5000}) {
    strategy.schedule.budgets.host = budget;
    Result<Tuned> tuned = tune(strategy, kSmall, model.trial());
    ASSERT_TRUE(tuned);
    EXPECT_EQ(tuned->needs.host, std::min<int64_t>(budget, 114));
  }
}

TEST(Tune, keepsOnTheHostWhatTheFileHasNoRoomFor) {
  Model model;
  Strategy strategy;
  strategy.shard.offloadOptimizer = Offload::nvme;
  const std::tuple<int64_t, int64_t, bool> cases[] = {{60, 354, true},
                                                      {60, 349, false},
                                                      {110, 300, true}, // all of them, beside the smallest buffers
                                                      {110, 299, false}};
  for (auto [host, nvme, isEnough] : cases) {
    strategy.schedule.budgets = {0, host, nvme};
    Result<Tuned> tuned = tune(strategy, kSmall, model.trial());
    ASSERT_TRUE(tuned);
    EXPECT_EQ(fits(tuned->needs, strategy.schedule.budgets), isEnough) << host << " " << nvme;
  }
  strategy.schedule.budgets = {0, 60, 354};
  EXPECT_EQ(tune(strategy, kSmall, model.trial())->strategy.shard.chunk, strategy.shard.chunk);
}

TEST(Tune, passesErrorsOn) {
  Strategy strategy;
  strategy.grad.checkpoint = CheckpointPolicy::selective;
  strategy.schedule.budgets.device = 1;
  Trial fails = [](const Strategy &) -> Result<Planned> { return makeError(Code::internal, 1, "no"); };
  EXPECT_FALSE(tune(strategy, kSmall, fails));
}

TEST(CheapestFit, namesTheCheapestThatIsEnough) {
  const std::pair<int64_t, const char *> cases[] = {
      {900, "--checkpoint-activations selective fits"}, // with a budget it saves up to 400, and as much as is wanted
      {650, "--checkpoint-activations selective fits"},
      {599, "--checkpoint-activations selective --offload-activation host fits"},
      {301, "--checkpoint-activations selective --offload-optimizer host fits"},
      {200, "--checkpoint-activations selective --offload-activation host --offload-optimizer host fits"}};
  for (auto [budget, expected] : cases) {
    Model model;
    Strategy strategy;
    strategy.schedule.budgets.device = budget;
    std::string text = cheapestFit(strategy, kSmall, model.trial());
    EXPECT_EQ(text.substr(0, std::string(expected).size()), expected) << budget;
  }
}

TEST(CheapestFit, keepsOtherBudgets) {
  Model model;
  Strategy strategy;
  strategy.grad.checkpoint = CheckpointPolicy::block;
  strategy.schedule.budgets = {600, 250, 0};
  // The optimizer would be enough, but is more than the host takes.
  EXPECT_EQ(
      cheapestFit(strategy, kSmall, model.trial()).rfind("--offload-activation host --offload-param host fits", 0),
      std::string::npos);
  strategy.schedule.budgets = {630, 250, 0};
  EXPECT_EQ(
      cheapestFit(strategy, kSmall, model.trial()).rfind("--offload-activation host --offload-param host fits", 0),
      size_t{0});
}

TEST(CheapestFit, saysWhatWouldBeEnough) {
  Model model;
  Strategy strategy;
  strategy.schedule.budgets.device = 10;
  EXPECT_NE(cheapestFit(strategy, kSmall, model.trial()).find("the smallest device memory found is 50 bytes, with"),
            std::string::npos);
}

// The answer does not depend on how fast the machine is: what bounds the search is what it compiles.
TEST(CheapestFit, isBoundedByWhatItCompiles) {
  for (size_t operations : {100, 100000, 10000000}) {
    Model model;
    Strategy strategy;
    strategy.shard.worldSize = 4;
    strategy.schedule.budgets.device = 10;
    std::string text = cheapestFit(strategy, {operations, 1000}, model.trial());
    EXPECT_LE(static_cast<size_t>(model.trials) * operations, std::max<size_t>(1000000, 20 * operations)) << operations;
    EXPECT_NE(text.find("no flags were found that fit"), std::string::npos);
    // So it is where a small model's plan has as many.
    Model cut;
    cut.operations = operations;
    cheapestFit(strategy, kSmall, cut.trial());
    EXPECT_EQ(cut.trials, model.trials) << operations;
  }
}
