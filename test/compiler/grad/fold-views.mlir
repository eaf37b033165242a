// RUN: zero-opt %s --split-input-file --fold-views | FileCheck %s
// RUN: zero-opt %s --split-input-file --fold-views="views=off" | FileCheck %s --check-prefix=NONE
// RUN: zero-opt %s --split-input-file --fold-views="kernels-of=cuda" | FileCheck %s
// NONE-NOT: graph.views

// Queries, keys and values of one linear layer, forward and backward: nothing is copied.
// CHECK-LABEL: graph.program @packed
graph.program @packed phase = micro inputs = ["x", "g"] {
^bb0(%x: tensor<10x24xf32>, %g: tensor<2x5x8xf32>):
  // CHECK-NEXT: ^bb0(%[[X0:.*]]: tensor<10x24xf32>, %[[G0:.*]]: tensor<2x5x8xf32>):
  // CHECK-NEXT: %[[X:.*]] = graph.reshape %[[X0]]
  // CHECK-NEXT: %[[Y:.*]], %[[LSE:.*]] = graph.attention %[[X]], %[[X]], %[[X]] {causal,
  // CHECK-SAME: views = #graph.views<[<0 + 0[2, 2, 5, 4] by[120, 4, 24, 1]>, <1 + 8[2, 2, 5, 4] by[120, 4, 24, 1]>, <2 + 16[2, 2, 5, 4] by[120, 4, 24, 1]>, <3 + 0[2, 2, 5, 4] by[40, 4, 8, 1]>, <4 + 0[2, 2, 5] by[10, 5, 1]>] -> [tensor<2x5x8xf32>, tensor<2x2x5xf32>]>}
  // CHECK-NEXT: %[[G:.*]] = graph.reshape %[[G0]]
  // CHECK-NEXT: %[[D:.*]] = graph.attention_grad %[[G]], %[[X]], %[[X]], %[[X]], %[[Y]], %[[LSE]]
  // CHECK-SAME: <0 + 0[2, 2, 5, 4] by[40, 4, 8, 1]>
  // CHECK-SAME: <4 + 0[2, 2, 5, 4] by[40, 4, 8, 1]>
  // CHECK-SAME: <6 + 0[2, 2, 5, 4] by[120, 4, 24, 1]>, <6 + 8[2, 2, 5, 4] by[120, 4, 24, 1]>, <6 + 16[2, 2, 5, 4] by[120, 4, 24, 1]>] -> [tensor<2x5x24xf32>]
  // CHECK-NEXT: graph.return %[[Y]], %[[D]]
  %whole = graph.reshape %x {shape = array<i64: 2, 5, 24>} : (tensor<10x24xf32>) -> tensor<2x5x24xf32>
  %s0 = graph.slice %whole {offsets = array<i64: 0, 0, 0>, sizes = array<i64: 2, 5, 8>, strides = array<i64: 1, 1, 1>} : (tensor<2x5x24xf32>) -> tensor<2x5x8xf32>
  %s1 = graph.slice %whole {offsets = array<i64: 0, 0, 8>, sizes = array<i64: 2, 5, 8>, strides = array<i64: 1, 1, 1>} : (tensor<2x5x24xf32>) -> tensor<2x5x8xf32>
  %s2 = graph.slice %whole {offsets = array<i64: 0, 0, 16>, sizes = array<i64: 2, 5, 8>, strides = array<i64: 1, 1, 1>} : (tensor<2x5x24xf32>) -> tensor<2x5x8xf32>
  %r0 = graph.reshape %s0 {shape = array<i64: 2, 5, 2, 4>} : (tensor<2x5x8xf32>) -> tensor<2x5x2x4xf32>
  %r1 = graph.reshape %s1 {shape = array<i64: 2, 5, 2, 4>} : (tensor<2x5x8xf32>) -> tensor<2x5x2x4xf32>
  %r2 = graph.reshape %s2 {shape = array<i64: 2, 5, 2, 4>} : (tensor<2x5x8xf32>) -> tensor<2x5x2x4xf32>
  %q = graph.transpose %r0 {permutation = array<i64: 0, 2, 1, 3>} : (tensor<2x5x2x4xf32>) -> tensor<2x2x5x4xf32>
  %k = graph.transpose %r1 {permutation = array<i64: 0, 2, 1, 3>} : (tensor<2x5x2x4xf32>) -> tensor<2x2x5x4xf32>
  %v = graph.transpose %r2 {permutation = array<i64: 0, 2, 1, 3>} : (tensor<2x5x2x4xf32>) -> tensor<2x2x5x4xf32>
  %y, %lse = graph.attention %q, %k, %v {scale = 0.5 : f64, causal} : (tensor<2x2x5x4xf32>, tensor<2x2x5x4xf32>, tensor<2x2x5x4xf32>) -> (tensor<2x2x5x4xf32>, tensor<2x2x5xf32>)
  %t = graph.transpose %y {permutation = array<i64: 0, 2, 1, 3>} : (tensor<2x2x5x4xf32>) -> tensor<2x5x2x4xf32>
  %r = graph.reshape %t {shape = array<i64: 2, 5, 8>} : (tensor<2x5x2x4xf32>) -> tensor<2x5x8xf32>
  %g0 = graph.reshape %g {shape = array<i64: 2, 5, 2, 4>} : (tensor<2x5x8xf32>) -> tensor<2x5x2x4xf32>
  %dy = graph.transpose %g0 {permutation = array<i64: 0, 2, 1, 3>} : (tensor<2x5x2x4xf32>) -> tensor<2x2x5x4xf32>
  %dq, %dk, %dv = graph.attention_grad %dy, %q, %k, %v, %y, %lse {scale = 0.5 : f64, causal} : (tensor<2x2x5x4xf32>, tensor<2x2x5x4xf32>, tensor<2x2x5x4xf32>, tensor<2x2x5x4xf32>, tensor<2x2x5x4xf32>, tensor<2x2x5xf32>) -> (tensor<2x2x5x4xf32>, tensor<2x2x5x4xf32>, tensor<2x2x5x4xf32>)
  %t0 = graph.transpose %dq {permutation = array<i64: 0, 2, 1, 3>} : (tensor<2x2x5x4xf32>) -> tensor<2x5x2x4xf32>
  %t1 = graph.transpose %dk {permutation = array<i64: 0, 2, 1, 3>} : (tensor<2x2x5x4xf32>) -> tensor<2x5x2x4xf32>
  %t2 = graph.transpose %dv {permutation = array<i64: 0, 2, 1, 3>} : (tensor<2x2x5x4xf32>) -> tensor<2x5x2x4xf32>
  %d0 = graph.reshape %t0 {shape = array<i64: 2, 5, 8>} : (tensor<2x5x2x4xf32>) -> tensor<2x5x8xf32>
  %d1 = graph.reshape %t1 {shape = array<i64: 2, 5, 8>} : (tensor<2x5x2x4xf32>) -> tensor<2x5x8xf32>
  %d2 = graph.reshape %t2 {shape = array<i64: 2, 5, 8>} : (tensor<2x5x2x4xf32>) -> tensor<2x5x8xf32>
  %d = graph.concat %d0, %d1, %d2 {axis = 2 : i64} : (tensor<2x5x8xf32>, tensor<2x5x8xf32>, tensor<2x5x8xf32>) -> tensor<2x5x24xf32>
  graph.return %r, %d : tensor<2x5x8xf32>, tensor<2x5x24xf32>
}

