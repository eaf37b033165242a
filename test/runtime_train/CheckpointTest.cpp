//===- CheckpointTest.cpp - nothing is lost -------------------------------------------------------===//
#include "test/runtime_train/TrainPlan.h"

#include "runtime/base/Failpoint.h"
#include "runtime/base/Workers.h"
#include "runtime/io/Hash.h"
#include "runtime/io/Safetensors.h"
#include "runtime/train/Checkpoint.h"
#include "runtime/train/Train.h"

#include <nlohmann/json.hpp>
#include <random>
#include <sys/stat.h>
#include <unistd.h>

using namespace zc;
using namespace zc::test;
using namespace zc::train;

namespace {

/// What a run says besides its result.
struct Notes : RunObserver {
  void note(const std::string &text) override { all += text + "\n"; }
  bool has(const std::string &text) const { return all.find(text) != std::string::npos; }
  std::string all;
};

/// Runs in one folder, of plans with any world size: the data are the same but for zeros in the padding.
struct Fixture {
  Fixture() { ::unsetenv("ZERO_FAULT"); }
  ~Fixture() { EXPECT_TRUE(setFailpoints("").ok()); }

  Result<RunReport> run(int64_t steps, uint32_t world = 2, Placement placement = Placement::sharded,
                        uint32_t accumulation = 2) {
    planpb::Plan plan = trainPlan(folder.write("model.onnx", modelBytes()), world, accumulation, placement);
    change(plan);
    options.data.data = dataFile(folder, world, samples);
    options.steps = steps;
    options.threads = 1;
    options.device = "sync";
    options.nvme.folder = folder.path;
    notes.all.clear();
    return train::train(plan, options, {}, notes);
  }
  std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const auto &entry : std::filesystem::directory_iterator(options.out))
      if (std::string name = entry.path().filename().string(); name[0] != '.' && name != "metrics.jsonl")
        found.push_back(name);
    std::sort(found.begin(), found.end());
    return found;
  }
  std::string read(const std::string &name) const { return folder.read("out/" + name); }
  void flip(const std::string &name, size_t byte, int bit) {
    std::string bytes = read(name);
    bytes[byte % bytes.size()] = char(bytes[byte % bytes.size()] ^ (1 << bit));
    folder.write("out/" + name, bytes);
  }
  bool exists(const std::string &name) const { return std::filesystem::exists(options.out + "/" + name); }

  TempFolder folder;
  int64_t samples = 13;
  std::function<void(planpb::Plan &)> change = [](planpb::Plan &) {};
  RunOptions options = [this] {
    RunOptions made;
    made.out = folder.path + "/out";
    return made;
  }();
  Notes notes;
};

using Names = std::vector<std::string>;

std::string undisturbed(int64_t steps, const char *file = "final/weights.safetensors") {
  Fixture whole;
  EXPECT_TRUE(whole.run(steps).ok());
  return whole.read(file);
}

} // namespace

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

