//===- ZeroLoad.cpp - what brings a buffer to the device --------------------------------===//

#include "dialects/zero/Zero.h"

using namespace mlir;
using namespace zc;
using namespace zc::zero;

void LoadOp::build(OpBuilder &builder, OperationState &state, function_ref<Value(OpBuilder &)> body) {
  Region *region = state.addRegion();
  OpBuilder inside(builder.getContext());
  inside.createBlock(region);
  Value loaded = body(inside);
  inside.create<YieldOp>(state.location, loaded);
  state.addTypes(loaded.getType());
}

LogicalResult LoadOp::verify() {
  // load_c1
  Operation &last = getBlock().back();
  if (!isa<YieldOp>(last) || getNumResults() == 0 || last.getOperandTypes() != getResultTypes() ||
      tierOf(getBuffer().getType()) != Tier::device || getBlock().getNumArguments() != 0)
    return emitOpError("[load_c1] takes no arguments and yields what it results in, a buffer on the device first");
  return success();
}

StorageOp LoadOp::getSource() {
  for (Operation &op : getBlock())
    for (Value operand : op.getOperands())
      if (auto storage = operand.getDefiningOp<StorageOp>())
        return storage;
  return {};
}

LoadOp LoadOp::yielding(Value value) {
  OpBuilder builder(*this);
  OperationState state(getLoc(), getOperationName());
  state.addTypes(getResultTypes());
  state.addTypes(value.getType());
  state.addAttributes((*this)->getAttrs());
  state.addRegion()->takeBody(getBody());
  auto load = cast<LoadOp>(builder.create(state));
  load.getYield()->insertOperands(load.getYield()->getNumOperands(), value);
  (*this)->replaceAllUsesWith(load->getResults().drop_back());
  erase();
  return load;
}
