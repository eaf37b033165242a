//===- Plan.cpp - the plan dialect ---------------------------------------------===//

#include "dialects/plan/Plan.h"

#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace zc::plan;

#include "dialects/plan/PlanDialect.cpp.inc"
#include "dialects/plan/PlanEnums.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/plan/PlanAttrs.cpp.inc"
#define GET_OP_CLASSES
#include "dialects/plan/PlanOps.cpp.inc"

void PlanDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/plan/PlanAttrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/plan/PlanOps.cpp.inc"
      >();
}

LogicalResult ArenaOp::verify() {
  // arena_c1
  if (static_cast<int64_t>(getBytes()) < 0)
    return emitOpError("[arena_c1] has ") << static_cast<int64_t>(getBytes()) << " bytes";
  return success();
}

LogicalResult SliceOp::verify() {
  // slice_c1
  auto offset = static_cast<int64_t>(getOffset());
  if (offset < 0 || offset % 256 != 0)
    return emitOpError("[slice_c1] offset ") << offset << " is not a multiple of 256";
  // slice_c2
  if (static_cast<int64_t>(getBytes()) < 0)
    return emitOpError("[slice_c2] has ") << static_cast<int64_t>(getBytes()) << " bytes";
  return success();
}

LogicalResult BucketOp::verify() {
  // bucket_c1
  auto used = static_cast<int64_t>(getUsed()), padded = static_cast<int64_t>(getPadded());
  if (used < 0 || used > padded)
    return emitOpError("[bucket_c1] uses ") << used << " of " << padded << " elements";
  return success();
}

LogicalResult SectionOp::verify() {
  // section_c1
  if (!symbolizeSection(getSymName()))
    return emitOpError("[section_c1] is named \"") << getSymName() << "\", not \"micro\", \"update\" or \"eval\"";
  return success();
}

LogicalResult StepOp::verify() {
  // step_c1
  auto inputs = static_cast<int64_t>(getInputs());
  if (inputs < 0 || inputs > static_cast<int64_t>(getOperandsAttr().size()))
    return emitOpError("[step_c1] has ") << inputs << " inputs among " << getOperandsAttr().size() << " operands";
  return success();
}
