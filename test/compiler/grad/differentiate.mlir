// RUN: zero-opt %s --differentiate --split-input-file --verify-diagnostics | FileCheck %s

// The loss of a linear layer: only what the parameters need, the bias by a sum over rows, the weight by one product of all
// rows; the labels' side and the second output get nothing.

graph.parameter @w : tensor<5x3xf32> role = trainable
graph.parameter @b : tensor<5xf32> role = trainable
// CHECK-LABEL: graph.program @micro
graph.program @micro phase = micro inputs = ["x"] {
// CHECK: ^bb0(%[[X:.*]]: tensor<2x4x3xf32>)
^bb0(%x: tensor<2x4x3xf32>):
  // CHECK: %[[W:.*]] = graph.read @w
  %w = graph.read @w : tensor<5x3xf32>
  %b = graph.read @b : tensor<5xf32>
  %y = graph.matmul %x, %w, %b {trans_rhs} : (tensor<2x4x3xf32>, tensor<5x3xf32>, tensor<5xf32>) -> tensor<2x4x5xf32>
  // CHECK: %[[LOSS:.*]] = graph.reduce_sum
  %loss = graph.reduce_sum %y {axes = array<i64: 0, 1, 2>} : (tensor<2x4x5xf32>) -> tensor<f32>
  // CHECK: %[[ONE:.*]] = graph.constant dense<1.000000e+00> : tensor<f32>
  // CHECK: %[[ONES:.*]] = graph.reshape %[[ONE]]
  // CHECK: %[[DY:.*]] = graph.expand %[[ONES]] {shape = array<i64: 2, 4, 5>}
  // CHECK-DAG: %[[DROWS:.*]] = graph.reshape %[[DY]] {shape = array<i64: 8, 5>}
  // CHECK-DAG: %[[ROWS:.*]] = graph.reshape %[[X]] {shape = array<i64: 8, 3>}
  // CHECK-NEXT: %[[DW:.*]] = graph.matmul %[[DROWS]], %[[ROWS]] {trans_lhs} : (tensor<8x5xf32>, tensor<8x3xf32>) -> tensor<5x3xf32>
  // CHECK-NEXT: %[[DB:.*]] = graph.reduce_sum %[[DROWS]] {axes = array<i64: 0>}
  // CHECK-NOT: graph.matmul
  // CHECK-DAG: graph.accumulate_grad @w, %[[DW]]
  // CHECK-DAG: graph.accumulate_grad @b, %[[DB]]
  // CHECK-NEXT: graph.return %[[LOSS]] : tensor<f32>
  graph.return %loss, %y : tensor<f32>, tensor<2x4x5xf32>
}

// -----

// A tied parameter: two reads, one sum, one accumulation.

graph.parameter @t : tensor<3xf32> role = trainable
// CHECK-LABEL: graph.program @tied
graph.program @tied phase = micro inputs = [] {
  // CHECK: %[[A:.*]] = graph.read
  // CHECK: %[[B:.*]] = graph.read
  %a = graph.read @t : tensor<3xf32>
  %b = graph.read @t : tensor<3xf32>
  %0 = graph.mul %a, %b : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %1 = graph.reduce_sum %0 {axes = array<i64: 0>} : (tensor<3xf32>) -> tensor<f32>
  // CHECK: %[[G:.*]] = graph.expand
  // CHECK: %[[DA:.*]] = graph.mul %[[G]], %[[B]]
  // CHECK: %[[DB:.*]] = graph.mul %[[G]], %[[A]]
  // CHECK: %[[SUM:.*]] = graph.add {{%.*}}, {{%.*}} : (tensor<3xf32>, tensor<3xf32>)
  // CHECK: graph.accumulate_grad @t, %[[SUM]]
  // CHECK-NOT: graph.accumulate_grad
  graph.return %1 : tensor<f32>
}

// -----

// A gradient is accumulated as soon as it is complete, also where the read and a cast of it stand at the top.