// -----

// A copy that somebody else reads stays, and is what is read: keys. A result that somebody else reads as it is stays too.
// CHECK-LABEL: graph.program @others
graph.program @others phase = micro inputs = ["q", "k", "v"] {
^bb0(%q0: tensor<1x5x2x4xf32>, %k0: tensor<1x5x2x4xf32>, %v: tensor<1x2x5x4xf32>):
  // CHECK: %[[K:.*]] = graph.transpose %arg1 {
  // CHECK-NEXT: %[[N:.*]] = graph.neg %[[K]]
  // CHECK-NEXT: %[[Y:.*]], %{{.*}} = graph.attention %{{.*}}, %[[K]], %{{.*}} {scale = 5.000000e-01 : f64, views = #graph.views<[<0 + 0[1, 2, 5, 4] by[40, 4, 8, 1]>, <1 + 0[1, 2, 5, 4] by[40, 20, 4, 1]>,
  // CHECK-SAME: <3 + 0[1, 2, 5, 4] by[40, 20, 4, 1]>
  // CHECK-NEXT: %[[T:.*]] = graph.transpose %[[Y]]
  // CHECK-NEXT: graph.return %[[N]], %[[T]], %[[Y]]
  %q = graph.transpose %q0 {permutation = array<i64: 0, 2, 1, 3>} : (tensor<1x5x2x4xf32>) -> tensor<1x2x5x4xf32>
  %k = graph.transpose %k0 {permutation = array<i64: 0, 2, 1, 3>} : (tensor<1x5x2x4xf32>) -> tensor<1x2x5x4xf32>
  %n = graph.neg %k : (tensor<1x2x5x4xf32>) -> tensor<1x2x5x4xf32>
  %y, %lse = graph.attention %q, %k, %v {scale = 0.5 : f64} : (tensor<1x2x5x4xf32>, tensor<1x2x5x4xf32>, tensor<1x2x5x4xf32>) -> (tensor<1x2x5x4xf32>, tensor<1x2x5xf32>)
  %t = graph.transpose %y {permutation = array<i64: 0, 2, 1, 3>} : (tensor<1x2x5x4xf32>) -> tensor<1x5x2x4xf32>
  graph.return %n, %t, %y : tensor<1x2x5x4xf32>, tensor<1x5x2x4xf32>, tensor<1x2x5x4xf32>
}

