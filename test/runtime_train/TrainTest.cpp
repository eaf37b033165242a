#include "test/runtime_train/TrainPlan.h"

#include "runtime/io/OutputFile.h"
#include "runtime/io/Safetensors.h"
#include "runtime/plan/Verify.h"
#include "runtime/train/Convert.h"
#include "runtime/train/Export.h"
#include "runtime/train/Layout.h"
#include "runtime/train/RunFolder.h"
#include "runtime/train/Train.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <unistd.h>

using namespace zc;
using namespace zc::test;
using namespace zc::train;

namespace {

/// A folder with a model, its data and a plan.
struct Trained {
  explicit Trained(uint32_t worldSize = 2, uint32_t accumulation = 2, Placement placement = Placement::replicated,
                   int64_t samples = 13)
      : plan(trainPlan(folder.write("model.onnx", modelBytes()), worldSize, accumulation, placement)) {
    options.data.data = dataFile(folder, worldSize, samples);
    options.steps = 6;
    options.out = folder.path + "/out";
    options.threads = 1;
    options.device = DeviceKind::sync;
    options.nvme.folder = folder.path;
    EXPECT_TRUE(verifyPlan(plan).ok()) << render(verifyPlan(plan).error());
  }
  Result<RunReport> run() { return train::train(plan, options, {&stop, nullptr}, observer); }
  std::vector<nlohmann::json> metrics(const std::string &out = "out") const {
    std::vector<nlohmann::json> lines;
    std::istringstream in(folder.read(out + "/metrics.jsonl"));
    for (std::string line; std::getline(in, line);)
      lines.push_back(nlohmann::json::parse(line));
    return lines;
  }
  std::string weights(const std::string &checkpoint = "out/final") const {
    return folder.read(checkpoint + "/weights.safetensors");
  }
  Result<OpenCheckpoint> openFinal() const {
    return openCheckpoint(folder.path + "/out/final", [](const std::string &) {});
  }

  TempFolder folder;
  planpb::Plan plan;
  RunOptions options;
  RunObserver observer;
  std::atomic<int> stop{0};
};

TEST(MemoryWatch, SaysWhatIsLarge) {
  planpb::Plan plan;
  auto add = [&](planpb::Tier tier, uint64_t bytes) {
    planpb::Arena *arena = plan.add_arenas();
    arena->set_tier(tier);
    arena->set_bytes(bytes);
  };
  add(planpb::DEVICE, uint64_t(1) << 30);
  EXPECT_EQ(train::MemoryWatch(plan, 8).large(), "");
  add(planpb::NVME, uint64_t(3) << 30);
  EXPECT_EQ(train::MemoryWatch(plan, 8).large(),
            "before the first step each rank's memory is filled: 1.00 GiB device, 3.00 GiB nvme");
}

/// The losses alone, exactly.
std::vector<double> losses(const std::vector<nlohmann::json> &lines) {
  std::vector<double> values;
  for (const auto &line : lines)
    values.push_back(line["loss"].get<double>());
  return values;
}

} // namespace

TEST(Train, FirstStepHasTheLossAndNormOfTheData) {
  Trained fixture;
  auto report = fixture.run();
  ASSERT_OK(report);
  auto lines = fixture.metrics();
  ASSERT_EQ(lines.size(), 6u);
  // Four samples: the mean of their losses; the gradient is their mean.
  double loss = 0, square = 0;
  std::vector<float> w = initialWeights();
  for (int64_t i = 0; i < 100; ++i) {
    double mean = 0;
    for (int64_t s = 0; s < 4; ++s) {
      loss += double(w[size_t(i)]) * double(sampleElement(s, i)) / 4;
      mean += double(sampleElement(s, i)) / 4;
    }
    square += mean * mean;
  }
  EXPECT_NEAR(lines[0]["loss"].get<double>(), loss, 1e-6 * std::abs(loss));
  EXPECT_NEAR(lines[0]["grad_norm"].get<double>(), std::sqrt(square), 1e-6);
  EXPECT_EQ(lines[0]["step"], 1);
  EXPECT_EQ(lines[0]["lr"], 0.01);
  EXPECT_EQ(lines[0]["skipped"], false);
  EXPECT_EQ(report->last.loss, lines[5]["loss"].get<double>()) << "full precision";
  EXPECT_EQ(report->steps, 6);
  EXPECT_EQ(report->samples, 24);
  EXPECT_GT(report->traffic.reduceScatter, 0u);
  ASSERT_EQ(report->arenas.size(), 1u);
  EXPECT_EQ(report->arenas[0].planned, fixture.plan.arenas(0).bytes());
}

