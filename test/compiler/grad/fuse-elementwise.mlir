// RUN: zero-opt %s --split-input-file --fuse-elementwise | FileCheck %s
// RUN: zero-opt %s --split-input-file --fuse-elementwise="fuse=off" | FileCheck %s --check-prefix=NONE
// RUN: zero-opt %s --split-input-file --fuse-elementwise="fuse=head" | FileCheck %s --check-prefix=NONE
// RUN: zero-opt %s --split-input-file --fuse-elementwise="kernels-of=cuda" | FileCheck %s
// NONE-NOT: graph.fused

// A chain with a bias, a scale that is a constant, and an expanded column: one program.
// CHECK-LABEL: graph.program @chain
graph.program @chain phase = eval inputs = ["x", "b", "c"] {
^bb0(%x: tensor<2x3xf32>, %b: tensor<3xf32>, %c: tensor<2x1xf32>):
  // CHECK-NEXT: ^bb0(%[[X:.*]]: tensor<2x3xf32>, %[[B:.*]]: tensor<3xf32>, %[[C:.*]]: tensor<2x1xf32>):
  // CHECK: %[[Y:.*]] = graph.fused %[[X]], %[[B]], %[[C]] {program = array<i64: 5, 4, 0, 0, 1, 1, 0, 1073741824, 6, 0, 3, 4, 20, 0, 5, 5, 0, 6, 2, 0, 7>}
  // CHECK-NOT: graph.add
  // CHECK: graph.output %[[Y]]
  %half = graph.constant dense<2.0> : tensor<f32>
  %0 = graph.add %x, %b : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  %1 = graph.mul %0, %half : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  %2 = graph.exp %1 : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %e = graph.expand %c {shape = array<i64: 2, 3>} : (tensor<2x1xf32>) -> tensor<2x3xf32>
  %3 = graph.sub %2, %e : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  graph.output %3 as "y" : tensor<2x3xf32>
  graph.return
}

// -----

// Casts between types; a value that is used behind the group is a second result.
// CHECK-LABEL: graph.program @results
graph.program @results phase = eval inputs = ["x"] {
^bb0(%x: tensor<8xbf16>):
  // CHECK: %[[R:.*]]:2 = graph.fused %{{.*}} {{.*}} : (tensor<8xbf16>) -> (tensor<8xf32>, tensor<8xbf16>)
  // CHECK: graph.softmax %[[R]]#0
  // CHECK: graph.output %[[R]]#1
  %0 = graph.cast %x {to = f32} : (tensor<8xbf16>) -> tensor<8xf32>
  %1 = graph.tanh %0 : (tensor<8xf32>) -> tensor<8xf32>
  %2 = graph.cast %1 {to = bf16} : (tensor<8xf32>) -> tensor<8xbf16>
  %3 = graph.softmax %1 {axis = 0 : i64} : (tensor<8xf32>) -> tensor<8xf32>
  graph.output %2 as "y" : tensor<8xbf16>
  graph.output %3 as "z" : tensor<8xf32>
  graph.return
}

// -----

