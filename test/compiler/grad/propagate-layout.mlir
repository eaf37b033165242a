// RUN: zero-opt %s --split-input-file --propagate-layout | FileCheck %s
// RUN: zero-opt %s --split-input-file --propagate-layout="layout=nchw" | FileCheck %s --check-prefix=NONE
// RUN: zero-opt %s --split-input-file --propagate-layout="kernels-of=cuda matmul-precision=tf32" | FileCheck %s
// RUN: zero-opt %s --split-input-file --propagate-layout="kernels-of=cuda" | FileCheck %s --check-prefix=GPU
// NONE-NOT: channels_last
// GPU-NOT: channels_last

// Two convolutions, a norm, a relu, a residual: one chain, with transposes where it begins and ends.
graph.parameter @w : tensor<8x8x3x3xf32> role = trainable
// CHECK-LABEL: graph.program @chain
graph.program @chain phase = micro inputs = ["x", "s"] {
^bb0(%x: tensor<2x8x6x6xf32>, %s: tensor<8xf32>):
  // CHECK: %[[W:.*]] = graph.read @w
  // CHECK: %[[T:.*]] = graph.transpose %{{.*}} {permutation = array<i64: 0, 2, 3, 1>} : (tensor<2x8x6x6xf32>) -> tensor<2x6x6x8xf32>
  // CHECK: %[[A:.*]] = graph.conv %[[T]], %[[W]] {channels_last, {{.*}}} : (tensor<2x6x6x8xf32>, tensor<8x8x3x3xf32>) -> tensor<2x6x6x8xf32>
  // CHECK: %[[N:.*]], %{{.*}}, %{{.*}} = graph.batch_norm %[[A]], {{.*}} {channels_last, epsilon
  // CHECK: %[[R:.*]] = graph.relu %[[N]]
  // CHECK: %[[B:.*]] = graph.conv %[[R]], %[[W]] {channels_last
  // CHECK: %[[S:.*]] = graph.add %[[B]], %[[T]]
  // CHECK: %[[Y:.*]] = graph.transpose %[[S]] {permutation = array<i64: 0, 3, 1, 2>} : (tensor<2x6x6x8xf32>) -> tensor<2x8x6x6xf32>
  // CHECK: graph.return %[[Y]]
  %w = graph.read @w : tensor<8x8x3x3xf32>
  %a = graph.conv %x, %w {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, low = array<i64: 1, 1>, high = array<i64: 1, 1>, groups = 1 : i64} : (tensor<2x8x6x6xf32>, tensor<8x8x3x3xf32>) -> tensor<2x8x6x6xf32>
  %n, %m, %v = graph.batch_norm %a, %s, %s {epsilon = 1.0e-5 : f64} : (tensor<2x8x6x6xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<2x8x6x6xf32>, tensor<8xf32>, tensor<8xf32>)
  %r = graph.relu %n : (tensor<2x8x6x6xf32>) -> tensor<2x8x6x6xf32>
  %b = graph.conv %r, %w {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, low = array<i64: 1, 1>, high = array<i64: 1, 1>, groups = 1 : i64} : (tensor<2x8x6x6xf32>, tensor<8x8x3x3xf32>) -> tensor<2x8x6x6xf32>
  %y = graph.add %b, %x : (tensor<2x8x6x6xf32>, tensor<2x8x6x6xf32>) -> tensor<2x8x6x6xf32>
  graph.return %y : tensor<2x8x6x6xf32>
}

// -----

