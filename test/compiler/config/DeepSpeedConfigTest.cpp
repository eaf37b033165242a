//===- DeepSpeedConfigTest.cpp - which options a configuration sets -----------------===//

#include "compiler/config/DeepSpeedConfig.h"
#include "compiler/pipeline/CompileOptions.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <unistd.h>

using namespace zc;

namespace {

/// A configuration in a file, applied to options.
struct Applied {
  CompileOptions options;
  Result<AppliedConfig> applied;

  explicit Applied(const std::string &json, std::set<std::string> given = {}, int64_t ranks = 1)
      : applied(apply(json, std::move(given), ranks)) {}

  const GradOptions &grad() const { return options.strategy.grad; }
  const ShardOptions &shard() const { return options.strategy.shard; }
  bool says(const std::string &text) const {
    for (const std::string &note : applied->notes)
      if (note.find(text) != std::string::npos)
        return true;
    return false;
  }

private:
  Result<AppliedConfig> apply(const std::string &json, const std::set<std::string> &given, int64_t ranks) {
    std::string path = testing::TempDir() + "zc-config-" + std::to_string(::getpid()) + ".json";
    std::ofstream(path) << json;
    for (const std::string &name : given)
      options.given[name];
    options.strategy.shard.worldSize = ranks;
    OptionList list = listOptions(options);
    auto made = applyDeepSpeedConfig(path, list, options.strategy.shard.worldSize, options.given);
    std::remove(path.c_str());
    return made;
  }
};

} // namespace

/// Products of batch and ranks beyond 64 bits do not agree with a batch that is none, and nothing is divided by them.
TEST(DeepSpeedConfig, refusesBatchesBeyondAllNumbers) {
  Applied config(R"({"train_batch_size": 16, "train_micro_batch_size_per_gpu": 4294967296})", {}, int64_t(1) << 32);
  ASSERT_FALSE(config.applied);
  EXPECT_EQ(config.applied.error().code, Code::usage);
  EXPECT_NE(config.applied.error().message.find("4294967296 x 1 x 4294967296"), std::string::npos);
}

/// Who wrote a key is told the key, not a flag that nobody typed.
TEST(DeepSpeedConfig, errorsOfOptionsNameTheKeyThatGaveThem) {
  Applied wrong(R"({"zero_optimization": {"stage": 7}})");
  ASSERT_FALSE(wrong.applied);
  EXPECT_NE(wrong.applied.error().where.find(".json: \"zero_optimization/stage\", which is --zero-stage"),
            std::string::npos)
      << wrong.applied.error().where;
  Applied config(R"({"zero_optimization": {"stage": 1, "offload_param": {"device": "cpu"}}})", {}, 2);
  ASSERT_TRUE(config.applied);
  config.options.model = "model.onnx";
  const Status status = complete(config.options);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().where, "--offload-param");
  EXPECT_NE(config.applied->located(status.error()).where.find("\"zero_optimization/offload_param/device\", which is"),
            std::string::npos);
  // Who typed the flag is told the flag.
  Applied typed(R"({"zero_optimization": {"stage": 1, "offload_param": {"device": "cpu"}}})", {"offload-param"});
  ASSERT_TRUE(typed.applied);
  EXPECT_EQ(typed.applied->located(status.error()).where, "--offload-param");
}

