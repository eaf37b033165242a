//===- CompileOptionsTest.cpp - what goes with what -----------------------------------===//

#include "compiler/pipeline/CompileOptions.h"

#include <gtest/gtest.h>

using namespace zc;

namespace {

/// Options by their names, completed.
struct Completed {
  CompileOptions options;
  Status status;

  explicit Completed(const std::string &text, bool offloadIsOpen = false) {
    options.model = "model.onnx";
    options.offloadIsOpen = offloadIsOpen;
    OptionList list = listOptions(options);
    status = list.readText(text);
    for (const Option &option : list.options)
      if ((" " + text + "=").find(" " + option.name + "=") != std::string::npos)
        options.given[option.name];
    if (status.ok())
      status = complete(options);
  }
  std::string message() const { return status.ok() ? "" : status.error().where + ": " + status.error().message; }
};

} // namespace

TEST(CompileOptions, everyOptionHasOneName) {
  CompileOptions options;
  std::set<std::string> names;
  for (const Option &option : listOptions(options).options)
    EXPECT_TRUE(names.insert(option.name).second) << option.name;
  EXPECT_TRUE(names.count("offload-ratio") && names.count("loss-op") && names.count("device-mem"));
}

TEST(CompileOptions, refusesWhatDoesNotGoTogether) {
  const std::pair<const char *, const char *> cases[] = {
      {"world-size=4 ranks-per-node=3", "--ranks-per-node: 3 ranks per node do not divide a world of 4"},
      {"world-size=2 offload-optimizer=host", "--offload-optimizer: stage 0 keeps"},
      {"world-size=2 zero-stage=2 offload-param=host", "--offload-param: only parameters that are cut"},
      {"sequence-parallel=true",
       "--sequence-parallel: it cuts rows over the ranks that share samples: --tensor-parallel"},
      {"overlap-tensor-parallel=halves", "--overlap-tensor-parallel: it is about ranks that share samples"},
      {"partition-activations=true",
       "--partition-activations: it needs ranks that share samples, --tensor-parallel T, and recomputation"},
      {"world-size=2 tensor-parallel=2 partition-activations=true",
       "--partition-activations: it needs recomputation, --checkpoint-activations block"},
      {"checkpoint-activations=block partition-activations=true",
       "--partition-activations: it needs ranks that share samples, --tensor-parallel T"},
      {"delay-update=true", "--delay-update: only an update on the host is delayed"},
      {"delay-after=3 offload-optimizer=host", "--delay-after: it says when --delay-update begins"},
      {"loss-scale=8", "--loss-scale: only --precision fp16 scales the loss"},
      {"precision=fp16 loss-scale=8 min-loss-scale=2", "--min-loss-scale: a fixed --loss-scale does not change"},
      {"precision=fp16 initial-loss-scale=1 min-loss-scale=2", "--initial-loss-scale: it is below"},
      {"quantize-block=3", "--quantize-block: 3 elements per scale"},
      {"forward-only=true lr=1", "--lr: a plan that is --forward-only trains nothing"},
      {"outputs=y", "--outputs: a plan that trains hands over no outputs"}};
  for (auto [text, message] : cases) {
    Completed completed(text);
    EXPECT_EQ(completed.message().rfind(message, 0), size_t{0}) << text << " -> " << completed.message();
  }
  EXPECT_EQ(Completed("precision=fp16 quantize-gradients=int8 quantize-error-feedback=true").status.error().code,
            Code::unsupported);
}

TEST(CompileOptions, aForwardOnlyPlanIsToldNothingOfTraining) {
  CompileOptions options;
  options.model = "model.onnx";
  options.strategy.grad.forwardOnly = true;
  std::set<std::string> refused;
  for (const Option &option : listOptions(options).options) {
    options.given = {{option.name, {}}};
    Status status = complete(options);
    ASSERT_EQ(status.ok(), option.needs == Option::Needs::nothing) << option.name;
    if (!status.ok())
      refused.insert(status.error().where);
  }
  for (const char *name : {"--trainable", "--lr", "--min-loss-scale", "--grad-accumulation", "--hierarchical"})
    EXPECT_TRUE(refused.count(name)) << name;
  EXPECT_FALSE(refused.count("--precision") || refused.count("--loss-mean"));
}

TEST(CompileOptions, whatChangesNothingIsToldByWhatIsCompiled) {
  auto told = [](const Completed &completed, const Strategy &strategy) {
    std::string all;
    for (const std::string &warning : warningsOfNoEffect(completed.options, strategy))
      all += warning + "\n";
    return all;
  };
  const Completed ratio("offload-ratio=0.5");
  Strategy chosen = ratio.options.strategy;
  EXPECT_NE(told(ratio, chosen).find("--offload-ratio changes nothing\n"), std::string::npos);
  chosen.shard.offloadOptimizer = Offload::host; // by a search
  EXPECT_EQ(told(ratio, chosen), "");
  const Completed quantized("world-size=2 quantize-gradients=int8");
  EXPECT_EQ(told(quantized, quantized.options.strategy), "");
  EXPECT_NE(told(quantized, Completed("quantize-gradients=int8").options.strategy).find("no gradient is sent"),
            std::string::npos);
}

