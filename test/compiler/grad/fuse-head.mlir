// RUN: zero-opt %s --split-input-file --fuse-head | FileCheck %s
// RUN: zero-opt %s --split-input-file --fuse-head="fuse=off" | FileCheck %s --check-prefix=NONE
// RUN: zero-opt %s --split-input-file --fuse-head="kernels-of=cuda" | FileCheck %s --check-prefix=CUDA
// RUN: zero-opt %s --split-input-file --fuse-head="largest-whole=1000000" | FileCheck %s --check-prefix=NONE
// RUN: zero-opt %s --split-input-file --fuse-head="forward-only" | FileCheck %s --check-prefix=FORWARD
// NONE-NOT: graph.linear_
// CUDA-NOT: graph.linear_cross_entropy

// A language model's head: the rows of a batch, one position off, tied to a table; what is returned beside the loss is dropped.
graph.parameter @wte : tensor<8192x64xf32> role = trainable
// CHECK-LABEL: graph.program @tied
// FORWARD-LABEL: graph.program @tied
graph.program @tied phase = micro inputs = ["i", "t"] {
^bb0(%i: tensor<4x257xi64>, %t: tensor<1024xi64>):
  // CHECK: %[[W:.*]] = graph.read @wte
  %w = graph.read @wte : tensor<8192x64xf32>
  // CHECK: %[[X:.*]] = graph.gather
  %x = graph.gather %w, %i {axis = 0 : i64} : (tensor<8192x64xf32>, tensor<4x257xi64>) -> tensor<4x257x64xf32>
  // CHECK: graph.matmul
  %l = graph.matmul %x, %w {trans_rhs} : (tensor<4x257x64xf32>, tensor<8192x64xf32>) -> tensor<4x257x8192xf32>
  // CHECK: %[[S:.*]] = graph.slice %[[X]] {offsets = array<i64: 0, 0, 0>, sizes = array<i64: 4, 256, 64>, strides = array<i64: 1, 1, 1>}
  // CHECK: %[[R:.*]] = graph.reshape %[[S]] {shape = array<i64: 1024, 64>}
  // CHECK: %[[LOSS:.*]] = graph.linear_cross_entropy %[[R]], %{{.*}}, %[[W]] {chunk = 512 : i64, ignore_index = -100 : i64, trans_weight} : (tensor<1024x64xf32>, tensor<1024xi64>, tensor<8192x64xf32>) -> tensor<f32>
  // CHECK: graph.return %[[LOSS]]
  // FORWARD-NOT: graph.linear_cross_entropy
  %s = graph.slice %l {offsets = array<i64: 0, 0, 0>, sizes = array<i64: 4, 256, 8192>, strides = array<i64: 1, 1, 1>} : (tensor<4x257x8192xf32>) -> tensor<4x256x8192xf32>
  %r = graph.reshape %s {shape = array<i64: 1024, 8192>} : (tensor<4x256x8192xf32>) -> tensor<1024x8192xf32>
  %loss, %e = graph.cross_entropy %r, %t {ignore_index = -100 : i64} : (tensor<1024x8192xf32>, tensor<1024xi64>) -> (tensor<f32>, tensor<1024xf32>)
  %p = graph.softmax %l {axis = 2 : i64} : (tensor<4x257x8192xf32>) -> tensor<4x257x8192xf32>
  graph.return %loss, %p : tensor<f32>, tensor<4x257x8192xf32>
}

// -----

// Sums over chunks of 16 bits have fp32 beside the gradient: worth it with rows enough. Casts to fp32 are no obstacle.
graph.parameter @w : tensor<64x8192xbf16> role = trainable
graph.parameter @b : tensor<8192xbf16> role = trainable
graph.parameter @v : tensor<64xbf16> role = trainable
// CHECK-LABEL: graph.program @narrow
// FORWARD-LABEL: graph.program @narrow
graph.program @narrow phase = micro inputs = ["x", "t"] {
^bb0(%x: tensor<2000x64xbf16>, %t: tensor<2000xi64>):
  %v = graph.read @v : tensor<64xbf16>
  %w = graph.read @w : tensor<64x8192xbf16>
  %b = graph.read @b : tensor<8192xbf16>
  %y = graph.mul %x, %v : (tensor<2000x64xbf16>, tensor<64xbf16>) -> tensor<2000x64xbf16>
  // CHECK-NOT: graph.matmul
  // CHECK: graph.linear_cross_entropy %{{.*}} {chunk = 500 : i64, ignore_index = 0 : i64, sum} : (tensor<2000x64xbf16>, tensor<2000xi64>, tensor<64x8192xbf16>, tensor<8192xbf16>) -> tensor<f32>
  // FORWARD: graph.linear_cross_entropy
  %l = graph.matmul %y, %w, %b : (tensor<2000x64xbf16>, tensor<64x8192xbf16>, tensor<8192xbf16>) -> tensor<2000x8192xbf16>
  %f = graph.cast %l {to = f32} : (tensor<2000x8192xbf16>) -> tensor<2000x8192xf32>
  %loss, %e = graph.cross_entropy %f, %t {ignore_index = 0 : i64, sum} : (tensor<2000x8192xf32>, tensor<2000xi64>) -> (tensor<f32>, tensor<2000xf32>)
  graph.return %loss : tensor<f32>
}

