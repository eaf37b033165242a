#include "runtime/train/Evaluate.h"

#include "runtime/io/Safetensors.h"
#include "runtime/plan/Verify.h"
#include "test/runtime_train/TrainPlan.h"

#include <cmath>
#include <nlohmann/json.hpp>

using namespace zc;
using namespace zc::test;
using namespace zc::train;

namespace {

/// A folder with a model, its data and a plan that evaluates it.
struct Evaluated {
  explicit Evaluated(uint32_t worldSize = 2, bool sharded = false, int64_t samples = 13)
      : plan(evalPlan(folder.write("model.onnx", modelBytes()), worldSize, sharded)) {
    options.data.data = dataFile(folder, worldSize, samples);
    options.outputs = folder.path + "/outputs.safetensors";
    options.threads = 1;
    EXPECT_TRUE(verifyPlan(plan).ok()) << render(verifyPlan(plan).error());
  }
  Result<EvalReport> run() {
    RunControl control;
    control.stop = &stop;
    return evaluate(plan, options, control, observer);
  }
  /// Nothing but the model and the data.
  bool isClean() const { return folder.count() == 2; }

  TempFolder folder;
  planpb::Plan plan;
  EvalOptions options;
  RunObserver observer;
  std::atomic<int> stop{0};
};

double lossOf(int64_t sample) {
  std::vector<float> w = initialWeights();
  double loss = 0;
  for (int64_t i = 0; i < 100; ++i)
    loss += double(w[size_t(i)]) * double(sampleElement(sample, i));
  return loss;
}

} // namespace

TEST(Evaluate, TheLossIsTheMeanOverAllSamplesForAnyRanks) {
  double expected = 0;
  for (int64_t s = 0; s < 13; ++s)
    expected += lossOf(s) / 13;
  for (uint32_t world : {1u, 2u, 3u, 4u, 16u}) {
    std::vector<double> losses;
    for (bool sharded : {false, true})
      for (DeviceKind device : {DeviceKind::sync, DeviceKind::cpu}) {
        Evaluated fixture(world, sharded);
        fixture.options.device = device;
        auto report = fixture.run();
        ASSERT_OK(report);
        ASSERT_TRUE(report->loss.has_value());
        EXPECT_NEAR(*report->loss, expected, 1e-5 * std::abs(expected));
        EXPECT_EQ(report->samples, 13);
        EXPECT_EQ(report->leftOut, 0);
        EXPECT_EQ(report->batches, 13);
        EXPECT_EQ(report->steps, (13 + int64_t(world) - 1) / int64_t(world));
        losses.push_back(*report->loss);
      }
    for (double loss : losses)
      EXPECT_EQ(loss, losses[0]);
  }
}

TEST(Evaluate, APerplexityIsToldOfALikelihoodOnly) {
  struct Lines : RunObserver {
    void starting(const RunSummary &summary) override { isLikelihood = summary.isLikelihood; }
    bool isLikelihood = false;
  };
  for (bool isLikelihood : {false, true}) {
    Evaluated fixture;
    fixture.plan.mutable_outputs(1)->set_likelihood(isLikelihood);
    Lines lines;
    auto report = evaluate(fixture.plan, fixture.options, {}, lines);
    ASSERT_OK(report);
    EXPECT_EQ(lines.isLikelihood, isLikelihood);
    auto json = nlohmann::json::parse(toJson(*report));
    ASSERT_EQ(json.contains("perplexity"), isLikelihood);
    if (isLikelihood) {
      EXPECT_EQ(json["perplexity"].get<double>(), std::exp(*report->loss));
    }
  }
}

TEST(Evaluate, OutputsStandInTheOrderOfTheData) {
  for (uint32_t world : {1u, 2u, 5u}) {
    Evaluated fixture(world);
    ASSERT_OK(fixture.run());
    auto file = io::SafetensorsFile::open(fixture.options.outputs);
    ASSERT_OK(file);
    int64_t padded = paddedElements(world);
    const io::SafetensorsEntry *product = file->find("product"), *loss = file->find("loss");
    ASSERT_TRUE(product && loss);
    EXPECT_EQ(product->type.dims, (std::vector<int64_t>{13, padded}));
    EXPECT_EQ(loss->type.dims, (std::vector<int64_t>{13}));
    std::vector<float> w = initialWeights(), row(static_cast<size_t>(padded)), losses(13);
    ASSERT_OK(file->file().readAt(losses.data(), loss->bytes, loss->offset));
    for (int64_t s = 0; s < 13; ++s) {
      ASSERT_OK(file->file().readAt(row.data(), padded * 4, product->offset + s * padded * 4));
      for (int64_t i = 0; i < 100; ++i)
        ASSERT_EQ(row[size_t(i)], w[size_t(i)] * sampleElement(s, i)) << s << " " << i;
      EXPECT_NEAR(losses[size_t(s)], lossOf(s), 1e-4);
    }
  }
}

TEST(Evaluate, StepsEndItEarlier) {
  Evaluated fixture(3);
  fixture.options.steps = 2;
  fixture.options.out = fixture.folder.path + "/out";
  auto report = fixture.run();
  ASSERT_OK(report);
  EXPECT_EQ(report->samples, 6);
  double expected = 0;
  for (int64_t s = 0; s < 6; ++s)
    expected += lossOf(s) / 6;
  EXPECT_NEAR(*report->loss, expected, 1e-5 * std::abs(expected));
  EXPECT_EQ(fixture.folder.read("out/eval.json"), toJson(*report) + "\n");
}

TEST(Evaluate, WhatIsRefusedLeavesNoFile) {
  Evaluated training;
  training.plan = trainPlan(training.folder.path + "/model.onnx", 2, 1, Placement::replicated);
  EXPECT_EQ(training.run().status().error().code, Code::mismatch);
  EXPECT_TRUE(training.isClean());

  Evaluated stopped;
  stopped.stop = 1;
  EXPECT_EQ(stopped.run().status().error().code, Code::preempted);
  EXPECT_TRUE(stopped.isClean());

  Evaluated noData;
  noData.options.data.data = noData.folder.path + "/none.safetensors";
  EXPECT_EQ(noData.run().status().error().code, Code::badInput);
  EXPECT_TRUE(noData.isClean());

  Evaluated noFolder;
  noFolder.options.outputs = noFolder.folder.path + "/none/outputs.safetensors";
  EXPECT_EQ(noFolder.run().status().error().code, Code::io);

  Evaluated noWeights;
  noWeights.options.weights = noWeights.folder.path; // a folder, but no checkpoint
  EXPECT_EQ(noWeights.run().status().error().code, Code::badInput);
  EXPECT_TRUE(noWeights.isClean());
}

TEST(Evaluate, ALossThatIsNotFiniteIsAnError) {
  Evaluated fixture;
  std::vector<float> infinite(100, INFINITY);
  std::string head = R"({"w":{"dtype":"F32","shape":[10,10],"data_offsets":[0,400]}})";
  uint64_t length = head.size();
  fixture.options.weights = fixture.folder.write(
      "weights.safetensors", std::string(reinterpret_cast<const char *>(&length), 8) + head + rawBytes(infinite));
  EXPECT_EQ(fixture.run().status().error().code, Code::numeric);
  EXPECT_EQ(fixture.folder.count(), 3u);
}
