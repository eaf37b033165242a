//===- CheckpointTest.cpp - nothing is lost -------------------------------------------------------===//
#include "test/runtime_train/CheckpointFixture.h"

#include "runtime/train/Checkpoint.h"
#include "runtime/train/VerifyCheckpoint.h"

#include <nlohmann/json.hpp>
#include <sys/resource.h>

using namespace zc;
using namespace zc::test;
using namespace zc::train;

//===- Replacing, removing, finding -----------------------------------------------===//

/// A process that dies at `site`; the fixture's own goes on.
static void dieAt(Fixture &fixture, const std::string &site, int64_t steps) {
  EXPECT_EXIT(
      {
        (void)setFailpoints(site + ":exit=9");
        (void)fixture.run(steps);
        ::_exit(0);
      },
      testing::ExitedWithCode(9), "")
      << site;
}

TEST(Checkpoint, FinalIsReplacedOrStays) {
  std::string expected = undisturbed(6);
  for (const char *site : {"ckpt.write@n=2", "ckpt.manifest", "ckpt.rename", "ckpt.replaced", "ckpt.removed@n=2",
                           "ckpt.exchange", "file.fsync", "folder.fsync"}) {
    Fixture fixture;
    ASSERT_OK(fixture.run(3));
    fixture.options.resume = "auto";
    dieAt(fixture, site, 6);
    auto rest = fixture.run(6);
    ASSERT_OK(rest);
    EXPECT_LE(rest->steps, 3) << site << ": began afresh";
    EXPECT_EQ(rest->last.step, 6);
    EXPECT_EQ(fixture.read("final/weights.safetensors"), expected) << site;
    EXPECT_EQ(fixture.names(), Names{"final"}) << site;
  }
}

/// What it wrote beside its checkpoints is swept by the next start.
TEST(Checkpoint, AKilledRunLeavesNothingBehind) {
  for (const char *site : {"file.write", "file.fsync", "file.rename"}) { // when it begins
    Fixture fixture;
    ASSERT_OK(fixture.run(3));
    fixture.options.resume = "auto";
    dieAt(fixture, site, 6);
    EXPECT_EQ(fixture.names().size(), 2u) << site << " leaves nothing to be swept";
    fixture.folder.write("out/mine.tmp-1", "mine");
    ASSERT_OK(fixture.run(6));
    EXPECT_EQ(fixture.names(), (Names{"final", "mine.tmp-1"})) << site;
  }
}

TEST(Checkpoint, FinalIsReplacedWhereNothingCanBeExchanged) {
  std::string expected = undisturbed(6);
  for (const char *dies : {"", "ckpt.replaced", "folder.rename@n=2"}) {
    Fixture fixture;
    ASSERT_OK(fixture.run(3));
    fixture.options.resume = "auto";
    if (dies[0])
      dieAt(fixture, std::string("ckpt.exchange:EINVAL;") + dies, 6);
    else
      ASSERT_TRUE(setFailpoints("ckpt.exchange:EINVAL").ok());
    ASSERT_OK(fixture.run(6));
    EXPECT_EQ(fixture.read("final/weights.safetensors"), expected) << dies;
    EXPECT_EQ(fixture.names(), Names{"final"}) << dies;
  }
}

TEST(Checkpoint, AnErrorWhileReplacingLosesNothing) {
  for (const char *site : {"ckpt.exchange:EIO", "ckpt.exchange:EINVAL; ckpt.replaced:EIO", "ckpt.removed@n=2:EIO",
                           "folder.rename:EIO", "ckpt.rename:EIO", "folder.fsync@n=2:EIO"}) {
    Fixture fixture;
    ASSERT_OK(fixture.run(3));
    fixture.options.resume = "auto";
    ASSERT_TRUE(setFailpoints(site).ok());
    (void)fixture.run(5);
    ASSERT_TRUE(setFailpoints("").ok());
    auto rest = fixture.run(6);
    ASSERT_OK(rest);
    EXPECT_LE(rest->steps, 3) << site;
    EXPECT_EQ(fixture.names(), Names{"final"}) << site;
  }
}