// -----

// The logits are wanted for something else; the gradient of the log-sum-exp is nobody's.
graph.parameter @w : tensor<64x8192xf32> role = trainable
graph.parameter @v : tensor<64xf32> role = trainable
// CHECK-LABEL: graph.program @used
// CHECK-NOT: graph.linear_cross_entropy
graph.program @used phase = micro inputs = ["x", "t"] {
^bb0(%x: tensor<1024x64xf32>, %t: tensor<1024xi64>):
  %v = graph.read @v : tensor<64xf32>
  %w = graph.read @w : tensor<64x8192xf32>
  %y = graph.mul %x, %v : (tensor<1024x64xf32>, tensor<64xf32>) -> tensor<1024x64xf32>
  %l = graph.matmul %y, %w : (tensor<1024x64xf32>, tensor<64x8192xf32>) -> tensor<1024x8192xf32>
  %loss, %e = graph.cross_entropy %l, %t {ignore_index = 0 : i64} : (tensor<1024x8192xf32>, tensor<1024xi64>) -> (tensor<f32>, tensor<1024xf32>)
  %m = graph.reduce_mean %l {axes = array<i64: 0, 1>} : (tensor<1024x8192xf32>) -> tensor<f32>
  %all = graph.add %loss, %m : (tensor<f32>, tensor<f32>) -> tensor<f32>
  graph.return %all : tensor<f32>
}

// -----

// Few rows; a frozen weight beside a trained bias, whose gradient would be made for nothing; classes that a reshape takes apart.
graph.parameter @w : tensor<64x8192xf32> role = trainable
graph.parameter @f : tensor<64x8192xf32> role = frozen
graph.parameter @b : tensor<8192xf32> role = trainable
graph.parameter @v : tensor<64xf32> role = trainable
// CHECK-LABEL: graph.program @apart
// CHECK-NOT: graph.linear_cross_entropy
graph.program @apart phase = micro inputs = ["x", "y", "t", "u"] {
^bb0(%x: tensor<256x64xf32>, %y: tensor<1024x64xf32>, %t: tensor<256xi64>, %u: tensor<1024xi64>):
  %v = graph.read @v : tensor<64xf32>
  %w = graph.read @w : tensor<64x8192xf32>
  %f = graph.read @f : tensor<64x8192xf32>
  %xv = graph.mul %x, %v : (tensor<256x64xf32>, tensor<64xf32>) -> tensor<256x64xf32>
  %yv = graph.mul %y, %v : (tensor<1024x64xf32>, tensor<64xf32>) -> tensor<1024x64xf32>
  %l1 = graph.matmul %xv, %w : (tensor<256x64xf32>, tensor<64x8192xf32>) -> tensor<256x8192xf32>
  %loss1, %e1 = graph.cross_entropy %l1, %t {ignore_index = 0 : i64} : (tensor<256x8192xf32>, tensor<256xi64>) -> (tensor<f32>, tensor<256xf32>)
  %b = graph.read @b : tensor<8192xf32>
  %l2 = graph.matmul %yv, %f, %b : (tensor<1024x64xf32>, tensor<64x8192xf32>, tensor<8192xf32>) -> tensor<1024x8192xf32>
  %loss2, %e2 = graph.cross_entropy %l2, %u {ignore_index = 0 : i64} : (tensor<1024x8192xf32>, tensor<1024xi64>) -> (tensor<f32>, tensor<1024xf32>)
  %l3 = graph.matmul %xv, %w : (tensor<256x64xf32>, tensor<64x8192xf32>) -> tensor<256x8192xf32>
  %r3 = graph.reshape %l3 {shape = array<i64: 1024, 2048>} : (tensor<256x8192xf32>) -> tensor<1024x2048xf32>
  %loss3, %e3 = graph.cross_entropy %r3, %u {ignore_index = 0 : i64} : (tensor<1024x2048xf32>, tensor<1024xi64>) -> (tensor<f32>, tensor<1024xf32>)
  %s = graph.add %loss1, %loss2 : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %all = graph.add %s, %loss3 : (tensor<f32>, tensor<f32>) -> tensor<f32>
  graph.return %all : tensor<f32>
}

// -----