TEST(CompileOptions, aMeshSaysHowManyRanks) {
  struct Case {
    const char *text;
    int64_t world, perNode, model;
    ModelPlace place = ModelPlace::innermost;
  };
  for (const Case &c : {Case{"mesh=data=8,model=4", 32, 0, 4},
                        {"mesh=model=4,data=8", 32, 0, 4, ModelPlace::outermost},
                        {"mesh=model=2,node=2,local=4", 16, 8, 2, ModelPlace::outermost},
                        {"mesh=node=2,model=2,local=4", 16, 8, 2, ModelPlace::beforeLocal},
                        {"mesh=model=2,local=4", 8, 8, 2, ModelPlace::outermost},
                        {"mesh=model=2,node=4", 8, 2, 2, ModelPlace::outermost},
                        {"mesh=node=2,local=4,model=2", 16, 8, 2},
                        {"mesh=model=2", 2, 0, 2},
                        {"mesh=data=3", 3, 0, 1},
                        {"mesh=node=4,model=2", 8, 2, 2},
                        {"mesh=data=8,model=2 ranks-per-node=4", 16, 4, 2},
                        {"mesh=data=2,model=2 world-size=4 tensor-parallel=2", 4, 0, 2}}) {
    Completed completed(c.text);
    EXPECT_EQ(completed.message(), "") << c.text;
    const ShardOptions &shard = completed.options.strategy.shard;
    EXPECT_EQ(shard.worldSize, c.world) << c.text;
    EXPECT_EQ(shard.ranksPerNode, c.perNode) << c.text;
    EXPECT_EQ(shard.model, c.model) << c.text;
    EXPECT_EQ(shard.modelPlace, c.place) << c.text;
    EXPECT_TRUE(complete(completed.options).ok()) << c.text;
  }
}

TEST(CompileOptions, aMeshThatDoesNotMultiplyOutIsRefused) {
  const std::pair<const char *, const char *> cases[] = {
      {"mesh=data=8,model=4 world-size=16", "--mesh: data=8,model=4 says 32, --world-size 16"},
      {"world-size=16 mesh=data=8,model=4", "--mesh: data=8,model=4 says 32, --world-size 16"},
      {"mesh=data=8,model=4 tensor-parallel=2", "--mesh: data=8,model=4 says 4, --tensor-parallel 2"},
      {"mesh=node=2,local=2 ranks-per-node=4", "--mesh: node=2,local=2 says 2, --ranks-per-node 4"},
      {"mesh=data=4,model=2 ranks-per-node=3", "--ranks-per-node: 3 ranks per node do not divide a world of 8"},
      {"mesh=data=3,model=4 ranks-per-node=6", "--tensor-parallel: 4 ranks that share samples do not divide 6"},
      {"mesh=data=65536,model=2", "--mesh: data=65536,model=2 is more than 65536 ranks"},
      {"mesh=data=8,local=2", "--mesh: data is node x local"},
      {"mesh=local=4,node=8", "--mesh: local before node"},
      {"mesh=local=4,model=2,node=8", "--mesh: local before node"},
      {"mesh=data=2,data=2", "--mesh: \"data=2,data=2\" has data twice"},
      {"mesh=pipeline=2", "--mesh: \"pipeline=2\" has an axis of another name"},
      {"mesh=data", "--mesh: \"data\" is no mesh such as"},
      {"mesh=data=", "--mesh: \"data=\" is no mesh such as"},
      {"mesh=data=x", "--mesh: \"data=x\" is no mesh such as"},
      {"mesh=data=0", "--mesh: \"data=0\" has an axis of 0 ranks"},
      {"mesh=data=99999999999999999999", "--mesh: \"data=99999999999999999999\" is no mesh such as"},
      {"mesh=", "--mesh: \"\" has no axis"}};
  for (auto [text, message] : cases) {
    Completed completed(text);
    EXPECT_EQ(completed.message().rfind(message, 0), size_t{0}) << text << " -> " << completed.message();
  }
  EXPECT_EQ(Completed("mesh=local=4,node=8").status.error().code, Code::unsupported);
}

TEST(CompileOptions, partsWaitForTheChoiceOfTheRecomputation) {
  Completed completed("partition-activations=true tensor-parallel=2 world-size=2");
  EXPECT_EQ(completed.message().rfind("--partition-activations: it needs recomputation", 0), size_t{0})
      << completed.message();
  completed.options.recomputationIsOpen = true;
  EXPECT_TRUE(complete(completed.options).ok());
}

TEST(CompileOptions, whatIsOffloadedWaitsForTheChoiceOfTheStage) {
  Completed completed("world-size=2 offload-param=host");
  EXPECT_EQ(completed.message().rfind("--offload-param: only parameters that are cut", 0), size_t{0});
  completed.options.stageIsOpen = true;
  EXPECT_TRUE(complete(completed.options).ok());
  EXPECT_EQ(completed.options.strategy.shard.stage, 0);
}

TEST(CompileOptions, aDelayWaitsForTheChoiceOfTheOffload) {
  EXPECT_TRUE(Completed("delay-update=true", /*offloadIsOpen=*/true).status.ok());
  EXPECT_TRUE(Completed("delay-update=true offload-optimizer=host").status.ok());
}

TEST(CompileOptions, aForwardOnlyPlanEvaluates) {
  Completed completed("forward-only=true");
  ASSERT_TRUE(completed.status.ok());
  EXPECT_TRUE(completed.options.strategy.grad.forwardOnly);
  EXPECT_EQ(completed.options.import.dropout, importer::DropoutPolicy::off);
  EXPECT_EQ(completed.options.import.batchNorm, importer::BatchNormPolicy::eval);
  Completed forced("forward-only=true dropout=force");
  EXPECT_EQ(forced.options.import.dropout, importer::DropoutPolicy::force);
  ASSERT_TRUE(complete(forced.options).ok()); // again, as compile does
  EXPECT_EQ(forced.options.import.dropout, importer::DropoutPolicy::force);
}
