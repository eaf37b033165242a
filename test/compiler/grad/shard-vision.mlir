// RUN: zero-opt %s --shard-tensors="model-ranks=2" --split-input-file --verify-diagnostics | FileCheck %s

// Channels of a dense convolution; a norm of batches, whose samples are whole, and whose running statistics all ranks have; a convolution
// of one channel each; a pool; the sum over the channels.

// CHECK: graph.parameter @dense : tensor<4x4x1x1xf32> {{.*}} {cut = #graph.cut<0, 1, tensor<8x4x1x1xf32>>}
// CHECK: graph.parameter @scale : tensor<4xf32> {{.*}} {cut = #graph.cut<0, 1, tensor<8xf32>>}
// CHECK: graph.parameter @mean : tensor<8xf32> role = buffer{{$}}
// CHECK: graph.parameter @depthwise : tensor<4x1x3x3xf32> {{.*}} {cut = #graph.cut<0, 1, tensor<8x1x3x3xf32>>}
// CHECK: graph.parameter @join : tensor<4x4x1x1xf32> {{.*}} {cut = #graph.cut<1, 1, tensor<4x8x1x1xf32>>}
graph.parameter @dense : tensor<8x4x1x1xf32> role = trainable
graph.parameter @scale : tensor<8xf32> role = trainable
graph.parameter @bias : tensor<8xf32> role = trainable
graph.parameter @mean : tensor<8xf32> role = buffer
graph.parameter @depthwise : tensor<8x1x3x3xf32> role = trainable
graph.parameter @join : tensor<4x8x1x1xf32> role = trainable
graph.program @micro phase = micro inputs = ["x"] {
^bb0(%x: tensor<2x4x6x6xf32>):
  %wd = graph.read @dense : tensor<8x4x1x1xf32>
  // CHECK: %[[C:.*]] = graph.conv {{.*}} groups = 1 {{.*}} -> tensor<2x4x6x6xf32>
  %c = graph.conv %x, %wd {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, low = array<i64: 0, 0>, high = array<i64: 0, 0>, groups = 1 : i64} : (tensor<2x4x6x6xf32>, tensor<8x4x1x1xf32>) -> tensor<2x8x6x6xf32>
  %s = graph.read @scale : tensor<8xf32>
  %b = graph.read @bias : tensor<8xf32>
  // CHECK: %[[N:.*]], %[[M:.*]], %{{.*}} = graph.batch_norm %[[C]], {{.*}} : (tensor<2x4x6x6xf32>, tensor<4xf32>, tensor<4xf32>)
  %n, %m, %v = graph.batch_norm %c, %s, %b {epsilon = 1.0e-5 : f64} : (tensor<2x8x6x6xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<2x8x6x6xf32>, tensor<8xf32>, tensor<8xf32>)
  %old = graph.read @mean : tensor<8xf32>
  // CHECK: %[[R:.*]] = graph.moving_average {{.*}}, %[[M]]
  // CHECK: %[[A:.*]] = graph.all_gather %[[R]]
  // CHECK: graph.assign @mean, %[[A]] : tensor<8xf32>
  %new = graph.moving_average %old, %m {momentum = 0.9 : f64, factor = 1.0 : f64} : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  graph.assign @mean, %new : tensor<8xf32>
  %wg = graph.read @depthwise : tensor<8x1x3x3xf32>
  // CHECK: %[[G:.*]] = graph.conv %[[N]], {{.*}} groups = 4 {{.*}} -> tensor<2x4x6x6xf32>
  %g = graph.conv %n, %wg {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, low = array<i64: 1, 1>, high = array<i64: 1, 1>, groups = 8 : i64} : (tensor<2x8x6x6xf32>, tensor<8x1x3x3xf32>) -> tensor<2x8x6x6xf32>
  // CHECK: %[[P:.*]], %{{.*}} = graph.max_pool %[[G]] {{.*}} -> (tensor<2x4x3x3xf32>, tensor<2x4x3x3xi32>)
  %p, %i = graph.max_pool %g {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, dilations = array<i64: 1, 1>, low = array<i64: 0, 0>, sizes = array<i64: 3, 3>} : (tensor<2x8x6x6xf32>) -> (tensor<2x8x3x3xf32>, tensor<2x8x3x3xi32>)
  // CHECK: %[[S:.*]] = graph.sum_pool %[[P]] {{.*}} -> tensor<2x4x2x2xf32>
  %sp = graph.sum_pool %p {kernel = array<i64: 2, 2>, strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, low = array<i64: 0, 0>, sizes = array<i64: 2, 2>} : (tensor<2x8x3x3xf32>) -> tensor<2x8x2x2xf32>
  %wj = graph.read @join : tensor<4x8x1x1xf32>
  // CHECK: %[[Y:.*]] = graph.conv %[[S]], {{.*}} -> tensor<2x4x2x2xf32>
  // CHECK: graph.all_reduce %[[Y]]
  %y = graph.conv %sp, %wj {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, low = array<i64: 0, 0>, high = array<i64: 0, 0>, groups = 1 : i64} : (tensor<2x8x2x2xf32>, tensor<4x8x1x1xf32>) -> tensor<2x4x2x2xf32>
  %loss = graph.reduce_mean %y {axes = array<i64: 0, 1, 2, 3>} : (tensor<2x4x2x2xf32>) -> tensor<f32>
  graph.return %loss : tensor<f32>
}