TEST(Train, EveryPlacementGivesTheSameBits) {
  std::vector<std::string> weights;
  std::vector<std::vector<double>> all;
  for (Placement placement : {Placement::replicated, Placement::sharded, Placement::tiered})
    for (DeviceKind device : {DeviceKind::sync, DeviceKind::cpu}) {
      Trained fixture(3, 2, placement);
      fixture.options.device = device;
      ASSERT_OK(fixture.run());
      weights.push_back(fixture.weights());
      all.push_back(losses(fixture.metrics()));
    }
  for (size_t i = 1; i < weights.size(); ++i) {
    EXPECT_EQ(weights[i], weights[0]) << i;
    EXPECT_EQ(all[i], all[0]) << i;
  }
  EXPECT_EQ(weights[0].find(rawBytes(initialWeights())), std::string::npos) << "nothing was trained";
}

TEST(Train, ResumesBitForBit) {
  for (Placement placement : {Placement::replicated, Placement::sharded, Placement::tiered}) {
    Trained straight(2, 1, placement), broken(2, 1, placement);
    straight.options.data.shuffle = broken.options.data.shuffle = true;
    straight.options.steps = 8;
    ASSERT_OK(straight.run());
    broken.options.steps = 5;
    broken.options.saveEvery = 2;
    ASSERT_OK(broken.run());
    EXPECT_EQ(broken.run().error().code, Code::usage) << "a fresh start over checkpoints";
    std::filesystem::remove_all(broken.folder.path + "/out/final"); // as if it had ended behind step 4
    broken.options.steps = 8;
    broken.options.resume = "auto";
    auto report = broken.run();
    ASSERT_OK(report);
    EXPECT_EQ(report->steps, 4);
    EXPECT_EQ(losses(broken.metrics()), losses(straight.metrics()));
    EXPECT_EQ(broken.weights(), straight.weights());
    for (const char *moment : {"out/final/moment1.safetensors", "out/final/moment2.safetensors"})
      EXPECT_EQ(broken.folder.read(moment), straight.folder.read(moment));
  }
}

TEST(Train, BrokenCheckpointsAreNeverTaken) {
  Trained fixture;
  fixture.options.saveEvery = 2;
  fixture.options.keep = 2;
  ASSERT_OK(fixture.run());
  EXPECT_FALSE(std::filesystem::exists(fixture.folder.path + "/out/step-2")) << "only two are kept";
  std::string moments = fixture.folder.read("out/step-6/moment1.safetensors");
  moments[moments.size() - 1] ^= 1;
  fixture.folder.write("out/step-6/moment1.safetensors", moments);
  fixture.folder.write("out/final/moment1.safetensors", moments);
  fixture.options.steps = 7;
  fixture.options.resume = fixture.folder.path + "/out/step-6";
  auto direct = fixture.run();
  ASSERT_FALSE(direct.ok());
  EXPECT_EQ(direct.error().code, Code::corrupt);
  fixture.options.resume = "auto";
  auto older = fixture.run();
  ASSERT_OK(older);
  EXPECT_EQ(older->steps, 3) << "continues after step 4";
  EXPECT_EQ(fixture.metrics().size(), 7u);
  fixture.options.resume = fixture.folder.path + "/out/step-4";
  fixture.folder.write("out/step-4/manifest.json", std::string(100000, '['));
  EXPECT_EQ(fixture.run().error().code, Code::corrupt);
}

