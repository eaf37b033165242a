#include "runtime/io/Outputs.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace zc;
namespace fs = std::filesystem;

namespace {

class Outputs : public testing::Test {
protected:
  void SetUp() override {
    folder = fs::temp_directory_path() / ("outputs-" + std::to_string(::getpid()));
    fs::remove_all(folder);
    fs::create_directories(folder / "sub");
    std::ofstream(folder / "in") << "read";
    std::ofstream(folder / "sub/inner") << "read";
  }
  void TearDown() override { fs::remove_all(folder); }
  std::string at(const std::string &name) const { return (folder / name).string(); }
  Status check(const std::string &output) const { return checkOutputs({{"", at("in")}}, {{"-o", output}}); }

  fs::path folder;
};

TEST_F(Outputs, AreToldByTheFileAndNotByTheName) {
  fs::create_symlink("in", folder / "link");
  fs::create_symlink(folder, folder / "way");
  fs::create_hard_link(folder / "in", folder / "linked");
  fs::path relative = fs::relative(folder / "in");
  for (const std::string &name :
       {at("in"), at("sub/../in"), at("link"), at("way/in"), at("linked"), relative.string()}) {
    Status status = check(name);
    ASSERT_FALSE(status.ok()) << name;
    EXPECT_EQ(status.error().code, Code::usage);
    EXPECT_EQ(status.error().message, "-o \"" + name + "\" would overwrite the input \"" + at("in") + "\"");
  }
  EXPECT_TRUE(check(at("out")).ok());
  EXPECT_TRUE(check(at("sub/in")).ok());
  EXPECT_TRUE(check("").ok());
  EXPECT_TRUE(check("./-").ok());
  EXPECT_EQ(check("-").error().message, "-o does not write to stdout");
}

TEST_F(Outputs, AreFilesOfTheirOwn) {
  auto both = [&](const std::string &a, const std::string &b) {
    return checkOutputs({}, {{"-o", at(a)}, {"--emit-trace", at(b)}});
  };
  EXPECT_TRUE(both("a", "b").ok());
  EXPECT_FALSE(both("a", "sub/../a").ok()) << "though it is not there yet";
  EXPECT_FALSE(both("in", "in").ok());
  EXPECT_FALSE(both("new/a", "new/../new/a").ok()) << "nor its folder";
  EXPECT_TRUE(both("new/a", "new/b").ok());
}

TEST_F(Outputs, AFolderStandsForAllInIt) {
  EXPECT_FALSE(checkOutputs({{"--weights", at("sub/inner")}}, {{"--out", at("sub")}}).ok());
  EXPECT_TRUE(checkOutputs({{"--weights", at("in")}}, {{"--out", at("sub")}}).ok());
}

TEST_F(Outputs, AFolderThatIsSharedStandsForItself) {
  auto into = [&](const std::string &input, const std::string &name) {
    return checkOutputs({{"--data", at(input)}}, {{"--out", at(name), /*isShared=*/true}});
  };
  EXPECT_TRUE(into("sub/inner", "sub").ok());
  EXPECT_FALSE(into("sub", "sub/../sub").ok());
  EXPECT_FALSE(into("in", "in").ok()) << "a file in the place of a folder";
}

TEST_F(Outputs, ReplaceFilesOfTheirOwnKind) {
  std::ofstream(folder / "a.plan", std::ios::binary) << "\x89ZCPLAN\n";
  std::ofstream(folder / "a.onnx", std::ios::binary) << std::string("\x08\x08\x12\x02zz", 6);
  std::ofstream(folder / "words.txt") << "of no kind that is known";
  auto becomes = [&](FileKind kind, const std::string &name) {
    return checkOutputs({}, {written("-o", at(name), kind)});
  };
  for (const char *name : {"a.plan", "words.txt", "new"})
    EXPECT_TRUE(becomes(FileKind::plan, name).ok()) << name;
  Status refused = becomes(FileKind::plan, "a.onnx");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::usage);
  EXPECT_EQ(refused.error().message, "-o \"" + at("a.onnx") + "\" is an ONNX model, and would be replaced");
  EXPECT_FALSE(becomes(FileKind::unknown, "a.plan").ok()) << "a table over a plan";
}

TEST_F(Outputs, AreNotWhatAnInputIsATemporaryOf) {
  std::ofstream(folder / "a.plan.tmp-1-2") << "read";
  auto from = [&](const std::string &input, const std::string &output) {
    return checkOutputs({{"", at(input)}}, {{"-o", at(output)}}).ok();
  };
  EXPECT_FALSE(from("a.plan.tmp-1-2", "a.plan")) << "it would go with the leftovers of killed processes";
  EXPECT_TRUE(from("a.plan.tmp-1-2", "b.plan"));
  EXPECT_TRUE(from("a.plan.tmp-1-2", "sub/a.plan"));
}

TEST_F(Outputs, ReplaceNothingOfACheckpoint) {
  auto becomes = [&](const std::string &name) {
    return checkOutputs({}, {written("--safetensors", at(name), FileKind::safetensors)});
  };
  std::ofstream(folder / "sub/manifest.json") << "{}";
  EXPECT_TRUE(becomes("sub/inner").ok()) << "a manifest of something else";
  std::ofstream(folder / "sub/weights.safetensors") << "weights";
  for (const char *name : {"sub/inner", "sub/weights.safetensors", "sub/manifest.json"})
    EXPECT_FALSE(becomes(name).ok()) << name;
  EXPECT_TRUE(becomes("sub/new").ok());
}

TEST_F(Outputs, DevicesAndPipesAreNobodys) {
  ASSERT_EQ(::mkfifo(at("fifo").c_str(), 0600), 0);
  EXPECT_TRUE(
      checkOutputs({{"", "/dev/null"}, {"", at("fifo")}}, {{"", "/dev/null"}, {"", at("fifo")}, {"", "/dev/null"}})
          .ok());
}

} // namespace