// Rows enough for a GPU, whose chunks are larger.
graph.parameter @w : tensor<64x8192xbf16> role = trainable
graph.parameter @v : tensor<64xbf16> role = trainable
// CHECK-LABEL: graph.program @many
// FORWARD-LABEL: graph.program @many
// CUDA: graph.program @many
graph.program @many phase = micro inputs = ["x", "t"] {
^bb0(%x: tensor<10000x64xbf16>, %t: tensor<10000xi64>):
  %v = graph.read @v : tensor<64xbf16>
  %w = graph.read @w : tensor<64x8192xbf16>
  %y = graph.mul %x, %v : (tensor<10000x64xbf16>, tensor<64xbf16>) -> tensor<10000x64xbf16>
  // CHECK: graph.linear_cross_entropy %{{.*}} {chunk = 500 : i64, ignore_index = 0 : i64} : (tensor<10000x64xbf16>
  // CUDA: graph.linear_cross_entropy %{{.*}} {chunk = 3334 : i64, ignore_index = 0 : i64} : (tensor<10000x64xbf16>
  // FORWARD: graph.linear_cross_entropy
  %l = graph.matmul %y, %w : (tensor<10000x64xbf16>, tensor<64x8192xbf16>) -> tensor<10000x8192xbf16>
  %loss, %e = graph.cross_entropy %l, %t {ignore_index = 0 : i64} : (tensor<10000x8192xbf16>, tensor<10000xi64>) -> (tensor<f32>, tensor<10000xf32>)
  graph.return %loss : tensor<f32>
}

// -----

// What some models do to logits is done to the layer's operands: a bias that is kept beside it (BART), a scale (Cohere, Granite).
graph.parameter @w : tensor<8192x64xf32> role = trainable
graph.parameter @b : tensor<1x8192xf32> role = buffer
graph.parameter @v : tensor<64xf32> role = trainable
// CHECK-LABEL: graph.program @beside
// FORWARD-LABEL: graph.program @beside
graph.program @beside phase = micro inputs = ["x", "t"] {
^bb0(%x: tensor<1024x64xf32>, %t: tensor<1024xi64>):
  %v = graph.read @v : tensor<64xf32>
  %w = graph.read @w : tensor<8192x64xf32>
  // CHECK: %[[B:.*]] = graph.read @b
  %b = graph.read @b : tensor<1x8192xf32>
  // CHECK: %[[Y:.*]] = graph.mul
  %y = graph.mul %x, %v : (tensor<1024x64xf32>, tensor<64xf32>) -> tensor<1024x64xf32>
  // CHECK-NOT: graph.matmul
  // CHECK: %[[R:.*]] = graph.reshape %[[Y]] {shape = array<i64: 2, 512, 64>}
  // CHECK: %[[S:.*]] = graph.reshape %[[R]] {shape = array<i64: 1024, 64>}
  // CHECK: %[[X:.*]] = graph.mul %[[S]], %{{.*}} : (tensor<1024x64xf32>, tensor<f32>)
  // CHECK: %[[C:.*]] = graph.reshape %[[B]] {shape = array<i64: 8192>}
  // CHECK: %[[D:.*]] = graph.mul %[[C]], %{{.*}} : (tensor<8192xf32>, tensor<f32>)
  // CHECK: graph.linear_cross_entropy %[[X]], %{{.*}}, %{{.*}}, %[[D]] {chunk = 512
  // FORWARD: graph.linear_cross_entropy
  %l = graph.matmul %y, %w {trans_rhs} : (tensor<1024x64xf32>, tensor<8192x64xf32>) -> tensor<1024x8192xf32>
  %r = graph.reshape %l {shape = array<i64: 2, 512, 8192>} : (tensor<1024x8192xf32>) -> tensor<2x512x8192xf32>
  %a = graph.add %r, %b : (tensor<2x512x8192xf32>, tensor<1x8192xf32>) -> tensor<2x512x8192xf32>
  %c = graph.constant dense<8.0> : tensor<f32>
  %s = graph.div %a, %c : (tensor<2x512x8192xf32>, tensor<f32>) -> tensor<2x512x8192xf32>
  %f = graph.reshape %s {shape = array<i64: 1024, 8192>} : (tensor<2x512x8192xf32>) -> tensor<1024x8192xf32>
  %loss, %e = graph.cross_entropy %f, %t {ignore_index = -100 : i64} : (tensor<1024x8192xf32>, tensor<1024xi64>) -> (tensor<f32>, tensor<1024xf32>)
  graph.return %loss : tensor<f32>
}

// -----

