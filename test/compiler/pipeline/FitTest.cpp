//===- FitTest.cpp - tuning and proposals, on needs that are arithmetic -----------------===//

#include "compiler/pipeline/Fit.h"

#include <gtest/gtest.h>

#include <algorithm>

using namespace zc;

namespace {

constexpr ModelSize kSmall{100, 1000};

/// Needs 1000 bytes of the device; each flag saves what it says here.
struct Model {
  int trials = 0;

  Trial trial() {
    return [this](const CompileOptions &o, const Tuning &t) -> Result<Budgets> {
      ++trials;
      Budgets needs{1000, 0, 0};
      if (o.checkpointActivations == "selective")
        needs.device -= static_cast<uint64_t>(t.save < 0 ? 100 : std::min<int64_t>(t.save, 400));
      if (o.checkpointActivations == "block")
        needs.device -= 120;
      if (o.offloadActivation == "host")
        move(needs, 150);
      if (o.offloadOptimizer == "host")
        move(needs, 300);
      if (o.offloadParam == "host")
        move(needs, 100);
      needs.device += static_cast<uint64_t>(std::min<int64_t>(t.resident, 50));
      return needs;
    };
  }
  static void move(Budgets &needs, uint64_t bytes) {
    needs.device -= bytes;
    needs.host += bytes;
  }
};

} // namespace

TEST(Tune, triesNothingWithoutABudget) {
  Model model;
  CompileOptions options;
  options.stage = 3;
  options.worldSize = 2;
  options.checkpointActivations = "selective";
  Result<Tuned> tuned = tune(options, kSmall, model.trial());
  ASSERT_TRUE(tuned);
  EXPECT_EQ(model.trials, 0);
  EXPECT_EQ(tuned->tuning.save, -1);
  EXPECT_EQ(tuned->tuning.resident, 0);
}

TEST(Tune, recomputesNoMoreThanFits) {
  Model model;
  CompileOptions options;
  options.checkpointActivations = "selective";
  for (uint64_t budget : {1000, 900, 777, 600}) {
    options.budgets.device = budget;
    Result<Tuned> tuned = tune(options, kSmall, model.trial());
    ASSERT_TRUE(tuned);
    EXPECT_LE(tuned->needs.device, budget);
    EXPECT_GE(tuned->needs.device + 10, budget); // a hundredth of what is needed
  }
}

TEST(Tune, keepsAsManyParametersAsFit) {
  Model model;
  CompileOptions options;
  options.stage = 3;
  options.worldSize = 2;
  for (uint64_t budget : {1000, 1025, 1050, 5000}) {
    options.budgets.device = budget;
    Result<Tuned> tuned = tune(options, kSmall, model.trial());
    ASSERT_TRUE(tuned);
    EXPECT_EQ(tuned->needs.device, std::min<uint64_t>(budget, 1050));
  }
  options.quantizeWeights = "int8"; // other weights would be computed with
  EXPECT_EQ(tune(options, kSmall, model.trial())->tuning.resident, 0);
}

TEST(Tune, passesErrorsOn) {
  CompileOptions options;
  options.checkpointActivations = "selective";
  options.budgets.device = 1;
  Trial fails = [](const CompileOptions &, const Tuning &) -> Result<Budgets> {
    return makeError(Code::internal, 1, "no");
  };
  EXPECT_FALSE(tune(options, kSmall, fails));
}

TEST(CheapestFit, namesTheCheapestThatIsEnough) {
  const std::pair<uint64_t, const char *> cases[] = {
      {900, "--checkpoint-activations selective fits"}, // with a budget it saves up to 400, and as much as is wanted
      {650, "--checkpoint-activations selective fits"},
      {599, "--checkpoint-activations selective --offload-activation host fits"},
      {301, "--checkpoint-activations selective --offload-optimizer host fits"},
      {200, "--checkpoint-activations selective --offload-activation host --offload-optimizer host fits"}};
  for (auto [budget, expected] : cases) {
    Model model;
    CompileOptions options;
    options.budgets.device = budget;
    std::string text = cheapestFit(options, kSmall, model.trial());
    EXPECT_EQ(text.substr(0, std::string(expected).size()), expected) << budget;
  }
}

TEST(CheapestFit, keepsOtherBudgets) {
  Model model;
  CompileOptions options;
  options.checkpointActivations = "block";
  options.budgets = {600, 250, 0};
  // The optimizer would be enough, but is more than the host takes.
  EXPECT_EQ(cheapestFit(options, kSmall, model.trial()).rfind("--offload-activation host --offload-param host fits", 0),
            std::string::npos);
  options.budgets = {630, 250, 0};
  EXPECT_EQ(cheapestFit(options, kSmall, model.trial()).rfind("--offload-activation host --offload-param host fits", 0),
            size_t{0});
}

TEST(CheapestFit, saysWhatWouldBeEnough) {
  Model model;
  CompileOptions options;
  options.budgets.device = 10;
  EXPECT_NE(cheapestFit(options, kSmall, model.trial()).find("the smallest device memory found is 50 bytes, with"),
            std::string::npos);
}
