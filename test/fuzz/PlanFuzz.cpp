// Any bytes as a plan's message, or behind the letter C as the file around it: parsed and verified. What is found sound
// is written and read again.
#include "runtime/plan/PlanFile.h"
#include "runtime/plan/PlanMesh.h"
#include "runtime/plan/Verify.h"

#include <string_view>

using namespace zc;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count) {
  const std::string_view all(reinterpret_cast<const char *>(bytes), count);
  planpb::Plan plan;
  if (count > 0 && bytes[0] == 'C') {
    auto read = readPlan(all.substr(1), "fuzz");
    if (!read.ok())
      return (void)render(read.error()), 0;
    plan = *std::move(read);
  } else if (!plan.ParseFromArray(bytes, static_cast<int>(count))) {
    return 0;
  }
  if (Status status = verifyPlan(plan); !status.ok())
    return (void)render(status.error()), 0;
  (void)meshOf(plan);
  (void)planHash(plan);
  auto packed = packPlan(plan);
  if (!packed.ok() || !readPlan(*packed, "packed").ok())
    __builtin_trap();
  return 0;
}