// So do group norms, forward and backward.
graph.parameter @w : tensor<8x8x3x3xf32> role = trainable
// CHECK-LABEL: graph.program @groups
graph.program @groups phase = micro inputs = ["x", "s"] {
^bb0(%x: tensor<2x8x6x6xf32>, %s: tensor<8xf32>):
  // CHECK: %[[A:.*]] = graph.conv {{.*}} -> tensor<2x6x6x8xf32>
  // CHECK: %[[N:.*]], %{{.*}}, %{{.*}} = graph.group_norm %[[A]], {{.*}} {channels_last, epsilon {{.*}} groups = 4 {{.*}} -> (tensor<2x6x6x8xf32>, tensor<2x4xf32>, tensor<2x4xf32>)
  // CHECK: %[[R:.*]] = graph.silu %[[N]]
  // CHECK: %[[B:.*]] = graph.conv %[[R]], {{.*}} {channels_last
  // CHECK: %[[D:.*]], %{{.*}}, %{{.*}} = graph.group_norm_grad %{{.*}}, %[[B]], {{.*}} {channels_last, {{.*}} -> (tensor<2x6x6x8xf32>, tensor<8xf32>, tensor<8xf32>)
  // CHECK: %[[Y:.*]] = graph.transpose %[[D]]
  // CHECK: graph.return %[[Y]]
  %w = graph.read @w : tensor<8x8x3x3xf32>
  %a = graph.conv %x, %w {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, low = array<i64: 1, 1>, high = array<i64: 1, 1>, groups = 1 : i64} : (tensor<2x8x6x6xf32>, tensor<8x8x3x3xf32>) -> tensor<2x8x6x6xf32>
  %n, %m, %v = graph.group_norm %a, %s, %s {groups = 4 : i64, epsilon = 1.0e-5 : f64} : (tensor<2x8x6x6xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<2x8x6x6xf32>, tensor<2x4xf32>, tensor<2x4xf32>)
  %r = graph.silu %n : (tensor<2x8x6x6xf32>) -> tensor<2x8x6x6xf32>
  %b = graph.conv %r, %w {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, low = array<i64: 1, 1>, high = array<i64: 1, 1>, groups = 1 : i64} : (tensor<2x8x6x6xf32>, tensor<8x8x3x3xf32>) -> tensor<2x8x6x6xf32>
  %g = graph.conv %b, %w {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, low = array<i64: 1, 1>, high = array<i64: 1, 1>, groups = 1 : i64} : (tensor<2x8x6x6xf32>, tensor<8x8x3x3xf32>) -> tensor<2x8x6x6xf32>
  %d, %ds, %db = graph.group_norm_grad %g, %b, %s, %m, %v {groups = 4 : i64, epsilon = 1.0e-5 : f64} : (tensor<2x8x6x6xf32>, tensor<2x8x6x6xf32>, tensor<8xf32>, tensor<2x4xf32>, tensor<2x4xf32>) -> (tensor<2x8x6x6xf32>, tensor<8xf32>, tensor<8xf32>)
  graph.return %d : tensor<2x8x6x6xf32>
}

// -----

// A convolution alone, as that which makes patches of an image, stays, with its gradient.
// CHECK-LABEL: graph.program @alone
// CHECK-NOT: channels_last
graph.program @alone phase = micro inputs = ["x", "w", "g"] {
^bb0(%x: tensor<2x3x8x8xf32>, %w: tensor<12x3x2x2xf32>, %g: tensor<2x12x4x4xf32>):
  %a = graph.conv %x, %w {strides = array<i64: 2, 2>, dilations = array<i64: 1, 1>, low = array<i64: 0, 0>, high = array<i64: 0, 0>, groups = 1 : i64} : (tensor<2x3x8x8xf32>, tensor<12x3x2x2xf32>) -> tensor<2x12x4x4xf32>
  %p = graph.reshape %a {shape = array<i64: 2, 12, 16>} : (tensor<2x12x4x4xf32>) -> tensor<2x12x16xf32>
  %d = graph.conv_weight_grad %x, %g {strides = array<i64: 2, 2>, dilations = array<i64: 1, 1>, low = array<i64: 0, 0>, high = array<i64: 0, 0>, groups = 1 : i64, kernel = array<i64: 2, 2>} : (tensor<2x3x8x8xf32>, tensor<2x12x4x4xf32>) -> tensor<12x3x2x2xf32>
  graph.return %p, %d : tensor<2x12x16xf32>, tensor<12x3x2x2xf32>
}

// -----

