// RUN: zero-opt %s --split-input-file --forward-only --verify-diagnostics | FileCheck %s
// RUN: zero-opt %s --split-input-file --zero-grad-pipeline="forward-only" --verify-diagnostics | FileCheck %s --check-prefix=STAGE

// Each value is handed over where it is made; nothing is returned; the update is empty. A likelihood is said of the loss alone.
// CHECK: module attributes {graph.training = #graph.training<precision = fp32, forward_only = unit>}
graph.parameter @w : tensor<4xf32> role = frozen
// CHECK-LABEL: graph.program @micro
// CHECK-SAME: inputs = ["x"] {
// STAGE-LABEL: graph.program @micro
graph.program @micro phase = micro inputs = ["x"] attributes {graph.outputs = #graph.outputs<names = ["y", "x", "loss"], loss = 2, likelihood = unit>} {
^bb0(%x: tensor<4xf32>):
  // CHECK: graph.output %[[X:.*]] as "x"
  %w = graph.read @w : tensor<4xf32>
  // CHECK: %[[Y:.*]] = graph.mul
  // CHECK-NEXT: graph.output %[[Y]] as "y" : tensor<4xf32>
  // STAGE: graph.output %{{.*}} as "y"
  // STAGE-NOT: graph.exp
  %y = graph.mul %x, %w : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %dead = graph.exp %y : (tensor<4xf32>) -> tensor<4xf32>
  // CHECK: %[[L:.*]] = graph.reduce_mean
  // CHECK-NEXT: graph.output %[[L]] as "loss" {kind = #graph<output_kind loss>, likelihood} : tensor<f32>
  %l = graph.reduce_mean %y {axes = array<i64: 0>} : (tensor<4xf32>) -> tensor<f32>
  // CHECK-NEXT: graph.return{{$}}
  graph.return %y, %x, %l : tensor<4xf32>, tensor<4xf32>, tensor<f32>
}
// CHECK-LABEL: graph.program @update phase = update inputs = [] {
// CHECK-NEXT: graph.return

// -----

// expected-error @below {{forward-only needs one program, of phase 'micro', and no trainable parameter}}
module {
  graph.parameter @w : tensor<4xf32> role = trainable
  graph.program @micro phase = micro inputs = [] attributes {graph.outputs = #graph.outputs<names = ["w"]>} {
    %w = graph.read @w : tensor<4xf32>
    graph.return %w : tensor<4xf32>
  }
}

// -----

graph.program @micro phase = micro inputs = ["x"] {
^bb0(%x: tensor<4xf32>):
  // expected-error @below {{needs a name in 'graph.outputs' for each result, and at least one}}
  graph.return %x : tensor<4xf32>
}
