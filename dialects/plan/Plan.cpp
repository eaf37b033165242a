//===- Plan.cpp - the plan dialect ---------------------------------------------===//

#include "dialects/plan/Plan.h"

#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

#include <cmath>

using namespace mlir;
using namespace zc::plan;

llvm::hash_code zc::hash_value(const MachineModel &machine) {
  llvm::hash_code hash(0);
  for (const MachineModel::Field &field : MachineModel::kFields)
    hash = llvm::hash_combine(hash, llvm::bit_cast<uint64_t>(machine.*field.rate));
  return hash;
}

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

/// `<` name `=` rate, ... `>`
Attribute MachineAttr::parse(AsmParser &parser, Type) {
  MachineModel rates;
  auto field = [&]() -> ParseResult {
    StringRef name;
    SMLoc at = parser.getCurrentLocation();
    double rate = 0;
    if (parser.parseKeyword(&name) || parser.parseEqual() || parser.parseFloat(rate))
      return failure();
    auto known = llvm::find_if(MachineModel::kFields, [&](const MachineModel::Field &f) { return name == f.name; });
    if (known == std::end(MachineModel::kFields))
      return parser.emitError(at, "a machine has no rate '") << name << "'";
    if (!(rate >= 0) || !std::isfinite(rate))
      return parser.emitError(at, "'") << name << "' is " << rate << ", no rate";
    rates.*known->rate = rate;
    return success();
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::LessGreater, field))
    return {};
  return get(parser.getContext(), rates);
}

void MachineAttr::print(AsmPrinter &printer) const {
  printer << '<';
  llvm::interleaveComma(MachineModel::kFields, printer.getStream(), [&](const MachineModel::Field &field) {
    printer << field.name << " = ";
    printer.printFloat(APFloat(getRates().*field.rate));
  });
  printer << '>';
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

LogicalResult StepOp::verify() {
  // step_c1
  auto inputs = static_cast<int64_t>(getInputs());
  if (inputs < 0 || inputs > static_cast<int64_t>(getOperandsAttr().size()))
    return emitOpError("[step_c1] has ") << inputs << " inputs among " << getOperandsAttr().size() << " operands";
  return success();
}