TEST(DeepSpeedConfig, setsTypedOptions) {
  Applied config(R"({"zero_optimization": {"stage": 3, "reduce_bucket_size": 2000, "offload_param": {"device": "nvme"},
                     "offload_optimizer": {"device": "cpu", "ratio": 0.5}, "zero_quantized_gradients": true},
                     "bf16": {"enabled": true}, "gradient_accumulation_steps": 4,
                     "optimizer": {"type": "SGD", "params": {"lr": 0.25, "momentum": 0.5}}})");
  ASSERT_TRUE(config.applied);
  EXPECT_EQ(config.shard().stage, 3);
  EXPECT_EQ(config.shard().bucketSize, 4000); // of bf16
  EXPECT_EQ(config.shard().offloadParam, Offload::nvme);
  EXPECT_EQ(config.shard().offloadOptimizer, Offload::host);
  EXPECT_EQ(config.shard().offloadRatio, 0.5);
  EXPECT_EQ(config.shard().quantizeGradients, GradientFormat::int4);
  EXPECT_EQ(config.shard().accumulation, 4);
  EXPECT_EQ(config.grad().precision, Precision::bf16);
  EXPECT_EQ(config.grad().update.rule, UpdateRule::momentum);
  EXPECT_EQ(config.grad().update.lr, 0.25);
  EXPECT_TRUE(config.options.isGiven("optimizer"));
  EXPECT_TRUE(config.says("--zero-stage 3"));
}

TEST(DeepSpeedConfig, leavesWhatIsGiven) {
  Applied config(R"({"zero_optimization": {"stage": 3}, "gradient_clipping": 2})", {"zero-stage"});
  ASSERT_TRUE(config.applied);
  EXPECT_EQ(config.shard().stage, 0);
  EXPECT_EQ(config.grad().update.maxNorm, 2);
}

TEST(DeepSpeedConfig, whatOnlyTunesItSaysNothing) {
  Applied config(
      R"({"zero_optimization": {"reduce_bucket_size": "auto", "overlap_comm": true}, "aio": {"thread_count": 8}})");
  ASSERT_TRUE(config.applied);
  EXPECT_TRUE(config.options.given.empty());
  EXPECT_TRUE(config.says("nothing beyond the flags given"));
}

TEST(DeepSpeedConfig, autoIsWhatTrainingArgumentsHave) {
  Applied config(R"({"optimizer": {"type": "AdamW", "params": {"lr": "auto", "betas": "auto", "eps": "auto",
                     "weight_decay": "auto"}}, "gradient_clipping": "auto", "gradient_accumulation_steps": "auto"})");
  ASSERT_TRUE(config.applied);
  EXPECT_EQ(config.grad().update.lr, 5e-5);
  EXPECT_EQ(config.grad().update.weightDecay, 0);
  EXPECT_EQ(config.grad().update.maxNorm, 1);
  EXPECT_EQ(config.shard().accumulation, 1);
  EXPECT_TRUE(config.says("\"optimizer/params/lr\" is \"auto\": 5e-05, --lr"));
}

TEST(DeepSpeedConfig, batchSizes) {
  auto accumulation = [](const char *json, int64_t ranks) {
    Applied config(json, {}, ranks);
    EXPECT_TRUE(config.applied) << json;
    return config.shard().accumulation;
  };
  EXPECT_EQ(accumulation(R"({"train_batch_size": 32, "train_micro_batch_size_per_gpu": 4})", 2), 4);
  EXPECT_EQ(accumulation(R"({"train_batch_size": 32, "gradient_accumulation_steps": 4})", 2), 4);
  EXPECT_EQ(accumulation(R"({"train_batch_size": 32})", 2), 1);
  EXPECT_EQ(accumulation(R"({"train_batch_size": 8, "train_micro_batch_size_per_gpu": 2,
                             "gradient_accumulation_steps": "auto"})",
                         2),
            2);
  Applied wrong(R"({"train_batch_size": 16, "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 1})",
                {}, 2);
  ASSERT_FALSE(wrong.applied);
  EXPECT_NE(wrong.applied.error().message.find("16, but 4 x 1 x 2"), std::string::npos)
      << wrong.applied.error().message;
}

