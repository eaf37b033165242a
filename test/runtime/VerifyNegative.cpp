#include "test/runtime/VerifyNegative.h"

namespace zc::test {

TEST_P(VerifyNegative, IsFound) {
  Plan plan = tinyPlan();
  ASSERT_TRUE(verifyPlan(plan).ok());
  GetParam().damage(plan);
  Status status = verifyPlan(plan);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, Code::corrupt);
  std::string name = GetParam().name;
  std::string label = name.substr(0, name.find('_', name.find('_') + 1));
  EXPECT_EQ(status.error().note.substr(0, 9 + label.size()), "violates " + label) << render(status.error());
}

} // namespace zc::test