// A scale that 16 bits would round; a column is no bias.
graph.parameter @w : tensor<64x8192xbf16> role = trainable
graph.parameter @u : tensor<64x8192xf32> role = trainable
graph.parameter @v : tensor<64xbf16> role = trainable
// CHECK-LABEL: graph.program @rounded
// CHECK-NOT: graph.linear_cross_entropy
// FORWARD-LABEL: graph.program @rounded
// FORWARD-NOT: graph.linear_cross_entropy
graph.program @rounded phase = micro inputs = ["x", "t", "z", "p"] {
^bb0(%x: tensor<4000x64xbf16>, %t: tensor<4000xi64>, %z: tensor<1024x64xf32>, %p: tensor<1024x1xf32>):
  %v = graph.read @v : tensor<64xbf16>
  %w = graph.read @w : tensor<64x8192xbf16>
  %u = graph.read @u : tensor<64x8192xf32>
  %y = graph.mul %x, %v : (tensor<4000x64xbf16>, tensor<64xbf16>) -> tensor<4000x64xbf16>
  %l = graph.matmul %y, %w : (tensor<4000x64xbf16>, tensor<64x8192xbf16>) -> tensor<4000x8192xbf16>
  %f = graph.cast %l {to = f32} : (tensor<4000x8192xbf16>) -> tensor<4000x8192xf32>
  %c = graph.constant dense<0.3> : tensor<f32>
  %s = graph.mul %f, %c : (tensor<4000x8192xf32>, tensor<f32>) -> tensor<4000x8192xf32>
  %loss, %e = graph.cross_entropy %s, %t {ignore_index = 0 : i64} : (tensor<4000x8192xf32>, tensor<4000xi64>) -> (tensor<f32>, tensor<4000xf32>)
  %k = graph.slice %t {offsets = array<i64: 0>, sizes = array<i64: 1024>, strides = array<i64: 1>} : (tensor<4000xi64>) -> tensor<1024xi64>
  %m = graph.matmul %z, %u : (tensor<1024x64xf32>, tensor<64x8192xf32>) -> tensor<1024x8192xf32>
  %n = graph.add %m, %p : (tensor<1024x8192xf32>, tensor<1024x1xf32>) -> tensor<1024x8192xf32>
  %other, %g = graph.cross_entropy %n, %k {ignore_index = 0 : i64} : (tensor<1024x8192xf32>, tensor<1024xi64>) -> (tensor<f32>, tensor<1024xf32>)
  %all = graph.add %loss, %other : (tensor<f32>, tensor<f32>) -> tensor<f32>
  graph.return %all : tensor<f32>
}

// -----

// A frozen layer, as where adapters are trained: without sums of the weight's gradient 16 bits are worth it with fewer rows.
graph.parameter @f : tensor<16384x512xbf16> role = frozen
graph.parameter @v : tensor<512xbf16> role = trainable
// CHECK-LABEL: graph.program @frozen
// FORWARD-LABEL: graph.program @frozen
graph.program @frozen phase = micro inputs = ["x", "t"] {
^bb0(%x: tensor<1024x512xbf16>, %t: tensor<1024xi64>):
  %v = graph.read @v : tensor<512xbf16>
  %f = graph.read @f : tensor<16384x512xbf16>
  %y = graph.mul %x, %v : (tensor<1024x512xbf16>, tensor<512xbf16>) -> tensor<1024x512xbf16>
  // CHECK-NOT: graph.matmul
  // CHECK: graph.linear_cross_entropy %{{.*}} {chunk = 512 : i64, ignore_index = -100 : i64, trans_weight}
  // FORWARD: graph.linear_cross_entropy
  %l = graph.matmul %y, %f {trans_rhs} : (tensor<1024x512xbf16>, tensor<16384x512xbf16>) -> tensor<1024x16384xbf16>
  %loss, %e = graph.cross_entropy %l, %t {ignore_index = -100 : i64} : (tensor<1024x16384xbf16>, tensor<1024xi64>) -> (tensor<f32>, tensor<1024xf32>)
  graph.return %loss : tensor<f32>
}

// -----

// The same, trained: fp32 beside the weight's gradient has as many bytes as the logits.
graph.parameter @w : tensor<16384x512xbf16> role = trainable
// CHECK-LABEL: graph.program @trained
// CHECK-NOT: graph.linear_cross_entropy
graph.program @trained phase = micro inputs = ["i", "t"] {
^bb0(%i: tensor<1024xi64>, %t: tensor<1024xi64>):
  %w = graph.read @w : tensor<16384x512xbf16>
  %x = graph.gather %w, %i {axis = 0 : i64} : (tensor<16384x512xbf16>, tensor<1024xi64>) -> tensor<1024x512xbf16>
  %l = graph.matmul %x, %w {trans_rhs} : (tensor<1024x512xbf16>, tensor<16384x512xbf16>) -> tensor<1024x16384xbf16>
  %loss, %e = graph.cross_entropy %l, %t {ignore_index = -100 : i64} : (tensor<1024x16384xbf16>, tensor<1024xi64>) -> (tensor<f32>, tensor<1024xf32>)
  graph.return %loss : tensor<f32>
}

// -----

