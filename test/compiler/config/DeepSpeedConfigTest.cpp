//===- DeepSpeedConfigTest.cpp - which options a configuration sets -----------------===//

#include "compiler/config/DeepSpeedConfig.h"
#include "compiler/pipeline/CompileOptions.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>

using namespace zc;

namespace {

/// A configuration in a file, applied to options.
struct Applied {
  CompileOptions options;
  Result<std::vector<std::string>> notes;

  explicit Applied(const std::string &json, std::set<std::string> given = {}) : notes(apply(json, std::move(given))) {}

  const GradOptions &grad() const { return options.strategy.grad; }
  const ShardOptions &shard() const { return options.strategy.shard; }
  bool says(const std::string &text) const {
    for (const std::string &note : *notes)
      if (note.find(text) != std::string::npos)
        return true;
    return false;
  }

private:
  Result<std::vector<std::string>> apply(const std::string &json, std::set<std::string> given) {
    std::string path = testing::TempDir() + "zc-config-test.json";
    std::ofstream(path) << json;
    options.given = std::move(given);
    OptionList list = listOptions(options);
    auto applied = applyDeepSpeedConfig(path, list, options.given);
    std::remove(path.c_str());
    return applied;
  }
};

} // namespace

TEST(DeepSpeedConfig, setsTypedOptions) {
  Applied config(R"({"zero_optimization": {"stage": 3, "reduce_bucket_size": 2000, "offload_param": {"device": "nvme"},
                     "offload_optimizer": {"device": "cpu", "ratio": 0.5}, "zero_quantized_gradients": true},
                     "bf16": {"enabled": true}, "gradient_accumulation_steps": 4,
                     "optimizer": {"type": "SGD", "params": {"lr": 0.25, "momentum": 0.5}}})");
  ASSERT_TRUE(config.notes);
  EXPECT_EQ(config.shard().stage, 3);
  EXPECT_EQ(config.shard().bucketSize, 4000); // of bf16
  EXPECT_EQ(config.shard().offloadParam, Offload::nvme);
  EXPECT_EQ(config.shard().offloadOptimizer, Offload::host);
  EXPECT_EQ(config.shard().offloadRatio, 0.5);
  EXPECT_EQ(config.shard().quantizeGradients, GradientFormat::int4);
  EXPECT_EQ(config.shard().accumulation, 4);
  EXPECT_EQ(config.grad().precision, Precision::bf16);
  EXPECT_EQ(config.grad().rule, UpdateRule::momentum);
  EXPECT_EQ(config.grad().lr, 0.25);
  EXPECT_TRUE(config.options.isGiven("optimizer"));
  EXPECT_TRUE(config.says("--zero-stage 3"));
}

TEST(DeepSpeedConfig, leavesWhatIsGiven) {
  Applied config(R"({"zero_optimization": {"stage": 3}, "gradient_clipping": 2})", {"zero-stage"});
  ASSERT_TRUE(config.notes);
  EXPECT_EQ(config.shard().stage, 0);
  EXPECT_EQ(config.grad().clipGradNorm, 2);
}

TEST(DeepSpeedConfig, autoAndWhatOnlyTunesItSayNothing) {
  Applied config(R"({"zero_optimization": {"stage": "auto", "overlap_comm": true}, "aio": {"thread_count": 8}})");
  ASSERT_TRUE(config.notes);
  EXPECT_TRUE(config.options.given.empty());
  EXPECT_TRUE(config.says("nothing beyond the flags given"));
}

TEST(DeepSpeedConfig, namesWhatIsNotKnown) {
  Applied config(R"({"zero_optimisation": {"stage": 3}})");
  ASSERT_TRUE(config.notes);
  EXPECT_TRUE(config.says("zero_optimisation/stage"));
}

TEST(DeepSpeedConfig, refuses) {
  const std::pair<const char *, Code> cases[] = {{"[1]", Code::usage},
                                                 {"{", Code::usage},
                                                 {R"({"zero_optimization": {"stage": 7}})", Code::usage},
                                                 {R"({"zero_optimization": {"stage": "three"}})", Code::usage},
                                                 {R"({"gradient_accumulation_steps": 1.5})", Code::usage},
                                                 {R"({"optimizer": {"type": "Lamb"}})", Code::unsupported},
                                                 {R"({"sparse_attention": {"mode": "fixed"}})", Code::unsupported}};
  for (auto [json, code] : cases) {
    Applied config(json);
    ASSERT_FALSE(config.notes) << json;
    EXPECT_EQ(config.notes.error().code, code) << json;
  }
}
