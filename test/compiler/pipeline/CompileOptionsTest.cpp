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
