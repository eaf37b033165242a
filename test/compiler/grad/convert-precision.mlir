// RUN: zero-opt %s --convert-precision=precision=bf16 --split-input-file | FileCheck %s
// RUN: zero-opt %s --convert-precision=precision=fp32 --split-input-file | FileCheck %s --check-prefix=SAME
// SAME-NOT: bf16

// CHECK: graph.parameter @w : tensor<4x4xbf16> role = trainable {source = #graph.source<"m.onnx", 0, 64, f32>}
graph.parameter @w : tensor<4x4xf32> role = trainable {source = #graph.source<"m.onnx", 0, 64, f32>}
// CHECK: graph.parameter @frozen : tensor<4xbf16> role = frozen
graph.parameter @frozen : tensor<4xf32> role = frozen
// CHECK: graph.parameter @inv_freq : tensor<4xf32> role = buffer
graph.parameter @inv_freq : tensor<4xf32> role = buffer

// Parameters are narrow, and float inputs where they meet them; tables of constants, statistics and the loss are not.
// CHECK-LABEL: graph.program @micro
graph.program @micro phase = micro inputs = ["x", "labels"] {
// CHECK: ^bb0(%[[X0:.*]]: tensor<2x4xf32>, %[[LABELS:.*]]: tensor<2xi64>)
^bb0(%x: tensor<2x4xf32>, %labels: tensor<2xi64>):
  // CHECK: %[[W:.*]] = graph.read @w : tensor<4x4xbf16>
  %w = graph.read @w : tensor<4x4xf32>
  // CHECK: %[[S:.*]] = graph.read @frozen : tensor<4xbf16>
  %s = graph.read @frozen : tensor<4xf32>
  // CHECK: %[[FREQ:.*]] = graph.read @inv_freq : tensor<4xf32>
  // CHECK: %[[COS:.*]] = graph.cos %[[FREQ]] : (tensor<4xf32>) -> tensor<4xf32>
  %freq = graph.read @inv_freq : tensor<4xf32>
  %cos = graph.cos %freq : (tensor<4xf32>) -> tensor<4xf32>
  // CHECK: %[[X:.*]] = graph.cast %[[X0]] {to = bf16}
  // CHECK: graph.rms_norm %[[X]], %[[S]] {{.*}} -> (tensor<2x4xbf16>, tensor<2xf32>)
  %n, %r = graph.rms_norm %x, %s {axis = 1 : i64, epsilon = 1.0e-6 : f64} : (tensor<2x4xf32>, tensor<4xf32>) -> (tensor<2x4xf32>, tensor<2xf32>)
  // CHECK: %[[Y:.*]] = graph.matmul {{.*}} -> tensor<2x4xbf16>
  %y = graph.matmul %n, %w : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  // One cast serves both users of the table.
  // CHECK: %[[TABLE:.*]] = graph.cast %[[COS]] {to = bf16}
  // CHECK: %[[Z:.*]] = graph.mul %[[Y]], %[[TABLE]]
  // CHECK: graph.add %[[Z]], %[[TABLE]]
  %z = graph.mul %y, %cos : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  %q = graph.add %z, %cos : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  // CHECK: %[[LOSS:.*]], %{{.*}} = graph.cross_entropy {{.*}} : (tensor<2x4xbf16>, tensor<2xi64>) -> (tensor<f32>, tensor<2xf32>)
  %loss, %lse = graph.cross_entropy %q, %labels {ignore_index = -100 : i64} : (tensor<2x4xf32>, tensor<2xi64>) -> (tensor<f32>, tensor<2xf32>)
  // CHECK: %[[HALF:.*]] = graph.constant dense<5.000000e-01> : tensor<f32>
  // CHECK: %[[SCALED:.*]] = graph.mul %[[LOSS]], %[[HALF]] : (tensor<f32>, tensor<f32>)
  %half = graph.constant dense<0.5> : tensor<f32>
  %scaled = graph.mul %loss, %half : (tensor<f32>, tensor<f32>) -> tensor<f32>
  // What is returned keeps its type.
  // CHECK: %[[LOGITS:.*]] = graph.cast %{{.*}} {to = f32}
  // CHECK: graph.return %[[SCALED]], %[[LOGITS]] : tensor<f32>, tensor<2x4xf32>
  graph.return %scaled, %q : tensor<f32>, tensor<2x4xf32>
}

// -----

// A mean over everything is summed in f32; what is computed from it stays wide, and pulls narrow operands up.

graph.parameter @x : tensor<2x3xf32> role = trainable
// CHECK-LABEL: graph.program @wide
graph.program @wide phase = micro inputs = ["y"] {
^bb0(%y: tensor<2x3xf32>):
  %x = graph.read @x : tensor<2x3xf32>
  // CHECK: %[[D:.*]] = graph.sub {{.*}} -> tensor<2x3xbf16>
  // CHECK: %[[WIDE:.*]] = graph.cast %[[D]] {to = f32}
  // CHECK: %[[M:.*]] = graph.reduce_mean %[[WIDE]] {{.*}} -> tensor<f32>
  %d = graph.sub %x, %y : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %m = graph.reduce_mean %d {axes = array<i64: 0, 1>} : (tensor<2x3xf32>) -> tensor<f32>
  // CHECK: %[[P:.*]] = graph.mul %[[M]], %[[WIDE]] {{.*}} -> tensor<2x3xf32>
  %p = graph.mul %m, %d : (tensor<f32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  // A cast to f32 of the model is one to bf16 now.
  // CHECK: graph.cast %[[D]] {to = bf16} : (tensor<2x3xbf16>) -> tensor<2x3xbf16>
  %c = graph.cast %d {to = f32} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // So is one that keeps its dimensions.
  // CHECK: %[[K:.*]] = graph.reduce_mean %[[WIDE]] {{.*}} -> tensor<1x1xf32>
  // CHECK: graph.reshape %[[K]] {{.*}} -> tensor<f32>
  %k = graph.reduce_mean %d {axes = array<i64: 0, 1>, keepdims} : (tensor<2x3xf32>) -> tensor<1x1xf32>
  %l = graph.reshape %k {shape = array<i64>} : (tensor<1x1xf32>) -> tensor<f32>
  graph.return %m, %p, %l : tensor<f32>, tensor<2x3xf32>, tensor<f32>
}

// -----

// Buffers are assigned in f32; integers and bools are left alone.

graph.parameter @mean : tensor<3xf32> role = buffer
graph.parameter @x : tensor<3xf32> role = trainable
// CHECK-LABEL: graph.program @buffers
graph.program @buffers phase = micro inputs = ["i"] {
^bb0(%i: tensor<3xi64>):
  %x = graph.read @x : tensor<3xf32>
  // CHECK: %[[E:.*]] = graph.exp {{.*}} -> tensor<3xbf16>
  %e = graph.exp %x : (tensor<3xf32>) -> tensor<3xf32>
  // CHECK: graph.less {{.*}} : (tensor<3xbf16>, tensor<3xbf16>) -> tensor<3xi1>
  %l = graph.less %e, %x : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xi1>
  // CHECK: graph.add {{.*}} : (tensor<3xi64>, tensor<3xi64>) -> tensor<3xi64>
  %j = graph.add %i, %i : (tensor<3xi64>, tensor<3xi64>) -> tensor<3xi64>
  // CHECK: %[[F:.*]] = graph.cast %[[E]] {to = f32}
  // CHECK: graph.assign @mean, %[[F]] : tensor<3xf32>
  graph.assign @mean, %e : tensor<3xf32>
  graph.return %l, %j : tensor<3xi1>, tensor<3xi64>
}

// -----

// What stops a gradient is as narrow as its operand; the bits of a number are those of f32.
graph.parameter @x : tensor<4xf32> role = trainable
// CHECK-LABEL: inputs = ["detached"]
graph.program @micro phase = micro inputs = ["detached"] {
^bb0(%unread: tensor<4xf32>):
  %x = graph.read @x : tensor<4xf32>
  %y = graph.tanh %x : (tensor<4xf32>) -> tensor<4xf32>
  // CHECK: graph.bitcast %{{.*}} {to = bf16} : (tensor<4xbf16>) -> tensor<4xbf16>
  %d = graph.bitcast %y {to = f32} : (tensor<4xf32>) -> tensor<4xf32>
  // CHECK: %[[WIDE:.*]] = graph.cast %{{.*}} {to = f32} : (tensor<4xbf16>) -> tensor<4xf32>
  // CHECK: graph.bitcast %[[WIDE]] {to = i32} : (tensor<4xf32>) -> tensor<4xi32>
  %b = graph.bitcast %y {to = i32} : (tensor<4xf32>) -> tensor<4xi32>
  graph.return %d, %b : tensor<4xf32>, tensor<4xi32>
}

// -----

// The lowest f32, which masks have, is minus infinity in bf16 but for this; what is infinite stays so.

graph.parameter @w : tensor<2xf32> role = trainable
// CHECK-LABEL: graph.program @masked
graph.program @masked phase = micro inputs = ["m"] {
^bb0(%m: tensor<2xi1>):
  // CHECK: graph.constant dense<[-3.38953139E+38, 0xFF800000]> : tensor<2xf32>
  %w = graph.read @w : tensor<2xf32>
  %low = graph.constant dense<[-3.40282347E+38, 0xFF800000]> : tensor<2xf32>
  %masked = graph.select %m, %w, %low : (tensor<2xi1>, tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  graph.return %masked : tensor<2xf32>
}

// -----

// What is computed of inputs alone is computed as it was given: a row that is picked, how many elements there are. Where it meets what is narrow it has
// 16 bits.

graph.parameter @table : tensor<600x4xf32> role = trainable
// CHECK-LABEL: graph.program @given
graph.program @given phase = micro inputs = ["x", "mask"] {
// CHECK: ^bb0(%[[X:.*]]: tensor<2xf32>, %[[MASK:.*]]: tensor<2x4xf32>)
^bb0(%x: tensor<2xf32>, %mask: tensor<2x4xf32>):
  %table = graph.read @table : tensor<600x4xf32>
  // CHECK: graph.mul %[[X]], {{.*}} -> tensor<2xf32>
  // CHECK: graph.cast {{.*}} {to = i64} : (tensor<2xf32>) -> tensor<2xi64>
  %many = graph.constant dense<599.0> : tensor<f32>
  %scaled = graph.mul %x, %many : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  %index = graph.cast %scaled {to = i64} : (tensor<2xf32>) -> tensor<2xi64>
  %rows = graph.gather %table, %index {axis = 0 : i64} : (tensor<600x4xf32>, tensor<2xi64>) -> tensor<2x4xf32>
  // CHECK: %[[HIDDEN:.*]] = graph.mul %[[MASK]], {{.*}} -> tensor<2x4xf32>
  // CHECK: %[[NARROW:.*]] = graph.cast %[[HIDDEN]] {to = bf16}
  // CHECK: graph.add %{{.*}}, %[[NARROW]] {{.*}} -> tensor<2x4xbf16>
  %low = graph.constant dense<-3.0e38> : tensor<f32>
  %hidden = graph.mul %mask, %low : (tensor<2x4xf32>, tensor<f32>) -> tensor<2x4xf32>
  %scores = graph.add %rows, %hidden : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %weighed = graph.mul %scores, %mask : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  graph.return %weighed : tensor<2x4xf32>
}