// -----

// A transposed convolution has its channels the other way round; the bias comes behind the sum. Statistics that are given are cut as the
// channels are.

// CHECK: graph.parameter @up : tensor<4x4x3xf32> {{.*}} {cut = #graph.cut<1, 1, tensor<4x8x3xf32>>}
// CHECK: graph.parameter @down : tensor<4x4x3xf32> {{.*}} {cut = #graph.cut<0, 1, tensor<8x4x3xf32>>}
// CHECK: graph.parameter @down_bias : tensor<4xf32> role = trainable{{$}}
graph.parameter @up : tensor<4x8x3xf32> role = trainable
graph.parameter @scale : tensor<8xf32> role = trainable
graph.parameter @bias : tensor<8xf32> role = trainable
graph.parameter @mean : tensor<8xf32> role = buffer
graph.parameter @variance : tensor<8xf32> role = buffer
graph.parameter @down : tensor<8x4x3xf32> role = trainable
graph.parameter @down_bias : tensor<4xf32> role = trainable
graph.program @micro phase = micro inputs = ["x"] {
^bb0(%x: tensor<2x4x6xf32>):
  %wu = graph.read @up : tensor<4x8x3xf32>
  // CHECK: %[[U:.*]] = graph.conv_transpose {{.*}} -> tensor<2x4x6xf32>
  %u = graph.conv_transpose %x, %wu {strides = array<i64: 1>, dilations = array<i64: 1>, low = array<i64: 1>, high = array<i64: 1>, groups = 1 : i64, sizes = array<i64: 6>} : (tensor<2x4x6xf32>, tensor<4x8x3xf32>) -> tensor<2x8x6xf32>
  %s = graph.read @scale : tensor<8xf32>
  %b = graph.read @bias : tensor<8xf32>
  %m = graph.read @mean : tensor<8xf32>
  %v = graph.read @variance : tensor<8xf32>
  // CHECK-DAG: %[[M:.*]] = graph.all_slice %{{.*}} {dim = 0 : i64, ranks = 2 : i64} : (tensor<8xf32>) -> tensor<4xf32>
  // CHECK: %[[N:.*]] = graph.batch_norm_apply %[[U]], {{.*}} : (tensor<2x4x6xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
  %n = graph.batch_norm_apply %u, %s, %b, %m, %v {epsilon = 1.0e-5 : f64} : (tensor<2x8x6xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<2x8x6xf32>
  %wd = graph.read @down : tensor<8x4x3xf32>
  %bd = graph.read @down_bias : tensor<4xf32>
  // CHECK: %[[D:.*]] = graph.conv_transpose %[[N]], %{{[^,]*}} {
  // CHECK: %[[Y:.*]] = graph.all_reduce %[[D]]
  // CHECK: graph.add %[[Y]]
  %d = graph.conv_transpose %n, %wd, %bd {strides = array<i64: 1>, dilations = array<i64: 1>, low = array<i64: 1>, high = array<i64: 1>, groups = 1 : i64, sizes = array<i64: 6>} : (tensor<2x8x6xf32>, tensor<8x4x3xf32>, tensor<4xf32>) -> tensor<2x4x6xf32>
  %loss = graph.reduce_mean %d {axes = array<i64: 0, 1, 2>} : (tensor<2x4x6xf32>) -> tensor<f32>
  graph.return %loss : tensor<f32>
}

// -----

// A group norm is cut where its groups are.

// CHECK-LABEL: graph.program @groups
module {
graph.parameter @dense : tensor<8x4x1xf32> role = trainable
graph.parameter @scale : tensor<8xf32> role = trainable
graph.parameter @bias : tensor<8xf32> role = trainable
graph.parameter @join : tensor<4x8x1xf32> role = trainable
graph.program @groups phase = micro inputs = ["x"] {
^bb0(%x: tensor<2x4x6xf32>):
  %wd = graph.read @dense : tensor<8x4x1xf32>
  // CHECK: %[[C:.*]] = graph.conv {{.*}} -> tensor<2x4x6xf32>
  %c = graph.conv %x, %wd {strides = array<i64: 1>, dilations = array<i64: 1>, low = array<i64: 0>, high = array<i64: 0>, groups = 1 : i64} : (tensor<2x4x6xf32>, tensor<8x4x1xf32>) -> tensor<2x8x6xf32>
  %s = graph.read @scale : tensor<8xf32>
  %b = graph.read @bias : tensor<8xf32>
  // CHECK: %[[N:.*]], %{{.*}}, %{{.*}} = graph.group_norm %[[C]], {{.*}} groups = 2 : i64} : (tensor<2x4x6xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<2x4x6xf32>, tensor<2x2xf32>, tensor<2x2xf32>)
  %n, %m, %v = graph.group_norm %c, %s, %b {groups = 4 : i64, epsilon = 1.0e-5 : f64} : (tensor<2x8x6xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<2x8x6xf32>, tensor<2x4xf32>, tensor<2x4xf32>)
  %wj = graph.read @join : tensor<4x8x1xf32>
  // CHECK: %[[Y:.*]] = graph.conv %[[N]], {{.*}} -> tensor<2x4x6xf32>
  // CHECK: graph.all_reduce %[[Y]]
  %y = graph.conv %n, %wj {strides = array<i64: 1>, dilations = array<i64: 1>, low = array<i64: 0>, high = array<i64: 0>, groups = 1 : i64} : (tensor<2x8x6xf32>, tensor<4x8x1xf32>) -> tensor<2x4x6xf32>
  %loss = graph.reduce_mean %y {axes = array<i64: 0, 1, 2>} : (tensor<2x4x6xf32>) -> tensor<f32>
  graph.return %loss : tensor<f32>
}
}

// -----

// Groups stay together: two ranks do not divide three.

// expected-error @below {{no weight can be cut over 2 ranks}}
// expected-note @below {{'w': dimension 0: }}
module {
graph.parameter @w : tensor<9x2x3xf32> role = trainable
graph.program @micro phase = micro inputs = ["x"] {
^bb0(%x: tensor<3x6x5xf32>):
  %w = graph.read @w : tensor<9x2x3xf32>
  %y = graph.conv %x, %w {strides = array<i64: 1>, dilations = array<i64: 1>, low = array<i64: 1>, high = array<i64: 1>, groups = 3 : i64} : (tensor<3x6x5xf32>, tensor<9x2x3xf32>) -> tensor<3x9x5xf32>
  %loss = graph.reduce_mean %y {axes = array<i64: 0, 1, 2>} : (tensor<3x9x5xf32>) -> tensor<f32>
  graph.return %loss : tensor<f32>
}
}
