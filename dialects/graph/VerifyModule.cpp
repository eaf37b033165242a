//===- VerifyModule.cpp - modules whose regions are single blocks -----------------------------===//

#include "dialects/graph/VerifyModule.h"
#include "dialects/graph/Graph.h"

#include "mlir/IR/Dialect.h"
#include "mlir/IR/RegionKindInterface.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;

namespace {

/// What an operation says of itself has been said when it fails; what stands wrong in its block is mlir::verify's to
/// say, as is all of what is seldom.
enum class Verdict : uint8_t { sound, said, unsaid };

bool isDefinedAbove(Value value, Operation *user) {
  Block *block = value.getParentBlock();
  Operation *at = block == user->getBlock() ? user : block->findAncestorOpInBlock(*user);
  Operation *maker = value.getDefiningOp();
  return at && (!maker || (maker != at && maker->isBeforeInBlock(at)));
}

bool isOwnUse(OpOperand &operand, bool needsOrder) {
  return operand.get() && (!needsOrder || isDefinedAbove(operand.get(), operand.getOwner()));
}

class Verifier {
public:
  Verdict verifyOne(Operation &op, bool needsOrder);

private:
  Verdict verifyAlone(Operation &op);
  Verdict verifyRegion(Operation &op, Region &region, unsigned index);

  zc::graph::AlikeOps alike; ///< nothing is verified after one that is not sound
};

Verdict Verifier::verifyAlone(Operation &op) {
  if (!op.isRegistered() || op.getNumSuccessors() > 0)
    return Verdict::unsaid;
  if (alike.isLikeLast(op))
    return Verdict::sound;
  for (NamedAttribute attribute : op.getDiscardableAttrs())
    if (Dialect *dialect = attribute.getNameDialect())
      if (failed(dialect->verifyOperationAttribute(&op, attribute)))
        return Verdict::said;
  return succeeded(op.getName().verifyInvariants(&op)) ? Verdict::sound : Verdict::said;
}

Verdict Verifier::verifyRegion(Operation &op, Region &region, unsigned index) {
  if (region.empty())
    return Verdict::sound;
  if (!region.hasOneBlock())
    return Verdict::unsaid;
  auto kind = dyn_cast<RegionKindInterface>(op);
  const bool needsOrder = !kind || kind.hasSSADominance(index);
  Block &block = region.front();
  if (!op.hasTrait<OpTrait::NoTerminator>() && (block.empty() || !block.back().hasTrait<OpTrait::IsTerminator>()))
    return Verdict::unsaid;
  for (Operation &inner : block)
    if (Verdict verdict = verifyOne(inner, needsOrder); verdict != Verdict::sound)
      return verdict;
  return Verdict::sound;
}

Verdict Verifier::verifyOne(Operation &op, bool needsOrder) {
  for (OpOperand &operand : op.getOpOperands())
    if (!isOwnUse(operand, needsOrder))
      return Verdict::unsaid;
  if (Verdict verdict = verifyAlone(op); verdict != Verdict::sound || op.getNumRegions() == 0)
    return verdict;
  for (Region &region : op.getRegions())
    if (Verdict verdict = verifyRegion(op, region, region.getRegionNumber()); verdict != Verdict::sound)
      return verdict;
  return succeeded(op.getName().verifyRegionInvariants(&op)) ? Verdict::sound : Verdict::said;
}

} // namespace

bool zc::graph::AlikeOps::isLikeLast(Operation &op) {
  auto [entry, isNew] = kinds.try_emplace(op.getName());
  Kind &kind = entry->second;
  if (isNew)
    kind.isFunction = isa<KernelOp>(op) && isPure(&op) && op.getNumRegions() == 0;
  Operation *last = std::exchange(kind.last, &op);
  return kind.isFunction && last && last->getBlock() == op.getBlock() &&
         last->getRawDictionaryAttrs() == op.getRawDictionaryAttrs() &&
         op.getName().compareOpProperties(last->getPropertiesStorage(), op.getPropertiesStorage()) &&
         last->getOperandTypes() == op.getOperandTypes() && last->getResultTypes() == op.getResultTypes();
}

LogicalResult zc::graph::verifyModule(ModuleOp module) {
  switch (Verifier().verifyOne(*module, /*needsOrder=*/true)) {
  case Verdict::sound:
    return success();
  case Verdict::said:
    return failure();
  case Verdict::unsaid:
    return mlir::verify(module);
  }
  return failure();
}