// Axes are renamed, operands that broadcast are reshaped, constants made in the other order. A plane of one element is
// brought back by a reshape, and a transpose that the model has itself is the border.
// CHECK-LABEL: graph.program @others
graph.program @others phase = micro inputs = ["x", "w", "c", "t"] {
^bb0(%x: tensor<1x6x6x4xf32>, %w: tensor<4x4x1x1xf32>, %c: tensor<4x1x1xf32>, %t: tensor<6x6xf32>):
  // CHECK-NOT: graph.transpose %{{.*}} {permutation = array<i64: 0, 3, 1, 2>}
  // CHECK: %[[K:.*]] = graph.constant dense<0.000000e+00> : tensor<1x6x6x4xf32>
  // CHECK: %[[A:.*]] = graph.conv %arg0, %arg1 {channels_last
  // CHECK: %[[B:.*]] = graph.conv %[[A]], %arg1 {channels_last
  // CHECK: %[[C:.*]] = graph.reshape %arg2 {shape = array<i64: 1, 1, 1, 4>}
  // CHECK: %[[S:.*]] = graph.mul %[[B]], %[[C]] : (tensor<1x6x6x4xf32>, tensor<1x1x1x4xf32>)
  // CHECK: %[[P:.*]] = graph.reshape %arg3 {shape = array<i64: 1, 6, 6, 1>}
  // CHECK: %[[Q:.*]] = graph.add %[[S]], %[[P]]
  // CHECK: %[[L:.*]] = graph.less %[[K]], %[[Q]]
  // CHECK: %[[E:.*]] = graph.concat %[[Q]], %[[Q]] {axis = 3 : i64}
  // CHECK: %[[D:.*]] = graph.pad %[[E]] {high = array<i64: 0, 1, 2, 0>, low = array<i64: 0, 0, 0, 0>
  // CHECK: graph.slice %[[D]] {offsets = array<i64: 0, 1, 2, 3>, sizes = array<i64: 1, 6, 6, 5>
  // CHECK: %[[M:.*]] = graph.reduce_mean %[[Q]] {axes = array<i64: 1, 2>, keepdims} : (tensor<1x6x6x4xf32>) -> tensor<1x1x1x4xf32>
  // CHECK: graph.expand %[[M]] {shape = array<i64: 1, 6, 6, 4>}
  // CHECK: graph.reshape %[[M]] {shape = array<i64: 1, 4>}
  // CHECK: graph.reduce_sum %[[Q]] {axes = array<i64: 0, 1, 2>} : (tensor<1x6x6x4xf32>) -> tensor<4xf32>
  // CHECK: graph.max_pool %[[Q]] {channels_last
  // CHECK: graph.softmax %[[Q]] {axis = 3 : i64}
  %n = graph.transpose %x {permutation = array<i64: 0, 3, 1, 2>} : (tensor<1x6x6x4xf32>) -> tensor<1x4x6x6xf32>
  %a = graph.conv %n, %w {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, low = array<i64: 0, 0>, high = array<i64: 0, 0>, groups = 1 : i64} : (tensor<1x4x6x6xf32>, tensor<4x4x1x1xf32>) -> tensor<1x4x6x6xf32>
  %b = graph.conv %a, %w {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, low = array<i64: 0, 0>, high = array<i64: 0, 0>, groups = 1 : i64} : (tensor<1x4x6x6xf32>, tensor<4x4x1x1xf32>) -> tensor<1x4x6x6xf32>
  %s = graph.mul %b, %c : (tensor<1x4x6x6xf32>, tensor<4x1x1xf32>) -> tensor<1x4x6x6xf32>
  %q = graph.add %s, %t : (tensor<1x4x6x6xf32>, tensor<6x6xf32>) -> tensor<1x4x6x6xf32>
  %z = graph.constant dense<0.0> : tensor<1x4x6x6xf32>
  %l = graph.less %z, %q : (tensor<1x4x6x6xf32>, tensor<1x4x6x6xf32>) -> tensor<1x4x6x6xi1>
  %e = graph.concat %q, %q {axis = 1 : i64} : (tensor<1x4x6x6xf32>, tensor<1x4x6x6xf32>) -> tensor<1x8x6x6xf32>
  %d = graph.pad %e {low = array<i64: 0, 0, 0, 0>, high = array<i64: 0, 0, 1, 2>, value = 0.0 : f64} : (tensor<1x8x6x6xf32>) -> tensor<1x8x7x8xf32>
  %f = graph.slice %d {offsets = array<i64: 0, 3, 1, 2>, sizes = array<i64: 1, 5, 6, 6>, strides = array<i64: 1, 1, 1, 1>} : (tensor<1x8x7x8xf32>) -> tensor<1x5x6x6xf32>
  %m = graph.reduce_mean %q {axes = array<i64: 2, 3>, keepdims} : (tensor<1x4x6x6xf32>) -> tensor<1x4x1x1xf32>
  %g = graph.expand %m {shape = array<i64: 1, 4, 6, 6>} : (tensor<1x4x1x1xf32>) -> tensor<1x4x6x6xf32>
  %h = graph.reshape %m {shape = array<i64: 1, 4>} : (tensor<1x4x1x1xf32>) -> tensor<1x4xf32>
  %i = graph.reduce_sum %q {axes = array<i64: 0, 2, 3>} : (tensor<1x4x6x6xf32>) -> tensor<4xf32>
  %j, %k = graph.max_pool %q {kernel = array<i64: 6, 6>, strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, low = array<i64: 0, 0>, sizes = array<i64: 1, 1>} : (tensor<1x4x6x6xf32>) -> (tensor<1x4x1x1xf32>, tensor<1x4x1x1xi32>)
  %o = graph.transpose %q {permutation = array<i64: 0, 2, 3, 1>} : (tensor<1x4x6x6xf32>) -> tensor<1x6x6x4xf32>
  %p = graph.softmax %o {axis = 3 : i64} : (tensor<1x6x6x4xf32>) -> tensor<1x6x6x4xf32>
  %r = graph.select %l, %q, %g : (tensor<1x4x6x6xi1>, tensor<1x4x6x6xf32>, tensor<1x4x6x6xf32>) -> tensor<1x4x6x6xf32>
  %u = graph.reduce_sum %r {axes = array<i64: 0, 2, 3>} : (tensor<1x4x6x6xf32>) -> tensor<4xf32>
  %v = graph.reduce_sum %f {axes = array<i64: 0, 2, 3>} : (tensor<1x5x6x6xf32>) -> tensor<5xf32>
  graph.return %h, %i, %p, %u, %v, %j : tensor<1x4xf32>, tensor<4xf32>, tensor<1x6x6x4xf32>, tensor<4xf32>, tensor<5xf32>, tensor<1x4x1x1xf32>
}