TEST(Checkpoint, FinalIsReplacedWhereNothingCanBeExchanged) {
  std::string expected = undisturbed(6);
  for (const char *dies : {"", "ckpt.replaced", "folder.rename"}) {
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
  EXPECT_EQ(fixture.names(), (Names{"final", "final.abandoned", "step-2", "step-4.abandoned", "step-6.abandoned"}));
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

//===- Damage ---------------------------------------------------------------------===//

TEST(Checkpoint, EveryFlipAndEveryCutIsFound) {
  Fixture fixture;
  ASSERT_OK(fixture.run(3, 2, Placement::tiered));
  std::mt19937 random(7);
  fixture.options.dataChanged = true; // more zeros
  Names files;
  for (const auto &entry : std::filesystem::directory_iterator(fixture.options.out + "/final"))
    files.push_back("final/" + entry.path().filename().string());
  std::sort(files.begin(), files.end());
  EXPECT_EQ(files.size(), 4u);
  auto damaged = [&] {
    auto manifest = readManifest(fixture.options.out + "/final");
    Status status = manifest ? verifyFiles(*manifest) : Status(manifest.error());
    return !status.ok() && status.error().code == Code::corrupt;
  };
  ASSERT_FALSE(damaged());
  for (int i = 0; i < 400; ++i) {
    const std::string &file = files[random() % files.size()];
    std::string whole = fixture.read(file);
    if (i < 300)
      fixture.flip(file, random(), int(random() % 8));
    else
      fixture.folder.write("out/" + file, whole.substr(0, random() % whole.size()));
    EXPECT_TRUE(damaged()) << file << ", attempt " << i;
    if (i % 2 == 0) { // loading reads each byte once, whatever of it this plan needs
      fixture.options.resume = fixture.options.out + (i % 4 ? "" : "/final");
      auto report = fixture.run(4, i % 3 ? 2 : 1, i % 5 ? Placement::sharded : Placement::replicated);
      ASSERT_FALSE(report.ok()) << file << ", attempt " << i;
      EXPECT_EQ(report.error().code, Code::corrupt) << file << ": " << render(report.error());
    }
    fixture.folder.write("out/" + file, whole);
  }
  ASSERT_FALSE(damaged());
  std::filesystem::rename(fixture.options.out + "/final", fixture.options.out + "/step-4");
  EXPECT_EQ(readManifest(fixture.options.out + "/step-4").error().code, Code::corrupt) << "it is step 3's";
}

/// Found while it is loaded, by one rank or another: all go on from the one before, and the run is as if it had ended
/// there.
TEST(Checkpoint, WhatIsDamagedInItsMiddleIsPassedOverByAll) {
  std::string expected = undisturbed(8);
  for (const char *file : {"weights", "moment1", "moment2"})
    for (size_t back : {1, 200}) { // the last rank's elements, and the first one's
      Fixture fixture;
      fixture.options.saveEvery = 2;
      ASSERT_OK(fixture.run(6));
      for (const char *name : {"final", "step-6"}) {
        std::string path = std::string(name) + "/" + file + ".safetensors";
        fixture.flip(path, fixture.read(path).size() - back, 3);
      }
      fixture.options.resume = "auto";
      auto rest = fixture.run(8);
      ASSERT_OK(rest);
      EXPECT_EQ(rest->steps, 4);
      EXPECT_EQ(fixture.read("final/weights.safetensors"), expected) << file;
      for (const char *note : {"/final/", "/step-6/", "of tensor \"w\"", "continuing after step 4"})
        EXPECT_TRUE(fixture.notes.has(note)) << note << " in " << fixture.notes.all;
      std::istringstream metrics(fixture.read("metrics.jsonl"));
      int64_t step = 0;
      for (std::string line; std::getline(metrics, line);)
        EXPECT_EQ(nlohmann::json::parse(line)["step"], ++step);
      EXPECT_EQ(step, 8);
    }
}

/// A tensor that is larger than what is moved and hashed at a time, beside small ones: pieces of several tensors share
/// blocks of the disk, and threads a file.
TEST(Checkpoint, LargeTensorsAreMovedInPieces) {
  TempFolder folder;
  std::vector<io::SafetensorsTable::Tensor> tensors{{"a", {DType::bf16, {3}}},
                                                    {"b", {DType::f32, {1, 2000003}}},
                                                    {"c", {DType::u8, {5}}},
                                                    {"d", {DType::f32, {70001}}}};
  auto table = io::SafetensorsTable::createInPlace(folder.path + "/t.safetensors", tensors, {});
  ASSERT_OK(table);
  std::mt19937_64 random(3);
  std::string bytes(size_t(table->positionOf(4) - table->positionOf(0)), '\0');
  for (char &byte : bytes)
    byte = char(random());
  // From the same place in a page or not, many blocks or a part of one.
  int64_t begin = table->positionOf(0);
  for (int64_t shift : {0, 1})
    for (int64_t piece : {int64_t(1) << 20, int64_t(300000), int64_t(5000)}) {
      std::vector<TransferBuffer> buffers(4);
      ASSERT_TRUE(forEachOf(bytes.size() / size_t(piece) + 1, 4, [&](int worker, size_t i) {
                    int64_t at = int64_t(i) * piece, now = std::min(piece, int64_t(bytes.size()) - at);
                    char *from = buffers[size_t(worker)].at(begin + at) + shift;
                    std::memcpy(from, &bytes[size_t(at)], size_t(now));
                    return table->place(0, at, from, now);
                  }).ok());
      ASSERT_TRUE(table->flush().ok());
      EXPECT_EQ(folder.read("t.safetensors").substr(size_t(begin)), bytes) << shift << " " << piece;
      for (char &byte : bytes)
        byte = char(~byte);
    }
}

/// Every place where saving or loading can fail, one after the other: what was committed loads.
TEST(Checkpoint, EveryFailureOfASaveLeavesOneThatLoads) {
  int failures = 0;
  for (const char *site : {"file.create", "file.write", "file.fsync", "file.rename", "folder.rename", "folder.fsync",
                           "ckpt.exchange", "ckpt.removed", "ckpt.write", "ckpt.manifest", "ckpt.rename"})
    for (int n = 1; n < 60; ++n) {
      Fixture fixture;
      fixture.options.keep = 1;
      fixture.options.saveEvery = 2;
      ASSERT_OK(fixture.run(2));
      fixture.options.resume = "auto";
      ASSERT_TRUE(setFailpoints(std::string(site) + "@n=" + std::to_string(n) + ":EIO").ok());
      auto report = fixture.run(4);
      ASSERT_TRUE(setFailpoints("").ok());
      auto rest = fixture.run(4);
      ASSERT_OK(rest);
      EXPECT_LE(rest->steps, 2) << site << " " << n;
      EXPECT_EQ(fixture.names(), (Names{"final", "step-4"})) << site << " " << n;
      if (report.ok())
        break; // there are no more
      ++failures;
    }
  EXPECT_GE(failures, 40);
}

TEST(Checkpoint, EveryFailureOfALoadIsAnError) {
  Fixture fixture;
  ASSERT_OK(fixture.run(2, 2, Placement::tiered));
  fixture.options.resume = "auto";
  int failures = 0;
  for (const char *site : {"file.open", "file.read", "folder.list"})
    for (int n = 1, fine = 0; n < 200 && fine < 4; ++n) { // a few are tolerated: what is read twice
      ASSERT_TRUE(setFailpoints(std::string(site) + "@n=" + std::to_string(n) + ":EIO").ok());
      auto report = fixture.run(2, 2, Placement::tiered);
      ASSERT_TRUE(setFailpoints("").ok());
      fine = report.ok() ? fine + 1 : 0;
      if (report.ok())
        continue;
      ++failures;
      EXPECT_TRUE(report.error().code == Code::io || report.error().code == Code::badInput) << render(report.error());
      EXPECT_EQ(fixture.names(), Names{"final"});
    }
  EXPECT_GE(failures, 20);
}

//===- Manifests that somebody else wrote ------------------------------------------===//

/// The manifest with `from` replaced by `to`, under a hash that is right again.
static void forge(Fixture &fixture, const std::string &name, const std::string &from, const std::string &to) {
  std::string text = fixture.read(name), seal = ",\n \"xxh3\": \"";
  text.resize(text.rfind(seal));
  size_t at = text.find(from);
  ASSERT_NE(at, std::string::npos) << from;
  text.replace(at, from.size(), to);
  char hash[20];
  std::snprintf(hash, sizeof hash, "%016llx", static_cast<unsigned long long>(io::hashOf(text)));
  fixture.folder.write("out/" + name, text + seal + hash + "\"\n}\n");
}

TEST(Checkpoint, AManifestThatIsSealedButWrongIsDamaged) {
  Fixture fixture;
  ASSERT_OK(fixture.run(3));
  std::string whole = fixture.read("final/manifest.json"), weights = fixture.read("final/weights.safetensors");
  std::string deep(10000, '['), many;
  for (int i = 0; i < 100000; ++i)
    many += "\"file-" + std::to_string(i) + "\": {\"bytes\": 8, \"head\": 8, \"xxh3\": \"0000000000000000\"}, ";
  fixture.folder.write("outside.safetensors", weights);
  auto damaged = [&](const std::string &from, const std::string &to) {
    forge(fixture, "final/manifest.json", from, to);
    auto manifest = readManifest(fixture.options.out + "/final");
    Status status = manifest ? verifyFiles(*manifest) : Status(manifest.error());
    fixture.folder.write("out/final/manifest.json", whole);
    EXPECT_FALSE(status.ok()) << to.substr(0, 100);
    return status.ok() ? "" : render(status.error());
  };
  auto has = [](const std::string &text, const std::string &part) { return text.find(part) != std::string::npos; };
  for (const char *name : {"../outside.safetensors", "/etc/passwd", "..", "sub/weights.safetensors"})
    EXPECT_TRUE(has(damaged("\"files\": {", "\"files\": {\"" + std::string(name) +
                                                "\": {\"bytes\": 8, \"head\": 8, \"xxh3\": \"0000000000000000\"},"),
                    "is no file of it"))
        << name;
  EXPECT_TRUE(has(damaged("\"files\": {", "\"files\": {" + many), "is missing"));
  EXPECT_TRUE(has(damaged("\"format\":", "\"deep\": " + deep + ", \"format\":"), "not valid JSON"));
  for (const char *number : {"1e3", "-1", "18446744073709551616", "3.5"})
    EXPECT_TRUE(has(damaged("\"step\": 3", "\"step\": " + std::string(number)), "\"step\"")) << number;
  ASSERT_FALSE(HasFatalFailure());
  // A symbolic link in a file's place, though what it leads to is right.
  std::string target = fixture.options.out + "/final/weights.safetensors";
  std::filesystem::remove(target);
  std::filesystem::create_symlink("../../outside.safetensors", target);
  auto manifest = readManifest(fixture.options.out + "/final");
  ASSERT_OK(manifest);
  EXPECT_TRUE(has(render(verifyFiles(*manifest).error()), "is not a regular file"));
}

TEST(Checkpoint, AManifestWithoutAHashForAllIsDamaged) {
  Fixture fixture;
  ASSERT_OK(fixture.run(3));
  auto manifest = readManifest(fixture.options.out + "/final");
  ASSERT_OK(manifest);
  ASSERT_TRUE(verifyFiles(*manifest).ok());
  auto refused = [&](const std::function<void(Manifest &)> &change) {
    Manifest changed = *manifest;
    change(changed);
    return verifyFiles(changed).error().code == Code::corrupt;
  };
  EXPECT_TRUE(refused([](Manifest &m) { m.tensors[0].pieces.pop_back(); }));
  EXPECT_TRUE(refused([](Manifest &m) { m.tensors.pop_back(); }));
  EXPECT_TRUE(refused([](Manifest &m) { m.files.erase("weights.safetensors"); }));
  EXPECT_TRUE(refused([](Manifest &m) { m.files.begin()->second.head += 1; }));
  EXPECT_TRUE(refused([](Manifest &m) { m.tensors[0].pieces[0].count = uint64_t(1) << 62; }));
  EXPECT_TRUE(refused([](Manifest &m) { m.tensors[0].pieces[0].offset = ~uint64_t(0); }));
}

//===- Nothing grows --------------------------------------------------------------===//

static size_t entriesOf(const char *folder) {
  return size_t(std::distance(std::filesystem::directory_iterator(folder), std::filesystem::directory_iterator()));
}

/// A thousand saves, and a load for every two of them: step-K and final. In memory, where a save costs no disk's time.
TEST(Checkpoint, AThousandCyclesLeaveNothingBehind) {
  Fixture fixture;
  if (::access("/dev/shm", W_OK) == 0)
    fixture.options.out = "/dev/shm/zc-cycles-" + std::to_string(::getpid());
  fixture.options.saveEvery = 1;
  fixture.options.keep = 2;
  ASSERT_OK(fixture.run(1));
  fixture.options.resume = "auto";
  ASSERT_OK(fixture.run(2));
  size_t files = entriesOf("/proc/self/fd"), threads = entriesOf("/proc/self/task"), shared = entriesOf("/dev/shm");
  for (int64_t step = 3; step <= 500; ++step)
    ASSERT_OK(fixture.run(step));
  EXPECT_EQ(fixture.names(), (Names{"final", "step-499", "step-500"}));
  EXPECT_EQ(entriesOf("/proc/self/fd"), files);
  EXPECT_EQ(entriesOf("/proc/self/task"), threads);
  EXPECT_LE(entriesOf("/dev/shm"), shared + 2) << "of others";
  std::filesystem::remove_all(fixture.options.out);
}