TEST(Checkpoint, AFinishedRunIsNotOverwritten) {
  Fixture fixture;
  ASSERT_OK(fixture.run(3));
  std::string weights = fixture.read("final/weights.safetensors"), metrics = fixture.read("metrics.jsonl");
  auto again = fixture.run(3);
  ASSERT_FALSE(again.ok());
  EXPECT_EQ(again.error().code, Code::usage);
  for (const char *way : {"--resume auto", "--out", "--overwrite"})
    EXPECT_NE(again.error().help.find(way), std::string::npos) << way;
  std::filesystem::remove_all(fixture.options.out + "/final");
  EXPECT_EQ(fixture.run(3).error().code, Code::usage) << "its metrics alone";
  EXPECT_EQ(fixture.read("metrics.jsonl"), metrics);
  fixture.options.overwrite = true;
  auto fresh = fixture.run(2);
  ASSERT_OK(fresh);
  EXPECT_EQ(fresh->steps, 2);
  EXPECT_NE(fixture.read("final/weights.safetensors"), weights);
  fixture.options.resume = "auto";
  EXPECT_EQ(fixture.run(2).error().code, Code::usage) << "both at once";
}

TEST(Checkpoint, OnlyCheckpointsAreRemovedForANewRun) {
  Fixture fixture;
  fixture.options.saveEvery = 1;
  ASSERT_OK(fixture.run(2));
  std::filesystem::remove(fixture.options.out + "/step-1/manifest.json"); // a broken one
  std::filesystem::create_directory(fixture.options.out + "/best");
  const std::string mine = fixture.options.out + "/best/thesis.tex";
  std::ofstream(mine) << "mine";
  const Names before = fixture.names();
  fixture.options.overwrite = true;
  auto refused = fixture.run(2);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::usage);
  EXPECT_NE(refused.error().message.find("thesis.tex"), std::string::npos);
  EXPECT_EQ(fixture.names(), before);
  std::filesystem::remove(mine);
  fixture.options.saveEvery = 0;
  ASSERT_OK(fixture.run(2));
  EXPECT_EQ(fixture.names(), Names{"final"});
}

TEST(Checkpoint, WhatCannotBeReadIsNotPassedOver) {
  Fixture fixture;
  fixture.options.saveEvery = 2;
  ASSERT_OK(fixture.run(6));
  fixture.options.resume = "auto";
  for (const char *site : {"folder.list:EIO", "file.open@n=2+:ESTALE", "file.read@n=6+:EIO", "file.open@n=2+:EACCES"}) {
    ASSERT_TRUE(setFailpoints(site).ok());
    auto report = fixture.run(8);
    ASSERT_FALSE(report.ok()) << site;
    EXPECT_EQ(report.error().code, Code::io) << site << ": " << render(report.error());
  }
  ASSERT_TRUE(setFailpoints("").ok());
  // Damaged ones are passed over with a line; when none is left the run does not begin afresh.
  for (const char *name : {"final", "step-6", "step-4", "step-2"})
    fixture.flip(std::string(name) + "/weights.safetensors", 200, 3);
  auto none = fixture.run(8);
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().code, Code::corrupt);
  EXPECT_TRUE(fixture.notes.has("step-4")) << fixture.notes.all;
  EXPECT_EQ(fixture.names().size(), 4u);
}

TEST(Checkpoint, AnOlderFormatSaysWhatToDo) {
  Fixture fixture;
  ASSERT_OK(fixture.run(2));
  fixture.folder.write("out/final/manifest.json", R"({"format": 1, "step": 2, "world_size": 2})");
  fixture.options.resume = "auto";
  auto report = fixture.run(4);
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.error().code, Code::mismatch);
  EXPECT_NE(report.error().help.find("--weights"), std::string::npos);
}

TEST(Checkpoint, TheOneWrittenIsKept) {
  Fixture fixture;
  fixture.options.saveEvery = 2;
  ASSERT_OK(fixture.run(4));
  std::filesystem::remove_all(fixture.options.out + "/final");
  // A damaged one of a later step counts for nothing.
  std::filesystem::copy(fixture.options.out + "/step-4", fixture.options.out + "/step-1000",
                        std::filesystem::copy_options::recursive);
  fixture.options.keep = 1;
  fixture.options.resume = "auto";
  ASSERT_OK(fixture.run(6));
  EXPECT_EQ(fixture.names(), (Names{"final", "step-1000", "step-6"}));
}

