// RUN: zero-opt %s --split-input-file --fuse-gather-grad="fuse=on" | FileCheck %s
// RUN: zero-opt %s --split-input-file --fuse-gather-grad="fuse=head" | FileCheck %s --check-prefix=NONE
// RUN: zero-opt %s --split-input-file --fuse-gather-grad="fuse=on largest-whole=2047" | FileCheck %s --check-prefix=NONE
// NONE-COUNT-4: graph.add
// NONE-NOT: graph.add

// A tied embedding: on either side of the addition.
// CHECK-LABEL: graph.program @tied
graph.program @tied phase = micro inputs = ["g", "i", "w"] {
^bb0(%g: tensor<4x8xf32>, %i: tensor<4xi64>, %w: tensor<64x8xf32>):
  // CHECK-NEXT: ^bb0
  // CHECK-NEXT: %[[A:.*]] = graph.gather_grad %arg0, %arg1, %arg2 {axis = 0 : i64, shape = array<i64: 64, 8>} : (tensor<4x8xf32>, tensor<4xi64>, tensor<64x8xf32>) -> tensor<64x8xf32>
  // CHECK-NEXT: %[[B:.*]] = graph.gather_grad %arg0, %arg1, %[[A]]
  // CHECK-NEXT: graph.return %[[B]]
  %d = graph.gather_grad %g, %i {shape = array<i64: 64, 8>, axis = 0 : i64} : (tensor<4x8xf32>, tensor<4xi64>) -> tensor<64x8xf32>
  %s = graph.add %w, %d : (tensor<64x8xf32>, tensor<64x8xf32>) -> tensor<64x8xf32>
  %e = graph.gather_grad %g, %i {shape = array<i64: 64, 8>, axis = 0 : i64} : (tensor<4x8xf32>, tensor<4xi64>) -> tensor<64x8xf32>
  %t = graph.add %e, %s : (tensor<64x8xf32>, tensor<64x8xf32>) -> tensor<64x8xf32>
  graph.return %t : tensor<64x8xf32>
}

// -----

// Not where somebody else reads the sums, nor where both are the same, nor onto what is broadcast.
// CHECK-LABEL: graph.program @apart
graph.program @apart phase = micro inputs = ["g", "i", "w", "b"] {
^bb0(%g: tensor<4x8xf32>, %i: tensor<4xi64>, %w: tensor<64x8xf32>, %b: tensor<8xf32>):
  // CHECK-COUNT-2: graph.gather_grad %arg0, %arg1 {
  // CHECK-NOT: graph.gather_grad
  %d = graph.gather_grad %g, %i {shape = array<i64: 64, 8>, axis = 0 : i64} : (tensor<4x8xf32>, tensor<4xi64>) -> tensor<64x8xf32>
  %s = graph.add %d, %d : (tensor<64x8xf32>, tensor<64x8xf32>) -> tensor<64x8xf32>
  %e = graph.gather_grad %g, %i {shape = array<i64: 64, 8>, axis = 0 : i64} : (tensor<4x8xf32>, tensor<4xi64>) -> tensor<64x8xf32>
  %x = graph.add %e, %b : (tensor<64x8xf32>, tensor<8xf32>) -> tensor<64x8xf32>
  graph.return %s, %x : tensor<64x8xf32>, tensor<64x8xf32>
}
