// RUN: zero-opt %s --raise-composites --split-input-file | FileCheck %s

// A transposed weight becomes a flag, the row added behind a reshape a bias.
// CHECK-LABEL: inputs = ["linear"]
graph.parameter @w : tensor<16x8xf32> role = trainable
graph.parameter @b : tensor<16xf32> role = trainable
graph.program @micro phase = micro inputs = ["linear"] {
^bb0(%x: tensor<6x8xf32>):
  %w = graph.read @w : tensor<16x8xf32>
  %t = graph.transpose %w {permutation = array<i64: 1, 0>} : (tensor<16x8xf32>) -> tensor<8x16xf32>
  %m = graph.matmul %x, %t : (tensor<6x8xf32>, tensor<8x16xf32>) -> tensor<6x16xf32>
  %r = graph.reshape %m {shape = array<i64: 2, 3, 16>} : (tensor<6x16xf32>) -> tensor<2x3x16xf32>
  %b = graph.read @b : tensor<16xf32>
  %y = graph.add %b, %r : (tensor<16xf32>, tensor<2x3x16xf32>) -> tensor<2x3x16xf32>
  graph.return %y : tensor<2x3x16xf32>
}
// CHECK: %[[W:.*]] = graph.read @w
// CHECK: %[[B:.*]] = graph.read @b
// CHECK: %[[M:.*]] = graph.matmul %{{.*}}, %[[W]], %[[B]] {trans_rhs}
// CHECK: %[[Y:.*]] = graph.reshape %[[M]] {shape = array<i64: 2, 3, 16>}
// CHECK: graph.return %[[Y]]

// -----

// The part of a permutation that the flag cannot say stays; a product that others use keeps its addition.
// CHECK-LABEL: inputs = ["heads", "k"]
graph.parameter @b : tensor<5xf32> role = trainable
graph.program @micro phase = micro inputs = ["heads", "k"] {
^bb0(%q: tensor<2x4x5x8xf32>, %k: tensor<2x5x4x8xf32>):
  %t = graph.transpose %k {permutation = array<i64: 0, 2, 3, 1>} : (tensor<2x5x4x8xf32>) -> tensor<2x4x8x5xf32>
  %s = graph.matmul %q, %t : (tensor<2x4x5x8xf32>, tensor<2x4x8x5xf32>) -> tensor<2x4x5x5xf32>
  %b = graph.read @b : tensor<5xf32>
  %y = graph.add %s, %b : (tensor<2x4x5x5xf32>, tensor<5xf32>) -> tensor<2x4x5x5xf32>
  graph.return %y, %s : tensor<2x4x5x5xf32>, tensor<2x4x5x5xf32>
}
// CHECK: %[[K:.*]] = graph.transpose %{{.*}} {permutation = array<i64: 0, 2, 1, 3>}
// CHECK: %[[S:.*]] = graph.matmul %{{.*}}, %[[K]] {trans_rhs}
// CHECK: %[[Y:.*]] = graph.add %[[S]]
// CHECK: graph.return %[[Y]], %[[S]]
