//===- OutsideOpTest.cpp - operations that this project does not know -------------------===//
//
// A dialect of somebody else's, whose operations say what they are by KernelOp, Differentiable and the traits of the
// graph dialect. Nothing else names them: what every stage has to know of them it asks.
//
//===----------------------------------------------------------------------===//

#include "compiler/import/parameters/Roles.h"
#include "compiler/pipeline/Register.h"
#include "dialects/graph/Graph.h"
#include "dialects/plan/PlanProto.h"
#include "kernels/Kernel.h"

#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace zc;

namespace {

/// A kernel with one result and no effects.
template <typename Self, template <typename> class... Traits>
class OutsideKernel
    : public Op<Self, OpTrait::OneTypedResult<RankedTensorType>::Impl, OpTrait::ZeroRegions, OpTrait::ZeroSuccessors,
                graph::KernelOp::Trait, MemoryEffectOpInterface::Trait, Traits...> {
public:
  using Base = Op<Self, OpTrait::OneTypedResult<RankedTensorType>::Impl, OpTrait::ZeroRegions, OpTrait::ZeroSuccessors,
                  graph::KernelOp::Trait, MemoryEffectOpInterface::Trait, Traits...>;
  using Base::Base;
  static ArrayRef<StringRef> getAttributeNames() { return {}; }
  void getEffects(SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>> &) {}
};

/// y = x + noise, drawn anew in each micro-step; in place, dear, in memory of its own.
class NoiseOp : public OutsideKernel<NoiseOp, OpTrait::OneOperand, OpTrait::SameOperandsAndResultType,
                                     graph::Elementwise, graph::OverwritesOperands, graph::Differentiable::Trait> {
public:
  using OutsideKernel::OutsideKernel;
  static StringRef getOperationName() { return "outside.noise"; }

  static constexpr int64_t kWorkspace = 4096;
  double getFlops() { return 1000000; }
  bool dependsOnMicroStep() { return true; }
  int64_t getWorkspaceBytes(Target) { return kWorkspace; }
  LogicalResult buildGradient(OpBuilder &, ValueRange resultGrads, ArrayRef<bool> wanted,
                              MutableArrayRef<Value> operandGrads) {
    if (wanted[0])
      operandGrads[0] = resultGrads[0];
    return success();
  }
};

/// y = x v; cheap to make again. The layer's scale is v.
class ScaleOp : public OutsideKernel<ScaleOp, OpTrait::NOperands<2>::Impl, OpTrait::SameOperandsAndResultType,
                                     graph::Elementwise, graph::Differentiable::Trait> {
public:
  using OutsideKernel::OutsideKernel;
  static StringRef getOperationName() { return "outside.scale"; }

  graph::OperandRole getOperandRole(unsigned index) {
    return index == 1 ? graph::OperandRole::vector : graph::OperandRole::data;
  }
  LogicalResult buildGradient(OpBuilder &builder, ValueRange resultGrads, ArrayRef<bool> wanted,
                              MutableArrayRef<Value> operandGrads) {
    for (unsigned i : {0, 1})
      if (wanted[i])
        operandGrads[i] = builder.create<graph::MulOp>(getLoc(), resultGrads[0], getOperand(1 - i));
    return success();
  }
};

/// The same in every micro-step, and made from nothing.
class TableOp : public OutsideKernel<TableOp, OpTrait::ZeroOperands, graph::FreeToRecompute> {
public:
  using OutsideKernel::OutsideKernel;
  static StringRef getOperationName() { return "outside.table"; }
};

/// y = x: a view.
class ViewOp : public OutsideKernel<ViewOp, OpTrait::OneOperand, OpTrait::SameOperandsAndResultType,
                                    graph::Differentiable::Trait> {
public:
  using OutsideKernel::OutsideKernel;
  static StringRef getOperationName() { return "outside.view"; }

  int getViewOperand() { return 0; }
  LogicalResult buildGradient(OpBuilder &, ValueRange resultGrads, ArrayRef<bool> wanted,
                              MutableArrayRef<Value> operandGrads) {
    if (wanted[0])
      operandGrads[0] = resultGrads[0];
    return success();
  }
};

class OutsideDialect : public Dialect {
public:
  explicit OutsideDialect(MLIRContext *context)
      : Dialect(getDialectNamespace(), context, TypeID::get<OutsideDialect>()) {
    addOperations<NoiseOp, ScaleOp, TableOp, ViewOp>();
  }
  static StringRef getDialectNamespace() { return "outside"; }
};

constexpr const char *kModule = R"(
graph.parameter @w : tensor<16x16xf32> role = trainable
graph.parameter @v : tensor<4x16xf32> role = frozen
graph.parameter @c : tensor<4x16xf32> role = frozen
graph.program @micro phase = micro inputs = ["x"] {
^bb0(%x: tensor<4x16xf32>):
  %w = graph.read @w : tensor<16x16xf32>
  %y = graph.matmul %x, %w : (tensor<4x16xf32>, tensor<16x16xf32>) -> tensor<4x16xf32>
  %n = "outside.noise"(%y) : (tensor<4x16xf32>) -> tensor<4x16xf32>
  %v = graph.read @v : tensor<4x16xf32>
  %z = "outside.scale"(%n, %v) : (tensor<4x16xf32>, tensor<4x16xf32>) -> tensor<4x16xf32>
  %s = graph.mul %z, %n : (tensor<4x16xf32>, tensor<4x16xf32>) -> tensor<4x16xf32>
  %t = "outside.table"() : () -> tensor<4x16xf32>
  %m = graph.mul %n, %t : (tensor<4x16xf32>, tensor<4x16xf32>) -> tensor<4x16xf32>
  %c = graph.read @c : tensor<4x16xf32>
  %o = graph.mul %m, %c : (tensor<4x16xf32>, tensor<4x16xf32>) -> tensor<4x16xf32>
  %p = graph.mul %o, %n : (tensor<4x16xf32>, tensor<4x16xf32>) -> tensor<4x16xf32>
  %a = graph.add %s, %p : (tensor<4x16xf32>, tensor<4x16xf32>) -> tensor<4x16xf32>
  %loss = graph.reduce_sum %a {axes = array<i64: 0, 1>} : (tensor<4x16xf32>) -> tensor<f32>
  graph.return %loss : tensor<f32>
})";

