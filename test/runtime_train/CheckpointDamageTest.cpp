//===- CheckpointDamageTest.cpp - what is damaged is found ----------------------------------------===//
#include "test/runtime_train/CheckpointFixture.h"

#include "base/Workers.h"
#include "runtime/io/Hash.h"
#include "runtime/io/Safetensors.h"
#include "runtime/train/Checkpoint.h"
#include "runtime/train/VerifyCheckpoint.h"

#include <nlohmann/json.hpp>
#include <random>
#include <sys/stat.h>

using namespace zc;
using namespace zc::test;
using namespace zc::train;

//===- Damage ---------------------------------------------------------------------===//

TEST(CheckpointDamage, EveryFlipAndEveryCutIsFound) {
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

/// Not there, empty, or cut in the middle: refused where it is asked for by its name, passed over by `auto` with a
/// line.
TEST(CheckpointDamage, WhatIsMissingOrCutIsPassedOver) {
  const std::string expected = undisturbed(6);
  for (const char *file : {"manifest.json", "weights.safetensors", "moment1.safetensors", "moment2.safetensors"})
    for (const char *how : {"missing", "empty", "cut"}) {
      Fixture fixture;
      fixture.useMemory();
      fixture.options.saveEvery = 2;
      ASSERT_OK(fixture.run(4));
      for (const char *name : {"/final/", "/step-4/"}) {
        std::string path = fixture.options.out + name + file;
        if (how == std::string("missing"))
          std::filesystem::remove(path);
        else
          std::filesystem::resize_file(path, how == std::string("empty") ? 0 : std::filesystem::file_size(path) / 2);
      }
      fixture.options.resume = fixture.options.out + "/step-4";
      auto named = fixture.run(6);
      ASSERT_FALSE(named.ok()) << file << " " << how;
      EXPECT_EQ(named.error().code, Code::corrupt) << render(named.error());
      EXPECT_NE(render(named.error()).find(file), std::string::npos) << render(named.error());
      EXPECT_EQ(fixture.names(), (Names{"final", "step-2", "step-4"})) << "nothing is touched";
      fixture.options.resume = "auto";
      auto rest = fixture.run(6);
      ASSERT_OK(rest);
      EXPECT_EQ(rest->steps, 4) << file << " " << how;
      EXPECT_EQ(fixture.read("final/weights.safetensors"), expected) << file << " " << how;
      for (const char *note :
           {"passed over", "/final", "/step-4", file, "/step-2\" is tried", "continuing after step 2"})
        EXPECT_TRUE(fixture.notes.has(note)) << note << " in " << fixture.notes.all;
      EXPECT_FALSE(fixture.notes.has("  -->")) << "several lines in " << fixture.notes.all;
    }
}

TEST(CheckpointDamage, WhatIsThereBesideIsLeftAlone) {
  Fixture fixture;
  ASSERT_OK(fixture.run(3));
  fixture.folder.write("out/final/notes.txt", "mine");
  fixture.folder.write("out/mine.txt", "mine");
  fixture.options.resume = "auto";
  ASSERT_OK(fixture.run(3));
  EXPECT_EQ(fixture.read("final/notes.txt"), "mine");
  ASSERT_OK(fixture.run(5));
  EXPECT_EQ(fixture.read("final/weights.safetensors"), undisturbed(5));
  EXPECT_EQ(fixture.read("mine.txt"), "mine");
}

/// Found while it is loaded, by one rank or another: all go on from the one before, and the run is as if it had ended
/// there.
TEST(CheckpointDamage, WhatIsDamagedInItsMiddleIsPassedOverByAll) {
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
TEST(CheckpointDamage, LargeTensorsAreMovedInPieces) {
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

TEST(CheckpointDamage, AManifestThatIsSealedButWrongIsDamaged) {
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

TEST(CheckpointDamage, AManifestWithoutAHashForAllIsDamaged) {
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