// Capped logits (Gemma 2), in 16 bits, where 1 / 30 is no number; the cap and what the layer is divided by before are 1 together.
graph.parameter @w : tensor<64x8192xbf16> role = trainable
graph.parameter @v : tensor<64xbf16> role = trainable
// CHECK-LABEL: graph.program @capped
// FORWARD-LABEL: graph.program @capped
graph.program @capped phase = micro inputs = ["x", "t"] {
^bb0(%x: tensor<2x1000x64xbf16>, %t: tensor<2000xi64>):
  %v = graph.read @v : tensor<64xbf16>
  %w = graph.read @w : tensor<64x8192xbf16>
  // CHECK: %[[Y:.*]] = graph.mul
  %y = graph.mul %x, %v : (tensor<2x1000x64xbf16>, tensor<64xbf16>) -> tensor<2x1000x64xbf16>
  // CHECK-NOT: graph.tanh
  // CHECK: %[[R:.*]] = graph.reshape %[[Y]] {shape = array<i64: 2000, 64>}
  // CHECK-NEXT: graph.linear_cross_entropy %[[R]], %{{.*}} {cap = 3.000000e+01 : f64, chunk = 500 : i64
  // FORWARD: graph.linear_cross_entropy
  %l = graph.matmul %y, %w : (tensor<2x1000x64xbf16>, tensor<64x8192xbf16>) -> tensor<2x1000x8192xbf16>
  %c = graph.constant dense<3.0e+01> : tensor<bf16>
  %d = graph.div %l, %c : (tensor<2x1000x8192xbf16>, tensor<bf16>) -> tensor<2x1000x8192xbf16>
  %h = graph.tanh %d : (tensor<2x1000x8192xbf16>) -> tensor<2x1000x8192xbf16>
  %m = graph.mul %c, %h : (tensor<bf16>, tensor<2x1000x8192xbf16>) -> tensor<2x1000x8192xbf16>
  %f = graph.cast %m {to = f32} : (tensor<2x1000x8192xbf16>) -> tensor<2x1000x8192xf32>
  %r = graph.reshape %f {shape = array<i64: 2000, 8192>} : (tensor<2x1000x8192xf32>) -> tensor<2000x8192xf32>
  %loss, %e = graph.cross_entropy %r, %t {ignore_index = -100 : i64} : (tensor<2000x8192xf32>, tensor<2000xi64>) -> (tensor<f32>, tensor<2000xf32>)
  graph.return %loss : tensor<f32>
}

// -----

// A bias within the cap, and a scale that is not its inverse: both are the layer's. A frozen one: of 8 and 1/4, 2 is left.
graph.parameter @w : tensor<64x8192xf32> role = frozen
graph.parameter @b : tensor<8192xf32> role = frozen
graph.parameter @v : tensor<64xf32> role = trainable
// CHECK-LABEL: graph.program @within
graph.program @within phase = micro inputs = ["x", "t"] {
^bb0(%x: tensor<1024x64xf32>, %t: tensor<1024xi64>):
  %v = graph.read @v : tensor<64xf32>
  %w = graph.read @w : tensor<64x8192xf32>
  %b = graph.read @b : tensor<8192xf32>
  %y = graph.mul %x, %v : (tensor<1024x64xf32>, tensor<64xf32>) -> tensor<1024x64xf32>
  // CHECK: %[[TWO:.*]] = graph.constant dense<2.000000e+00>
  // CHECK: %[[X:.*]] = graph.mul %{{.*}}, %[[TWO]] : (tensor<1024x64xf32>
  // CHECK: %[[EIGHT:.*]] = graph.constant dense<8.000000e+00>
  // CHECK: %[[B:.*]] = graph.mul %{{.*}}, %[[EIGHT]] : (tensor<8192xf32>
  // CHECK: graph.linear_cross_entropy %[[X]], %{{.*}}, %{{.*}}, %[[B]] {cap = 8.000000e+00 : f64
  %l = graph.matmul %y, %w : (tensor<1024x64xf32>, tensor<64x8192xf32>) -> tensor<1024x8192xf32>
  %q = graph.constant dense<0.25> : tensor<f32>
  %d = graph.mul %l, %q : (tensor<1024x8192xf32>, tensor<f32>) -> tensor<1024x8192xf32>
  %a = graph.add %d, %b : (tensor<1024x8192xf32>, tensor<8192xf32>) -> tensor<1024x8192xf32>
  %h = graph.tanh %a : (tensor<1024x8192xf32>) -> tensor<1024x8192xf32>
  %c = graph.constant dense<8.0> : tensor<f32>
  %m = graph.mul %h, %c : (tensor<1024x8192xf32>, tensor<f32>) -> tensor<1024x8192xf32>
  %loss, %e = graph.cross_entropy %m, %t {ignore_index = -100 : i64} : (tensor<1024x8192xf32>, tensor<1024xi64>) -> (tensor<f32>, tensor<1024xf32>)
  graph.return %loss : tensor<f32>
}

// -----

// In fp16 rows that are 1024 times as large might be infinite, where logits are not.
graph.parameter @w : tensor<64x8192xf16> role = frozen
graph.parameter @v : tensor<64xf16> role = trainable
// CHECK-LABEL: graph.program @overflows
// CHECK-NOT: graph.linear_cross_entropy
graph.program @overflows phase = micro inputs = ["x", "t"] {
^bb0(%x: tensor<2000x64xf16>, %t: tensor<2000xi64>):
  %v = graph.read @v : tensor<64xf16>
  %w = graph.read @w : tensor<64x8192xf16>
  %y = graph.mul %x, %v : (tensor<2000x64xf16>, tensor<64xf16>) -> tensor<2000x64xf16>
  %l = graph.matmul %y, %w : (tensor<2000x64xf16>, tensor<64x8192xf16>) -> tensor<2000x8192xf16>
  %c = graph.constant dense<1.024e+03> : tensor<f16>
  %h = graph.tanh %l : (tensor<2000x8192xf16>) -> tensor<2000x8192xf16>
  %m = graph.mul %h, %c : (tensor<2000x8192xf16>, tensor<f16>) -> tensor<2000x8192xf16>
  %f = graph.cast %m {to = f32} : (tensor<2000x8192xf16>) -> tensor<2000x8192xf32>
  %loss, %e = graph.cross_entropy %f, %t {ignore_index = -100 : i64} : (tensor<2000x8192xf32>, tensor<2000xi64>) -> (tensor<f32>, tensor<2000xf32>)
  graph.return %loss : tensor<f32>
}

