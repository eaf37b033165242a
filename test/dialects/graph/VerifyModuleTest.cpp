//===- VerifyModuleTest.cpp - verifyModule finds what mlir::verify finds -------------------===//

#include "dialects/graph/VerifyModule.h"
#include "dialects/graph/Graph.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include <gtest/gtest.h>

#include <functional>

using namespace mlir;

namespace {

constexpr const char *kProgram = R"mlir(
graph.parameter @w : tensor<4xf32> role = trainable
graph.program @micro phase = micro inputs = ["x"] {
^bb0(%x: tensor<4xf32>):
  %w = graph.read @w : tensor<4xf32>
  %a = graph.mul %x, %w : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %b = graph.neg %a : (tensor<4xf32>) -> tensor<4xf32>
  %c = graph.neg %b : (tensor<4xf32>) -> tensor<4xf32>
  graph.return %c : tensor<4xf32>
}
)mlir";

class VerifyModule : public testing::Test {
protected:
  VerifyModule() {
    context.loadDialect<zc::graph::GraphDialect>();
    context.printOpOnDiagnostic(false);
  }

  Operation *op(StringRef name) {
    Operation *found = nullptr;
    module->walk([&](Operation *at) { found = at->getName().getStringRef() == name ? at : found; });
    return found;
  }
  /// Success, and all that was said.
  std::pair<bool, std::string> verdict(llvm::function_ref<LogicalResult(ModuleOp)> verify) {
    std::string said;
    ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
      said += diagnostic.str() + "\n";
      return success();
    });
    bool sound = succeeded(verify(*module));
    return {sound, said};
  }
  void expectFound(std::function<void()> damage) {
    module = parseSourceString<ModuleOp>(kProgram, &context);
    ASSERT_TRUE(module);
    EXPECT_TRUE(verdict(zc::graph::verifyModule).first);
    damage();
    auto expected = verdict([](ModuleOp module) { return mlir::verify(module); });
    EXPECT_FALSE(expected.first);
    EXPECT_FALSE(expected.second.empty());
    EXPECT_EQ(verdict(zc::graph::verifyModule), expected);
    module->walk([](Operation *op) { op->dropAllReferences(); }); // what is damaged may not go in order
  }

  MLIRContext context{MLIRContext::Threading::DISABLED};
  OwningOpRef<ModuleOp> module;
};

TEST_F(VerifyModule, UseBeforeDefinition) {
  expectFound([&] { op("graph.neg")->moveBefore(op("graph.mul")); });
}

TEST_F(VerifyModule, ItsOwnOperand) {
  expectFound([&] { op("graph.neg")->setOperand(0, op("graph.neg")->getResult(0)); });
}

TEST_F(VerifyModule, NoOperand) {
  expectFound([&] { op("graph.neg")->getOpOperand(0).drop(); });
}

TEST_F(VerifyModule, WrongType) {
  expectFound([&] { op("graph.neg")->getResult(0).setType(RankedTensorType::get({5}, Float32Type::get(&context))); });
}

TEST_F(VerifyModule, NoTerminator) {
  expectFound([&] { op("graph.return")->erase(); });
}

TEST_F(VerifyModule, TerminatorNotLast) {
  expectFound([&] { op("graph.return")->moveBefore(op("graph.read")); });
}

TEST_F(VerifyModule, TwoSymbolsOfOneName) {
  expectFound([&] {
    OpBuilder builder(op("graph.parameter"));
    builder.clone(*op("graph.parameter"));
  });
}

TEST_F(VerifyModule, UnknownOperation) {
  expectFound([&] {
    OpBuilder builder(op("graph.neg"));
    OperationState state(builder.getUnknownLoc(), "nobody.knows");
    builder.create(state);
  });
}

TEST_F(VerifyModule, ValueOfAnotherProgram) {
  expectFound([&] {
    OpBuilder builder(&context);
    builder.setInsertionPointToEnd(module->getBody());
    Operation *second = builder.clone(*op("graph.program"));
    second->setAttr("sym_name", builder.getStringAttr("second"));
    Operation *other = nullptr;
    second->walk([&](Operation *at) { other = at->getName().getStringRef() == "graph.read" ? at : other; });
    Operation *first = &*module->getBody()->getOperations().begin()->getNextNode();
    first->walk([&](Operation *at) {
      if (at->getName().getStringRef() == "graph.neg")
        at->setOperand(0, other->getResult(0));
    });
  });
}

} // namespace