/// Most bytes live at the expansion, and backward reads what the scale made long before.
constexpr const char *kScaledEarly = R"(
graph.parameter @w : tensor<16x16xf32> role = trainable
graph.parameter @v : tensor<4x16xf32> role = trainable
graph.program @micro phase = micro inputs = ["x"] {
^bb0(%x: tensor<4x16xf32>):
  %w = graph.read @w : tensor<16x16xf32>
  %y = graph.matmul %x, %w : (tensor<4x16xf32>, tensor<16x16xf32>) -> tensor<4x16xf32>
  %v = graph.read @v : tensor<4x16xf32>
  %z = "outside.scale"(%y, %v) : (tensor<4x16xf32>, tensor<4x16xf32>) -> tensor<4x16xf32>
  %s = graph.sin %z : (tensor<4x16xf32>) -> tensor<4x16xf32>
  %r = graph.reshape %s {shape = array<i64: 1, 4, 16>} : (tensor<4x16xf32>) -> tensor<1x4x16xf32>
  %t = graph.expand %r {shape = array<i64: 8, 4, 16>} : (tensor<1x4x16xf32>) -> tensor<8x4x16xf32>
  %loss = graph.reduce_sum %t {axes = array<i64: 0, 1, 2>} : (tensor<8x4x16xf32>) -> tensor<f32>
  graph.return %loss : tensor<f32>
})";