graph.parameter @first : tensor<3xf32> role = trainable
graph.parameter @last : tensor<3xbf16> role = trainable
// CHECK-LABEL: graph.program @early
graph.program @early phase = micro inputs = ["x"] {
^bb0(%x: tensor<3xf32>):
  %l0 = graph.read @last : tensor<3xbf16>
  %l = graph.cast %l0 {to = f32} : (tensor<3xbf16>) -> tensor<3xf32>
  %f = graph.read @first : tensor<3xf32>
  %0 = graph.mul %x, %f : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %1 = graph.tanh %0 : (tensor<3xf32>) -> tensor<3xf32>
  %2 = graph.mul %1, %l : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %3 = graph.reduce_sum %2 {axes = array<i64: 0>} : (tensor<3xf32>) -> tensor<f32>
  // CHECK: graph.reduce_sum
  // CHECK: graph.cast {{.*}} {to = bf16}
  // CHECK-NEXT: graph.accumulate_grad @last
  // CHECK: graph.accumulate_grad @first
  graph.return %3 : tensor<f32>
}

// -----

// Frozen parameters get nothing; neither does what lies behind an operation without derivative, which is reported.

graph.parameter @frozen : tensor<3xf32> role = frozen
// CHECK: graph.parameter @rounded : tensor<3xf32> role = frozen
// expected-warning @below {{parameter 'rounded' gets no gradient from the loss: frozen}}
graph.parameter @rounded : tensor<3xf32> role = trainable
// CHECK: graph.parameter @trained : tensor<3xf32> role = trainable
graph.parameter @trained : tensor<3xf32> role = trainable
// CHECK-LABEL: graph.program @unreached
graph.program @unreached phase = micro inputs = [] {
  %f = graph.read @frozen : tensor<3xf32>
  %r = graph.read @rounded : tensor<3xf32>
  %t = graph.read @trained : tensor<3xf32>
  %0 = graph.round %r : (tensor<3xf32>) -> tensor<3xf32>
  %1 = graph.exp %f : (tensor<3xf32>) -> tensor<3xf32>
  %2 = graph.mul %0, %1 : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %3 = graph.add %2, %t : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %4 = graph.reduce_sum %3 {axes = array<i64: 0>} : (tensor<3xf32>) -> tensor<f32>
  // CHECK: %[[G:.*]] = graph.expand
  // CHECK-NEXT: graph.accumulate_grad @trained, %[[G]]
  // CHECK-NEXT: graph.return
  graph.return %4 : tensor<f32>
}

// -----

graph.program @micro phase = micro inputs = ["x"] {
^bb0(%x: tensor<2xf32>):
  // expected-error @below {{the loss has type 'tensor<2xf32>', not that of a scalar float}}
  graph.return %x : tensor<2xf32>
}

// -----

graph.program @micro phase = micro inputs = [] {
  // expected-error @below {{returns no loss to differentiate}}
  graph.return
}

// -----

// expected-error @below {{there is no graph.program of phase 'micro' to differentiate}}
module {
}

// -----

graph.parameter @w : tensor<2xf32> role = trainable
// expected-error @below {{has gradients already: differentiate runs once}}
graph.program @micro phase = micro inputs = [] {
  %w = graph.read @w : tensor<2xf32>
  %0 = graph.reduce_sum %w {axes = array<i64: 0>} : (tensor<2xf32>) -> tensor<f32>
  graph.accumulate_grad @w, %w : tensor<2xf32>
  graph.return %0 : tensor<f32>
}

// -----

// Statistics have no gradient.
graph.parameter @w : tensor<2x3xf32> role = trainable
graph.program @micro phase = micro inputs = ["t"] {
^bb0(%t: tensor<2xi64>):
  %w = graph.read @w : tensor<2x3xf32>
  // expected-error @below {{result 1 has no gradient, but the loss depends on it}}
  %loss, %lse = graph.cross_entropy %w, %t {ignore_index = -100 : i64} : (tensor<2x3xf32>, tensor<2xi64>) -> (tensor<f32>, tensor<2xf32>)
  %z = graph.reduce_mean %lse {axes = array<i64: 0>} : (tensor<2xf32>) -> tensor<f32>
  %0 = graph.add %loss, %z : (tensor<f32>, tensor<f32>) -> tensor<f32>
  graph.return %0 : tensor<f32>
}

// -----

// The batch of products that would be summed is no tensor.
graph.parameter @w : tensor<1048576x1x1x1048576xf32> role = trainable
graph.program @micro phase = micro inputs = ["x"] {
^bb0(%x: tensor<1048576x1048576x1xf32>):
  %w = graph.read @w : tensor<1048576x1x1x1048576xf32>
  // expected-error @below {{has a gradient of 2^48 elements or more before it is summed over the broadcast dimensions}}
  %y = graph.matmul %w, %x : (tensor<1048576x1x1x1048576xf32>, tensor<1048576x1048576x1xf32>) -> tensor<1048576x1048576x1x1xf32>
  %0 = graph.reduce_mean %y {axes = array<i64: 0, 1, 2, 3>} : (tensor<1048576x1048576x1x1xf32>) -> tensor<f32>
  graph.return %0 : tensor<f32>
}

