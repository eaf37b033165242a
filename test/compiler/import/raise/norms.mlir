// RUN: zero-opt %s --raise-composites --split-input-file | FileCheck %s

// As TorchScript writes it below opset 17.
// CHECK-LABEL: inputs = ["layer_norm"]
// CHECK: %[[S:.*]] = graph.read @s
// CHECK: %[[B:.*]] = graph.read @b
// CHECK: %[[Y:.*]], %{{.*}}, %{{.*}} = graph.layer_norm %{{.*}}, %[[S]], %[[B]] {axis = 1 : i64, epsilon = {{9.99.*E-6|1.0.*e-05}} : f64}
// CHECK-NEXT: graph.return %[[Y]]
graph.parameter @s : tensor<8xf32> role = trainable
graph.parameter @b : tensor<8xf32> role = trainable
graph.program @micro phase = micro inputs = ["layer_norm"] {
^bb0(%x: tensor<4x8xf32>):
  %two = graph.constant dense<2.0> : tensor<f32>
  %eps = graph.constant dense<1.0e-05> : tensor<f32>
  %m = graph.reduce_mean %x {axes = array<i64: 1>, keepdims} : (tensor<4x8xf32>) -> tensor<4x1xf32>
  %d = graph.sub %x, %m : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
  %p = graph.pow %d, %two : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  %v = graph.reduce_mean %p {axes = array<i64: 1>, keepdims} : (tensor<4x8xf32>) -> tensor<4x1xf32>
  %a = graph.add %v, %eps : (tensor<4x1xf32>, tensor<f32>) -> tensor<4x1xf32>
  %q = graph.sqrt %a : (tensor<4x1xf32>) -> tensor<4x1xf32>
  %n = graph.div %d, %q : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
  %s = graph.read @s : tensor<8xf32>
  %w = graph.mul %n, %s : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %b = graph.read @b : tensor<8xf32>
  %y = graph.add %w, %b : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  graph.return %y : tensor<4x8xf32>
}

// -----