// -----

// What one chain makes is the weight of another's convolution: it is brought back for it.
// CHECK-LABEL: graph.program @exemplar
graph.program @exemplar phase = micro inputs = ["x", "z", "w"] {
^bb0(%x: tensor<1x8x9x9xf32>, %z: tensor<1x8x3x3xf32>, %w: tensor<8x8x1x1xf32>):
  // CHECK: %[[A:.*]] = graph.conv %{{.*}}, %arg2 {channels_last, {{.*}}} : (tensor<1x3x3x8xf32>, tensor<8x8x1x1xf32>) -> tensor<1x3x3x8xf32>
  // CHECK: %[[E:.*]] = graph.conv %[[A]], %arg2 {channels_last
  // CHECK: %[[B:.*]] = graph.conv %[[E]], %arg2 {channels_last
  // CHECK: %[[C:.*]] = graph.conv %{{.*}}, %arg2 {channels_last, {{.*}}} : (tensor<1x9x9x8xf32>, tensor<8x8x1x1xf32>) -> tensor<1x9x9x8xf32>
  // CHECK: %[[D:.*]] = graph.conv %[[C]], %arg2 {channels_last
  // CHECK: %[[Y:.*]] = graph.transpose %[[B]] {permutation = array<i64: 0, 3, 1, 2>}
  // CHECK: graph.conv %[[D]], %[[Y]] {channels_last, {{.*}}} : (tensor<1x9x9x8xf32>, tensor<1x8x3x3xf32>) -> tensor<1x7x7x1xf32>
  %a = graph.conv %z, %w {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, low = array<i64: 0, 0>, high = array<i64: 0, 0>, groups = 1 : i64} : (tensor<1x8x3x3xf32>, tensor<8x8x1x1xf32>) -> tensor<1x8x3x3xf32>
  %e = graph.conv %a, %w {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, low = array<i64: 0, 0>, high = array<i64: 0, 0>, groups = 1 : i64} : (tensor<1x8x3x3xf32>, tensor<8x8x1x1xf32>) -> tensor<1x8x3x3xf32>
  %b = graph.conv %e, %w {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, low = array<i64: 0, 0>, high = array<i64: 0, 0>, groups = 1 : i64} : (tensor<1x8x3x3xf32>, tensor<8x8x1x1xf32>) -> tensor<1x8x3x3xf32>
  %c = graph.conv %x, %w {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, low = array<i64: 0, 0>, high = array<i64: 0, 0>, groups = 1 : i64} : (tensor<1x8x9x9xf32>, tensor<8x8x1x1xf32>) -> tensor<1x8x9x9xf32>
  %d = graph.conv %c, %w {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, low = array<i64: 0, 0>, high = array<i64: 0, 0>, groups = 1 : i64} : (tensor<1x8x9x9xf32>, tensor<8x8x1x1xf32>) -> tensor<1x8x9x9xf32>
  %y = graph.conv %d, %b {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, low = array<i64: 0, 0>, high = array<i64: 0, 0>, groups = 1 : i64} : (tensor<1x8x9x9xf32>, tensor<1x8x3x3xf32>) -> tensor<1x1x7x7xf32>
  graph.return %y : tensor<1x1x7x7xf32>
}