// -----

// What arrives where the index is the padding's is dropped, along any axis, also where it counts from the end.
// CHECK-LABEL: graph.parameter @padded
graph.parameter @padded : tensor<3x4x2xf32> role = trainable
graph.program @micro phase = micro inputs = ["i", "g"] {
^bb0(%i: tensor<5xi32>, %g: tensor<3x5x2xf32>):
  %w = graph.read @padded : tensor<3x4x2xf32>
  %y = graph.gather %w, %i {axis = 1 : i64, padding_index = 3 : i64} : (tensor<3x4x2xf32>, tensor<5xi32>) -> tensor<3x5x2xf32>
  %z = graph.mul %y, %g : (tensor<3x5x2xf32>, tensor<3x5x2xf32>) -> tensor<3x5x2xf32>
  %0 = graph.reduce_sum %z {axes = array<i64: 0, 1, 2>} : (tensor<3x5x2xf32>) -> tensor<f32>
  graph.return %0 : tensor<f32>
}
// CHECK: %[[THREE:.*]] = graph.constant dense<3> : tensor<i32>
// CHECK: %[[AT:.*]] = graph.equal %arg0, %[[THREE]]
// CHECK: %[[LAST:.*]] = graph.constant dense<-1> : tensor<i32>
// CHECK: %[[FROM_END:.*]] = graph.equal %arg0, %[[LAST]]
// CHECK: %[[PADDING:.*]] = graph.or %[[AT]], %[[FROM_END]]
// CHECK: %[[MASK:.*]] = graph.reshape %[[PADDING]] {shape = array<i64: 5, 1>}
// CHECK: %[[KEPT:.*]] = graph.select %[[MASK]], %{{.*}}, %{{.*}} : (tensor<5x1xi1>, tensor<f32>, tensor<3x5x2xf32>)
// CHECK: %[[D:.*]] = graph.gather_grad %[[KEPT]], %arg0 {axis = 1 : i64, shape = array<i64: 3, 4, 2>}
// CHECK: graph.accumulate_grad @padded, %[[D]]

// -----

// Between the ranks of the model axis: a sum passes its gradient on, what diverges sums it; parts and wholes change places. A
// maximum has no gradient.
// CHECK-LABEL: graph.parameter @parts
graph.parameter @parts : tensor<4x2xf32> role = trainable
graph.program @micro phase = micro inputs = [] {
  %w = graph.read @parts : tensor<4x2xf32>
  %f = graph.diverge %w : (tensor<4x2xf32>) -> tensor<4x2xf32>
  %a = graph.all_gather %f {dim = 1 : i64, ranks = 2 : i64} : (tensor<4x2xf32>) -> tensor<4x4xf32>
  %b = graph.all_slice %a {dim = 0 : i64, ranks = 2 : i64} : (tensor<4x4xf32>) -> tensor<2x4xf32>
  %c = graph.all_reduce %b : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %m = graph.all_reduce %c {max} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %d = graph.sub %c, %m : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %e = graph.reduce_scatter %d {dim = 1 : i64, ranks = 2 : i64} : (tensor<2x4xf32>) -> tensor<2x2xf32>
  %0 = graph.reduce_sum %e {axes = array<i64: 0, 1>} : (tensor<2x2xf32>) -> tensor<f32>
  graph.return %0 : tensor<f32>
}
// CHECK: graph.backward
// CHECK: %[[G:.*]] = graph.all_gather %{{.*}} {dim = 1 : i64, ranks = 2 : i64} : (tensor<2x2xf32>) -> tensor<2x4xf32>
// CHECK: %[[H:.*]] = graph.all_gather %[[G]] {dim = 0 : i64, ranks = 2 : i64} : (tensor<2x4xf32>) -> tensor<4x4xf32>
// CHECK: %[[I:.*]] = graph.all_slice %[[H]] {dim = 1 : i64, ranks = 2 : i64}
// CHECK: %[[J:.*]] = graph.all_reduce %[[I]]
// CHECK: graph.accumulate_grad @parts, %[[J]]

// -----