TEST(Checkpoint, WhatComesAfterARewindIsSetAside) {
  Fixture fixture;
  fixture.options.saveEvery = 2;
  ASSERT_OK(fixture.run(6));
  fixture.options.saveEvery = 0;
  fixture.options.resume = fixture.options.out + "/step-2";
  ASSERT_OK(fixture.run(3));
  EXPECT_EQ(fixture.names(), (Names{"final", "final.abandoned", "metrics.jsonl.abandoned", "step-2", "step-4.abandoned",
                                    "step-6.abandoned"}));
  fixture.options.resume = "auto";
  auto rest = fixture.run(4);
  ASSERT_OK(rest);
  EXPECT_EQ(rest->steps, 1) << "after step 3, not after step 6";
}

//===- What differs ---------------------------------------------------------------===//

TEST(Checkpoint, OtherDataAreRefusedByName) {
  Fixture fixture;
  ASSERT_OK(fixture.run(2));
  fixture.options.resume = "auto";
  auto refuses = [&](const char *what) {
    auto report = fixture.run(4);
    ASSERT_FALSE(report.ok()) << what;
    EXPECT_EQ(report.error().code, Code::mismatch) << what;
    EXPECT_NE(render(report.error()).find(what), std::string::npos) << render(report.error());
  };
  fixture.samples = 14;
  refuses("samples of data 13, here it is 14");
  fixture.samples = 13;
  fixture.options.data.shuffle = true;
  refuses("--shuffle off, here it is on");
  fixture.options.data.shuffle = false;
  fixture.options.data.shiftLabels = true;
  refuses("--shift-labels off, here it is on");
  fixture.options.data.shiftLabels = false;
  fixture.options.seed = 99;
  refuses("seed 0, here it is 99");
  fixture.options.seed.reset();
  fixture.change = [](planpb::Plan &plan) { plan.mutable_optimizer()->set_lr(0.5); };
  refuses("learning rate 0.01, here it is 0.5");
  fixture.options.lr = 0.5;
  EXPECT_TRUE(fixture.run(3).ok()) << "said again, it is meant";
  fixture.change = [](planpb::Plan &plan) { plan.mutable_optimizer()->set_rule("sgd"); };
  refuses("optimizer adamw, here it is sgd");
  fixture.change = [](planpb::Plan &) {};
  fixture.samples = 14;
  refuses("--data-changed");
  fixture.options.dataChanged = true;
  EXPECT_TRUE(fixture.run(4).ok());
}

TEST(Checkpoint, AnotherModelsIsRefusedAndSaysWhatDoesNotFit) {
  Fixture fixture;
  ASSERT_OK(fixture.run(2));
  const std::string weights = fixture.read("final/weights.safetensors");
  fixture.options.resume = "auto";
  fixture.change = [](planpb::Plan &plan) { plan.mutable_parameters(0)->set_name("u"); };
  auto report = fixture.run(4);
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.error().code, Code::mismatch);
  for (const char *part : {"1 of 1 tensors do not fit", "\"u\" is missing"})
    EXPECT_NE(render(report.error()).find(part), std::string::npos) << render(report.error());
  EXPECT_EQ(fixture.read("final/weights.safetensors"), weights);
}

