// RUN: zero-opt %s --split-input-file --split-sums | FileCheck %s
// RUN: zero-opt %s --split-input-file --split-sums="fuse=off" | FileCheck %s --check-prefix=WHOLE
// RUN: zero-opt %s --split-input-file --split-sums="kernels-of=cuda" | FileCheck %s
// RUN: zero-opt %s --split-input-file --split-sums --fuse-elementwise | FileCheck %s --check-prefix=FUSED
// WHOLE-NOT: graph.batch_norm_statistics
// WHOLE-NOT: graph.batch_norm_grad_sums
// WHOLE-NOT: graph.group_norm_statistics
// WHOLE-NOT: graph.group_norm_grad_sums

// A norm and a relu: sums, then one program. In the backward the relu's gradient is computed while it is summed, and again
// for the norm's; what the relu gave, of the norm's input.
graph.parameter @s : tensor<32xf32> role = trainable
graph.parameter @b : tensor<32xf32> role = trainable
// CHECK-LABEL: graph.program @norm
// FUSED-LABEL: graph.program @norm
graph.program @norm phase = micro inputs = ["x", "g"] {
^bb0(%x: tensor<2x16x32xf32>, %g: tensor<2x16x32xf32>):
  // CHECK: %[[M:.*]], %[[V:.*]], %[[F:.*]], %[[T:.*]] = graph.batch_norm_statistics %[[X:.*]], %{{.*}}, %{{.*}} {channels_last, epsilon
  // CHECK: %[[C:.*]] = graph.sub %[[X]], %[[M]] :
  // CHECK: %[[P:.*]] = graph.mul %[[C]], %[[F]] :
  // CHECK: %[[N:.*]] = graph.add %[[P]], %[[T]] :
  // CHECK: graph.relu %[[N]]
  // CHECK: graph.backward
  // CHECK: graph.batch_norm_grad_sums
  // CHECK: %[[D:.*]] = graph.mul %{{.*}}, %{{.*}} : (tensor<32xf32>, tensor<2x16x32xf32>)
  // CHECK: graph.softmax %[[D]]
  // FUSED: %[[M:.*]], %{{.*}}, %[[F:.*]], %[[T:.*]] = graph.batch_norm_statistics %[[X:.*]], %[[S:.*]], %{{.*}} {channels_last
  // FUSED-NEXT: %[[Y:.*]] = graph.fused %[[X]], %[[M]], %[[F]], %[[T]] {program = array<i64: 4, 5, 0, 0, 1, 6, 0, 4, 2, 4, 0, 5, 3, 29, 0, 6, 0, 7>}
  // FUSED-NEXT: graph.softmax %[[Y]]
  // FUSED-NEXT: graph.backward
  // FUSED-NEXT: %[[R:.*]]:5 = graph.fused_into %[[X]], %[[M]], %[[F]], %[[T]], %[[G:.*]], %[[X]], %[[S]], %[[M]], %{{.*}} {{.*}}into = "batch_norm_grad_sums"
  // FUSED-NEXT: %[[D:.*]] = graph.fused %[[X]], %[[M]], %[[F]], %[[T]], %[[G]], %[[R]]#3, %[[R]]#4, %[[R]]#2 {
  // FUSED-NEXT: graph.softmax %[[D]]
  // FUSED-NOT: graph.fused
  %s = graph.read @s : tensor<32xf32>
  %b = graph.read @b : tensor<32xf32>
  %zero = graph.constant dense<0.0> : tensor<f32>
  %n, %m, %v = graph.batch_norm %x, %s, %b {epsilon = 1.0e-5 : f64, channels_last} : (tensor<2x16x32xf32>, tensor<32xf32>, tensor<32xf32>) -> (tensor<2x16x32xf32>, tensor<32xf32>, tensor<32xf32>)
  %y = graph.relu %n : (tensor<2x16x32xf32>) -> tensor<2x16x32xf32>
  %p = graph.softmax %y {axis = 2 : i64} : (tensor<2x16x32xf32>) -> tensor<2x16x32xf32>
  graph.backward
  %f = graph.less %zero, %y : (tensor<f32>, tensor<2x16x32xf32>) -> tensor<2x16x32xi1>
  %h = graph.select %f, %g, %zero : (tensor<2x16x32xi1>, tensor<2x16x32xf32>, tensor<f32>) -> tensor<2x16x32xf32>
  %dx, %ds, %db = graph.batch_norm_grad %h, %x, %s, %m, %v {epsilon = 1.0e-5 : f64, channels_last} : (tensor<2x16x32xf32>, tensor<2x16x32xf32>, tensor<32xf32>, tensor<32xf32>, tensor<32xf32>) -> (tensor<2x16x32xf32>, tensor<32xf32>, tensor<32xf32>)
  %q = graph.softmax %dx {axis = 2 : i64} : (tensor<2x16x32xf32>) -> tensor<2x16x32xf32>
  graph.accumulate_grad @s, %ds : tensor<32xf32>
  graph.accumulate_grad @b, %db : tensor<32xf32>
  graph.return
}

