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
    for (auto program : getOperation().getOps<ProgramOp>()) {
      joinAll<LinearCrossEntropyOp, LinearCrossEntropyGradOp>(program);
      joinAll<LinearLogSoftmaxOp, LinearLogSoftmaxGradOp>(program);
    }
  }

private:
  template <typename Forward, typename Gradient> void joinAll(ProgramOp program) {
    for (auto gradient : llvm::to_vector(program.getOps<Gradient>()))
      if (Forward forward = forwardOf<Forward>(gradient))
        joined += join(forward, gradient);
  }

  /// What both have: a gradient says besides which of its operands want one.
  template <typename Gradient> static DictionaryAttr sharedAttrs(Gradient gradient) {
    NamedAttrList attributes(gradient->getAttrDictionary());
    attributes.erase(gradient.getFrozenAttrName());
    return attributes.getDictionary(gradient.getContext());
  }

  /// The operation whose derivative it is: that of the same operands, behind the gradients of its results.
  template <typename Forward, typename Gradient> static Forward forwardOf(Gradient gradient) {
    for (Operation *user : gradient.getInput().getUsers())
      if (auto op = dyn_cast<Forward>(user);
          op && llvm::equal(op->getOperands(), gradient->getOperands().drop_front(op->getNumResults())) &&
          op->getAttrDictionary() == sharedAttrs(gradient))
        return op;
    return {};
  }

  static bool join(Operation *forward, Operation *gradient) {
    llvm::SetVector<Operation *> users; // of what the loss is made of, and of what is computed from it
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
    forward->replaceAllUsesWith(gradient->getResults().take_front(forward->getNumResults()));
    for (Operation *user : before) // the last one first
      user->moveAfter(gradient);
    forward->erase();
    return true;
  }
};

} // namespace
} // namespace zc
