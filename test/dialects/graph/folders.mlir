// RUN: zero-opt %s --canonicalize --split-input-file | FileCheck %s

// CHECK-LABEL: graph.program @identities
graph.program @identities phase = micro inputs = ["x"] {
// CHECK: ^bb0(%[[X:.*]]: tensor<2x3xf32>)
^bb0(%x: tensor<2x3xf32>):
  %0 = graph.cast %x {to = f32} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %1 = graph.reshape %0 {shape = array<i64: 2, 3>} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %2 = graph.transpose %1 {permutation = array<i64: 0, 1>} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %3 = graph.expand %2 {shape = array<i64: 2, 3>} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK-NEXT: graph.return %[[X]]
  graph.return %3 : tensor<2x3xf32>
}

// -----

// A chain of views is one view.
// CHECK-LABEL: graph.program @views
graph.program @views phase = micro inputs = ["x"] {
// CHECK: ^bb0(%[[X:.*]]: tensor<2x3xf32>)
^bb0(%x: tensor<2x3xf32>):
  %0 = graph.reshape %x {shape = array<i64: 6>} : (tensor<2x3xf32>) -> tensor<6xf32>
  %1 = graph.reshape %0 {shape = array<i64: 3, 2>} : (tensor<6xf32>) -> tensor<3x2xf32>
  // CHECK-NEXT: %[[Y:.*]] = graph.reshape %[[X]] {shape = array<i64: 3, 2>}
  // CHECK-NEXT: graph.return %[[Y]]
  graph.return %1 : tensor<3x2xf32>
}

// -----

// A chain of transposes is one, or none.
// CHECK-LABEL: graph.program @transposes
graph.program @transposes phase = micro inputs = ["x"] {
// CHECK: ^bb0(%[[X:.*]]: tensor<2x3x4xf32>)
^bb0(%x: tensor<2x3x4xf32>):
  %0 = graph.transpose %x {permutation = array<i64: 0, 2, 1>} : (tensor<2x3x4xf32>) -> tensor<2x4x3xf32>
  // CHECK-NEXT: %[[Y:.*]] = graph.transpose %[[X]] {permutation = array<i64: 2, 1, 0>} : (tensor<2x3x4xf32>) -> tensor<4x3x2xf32>
  %1 = graph.transpose %0 {permutation = array<i64: 1, 2, 0>} : (tensor<2x4x3xf32>) -> tensor<4x3x2xf32>
  %2 = graph.transpose %1 {permutation = array<i64: 2, 1, 0>} : (tensor<4x3x2xf32>) -> tensor<2x3x4xf32>
  // CHECK-NEXT: graph.return %[[Y]], %[[X]]
  graph.return %1, %2 : tensor<4x3x2xf32>, tensor<2x3x4xf32>
}

// -----

// CHECK-LABEL: graph.program @constants
graph.program @constants phase = micro inputs = [] {
  %s = graph.constant dense<0.3> : tensor<1x2xf32>
  %0 = graph.transpose %s {permutation = array<i64: 1, 0>} : (tensor<1x2xf32>) -> tensor<2x1xf32>
  %1 = graph.expand %0 {shape = array<i64: 2, 5>} : (tensor<2x1xf32>) -> tensor<2x5xf32>
  %2 = graph.cast %1 {to = bf16} : (tensor<2x5xf32>) -> tensor<2x5xbf16>
  // bf16 nearest to 0.3.
  // CHECK-DAG: %[[S:.*]] = graph.constant dense<3.007810e-01> : tensor<2x5xbf16>
  %d = graph.constant dense<[[1, 2], [3, 4]]> : tensor<2x2xi64>
  %3 = graph.reshape %d {shape = array<i64: 4>} : (tensor<2x2xi64>) -> tensor<4xi64>
  // CHECK-DAG: %[[D:.*]] = graph.constant dense<[1, 2, 3, 4]> : tensor<4xi64>
  // CHECK: graph.return %[[S]], %[[D]]
  graph.return %2, %3 : tensor<2x5xbf16>, tensor<4xi64>
}

// -----

// The product of the seed and a constant factor.
// CHECK-LABEL: graph.program @factors
graph.program @factors phase = micro inputs = [] {
  %a = graph.constant dense<0.5> : tensor<f32>
  %b = graph.constant dense<3.0> : tensor<2xf32>
  // CHECK: %[[P:.*]] = graph.constant dense<1.500000e+00> : tensor<2xf32>
  // CHECK-NEXT: graph.return %[[P]]
  %0 = graph.mul %a, %b : (tensor<f32>, tensor<2xf32>) -> tensor<2xf32>
  graph.return %0 : tensor<2xf32>
}

