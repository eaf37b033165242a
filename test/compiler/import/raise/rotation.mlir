// RUN: zero-opt %s --raise-composites --split-input-file | FileCheck %s

// Halves that change places, one of them negative: a slice backwards over the two, and signs.
// CHECK-LABEL: ^bb0(%arg0: tensor<2x3x8xf32>)
// CHECK-DAG: %[[S:.*]] = graph.constant dense<[-1.000000e+00, -1.000000e+00, -1.000000e+00, -1.000000e+00, 1.000000e+00, 1.000000e+00, 1.000000e+00, 1.000000e+00]> : tensor<8xf32>
// CHECK-DAG: %[[H:.*]] = graph.reshape %arg0 {{.*}} -> tensor<2x3x2x4xf32>
// CHECK: %[[W:.*]] = graph.slice %[[H]] {offsets = array<i64: 0, 0, 1, 0>, sizes = array<i64: 2, 3, 2, 4>, strides = array<i64: 1, 1, -1, 1>}
// CHECK: %[[B:.*]] = graph.reshape %[[W]] {{.*}} -> tensor<2x3x8xf32>
// CHECK: %[[Y:.*]] = graph.mul %[[B]], %[[S]] : (tensor<2x3x8xf32>, tensor<8xf32>) -> tensor<2x3x8xf32>
// CHECK-NEXT: graph.return %[[Y]]
graph.program @micro phase = micro inputs = ["x"] {
^bb0(%x: tensor<2x3x8xf32>):
  %a = graph.slice %x {offsets = array<i64: 0, 0, 0>, sizes = array<i64: 2, 3, 4>, strides = array<i64: 1, 1, 1>} : (tensor<2x3x8xf32>) -> tensor<2x3x4xf32>
  %b = graph.slice %x {offsets = array<i64: 0, 0, 4>, sizes = array<i64: 2, 3, 4>, strides = array<i64: 1, 1, 1>} : (tensor<2x3x8xf32>) -> tensor<2x3x4xf32>
  %n = graph.neg %b : (tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  %y = graph.concat %n, %a {axis = 2 : i64} : (tensor<2x3x4xf32>, tensor<2x3x4xf32>) -> tensor<2x3x8xf32>
  graph.return %y : tensor<2x3x8xf32>
}

// -----

// Along another dimension, the second negative; signs broadcast over what is behind it.
// CHECK-LABEL: ^bb0(%arg0: tensor<4x3xf32>)
// CHECK-DAG: graph.constant dense<{{\[\[}}1.000000e+00], [1.000000e+00], [-1.000000e+00], [-1.000000e+00]]> : tensor<4x1xf32>
// CHECK-DAG: graph.slice {{.*}} {offsets = array<i64: 1, 0, 0>, sizes = array<i64: 2, 2, 3>, strides = array<i64: -1, 1, 1>}
// CHECK-NOT: graph.concat
graph.program @micro phase = micro inputs = ["x"] {
^bb0(%x: tensor<4x3xf32>):
  %a = graph.slice %x {offsets = array<i64: 0, 0>, sizes = array<i64: 2, 3>, strides = array<i64: 1, 1>} : (tensor<4x3xf32>) -> tensor<2x3xf32>
  %b = graph.slice %x {offsets = array<i64: 2, 0>, sizes = array<i64: 2, 3>, strides = array<i64: 1, 1>} : (tensor<4x3xf32>) -> tensor<2x3xf32>
  %n = graph.neg %a : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %y = graph.concat %b, %n {axis = 0 : i64} : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<4x3xf32>
  graph.return %y : tensor<4x3xf32>
}

// -----

// Halves of two tensors, halves in their order, parts that are no halves: they stay.
// CHECK-LABEL: ^bb0(%arg0: tensor<8xf32>, %arg1: tensor<8xf32>)
// CHECK-COUNT-3: graph.concat
graph.program @micro phase = micro inputs = ["x", "z"] {
^bb0(%x: tensor<8xf32>, %z: tensor<8xf32>):
  %a = graph.slice %x {offsets = array<i64: 0>, sizes = array<i64: 4>, strides = array<i64: 1>} : (tensor<8xf32>) -> tensor<4xf32>
  %b = graph.slice %z {offsets = array<i64: 4>, sizes = array<i64: 4>, strides = array<i64: 1>} : (tensor<8xf32>) -> tensor<4xf32>
  %n = graph.neg %b : (tensor<4xf32>) -> tensor<4xf32>
  %two = graph.concat %n, %a {axis = 0 : i64} : (tensor<4xf32>, tensor<4xf32>) -> tensor<8xf32>
  %order = graph.concat %a, %n {axis = 0 : i64} : (tensor<4xf32>, tensor<4xf32>) -> tensor<8xf32>
  %c = graph.slice %x {offsets = array<i64: 0>, sizes = array<i64: 2>, strides = array<i64: 1>} : (tensor<8xf32>) -> tensor<2xf32>
  %d = graph.slice %x {offsets = array<i64: 2>, sizes = array<i64: 6>, strides = array<i64: 1>} : (tensor<8xf32>) -> tensor<6xf32>
  %parts = graph.concat %d, %c {axis = 0 : i64} : (tensor<6xf32>, tensor<2xf32>) -> tensor<8xf32>
  graph.return %two, %order, %parts : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
}
