// RUN: zero-opt %s --split-input-file --hoist-reversals | FileCheck %s
// RUN: zero-opt %s --split-input-file --hoist-reversals="views=off" | FileCheck %s --check-prefix=OFF

// The gradient of a rotary embedding: the large factor is turned around, and the table and the signs, once for both heads.
// CHECK-LABEL: graph.program @rotary
// OFF-LABEL: graph.program @rotary
graph.program @rotary phase = micro inputs = ["q", "k", "c", "s"] {
^bb0(%q: tensor<16x4x16xf32>, %k: tensor<16x4x16xf32>, %c: tensor<4x16xf32>, %s: tensor<16xf32>):
  // CHECK: ^bb0(%[[Q:.*]]: tensor<16x4x16xf32>, %[[K:.*]]: tensor<16x4x16xf32>, %[[C:.*]]: tensor<4x16xf32>, %[[S:.*]]: tensor<16xf32>):
  // CHECK-COUNT-4: graph.slice
  // CHECK-NOT: graph.slice
  // CHECK: graph.return
  // OFF-COUNT-2: graph.slice
  // OFF-NOT: graph.slice
  // OFF: graph.return
  %qc = graph.mul %q, %c : (tensor<16x4x16xf32>, tensor<4x16xf32>) -> tensor<16x4x16xf32>
  %qs = graph.mul %qc, %s : (tensor<16x4x16xf32>, tensor<16xf32>) -> tensor<16x4x16xf32>
  %qa = graph.reshape %qs {shape = array<i64: 16, 4, 2, 8>} : (tensor<16x4x16xf32>) -> tensor<16x4x2x8xf32>
  %qt = graph.slice %qa {offsets = array<i64: 0, 0, 1, 0>, sizes = array<i64: 16, 4, 2, 8>, strides = array<i64: 1, 1, -1, 1>} : (tensor<16x4x2x8xf32>) -> tensor<16x4x2x8xf32>
  %qr = graph.reshape %qt {shape = array<i64: 16, 4, 16>} : (tensor<16x4x2x8xf32>) -> tensor<16x4x16xf32>
  %kc = graph.mul %k, %c : (tensor<16x4x16xf32>, tensor<4x16xf32>) -> tensor<16x4x16xf32>
  %ks = graph.mul %kc, %s : (tensor<16x4x16xf32>, tensor<16xf32>) -> tensor<16x4x16xf32>
  %ka = graph.reshape %ks {shape = array<i64: 16, 4, 2, 8>} : (tensor<16x4x16xf32>) -> tensor<16x4x2x8xf32>
  %kt = graph.slice %ka {offsets = array<i64: 0, 0, 1, 0>, sizes = array<i64: 16, 4, 2, 8>, strides = array<i64: 1, 1, -1, 1>} : (tensor<16x4x2x8xf32>) -> tensor<16x4x2x8xf32>
  %kr = graph.reshape %kt {shape = array<i64: 16, 4, 16>} : (tensor<16x4x2x8xf32>) -> tensor<16x4x16xf32>
  graph.return %qr, %kr : tensor<16x4x16xf32>, tensor<16x4x16xf32>
}

// -----

// Two large factors, or a product that is read as it is too: as it was.
// CHECK-LABEL: graph.program @stay
graph.program @stay phase = micro inputs = ["a", "b", "s"] {
^bb0(%a: tensor<4x16xf32>, %b: tensor<4x16xf32>, %s: tensor<16xf32>):
  // CHECK: graph.mul %arg0, %arg1
  // CHECK: graph.mul %arg0, %arg2
  %p = graph.mul %a, %b : (tensor<4x16xf32>, tensor<4x16xf32>) -> tensor<4x16xf32>
  %pa = graph.reshape %p {shape = array<i64: 4, 2, 8>} : (tensor<4x16xf32>) -> tensor<4x2x8xf32>
  %pt = graph.slice %pa {offsets = array<i64: 0, 1, 0>, sizes = array<i64: 4, 2, 8>, strides = array<i64: 1, -1, 1>} : (tensor<4x2x8xf32>) -> tensor<4x2x8xf32>
  %pr = graph.reshape %pt {shape = array<i64: 4, 16>} : (tensor<4x2x8xf32>) -> tensor<4x16xf32>
  %r = graph.mul %a, %s : (tensor<4x16xf32>, tensor<16xf32>) -> tensor<4x16xf32>
  %ra = graph.reshape %r {shape = array<i64: 4, 2, 8>} : (tensor<4x16xf32>) -> tensor<4x2x8xf32>
  %rt = graph.slice %ra {offsets = array<i64: 0, 1, 0>, sizes = array<i64: 4, 2, 8>, strides = array<i64: 1, -1, 1>} : (tensor<4x2x8xf32>) -> tensor<4x2x8xf32>
  %rr = graph.reshape %rt {shape = array<i64: 4, 16>} : (tensor<4x2x8xf32>) -> tensor<4x16xf32>
  graph.return %pr, %rr, %r : tensor<4x16xf32>, tensor<4x16xf32>, tensor<4x16xf32>
}