TEST(DeepSpeedConfig, schedulesOfTheLearningRate) {
  auto schedule = [](const std::string &json) {
    Applied config(R"({"optimizer": {"type": "SGD", "params": {"lr": 0.1}}, "scheduler": )" + json + "}");
    EXPECT_TRUE(config.applied) << json;
    return config.grad().update.lrSchedule + " " + std::to_string(config.grad().update.lrOrDefault());
  };
  EXPECT_EQ(schedule(R"({"type": "WarmupLR", "params": {"warmup_num_steps": 7}})"),
            "deepspeed-warmup:warmup=7,rise=log 0.100000");
  EXPECT_EQ(
      schedule(
          R"({"type": "WarmupLR", "params": {"warmup_min_lr": 0.1, "warmup_max_lr": 0.5, "warmup_type": "linear"}})"),
      "deepspeed-warmup:warmup=1000,rise=linear-from-zero,from=0.2 0.500000");
  EXPECT_EQ(schedule(R"({"type": "WarmupDecayLR", "params": {"total_num_steps": 90, "warmup_num_steps": 7}})"),
            "deepspeed-warmup-decay:warmup=7,rise=log,steps=90 0.001000");
  EXPECT_EQ(schedule(R"({"type": "WarmupCosineLR", "params": {"total_num_steps": 90, "warmup_num_steps": 7}})"),
            "deepspeed-warmup-cosine:warmup=7,rise=log,steps=90,from=0.0,end=0.0001 0.100000");
  EXPECT_EQ(
      schedule(
          R"({"type": "OneCycle", "params": {"cycle_min_lr": 0.1, "cycle_max_lr": 0.4, "cycle_first_step_size": 5}})"),
      "deepspeed-one-cycle:up=5,down=5,every=0,rate=0.0,from=0.25 0.400000");
}

TEST(DeepSpeedConfig, namesWhatIsNotKnown) {
  Applied config(R"({"zero_optimisation": {"stage": 3}})");
  ASSERT_FALSE(config.applied);
  EXPECT_EQ(config.applied.error().code, Code::unsupported);
  EXPECT_NE(config.applied.error().message.find("zero_optimisation/stage"), std::string::npos);
}

TEST(DeepSpeedConfig, saysWhereItIsNoJson) {
  Applied config("{\"gradient_clipping\": 1,\n \"bf16\": {},\n}");
  ASSERT_FALSE(config.applied);
  EXPECT_NE(config.applied.error().message.find("line 3, column 1"), std::string::npos)
      << config.applied.error().message;
}

TEST(DeepSpeedConfig, refuses) {
  const std::pair<const char *, Code> cases[] = {
      {"[1]", Code::usage},
      {"{", Code::usage},
      {R"({"zero_optimization": {"stage": 7}})", Code::usage},
      {R"({"zero_optimization": {"stage": "three"}})", Code::usage},
      {R"({"zero_optimization": {"stage": "auto"}})", Code::unsupported},
      {R"({"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "auto"}}})", Code::unsupported},
      {R"({"gradient_accumulation_steps": 1.5})", Code::usage},
      {R"({"optimizer": {"type": "Lamb"}})", Code::unsupported},
      {R"({"optimizer": {"type": "AdamW", "params": {"amsgrad": true}}})", Code::unsupported},
      {R"({"optimizer": {"type": "SGD", "params": {"nesterov": true}}})", Code::unsupported},
      {R"({"scheduler": {"type": "OneCycle", "params": {"cycle_max_lr": 1}}})", Code::unsupported},
      {R"({"scheduler": {"type": "LRRangeTest"}})", Code::unsupported},
      {R"({"scheduler": {"type": "WarmupLR", "params": {"warmup_type": "fast"}}})", Code::usage},
      {R"({"scheduler": {"type": "WarmupDecayLR"}})", Code::usage},
      {R"({"elasticity": {"enabled": true}})", Code::unsupported},
      {R"({"sparse_attention": {"mode": "fixed"}})", Code::unsupported}};
  for (auto [json, code] : cases) {
    Applied config(json);
    ASSERT_FALSE(config.applied) << json;
    EXPECT_EQ(config.applied.error().code, code) << json;
  }
}
