//===- OutsideOpTest.cpp - an operation that this project does not know -----------------===//
//
// A dialect of somebody else's, with one operation that says what it is by KernelOp and Differentiable. Nothing else
// names it, and it goes through every stage into a plan.
//
//===----------------------------------------------------------------------===//

#include "compiler/pipeline/Register.h"
#include "dialects/graph/Graph.h"
#include "dialects/plan/PlanProto.h"

#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace zc;

namespace {

/// y = x + noise, drawn anew in each micro-step.
class NoiseOp : public Op<NoiseOp, OpTrait::OneOperand, OpTrait::OneTypedResult<RankedTensorType>::Impl,
                          OpTrait::ZeroRegions, OpTrait::ZeroSuccessors, OpTrait::SameOperandsAndResultType,
                          graph::Elementwise, graph::OverwritesOperands, graph::KernelOp::Trait,
                          graph::Differentiable::Trait, MemoryEffectOpInterface::Trait> {
public:
  using Op::Op;
  static StringRef getOperationName() { return "outside.noise"; }
  static ArrayRef<StringRef> getAttributeNames() { return {}; }

  double getFlops() { return 1000000; }
  bool dependsOnMicroStep() { return true; }
  LogicalResult buildGradient(OpBuilder &, ValueRange resultGrads, ArrayRef<bool> wanted,
                              MutableArrayRef<Value> operandGrads) {
    if (wanted[0])
      operandGrads[0] = resultGrads[0];
    return success();
  }
  void getEffects(SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>> &) {}
};

class OutsideDialect : public Dialect {
public:
  explicit OutsideDialect(MLIRContext *context)
      : Dialect(getDialectNamespace(), context, TypeID::get<OutsideDialect>()) {
    addOperations<NoiseOp>();
  }
  static StringRef getDialectNamespace() { return "outside"; }
};

constexpr const char *kModule = R"(
graph.parameter @w : tensor<16x16xf32> role = trainable
graph.program @micro phase = micro inputs = ["x"] {
^bb0(%x: tensor<4x16xf32>):
  %w = graph.read @w : tensor<16x16xf32>
  %y = graph.matmul %x, %w : (tensor<4x16xf32>, tensor<16x16xf32>) -> tensor<4x16xf32>
  %n = "outside.noise"(%y) : (tensor<4x16xf32>) -> tensor<4x16xf32>
  %s = graph.mul %n, %n : (tensor<4x16xf32>, tensor<4x16xf32>) -> tensor<4x16xf32>
  %loss = graph.reduce_sum %s {axes = array<i64: 0, 1>} : (tensor<4x16xf32>) -> tensor<f32>
  graph.return %loss : tensor<f32>
})";

class OutsideOp : public ::testing::Test {
protected:
  void SetUp() override {
    static bool once = (registerAllPasses(), true);
    (void)once;
    DialectRegistry registry;
    registerAllDialects(registry);
    registry.insert<OutsideDialect>();
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
  }

  /// The plan of kModule, with the options of zero-shard-pipeline.
  FailureOr<planpb::Plan> compile(const std::string &shard) {
    OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(kModule, &context);
    PassManager manager(&context);
    std::string pipeline =
        "zero-grad-pipeline,zero-shard-pipeline{" + shard + "},zero-schedule-pipeline,zero-plan-pipeline";
    if (!module || failed(parsePassPipeline(pipeline, manager)) || failed(manager.run(*module)))
      return failure();
    return plan::toProto(*module);
  }

  static std::vector<const planpb::Step *> stepsOf(const planpb::Plan &plan) {
    std::vector<const planpb::Step *> steps;
    for (const planpb::Step &step : plan.micro().steps())
      if (plan.strings(static_cast<int>(step.kernel())) == "noise")
        steps.push_back(&step);
    return steps;
  }

  MLIRContext context;
};

} // namespace

TEST_F(OutsideOp, becomesAStepOfItsKernel) {
  FailureOr<planpb::Plan> plan = compile("world-size=2 zero-stage=3");
  ASSERT_TRUE(succeeded(plan));
  std::vector<const planpb::Step *> steps = stepsOf(*plan);
  ASSERT_EQ(steps.size(), 1u);
  EXPECT_EQ(steps[0]->operands_size(), 2);
  // In place, as it says that it may, and at its own cost.
  EXPECT_EQ(steps[0]->operands(0).slice(), steps[0]->operands(1).slice());
  EXPECT_GT(steps[0]->seconds(), 1e-6);
}

TEST_F(OutsideOp, passesGradientsOn) {
  FailureOr<planpb::Plan> plan = compile("world-size=2 zero-stage=2");
  ASSERT_TRUE(succeeded(plan));
  bool reduced = false;
  for (const planpb::Step &step : plan->micro().steps())
    reduced |= plan->strings(static_cast<int>(step.kernel())) == "reduce_scatter";
  EXPECT_TRUE(reduced);
}

TEST_F(OutsideOp, drawsAnewInEachMicroStep) {
  FailureOr<planpb::Plan> plan = compile("grad-accumulation=2 micro-order=vertical");
  ASSERT_TRUE(succeeded(plan));
  std::vector<const planpb::Step *> steps = stepsOf(*plan);
  ASSERT_EQ(steps.size(), 2u);
  for (int micro = 0; micro < 2; ++micro) {
    bool found = false;
    for (const planpb::Attribute &attribute : steps[static_cast<size_t>(micro)]->attributes())
      found |= plan->strings(static_cast<int>(attribute.name())) == "micro" && attribute.integer() == micro;
    EXPECT_TRUE(found) << "micro-step " << micro;
  }
}