// -----

// Whole: a norm that nothing elementwise follows, a gradient that somebody else reads too, one of two tensors, and what
// computes in f64.
// CHECK-LABEL: graph.program @whole
graph.program @whole phase = micro inputs = ["x", "s", "g", "m", "d", "e", "k", "l"] {
^bb0(%x: tensor<2x4x3xf32>, %s: tensor<3xf32>, %g: tensor<2x4x3xf32>, %m: tensor<3xf32>, %d: tensor<2x4x3xf64>, %e: tensor<3xf64>, %k: tensor<2x4x3xf32>, %l: tensor<2x4x3xf32>):
  // CHECK-NOT: graph.batch_norm_statistics
  // CHECK-NOT: graph.batch_norm_grad_sums
  %n, %mean, %v = graph.batch_norm %x, %s, %s {epsilon = 1.0e-5 : f64, channels_last} : (tensor<2x4x3xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<2x4x3xf32>, tensor<3xf32>, tensor<3xf32>)
  %p = graph.softmax %n {axis = 2 : i64} : (tensor<2x4x3xf32>) -> tensor<2x4x3xf32>
  %h = graph.neg %g : (tensor<2x4x3xf32>) -> tensor<2x4x3xf32>
  %dx, %ds, %db = graph.batch_norm_grad %h, %x, %s, %m, %m {epsilon = 1.0e-5 : f64, channels_last} : (tensor<2x4x3xf32>, tensor<2x4x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<2x4x3xf32>, tensor<3xf32>, tensor<3xf32>)
  %q = graph.softmax %h {axis = 2 : i64} : (tensor<2x4x3xf32>) -> tensor<2x4x3xf32>
  %a = graph.add %k, %l : (tensor<2x4x3xf32>, tensor<2x4x3xf32>) -> tensor<2x4x3xf32>
  %ax, %as, %ab = graph.batch_norm_grad %a, %x, %s, %m, %m {epsilon = 1.0e-5 : f64, channels_last} : (tensor<2x4x3xf32>, tensor<2x4x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<2x4x3xf32>, tensor<3xf32>, tensor<3xf32>)
  %dn, %dm, %dv = graph.batch_norm %d, %e, %e {epsilon = 1.0e-5 : f64, channels_last} : (tensor<2x4x3xf64>, tensor<3xf64>, tensor<3xf64>) -> (tensor<2x4x3xf64>, tensor<3xf64>, tensor<3xf64>)
  %r = graph.relu %dn : (tensor<2x4x3xf64>) -> tensor<2x4x3xf64>
  graph.return
}

// -----

