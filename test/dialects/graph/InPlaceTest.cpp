//===- InPlaceTest.cpp - what operations and kernels say of their inputs ------------------===//
//
// An operation says which operands its result may take the bytes of, its kernel's name stands for what the kernels of
// all targets allow: a plan that follows the first must not be refused by the second.
//
//===----------------------------------------------------------------------===//
#include "dialects/graph/Graph.h"
#include "dialects/graph/KernelSpec.h"
#include "kernels/Traits.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

namespace zc::graph {
namespace {

TEST(InPlace, KernelsOfOverwritingOperationsTakeAnyInput) {
  mlir::MLIRContext context;
  context.loadDialect<GraphDialect>();
  int overwriting = 0;
  for (mlir::RegisteredOperationName name : context.getRegisteredOperations())
    if (name.hasTrait<OverwritesOperands>()) {
      EXPECT_EQ(traitsOf(name.stripDialect().str()).overwrites(), kAnyInput) << name.getStringRef().str();
      ++overwriting;
    }
  EXPECT_GE(overwriting, 50);
}

TEST(Programs, OperationsThatTakeThemAreThoseOfKernelsThatDo) {
  mlir::MLIRContext context;
  context.loadDialect<GraphDialect>();
  int taking = 0;
  for (mlir::RegisteredOperationName name : context.getRegisteredOperations()) {
    EXPECT_EQ(traitsOf(name.stripDialect().str()).takesProgram(), name.hasTrait<TakesProgram>())
        << name.getStringRef().str();
    taking += name.hasTrait<TakesProgram>();
  }
  EXPECT_GE(taking, 1);
}

TEST(Views, OperationsThatAreStridedAreThoseOfKernelsThatTakeViews) {
  mlir::MLIRContext context;
  context.loadDialect<GraphDialect>();
  int taking = 0;
  for (mlir::RegisteredOperationName name : context.getRegisteredOperations()) {
    EXPECT_EQ(traitsOf(name.stripDialect().str()).takesViews(), name.hasInterface<Strided>())
        << name.getStringRef().str();
    taking += name.hasInterface<Strided>();
  }
  EXPECT_GE(taking, 2);
}

TEST(InPlace, WhatOperationsSayThemselvesTheirKernelsAllow) {
  mlir::MLIRContext context;
  context.loadDialect<GraphDialect>();
  auto module = mlir::parseSourceString<mlir::ModuleOp>(R"(
    graph.program @micro phase = micro inputs = ["a", "b", "g", "x", "t", "lse"] {
    ^bb0(%a: tensor<4x4xf32>, %b: tensor<4x4xf32>, %g: tensor<f32>, %x: tensor<4x4xf32>, %t: tensor<4xi64>, %lse: tensor<4xf32>):
      %y = graph.matmul_part %a, %b, %x {whole = 64 : i64} : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
      %d = graph.cross_entropy_grad %g, %x, %t, %lse {ignore_index = -100 : i64} : (tensor<f32>, tensor<4x4xf32>, tensor<4xi64>, tensor<4xf32>) -> tensor<4x4xf32>
      %s = graph.matmul %a, %b : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
      %m = graph.add %a, %g : (tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32>
      %f:2 = graph.fused %a, %b {program = array<i64: 2, 4, 0, 0, 1, 6, 0, 0, 1, 0, 2, 3>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>)
      %v = graph.fused %a, %b {program = array<i64: 1, 4, 0, 0, 1, 0, 2>, views = #graph.views<[<0 + 12 [4, 4] by [-4, 1]>, <1 + 0 [4, 4] by [4, 1]>, <2 + 0 [4, 4] by [4, 1]>] -> [tensor<4x4xf32>]>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
      graph.return
    })",
                                                        &context);
  ASSERT_TRUE(module);
  int overwrites = 0;
  module->walk([&](KernelOp op) {
    mlir::FailureOr<KernelSpec> spec = toKernelSpec(op);
    ASSERT_TRUE(succeeded(spec));
    for (unsigned i = 0; i < op->getNumOperands(); ++i)
      for (unsigned r = 0; r < op->getNumResults(); ++r) {
        EXPECT_EQ(op.mayOverwrite(i, r), traitsOf(spec->name).mayOverwrite(*spec, i, op->getNumOperands() + r))
            << spec->name << ": result " << r << " over operand " << i;
        overwrites += op.mayOverwrite(i, r);
      }
  });
  EXPECT_EQ(overwrites,
            8); // any of a program's two results over any of its two operands; over one that is not seen backwards
  const TensorType type{DType::f32, {4}};
  const KernelSpec program{"fused", {type, type, type, type}, 2, {}};
  EXPECT_TRUE(traitsOf("fused").mayOverwrite(program, 0, 3));
  EXPECT_FALSE(traitsOf("fused").mayOverwrite(program, 0, 1)) << "an input is no output";
}

} // namespace
} // namespace zc::graph
