// RUN: zero-opt %s --split-input-file --split-sums | FileCheck %s
// RUN: zero-opt %s --split-input-file --split-sums="fuse=off" | FileCheck %s --check-prefix=WHOLE
// RUN: zero-opt %s --split-input-file --split-sums="kernels-of=cuda" | FileCheck %s
// RUN: zero-opt %s --split-input-file --split-sums --fuse-elementwise | FileCheck %s --check-prefix=FUSED
// WHOLE-NOT: graph.batch_norm_statistics
// WHOLE-NOT: graph.batch_norm_grad_sums

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