TEST(Train, CheckpointOfAnotherRunIsRefused) {
  Trained fixture;
  fixture.options.saveEvery = 3;
  ASSERT_OK(fixture.run());
  fixture.options.resume = "auto";
  fixture.options.seed = 99;
  EXPECT_EQ(fixture.run().error().code, Code::mismatch);
  fixture.options.seed.reset();
  fixture.plan.mutable_optimizer()->set_lr(0.5);
  EXPECT_EQ(fixture.run().error().code, Code::mismatch);
}

TEST(Train, StopsWithItsStateSaved) {
  Trained fixture;
  fixture.stop = 1;
  auto report = fixture.run();
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.error().code, Code::preempted);
  fixture.stop = 0;
  fixture.options.resume = "auto";
  auto rest = fixture.run();
  ASSERT_OK(rest);
  EXPECT_EQ(rest->steps, 5);
  Trained straight;
  ASSERT_OK(straight.run());
  EXPECT_EQ(fixture.weights(), straight.weights());
}

TEST(Train, LossThatIsNoNumberEndsTheRun) {
  Trained fixture;
  std::string data = fixture.folder.read("data.safetensors");
  float nan = std::numeric_limits<float>::quiet_NaN();
  // Sample 9 is used by step 3.
  data.replace(data.size() - size_t(4 * paddedElements(2) * 4), 4, reinterpret_cast<char *>(&nan), 4);
  fixture.folder.write("data.safetensors", data);
  fixture.options.saveEvery = 1;
  auto report = fixture.run();
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.error().code, Code::numeric);
  EXPECT_NE(report.error().message.find("step 3"), std::string::npos) << report.error().message;
  auto lines = fixture.metrics();
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_TRUE(lines[2]["loss"].is_null());
  // What was made of it is in no checkpoint: the run can be gone on with from the step before.
  for (const char *name : {"step-1", "step-2"})
    EXPECT_TRUE(std::filesystem::exists(fixture.options.out + "/" + name + "/manifest.json")) << name;
  for (const char *name : {"step-3", "final"})
    EXPECT_FALSE(std::filesystem::exists(fixture.options.out + "/" + name)) << name;
}

TEST(Train, ModelMustBeTheCompiledOne) {
  Trained fixture;
  std::string changed = modelBytes();
  changed[0] = 'h';
  fixture.folder.write("model.onnx", changed);
  EXPECT_EQ(fixture.run().error().code, Code::mismatch);
  fixture.folder.write("model.onnx", modelBytes() + "x");
  EXPECT_EQ(fixture.run().error().code, Code::mismatch);
  std::filesystem::remove(fixture.folder.path + "/model.onnx");
  EXPECT_EQ(fixture.run().error().code, Code::badInput);
}

