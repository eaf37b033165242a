// RUN: zero-opt %s --split-input-file --zero-partition-activations="world-size=2 tensor-parallel=2" --verify-diagnostics | FileCheck %s

// The input of a block is kept in parts behind its last use, and gathered before the recomputed operation that reads it. Its
// gradient's operations read the gathered one too. What is computed from a part is no rank's to cut, and what nothing is
// recomputed from stays.

// CHECK-LABEL: graph.program @micro
// CHECK: %[[X:.*]] = graph.all_reduce
// CHECK: %[[A:.*]] = graph.exp %[[X]]
// CHECK: %[[R:.*]] = graph.add %[[A]], %[[X]]
// CHECK: %[[FLAT:.*]] = graph.reshape %[[X]] {shape = array<i64: 2, 512>} : (tensor<32x32xf32>) -> tensor<2x512xf32>
// CHECK: %[[PART:.*]] = graph.all_slice %[[FLAT]] {dim = 0 : i64, ranks = 2 : i64} : (tensor<2x512xf32>) -> tensor<1x512xf32>
// CHECK-NOT: graph.all_slice
// CHECK: graph.backward
// CHECK: %[[ALL:.*]] = graph.all_gather %[[PART]] {dim = 0 : i64, ranks = 2 : i64} : (tensor<1x512xf32>) -> tensor<2x512xf32>
// CHECK: %[[BACK:.*]] = graph.reshape %[[ALL]] {shape = array<i64: 32, 32>}
// CHECK: %[[AGAIN:.*]] = graph.exp %[[BACK]]
// CHECK: graph.mul %[[AGAIN]], %[[BACK]]
// CHECK: graph.mul %{{.*}}, %[[R]]
// CHECK-NOT: graph.all_gather
module attributes {graph.model_ranks = 2 : i64} {
graph.parameter @w : tensor<32x32xf32> role = trainable {cut = #graph.cut<0, 1, tensor<64x32xf32>>}
graph.program @micro phase = micro inputs = ["i"] {
^bb0(%i: tensor<32x32xf32>):
  %w = graph.read @w : tensor<32x32xf32>
  %p = graph.mul %i, %w : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  %x = graph.all_reduce %p : (tensor<32x32xf32>) -> tensor<32x32xf32>
  %a = graph.exp %x : (tensor<32x32xf32>) -> tensor<32x32xf32>
  %r = graph.add %a, %x : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  %n = graph.neg %p : (tensor<32x32xf32>) -> tensor<32x32xf32>
  %loss = graph.reduce_mean %r {axes = array<i64: 0, 1>} : (tensor<32x32xf32>) -> tensor<f32>
  graph.backward
  %again = graph.exp %x : (tensor<32x32xf32>) -> tensor<32x32xf32>
  %part = graph.neg %p : (tensor<32x32xf32>) -> tensor<32x32xf32>
  %g = graph.mul %again, %x : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  %h = graph.mul %g, %r : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  %k = graph.mul %h, %part : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  graph.accumulate_grad @w, %k : tensor<32x32xf32>
  graph.return %loss : tensor<f32>
}
}

// -----

// Where nothing is recomputed nothing is cut, and that is said.

// expected-warning @below {{--partition-activations changes nothing}}
module {
graph.parameter @v : tensor<32x32xf32> role = trainable
graph.program @still phase = micro inputs = ["i"] {
^bb0(%i: tensor<32x32xf32>):
  %w = graph.read @v : tensor<32x32xf32>
  %x = graph.mul %i, %w : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  %loss = graph.reduce_mean %x {axes = array<i64: 0, 1>} : (tensor<32x32xf32>) -> tensor<f32>
  graph.backward
  %g = graph.mul %x, %x : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  graph.accumulate_grad @v, %g : tensor<32x32xf32>
  graph.return %loss : tensor<f32>
}
}
