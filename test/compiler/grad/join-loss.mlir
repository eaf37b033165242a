// RUN: zero-opt %s --split-input-file --differentiate --join-loss | FileCheck %s
// RUN: zero-opt %s --split-input-file --differentiate="precision=fp16" --join-loss | FileCheck %s --check-prefix=SCALED

// What is computed from the loss follows it over the border; with a loss scale too.
graph.parameter @w : tensor<8x16xf32> role = trainable
// CHECK-LABEL: graph.program @micro
// SCALED-LABEL: graph.program @micro
graph.program @micro phase = micro inputs = ["x", "t"] {
^bb0(%x: tensor<4x8xf32>, %t: tensor<4xi64>):
  %w = graph.read @w : tensor<8x16xf32>
  %loss = graph.linear_cross_entropy %x, %t, %w {ignore_index = -100 : i64, sum, chunk = 2 : i64} : (tensor<4x8xf32>, tensor<4xi64>, tensor<8x16xf32>) -> tensor<f32>
  %four = graph.constant dense<4.0> : tensor<f32>
  %mean = graph.div %loss, %four : (tensor<f32>, tensor<f32>) -> tensor<f32>
  // CHECK-NOT: graph.linear_cross_entropy %
  // CHECK: graph.backward
  // CHECK: %[[LOSS:.*]], %{{.*}}, %[[DW:.*]] = graph.linear_cross_entropy_grad
  // CHECK: %[[MEAN:.*]] = graph.div %[[LOSS]]
  // CHECK: graph.accumulate_grad @w, %[[DW]]
  // CHECK: graph.return %[[MEAN]]
  // SCALED-NOT: graph.linear_cross_entropy %
  // SCALED: graph.loss_scale
  // SCALED: graph.linear_cross_entropy_grad
  graph.return %mean : tensor<f32>
}

// -----

// The gradient depends on the loss: it has to be there first.
graph.parameter @w : tensor<8x16xf32> role = trainable
// CHECK-LABEL: graph.program @micro
// SCALED-LABEL: graph.program @micro
graph.program @micro phase = micro inputs = ["x", "t"] {
^bb0(%x: tensor<4x8xf32>, %t: tensor<4xi64>):
  %w = graph.read @w : tensor<8x16xf32>
  // CHECK: %[[LOSS:.*]] = graph.linear_cross_entropy %
  // CHECK: %[[EXP:.*]] = graph.exp %[[LOSS]]
  // CHECK: graph.backward
  // CHECK: graph.linear_cross_entropy_grad
  // CHECK: graph.return %[[EXP]]
  %loss = graph.linear_cross_entropy %x, %t, %w {ignore_index = -100 : i64, chunk = 2 : i64} : (tensor<4x8xf32>, tensor<4xi64>, tensor<8x16xf32>) -> tensor<f32>
  %exp = graph.exp %loss : (tensor<f32>) -> tensor<f32>
  graph.return %exp : tensor<f32>
}

// -----

// A frozen layer has no gradient of its own.
graph.parameter @w : tensor<8x16xf32> role = frozen
graph.parameter @v : tensor<8xf32> role = trainable
// CHECK-LABEL: graph.program @micro
// SCALED-LABEL: graph.program @micro
graph.program @micro phase = micro inputs = ["x", "t"] {
^bb0(%x: tensor<4x8xf32>, %t: tensor<4xi64>):
  %w = graph.read @w : tensor<8x16xf32>
  %v = graph.read @v : tensor<8xf32>
  %y = graph.mul %x, %v : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  // CHECK-NOT: graph.linear_cross_entropy %
  // CHECK: graph.backward
  // CHECK: %[[LOSS:.*]], %[[DY:.*]] = graph.linear_cross_entropy_grad %{{.*}} {chunk = 2 : i64, frozen, ignore_index = -100 : i64} : (tensor<f32>, tensor<4x8xf32>, tensor<4xi64>, tensor<8x16xf32>) -> (tensor<f32>, tensor<4x8xf32>)
  // CHECK: graph.mul %[[DY]]
  // CHECK-NOT: graph.accumulate_grad @w
  // CHECK: graph.return %[[LOSS]]
  // SCALED: graph.linear_cross_entropy_grad
  %loss = graph.linear_cross_entropy %y, %t, %w {ignore_index = -100 : i64, chunk = 2 : i64} : (tensor<4x8xf32>, tensor<4xi64>, tensor<8x16xf32>) -> tensor<f32>
  graph.return %loss : tensor<f32>
}

// -----

// What losses are made of, of each row: nobody wants a gradient of the sum of all.
graph.parameter @w : tensor<8x16xf32> role = trainable
// CHECK-LABEL: graph.program @micro
// SCALED-LABEL: graph.program @micro
graph.program @micro phase = micro inputs = ["x", "t", "v"] {
^bb0(%x: tensor<4x8xf32>, %t: tensor<4xi64>, %v: tensor<16xf32>):
  %w = graph.read @w : tensor<8x16xf32>
  // CHECK-NOT: graph.linear_log_softmax %
  // CHECK: graph.backward
  // CHECK: %[[P:.*]], %{{.*}}, %{{.*}}, %[[DW:.*]] = graph.linear_log_softmax_grad %{{.*}} {chunk = 2 : i64}
  // CHECK: %[[LOSS:.*]] = graph.reduce_sum %[[P]]
  // CHECK: graph.accumulate_grad @w, %[[DW]]
  // CHECK: graph.return %[[LOSS]]
  // SCALED: graph.linear_log_softmax_grad
  %p, %s = graph.linear_log_softmax %x, %t, %v, %w {chunk = 2 : i64} : (tensor<4x8xf32>, tensor<4xi64>, tensor<16xf32>, tensor<8x16xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  %loss = graph.reduce_sum %p {axes = array<i64: 0>} : (tensor<4xf32>) -> tensor<f32>
  graph.return %loss : tensor<f32>
}
