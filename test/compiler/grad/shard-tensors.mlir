// RUN: zero-opt %s --shard-tensors="model-ranks=2" --split-input-file --verify-diagnostics | FileCheck %s

// The hidden units of an MLP: columns, then rows. The second bias is added behind the sum, the residual stays whole, and all
// that reads the input for its own part does so behind one view.

// CHECK: module attributes {graph.model_ranks = 2 : i64}
// CHECK: graph.parameter @up : tensor<8x16xf32> role = trainable {cut = #graph.cut<1, 1, tensor<8x32xf32>>}
// CHECK: graph.parameter @up_bias : tensor<16xf32> {{.*}} {cut = #graph.cut<0, 1, tensor<32xf32>>}
// CHECK: graph.parameter @down : tensor<16x8xf32> {{.*}} {cut = #graph.cut<0, 1, tensor<32x8xf32>>}
// CHECK: graph.parameter @down_bias : tensor<8xf32> role = trainable{{$}}
graph.parameter @up : tensor<8x32xf32> role = trainable
graph.parameter @up_bias : tensor<32xf32> role = trainable
graph.parameter @down : tensor<32x8xf32> role = trainable
graph.parameter @down_bias : tensor<8xf32> role = trainable
graph.program @micro phase = micro inputs = ["x"] {
// CHECK: ^bb0(%[[X:.*]]: tensor<4x8xf32>)
^bb0(%x: tensor<4x8xf32>):
  // CHECK: %[[D:.*]] = graph.diverge %[[X]]
  %up = graph.read @up : tensor<8x32xf32>
  %ub = graph.read @up_bias : tensor<32xf32>
  // CHECK: %[[H:.*]] = graph.matmul %[[D]], %{{.*}}, %{{.*}} : (tensor<4x8xf32>, tensor<8x16xf32>, tensor<16xf32>) -> tensor<4x16xf32>
  %h = graph.matmul %x, %up, %ub : (tensor<4x8xf32>, tensor<8x32xf32>, tensor<32xf32>) -> tensor<4x32xf32>
  // CHECK: %[[G:.*]] = graph.gelu %[[H]]
  %g = graph.gelu %h : (tensor<4x32xf32>) -> tensor<4x32xf32>
  %down = graph.read @down : tensor<32x8xf32>
  // CHECK: %[[B:.*]] = graph.read @down_bias
  %db = graph.read @down_bias : tensor<8xf32>
  // CHECK: %[[P:.*]] = graph.matmul %[[G]], %{{.*}} : (tensor<4x16xf32>, tensor<16x8xf32>) -> tensor<4x8xf32>
  // CHECK: %[[S:.*]] = graph.all_reduce %[[P]]
  // CHECK: %[[Y:.*]] = graph.add %[[S]], %[[B]]
  %y = graph.matmul %g, %down, %db : (tensor<4x32xf32>, tensor<32x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  // CHECK: graph.add %[[X]], %[[Y]]
  %z = graph.add %x, %y : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %loss = graph.reduce_mean %z {axes = array<i64: 0, 1>} : (tensor<4x8xf32>) -> tensor<f32>
  graph.return %loss : tensor<f32>
}

// -----

// Attention by heads. Queries, keys and values are columns of one weight: of each of the three runs a rank has its heads.

// CHECK: graph.parameter @qkv : tensor<8x12xf32> {{.*}} {cut = #graph.cut<1, 3, tensor<8x24xf32>>}
// CHECK: graph.parameter @out : tensor<4x8xf32> {{.*}} {cut = #graph.cut<0, 1, tensor<8x8xf32>>}
graph.parameter @qkv : tensor<8x24xf32> role = trainable
graph.parameter @out : tensor<8x8xf32> role = trainable
graph.program @micro phase = micro inputs = ["x"] {
^bb0(%x: tensor<6x8xf32>):
  %w = graph.read @qkv : tensor<8x24xf32>
  // CHECK: graph.matmul {{.*}} -> tensor<6x12xf32>
  %a = graph.matmul %x, %w : (tensor<6x8xf32>, tensor<8x24xf32>) -> tensor<6x24xf32>
  %b = graph.reshape %a {shape = array<i64: 2, 3, 24>} : (tensor<6x24xf32>) -> tensor<2x3x24xf32>
  // CHECK: graph.slice {{.*}} {offsets = array<i64: 0, 0, 0>, sizes = array<i64: 2, 3, 4>
  %q0 = graph.slice %b {offsets = array<i64: 0, 0, 0>, sizes = array<i64: 2, 3, 8>, strides = array<i64: 1, 1, 1>} : (tensor<2x3x24xf32>) -> tensor<2x3x8xf32>
  // CHECK: graph.slice {{.*}} {offsets = array<i64: 0, 0, 4>, sizes = array<i64: 2, 3, 4>
  %k0 = graph.slice %b {offsets = array<i64: 0, 0, 8>, sizes = array<i64: 2, 3, 8>, strides = array<i64: 1, 1, 1>} : (tensor<2x3x24xf32>) -> tensor<2x3x8xf32>
  // CHECK: graph.slice {{.*}} {offsets = array<i64: 0, 0, 8>, sizes = array<i64: 2, 3, 4>
  %v0 = graph.slice %b {offsets = array<i64: 0, 0, 16>, sizes = array<i64: 2, 3, 8>, strides = array<i64: 1, 1, 1>} : (tensor<2x3x24xf32>) -> tensor<2x3x8xf32>
  // CHECK: graph.reshape {{.*}} {shape = array<i64: 2, 3, 2, 2>}
  %q1 = graph.reshape %q0 {shape = array<i64: 2, 3, 4, 2>} : (tensor<2x3x8xf32>) -> tensor<2x3x4x2xf32>
  %k1 = graph.reshape %k0 {shape = array<i64: 2, 3, 4, 2>} : (tensor<2x3x8xf32>) -> tensor<2x3x4x2xf32>
  %v1 = graph.reshape %v0 {shape = array<i64: 2, 3, 4, 2>} : (tensor<2x3x8xf32>) -> tensor<2x3x4x2xf32>
  %q = graph.transpose %q1 {permutation = array<i64: 0, 2, 1, 3>} : (tensor<2x3x4x2xf32>) -> tensor<2x4x3x2xf32>
  %k = graph.transpose %k1 {permutation = array<i64: 0, 2, 1, 3>} : (tensor<2x3x4x2xf32>) -> tensor<2x4x3x2xf32>
  %v = graph.transpose %v1 {permutation = array<i64: 0, 2, 1, 3>} : (tensor<2x3x4x2xf32>) -> tensor<2x4x3x2xf32>
  // CHECK: graph.attention {{.*}} -> (tensor<2x2x3x2xf32>, tensor<2x2x3xf32>)
  %o, %lse = graph.attention %q, %k, %v {scale = 0.5 : f64, causal} : (tensor<2x4x3x2xf32>, tensor<2x4x3x2xf32>, tensor<2x4x3x2xf32>) -> (tensor<2x4x3x2xf32>, tensor<2x4x3xf32>)
  %t = graph.transpose %o {permutation = array<i64: 0, 2, 1, 3>} : (tensor<2x4x3x2xf32>) -> tensor<2x3x4x2xf32>
  %f = graph.reshape %t {shape = array<i64: 6, 8>} : (tensor<2x3x4x2xf32>) -> tensor<6x8xf32>
  %p = graph.read @out : tensor<8x8xf32>
  // CHECK: graph.matmul {{.*}} : (tensor<6x4xf32>, tensor<4x8xf32>) -> tensor<6x8xf32>
  // CHECK-NEXT: graph.all_reduce
  %y = graph.matmul %f, %p : (tensor<6x8xf32>, tensor<8x8xf32>) -> tensor<6x8xf32>
  %loss = graph.reduce_mean %y {axes = array<i64: 0, 1>} : (tensor<6x8xf32>) -> tensor<f32>
  graph.return %loss : tensor<f32>
}

// -----

// Heads that the ranks do not divide are computed by each of them, which is said; the weight behind them is cut.

// CHECK: graph.parameter @behind : tensor<{{3x8|6x4}}xf32>
graph.parameter @behind : tensor<6x8xf32> role = trainable
graph.program @micro phase = micro inputs = ["q", "k", "v"] {
^bb0(%q: tensor<2x3x3x2xf32>, %k: tensor<2x1x3x2xf32>, %v: tensor<2x1x3x2xf32>):
  // CHECK: graph.attention {{.*}} -> (tensor<2x3x3x2xf32>, tensor<2x3x3xf32>)
  // expected-remark @below {{attention of 3 heads, 1 of keys, is computed whole by each of 2 ranks}}
  %o, %lse = graph.attention %q, %k, %v {scale = 0.5 : f64, causal} : (tensor<2x3x3x2xf32>, tensor<2x1x3x2xf32>, tensor<2x1x3x2xf32>) -> (tensor<2x3x3x2xf32>, tensor<2x3x3xf32>)
  %t = graph.transpose %o {permutation = array<i64: 0, 2, 1, 3>} : (tensor<2x3x3x2xf32>) -> tensor<2x3x3x2xf32>
  %f = graph.reshape %t {shape = array<i64: 6, 6>} : (tensor<2x3x3x2xf32>) -> tensor<6x6xf32>
  %w = graph.read @behind : tensor<6x8xf32>
  %y = graph.matmul %f, %w : (tensor<6x6xf32>, tensor<6x8xf32>) -> tensor<6x8xf32>
  %loss = graph.reduce_mean %y {axes = array<i64: 0, 1>} : (tensor<6x8xf32>) -> tensor<f32>
  graph.return %loss : tensor<f32>
}

// -----

// A table that is embedding and head has one cut, by vocabulary; the last rank's part is filled up. Rows of other ranks are zeros
// that a sum fills in. The logits are never gathered: of each row the largest, the sum of exponentials and the label's logit are
// exchanged, and what is filled up counts for nothing.

// CHECK: graph.parameter @table : tensor<33x4xf32> {{.*}} {cut = #graph.cut<0, 1, tensor<65x4xf32>>}
graph.parameter @table : tensor<65x4xf32> role = trainable
graph.program @micro phase = micro inputs = ["ids", "labels"] {
^bb0(%ids: tensor<3xi64>, %labels: tensor<3xi64>):
  %w = graph.read @table : tensor<65x4xf32>
  // CHECK: graph.label_index {{.*}} {classes = 65 : i64
  // CHECK: graph.rank_offset {stride = 33 : i64, type = tensor<i64>}
  // CHECK: graph.gather {{.*}} : (tensor<33x4xf32>, tensor<3xi64>) -> tensor<3x4xf32>
  // CHECK: graph.select
  // CHECK: %[[X:.*]] = graph.all_reduce
  // CHECK: graph.diverge %[[X]]
  %x = graph.gather %w, %ids {axis = 0 : i64} : (tensor<65x4xf32>, tensor<3xi64>) -> tensor<3x4xf32>
  %v = graph.read @table : tensor<65x4xf32>
  // CHECK: graph.matmul {{.*}} -> tensor<3x33xf32>
  %l = graph.matmul %x, %v {trans_rhs} : (tensor<3x4xf32>, tensor<65x4xf32>) -> tensor<3x65xf32>
  // CHECK: graph.constant dense<0xFF800000> : tensor<f32>
  // CHECK: graph.reduce_max
  // CHECK: graph.all_reduce {{.*}} {max} : (tensor<3x1xf32>)
  // CHECK: graph.all_reduce {{.*}} : (tensor<3x1xf32>)
  // CHECK: graph.label_index {{.*}} {classes = 65 : i64, ignore_index = -100 : i64}
  // CHECK: graph.gather_elements {{.*}} : (tensor<3x33xf32>, tensor<3x1xi64>) -> tensor<3x1xf32>
  // CHECK: graph.all_reduce {{.*}} : (tensor<3x1xf32>)
  // CHECK-NOT: graph.cross_entropy
  %loss, %lse = graph.cross_entropy %l, %labels {ignore_index = -100 : i64} : (tensor<3x65xf32>, tensor<3xi64>) -> (tensor<f32>, tensor<3xf32>)
  graph.return %loss : tensor<f32>
}

// -----

// What the rules do not lead away from is gathered at once: a norm needs its rows whole.

// CHECK: graph.parameter @w : tensor<8x4xf32> {{.*}} {cut = #graph.cut<1, 1, tensor<8x8xf32>>}
graph.parameter @w : tensor<8x8xf32> role = trainable
graph.parameter @scale : tensor<8xf32> role = trainable
graph.program @micro phase = micro inputs = ["x"] {
^bb0(%x: tensor<4x8xf32>):
  %w = graph.read @w : tensor<8x8xf32>
  // CHECK: %[[P:.*]] = graph.matmul {{.*}} -> tensor<4x4xf32>
  // CHECK: %[[Y:.*]] = graph.all_gather %[[P]] {dim = 1 : i64, ranks = 2 : i64}
  %y = graph.matmul %x, %w : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %s = graph.read @scale : tensor<8xf32>
  // CHECK: graph.rms_norm %[[Y]]
  %n, %r = graph.rms_norm %y, %s {axis = 1 : i64, epsilon = 1.0e-6 : f64} : (tensor<4x8xf32>, tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4xf32>)
  %loss = graph.reduce_mean %n {axes = array<i64: 0, 1>} : (tensor<4x8xf32>) -> tensor<f32>
  graph.return %loss : tensor<f32>
}

// -----

// A dropout of what is cut draws the whole's random numbers, those of its part; so do random numbers that meet it.

// CHECK-LABEL: graph.parameter @dropped
graph.parameter @dropped : tensor<8x32xf32> role = trainable
graph.parameter @down : tensor<32x8xf32> role = trainable
graph.program @micro phase = micro inputs = ["x"] {
^bb0(%x: tensor<4x8xf32>):
  %up = graph.read @dropped : tensor<8x32xf32>
  // CHECK: %[[H:.*]] = graph.matmul {{.*}} -> tensor<4x16xf32>
  %h = graph.matmul %x, %up : (tensor<4x8xf32>, tensor<8x32xf32>) -> tensor<4x32xf32>
  // CHECK: %[[O:.*]], %{{.*}} = graph.dropout %[[H]] {id = 0 : i64, ratio = {{.*}}, run = 16 : i64, stride = 32 : i64} : (tensor<4x16xf32>)
  // CHECK-DAG: %[[R:.*]] = graph.random {id = 1 : i64, run = 16 : i64, stride = 32 : i64, type = tensor<4x16xf32>}
  // CHECK: graph.mul %[[O]], %[[R]]
  %0, %m = graph.dropout %h {ratio = 0.1 : f64, id = 0 : i64} : (tensor<4x32xf32>) -> (tensor<4x32xf32>, tensor<4x32xi1>)
  %r = graph.random {type = tensor<4x32xf32>, id = 1 : i64} : () -> tensor<4x32xf32>
  %d = graph.mul %0, %r : (tensor<4x32xf32>, tensor<4x32xf32>) -> tensor<4x32xf32>
  %down = graph.read @down : tensor<32x8xf32>
  %y = graph.matmul %d, %down : (tensor<4x32xf32>, tensor<32x8xf32>) -> tensor<4x8xf32>
  %loss = graph.reduce_mean %y {axes = array<i64: 0, 1>} : (tensor<4x8xf32>) -> tensor<f32>
  graph.return %loss : tensor<f32>
}

// -----

// Attention drops of its heads what it drops of all.

// CHECK-LABEL: graph.parameter @heads
graph.parameter @heads : tensor<8x8xf32> role = trainable
graph.parameter @back : tensor<8x8xf32> role = trainable
graph.program @micro phase = micro inputs = ["x"] {
^bb0(%x: tensor<3x8xf32>):
  %w = graph.read @heads : tensor<8x8xf32>
  %h = graph.matmul %x, %w : (tensor<3x8xf32>, tensor<8x8xf32>) -> tensor<3x8xf32>
  %a = graph.reshape %h {shape = array<i64: 1, 3, 4, 2>} : (tensor<3x8xf32>) -> tensor<1x3x4x2xf32>
  %q = graph.transpose %a {permutation = array<i64: 0, 2, 1, 3>} : (tensor<1x3x4x2xf32>) -> tensor<1x4x3x2xf32>
  // CHECK: graph.attention {{.*}} {dropout = 1.000000e-01 : f64, dropout_id = 2 : i64, run = 18 : i64, scale = 5.000000e-01 : f64, stride = 36 : i64} : (tensor<1x2x3x2xf32>
  %o, %lse = graph.attention %q, %q, %q {scale = 0.5 : f64, dropout = 0.1 : f64, dropout_id = 2 : i64} : (tensor<1x4x3x2xf32>, tensor<1x4x3x2xf32>, tensor<1x4x3x2xf32>) -> (tensor<1x4x3x2xf32>, tensor<1x4x3xf32>)
  %t = graph.transpose %o {permutation = array<i64: 0, 2, 1, 3>} : (tensor<1x4x3x2xf32>) -> tensor<1x3x4x2xf32>
  %f = graph.reshape %t {shape = array<i64: 3, 8>} : (tensor<1x3x4x2xf32>) -> tensor<3x8xf32>
  %b = graph.read @back : tensor<8x8xf32>
  %y = graph.matmul %f, %b : (tensor<3x8xf32>, tensor<8x8xf32>) -> tensor<3x8xf32>
  %loss = graph.reduce_mean %y {axes = array<i64: 0, 1>} : (tensor<3x8xf32>) -> tensor<f32>
  graph.return %loss : tensor<f32>
}

// -----

// expected-error @below {{no weight can be cut over 2 ranks}}
// expected-note @below {{'w': dimension 0: 2 ranks do not divide the 3 of 'w', dimension 1: 2 ranks do not divide the 5 of 'w'}}
module {
graph.parameter @w : tensor<3x5xf32> role = trainable
graph.program @micro phase = micro inputs = ["x"] {
^bb0(%x: tensor<4x3xf32>):
  %w = graph.read @w : tensor<3x5xf32>
  %y = graph.matmul %x, %w : (tensor<4x3xf32>, tensor<3x5xf32>) -> tensor<4x5xf32>
  %loss = graph.reduce_mean %y {axes = array<i64: 0, 1>} : (tensor<4x5xf32>) -> tensor<f32>
  graph.return %loss : tensor<f32>
}
}