// -----

// Of rank 3 there and back is one permutation; between two chains it is a border of both.
// CHECK-LABEL: graph.program @mixer
graph.program @mixer phase = micro inputs = ["x", "w"] {
^bb0(%x: tensor<2x8x8xf32>, %w: tensor<8x8x1xf32>):
  // CHECK: %[[T:.*]] = graph.transpose %arg0 {permutation = array<i64: 0, 2, 1>}
  // CHECK: %[[A:.*]] = graph.conv %[[T]], %arg1 {channels_last
  // CHECK: %[[B:.*]] = graph.conv %[[A]], %arg1 {channels_last
  // CHECK: %[[C:.*]] = graph.conv %{{.*}}, %arg1 {channels_last
  // CHECK: graph.return %{{.*}}, %{{.*}} : tensor<2x8x8xf32>, tensor<2x8x8xf32>
  %a = graph.conv %x, %w {strides = array<i64: 1>, dilations = array<i64: 1>, low = array<i64: 0>, high = array<i64: 0>, groups = 1 : i64} : (tensor<2x8x8xf32>, tensor<8x8x1xf32>) -> tensor<2x8x8xf32>
  %b = graph.conv %a, %w {strides = array<i64: 1>, dilations = array<i64: 1>, low = array<i64: 0>, high = array<i64: 0>, groups = 1 : i64} : (tensor<2x8x8xf32>, tensor<8x8x1xf32>) -> tensor<2x8x8xf32>
  %t = graph.transpose %b {permutation = array<i64: 0, 2, 1>} : (tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %c = graph.conv %t, %w {strides = array<i64: 1>, dilations = array<i64: 1>, low = array<i64: 0>, high = array<i64: 0>, groups = 1 : i64} : (tensor<2x8x8xf32>, tensor<8x8x1xf32>) -> tensor<2x8x8xf32>
  %u = graph.transpose %c {permutation = array<i64: 0, 2, 1>} : (tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  graph.return %u, %c : tensor<2x8x8xf32>, tensor<2x8x8xf32>
}

// -----

// GPUs multiply 16-bit numbers channels last; all of the above stays there.
// CHECK-LABEL: graph.program @halves
// GPU-LABEL: graph.program @halves
graph.program @halves phase = micro inputs = ["x", "w"] {
^bb0(%x: tensor<2x8x6x6xbf16>, %w: tensor<8x8x3x3xbf16>):
  // CHECK: %[[A:.*]] = graph.conv %{{.*}} {channels_last
  // CHECK: graph.conv %[[A]], %{{.*}} {channels_last
  // GPU: %[[T:.*]] = graph.transpose %{{.*}} {permutation = array<i64: 0, 2, 3, 1>}
  // GPU: %[[A:.*]] = graph.conv %[[T]], %{{.*}} {channels_last
  // GPU: graph.conv %[[A]], %{{.*}} {channels_last
  %a = graph.conv %x, %w {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, low = array<i64: 1, 1>, high = array<i64: 1, 1>, groups = 1 : i64} : (tensor<2x8x6x6xbf16>, tensor<8x8x3x3xbf16>) -> tensor<2x8x6x6xbf16>
  %b = graph.conv %a, %w {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, low = array<i64: 1, 1>, high = array<i64: 1, 1>, groups = 1 : i64} : (tensor<2x8x6x6xbf16>, tensor<8x8x3x3xbf16>) -> tensor<2x8x6x6xbf16>
  graph.return %b : tensor<2x8x6x6xbf16>
}

// -----

// A border that meets transposes of the model: rows of pixels are channels last already, so that a reshape is left; a
// result of which the model has rows is brought there by one transpose, or none.
// CHECK-LABEL: graph.program @rows
graph.program @rows phase = micro inputs = ["x", "w"] {
^bb0(%x: tensor<2x36x8xf32>, %w: tensor<8x8x3x3xf32>):
  // CHECK-NOT: graph.transpose
  // CHECK: %[[X:.*]] = graph.reshape %arg0 {shape = array<i64: 2, 6, 6, 8>}
  // CHECK: %[[A:.*]] = graph.conv %[[X]], %arg1 {channels_last
  // CHECK: %[[B:.*]] = graph.conv %[[A]], %arg1 {channels_last
  // CHECK: %[[Y:.*]] = graph.reshape %[[B]] {shape = array<i64: 2, 36, 8>}
  // CHECK-NEXT: graph.return %[[Y]]
  %t = graph.transpose %x {permutation = array<i64: 0, 2, 1>} : (tensor<2x36x8xf32>) -> tensor<2x8x36xf32>
  %n = graph.reshape %t {shape = array<i64: 2, 8, 6, 6>} : (tensor<2x8x36xf32>) -> tensor<2x8x6x6xf32>
  %a = graph.conv %n, %w {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, low = array<i64: 1, 1>, high = array<i64: 1, 1>, groups = 1 : i64} : (tensor<2x8x6x6xf32>, tensor<8x8x3x3xf32>) -> tensor<2x8x6x6xf32>
  %b = graph.conv %a, %w {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, low = array<i64: 1, 1>, high = array<i64: 1, 1>, groups = 1 : i64} : (tensor<2x8x6x6xf32>, tensor<8x8x3x3xf32>) -> tensor<2x8x6x6xf32>
  %p = graph.reshape %b {shape = array<i64: 2, 8, 36>} : (tensor<2x8x6x6xf32>) -> tensor<2x8x36xf32>
  %y = graph.transpose %p {permutation = array<i64: 0, 2, 1>} : (tensor<2x8x36xf32>) -> tensor<2x36x8xf32>
  graph.return %y : tensor<2x36x8xf32>
}

// -----

// Two that do not undo each other are one, where nobody else reads what is between; a reshape that cuts across
// dimensions keeps both.
// CHECK-LABEL: graph.program @heads
graph.program @heads phase = micro inputs = ["x", "w"] {
^bb0(%x: tensor<2x8x6x6xf32>, %w: tensor<8x8x3x3xf32>):
  // CHECK: %[[A:.*]] = graph.conv %{{.*}}, %arg1 {channels_last
  // CHECK: %[[B:.*]] = graph.conv %[[A]], %arg1 {channels_last
  // CHECK: %[[C:.*]] = graph.conv %[[B]], %arg1 {channels_last
  // CHECK: %[[R:.*]] = graph.reshape %[[B]] {shape = array<i64: 2, 36, 2, 4>}
  // CHECK: %[[Y:.*]] = graph.transpose %[[R]] {permutation = array<i64: 0, 2, 1, 3>} : (tensor<2x36x2x4xf32>) -> tensor<2x2x36x4xf32>
  // CHECK: %[[F:.*]] = graph.transpose %[[C]] {permutation = array<i64: 0, 3, 1, 2>}
  // CHECK: %[[Q:.*]] = graph.reshape %[[F]] {shape = array<i64: 2, 9, 32>}
  // CHECK: %[[Z:.*]] = graph.transpose %[[Q]] {permutation = array<i64: 0, 2, 1>}
  // CHECK: graph.return %[[Y]], %[[Z]]
  %a = graph.conv %x, %w {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, low = array<i64: 1, 1>, high = array<i64: 1, 1>, groups = 1 : i64} : (tensor<2x8x6x6xf32>, tensor<8x8x3x3xf32>) -> tensor<2x8x6x6xf32>
  %b = graph.conv %a, %w {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, low = array<i64: 1, 1>, high = array<i64: 1, 1>, groups = 1 : i64} : (tensor<2x8x6x6xf32>, tensor<8x8x3x3xf32>) -> tensor<2x8x6x6xf32>
  %c = graph.conv %b, %w {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, low = array<i64: 1, 1>, high = array<i64: 1, 1>, groups = 1 : i64} : (tensor<2x8x6x6xf32>, tensor<8x8x3x3xf32>) -> tensor<2x8x6x6xf32>
  %p = graph.reshape %b {shape = array<i64: 2, 2, 4, 36>} : (tensor<2x8x6x6xf32>) -> tensor<2x2x4x36xf32>
  %y = graph.transpose %p {permutation = array<i64: 0, 1, 3, 2>} : (tensor<2x2x4x36xf32>) -> tensor<2x2x36x4xf32>
  %q = graph.reshape %c {shape = array<i64: 2, 9, 32>} : (tensor<2x8x6x6xf32>) -> tensor<2x9x32xf32>
  %z = graph.transpose %q {permutation = array<i64: 0, 2, 1>} : (tensor<2x9x32xf32>) -> tensor<2x32x9xf32>
  graph.return %y, %z : tensor<2x2x36x4xf32>, tensor<2x32x9xf32>
}
