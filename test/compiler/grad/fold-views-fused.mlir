// RUN: zero-opt %s --split-input-file --split-rows --fold-views | FileCheck %s
// RUN: zero-opt %s --split-input-file --split-rows="views=off" --fold-views="views=off" | FileCheck %s --check-prefix=NONE
// NONE-NOT: graph.views

// A gate and what it lets through, from one linear layer, and their gradients, which are one tensor.
// CHECK-LABEL: graph.program @gated
graph.program @gated phase = micro inputs = ["x", "g"] {
^bb0(%x: tensor<4x32xf32>, %g: tensor<4x16xf32>):
  // CHECK: %[[Y:.*]] = graph.fused %[[X:.*]], %[[X]] {
  // CHECK-SAME: <[<0 + 0[4, 16] by[32, 1]>, <1 + 16[4, 16] by[32, 1]>, <2 + 0[4, 16] by[16, 1]>] -> [tensor<4x16xf32>]>
  // CHECK-NEXT: %[[D:.*]] = graph.fused %[[X]], %{{.*}}, %[[X]] {
  // CHECK-SAME: <3 + 16[4, 16] by[32, 1]>, <3 + 0[4, 16] by[32, 1]>] -> [tensor<4x32xf32>]>
  // CHECK-NEXT: graph.return %[[Y]], %[[D]]
  %a = graph.slice %x {offsets = array<i64: 0, 0>, sizes = array<i64: 4, 16>, strides = array<i64: 1, 1>} : (tensor<4x32xf32>) -> tensor<4x16xf32>
  %b = graph.slice %x {offsets = array<i64: 0, 16>, sizes = array<i64: 4, 16>, strides = array<i64: 1, 1>} : (tensor<4x32xf32>) -> tensor<4x16xf32>
  %y = graph.fused %a, %b {program = array<i64: 2, 30, 0, 0, 6, 0, 2, 1, 0, 3>} : (tensor<4x16xf32>, tensor<4x16xf32>) -> tensor<4x16xf32>
  %d:2 = graph.fused %a, %g, %b {program = array<i64: 4, 30, 0, 0, 6, 0, 1, 2, 35, 0, 4, 0, 6, 0, 1, 3, 0, 5, 6>} : (tensor<4x16xf32>, tensor<4x16xf32>, tensor<4x16xf32>) -> (tensor<4x16xf32>, tensor<4x16xf32>)
  %dx = graph.concat %d#1, %d#0 {axis = 1 : i64} : (tensor<4x16xf32>, tensor<4x16xf32>) -> tensor<4x32xf32>
  graph.return %y, %dx : tensor<4x16xf32>, tensor<4x32xf32>
}

// -----

// Heads, and their halves in turn: the whole tensor is read twice, the second time half by half backwards.
// CHECK-LABEL: graph.program @rotated
graph.program @rotated phase = micro inputs = ["x", "c", "s"] {
^bb0(%x: tensor<2x5x32xf32>, %c: tensor<5x16xf32>, %s: tensor<5x16xf32>):
  // CHECK-NOT: graph.transpose
  // CHECK-NOT: graph.slice
  // CHECK: graph.fused %[[X:.*]], %{{.*}}, %[[X]], %{{.*}} {
  // CHECK-SAME: <0 + 0[2, 2, 5, 2, 8] by[160, 16, 32, 8, 1]>, <1 + 0[5, 2, 8] by[16, 8, 1]>, <2 + 8[2, 2, 5, 2, 8] by[160, 16, 32, -8, 1]>
  %h = graph.reshape %x {shape = array<i64: 2, 5, 2, 16>} : (tensor<2x5x32xf32>) -> tensor<2x5x2x16xf32>
  %t = graph.transpose %h {permutation = array<i64: 0, 2, 1, 3>} : (tensor<2x5x2x16xf32>) -> tensor<2x2x5x16xf32>
  %r = graph.reshape %t {shape = array<i64: 2, 2, 5, 2, 8>} : (tensor<2x2x5x16xf32>) -> tensor<2x2x5x2x8xf32>
  %b = graph.slice %r {offsets = array<i64: 0, 0, 0, 1, 0>, sizes = array<i64: 2, 2, 5, 2, 8>, strides = array<i64: 1, 1, 1, -1, 1>} : (tensor<2x2x5x2x8xf32>) -> tensor<2x2x5x2x8xf32>
  %w = graph.reshape %b {shape = array<i64: 2, 2, 5, 16>} : (tensor<2x2x5x2x8xf32>) -> tensor<2x2x5x16xf32>
  %y = graph.fused %t, %c, %w, %s {program = array<i64: 3, 6, 0, 0, 1, 6, 0, 2, 3, 4, 0, 4, 5, 0, 6>} : (tensor<2x2x5x16xf32>, tensor<5x16xf32>, tensor<2x2x5x16xf32>, tensor<5x16xf32>) -> tensor<2x2x5x16xf32>
  graph.return %y : tensor<2x2x5x16xf32>
}

// -----

// Runs of fewer elements than a vector has are copied.
// CHECK-LABEL: graph.program @short
graph.program @short phase = micro inputs = ["x"] {
^bb0(%x: tensor<4x16x5xf32>):
  // CHECK: graph.transpose
  // CHECK-NOT: graph.views
  %t = graph.transpose %x {permutation = array<i64: 0, 2, 1>} : (tensor<4x16x5xf32>) -> tensor<4x5x16xf32>
  %y = graph.fused %t {program = array<i64: 2, 20, 0, 0, 6, 0, 1, 0, 0, 2>} : (tensor<4x5x16xf32>) -> tensor<4x5x16xf32>
  graph.return %y : tensor<4x5x16xf32>
}

// -----

// A view of nothing might begin behind the last element.
// CHECK-LABEL: graph.program @empty
graph.program @empty phase = micro inputs = ["x"] {
^bb0(%x: tensor<0x32xf32>):
  // CHECK: graph.slice
  // CHECK: graph.slice
  // CHECK: graph.fused
  // CHECK-NOT: graph.views
  %a = graph.slice %x {offsets = array<i64: 0, 0>, sizes = array<i64: 0, 16>, strides = array<i64: 1, 1>} : (tensor<0x32xf32>) -> tensor<0x16xf32>
  %b = graph.slice %x {offsets = array<i64: 0, 16>, sizes = array<i64: 0, 16>, strides = array<i64: 1, 1>} : (tensor<0x32xf32>) -> tensor<0x16xf32>
  %y = graph.fused %a, %b {program = array<i64: 1, 6, 0, 0, 1, 0, 2>} : (tensor<0x16xf32>, tensor<0x16xf32>) -> tensor<0x16xf32>
  graph.return %y : tensor<0x16xf32>
}
