// RUN: zero-opt %s --raise-composites --split-input-file | FileCheck %s

// nn.GroupNorm as torch writes it before opset 21: a norm of each group as one channel, then scale and bias.
// CHECK-LABEL: inputs = ["torch"]
// CHECK: %[[S:.*]] = graph.read @s
// CHECK: %[[B:.*]] = graph.read @b
// CHECK: %[[Y:.*]], %{{.*}}, %{{.*}} = graph.group_norm %arg0, %[[S]], %[[B]] {epsilon = {{.*}}, groups = 3 : i64} : (tensor<2x6x16xf32>
// CHECK-NEXT: graph.return %[[Y]]
graph.parameter @s : tensor<6xf32> role = trainable
graph.parameter @b : tensor<6xf32> role = trainable
graph.program @micro phase = micro inputs = ["torch"] {
^bb0(%x: tensor<2x6x16xf32>):
  %ones = graph.constant dense<1.0> : tensor<3xf32>
  %zeros = graph.constant dense<0.0> : tensor<3xf32>
  %r = graph.reshape %x {shape = array<i64: 2, 3, 32>} : (tensor<2x6x16xf32>) -> tensor<2x3x32xf32>
  %n, %m, %v = graph.group_norm %r, %ones, %zeros {groups = 3 : i64, epsilon = 1.0e-5 : f64} : (tensor<2x3x32xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<2x3x32xf32>, tensor<2x3xf32>, tensor<2x3xf32>)
  %back = graph.reshape %n {shape = array<i64: 2, 6, 16>} : (tensor<2x3x32xf32>) -> tensor<2x6x16xf32>
  %s = graph.read @s : tensor<6xf32>
  %sc = graph.reshape %s {shape = array<i64: 6, 1>} : (tensor<6xf32>) -> tensor<6x1xf32>
  %p = graph.mul %back, %sc : (tensor<2x6x16xf32>, tensor<6x1xf32>) -> tensor<2x6x16xf32>
  %b = graph.read @b : tensor<6xf32>
  %bc = graph.reshape %b {shape = array<i64: 6, 1>} : (tensor<6xf32>) -> tensor<6x1xf32>
  %y = graph.add %p, %bc : (tensor<2x6x16xf32>, tensor<6x1xf32>) -> tensor<2x6x16xf32>
  graph.return %y : tensor<2x6x16xf32>
}

// -----

// As it writes a norm without scale and bias.
// CHECK-LABEL: inputs = ["numbers"]
// CHECK-DAG: %[[S:.*]] = graph.constant dense<1.{{0*}}e+00> : tensor<6xf32>
// CHECK-DAG: %[[B:.*]] = graph.constant dense<0.{{0*}}e+00> : tensor<6xf32>
// CHECK: %[[Y:.*]], %{{.*}}, %{{.*}} = graph.group_norm %arg0, %[[S]], %[[B]] {epsilon = {{.*}}, groups = 3 : i64} : (tensor<2x6x16xf32>
// CHECK-NEXT: graph.return %[[Y]]
graph.program @micro phase = micro inputs = ["numbers"] {
^bb0(%x: tensor<2x6x16xf32>):
  %ones = graph.constant dense<1.0> : tensor<3xf32>
  %zeros = graph.constant dense<0.0> : tensor<3xf32>
  %one = graph.constant dense<1.0> : tensor<1x1xf32>
  %zero = graph.constant dense<0.0> : tensor<1x1xf32>
  %r = graph.reshape %x {shape = array<i64: 2, 3, 32>} : (tensor<2x6x16xf32>) -> tensor<2x3x32xf32>
  %n, %m, %v = graph.group_norm %r, %ones, %zeros {groups = 3 : i64, epsilon = 1.0e-5 : f64} : (tensor<2x3x32xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<2x3x32xf32>, tensor<2x3xf32>, tensor<2x3xf32>)
  %back = graph.reshape %n {shape = array<i64: 2, 6, 16>} : (tensor<2x3x32xf32>) -> tensor<2x6x16xf32>
  %p = graph.mul %back, %one : (tensor<2x6x16xf32>, tensor<1x1xf32>) -> tensor<2x6x16xf32>
  %y = graph.add %p, %zero : (tensor<2x6x16xf32>, tensor<1x1xf32>) -> tensor<2x6x16xf32>
  graph.return %y : tensor<2x6x16xf32>
}

// -----