// Group norms are apart in either order: what each sample's channels are multiplied by broadcasts. In the backward the
// norm's own work joins what adds the gradient of a path around it.
graph.parameter @s : tensor<32xf32> role = trainable
graph.parameter @b : tensor<32xf32> role = trainable
// CHECK-LABEL: graph.program @groups
// FUSED-LABEL: graph.program @groups
graph.program @groups phase = micro inputs = ["x", "g", "r"] {
^bb0(%x: tensor<2x16x32xbf16>, %g: tensor<2x16x32xbf16>, %r: tensor<2x16x32xbf16>):
  // CHECK: %[[M:.*]], %[[V:.*]], %[[C:.*]], %[[F:.*]], %[[T:.*]] = graph.group_norm_statistics %[[X:.*]], %{{.*}}, %{{.*}} {channels_last, epsilon {{.*}} -> (tensor<2x8xf32>, tensor<2x8xf32>, tensor<2x1x32xf32>, tensor<2x1x32xf32>, tensor<2x1x32xf32>)
  // CHECK: %[[W:.*]] = graph.cast %[[X]]
  // CHECK: %[[D:.*]] = graph.sub %[[W]], %[[C]] :
  // CHECK: %[[P:.*]] = graph.mul %[[D]], %[[F]] :
  // CHECK: %[[N:.*]] = graph.add %[[P]], %[[T]] :
  // CHECK: graph.backward
  // CHECK: graph.group_norm_grad_sums %{{.*}}, %[[X]], %{{.*}}, %[[M]], %[[V]] {channels_last
  // FUSED: graph.group_norm_statistics
  // FUSED: graph.fused
  // FUSED: graph.softmax
  // FUSED: graph.backward
  // FUSED: graph.group_norm_grad_sums
  // FUSED-NEXT: %[[DX:.*]] = graph.fused
  // FUSED-NEXT: graph.softmax %[[DX]]
  %s0 = graph.read @s : tensor<32xf32>
  %b0 = graph.read @b : tensor<32xf32>
  %s = graph.cast %s0 {to = bf16} : (tensor<32xf32>) -> tensor<32xbf16>
  %b = graph.cast %b0 {to = bf16} : (tensor<32xf32>) -> tensor<32xbf16>
  %n, %m, %v = graph.group_norm %x, %s, %b {groups = 8 : i64, epsilon = 1.0e-5 : f64, channels_last} : (tensor<2x16x32xbf16>, tensor<32xbf16>, tensor<32xbf16>) -> (tensor<2x16x32xbf16>, tensor<2x8xf32>, tensor<2x8xf32>)
  %y = graph.silu %n : (tensor<2x16x32xbf16>) -> tensor<2x16x32xbf16>
  %p = graph.softmax %y {axis = 2 : i64} : (tensor<2x16x32xbf16>) -> tensor<2x16x32xbf16>
  graph.backward
  %dx, %ds, %db = graph.group_norm_grad %g, %x, %s, %m, %v {groups = 8 : i64, epsilon = 1.0e-5 : f64, channels_last} : (tensor<2x16x32xbf16>, tensor<2x16x32xbf16>, tensor<32xbf16>, tensor<2x8xf32>, tensor<2x8xf32>) -> (tensor<2x16x32xbf16>, tensor<32xbf16>, tensor<32xbf16>)
  %a = graph.add %dx, %r : (tensor<2x16x32xbf16>, tensor<2x16x32xbf16>) -> tensor<2x16x32xbf16>
  %q = graph.softmax %a {axis = 2 : i64} : (tensor<2x16x32xbf16>) -> tensor<2x16x32xbf16>
  graph.return
}

// -----

// CHECK-LABEL: graph.program @planes
graph.program @planes phase = micro inputs = ["x", "s", "d", "e"] {
^bb0(%x: tensor<2x32x16xf32>, %s: tensor<32xf32>, %d: tensor<2x4x3xf64>, %e: tensor<4xf64>):
  // CHECK: %{{.*}}, %{{.*}}, %[[C:.*]], %[[F:.*]], %[[T:.*]] = graph.group_norm_statistics {{.*}} -> (tensor<2x8xf32>, tensor<2x8xf32>, tensor<2x32x1xf32>, tensor<2x32x1xf32>, tensor<2x32x1xf32>)
  // CHECK: graph.sub %{{.*}}, %[[C]] :
  // CHECK: %[[P:.*]] = graph.mul %{{.*}}, %[[F]] :
  // CHECK: graph.add %[[P]], %[[T]] :
  %n, %m, %v = graph.group_norm %x, %s, %s {groups = 8 : i64, epsilon = 1.0e-5 : f64} : (tensor<2x32x16xf32>, tensor<32xf32>, tensor<32xf32>) -> (tensor<2x32x16xf32>, tensor<2x8xf32>, tensor<2x8xf32>)
  %y = graph.silu %n : (tensor<2x32x16xf32>) -> tensor<2x32x16xf32>
  // What computes in f64, and what nothing elementwise follows, is whole.
  // CHECK-NOT: graph.group_norm_statistics
  %dn, %dm, %dv = graph.group_norm %d, %e, %e {groups = 2 : i64, epsilon = 1.0e-5 : f64} : (tensor<2x4x3xf64>, tensor<4xf64>, tensor<4xf64>) -> (tensor<2x4x3xf64>, tensor<2x2xf64>, tensor<2x2xf64>)
  %r = graph.silu %dn : (tensor<2x4x3xf64>) -> tensor<2x4x3xf64>
  %w, %wm, %wv = graph.group_norm %x, %s, %s {groups = 8 : i64, epsilon = 1.0e-5 : f64} : (tensor<2x32x16xf32>, tensor<32xf32>, tensor<32xf32>) -> (tensor<2x32x16xf32>, tensor<2x8xf32>, tensor<2x8xf32>)
  %p = graph.softmax %w {axis = 2 : i64} : (tensor<2x32x16xf32>) -> tensor<2x32x16xf32>
  graph.return
}