// With a reciprocal (torch.export) and x * x.
// CHECK-LABEL: inputs = ["rms_norm"]
// CHECK: %[[S:.*]] = graph.read @s
// CHECK: %[[Y:.*]], %{{.*}} = graph.rms_norm %{{.*}}, %[[S]] {axis = 1 : i64
// CHECK-NEXT: graph.return %[[Y]]
graph.parameter @s : tensor<8xf32> role = trainable
graph.program @micro phase = micro inputs = ["rms_norm"] {
^bb0(%x: tensor<4x8xf32>):
  %eps = graph.constant dense<1.0e-06> : tensor<f32>
  %p = graph.mul %x, %x : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %v = graph.reduce_mean %p {axes = array<i64: 1>, keepdims} : (tensor<4x8xf32>) -> tensor<4x1xf32>
  %a = graph.add %v, %eps : (tensor<4x1xf32>, tensor<f32>) -> tensor<4x1xf32>
  %q = graph.sqrt %a : (tensor<4x1xf32>) -> tensor<4x1xf32>
  %r = graph.reciprocal %q : (tensor<4x1xf32>) -> tensor<4x1xf32>
  %n = graph.mul %x, %r : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
  %s = graph.read @s : tensor<8xf32>
  %y = graph.mul %s, %n : (tensor<8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  graph.return %y : tensor<4x8xf32>
}

// -----

// A mean over the first dimension is no norm of this kind.
// CHECK-LABEL: inputs = ["columns"]
// CHECK-NOT: graph.rms_norm
// CHECK: graph.return
graph.parameter @s : tensor<8xf32> role = trainable
graph.program @micro phase = micro inputs = ["columns"] {
^bb0(%x: tensor<4x8xf32>):
  %eps = graph.constant dense<1.0e-06> : tensor<f32>
  %p = graph.mul %x, %x : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %v = graph.reduce_mean %p {axes = array<i64: 0>, keepdims} : (tensor<4x8xf32>) -> tensor<1x8xf32>
  %a = graph.add %v, %eps : (tensor<1x8xf32>, tensor<f32>) -> tensor<1x8xf32>
  %q = graph.sqrt %a : (tensor<1x8xf32>) -> tensor<1x8xf32>
  %n = graph.div %x, %q : (tensor<4x8xf32>, tensor<1x8xf32>) -> tensor<4x8xf32>
  %s = graph.read @s : tensor<8xf32>
  %y = graph.mul %n, %s : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  graph.return %y : tensor<4x8xf32>
}

// -----

// torch's std: its root is not taken of 0, where its derivative is infinite. A root of other squares stays what it is.
// CHECK-LABEL: inputs = ["deviation"]
// CHECK: %[[V:.*]] = graph.div
// CHECK: %[[IS:.*]] = graph.equal %[[V]]
// CHECK: %[[P:.*]] = graph.select %[[IS]], %{{.*}}, %[[V]]
// CHECK: %[[ROOT:.*]] = graph.sqrt %[[P]]
// CHECK: %[[S:.*]] = graph.select %[[IS]], %{{.*}}, %[[ROOT]]
// CHECK: %[[U:.*]] = graph.reduce_mean
// CHECK-NEXT: %[[R:.*]] = graph.sqrt %[[U]]
// CHECK-NEXT: graph.return %[[S]], %[[R]]
graph.program @micro phase = micro inputs = ["deviation"] {
^bb0(%x: tensor<4x8xf32>):
  %n = graph.constant dense<8.0> : tensor<f32>
  %less = graph.constant dense<7.0> : tensor<f32>
  %m = graph.reduce_mean %x {axes = array<i64: 1>, keepdims} : (tensor<4x8xf32>) -> tensor<4x1xf32>
  %d = graph.sub %x, %m : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
  %p = graph.mul %d, %d : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %b = graph.reduce_mean %p {axes = array<i64: 1>} : (tensor<4x8xf32>) -> tensor<4xf32>
  %t = graph.mul %b, %n : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %v = graph.div %t, %less : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %s = graph.sqrt %v : (tensor<4xf32>) -> tensor<4xf32>
  %q = graph.mul %x, %x : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %u = graph.reduce_mean %q {axes = array<i64: 1>} : (tensor<4x8xf32>) -> tensor<4xf32>
  %r = graph.sqrt %u : (tensor<4xf32>) -> tensor<4xf32>
  graph.return %s, %r : tensor<4xf32>, tensor<4xf32>
}

// -----

// Without a scale it is 1; what multiplies rows is none.
// CHECK-LABEL: inputs = ["bare", "gate"]
// CHECK: %[[ONE:.*]] = graph.constant dense<1.000000e+00> : tensor<8xf32>
// CHECK: %[[Y:.*]], %{{.*}} = graph.rms_norm %{{.*}}, %[[ONE]] {axis = 1 : i64
// CHECK: graph.mul %[[Y]],
// CHECK: graph.layer_norm %{{.*}}, %{{.*}} {axis = 1 : i64
// CHECK-NOT: graph.sqrt
graph.program @micro phase = micro inputs = ["bare", "gate"] {
^bb0(%x: tensor<4x8xf32>, %gate: tensor<4x1xf32>):
  %eps = graph.constant dense<1.0e-06> : tensor<f32>
  %p = graph.mul %x, %x : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %v = graph.reduce_mean %p {axes = array<i64: 1>, keepdims} : (tensor<4x8xf32>) -> tensor<4x1xf32>
  %a = graph.add %v, %eps : (tensor<4x1xf32>, tensor<f32>) -> tensor<4x1xf32>
  %q = graph.sqrt %a : (tensor<4x1xf32>) -> tensor<4x1xf32>
  %r = graph.reciprocal %q : (tensor<4x1xf32>) -> tensor<4x1xf32>
  %n = graph.mul %x, %r : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
  %g = graph.mul %n, %gate : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
  %m = graph.reduce_mean %g {axes = array<i64: 1>, keepdims} : (tensor<4x8xf32>) -> tensor<4x1xf32>
  %d = graph.sub %g, %m : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
  %e = graph.mul %d, %d : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %w = graph.reduce_mean %e {axes = array<i64: 1>, keepdims} : (tensor<4x8xf32>) -> tensor<4x1xf32>
  %b = graph.add %w, %eps : (tensor<4x1xf32>, tensor<f32>) -> tensor<4x1xf32>
  %s = graph.sqrt %b : (tensor<4x1xf32>) -> tensor<4x1xf32>
  %y = graph.div %d, %s : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
  graph.return %y : tensor<4x8xf32>
}
