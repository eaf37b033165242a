// RUN: zero-opt %s --split-input-file --zero-model-axis="world-size=4 tensor-parallel=2" | FileCheck %s

// What is in the middle of a tensor is gathered as whole runs of bytes, and brought there.
// CHECK-LABEL: graph.program @micro
// CHECK: %[[ROWS:.*]] = graph.reshape %{{.*}} {shape = array<i64: 1, 4, 8>} : (tensor<4x8xf32>) -> tensor<1x4x8xf32>
// CHECK-NEXT: %[[ALL:.*]] = graph.all_gather %[[ROWS]] {dim = 0 : i64, ranks = 2 : i64} : (tensor<1x4x8xf32>) -> tensor<2x4x8xf32>
// CHECK-NEXT: %[[T:.*]] = graph.transpose %[[ALL]] {permutation = array<i64: 1, 0, 2>}
// CHECK-NEXT: graph.reshape %[[T]] {shape = array<i64: 4, 16>}
// Rows are runs already.
// CHECK: graph.all_gather %{{.*}} {dim = 0 : i64, ranks = 2 : i64} : (tensor<4x8xf32>) -> tensor<8x8xf32>
// CHECK: graph.all_gather %{{.*}} {dim = 1 : i64, ranks = 2 : i64} : (tensor<1x8xf32>) -> tensor<1x16xf32>
graph.program @micro phase = micro inputs = ["x"] {
^bb0(%x: tensor<4x8xf32>):
  %a = graph.all_gather %x {dim = 1 : i64, ranks = 2 : i64} : (tensor<4x8xf32>) -> tensor<4x16xf32>
  %b = graph.all_gather %x {dim = 0 : i64, ranks = 2 : i64} : (tensor<4x8xf32>) -> tensor<8x8xf32>
  %r = graph.slice %x {offsets = array<i64: 0, 0>, sizes = array<i64: 1, 8>, strides = array<i64: 1, 1>} : (tensor<4x8xf32>) -> tensor<1x8xf32>
  %c = graph.all_gather %r {dim = 1 : i64, ranks = 2 : i64} : (tensor<1x8xf32>) -> tensor<1x16xf32>
  graph.output %a as "a" {kind = #graph<output_kind value>} : tensor<4x16xf32>
  graph.output %b as "b" {kind = #graph<output_kind value>} : tensor<8x8xf32>
  graph.output %c as "c" {kind = #graph<output_kind value>} : tensor<1x16xf32>
  graph.return
}

// -----

// Parts are brought one after another before what is not a rank's is left.
// CHECK-LABEL: graph.program @micro
// CHECK: %[[RUNS:.*]] = graph.reshape %{{.*}} {shape = array<i64: 4, 2, 4>} : (tensor<4x8xf32>) -> tensor<4x2x4xf32>
// CHECK-NEXT: %[[T:.*]] = graph.transpose %[[RUNS]] {permutation = array<i64: 1, 0, 2>}
// CHECK-NEXT: %[[PART:.*]] = graph.reduce_scatter %[[T]] {dim = 0 : i64, ranks = 2 : i64} : (tensor<2x4x4xf32>) -> tensor<1x4x4xf32>
// CHECK-NEXT: graph.reshape %[[PART]] {shape = array<i64: 4, 4>}
// CHECK: graph.all_slice %{{.*}} {dim = 0 : i64, ranks = 2 : i64} : (tensor<2x4x4xf32>) -> tensor<1x4x4xf32>
// A maximum is found among all ranks'.
// CHECK: graph.all_reduce
// CHECK: %[[FLAT:.*]] = graph.reshape %{{.*}} {shape = array<i64: 1, 32>}
// CHECK: %[[BOTH:.*]] = graph.all_gather %[[FLAT]] {dim = 0 : i64, ranks = 2 : i64} : (tensor<1x32xf32>) -> tensor<2x32xf32>
// CHECK: graph.reduce_max %[[BOTH]]
// A rank's offset is an element of what all have.
// CHECK: %[[TABLE:.*]] = graph.constant dense<[0, 128]> : tensor<2xi64>
// CHECK: %[[OWN:.*]] = graph.all_slice %[[TABLE]] {dim = 0 : i64, ranks = 2 : i64} : (tensor<2xi64>) -> tensor<1xi64>
// CHECK: graph.reshape %[[OWN]] {shape = array<i64>}
graph.program @micro phase = micro inputs = ["x"] {
^bb0(%x: tensor<4x8xf32>):
  %a = graph.reduce_scatter %x {dim = 1 : i64, ranks = 2 : i64} : (tensor<4x8xf32>) -> tensor<4x4xf32>
  %b = graph.all_slice %x {dim = 1 : i64, ranks = 2 : i64} : (tensor<4x8xf32>) -> tensor<4x4xf32>
  %s = graph.all_reduce %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %m = graph.all_reduce %x {max} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %o = graph.rank_offset {type = tensor<i64>, stride = 128 : i64} : () -> tensor<i64>
  graph.output %a as "a" {kind = #graph<output_kind value>} : tensor<4x4xf32>
  graph.output %b as "b" {kind = #graph<output_kind value>} : tensor<4x4xf32>
  graph.output %s as "s" {kind = #graph<output_kind value>} : tensor<4x8xf32>
  graph.output %m as "m" {kind = #graph<output_kind value>} : tensor<4x8xf32>
  graph.output %o as "o" {kind = #graph<output_kind value>} : tensor<i64>
  graph.return
}
