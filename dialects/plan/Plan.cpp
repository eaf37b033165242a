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

LogicalResult SliceOp::verify() {
  // slice_c1
  if (getOffset() % 256 != 0)
    return emitOpError("[slice_c1] offset ") << getOffset() << " is not a multiple of 256";
  // slice_c2
  if (static_cast<int64_t>(getBytes()) < 0)
    return emitOpError("[slice_c2] has ") << static_cast<int64_t>(getBytes()) << " bytes";
  return success();
}