TEST(Checkpoint, AnotherPlanGoesOnWithTheSameSamples) {
  // 16 samples a step: 1 x 16, 2 x 8, 4 x 4, 8 x 2 of ranks and micro-steps, whose sums are exact.
  auto loss = [](Fixture &fixture) {
    std::istringstream in(fixture.read("metrics.jsonl"));
    std::vector<double> losses;
    for (std::string line; std::getline(in, line);)
      losses.push_back(nlohmann::json::parse(line)["loss"].get<double>());
    return losses;
  };
  Fixture whole;
  whole.samples = 40;
  ASSERT_OK(whole.run(6, 1, Placement::replicated, 16));
  std::vector<double> expected = loss(whole);
  for (Placement from : {Placement::replicated, Placement::sharded, Placement::tiered})
    for (Placement to : {Placement::replicated, Placement::sharded, Placement::tiered})
      for (auto [first, second] : {std::pair(1u, 8u), std::pair(8u, 2u), std::pair(2u, 2u), std::pair(4u, 1u)}) {
        Fixture fixture;
        fixture.samples = 40;
        ASSERT_OK(fixture.run(3, first, from, 16 / first));
        fixture.options.resume = "auto";
        fixture.options.dataChanged = first != second; // more zeros
        ASSERT_OK(fixture.run(6, second, to, 16 / second));
        std::vector<double> losses = loss(fixture);
        ASSERT_EQ(losses.size(), 6u);
        for (size_t i = 0; i < losses.size(); ++i)
          EXPECT_EQ(losses[i], expected[i]) << first << " to " << second << ", step " << i + 1;
      }
}

TEST(Checkpoint, OtherBatchesGoOnWhereTheDataStood) {
  Fixture fixture;
  ASSERT_OK(fixture.run(3, 2, Placement::sharded, 2)); // 12 samples
  fixture.options.resume = "auto";
  ASSERT_OK(fixture.run(5, 2, Placement::sharded, 1)); // and 4 more
  EXPECT_TRUE(fixture.notes.has("samples per step 2 instead of 4")) << fixture.notes.all;
  auto manifest = readManifest(fixture.options.out + "/final");
  ASSERT_OK(manifest);
  EXPECT_EQ(manifest->data.position, 16);
}

/// Two ranks for each there was: they share its samples, and each computes it all.
static void addModelAxis(planpb::Plan &plan) {
  const auto axis = uint32_t(plan.mesh_size());
  planpb::MeshAxis &model = *plan.add_mesh();
  model.set_name("model");
  model.set_size(2);
  model.set_kind(planpb::MODEL);
  for (planpb::Section *section : {plan.mutable_micro(), plan.mutable_update()})
    for (planpb::Step &step : *section->mutable_steps())
      if (step.queue() == planpb::COMM)
        for (uint32_t data = 0; data < axis; ++data)
          step.add_axes(data);
}

/// Quantized gradients, whose mean the loss is: a run goes on with what another plan says of them, but not silently.
TEST(Checkpoint, WhatAnotherPlanWasCompiledWithIsSaid) {
  Fixture fixture;
  auto compiledBy = [](const char *command) { return [command](planpb::Plan &plan) { plan.set_command(command); }; };
  fixture.change = compiledBy("zero-compile m.onnx --bucket-size 1MB --quantize-gradients int4 --world-size 2");
  ASSERT_OK(fixture.run(3, 2, Placement::sharded, 2));
  fixture.options.resume = "auto";
  fixture.change = compiledBy("zero-compile 'my m.onnx' --bucket-size 2MB --loss-mean global --world-size 4");
  ASSERT_OK(fixture.run(4, 2, Placement::sharded, 1));
  EXPECT_TRUE(fixture.notes.has("compiled with --bucket-size 2MB instead of 1MB, with --loss-mean global, without "
                                "--quantize-gradients int4"))
      << fixture.notes.all;
  EXPECT_FALSE(fixture.notes.has("--world-size")) << fixture.notes.all;
}

TEST(Checkpoint, RanksThatShareSamplesSaveOnceAndAllGoOn) {
  std::string expected = undisturbed(6);
  for (Placement placement : {Placement::replicated, Placement::sharded, Placement::tiered})
    for (bool before : {false, true}) {
      Fixture fixture;
      auto none = fixture.change;
      fixture.change = before ? addModelAxis : none;
      ASSERT_OK(fixture.run(3, 2, placement));
      fixture.options.resume = "auto";
      fixture.change = before ? none : addModelAxis;
      ASSERT_OK(fixture.run(6, 2, placement));
      const char *changes = before ? "world size 2 instead of 4, ranks per sample 1 instead of 2"
                                   : "world size 4 instead of 2, ranks per sample 2 instead of 1";
      EXPECT_TRUE(fixture.notes.has(changes)) << fixture.notes.all;
      EXPECT_EQ(fixture.read("final/weights.safetensors"), expected) << int(placement);
    }
}

