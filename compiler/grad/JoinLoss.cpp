//===- JoinLoss.cpp - a fused head's loss from where its gradient is computed -----------===//
#include "compiler/grad/Passes.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace zc::graph;

namespace zc {

#define GEN_PASS_DEF_JOINLOSS
#include "compiler/grad/Passes.h.inc"

namespace {

struct JoinLoss : impl::JoinLossBase<JoinLoss> {
  void runOnOperation() override {
    for (auto program : getOperation().getOps<ProgramOp>())
      for (auto gradient : llvm::to_vector(program.getOps<LinearCrossEntropyGradOp>()))
        if (LinearCrossEntropyOp forward = forwardOf(gradient))
          joined += join(forward, gradient);
  }

private:
  /// What both have: a gradient says besides which of its operands want one.
  static DictionaryAttr sharedAttrs(LinearCrossEntropyGradOp gradient) {
    NamedAttrList attributes(gradient->getAttrDictionary());
    attributes.erase(gradient.getFrozenAttrName());
    return attributes.getDictionary(gradient.getContext());
  }

  /// The operation whose derivative it is: that of the same operands.
  static LinearCrossEntropyOp forwardOf(LinearCrossEntropyGradOp gradient) {
    for (Operation *user : gradient.getInput().getUsers())
      if (auto op = dyn_cast<LinearCrossEntropyOp>(user);
          op && llvm::equal(op->getOperands(), gradient->getOperands().drop_front()) &&
          op->getAttrDictionary() == sharedAttrs(gradient))
        return op;
    return {};
  }

  static bool join(LinearCrossEntropyOp forward, LinearCrossEntropyGradOp gradient) {
    llvm::SetVector<Operation *> users; // of the loss, and of what is computed from it
    users.insert(forward->user_begin(), forward->user_end());
    for (size_t i = 0; i < users.size(); ++i)
      users.insert(users[i]->user_begin(), users[i]->user_end());
    if (users.contains(gradient))
      return false;
    SmallVector<Operation *> before;
    for (Operation *user : users)
      if (user->isBeforeInBlock(gradient))
        before.push_back(user);
    llvm::sort(before, [](Operation *a, Operation *b) { return b->isBeforeInBlock(a); });
    forward.getLoss().replaceAllUsesWith(gradient.getLoss());
    for (Operation *user : before) // the last one first
      user->moveAfter(gradient);
    forward.erase();
    return true;
  }
};

} // namespace
} // namespace zc