// -----

// Behind the cap a bias is not the layer's; two caps are none; of a negative one the largest logit would be the smallest.
graph.parameter @w : tensor<8192x64xf32> role = trainable
graph.parameter @b : tensor<8192xf32> role = trainable
// CHECK-LABEL: graph.program @otherwise
// CHECK-NOT: graph.linear_cross_entropy
graph.program @otherwise phase = micro inputs = ["i", "t"] {
^bb0(%i: tensor<1024xi64>, %t: tensor<1024xi64>):
  %w = graph.read @w : tensor<8192x64xf32>
  %b = graph.read @b : tensor<8192xf32>
  %x = graph.gather %w, %i {axis = 0 : i64} : (tensor<8192x64xf32>, tensor<1024xi64>) -> tensor<1024x64xf32>
  %l1 = graph.matmul %x, %w {trans_rhs} : (tensor<1024x64xf32>, tensor<8192x64xf32>) -> tensor<1024x8192xf32>
  %h1 = graph.tanh %l1 : (tensor<1024x8192xf32>) -> tensor<1024x8192xf32>
  %a1 = graph.add %h1, %b : (tensor<1024x8192xf32>, tensor<8192xf32>) -> tensor<1024x8192xf32>
  %loss1, %e1 = graph.cross_entropy %a1, %t {ignore_index = -100 : i64} : (tensor<1024x8192xf32>, tensor<1024xi64>) -> (tensor<f32>, tensor<1024xf32>)
  %l2 = graph.matmul %x, %w {trans_rhs} : (tensor<1024x64xf32>, tensor<8192x64xf32>) -> tensor<1024x8192xf32>
  %h2 = graph.tanh %l2 : (tensor<1024x8192xf32>) -> tensor<1024x8192xf32>
  %a2 = graph.tanh %h2 : (tensor<1024x8192xf32>) -> tensor<1024x8192xf32>
  %loss2, %e2 = graph.cross_entropy %a2, %t {ignore_index = -100 : i64} : (tensor<1024x8192xf32>, tensor<1024xi64>) -> (tensor<f32>, tensor<1024xf32>)
  %l3 = graph.matmul %x, %w {trans_rhs} : (tensor<1024x64xf32>, tensor<8192x64xf32>) -> tensor<1024x8192xf32>
  %h3 = graph.tanh %l3 : (tensor<1024x8192xf32>) -> tensor<1024x8192xf32>
  %c = graph.constant dense<-8.0> : tensor<f32>
  %a3 = graph.mul %h3, %c : (tensor<1024x8192xf32>, tensor<f32>) -> tensor<1024x8192xf32>
  %loss3, %e3 = graph.cross_entropy %a3, %t {ignore_index = -100 : i64} : (tensor<1024x8192xf32>, tensor<1024xi64>) -> (tensor<f32>, tensor<1024xf32>)
  %s = graph.add %loss1, %loss2 : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %all = graph.add %s, %loss3 : (tensor<f32>, tensor<f32>) -> tensor<f32>
  graph.return %all : tensor<f32>
}

// -----

