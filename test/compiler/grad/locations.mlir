// RUN: zero-opt %s --differentiate --mlir-print-debuginfo --mlir-print-local-scope | FileCheck %s
// A gradient op points at the node it belongs to.

graph.parameter @w : tensor<2xf32> role = trainable
graph.program @micro phase = micro inputs = [] {
  %w = graph.read @w : tensor<2xf32>
  %0 = graph.silu %w : (tensor<2xf32>) -> tensor<2xf32> loc("/mlp/act")
  %1 = graph.reduce_sum %0 {axes = array<i64: 0>} : (tensor<2xf32>) -> tensor<f32>
  // CHECK: graph.silu_grad {{.*}} loc("/mlp/act")
  // CHECK: graph.accumulate_grad {{.*}} loc("/mlp/act")
  graph.return %1 : tensor<f32>
}