// -----

// Rounding to bf16 and back is no identity.
// CHECK-LABEL: graph.program @rounding
graph.program @rounding phase = micro inputs = ["x"] {
^bb0(%x: tensor<3xf32>):
  // CHECK-COUNT-2: graph.cast
  %0 = graph.cast %x {to = bf16} : (tensor<3xf32>) -> tensor<3xbf16>
  %1 = graph.cast %0 {to = f32} : (tensor<3xbf16>) -> tensor<3xf32>
  graph.return %1 : tensor<3xf32>
}

// -----

// CHECK-LABEL: graph.program @whole_slices
graph.program @whole_slices phase = micro inputs = ["x"] {
// CHECK: ^bb0(%[[X:.*]]: tensor<3xf32>)
^bb0(%x: tensor<3xf32>):
  %0 = graph.slice %x {offsets = array<i64: 0>, sizes = array<i64: 3>, strides = array<i64: 1>} : (tensor<3xf32>) -> tensor<3xf32>
  %1 = graph.slice_grad %0 {shape = array<i64: 3>, offsets = array<i64: 0>, strides = array<i64: 1>} : (tensor<3xf32>) -> tensor<3xf32>
  %2 = graph.concat %1 {axis = 0 : i64} : (tensor<3xf32>) -> tensor<3xf32>
  // A reversal takes everything too, but not in order.
  // CHECK-NEXT: %[[R:.*]] = graph.slice
  %r = graph.slice %x {offsets = array<i64: 2>, sizes = array<i64: 3>, strides = array<i64: -1>} : (tensor<3xf32>) -> tensor<3xf32>
  // CHECK-NEXT: graph.return %[[X]], %[[R]]
  graph.return %2, %r : tensor<3xf32>, tensor<3xf32>
}

// -----

// The backward of a split into three is one concat.
// CHECK-LABEL: graph.program @split
graph.program @split phase = micro inputs = ["q", "k", "v"] {
// CHECK: ^bb0(%[[Q:.*]]: tensor<2x3xf32>, %[[K:.*]]: tensor<2x4xf32>, %[[V:.*]]: tensor<2x5xf32>)
^bb0(%q: tensor<2x3xf32>, %k: tensor<2x4xf32>, %v: tensor<2x5xf32>):
  %0 = graph.slice_grad %q {shape = array<i64: 2, 12>, offsets = array<i64: 0, 0>, strides = array<i64: 1, 1>} : (tensor<2x3xf32>) -> tensor<2x12xf32>
  %1 = graph.slice_grad %k {shape = array<i64: 2, 12>, offsets = array<i64: 0, 3>, strides = array<i64: 1, 1>} : (tensor<2x4xf32>) -> tensor<2x12xf32>
  %2 = graph.slice_grad %v {shape = array<i64: 2, 12>, offsets = array<i64: 0, 7>, strides = array<i64: 1, 1>} : (tensor<2x5xf32>) -> tensor<2x12xf32>
  %3 = graph.add %2, %1 : (tensor<2x12xf32>, tensor<2x12xf32>) -> tensor<2x12xf32>
  %4 = graph.add %3, %0 : (tensor<2x12xf32>, tensor<2x12xf32>) -> tensor<2x12xf32>
  // CHECK-NEXT: %[[D:.*]] = graph.concat %[[Q]], %[[K]], %[[V]] {axis = 1 : i64}
  // CHECK-NEXT: graph.return %[[D]]
  graph.return %4 : tensor<2x12xf32>
}

// -----