//===- Parameters that are cut over the model axis ---------------------------------===//

/// Its one parameter, 100 elements, is `whole`; the model axis has two ranks, of which each has half of the elements of
/// each of `groups` runs of dimension `dim`, or all where there are no groups. The weights never move.
static void cutParameter(planpb::Plan &plan, std::vector<int64_t> whole, uint32_t dim, uint32_t groups) {
  planpb::TensorType type;
  type.mutable_dims()->Add(whole.begin(), whole.end());
  planpb::Parameter &parameter = *plan.mutable_parameters(0);
  *plan.add_types() = type;
  parameter.set_type(uint32_t(plan.types_size() - 1));
  plan.mutable_optimizer()->set_lr(0);
  addModelAxis(plan);
  if (groups == 0)
    return;
  parameter.mutable_cut()->set_type(parameter.type());
  parameter.mutable_cut()->set_dim(dim);
  parameter.mutable_cut()->set_groups(groups);
  type.set_dims(int(dim), (type.dims(int(dim)) + 1) / 2);
  *plan.add_types() = type;
  parameter.set_type(uint32_t(plan.types_size() - 1));
  uint64_t used = 1;
  for (int64_t d : type.dims())
    used *= uint64_t(d);
  plan.mutable_buckets(0)->set_used(used);
}

/// Makes two tiles of it: its first two rows, and the others.
static void tileParameter(planpb::Plan &plan) {
  planpb::Parameter &first = *plan.mutable_parameters(0);
  planpb::TensorType type = plan.types(int(first.type()));
  const int64_t rows = type.dims(0), tile = 2;
  int64_t row = 1;
  for (int i = 1; i < type.dims_size(); ++i)
    row *= type.dims(i);
  first.mutable_part()->set_whole(first.name());
  first.mutable_part()->set_type(first.type());
  planpb::Parameter &second = *plan.add_parameters();
  second = plan.parameters(0);
  auto cutDown = [&](planpb::Parameter &parameter, const char *name, int64_t count) {
    parameter.set_name(name);
    type.set_dims(0, count);
    *plan.add_types() = type;
    parameter.set_type(uint32_t(plan.types_size() - 1));
  };
  cutDown(*plan.mutable_parameters(0), "tile0", tile);
  cutDown(second, "tile1", rows - tile);
  second.mutable_part()->set_first(uint64_t(tile * row));
  second.set_offset(64);
}

/// Files hold the whole, in the model's order: initial weights are taken apart, saved ones put together, and whoever
/// loads them takes what is its own.
TEST(Checkpoint, WhatIsCutOverTheModelAxisIsSavedAndLoadedWhole) {
  struct Case {
    std::vector<int64_t> whole;
    uint32_t dim, groups;
  };
  const Case cases[] = {{{10, 10}, 0, 1}, {{10, 10}, 1, 1},  {{5, 20}, 0, 1},   {{20, 5}, 1, 1},
                        {{5, 20}, 1, 5},  {{5, 4, 5}, 1, 2}, {{5, 2, 10}, 2, 5}};
  std::string initial = rawBytes(initialWeights());
  for (Placement placement : {Placement::replicated, Placement::sharded, Placement::tiered})
    for (const Case &c : cases)
      for (auto [before, isTiled] : {std::pair(false, false), {true, false}, {false, true}, {true, true}}) {
        Fixture fixture;
        auto set = [&, isTiled = isTiled](bool isCut) {
          fixture.change = [&c, isCut, isTiled](planpb::Plan &plan) {
            cutParameter(plan, c.whole, c.dim, isCut ? c.groups : 0);
            if (isCut && isTiled)
              tileParameter(plan);
          };
        };
        set(before);
        ASSERT_OK(fixture.run(3, 2, placement));
        std::string saved = fixture.read("final/weights.safetensors");
        EXPECT_EQ(saved.substr(saved.size() - initial.size()), initial) << int(placement) << " dim " << c.dim;
        fixture.options.resume = "auto";
        set(!before);
        ASSERT_OK(fixture.run(6, 2, placement));
        std::string again = fixture.read("final/weights.safetensors");
        EXPECT_EQ(again.substr(again.size() - initial.size()), initial) << int(placement) << " dim " << c.dim;
      }
}