// Decomposed over [N, groups, C / groups, rest], without scale and bias.
// CHECK-LABEL: inputs = ["decomposed"]
// CHECK: graph.group_norm %arg0, {{.*}}groups = 3 : i64} : (tensor<2x6x4x4xf32>
// CHECK-NOT: graph.layer_norm
// CHECK: graph.return
graph.program @micro phase = micro inputs = ["decomposed"] {
^bb0(%x: tensor<2x6x4x4xf32>):
  %eps = graph.constant dense<1.0e-05> : tensor<f32>
  %r = graph.reshape %x {shape = array<i64: 2, 3, 2, 16>} : (tensor<2x6x4x4xf32>) -> tensor<2x3x2x16xf32>
  %m = graph.reduce_mean %r {axes = array<i64: 2, 3>, keepdims} : (tensor<2x3x2x16xf32>) -> tensor<2x3x1x1xf32>
  %d = graph.sub %r, %m : (tensor<2x3x2x16xf32>, tensor<2x3x1x1xf32>) -> tensor<2x3x2x16xf32>
  %q = graph.mul %d, %d : (tensor<2x3x2x16xf32>, tensor<2x3x2x16xf32>) -> tensor<2x3x2x16xf32>
  %v = graph.reduce_mean %q {axes = array<i64: 2, 3>, keepdims} : (tensor<2x3x2x16xf32>) -> tensor<2x3x1x1xf32>
  %a = graph.add %v, %eps : (tensor<2x3x1x1xf32>, tensor<f32>) -> tensor<2x3x1x1xf32>
  %w = graph.sqrt %a : (tensor<2x3x1x1xf32>) -> tensor<2x3x1x1xf32>
  %n = graph.div %d, %w : (tensor<2x3x2x16xf32>, tensor<2x3x1x1xf32>) -> tensor<2x3x2x16xf32>
  %y = graph.reshape %n {shape = array<i64: 2, 6, 4, 4>} : (tensor<2x3x2x16xf32>) -> tensor<2x6x4x4xf32>
  graph.return %y : tensor<2x6x4x4xf32>
}

// -----

// Groups of another dimension, a scale of each group, and a norm that somebody else reads, stay.
// CHECK-LABEL: inputs = ["stays",
// CHECK-COUNT-3: graph.group_norm {{.*}} : (tensor<2x3x32xf32>
// CHECK-NOT: graph.group_norm
graph.program @micro phase = micro inputs = ["stays", "s"] {
^bb0(%x: tensor<2x6x16xf32>, %s: tensor<3xf32>):
  %ones = graph.constant dense<1.0> : tensor<3xf32>
  %zeros = graph.constant dense<0.0> : tensor<3xf32>
  %r = graph.reshape %x {shape = array<i64: 2, 3, 32>} : (tensor<2x6x16xf32>) -> tensor<2x3x32xf32>
  %n, %m, %v = graph.group_norm %r, %ones, %zeros {groups = 1 : i64, epsilon = 1.0e-5 : f64} : (tensor<2x3x32xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<2x3x32xf32>, tensor<2x1xf32>, tensor<2x1xf32>)
  %y = graph.reshape %n {shape = array<i64: 2, 6, 16>} : (tensor<2x3x32xf32>) -> tensor<2x6x16xf32>
  %n1, %m1, %v1 = graph.group_norm %r, %s, %zeros {groups = 3 : i64, epsilon = 1.0e-5 : f64} : (tensor<2x3x32xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<2x3x32xf32>, tensor<2x3xf32>, tensor<2x3xf32>)
  %y1 = graph.reshape %n1 {shape = array<i64: 2, 6, 16>} : (tensor<2x3x32xf32>) -> tensor<2x6x16xf32>
  %n2, %m2, %v2 = graph.group_norm %r, %ones, %zeros {groups = 3 : i64, epsilon = 1.0e-5 : f64} : (tensor<2x3x32xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<2x3x32xf32>, tensor<2x3xf32>, tensor<2x3xf32>)
  %y2 = graph.reshape %n2 {shape = array<i64: 2, 6, 16>} : (tensor<2x3x32xf32>) -> tensor<2x6x16xf32>
  graph.return %y, %y1, %y2, %n2 : tensor<2x6x16xf32>, tensor<2x6x16xf32>, tensor<2x6x16xf32>, tensor<2x3x32xf32>
}

// -----

// A norm of each token is a layer norm; so is one of channels that have few elements, of which numbers for each would be as many.
// CHECK-LABEL: inputs = ["tokens", "few"]
// CHECK-NOT: graph.group_norm
// CHECK: graph.layer_norm
// CHECK: graph.layer_norm
// CHECK-NOT: graph.group_norm
graph.program @micro phase = micro inputs = ["tokens", "few"] {
^bb0(%x: tensor<2x6x16xf32>, %few: tensor<2x6x2xf32>):
  %ones = graph.constant dense<1.0> : tensor<4x4xf32>
  %r = graph.reshape %x {shape = array<i64: 2, 6, 4, 4>} : (tensor<2x6x16xf32>) -> tensor<2x6x4x4xf32>
  %n, %m, %i = graph.layer_norm %r, %ones {axis = 2 : i64, epsilon = 1.0e-5 : f64} : (tensor<2x6x4x4xf32>, tensor<4x4xf32>) -> (tensor<2x6x4x4xf32>, tensor<2x6xf32>, tensor<2x6xf32>)
  %y = graph.reshape %n {shape = array<i64: 2, 6, 16>} : (tensor<2x6x4x4xf32>) -> tensor<2x6x16xf32>
  %pair = graph.constant dense<1.0> : tensor<2x2xf32>
  %s = graph.reshape %few {shape = array<i64: 2, 3, 2, 2>} : (tensor<2x6x2xf32>) -> tensor<2x3x2x2xf32>
  %o, %p, %j = graph.layer_norm %s, %pair {axis = 2 : i64, epsilon = 1.0e-5 : f64} : (tensor<2x3x2x2xf32>, tensor<2x2xf32>) -> (tensor<2x3x2x2xf32>, tensor<2x3xf32>, tensor<2x3xf32>)
  %z = graph.reshape %o {shape = array<i64: 2, 6, 2>} : (tensor<2x3x2x2xf32>) -> tensor<2x6x2xf32>
  graph.return %y, %z : tensor<2x6x16xf32>, tensor<2x6x2xf32>
}