TEST(Train, WeightsFileOverridesTheModel) {
  Trained first, second;
  ASSERT_OK(first.run());
  std::string w = first.weights();
  // The tied name is as good as the parameter's own.
  size_t name = w.find("\"w\":");
  ASSERT_NE(name, std::string::npos);
  w.replace(name, 4, "\"v\":");
  second.options.weights = second.folder.write("w.safetensors", w);
  std::filesystem::remove(second.folder.path + "/model.onnx");
  ASSERT_OK(second.run());
  EXPECT_LT(losses(second.metrics())[0], losses(first.metrics())[0]);
  second.options.weights = second.folder.write(
      "bad.safetensors", safetensors(R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", "1234"));
  auto bad = second.run();
  ASSERT_FALSE(bad.ok());
  EXPECT_EQ(bad.error().code, Code::mismatch);
  EXPECT_NE(bad.error().note.find("\"w\" has another shape"), std::string::npos) << bad.error().note;
}

TEST(Train, OneRunPerFolder) {
  Trained fixture;
  auto held = RunFolder::open(fixture.options.out);
  ASSERT_OK(held);
  EXPECT_EQ(fixture.run().error().code, Code::usage);
}

/// What a kill in the middle of writing a file leaves is taken away by the next run, whoever has the process's number
/// now; other files are not touched, nor what somebody is about to put there, on another machine too.
TEST(Train, LeftoversOfAKilledRunGo) {
  Trained fixture;
  std::string out = fixture.options.out;
  std::filesystem::create_directories(out);
  const std::vector<std::string> killed = {"metrics.jsonl.tmp-4194305-0", // Linux numbers at most 2^22 processes
                                           "trace.json.tmp-" + std::to_string(::getpid()) + "-99",
                                           "eval.json.tmp-" + std::to_string(::getppid()) + "-0"},
                                 others = {"notes.tmp-txt", "a.tmp-12", ".tmp-1-2", "a.tmp-1-"};
  for (const std::vector<std::string> &names : {killed, others})
    for (const std::string &name : names)
      std::ofstream(out + "/" + name) << "x";
  auto writing = io::OutputFile::create(out + "/outputs.safetensors");
  ASSERT_OK(writing);
  ASSERT_OK(RunFolder::open(out));
  for (const std::string &name : killed)
    EXPECT_FALSE(std::filesystem::exists(out + "/" + name)) << name;
  for (const std::string &name : others)
    EXPECT_TRUE(std::filesystem::exists(out + "/" + name)) << name;
  ASSERT_OK(writing->commit());
  EXPECT_TRUE(std::filesystem::exists(out + "/outputs.safetensors"));
}

TEST(Export, ATiedParameterHasNoPlaceInTheModel) {
  Trained fixture;
  ASSERT_OK(fixture.run());
  auto checkpoint = fixture.openFinal();
  ASSERT_OK(checkpoint);
  EXPECT_EQ(exportOnnx(*checkpoint, fixture.folder.path + "/trained.onnx").error().code, Code::unsupported);
  ASSERT_OK(exportSafetensors(std::move(*fixture.openFinal()), fixture.folder.path + "/trained.safetensors", "",
                              [](const std::string &) {}));
}

TEST(Export, PatchesTheModelsBytes) {
  Trained fixture;
  fixture.plan.mutable_parameters(0)->clear_tied();
  ASSERT_OK(fixture.run());
  auto checkpoint = fixture.openFinal();
  ASSERT_OK(checkpoint);
  ASSERT_OK(exportOnnx(*checkpoint, fixture.folder.path + "/trained.onnx"));
  ASSERT_OK(exportSafetensors(std::move(*fixture.openFinal()), fixture.folder.path + "/trained.safetensors", "",
                              [](const std::string &) {}));
  std::string onnx = fixture.folder.read("trained.onnx"), weights = fixture.folder.read("trained.safetensors");
  ASSERT_EQ(onnx.size(), 408u);
  EXPECT_EQ(onnx.substr(0, 4) + onnx.substr(404), "HEADTAIL");
  EXPECT_EQ(onnx.substr(4, 400), weights.substr(weights.size() - 400));
  EXPECT_NE(onnx.substr(4, 400), rawBytes(initialWeights())) << "nothing was trained";
  EXPECT_EQ(fixture.folder.read("model.onnx"), modelBytes()) << "the original is untouched";
  EXPECT_EQ(exportOnnx(*checkpoint, fixture.folder.path + "/model.onnx").error().code, Code::usage);
  EXPECT_EQ(fixture.folder.read("model.onnx"), modelBytes());
  // A source beyond the file, as a forged manifest would have it.
  checkpoint->manifest.parameters[0].offset = 100;
  EXPECT_EQ(exportOnnx(*checkpoint, fixture.folder.path + "/forged.onnx").error().code, Code::corrupt);
  EXPECT_FALSE(std::filesystem::exists(fixture.folder.path + "/forged.onnx"));
}

TEST(Export, ExternalDataGoesBesideTheModelInItsOwnType) {
  Trained fixture;
  fixture.plan.mutable_parameters(0)->clear_tied();
  std::vector<uint16_t> halves;
  for (float value : initialWeights())
    halves.push_back(toF16(value));
  std::filesystem::create_directories(fixture.folder.path + "/data");
  fixture.folder.write("data/w.bin", "xx" + rawBytes(halves) + "yy");
  planpb::Source &source = *fixture.plan.mutable_parameters(0)->mutable_source();
  source.set_file("data/w.bin");
  source.set_offset(2);
  source.set_bytes(200);
  source.set_type(planpb::F16);
  ASSERT_OK(fixture.run());
  auto checkpoint = fixture.openFinal();
  ASSERT_OK(checkpoint);
  std::string out = fixture.folder.path + "/exported";
  std::filesystem::create_directories(out);
  ASSERT_OK(exportOnnx(*checkpoint, out + "/new.onnx"));
  EXPECT_EQ(fixture.folder.read("exported/new.onnx"), modelBytes());
  std::string external = fixture.folder.read("exported/data/w.bin");
  ASSERT_EQ(external.size(), 204u);
  std::string weights = fixture.weights();
  for (size_t i = 0; i < 100; ++i) {
    uint16_t half;
    float value;
    std::memcpy(&half, &external[2 + 2 * i], 2);
    std::memcpy(&value, &weights[weights.size() - 400 + 4 * i], 4);
    EXPECT_EQ(half, toF16(value)) << i;
  }
  EXPECT_EQ(exportOnnx(*checkpoint, fixture.folder.path + "/new.onnx").error().code, Code::badInput)
      << "its external data needs another name there, which is told to no ONNX file";
  EXPECT_FALSE(std::filesystem::exists(fixture.folder.path + "/new.onnx"));
  EXPECT_FALSE(std::filesystem::exists(fixture.folder.path + "/new.onnx.data"));
}

TEST(Train, ExternalDataMayNotLeaveTheModelsFolder) {
  Trained fixture;
  std::filesystem::create_directories(fixture.folder.path + "/sub");
  fixture.plan.mutable_model()->set_path(fixture.folder.write("sub/model.onnx", modelBytes()));
  fixture.plan.mutable_parameters(0)->mutable_source()->set_file("../model.onnx");
  EXPECT_EQ(fixture.run().error().code, Code::badInput);
}

TEST(Layout, PiecesOfAShardedParameter) {
  Trained fixture(3, 1, Placement::sharded);
  const planpb::Parameter &w = fixture.plan.parameters(0);
  Store store = exactStore(fixture.plan, w);
  ASSERT_FALSE(store.cut.empty());
  // Three shards of 64: elements 0-63, 64-99, nothing.
  Piece first = pieceOf(fixture.plan, meshOf(fixture.plan), w, store, 0),
        second = pieceOf(fixture.plan, meshOf(fixture.plan), w, store, 1);
  EXPECT_EQ(first.count, 64);
  EXPECT_EQ(second.first, 64);
  EXPECT_EQ(second.count, 36);
  EXPECT_EQ(second.at, 0);
  EXPECT_EQ(pieceOf(fixture.plan, meshOf(fixture.plan), w, store, 2).count, 0);
}

TEST(Metrics, KeepsFullPrecisionAndValidJson) {
  StepRecord record;
  record.step = 3;
  record.loss = 0.1 + 0.2;
  record.gradNorm = INFINITY;
  record.lr = 1e-300;
  record.seconds = 2;
  record.samples = 3;
  std::array<char, 512> buffer;
  auto json = nlohmann::json::parse(toJson(record, buffer));
  EXPECT_EQ(json["loss"].get<double>(), 0.1 + 0.2);
  EXPECT_TRUE(json["grad_norm"].is_null());
  EXPECT_EQ(json["lr"].get<double>(), 1e-300);
  EXPECT_EQ(json["samples_per_second"], 1.5);
  EXPECT_FALSE(json.contains("val_loss"));
  record.lossScale = -1.0 / 3;
  for (double *number : {&record.loss, &record.lr, &record.seconds, &*record.gradNorm})
    *number = -1.2345678901234567e-300;
  record.eval = {-1.2345678901234567e-300, true, 1.2345678901234567e-300};
  json = nlohmann::json::parse(toJson(record, buffer));
  EXPECT_EQ(json["val_loss"].get<double>(), record.eval->loss);
  EXPECT_EQ(json["val_perplexity"].get<double>(), 1.0);
  record.eval->isLikelihood = false;
  EXPECT_FALSE(nlohmann::json::parse(toJson(record, buffer)).contains("val_perplexity"));
}

TEST(Metrics, TheBestOfEvaluationsIsTheFirstOfTheLowestThatAreFinite) {
  EvalHistory history;
  std::vector<bool> best;
  for (double loss : {double(NAN), 3.0, 3.0, 2.0, double(INFINITY), 2.5})
    best.push_back(history.add(int64_t(best.size()) + 1, loss));
  EXPECT_EQ(best, (std::vector<bool>{false, true, false, true, false, false}));
  EXPECT_EQ(history.best, 2.0);
  EXPECT_EQ(history.bestStep, 4);
  EXPECT_EQ(history.since, 2);
}

TEST(Metrics, ALineThatLacksItsEvaluationGetsItWhenTheRunGoesOn) {
  TempFolder folder;
  std::string path = folder.path + "/metrics.jsonl";
  StepRecord record;
  auto write = [&](MetricsFile &file, int64_t step) {
    record.step = step;
    file.append(record);
  };
  {
    MetricsFile file;
    ASSERT_TRUE(file.open(path, 0).ok());
    for (int64_t step : {1, 2, 3})
      write(file, step);
  }
  std::string before = folder.read("metrics.jsonl");
  MetricsFile file;
  ASSERT_TRUE(file.open(path, 2, /*completes=*/true).ok());
  record.eval = EvalRecord{0.5, false, 1, 6, 2};
  write(file, 2);
  record.eval.reset();
  write(file, 3);
  std::string after = folder.read("metrics.jsonl"),
              added = ",\"val_loss\":0.5,\"val_seconds\":1,\"val_samples\":6,\"val_left_out\":2";
  size_t second = before.find("\n{\"step\":3") - 1;
  EXPECT_EQ(after, before.substr(0, second) + added + before.substr(second));
  // One on other data takes the place of the first.
  MetricsFile again;
  std::ofstream(path) << after;
  ASSERT_TRUE(again.open(path, 2, /*completes=*/true).ok());
  record.eval = EvalRecord{0.25, false, 1, 6, 2};
  write(again, 2);
  EXPECT_EQ(folder.read("metrics.jsonl"),
            before.substr(0, second) + ",\"val_loss\":0.25" + added.substr(15) + before.substr(second, 2));
}

TEST(Metrics, KeepsTheLinesOfARunThatBeganAfterAnothersCheckpoint) {
  TempFolder folder;
  auto line = [](int64_t step) { return "{\"step\":" + std::to_string(step) + ",\"loss\":1}\n"; };
  auto keeps = [&](const std::string &text, int64_t lastStep) {
    std::string path = folder.write("metrics.jsonl", text);
    EXPECT_TRUE(MetricsFile().open(path, lastStep).ok());
    return folder.read("metrics.jsonl");
  };
  std::string begun = line(101) + line(102), gap = line(110) + line(111);
  EXPECT_EQ(keeps(begun + line(103), 102), begun);
  EXPECT_EQ(keeps(begun + gap + line(112), 111), begun + gap);
  EXPECT_EQ(keeps(begun, 100), "");
  // Where two runs' lines meet, or one was cut off, nothing behind can be told apart.
  EXPECT_EQ(keeps(begun + line(102) + line(103), 103), begun);
  EXPECT_EQ(keeps(begun + "{\"step\":103", 103), begun);
  EXPECT_EQ(keeps(begun + "{\"step\":x,\n" + line(104), 104), begun);
}
