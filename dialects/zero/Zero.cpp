//===- Zero.cpp - the zero dialect ---------------------------------------------===//

#include "dialects/zero/Zero.h"

#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace zc::zero;

#include "dialects/zero/ZeroDialect.cpp.inc"
#include "dialects/zero/ZeroEnums.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/zero/ZeroAttrs.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "dialects/zero/ZeroTypes.cpp.inc"
#define GET_OP_CLASSES
#include "dialects/zero/ZeroOps.cpp.inc"

void ZeroDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/zero/ZeroAttrs.cpp.inc"
      >();
  addTypes<
#define GET_TYPEDEF_LIST
#include "dialects/zero/ZeroTypes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/zero/ZeroOps.cpp.inc"
      >();
}

LogicalResult MeshOp::verify() {
  // mesh_c1
  if (getNode() < 1 || getLocal() < 1)
    return emitOpError("[mesh_c1] needs at least one node and one rank per node, got ")
           << getNode() << " x " << getLocal();
  return success();
}

LogicalResult BucketOp::verify() {
  int64_t end = 0;
  for (auto member : getMembers().getAsRange<MemberAttr>()) {
    // bucket_c2
    if (member.getOffset() % kAlignment != 0)
      return emitOpError("[bucket_c2] member ")
             << member.getParameter() << " starts at " << member.getOffset() << ", not a multiple of " << kAlignment;
    // bucket_c3
    if (member.getOffset() < end)
      return emitOpError("[bucket_c3] member ") << member.getParameter() << " starts at " << member.getOffset()
                                                << ", inside the one before, which ends at " << end;
    end = member.getOffset() + member.getNumElements();
  }
  // bucket_c1
  int64_t padded = getPadded();
  if (end > padded || padded % kAlignment != 0)
    return emitOpError("[bucket_c1] members end at ")
           << end << " but padded is " << padded << " elements (a multiple of " << kAlignment << ")";
  // bucket_c4
  if (!isa<FloatType>(getType()))
    return emitOpError("[bucket_c4] holds ") << getType() << ", which is no float";
  return success();
}

int64_t BucketOp::getUsed() {
  int64_t used = 0;
  for (auto member : getMembers().getAsRange<MemberAttr>())
    used += member.getNumElements();
  return used;
}

SmallVector<int64_t> BucketOp::getGaps() {
  SmallVector<int64_t> gaps;
  int64_t end = 0;
  auto gapUpTo = [&](int64_t begin) {
    if (begin > end)
      gaps.append({end, begin - end});
  };
  for (auto member : getMembers().getAsRange<MemberAttr>()) {
    gapUpTo(member.getOffset());
    end = member.getOffset() + member.getNumElements();
  }
  gapUpTo(getPadded());
  return gaps;
}

/// The tensor of `op` at `offset` lies inside `buffer` and has its element type; `label` names the constraint.
static LogicalResult verifyPlace(Operation *op, BufferType buffer, RankedTensorType tensor, int64_t offset,
                                 StringRef label) {
  if (tensor.getElementType() != buffer.getElementType() || offset < 0 ||
      offset + tensor.getNumElements() > buffer.getNumElements())
    return op->emitOpError("[") << label << "] " << tensor << " at element " << offset << " does not lie in " << buffer;
  return success();
}

static LogicalResult verifyBucketUse(Operation *op, FlatSymbolRefAttr name, SymbolTableCollection &symbols) {
  // bucket_c5
  auto bucket = symbols.lookupNearestSymbolFrom<BucketOp>(op, name);
  if (!bucket)
    return op->emitOpError("[bucket_c5] names ") << name << ", which is no bucket";
  // bucket_c6
  for (TypeRange types : {TypeRange(op->getOperandTypes()), TypeRange(op->getResultTypes())})
    for (Type type : types)
      if (auto buffer = dyn_cast<BufferType>(type))
        if (buffer.getElementType() != bucket.getType() ||
            buffer.getNumElements() != static_cast<int64_t>(bucket.getPadded()))
          return op->emitOpError("[bucket_c6] has ")
                 << buffer << " but the bucket " << bucket.getPadded() << " elements of " << bucket.getType();
  return success();
}

#define ZC_ON_BUCKET(OP)                                                                                               \
  LogicalResult OP::verifySymbolUses(SymbolTableCollection &symbols) {                                                 \
    return verifyBucketUse(*this, getBucketAttr(), symbols);                                                           \
  }
ZC_ON_BUCKET(GatherOp)
ZC_ON_BUCKET(ResidentOp)
ZC_ON_BUCKET(GradBufferOp)
ZC_ON_BUCKET(ReduceScatterOp)
ZC_ON_BUCKET(AllGatherOp)
ZC_ON_BUCKET(NormPartialOp)
ZC_ON_BUCKET(UpdateOp)
#undef ZC_ON_BUCKET

LogicalResult ViewOp::verify() {
  return verifyPlace(*this, getBuffer().getType(), cast<RankedTensorType>(getResult().getType()), getOffset(),
                     "view_c1");
}

LogicalResult PutOp::verify() {
  return verifyPlace(*this, getBuffer().getType(), cast<RankedTensorType>(getTensor().getType()), getOffset(),
                     "put_c1");
}

LogicalResult AllGatherOp::verify() {
  // all_gather_c1
  if (getWhat() != "parameters" && getWhat() != "gradients")
    return emitOpError("[all_gather_c1] gathers \"parameters\" or \"gradients\", not \"") << getWhat() << "\"";
  return success();
}
