// RUN: zero-opt %s --split-input-file --loss-mean="loss-mean=global" --verify-diagnostics | FileCheck %s
// RUN: zero-opt %s --split-input-file --loss-mean="loss-mean=rank" | FileCheck %s --check-prefix=RANK

// A sum over all labels, ignored ones weigh nothing; the constant behind it stays.
// CHECK: module attributes {graph.training = #graph.training<precision = fp32, weighted_loss = unit>}
// RANK-LABEL: @micro
// RANK-NOT: weighted
graph.program @micro phase = micro inputs = ["x", "t"] {
^bb0(%x: tensor<8x4xf32>, %t: tensor<8xi64>):
  // CHECK: %[[IGNORED:.*]] = graph.constant dense<-100> : tensor<i64>
  // CHECK: %[[IS:.*]] = graph.equal %{{.*}}, %[[IGNORED]]
  // CHECK: %[[ONE:.*]] = graph.cast %[[IS]] {to = f32}
  // CHECK: %[[NUM:.*]] = graph.reduce_sum %[[ONE]]
  // CHECK: %[[EIGHT:.*]] = graph.constant dense<8.0{{.*}}> : tensor<f32>
  // CHECK: %[[COUNT:.*]] = graph.sub %[[EIGHT]], %[[NUM]]
  // CHECK: %[[WEIGHT:.*]] = graph.div %[[COUNT]], %{{.*}}
  // CHECK: %[[SUM:.*]], %{{.*}} = graph.cross_entropy %{{.*}} {ignore_index = -100 : i64, sum}
  // CHECK: %[[MEAN:.*]] = graph.div %[[SUM]], %{{.*}}
  // CHECK: %[[LOSS:.*]] = graph.mul %[[MEAN]]
  // CHECK: graph.return weighted %[[LOSS]], %[[WEIGHT]] : tensor<f32>, tensor<f32>
  // RANK: graph.return %{{.*}} : tensor<f32>
  %l, %e = graph.cross_entropy %x, %t {ignore_index = -100 : i64} : (tensor<8x4xf32>, tensor<8xi64>) -> (tensor<f32>, tensor<8xf32>)
  %two = graph.constant dense<2.0> : tensor<f32>
  %m = graph.mul %l, %two : (tensor<f32>, tensor<f32>) -> tensor<f32>
  graph.return %m : tensor<f32>
}

// -----

// A quotient: the denominator is the weight.
// CHECK-LABEL: @quotient
graph.program @quotient phase = micro inputs = ["x", "m"] {
^bb0(%x: tensor<8xf32>, %m: tensor<8xf32>):
  // CHECK: %[[SUM:.*]] = graph.reduce_sum
  // CHECK: %[[COUNT:.*]] = graph.reduce_sum
  // CHECK: %[[WEIGHT:.*]] = graph.div %{{.*}}, %{{.*}} : (tensor<f32>, tensor<f32>)
  // CHECK: %[[LOSS:.*]] = graph.div %[[SUM]]
  // CHECK: graph.return weighted %[[LOSS]], %[[WEIGHT]]
  %p = graph.mul %x, %m : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %s = graph.reduce_sum %p {axes = array<i64: 0>} : (tensor<8xf32>) -> tensor<f32>
  %c = graph.reduce_sum %m {axes = array<i64: 0>} : (tensor<8xf32>) -> tensor<f32>
  %l = graph.div %s, %c : (tensor<f32>, tensor<f32>) -> tensor<f32>
  graph.return %l : tensor<f32>
}

// -----

// As much on every rank: one mean is the other.
// CHECK-LABEL: @equal
graph.program @equal phase = micro inputs = ["x"] {
^bb0(%x: tensor<8xf32>):
  %l = graph.reduce_mean %x {axes = array<i64: 0>} : (tensor<8xf32>) -> tensor<f32>
  // CHECK: graph.return %{{.*}} : tensor<f32>
  graph.return %l : tensor<f32>
}

// -----

// Evaluated: the weight is one more output, the loss stays.
// CHECK-LABEL: @evaluated
// CHECK-SAME: graph.outputs = #graph.outputs<names = ["y", "loss", "loss_weight"], loss = 1, weight = 2, likelihood = unit>
graph.program @evaluated phase = micro inputs = ["x", "t"] attributes {graph.outputs = #graph.outputs<names = ["y", "loss"], loss = 1, likelihood = unit>} {
^bb0(%x: tensor<8x4xf32>, %t: tensor<8xi64>):
  // CHECK: %[[LOSS:.*]], %{{.*}} = graph.cross_entropy %{{.*}} {ignore_index = -100 : i64}
  // CHECK: graph.return %{{.*}}, %[[LOSS]], %{{.*}} : tensor<8x4xf32>, tensor<f32>, tensor<f32>
  %l, %e = graph.cross_entropy %x, %t {ignore_index = -100 : i64} : (tensor<8x4xf32>, tensor<8xi64>) -> (tensor<f32>, tensor<8xf32>)
  graph.return %x, %l : tensor<8x4xf32>, tensor<f32>
}

