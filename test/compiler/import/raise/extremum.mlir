// RUN: zero-opt %s --raise-composites --split-input-file | FileCheck %s

// Beside its index, wherever that stands: the element there.
// CHECK-LABEL: inputs = ["beside"]
// CHECK: ^bb0(%[[X:.*]]: tensor<4x8xf32>)
// CHECK: %[[I:.*]] = graph.arg_max %[[X]] {axis = 1 : i64}
// CHECK-NOT: graph.arg_max
// CHECK: %[[C:.*]] = graph.reshape %[[I]] {shape = array<i64: 4, 1>}
// CHECK: %[[E:.*]] = graph.gather_elements %[[X]], %[[C]] {axis = 1 : i64}
// CHECK: %[[M:.*]] = graph.reshape %[[E]] {shape = array<i64: 4>}
// CHECK: graph.return %[[M]], %[[I]]
graph.program @micro phase = micro inputs = ["beside"] {
^bb0(%x: tensor<4x8xf32>):
  %m = graph.reduce_max %x {axes = array<i64: 1>} : (tensor<4x8xf32>) -> tensor<4xf32>
  %i = graph.arg_max %x {axis = 1 : i64} : (tensor<4x8xf32>) -> tensor<4xi64>
  graph.return %m, %i : tensor<4xf32>, tensor<4xi64>
}

// -----

// CHECK-LABEL: inputs = ["smallest"]
// CHECK: %[[I:.*]] = graph.arg_max %{{.*}} {axis = 0 : i64, smallest}
// CHECK: %[[C:.*]] = graph.reshape %[[I]] {shape = array<i64: 1, 8>}
// CHECK: %[[E:.*]] = graph.gather_elements %{{.*}}, %[[C]] {axis = 0 : i64}
// CHECK: graph.return %[[I]], %[[E]]
graph.program @micro phase = micro inputs = ["smallest"] {
^bb0(%x: tensor<4x8xf32>):
  %i = graph.arg_max %x {axis = 0 : i64, smallest} : (tensor<4x8xf32>) -> tensor<8xi64>
  %m = graph.reduce_min %x {axes = array<i64: 0>, keepdims} : (tensor<4x8xf32>) -> tensor<1x8xf32>
  graph.return %i, %m : tensor<8xi64>, tensor<1x8xf32>
}

// -----

// An index along another dimension, or of the smallest, is none of it.
// CHECK-LABEL: inputs = ["others"]
// CHECK: graph.reduce_max
graph.program @micro phase = micro inputs = ["others"] {
^bb0(%x: tensor<4x8xf32>):
  %i = graph.arg_max %x {axis = 0 : i64} : (tensor<4x8xf32>) -> tensor<8xi64>
  %j = graph.arg_max %x {axis = 1 : i64, smallest} : (tensor<4x8xf32>) -> tensor<4xi64>
  %m = graph.reduce_max %x {axes = array<i64: 1>} : (tensor<4x8xf32>) -> tensor<4xf32>
  graph.return %i, %j, %m : tensor<8xi64>, tensor<4xi64>, tensor<4xf32>
}
