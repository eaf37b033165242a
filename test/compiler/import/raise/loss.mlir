// RUN: zero-opt %s --raise-composites --split-input-file | FileCheck %s

// CHECK-LABEL: inputs = ["mean", "t"]
// CHECK: %[[X:.*]] = graph.reshape %{{.*}} {shape = array<i64: 6, 5>}
// CHECK: %[[T:.*]] = graph.reshape %{{.*}} {shape = array<i64: 6>}
// CHECK: %[[L:.*]], %{{.*}} = graph.cross_entropy %[[X]], %[[T]] {ignore_index = -9223372036854775808 : i64}
// CHECK-NEXT: graph.return %[[L]]
graph.program @micro phase = micro inputs = ["mean", "t"] {
^bb0(%x: tensor<2x3x5xf32>, %t: tensor<2x3x1xi64>):
  %p = graph.log_softmax %x {axis = 2 : i64} : (tensor<2x3x5xf32>) -> tensor<2x3x5xf32>
  %g = graph.gather_elements %p, %t {axis = 2 : i64} : (tensor<2x3x5xf32>, tensor<2x3x1xi64>) -> tensor<2x3x1xf32>
  %m = graph.reduce_mean %g {axes = array<i64: 0, 1, 2>} : (tensor<2x3x1xf32>) -> tensor<f32>
  %y = graph.neg %m : (tensor<f32>) -> tensor<f32>
  graph.return %y : tensor<f32>
}

// -----

// CHECK-LABEL: inputs = ["sum", "t"]
// CHECK: graph.cross_entropy {{.*}} {ignore_index = -9223372036854775808 : i64, sum}
graph.program @micro phase = micro inputs = ["sum", "t"] {
^bb0(%x: tensor<3x5xf32>, %t: tensor<3x1xi64>):
  %p = graph.log_softmax %x {axis = 1 : i64} : (tensor<3x5xf32>) -> tensor<3x5xf32>
  %g = graph.gather_elements %p, %t {axis = 1 : i64} : (tensor<3x5xf32>, tensor<3x1xi64>) -> tensor<3x1xf32>
  %n = graph.neg %g : (tensor<3x1xf32>) -> tensor<3x1xf32>
  %y = graph.reduce_sum %n {axes = array<i64: 0, 1>} : (tensor<3x1xf32>) -> tensor<f32>
  graph.return %y : tensor<f32>
}

// -----

// Without the sign it is another quantity.
// CHECK-LABEL: inputs = ["unsigned", "t"]
// CHECK-NOT: graph.cross_entropy
// CHECK: graph.return
graph.program @micro phase = micro inputs = ["unsigned", "t"] {
^bb0(%x: tensor<3x5xf32>, %t: tensor<3x1xi64>):
  %p = graph.log_softmax %x {axis = 1 : i64} : (tensor<3x5xf32>) -> tensor<3x5xf32>
  %g = graph.gather_elements %p, %t {axis = 1 : i64} : (tensor<3x5xf32>, tensor<3x1xi64>) -> tensor<3x1xf32>
  %y = graph.reduce_sum %g {axes = array<i64: 0, 1>} : (tensor<3x1xf32>) -> tensor<f32>
  graph.return %y : tensor<f32>
}