// -----

// expected-error @below {{the loss is not recognised as a mean over labels}}
graph.program @two phase = micro inputs = ["x", "t"] {
^bb0(%x: tensor<8x4xf32>, %t: tensor<8xi64>):
  %l, %e = graph.cross_entropy %x, %t {ignore_index = -100 : i64} : (tensor<8x4xf32>, tensor<8xi64>) -> (tensor<f32>, tensor<8xf32>)
  %m = graph.reduce_mean %x {axes = array<i64: 0, 1>} : (tensor<8x4xf32>) -> tensor<f32>
  %s = graph.add %l, %m : (tensor<f32>, tensor<f32>) -> tensor<f32>
  graph.return %s : tensor<f32>
}

// -----

// A mean of means whose weights differ is none of all labels, in whatever form.
// expected-error @below {{the loss is not recognised as a mean over labels}}
graph.program @stacked phase = micro inputs = ["x", "t"] {
^bb0(%x: tensor<8x4xf32>, %t: tensor<8xi64>):
  %a, %ae = graph.cross_entropy %x, %t {ignore_index = -100 : i64} : (tensor<8x4xf32>, tensor<8xi64>) -> (tensor<f32>, tensor<8xf32>)
  %b, %be = graph.cross_entropy %x, %t {ignore_index = 0 : i64} : (tensor<8x4xf32>, tensor<8xi64>) -> (tensor<f32>, tensor<8xf32>)
  %c = graph.reshape %a {shape = array<i64: 1>} : (tensor<f32>) -> tensor<1xf32>
  %d = graph.reshape %b {shape = array<i64: 1>} : (tensor<f32>) -> tensor<1xf32>
  %s = graph.concat %c, %d {axis = 0 : i64} : (tensor<1xf32>, tensor<1xf32>) -> tensor<2xf32>
  %l = graph.reduce_mean %s {axes = array<i64: 0>} : (tensor<2xf32>) -> tensor<f32>
  graph.return %l : tensor<f32>
}

// -----

// expected-error @below {{the loss is not recognised as a mean over labels}}
graph.program @summed phase = micro inputs = ["x", "m"] {
^bb0(%x: tensor<8xf32>, %m: tensor<8xf32>):
  %half = graph.constant dense<0.5> : tensor<f32>
  %p = graph.mul %x, %m : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %c = graph.reduce_sum %m {axes = array<i64: 0>} : (tensor<8xf32>) -> tensor<f32>
  %q = graph.div %p, %c : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %s = graph.reduce_sum %q {axes = array<i64: 0>} : (tensor<8xf32>) -> tensor<f32>
  %l = graph.mul %s, %half : (tensor<f32>, tensor<f32>) -> tensor<f32>
  graph.return %l : tensor<f32>
}

// -----

// The mean of one mean is that.
// CHECK-LABEL: @one
graph.program @one phase = micro inputs = ["x", "t"] {
^bb0(%x: tensor<8x4xf32>, %t: tensor<8xi64>):
  // CHECK: graph.cross_entropy %{{.*}} {ignore_index = -100 : i64, sum}
  // CHECK: graph.return weighted
  %a, %e = graph.cross_entropy %x, %t {ignore_index = -100 : i64} : (tensor<8x4xf32>, tensor<8xi64>) -> (tensor<f32>, tensor<8xf32>)
  %c = graph.reshape %a {shape = array<i64: 1>} : (tensor<f32>) -> tensor<1xf32>
  %l = graph.reduce_mean %c {axes = array<i64: 0>} : (tensor<1xf32>) -> tensor<f32>
  graph.return %l : tensor<f32>
}

// -----

// What the model normalizes by is no weight; nor is there one where each label's own loss is taken.
// CHECK-LABEL: @normalized
graph.program @normalized phase = micro inputs = ["x", "y"] {
^bb0(%x: tensor<8xf32>, %y: tensor<8xf32>):
  // CHECK: graph.return %{{.*}} : tensor<f32>
  %n = graph.reduce_max %y {axes = array<i64: 0>} : (tensor<8xf32>) -> tensor<f32>
  %t = graph.div %y, %n : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %d = graph.sub %x, %t : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %q = graph.mul %d, %d : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %l = graph.reduce_mean %q {axes = array<i64: 0>} : (tensor<8xf32>) -> tensor<f32>
  graph.return %l : tensor<f32>
}

// -----

// CHECK-LABEL: @each
graph.program @each phase = micro inputs = ["x", "t"] {
^bb0(%x: tensor<8x4xf32>, %t: tensor<8xi64>):
  // CHECK: graph.return %{{.*}} : tensor<f32>
  %a, %e = graph.cross_entropy %x, %t {ignore_index = -100 : i64} : (tensor<8x4xf32>, tensor<8xi64>) -> (tensor<f32>, tensor<8xf32>)
  %l = graph.reduce_mean %e {axes = array<i64: 0>} : (tensor<8xf32>) -> tensor<f32>
  graph.return %l : tensor<f32>
}