/// Moments too, and what is saved in pieces is hashed as it lies in the file.
static void goesOnWithTheSameBits(bool isTiled) {
  auto cut = [isTiled](planpb::Plan &plan) {
    cutParameter(plan, {5, 20}, 1, 5);
    if (isTiled)
      tileParameter(plan);
    plan.mutable_optimizer()->set_lr(0.01);
  };
  Fixture whole;
  whole.change = cut;
  ASSERT_OK(whole.run(6));
  for (Placement placement : {Placement::replicated, Placement::sharded, Placement::tiered}) {
    Fixture fixture;
    fixture.change = cut;
    ASSERT_OK(fixture.run(3, 2, placement));
    auto manifest = readManifest(fixture.options.out + "/final");
    ASSERT_OK(manifest);
    ASSERT_OK(verifyFiles(*manifest));
    fixture.options.resume = "auto";
    ASSERT_OK(fixture.run(6));
    for (const char *file : {"weights", "moment1", "moment2"}) {
      std::string name = std::string("final/") + file + ".safetensors";
      EXPECT_EQ(fixture.read(name), whole.read(name)) << int(placement) << " " << file;
    }
    fixture.flip("final/weights.safetensors", whole.read("final/weights.safetensors").size() - 8, 1);
    manifest = readManifest(fixture.options.out + "/final");
    ASSERT_OK(manifest);
    EXPECT_EQ(verifyFiles(*manifest).error().code, Code::corrupt);
  }
}

TEST(Checkpoint, WhatIsCutOverTheModelAxisGoesOnWithTheSameBits) { goesOnWithTheSameBits(/*isTiled=*/false); }
TEST(Checkpoint, WhatIsCutAndTiledGoesOnWithTheSameBits) { goesOnWithTheSameBits(/*isTiled=*/true); }

/// Each rank has a file of its own in it, of which the others open none.
TEST(Checkpoint, ManyRanksOfAProcessOpenFewFiles) {
  constexpr uint32_t ranks = 24;
  Fixture fixture;
  fixture.change = [](planpb::Plan &plan) { // what quantized gradients lost, a rank's own
    const planpb::Slice gradient = plan.slices(plan.buckets(0).gradient_slice());
    planpb::Arena &arena = *plan.mutable_arenas(int(gradient.arena()));
    planpb::Slice &residual = *plan.add_slices();
    residual = gradient;
    residual.set_name("residual");
    residual.set_offset((arena.bytes() + 63) / 64 * 64);
    arena.set_bytes(residual.offset() + residual.bytes());
    plan.mutable_buckets(0)->add_residual_slices(plan.slices_size() - 1);
  };
  ASSERT_OK(fixture.run(1, ranks, Placement::replicated)); // each reads something
  ASSERT_TRUE(fixture.exists("final/rank-23.safetensors"));
  fixture.options.resume = "auto";
  struct rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  struct rlimit low = {256, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
  ASSERT_OK(setFailpoints("file.read@step=0:delay=200ms")); // none is through before all have begun
  auto report = fixture.run(2, ranks, Placement::replicated);
  ASSERT_OK(setFailpoints(""));
  ::setrlimit(RLIMIT_NOFILE, &before);
  ASSERT_OK(report);
  EXPECT_EQ(report->steps, 1);
}

/// What was to be saved is there.
TEST(Checkpoint, OlderOnesThatCannotBeRemovedEndNoRun) {
  Fixture fixture;
  fixture.options.saveEvery = 1;
  fixture.options.keep = 1;
  ASSERT_OK(setFailpoints("ckpt.remove:EIO"));
  auto report = fixture.run(3);
  ASSERT_OK(setFailpoints(""));
  ASSERT_OK(report);
  EXPECT_TRUE(fixture.notes.has("step-2: older checkpoints stay")) << fixture.notes.all;
  EXPECT_EQ(fixture.names(), (Names{"final", "step-1", "step-2", "step-3"}));
}