// -----

// Not read where they are: rows that are not in one piece (keys of [B, H, D, T]), a third of a tensor that would have to live in
// its stead, a parameter, what a slice takes backward.
graph.parameter @p : tensor<1x5x2x4xf32> role = trainable
// CHECK-LABEL: graph.program @stay
// CHECK-NOT: graph.views
graph.program @stay phase = micro inputs = ["q", "k", "v"] {
^bb0(%q0: tensor<1x5x24xf32>, %k0: tensor<1x2x4x5xf32>, %x: tensor<1x2x5x4xf32>):
  %s1 = graph.reshape %q0 {shape = array<i64: 1, 2, 5, 12>} : (tensor<1x5x24xf32>) -> tensor<1x2x5x12xf32>
  %q = graph.slice %s1 {offsets = array<i64: 0, 0, 0, 4>, sizes = array<i64: 1, 2, 5, 4>, strides = array<i64: 1, 1, 1, 1>} : (tensor<1x2x5x12xf32>) -> tensor<1x2x5x4xf32>
  %k = graph.transpose %k0 {permutation = array<i64: 0, 1, 3, 2>} : (tensor<1x2x4x5xf32>) -> tensor<1x2x5x4xf32>
  %w = graph.read @p : tensor<1x5x2x4xf32>
  %v = graph.transpose %w {permutation = array<i64: 0, 2, 1, 3>} : (tensor<1x5x2x4xf32>) -> tensor<1x2x5x4xf32>
  %y, %lse = graph.attention %q, %k, %v {scale = 0.5 : f64} : (tensor<1x2x5x4xf32>, tensor<1x2x5x4xf32>, tensor<1x2x5x4xf32>) -> (tensor<1x2x5x4xf32>, tensor<1x2x5xf32>)
  %b = graph.slice %x {offsets = array<i64: 0, 0, 4, 0>, sizes = array<i64: 1, 2, 5, 4>, strides = array<i64: 1, 1, -1, 1>} : (tensor<1x2x5x4xf32>) -> tensor<1x2x5x4xf32>
  %z, %lse1 = graph.attention %b, %b, %b {scale = 0.5 : f64} : (tensor<1x2x5x4xf32>, tensor<1x2x5x4xf32>, tensor<1x2x5x4xf32>) -> (tensor<1x2x5x4xf32>, tensor<1x2x5xf32>)
  graph.return %y, %z : tensor<1x2x5x4xf32>, tensor<1x2x5x4xf32>
}

// -----

// A concat of other things than one operation's results is one still; its parts are written as it takes them.
// CHECK-LABEL: graph.program @joined
graph.program @joined phase = micro inputs = ["q", "z"] {
^bb0(%q: tensor<1x2x5x4xf32>, %z: tensor<1x5x3xf32>):
  // CHECK: %[[Y:.*]], %{{.*}} = graph.attention {{.*}} -> [tensor<1x5x8xf32>, tensor<1x2x5xf32>]
  // CHECK-NEXT: graph.concat %[[Y]], %{{.*}} {axis = 2 : i64}
  %y, %lse = graph.attention %q, %q, %q {scale = 0.5 : f64} : (tensor<1x2x5x4xf32>, tensor<1x2x5x4xf32>, tensor<1x2x5x4xf32>) -> (tensor<1x2x5x4xf32>, tensor<1x2x5xf32>)
  %t = graph.transpose %y {permutation = array<i64: 0, 2, 1, 3>} : (tensor<1x2x5x4xf32>) -> tensor<1x5x2x4xf32>
  %r = graph.reshape %t {shape = array<i64: 1, 5, 8>} : (tensor<1x5x2x4xf32>) -> tensor<1x5x8xf32>
  %c = graph.concat %r, %z {axis = 2 : i64} : (tensor<1x5x8xf32>, tensor<1x5x3xf32>) -> tensor<1x5x11xf32>
  graph.return %c : tensor<1x5x11xf32>
}

// -----

