// RUN: zero-opt %s --zero-partition="zero-stage=0" | FileCheck %s

// A bucket of one gradient opens before what that is computed over, one after the other; one of several opens before the
// gradients themselves, since it would hold all of its bytes for longer.
// CHECK-LABEL: graph.program @micro
// CHECK: graph.neg
// CHECK-NEXT: %[[A:.*]] = zero.grad_buffer @bucket0
// CHECK-NEXT: graph.exp
// CHECK-NEXT: graph.abs
// CHECK-NEXT: graph.tanh
// CHECK-NEXT: graph.exp
// CHECK-NEXT: %[[B:.*]] = zero.grad_buffer @bucket1
// CHECK-NEXT: graph.abs
zero.mesh axes = [#zero.axis<"node" = 1>, #zero.axis<"local" = 1>]
graph.parameter @w : tensor<8x8xf32> role = trainable
graph.parameter @v : tensor<8x8xf32> role = trainable
graph.parameter @u : tensor<8x8xf32> role = trainable
zero.bucket @bucket0 : f32 padded = 64 members = [#zero.member<@w, 0, 64>] {trainable}
zero.bucket @bucket1 : f32 padded = 128 members = [#zero.member<@v, 0, 64>, #zero.member<@u, 64, 64>] {trainable}
graph.program @micro phase = micro inputs = ["x"] {
^bb0(%x: tensor<8x8xf32>):
  %loss = graph.reduce_mean %x {axes = array<i64: 0, 1>} : (tensor<8x8xf32>) -> tensor<f32>
  %n = graph.neg %x : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %0 = graph.exp %n : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = graph.abs %0 : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %2 = graph.tanh %1 : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %3 = graph.exp %n : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %4 = graph.abs %3 : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %5 = graph.tanh %n : (tensor<8x8xf32>) -> tensor<8x8xf32>
  graph.accumulate_grad @w, %2 : tensor<8x8xf32>
  graph.accumulate_grad @v, %4 : tensor<8x8xf32>
  graph.accumulate_grad @u, %5 : tensor<8x8xf32>
  graph.return %loss : tensor<f32>
}
