//===- OptionListTest.cpp - options, read from text ---------------------------------===//

#include "compiler/options/OptionList.h"

#include <gtest/gtest.h>

#include <set>

using namespace zc;

namespace {

enum class Colour { red, green };
constexpr std::array<const char *, 2> namesOf(Colour) { return {"red", "green"}; }

struct Options {
  int64_t count = 1, size = 0;
  double share = 0.5;
  bool fast = false;
  Colour colour = Colour::red;
  std::vector<std::string> names;
};

OptionList listOf(Options &o) {
  OptionList list;
  list.add("count", o.count, Range<int64_t>{1, 8}, "");
  list.add("size", o.size, ByteCount{1, {{"auto", -1}, {"none", 0}}}, "");
  list.add("share", o.share, Range<double>{0, 1}, "");
  list.add("fast", o.fast, "");
  list.add("colour", o.colour, "");
  list.add("name", o.names, "");
  return list;
}

} // namespace

TEST(OptionList, readsEveryKindByItsName) {
  Options options;
  ASSERT_TRUE(listOf(options).readText("colour=green  share=0.25 fast name=a,b count=8 size=2KiB name=c").ok());
  EXPECT_EQ(options.count, 8);
  EXPECT_EQ(options.size, 2048);
  EXPECT_EQ(options.share, 0.25);
  EXPECT_TRUE(options.fast);
  EXPECT_EQ(options.colour, Colour::green);
  EXPECT_EQ(options.names, (std::vector<std::string>{"a", "b", "c"}));
}

TEST(OptionList, readsWordsThatStandForASize) {
  Options options;
  ASSERT_TRUE(listOf(options).readText("size=auto").ok());
  EXPECT_EQ(options.size, -1);
  ASSERT_TRUE(listOf(options).readText("size=none").ok());
  EXPECT_EQ(options.size, 0);
}

TEST(OptionList, refusesWithTheNameAndKeepsTheValue) {
  const std::pair<const char *, const char *> cases[] = {
      {"count=0", "0 is not in [1, 8]"},
      {"count=nine", "\"nine\" is not a whole number"},
      {"count=", "\"\" is not a whole"},
      {"count=2.5", "\"2.5\" is not a whole"},
      {"share=2", "2 is not in [0, 1]"},
      {"share=nan", "a finite number is wanted"},
      {"share=1e999", "a finite number"},
      {"share=0x10", "\"0x10\" is not a number"},
      {"size=0", "\"0\" is less than 1 B"},
      {"size=-5", "is not a size"},
      {"fast=maybe", "neither true nor"},
      {"colour=blue", "\"blue\" is not one of red, green"},
      {"count=99999999999999999999", "99999999999999999999 is not in [1, 8]"}};
  for (auto [text, message] : cases) {
    Options options;
    Status status = listOf(options).readText(text);
    ASSERT_FALSE(status.ok()) << text;
    EXPECT_EQ(status.error().code, Code::usage);
    EXPECT_NE(status.error().message.find(message), std::string::npos) << status.error().message;
    EXPECT_EQ(status.error().where, "--" + std::string(text).substr(0, std::string(text).find('=')));
    EXPECT_EQ(options.count, 1);
    EXPECT_EQ(options.share, 0.5);
    EXPECT_EQ(options.size, 0);
  }
}

TEST(OptionList, namesTheNearestOption) {
  Options options;
  Status status = listOf(options).readText("color=red");
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().message.find("did you mean \"colour\""), std::string::npos);
}

TEST(OptionList, anOptionNeedsWhatItsGroupNeedsUnlessItSaysOtherwise) {
  Options o;
  OptionList list;
  list.group("Training", Option::Needs::training);
  list.add("count", o.count, Range<int64_t>{}, "");
  list.add("fast", o.fast, "").forAnyPlan();
  list.needs(Option::Needs::lossScale);
  list.add("share", o.share, Range<double>{}, "");
  list.group("Partitioning");
  list.add("colour", o.colour, "");
  list.add("name", o.names, "").forTraining();
  EXPECT_EQ(list.find("count")->needs, Option::Needs::training);
  EXPECT_EQ(list.find("fast")->needs, Option::Needs::nothing);
  EXPECT_EQ(list.find("share")->needs, Option::Needs::lossScale);
  EXPECT_EQ(list.find("colour")->needs, Option::Needs::nothing);
  EXPECT_EQ(list.find("name")->needs, Option::Needs::training);
}
