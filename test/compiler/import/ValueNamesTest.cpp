//===- ValueNamesTest.cpp - names of values are numbered once --------------------------------===//

#include "compiler/import/file/ValueNames.h"

#include <deque>
#include <gtest/gtest.h>

using zc::importer::ValueNames;

TEST(ValueNames, FindsWhatItNumbered) {
  ValueNames names;
  EXPECT_EQ(names.find("x"), ValueNames::none);
  std::deque<std::string> texts; // as a model's, they stay where they are
  for (uint32_t i = 0; i < 5000; ++i) {
    texts.push_back("/layer." + std::to_string(i) + "/out");
    EXPECT_EQ(names.find(texts.back()), ValueNames::none);
    EXPECT_EQ(names.number(texts.back()), i + 1);
  }
  names.reserve(100000);
  EXPECT_EQ(names.size(), texts.size());
  for (uint32_t i = 0; i < texts.size(); ++i) {
    EXPECT_EQ(names.find(std::string(texts[i])), i + 1);
    EXPECT_EQ(names.number(std::string(texts[i])), i + 1);
  }
  EXPECT_EQ(names.size(), texts.size());
  EXPECT_EQ(names.number(""), texts.size() + 1); // a name as any other: who skips missing inputs asks for none
}
