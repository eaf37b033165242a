// RUN: zero-opt %s --split-input-file --infer-ranges | FileCheck %s

// Positions may count from the end; labels shifted by one are most of the input. What no operation looks up by has none.
// CHECK: graph.program @micro phase = micro inputs = ["ids", "labels", "x"]
// CHECK-SAME: ranges = [#graph.index_range<lowest = -8, limit = 8>, #graph.index_range<limit = 2, ignored = -100, label = true, shift = 1>, #graph.index_range<>]
graph.program @micro phase = micro inputs = ["ids", "labels", "x"] {
^bb0(%i: tensor<2x4xi32>, %t: tensor<2x4xi64>, %x: tensor<6x2xf32>):
  %w = graph.read @w : tensor<8x3xf32>
  %long = graph.cast %i {to = i64} : (tensor<2x4xi32>) -> tensor<2x4xi64>
  %turned = graph.transpose %long {permutation = array<i64: 1, 0>} : (tensor<2x4xi64>) -> tensor<4x2xi64>
  %h = graph.gather %w, %turned {axis = 0 : i64} : (tensor<8x3xf32>, tensor<4x2xi64>) -> tensor<4x2x3xf32>
  %s = graph.slice %t {offsets = array<i64: 0, 1>, sizes = array<i64: 2, 3>, strides = array<i64: 1, 1>} : (tensor<2x4xi64>) -> tensor<2x3xi64>
  %f = graph.reshape %s {shape = array<i64: 6>} : (tensor<2x3xi64>) -> tensor<6xi64>
  %l, %e = graph.cross_entropy %x, %f {ignore_index = -100 : i64} : (tensor<6x2xf32>, tensor<6xi64>) -> (tensor<f32>, tensor<6xf32>)
  graph.return %l, %h : tensor<f32>, tensor<4x2x3xf32>
}
graph.parameter @w : tensor<8x3xf32> role = trainable

// -----

// What one column must hold another need not: neither indices nor labels of a few elements say what all are. A table of four and one of
// eight: of both, what both have.
// CHECK: graph.program @micro phase = micro inputs = ["ids", "columns"]
// CHECK-SAME: ranges = [#graph.index_range<lowest = -4, limit = 4>, #graph.index_range<>]
graph.program @micro phase = micro inputs = ["ids", "columns"] {
^bb0(%i: tensor<3xi64>, %c: tensor<3x4xi64>):
  %four = graph.read @four : tensor<4x2xf32>
  %eight = graph.read @eight : tensor<8x2xf32>
  %a = graph.gather %four, %i {axis = 0 : i64} : (tensor<4x2xf32>, tensor<3xi64>) -> tensor<3x2xf32>
  %b = graph.gather %eight, %i {axis = 0 : i64} : (tensor<8x2xf32>, tensor<3xi64>) -> tensor<3x2xf32>
  %s = graph.slice %c {offsets = array<i64: 0, 0>, sizes = array<i64: 3, 3>, strides = array<i64: 1, 1>} : (tensor<3x4xi64>) -> tensor<3x3xi64>
  %d = graph.gather %four, %s {axis = 0 : i64} : (tensor<4x2xf32>, tensor<3x3xi64>) -> tensor<3x3x2xf32>
  %one = graph.slice %c {offsets = array<i64: 0, 0>, sizes = array<i64: 3, 1>, strides = array<i64: 1, 1>} : (tensor<3x4xi64>) -> tensor<3x1xi64>
  %t = graph.reshape %one {shape = array<i64: 3>} : (tensor<3x1xi64>) -> tensor<3xi64>
  %l, %e = graph.cross_entropy %a, %t {ignore_index = -100 : i64} : (tensor<3x2xf32>, tensor<3xi64>) -> (tensor<f32>, tensor<3xf32>)
  graph.return %l, %b, %d : tensor<f32>, tensor<3x2xf32>, tensor<3x3x2xf32>
}
graph.parameter @four : tensor<4x2xf32> role = trainable
graph.parameter @eight : tensor<8x2xf32> role = trainable

// -----

// Where no label is ignored none is said to be.
// CHECK: graph.program @micro phase = micro inputs = ["labels", "x"]
// CHECK-SAME: ranges = [#graph.index_range<limit = 2, label = true, shift = 0>, #graph.index_range<>]
graph.program @micro phase = micro inputs = ["labels", "x"] {
^bb0(%t: tensor<3xi64>, %x: tensor<3x2xf32>):
  %l, %e = graph.cross_entropy %x, %t {ignore_index = -9223372036854775808 : i64} : (tensor<3x2xf32>, tensor<3xi64>) -> (tensor<f32>, tensor<3xf32>)
  graph.return %l : tensor<f32>
}

// -----

// Nothing is looked up: nothing is said.
// CHECK: graph.program @micro phase = micro inputs = ["x"] {
graph.program @micro phase = micro inputs = ["x"] {
^bb0(%x: tensor<f32>):
  graph.return %x : tensor<f32>
}