// Class weights and label smoothing, as import writes torch's cross_entropy: of the log-softmax two numbers of each row are left. What
// says which stands before it then.
graph.parameter @w : tensor<8192x64xf32> role = trainable
graph.parameter @c : tensor<8192xf32> role = buffer
// CHECK-LABEL: graph.program @weighted
// FORWARD-LABEL: graph.program @weighted
graph.program @weighted phase = micro inputs = ["i", "t"] {
^bb0(%i: tensor<1024xi64>, %t: tensor<1024xi64>):
  %w = graph.read @w : tensor<8192x64xf32>
  // CHECK: %[[C:.*]] = graph.read @c
  %c = graph.read @c : tensor<8192xf32>
  // CHECK: %[[X:.*]] = graph.gather
  %x = graph.gather %w, %i {axis = 0 : i64} : (tensor<8192x64xf32>, tensor<1024xi64>) -> tensor<1024x64xf32>
  // CHECK-NOT: graph.matmul
  %l = graph.matmul %x, %w {trans_rhs} : (tensor<1024x64xf32>, tensor<8192x64xf32>) -> tensor<1024x8192xf32>
  // CHECK-NOT: graph.log_softmax
  %p = graph.log_softmax %l {axis = 1 : i64} : (tensor<1024x8192xf32>) -> tensor<1024x8192xf32>
  // CHECK: %[[U:.*]] = graph.label_index
  // CHECK: %[[EACH:.*]] = graph.constant dense<1.22070313E-4> : tensor<f32>
  // CHECK: %[[S:.*]] = graph.mul %[[C]], %[[EACH]]
  // CHECK: %[[P:.*]], %[[A:.*]] = graph.linear_log_softmax %[[X]], %{{.*}}, %[[S]], %{{.*}} {chunk = 512 : i64, trans_weight} : (tensor<1024x64xf32>, tensor<1024xi64>, tensor<8192xf32>, tensor<8192x64xf32>) -> (tensor<1024xf32>, tensor<1024xf32>)
  // FORWARD: graph.linear_log_softmax
  %u = graph.label_index %t {classes = 8192 : i64, ignore_index = -100 : i64} : (tensor<1024xi64>) -> tensor<1024xi64>
  %v = graph.reshape %u {shape = array<i64: 1024, 1>} : (tensor<1024xi64>) -> tensor<1024x1xi64>
  // CHECK: %[[Q:.*]] = graph.reshape %[[P]] {shape = array<i64: 1024, 1>}
  %q = graph.gather_elements %p, %v {axis = 1 : i64} : (tensor<1024x8192xf32>, tensor<1024x1xi64>) -> tensor<1024x1xf32>
  %r = graph.reshape %q {shape = array<i64: 1024>} : (tensor<1024x1xf32>) -> tensor<1024xf32>
  %d = graph.gather %c, %u {axis = 0 : i64} : (tensor<8192xf32>, tensor<1024xi64>) -> tensor<1024xf32>
  %n = graph.mul %r, %d : (tensor<1024xf32>, tensor<1024xf32>) -> tensor<1024xf32>
  // CHECK-NOT: tensor<1024x8192xf32>
  %m = graph.mul %p, %c : (tensor<1024x8192xf32>, tensor<8192xf32>) -> tensor<1024x8192xf32>
  %a = graph.reduce_mean %m {axes = array<i64: 1>} : (tensor<1024x8192xf32>) -> tensor<1024xf32>
  // CHECK: graph.add %{{.*}}, %[[A]]
  %both = graph.add %n, %a : (tensor<1024xf32>, tensor<1024xf32>) -> tensor<1024xf32>
  %loss = graph.reduce_sum %both {axes = array<i64: 0>} : (tensor<1024xf32>) -> tensor<f32>
  graph.return %loss : tensor<f32>
}

// -----

// As transformers' LabelSmoother writes it, of three dimensions in 16 bits behind a cap: a sum is as many means as there are classes.
graph.parameter @w : tensor<64x8192xbf16> role = trainable
graph.parameter @v : tensor<64xbf16> role = trainable
// CHECK-LABEL: graph.program @smoothed
// FORWARD-LABEL: graph.program @smoothed
graph.program @smoothed phase = micro inputs = ["x", "t"] {
^bb0(%x: tensor<4x500x64xbf16>, %t: tensor<4x500x1xi32>):
  %v = graph.read @v : tensor<64xbf16>
  %w = graph.read @w : tensor<64x8192xbf16>
  %y = graph.mul %x, %v : (tensor<4x500x64xbf16>, tensor<64xbf16>) -> tensor<4x500x64xbf16>
  // CHECK-NOT: graph.matmul
  // CHECK: %[[SHARES:.*]] = graph.constant dense<1.22070313E-4> : tensor<8192xf32>
  // CHECK: %[[P:.*]], %[[A:.*]] = graph.linear_log_softmax %{{.*}}, %{{.*}}, %[[SHARES]], %{{.*}} {cap = 5.000000e+00 : f64, chunk = 500 : i64}
  // FORWARD: graph.linear_log_softmax
  %l = graph.matmul %y, %w : (tensor<4x500x64xbf16>, tensor<64x8192xbf16>) -> tensor<4x500x8192xbf16>
  %five = graph.constant dense<5.0> : tensor<bf16>
  %s = graph.div %l, %five : (tensor<4x500x8192xbf16>, tensor<bf16>) -> tensor<4x500x8192xbf16>
  %h = graph.tanh %s : (tensor<4x500x8192xbf16>) -> tensor<4x500x8192xbf16>
  %k = graph.mul %h, %five : (tensor<4x500x8192xbf16>, tensor<bf16>) -> tensor<4x500x8192xbf16>
  %p = graph.log_softmax %k {axis = 2 : i64} : (tensor<4x500x8192xbf16>) -> tensor<4x500x8192xbf16>
  %n = graph.neg %p : (tensor<4x500x8192xbf16>) -> tensor<4x500x8192xbf16>
  // CHECK: %[[N:.*]] = graph.neg %[[P]] : (tensor<2000xf32>)
  // CHECK: %[[C:.*]] = graph.cast %[[N]] {to = bf16}
  // CHECK: graph.reshape %[[C]] {shape = array<i64: 4, 500, 1>}
  %q = graph.gather_elements %n, %t {axis = 2 : i64} : (tensor<4x500x8192xbf16>, tensor<4x500x1xi32>) -> tensor<4x500x1xbf16>
  // CHECK: %[[M:.*]] = graph.neg %[[A]] : (tensor<2000xf32>)
  // CHECK: %[[CLASSES:.*]] = graph.constant dense<8.192000e+03> : tensor<f32>
  // CHECK: graph.mul %[[M]], %[[CLASSES]]
  %a = graph.reduce_sum %n {axes = array<i64: 2>, keepdims} : (tensor<4x500x8192xbf16>) -> tensor<4x500x1xbf16>
  %both = graph.add %q, %a : (tensor<4x500x1xbf16>, tensor<4x500x1xbf16>) -> tensor<4x500x1xbf16>
  %wide = graph.cast %both {to = f32} : (tensor<4x500x1xbf16>) -> tensor<4x500x1xf32>
  %loss = graph.reduce_sum %wide {axes = array<i64: 0, 1, 2>} : (tensor<4x500x1xf32>) -> tensor<f32>
  graph.return %loss : tensor<f32>
}