// Transposed twice, as where one of them is recomputed: both are what is written.
// CHECK-LABEL: graph.program @twice
graph.program @twice phase = micro inputs = ["q"] {
^bb0(%q: tensor<1x2x5x4xf32>):
  // CHECK: %[[Y:.*]], %{{.*}} = graph.attention {{.*}} -> [tensor<1x5x2x4xf32>, tensor<1x2x5xf32>]
  // CHECK-NEXT: graph.return %[[Y]], %[[Y]]
  %y, %lse = graph.attention %q, %q, %q {scale = 0.5 : f64} : (tensor<1x2x5x4xf32>, tensor<1x2x5x4xf32>, tensor<1x2x5x4xf32>) -> (tensor<1x2x5x4xf32>, tensor<1x2x5xf32>)
  %t = graph.transpose %y {permutation = array<i64: 0, 2, 1, 3>} : (tensor<1x2x5x4xf32>) -> tensor<1x5x2x4xf32>
  %u = graph.transpose %y {permutation = array<i64: 0, 2, 1, 3>} : (tensor<1x2x5x4xf32>) -> tensor<1x5x2x4xf32>
  graph.return %t, %u : tensor<1x5x2x4xf32>, tensor<1x5x2x4xf32>
}

// -----

// And the reshapes behind them.
// CHECK-LABEL: graph.program @twice_reshaped
graph.program @twice_reshaped phase = micro inputs = ["q"] {
^bb0(%q: tensor<1x2x5x4xf32>):
  // CHECK: %[[Y:.*]], %{{.*}} = graph.attention {{.*}} -> [tensor<1x5x8xf32>, tensor<1x2x5xf32>]
  // CHECK-NEXT: graph.return %[[Y]], %[[Y]]
  %y, %lse = graph.attention %q, %q, %q {scale = 0.5 : f64} : (tensor<1x2x5x4xf32>, tensor<1x2x5x4xf32>, tensor<1x2x5x4xf32>) -> (tensor<1x2x5x4xf32>, tensor<1x2x5xf32>)
  %t = graph.transpose %y {permutation = array<i64: 0, 2, 1, 3>} : (tensor<1x2x5x4xf32>) -> tensor<1x5x2x4xf32>
  %u = graph.transpose %y {permutation = array<i64: 0, 2, 1, 3>} : (tensor<1x2x5x4xf32>) -> tensor<1x5x2x4xf32>
  %v = graph.reshape %t {shape = array<i64: 1, 5, 8>} : (tensor<1x5x2x4xf32>) -> tensor<1x5x8xf32>
  %w = graph.reshape %u {shape = array<i64: 1, 5, 8>} : (tensor<1x5x2x4xf32>) -> tensor<1x5x8xf32>
  graph.return %v, %w : tensor<1x5x8xf32>, tensor<1x5x8xf32>
}

// -----

// Not alike behind alike ones: the transposed result is what is written.
// CHECK-LABEL: graph.program @twice_differently
graph.program @twice_differently phase = micro inputs = ["q"] {
^bb0(%q: tensor<1x2x5x4xf32>):
  // CHECK: %[[Y:.*]], %{{.*}} = graph.attention {{.*}} -> [tensor<1x5x2x4xf32>, tensor<1x2x5xf32>]
  // CHECK-NEXT: %[[V:.*]] = graph.reshape %[[Y]] {shape = array<i64: 1, 5, 8>}
  // CHECK-NEXT: %[[W:.*]] = graph.reshape %[[Y]] {shape = array<i64: 5, 8>}
  // CHECK-NEXT: graph.return %[[V]], %[[W]]
  %y, %lse = graph.attention %q, %q, %q {scale = 0.5 : f64} : (tensor<1x2x5x4xf32>, tensor<1x2x5x4xf32>, tensor<1x2x5x4xf32>) -> (tensor<1x2x5x4xf32>, tensor<1x2x5xf32>)
  %t = graph.transpose %y {permutation = array<i64: 0, 2, 1, 3>} : (tensor<1x2x5x4xf32>) -> tensor<1x5x2x4xf32>
  %u = graph.transpose %y {permutation = array<i64: 0, 2, 1, 3>} : (tensor<1x2x5x4xf32>) -> tensor<1x5x2x4xf32>
  %v = graph.reshape %t {shape = array<i64: 1, 5, 8>} : (tensor<1x5x2x4xf32>) -> tensor<1x5x8xf32>
  %w = graph.reshape %u {shape = array<i64: 5, 8>} : (tensor<1x5x2x4xf32>) -> tensor<5x8xf32>
  graph.return %v, %w : tensor<1x5x8xf32>, tensor<5x8xf32>
}
