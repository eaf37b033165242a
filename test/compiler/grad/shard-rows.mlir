// RUN: zero-opt %s --shard-tensors="model-ranks=2 sequence-parallel=true" --split-input-file --verify-diagnostics | FileCheck %s
// RUN: zero-opt %s --shard-tensors="model-ranks=2 sequence-parallel=true" --differentiate --canonicalize --split-input-file --verify-diagnostics | FileCheck %s --check-prefix=GRAD

// From where the ranks' products are summed each has half of the rows: the bias, the residual, the norm. The next cut weight reads
// them gathered. Scale and bias are read by each rank for its own rows, so their gradients are summed.

// CHECK-LABEL: graph.program @micro
// CHECK: %[[B:.*]] = graph.read @down_bias
// CHECK: %[[BD:.*]] = graph.diverge %[[B]]
// CHECK: %[[P:.*]] = graph.matmul {{.*}} : (tensor<16x16xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
// CHECK: %[[S:.*]] = graph.reduce_scatter %[[P]] {dim = 0 : i64, ranks = 2 : i64} : (tensor<16x8xf32>) -> tensor<8x8xf32>
// CHECK: %[[Y:.*]] = graph.add %[[S]], %[[BD]] : (tensor<8x8xf32>, tensor<8xf32>) -> tensor<8x8xf32>
// CHECK: graph.add %{{.*}}, %[[Y]] : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
// CHECK: %[[N:.*]], %{{.*}} = graph.rms_norm {{.*}} : (tensor<8x8xf32>, tensor<8xf32>) -> (tensor<8x8xf32>, tensor<8xf32>)
// CHECK: %[[ALL:.*]] = graph.all_gather %[[N]] {dim = 0 : i64, ranks = 2 : i64} : (tensor<8x8xf32>) -> tensor<16x8xf32>
// CHECK: graph.diverge %[[ALL]]
// CHECK-NOT: graph.all_reduce %{{.*}} : (tensor<16x8xf32>)
// Backward, the same bytes: what is gathered has a gradient that is scattered, the sum's one that is gathered.
// GRAD-LABEL: graph.backward
// GRAD: graph.all_gather {{.*}} : (tensor<8x8xf32>) -> tensor<16x8xf32>
// GRAD: graph.reduce_scatter {{.*}} : (tensor<16x8xf32>) -> tensor<8x8xf32>
// GRAD: graph.all_reduce {{.*}} : (tensor<8xf32>) -> tensor<8xf32>
// GRAD: graph.all_gather {{.*}} : (tensor<8x8xf32>) -> tensor<16x8xf32>
graph.parameter @up : tensor<8x32xf32> role = trainable
graph.parameter @down : tensor<32x8xf32> role = trainable
graph.parameter @down_bias : tensor<8xf32> role = trainable
graph.parameter @scale : tensor<8xf32> role = trainable
graph.parameter @up2 : tensor<8x32xf32> role = trainable
graph.parameter @down2 : tensor<32x8xf32> role = trainable
graph.program @micro phase = micro inputs = ["x"] {
^bb0(%x: tensor<16x8xf32>):
  %up = graph.read @up : tensor<8x32xf32>
  %h = graph.matmul %x, %up : (tensor<16x8xf32>, tensor<8x32xf32>) -> tensor<16x32xf32>
  %down = graph.read @down : tensor<32x8xf32>
  %db = graph.read @down_bias : tensor<8xf32>
  %y = graph.matmul %h, %down, %db : (tensor<16x32xf32>, tensor<32x8xf32>, tensor<8xf32>) -> tensor<16x8xf32>
  %r = graph.add %x, %y : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
  %s = graph.read @scale : tensor<8xf32>
  %n, %q = graph.rms_norm %r, %s {axis = 1 : i64, epsilon = 1.0e-6 : f64} : (tensor<16x8xf32>, tensor<8xf32>) -> (tensor<16x8xf32>, tensor<16xf32>)
  %up2 = graph.read @up2 : tensor<8x32xf32>
  %h2 = graph.matmul %n, %up2 : (tensor<16x8xf32>, tensor<8x32xf32>) -> tensor<16x32xf32>
  %down2 = graph.read @down2 : tensor<32x8xf32>
  %y2 = graph.matmul %h2, %down2 : (tensor<16x32xf32>, tensor<32x8xf32>) -> tensor<16x8xf32>
  %z = graph.add %y2, %r : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
  %loss = graph.reduce_mean %z {axes = array<i64: 0, 1>} : (tensor<16x8xf32>) -> tensor<f32>
  graph.return %loss : tensor<f32>
}

// -----

// Rows that the ranks do not divide stay whole; where there are no others, that is an error.

// expected-error @below {{--sequence-parallel finds no rows to cut over 2 ranks}}
// expected-note @below {{sum of [3, 8]: 2 ranks do not divide dimension 0 of 3x8, which they sum}}
module {
graph.parameter @w1 : tensor<8x32xf32> role = trainable
graph.parameter @w2 : tensor<32x8xf32> role = trainable
graph.program @micro phase = micro inputs = ["x"] {
^bb0(%x: tensor<3x8xf32>):
  %a = graph.read @w1 : tensor<8x32xf32>
  %h = graph.matmul %x, %a : (tensor<3x8xf32>, tensor<8x32xf32>) -> tensor<3x32xf32>
  %b = graph.read @w2 : tensor<32x8xf32>
  %y = graph.matmul %h, %b : (tensor<3x32xf32>, tensor<32x8xf32>) -> tensor<3x8xf32>
  %loss = graph.reduce_mean %y {axes = array<i64: 0, 1>} : (tensor<3x8xf32>) -> tensor<f32>
  graph.return %loss : tensor<f32>
}
}