// -----

// Somebody wants all of the log-softmax; two labels of a row; weights that are trained; weights for the label alone.
graph.parameter @w : tensor<8192x64xf32> role = trainable
graph.parameter @c : tensor<8192xf32> role = trainable
// CHECK-LABEL: graph.program @whole
// CHECK-NOT: graph.linear_log_softmax
graph.program @whole phase = micro inputs = ["i", "t", "u"] {
^bb0(%i: tensor<1024xi64>, %t: tensor<1024x1xi64>, %u: tensor<1024x2xi64>):
  %w = graph.read @w : tensor<8192x64xf32>
  %c = graph.read @c : tensor<8192xf32>
  %x = graph.gather %w, %i {axis = 0 : i64} : (tensor<8192x64xf32>, tensor<1024xi64>) -> tensor<1024x64xf32>
  %l1 = graph.matmul %x, %w {trans_rhs} : (tensor<1024x64xf32>, tensor<8192x64xf32>) -> tensor<1024x8192xf32>
  %p1 = graph.log_softmax %l1 {axis = 1 : i64} : (tensor<1024x8192xf32>) -> tensor<1024x8192xf32>
  %q1 = graph.gather_elements %p1, %t {axis = 1 : i64} : (tensor<1024x8192xf32>, tensor<1024x1xi64>) -> tensor<1024x1xf32>
  %e1 = graph.exp %p1 : (tensor<1024x8192xf32>) -> tensor<1024x8192xf32>
  %a1 = graph.reduce_sum %e1 {axes = array<i64: 1>, keepdims} : (tensor<1024x8192xf32>) -> tensor<1024x1xf32>
  %l2 = graph.matmul %x, %w {trans_rhs} : (tensor<1024x64xf32>, tensor<8192x64xf32>) -> tensor<1024x8192xf32>
  %p2 = graph.log_softmax %l2 {axis = 1 : i64} : (tensor<1024x8192xf32>) -> tensor<1024x8192xf32>
  %q2 = graph.gather_elements %p2, %u {axis = 1 : i64} : (tensor<1024x8192xf32>, tensor<1024x2xi64>) -> tensor<1024x2xf32>
  %l3 = graph.matmul %x, %w {trans_rhs} : (tensor<1024x64xf32>, tensor<8192x64xf32>) -> tensor<1024x8192xf32>
  %p3 = graph.log_softmax %l3 {axis = 1 : i64} : (tensor<1024x8192xf32>) -> tensor<1024x8192xf32>
  %q3 = graph.gather_elements %p3, %t {axis = 1 : i64} : (tensor<1024x8192xf32>, tensor<1024x1xi64>) -> tensor<1024x1xf32>
  %m3 = graph.mul %p3, %c : (tensor<1024x8192xf32>, tensor<8192xf32>) -> tensor<1024x8192xf32>
  %a3 = graph.reduce_sum %m3 {axes = array<i64: 1>, keepdims} : (tensor<1024x8192xf32>) -> tensor<1024x1xf32>
  %l4 = graph.matmul %x, %w {trans_rhs} : (tensor<1024x64xf32>, tensor<8192x64xf32>) -> tensor<1024x8192xf32>
  %p4 = graph.log_softmax %l4 {axis = 1 : i64} : (tensor<1024x8192xf32>) -> tensor<1024x8192xf32>
  %m4 = graph.mul %p4, %c : (tensor<1024x8192xf32>, tensor<8192xf32>) -> tensor<1024x8192xf32>
  %q4 = graph.gather_elements %m4, %t {axis = 1 : i64} : (tensor<1024x8192xf32>, tensor<1024x1xi64>) -> tensor<1024x1xf32>
  %s1 = graph.add %q1, %a1 : (tensor<1024x1xf32>, tensor<1024x1xf32>) -> tensor<1024x1xf32>
  %s3 = graph.add %q3, %a3 : (tensor<1024x1xf32>, tensor<1024x1xf32>) -> tensor<1024x1xf32>
  %s4 = graph.add %s1, %q4 : (tensor<1024x1xf32>, tensor<1024x1xf32>) -> tensor<1024x1xf32>
  %s = graph.add %s3, %s4 : (tensor<1024x1xf32>, tensor<1024x1xf32>) -> tensor<1024x1xf32>
  %all = graph.add %q2, %s : (tensor<1024x2xf32>, tensor<1024x1xf32>) -> tensor<1024x2xf32>
  %loss = graph.reduce_sum %all {axes = array<i64: 0, 1>} : (tensor<1024x2xf32>) -> tensor<f32>
  graph.return %loss : tensor<f32>
}
