//===- JsonTest.cpp - JSON from wherever it comes ------------------------------------------===//

#include "compiler/options/Json.h"

#include <gtest/gtest.h>

using namespace zc;

namespace {

std::string problemOf(const std::string &text, bool comments = false) {
  Result<nlohmann::json> json = parseJson(text, comments);
  return json ? "" : json.error().message;
}

TEST(Json, IsReadAsItStands) {
  Result<nlohmann::json> json = parseJson(R"({"a": [1, -2.5, true, null], "b": {"a": "x"}})");
  ASSERT_TRUE(json);
  EXPECT_EQ((*json)["a"][1], -2.5);
  EXPECT_EQ((*json)["b"]["a"], "x"); // the same key one level deeper is another
}

TEST(Json, MayHaveCommentsWhereThatIsSaid) {
  EXPECT_EQ(problemOf("[1] // one", true), "");
  EXPECT_NE(problemOf("[1] // one"), "");
}

TEST(Json, IsRefusedWhereItGoesTooDeep) {
  auto nested = [](size_t levels) { return std::string(levels, '[') + std::string(levels, ']'); };
  EXPECT_EQ(problemOf(nested(kMostJsonLevels)), "");
  EXPECT_EQ(problemOf(nested(kMostJsonLevels + 1)), "this JSON has arrays and objects in more than 64 levels");
  EXPECT_EQ(problemOf(std::string(1000000, '[')), problemOf(nested(100000)));
}

TEST(Json, IsRefusedWhereItIsTooLong) {
  EXPECT_EQ(problemOf("\"" + std::string(kMostJsonBytes - 2, 'a') + "\""), "");
  EXPECT_EQ(problemOf("\"" + std::string(kMostJsonBytes - 1, 'a') + "\""),
            "this JSON has 4194305 bytes, at most 4194304 are allowed");
}

TEST(Json, SaysAKeyOnce) {
  EXPECT_EQ(problemOf(R"({"a": {"b": 1, "c": 2, "b": 3}})"), "\"b\" is given twice");
  EXPECT_EQ(problemOf("{\"a\\u001b\": 1, \"a\\u001b\": 2}"), "\"a\\x1B\" is given twice");
}

TEST(Json, IsOneSoundValue) {
  for (const char *text : {"", "{", "[1] 2", "NaN", "1e999", "\"\xff\"", "{'a': 1}", "[1,]"})
    EXPECT_EQ(problemOf(text).rfind("this is no JSON: ", 0), 0u) << text;
}

} // namespace