/// A weight behind a view.
constexpr const char *kViewed = R"(
graph.parameter @v : tensor<4x16xf32> role = frozen
graph.program @micro phase = micro inputs = ["x"] {
^bb0(%x: tensor<4x16xf32>):
  %v = graph.read @v : tensor<4x16xf32>
  %w = "outside.view"(%v) : (tensor<4x16xf32>) -> tensor<4x16xf32>
  %y = "outside.scale"(%x, %w) : (tensor<4x16xf32>, tensor<4x16xf32>) -> tensor<4x16xf32>
  %loss = graph.reduce_sum %y {axes = array<i64: 0, 1>} : (tensor<4x16xf32>) -> tensor<f32>
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

  /// The plan of a module, with the options of zero-shard-pipeline and zero-grad-pipeline.
  FailureOr<planpb::Plan> compile(const std::string &shard, const std::string &grad = "", StringRef text = kModule) {
    OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, &context);
    PassManager manager(&context);
    std::string pipeline =
        "zero-grad-pipeline{" + grad + "},zero-shard-pipeline{" + shard + "},zero-schedule-pipeline,zero-plan-pipeline";
    if (!module || failed(parsePassPipeline(pipeline, manager)) || failed(manager.run(*module)))
      return failure();
    return plan::toProto(*module);
  }

  static std::vector<const planpb::Step *> stepsOf(const planpb::Plan &plan, const std::string &kernel = "noise") {
    std::vector<const planpb::Step *> steps;
    for (const planpb::Step &step : plan.micro().steps())
      if (plan.strings(static_cast<int>(step.kernel())) == kernel)
        steps.push_back(&step);
    return steps;
  }

  /// The module, with the roles that its operations give parameters.
  OwningOpRef<ModuleOp> withRoles(StringRef text) {
    OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, &context);
    importer::ModelFile none;
    llvm::StringMap<importer::TensorInfo> tensors;
    importer::ParameterBytes parameterBytes(none, tensors);
    if (!module || !importer::assignRoles(*module, {}, importer::Origins(none.model), parameterBytes).ok())
      return nullptr;
    return module;
  }
  static graph::Role roleOf(ModuleOp module, StringRef name) {
    return module.lookupSymbol<graph::ParameterOp>(name).getRole();
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

TEST_F(OutsideOp, hasTheWorkspaceThatItAsksFor) {
  FailureOr<planpb::Plan> plan = compile("world-size=2 zero-stage=3");
  ASSERT_TRUE(succeeded(plan));
  std::vector<const planpb::Step *> steps = stepsOf(*plan);
  ASSERT_EQ(steps.size(), 1u);
  ASSERT_TRUE(steps[0]->has_workspace());
  const planpb::Slice &slice = plan->slices(static_cast<int>(steps[0]->workspace().slice()));
  EXPECT_EQ(slice.bytes(), static_cast<uint64_t>(NoiseOp::kWorkspace));
  EXPECT_EQ(plan->arenas(static_cast<int>(slice.arena())).tier(), planpb::DEVICE);
  for (const planpb::Step *scale : stepsOf(*plan, "scale"))
    EXPECT_FALSE(scale->has_workspace());
}

TEST_F(OutsideOp, isComputedInF32WhereItDoesNotInferItsTypes) {
  FailureOr<planpb::Plan> plan = compile("world-size=1", "precision=bf16");
  ASSERT_TRUE(succeeded(plan));
  for (const char *kernel : {"noise", "scale"})
    for (const planpb::Step *step : stepsOf(*plan, kernel))
      for (const planpb::Operand &operand : step->operands())
        EXPECT_EQ(plan->types(static_cast<int>(operand.type())).type(), planpb::F32) << kernel;
}

TEST_F(OutsideOp, isMadeOnceForAllMicroStepsWhereNothingChangesIt) {
  FailureOr<planpb::Plan> plan = compile("grad-accumulation=2 micro-order=vertical");
  ASSERT_TRUE(succeeded(plan));
  EXPECT_EQ(stepsOf(*plan, "table").size(), 1u);
  EXPECT_EQ(stepsOf(*plan, "scale").size(), 2u);
}

TEST_F(OutsideOp, isMadeAgainForBackwardWhereItIsCheap) {
  FailureOr<planpb::Plan> kept = compile("world-size=1", "", kScaledEarly);
  FailureOr<planpb::Plan> again = compile("world-size=1", "checkpoint-activations=selective", kScaledEarly);
  ASSERT_TRUE(succeeded(kept) && succeeded(again));
  EXPECT_EQ(stepsOf(*kept, "scale").size(), 1u);
  EXPECT_EQ(stepsOf(*again, "scale").size(), 2u);
}

TEST_F(OutsideOp, saysWhichOfItsOperandsIsAWeight) {
  OwningOpRef<ModuleOp> module = withRoles(kModule);
  ASSERT_TRUE(module);
  EXPECT_EQ(roleOf(*module, "v"), graph::Role::trainable); // the scale of a layer
  EXPECT_EQ(roleOf(*module, "c"), graph::Role::frozen);    // an operand of an elementwise operation
}

TEST_F(OutsideOp, thatIsAViewHidesNoWeight) {
  OwningOpRef<ModuleOp> module = withRoles(kViewed);
  ASSERT_TRUE(module);
  EXPECT_EQ(roleOf(*module, "v"), graph::Role::trainable);
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