// Backward reads what forward read: statistics that are computed with are changed behind it, the last change counts, and who reads
// them behind a change has its value. Those that only follow the batch stay where they are.
graph.parameter @w : tensor<4xf32> role = trainable
graph.parameter @used : tensor<4xf32> role = buffer
graph.parameter @followed : tensor<4xf32> role = buffer
// CHECK-LABEL: inputs = ["statistics"]
graph.program @micro phase = micro inputs = ["statistics"] {
^bb0(%x: tensor<4xf32>):
  %w = graph.read @w : tensor<4xf32>
  // CHECK: %[[OLD:.*]] = graph.read @used
  // CHECK: %[[NEW:.*]] = graph.moving_average %[[OLD]], %{{.*}} {factor = 1
  %old = graph.read @used : tensor<4xf32>
  %new = graph.moving_average %old, %x {momentum = 0.9 : f64, factor = 1.0 : f64} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  graph.assign @used, %new : tensor<4xf32>
  // CHECK: %[[F:.*]] = graph.read @followed
  // CHECK: %[[G:.*]] = graph.moving_average %[[F]]
  // CHECK-NEXT: graph.assign @followed, %[[G]]
  %f = graph.read @followed : tensor<4xf32>
  %g = graph.moving_average %f, %x {momentum = 0.9 : f64, factor = 1.0 : f64} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  graph.assign @followed, %g : tensor<4xf32>
  %a = graph.mul %w, %old : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  // CHECK-NOT: graph.read
  // CHECK: %[[LAST:.*]] = graph.moving_average %[[NEW]], %{{.*}} {factor = 2
  %again = graph.read @used : tensor<4xf32>
  %last = graph.moving_average %again, %x {momentum = 0.9 : f64, factor = 2.0 : f64} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  graph.assign @used, %last : tensor<4xf32>
  %l = graph.reduce_sum %a {axes = array<i64: 0>} : (tensor<4xf32>) -> tensor<f32>
  graph.return %l : tensor<f32>
}
// CHECK: graph.backward
// CHECK: graph.mul %{{.*}}, %[[OLD]]
// CHECK: graph.accumulate_grad @w
// CHECK-NEXT: graph.assign @used, %[[LAST]]
// CHECK-NEXT: graph.return

// -----

// Gradients stop at what is constant piece by piece, and at bits; what they do not know is an error, not a zero.

// expected-warning @+1 {{parameter 'steps' gets no gradient from the loss: frozen}}
graph.parameter @steps : tensor<4xf32> role = trainable
graph.parameter @bits : tensor<4xf32> role = trainable
// CHECK-LABEL: inputs = ["stopped"]
graph.program @micro phase = micro inputs = ["stopped"] {
^bb0(%x: tensor<4xf32>):
  %w = graph.read @steps : tensor<4xf32>
  %f = graph.floor %w : (tensor<4xf32>) -> tensor<4xf32>
  %b = graph.read @bits : tensor<4xf32>
  %d = graph.bitcast %b {to = f32} : (tensor<4xf32>) -> tensor<4xf32>
  %m = graph.mul %f, %d : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s = graph.sub %m, %b : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %l = graph.reduce_sum %s {axes = array<i64: 0>} : (tensor<4xf32>) -> tensor<f32>
  graph.return %l : tensor<f32>
}
// CHECK: graph.backward
// CHECK: %[[D:.*]] = graph.neg
// CHECK-NEXT: graph.accumulate_grad @bits, %[[D]]

// -----

graph.parameter @w : tensor<2x4xf32> role = trainable
graph.program @micro phase = micro inputs = ["g", "s", "m"] {
^bb0(%g: tensor<2x4xf32>, %s: tensor<4xf32>, %m: tensor<2xf32>):
  %w = graph.read @w : tensor<2x4xf32>
  // expected-error @+1 {{'graph.rms_norm_grad' op has no derivative, but the loss depends on trained parameters through it}}
  %dx, %ds = graph.rms_norm_grad %g, %w, %s, %m {axis = 1 : i64} : (tensor<2x4xf32>, tensor<2x4xf32>, tensor<4xf32>, tensor<2xf32>)
      -> (tensor<2x4xf32>, tensor<4xf32>)
  %l = graph.reduce_sum %dx {axes = array<i64: 0, 1>} : (tensor<2x4xf32>) -> tensor<f32>
  graph.return %l : tensor<f32>
}