// Blocks with a gap, or that overlap, are added.
// CHECK-LABEL: graph.program @gap
graph.program @gap phase = micro inputs = ["a", "b"] {
^bb0(%a: tensor<2xf32>, %b: tensor<2xf32>):
  // CHECK-COUNT-2: graph.add
  // CHECK-NOT: graph.concat
  %0 = graph.slice_grad %a {shape = array<i64: 6>, offsets = array<i64: 0>, strides = array<i64: 1>} : (tensor<2xf32>) -> tensor<6xf32>
  %1 = graph.slice_grad %b {shape = array<i64: 6>, offsets = array<i64: 3>, strides = array<i64: 1>} : (tensor<2xf32>) -> tensor<6xf32>
  %2 = graph.slice_grad %b {shape = array<i64: 6>, offsets = array<i64: 1>, strides = array<i64: 1>} : (tensor<2xf32>) -> tensor<6xf32>
  %3 = graph.add %0, %1 : (tensor<6xf32>, tensor<6xf32>) -> tensor<6xf32>
  %4 = graph.slice_grad %a {shape = array<i64: 6>, offsets = array<i64: 0>, strides = array<i64: 1>} : (tensor<2xf32>) -> tensor<6xf32>
  %5 = graph.add %4, %2 : (tensor<6xf32>, tensor<6xf32>) -> tensor<6xf32>
  graph.return %3, %5 : tensor<6xf32>, tensor<6xf32>
}

// -----

// A sum of which a rank keeps its part; the part of what was just gathered.
// CHECK-LABEL: graph.program @model_axis
graph.program @model_axis phase = micro inputs = ["x"] {
// CHECK: ^bb0(%[[X:.*]]: tensor<4x8xf32>)
^bb0(%x: tensor<4x8xf32>):
  // CHECK: %[[R:.*]] = graph.reduce_scatter %[[X]] {dim = 1 : i64, ranks = 2 : i64} : (tensor<4x8xf32>) -> tensor<4x4xf32>
  %0 = graph.all_reduce %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = graph.all_slice %0 {dim = 1 : i64, ranks = 2 : i64} : (tensor<4x8xf32>) -> tensor<4x4xf32>
  %2 = graph.all_gather %x {dim = 0 : i64, ranks = 2 : i64} : (tensor<4x8xf32>) -> tensor<8x8xf32>
  %3 = graph.all_slice %2 {dim = 0 : i64, ranks = 2 : i64} : (tensor<8x8xf32>) -> tensor<4x8xf32>
  // Also through a reshape, where parts are runs inside a dimension.
  // CHECK: %[[G:.*]] = graph.reshape %[[X]] {shape = array<i64: 2, 2, 8>}
  // CHECK: %[[S:.*]] = graph.reduce_scatter %[[G]] {dim = 1 : i64, ranks = 2 : i64} : (tensor<2x2x8xf32>) -> tensor<2x1x8xf32>
  %4 = graph.all_reduce %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %5 = graph.reshape %4 {shape = array<i64: 2, 2, 8>} : (tensor<4x8xf32>) -> tensor<2x2x8xf32>
  %6 = graph.all_slice %5 {dim = 1 : i64, ranks = 2 : i64} : (tensor<2x2x8xf32>) -> tensor<2x1x8xf32>
  // CHECK: graph.return %[[R]], %[[X]], %[[S]]
  graph.return %1, %3, %6 : tensor<4x4xf32>, tensor<4x8xf32>, tensor<2x1x8xf32>
}

// -----

// What has no elements is joined to nothing; nothing is put around a tensor.
// CHECK-LABEL: graph.program @nothing
graph.program @nothing phase = micro inputs = ["x", "e", "y"] {
// CHECK: ^bb0(%[[X:.*]]: tensor<2x3xf32>, %[[E:.*]]: tensor<2x0xf32>, %[[Y:.*]]: tensor<2x1xf32>)
^bb0(%x: tensor<2x3xf32>, %e: tensor<2x0xf32>, %y: tensor<2x1xf32>):
  %0 = graph.concat %e, %x {axis = 1 : i64} : (tensor<2x0xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %1 = graph.pad %0 {low = array<i64: 0, 0>, high = array<i64: 0, 0>, value = 0.0 : f64} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK-NEXT: %[[J:.*]] = graph.concat %[[X]], %[[Y]] {axis = 1 : i64}
  %2 = graph.concat %0, %e, %y {axis = 1 : i64} : (tensor<2x3xf32>, tensor<2x0xf32>, tensor<2x1xf32>) -> tensor<2x4xf32>
  %3 = graph.concat %e, %e {axis = 1 : i64} : (tensor<2x0xf32>, tensor<2x0xf32>) -> tensor<2x0xf32>
  // CHECK-NEXT: graph.return %[[X]], %[[J]], %[[E]]
  graph.return %1, %2, %3 : tensor<2x3xf32>, tensor<2x4xf32>, tensor<2x0xf32>
}