// Not fused: a value that is read before the group is there; another shape; integers; f64.
// CHECK-LABEL: graph.program @apart
// CHECK-NOT: graph.fused
graph.program @apart phase = eval inputs = ["x", "v", "i", "d"] {
^bb0(%x: tensor<4x4xf32>, %v: tensor<4xf32>, %i: tensor<4xi64>, %d: tensor<4xf64>):
  %0 = graph.exp %x : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = graph.softmax %0 {axis = 1 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %2 = graph.mul %0, %1 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  graph.output %2 as "y" : tensor<4x4xf32>
  %3 = graph.exp %v : (tensor<4xf32>) -> tensor<4xf32>
  %4 = graph.add %1, %3 : (tensor<4x4xf32>, tensor<4xf32>) -> tensor<4x4xf32>
  graph.output %4 as "z" : tensor<4x4xf32>
  %5 = graph.add %i, %i : (tensor<4xi64>, tensor<4xi64>) -> tensor<4xi64>
  %6 = graph.mul %5, %5 : (tensor<4xi64>, tensor<4xi64>) -> tensor<4xi64>
  graph.output %6 as "j" : tensor<4xi64>
  %7 = graph.exp %d : (tensor<4xf64>) -> tensor<4xf64>
  %8 = graph.exp %7 : (tensor<4xf64>) -> tensor<4xf64>
  graph.output %8 as "e" : tensor<4xf64>
  graph.return
}

// -----

// Over the border to the backward nothing is moved: what the forward keeps stays what it was. Its gradient is one program.
graph.parameter @w : tensor<4x4xf32> role = trainable
// CHECK-LABEL: graph.program @border
graph.program @border phase = micro inputs = ["x", "g"] {
^bb0(%x: tensor<4x4xf32>, %g: tensor<4x4xf32>):
  // CHECK: graph.exp
  // CHECK: graph.backward
  // CHECK: %[[D:.*]] = graph.fused
  // CHECK: graph.accumulate_grad @w, %[[D]]
  %loss = graph.reduce_sum %x {axes = array<i64: 0, 1>} : (tensor<4x4xf32>) -> tensor<f32>
  %0 = graph.exp %x : (tensor<4x4xf32>) -> tensor<4x4xf32>
  graph.backward
  %zero = graph.constant dense<0.0> : tensor<4x4xf32>
  %1 = graph.less %zero, %0 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xi1>
  %2 = graph.select %1, %g, %zero : (tensor<4x4xi1>, tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  graph.accumulate_grad @w, %2 : tensor<4x4xf32>
  graph.return %loss : tensor<f32>
}

// -----

// A relu that the backward alone reads is computed there, of what then lives in its stead. One that somebody else reads is
// read, unless the program reads what it is made of anyway.
graph.parameter @w : tensor<4x4xf32> role = trainable
// CHECK-LABEL: graph.program @again
graph.program @again phase = micro inputs = ["x", "y", "g"] {
^bb0(%x: tensor<4x4xf32>, %y: tensor<4x4xf32>, %g: tensor<4x4xf32>):
  // CHECK: ^bb0(%[[X:.*]]: tensor<4x4xf32>, %[[Y:.*]]: tensor<4x4xf32>, %[[G:.*]]: tensor<4x4xf32>):
  // CHECK-NOT: graph.relu %[[X]]
  // CHECK: %[[R:.*]] = graph.relu %[[Y]]
  // CHECK: graph.softmax %[[R]]
  // CHECK: graph.backward
  // CHECK: graph.fused %[[X]], %[[G]] {
  // CHECK: graph.fused %[[Y]], %[[G]] {
  // CHECK: graph.fused %[[R]], %[[G]] {
  %loss = graph.reduce_sum %x {axes = array<i64: 0, 1>} : (tensor<4x4xf32>) -> tensor<f32>
  %zero = graph.constant dense<0.0> : tensor<f32>
  %0 = graph.relu %x : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = graph.relu %y : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %2 = graph.softmax %1 {axis = 1 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  graph.backward
  %3 = graph.less %zero, %0 : (tensor<f32>, tensor<4x4xf32>) -> tensor<4x4xi1>
  %4 = graph.select %3, %g, %zero : (tensor<4x4xi1>, tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32>
  graph.accumulate_grad @w, %4 : tensor<4x4xf32>
  %5 = graph.less %1, %y : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xi1>
  %6 = graph.select %5, %g, %zero : (tensor<4x4xi1>, tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32>
  graph.accumulate_grad @w, %6 : tensor<4x4xf32>
  %7 = graph.less %zero, %1 : (tensor<f32>, tensor<4x4xf32>) -> tensor<4x4xi1>
  %8 = graph.select %7, %g, %zero : (tensor<4x4xi1>, tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32>
  graph.accumulate_grad @w, %8 : tensor<4x4xf32>
  graph.return %loss : tensor<f32>
}

// -----

// Two tensors would wait for the product instead of their sum: it stays where it is.
// CHECK-LABEL: graph.program @waits
// CHECK: graph.add
// CHECK: graph.matmul
// CHECK: graph.mul
graph.program @waits phase = eval inputs = ["x", "y"] {
^bb0(%x: tensor<4x4xf32>, %y: tensor<4x4xf32>):
  %s = graph.softmax %x {axis = 1 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %t = graph.softmax %y {axis = 1 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %0 = graph.add %s, %t : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %m = graph.matmul %x, %y : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = graph.mul %0, %m : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  graph.output %1 as "y" : tensor<4x4xf32>
  graph.return
}

// -----

// What is read before a parameter is assigned is not read behind that.
// CHECK-LABEL: graph.program @changes
// CHECK: graph.exp
// CHECK: graph.assign
// CHECK: graph.mul
graph.parameter @s : tensor<6xf32> role = buffer
graph.program @changes phase = eval inputs = ["x"] {
^bb0(%x: tensor<6xf32>):
  %r = graph.read @s : tensor<6xf32>
  %c = graph.exp %r : (tensor<6xf32>) -> tensor<6xf32>
  graph.assign @s, %x : tensor<6xf32>
  %q = graph.softmax %x {axis = 0 : i64} : (tensor<6xf32>) -> tensor<6xf32>
  %y = graph.mul %c, %q : (tensor<6xf32>, tensor<6xf32>) -> tensor<6xf32>
  graph.return %y, %q : tensor<6xf32>, tensor<6xf32>
}

// -----

// A gated layer: the gradient of its gate waits for nothing, and is computed with the other factor's, which reads the
// same; silu, which only they need behind the border, is computed again of what is saved anyway.
// CHECK-LABEL: graph.program @micro
graph.parameter @w : tensor<8x8xf32> role = trainable
graph.program @micro phase = micro inputs = ["g", "u"] {
^bb0(%g: tensor<4x8xf32>, %u: tensor<4x8xf32>):
  // CHECK: ^bb0(%[[G:.*]]: tensor<4x8xf32>, %[[U:.*]]: tensor<4x8xf32>):
  // CHECK: %[[H:.*]] = graph.matmul %[[G]],
  // CHECK: %[[P:.*]] = graph.fused %[[H]], %[[U]] {{.*}} -> tensor<4x8xf32>
  // CHECK: graph.backward
  // CHECK: %[[DY:.*]] = graph.matmul
  // CHECK-NEXT: %[[D:.*]]:2 = graph.fused %{{.*}}, %{{.*}}, %{{.*}} {program = {{.*}}} : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>)
  // CHECK-NOT: graph.silu
  %w = graph.read @w : tensor<8x8xf32>
  %h = graph.matmul %g, %w : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %a = graph.silu %h : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %y = graph.mul %a, %u : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %z = graph.matmul %y, %w : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  graph.backward
  %dy = graph.matmul %z, %w {trans_rhs} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %da = graph.mul %dy, %u : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %du = graph.mul %dy, %a : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %dw = graph.matmul %y, %du {trans_lhs} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  graph.accumulate_grad @w, %dw : tensor<8x8xf32>
  %dg = graph.silu_grad %da, %h : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %dw2 = graph.matmul %y, %dg {trans_lhs} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  graph.accumulate_grad @w, %dw2 : tensor<8x8xf32>
  graph.return %z : tensor<4x8xf32>
}

// -----

// What a program computes for an operation that takes it has the shape that its inputs give it: what is broadcast is not
// all of them.
// CHECK-LABEL: graph.program @pooled
graph.parameter @s : tensor<32xf32> role = trainable
graph.parameter @b : tensor<32xf32> role = trainable
graph.program @pooled phase = micro inputs = ["x", "g", "m", "v"] {
^bb0(%x: tensor<2x16x32xf32>, %g: tensor<2x1x32xf32>, %m: tensor<32xf32>, %v: tensor<32xf32>):
  // CHECK: graph.backward
  // CHECK: %[[E:.*]] = graph.expand
  // CHECK: graph.fused_into %[[E]], %{{.*}} {{.*}}into = "batch_norm_grad_sums"
  %s = graph.read @s : tensor<32xf32>
  %half = graph.constant dense<0.5> : tensor<f32>
  graph.backward
  %e = graph.expand %g {shape = array<i64: 2, 16, 32>} : (tensor<2x1x32xf32>) -> tensor<2x16x32xf32>
  %h = graph.mul %e, %half : (tensor<2x16x32xf32>, tensor<f32>) -> tensor<2x16x32xf32>
  %ds, %db, %f, %a, %c = graph.batch_norm_grad_sums %h, %x, %s, %m, %v {epsilon = 1.0e-5 : f64, channels_last} : (tensor<2x16x32xf32>, tensor<2x16x32xf32>, tensor<32xf32>, tensor<32xf32>, tensor<32xf32>) -> (tensor<32xf32>, tensor<32xf32>, tensor<32xf32>, tensor<32xf32>, tensor<32xf32>)
  graph.accumulate_grad @s, %ds : tensor<32xf32>
  graph.accumulate_grad @b, %db : tensor<32xf32>
  graph.return
}
