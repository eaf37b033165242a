#include "base/Tensor.h"
#include "base/TrafficClass.h"
#include "runtime/plan/Collectives.h"
#include "runtime/plan/PlanMesh.h"

#include <cmath>

namespace zc::verify {

namespace {

uint64_t members(const StepView &view) { return static_cast<uint64_t>(view.mesh.size(axesOf(view.step))); }
uint64_t bytesIn(const StepView &view, const planpb::Operand &operand) { return bytesOf(view.typeOf(operand)); }

/// collective_c1, and of collective_c2 the sizes: `inputParts` : `outputParts` is the ratio of elements.
Status verifySizes(const StepView &view, uint64_t inputParts, uint64_t outputParts) {
  // collective_c1
  if (view.step.queue() != planpb::COMM)
    return view.fail(513, "collective_c1", "is a collective and not on queue COMM");
  if (view.step.inputs() != 1 || view.step.operands_size() != 2)
    return view.fail(514, "collective_c1",
                     "has " + str(view.step.inputs()) + " inputs and " +
                         str(static_cast<uint64_t>(view.step.operands_size())) + " operands");
  // collective_c2: at most 2^48 bytes times 2^16 ranks
  auto elements = [&](int i) {
    const planpb::Operand &operand = view.step.operands(i);
    return bytesIn(view, operand) / static_cast<uint64_t>(sizeOf(static_cast<DType>(view.typeOf(operand).type())));
  };
  uint64_t left = 0, right = 0;
  if (__builtin_mul_overflow(elements(0), outputParts, &left) ||
      __builtin_mul_overflow(elements(1), inputParts, &right) || left != right)
    return view.fail(515, "collective_c2",
                     "takes " + str(elements(0)) + " elements to " + str(elements(1)) + " on " + str(members(view)) +
                         " ranks");
  return {};
}

/// collective_c3
Status verifyTraffic(const StepView &view) {
  const auto attributes = view.attributes();
  auto traffic = attributes.find(kTrafficAttribute);
  if (traffic != attributes.end() && !valueNamed<TrafficClass>(traffic->second->text()))
    return view.fail(524, "collective_c3", "counts its traffic as \"" + traffic->second->text() + "\"");
  return {};
}

/// Element types that are summed, and the attributes of a sum.
Status verifyReduction(const StepView &view) {
  ZC_RETURN_IF_ERROR(verifyTraffic(view));
  // collective_c2
  planpb::Type in = view.typeOf(view.step.operands(0)).type(), out = view.typeOf(*view.step.operands().rbegin()).type();
  bool isHalf = in == planpb::BF16 || in == planpb::F16;
  bool isSummed = isHalf || in == planpb::F32 || in == planpb::F64 || in == planpb::I64;
  bool widens = isHalf && out == planpb::F32 && view.kernel() == "reduce_scatter";
  if (!isSummed || (in != out && !widens))
    return view.fail(516, "collective_c2", "sums " + planpb::Type_Name(in) + " to " + planpb::Type_Name(out));
  // collective_c3
  const auto attributes = view.attributes();
  auto scale = attributes.find("scale");
  if (scale != attributes.end()) {
    double value = scale->second->real();
    if (scale->second->value_case() != planpb::Attribute::kReal || !std::isfinite(value) ||
        (in == planpb::I64 && value != 1))
      return view.fail(517, "collective_c3", "has a scale that is no finite real, or is not 1 for integers");
  }
  auto accumulate = attributes.find("accumulate");
  if (accumulate != attributes.end() && accumulate->second->integer() != 0 &&
      view.step.operands().rbegin()->access() != planpb::READ_WRITE)
    return view.fail(518, "collective_c3", "accumulates into an operand that is not READ_WRITE");
  return {};
}

Status verifyAllGather(const StepView &view) {
  ZC_RETURN_IF_ERROR(verifyTraffic(view));
  ZC_RETURN_IF_ERROR(verifySizes(view, 1, members(view)));
  if (view.typeOf(view.step.operands(0)).type() != view.typeOf(view.step.operands(1)).type())
    return view.fail(519, "collective_c2", "gathers elements of another type than it stores");
  return {};
}

Status verifyReduceScatter(const StepView &view) {
  ZC_RETURN_IF_ERROR(verifySizes(view, members(view), 1));
  return verifyReduction(view);
}

Status verifyAllReduce(const StepView &view) {
  bool isInPlace =
      view.step.operands_size() == 1 && view.step.inputs() == 0 && view.step.operands(0).access() == planpb::READ_WRITE;
  if (!isInPlace)
    ZC_RETURN_IF_ERROR(verifySizes(view, 1, 1));
  else if (view.step.queue() != planpb::COMM)
    return view.fail(513, "collective_c1", "is a collective and not on queue COMM");
  return verifyReduction(view);
}

Status verifyAllToAll(const StepView &view) {
  ZC_RETURN_IF_ERROR(verifyTraffic(view));
  ZC_RETURN_IF_ERROR(verifySizes(view, 1, 1));
  if (view.typeOf(view.step.operands(0)).type() != view.typeOf(view.step.operands(1)).type() ||
      bytesIn(view, view.step.operands(0)) % members(view) != 0)
    return view.fail(527, "collective_c2", "does not move equal parts to " + str(members(view)) + " ranks");
  return {};
}

using Type = planpb::TensorType;
using Bytes = PlannedCollective::Bytes;

/// Where the last member's part may be shorter than the others'.
uint64_t partOf(const Type &type, uint64_t members) {
  const auto element = static_cast<uint64_t>(sizeOf(static_cast<DType>(type.type())));
  return (bytesOf(type) / element + members - 1) / members * element;
}

constexpr PlannedCollective kCollectives[] = {
    {"all_gather", Sharing::ownPart,
     [](const Type &in, const Type &out, uint64_t) { return Bytes{bytesOf(in), bytesOf(out)}; }, verifyAllGather},
    {"reduce_scatter", Sharing::ownPart,
     [](const Type &in, const Type &out, uint64_t) { return Bytes{bytesOf(out), bytesOf(in)}; }, verifyReduceScatter},
    // As a reduce-scatter and a gather.
    {"all_reduce", Sharing::whole,
     [](const Type &in, const Type &, uint64_t members) { return Bytes{2 * partOf(in, members), 2 * bytesOf(in)}; },
     verifyAllReduce},
    {"all_to_all", Sharing::none,
     [](const Type &in, const Type &, uint64_t members) { return Bytes{bytesOf(in) / members, bytesOf(in)}; },
     verifyAllToAll},
};

} // namespace
} // namespace zc::verify

const zc::PlannedCollective *zc::findCollective(std::string_view kernel) {
  for (const PlannedCollective &collective : verify::kCollectives)
    if (collective.kernel == kernel)
      return &collective;
  return nullptr;
}
