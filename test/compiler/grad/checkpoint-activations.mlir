// RUN: zero-opt %s --checkpoint-activations=checkpoint-activations=block | FileCheck %s
// RUN: zero-opt %s --checkpoint-activations=checkpoint-activations=none | FileCheck %s --check-prefix=NONE

// Two blocks x + sin(exp(x)) after a first operation. The backward of each needs the exp inside it; only the stream x
// crosses the borders.
module {
  graph.parameter @w : tensor<8xf32> role = trainable
  // CHECK-LABEL: graph.program @micro
  graph.program @micro phase = micro inputs = ["i"] {
  ^bb0(%i: tensor<8xf32>):
    %w = graph.read @w : tensor<8xf32>
    // CHECK: %[[X0:.*]] = graph.mul
    %x0 = graph.mul %w, %i : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    // CHECK: %[[E0:.*]] = graph.exp %[[X0]]
    %e0 = graph.exp %x0 : (tensor<8xf32>) -> tensor<8xf32>
    %s0 = graph.sin %e0 : (tensor<8xf32>) -> tensor<8xf32>
    // CHECK: %[[X1:.*]] = graph.add %[[X0]]
    %x1 = graph.add %x0, %s0 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    // CHECK: graph.exp %[[X1]]
    %e1 = graph.exp %x1 : (tensor<8xf32>) -> tensor<8xf32>
    %s1 = graph.sin %e1 : (tensor<8xf32>) -> tensor<8xf32>
    %x2 = graph.add %x1, %s1 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %e2 = graph.exp %x2 : (tensor<8xf32>) -> tensor<8xf32>
    %s2 = graph.sin %e2 : (tensor<8xf32>) -> tensor<8xf32>
    %x3 = graph.add %x2, %s2 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %loss = graph.reduce_sum %x3 {axes = array<i64: 0>} : (tensor<8xf32>) -> tensor<f32>
    graph.backward
    // CHECK: graph.reduce_sum
    // Of the second block the clone stands just before its use, reading the kept stream.
    // CHECK: %[[R1:.*]] = graph.exp %[[X1]]
    // CHECK-NEXT: %[[G1:.*]] = graph.mul %[[R1]], %[[R1]]
    // NONE: graph.reduce_sum
    // NONE-NOT: graph.exp
    %g1 = graph.mul %e1, %e1 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    // CHECK: %[[R0:.*]] = graph.exp %[[X0]]
    // CHECK-NEXT: graph.mul %[[G1]], %[[R0]]
    %g0 = graph.mul %g1, %e0 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    graph.accumulate_grad @w, %g0 : tensor<8xf32>
    graph.return %loss : tensor<f32>
  }
}
