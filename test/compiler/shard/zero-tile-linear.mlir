// RUN: zero-opt %s --zero-tile-linear="tile-linear=256" 2>%t | FileCheck %s
// RUN: FileCheck %s --check-prefix=REMARK < %t
// RUN: zero-opt %s --zero-tile-linear="tile-linear=256" --zero-bucket="world-size=2" --zero-partition="zero-stage=3" --zero-insert-gather-release | FileCheck %s --check-prefix=GATHER
// RUN: not zero-opt %s --zero-tile-linear="tile-linear=0" 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: not zero-opt %s --zero-tile-linear="tile-linear=1" 2>&1 | FileCheck %s --check-prefix=MANY

// NONE: tile-linear: "0" is less than 1 B
// MANY: error: [tile_c2] tiles of 1 bytes would cut parameter 'tall' of 8200 bytes into 2050 tiles, more than 1024
// REMARK: remark: parameter 'both' is larger than a tile of 256 bytes but stays whole: it is used by something else than a linear

// Rows of what the file has in one run.
// CHECK: graph.parameter @"out[0:7]" : tensor<7x8xf32> role = trainable {part = #graph.part<"out", 0, tensor<20x8xf32>>, source = #graph.source<"m.onnx", 100, 224, f32>}
// CHECK: graph.parameter @"out[7:14]" : tensor<7x8xf32> role = trainable {part = #graph.part<"out", 56, tensor<20x8xf32>>, source = #graph.source<"m.onnx", 324, 224, f32>}
// CHECK: graph.parameter @"out[14:20]" : tensor<6x8xf32> role = trainable {part = #graph.part<"out", 112, tensor<20x8xf32>>, source = #graph.source<"m.onnx", 548, 192, f32>}
// CHECK-NOT: @out :
graph.parameter @out : tensor<20x8xf32> role = trainable {source = #graph.source<"m.onnx", 100, 640, f32>}
// CHECK: graph.parameter @"in[0:6]" : tensor<6x8xf32>
// CHECK: graph.parameter @"in[6:12]" : tensor<6x8xf32>
graph.parameter @in : tensor<12x8xf32> role = trainable {source = #graph.source<"m.onnx", 800, 384, f32>}
graph.parameter @bias : tensor<8xf32> role = trainable
graph.parameter @both : tensor<20x8xf32> role = frozen
graph.parameter @tall : tensor<2050x1xf32> role = frozen
graph.parameter @small : tensor<8x8xf32> role = frozen

// CHECK-LABEL: graph.program @micro
// GATHER-LABEL: graph.program @micro
graph.program @micro phase = micro inputs = ["x", "i", "t"] {
^bb0(%x: tensor<2x2x8xf32>, %i: tensor<3xi64>, %t: tensor<4x1xf32>):
  // Out-split: parts of the result are joined.
  // CHECK: %[[X:.*]] = graph.reshape %{{.*}} {shape = array<i64: 4, 8>}
  // CHECK: %[[W:.*]] = graph.read @"out[0:7]"
  // CHECK: %[[Y0:.*]] = graph.matmul_part %[[X]], %[[W]] {trans_rhs, whole = 640 : i64} : (tensor<4x8xf32>, tensor<7x8xf32>) -> tensor<4x7xf32>
  // CHECK: %[[Y1:.*]] = graph.matmul_part %[[X]]
  // CHECK: %[[Y2:.*]] = graph.matmul_part %[[X]]
  // CHECK: graph.concat %[[Y0]], %[[Y1]], %[[Y2]] {axis = 1 : i64}
  // Each tile is gathered, used and released.
  // GATHER: zero.gather
  // GATHER: graph.matmul_part
  // GATHER: zero.release
  // GATHER: zero.gather
  // GATHER: graph.matmul_part
  // GATHER: zero.release
  %0 = graph.read @out : tensor<20x8xf32>
  %y = graph.matmul %x, %0 {trans_rhs} : (tensor<2x2x8xf32>, tensor<20x8xf32>) -> tensor<2x2x20xf32>
  %y2 = graph.reshape %y {shape = array<i64: 4, 20>} : (tensor<2x2x20xf32>) -> tensor<4x20xf32>
  %s = graph.slice %y2 {offsets = array<i64: 0, 0>, sizes = array<i64: 4, 12>, strides = array<i64: 1, 1>} : (tensor<4x20xf32>) -> tensor<4x12xf32>
  // In-split: each part goes on with the sum; the bias is last.
  // CHECK: %[[S:.*]] = graph.slice %{{.*}} {offsets = array<i64: 0, 0>, sizes = array<i64: 4, 12>
  // CHECK: %[[S0:.*]] = graph.slice %[[S]] {offsets = array<i64: 0, 0>, sizes = array<i64: 4, 6>
  // CHECK: %[[Z0:.*]] = graph.matmul_part %[[S0]], %{{.*}} {whole = 384 : i64}
  // CHECK: %[[S1:.*]] = graph.slice %[[S]] {offsets = array<i64: 0, 6>, sizes = array<i64: 4, 6>
  // CHECK: %[[Z1:.*]] = graph.matmul_part %[[S1]], %{{.*}}, %[[Z0]] {whole = 384 : i64}
  // CHECK: graph.add %[[Z1]], %{{.*}} : (tensor<4x8xf32>, tensor<8xf32>)
  %1 = graph.read @in : tensor<12x8xf32>
  %b = graph.read @bias : tensor<8xf32>
  %z = graph.matmul %s, %1, %b : (tensor<4x12xf32>, tensor<12x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  // What is small, or looked up, stays.
  // CHECK: graph.matmul %{{.*}}, %{{.*}} : (tensor<4x8xf32>, tensor<8x8xf32>)
  // CHECK: graph.gather
  %2 = graph.read @small : tensor<8x8xf32>
  %v = graph.matmul %z, %2 : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %3 = graph.read @both : tensor<20x8xf32>
  %e = graph.gather %3, %i {axis = 0 : i64} : (tensor<20x8xf32>, tensor<3xi64>) -> tensor<3x8xf32>
  %4 = graph.read @tall : tensor<2050x1xf32>
  %q = graph.matmul %t, %4 {trans_rhs} : (tensor<4x1xf32>, tensor<2050x1xf32>) -> tensor<4x2050xf32>
  %loss = graph.reduce_sum %v {axes = array<i64: 0, 1>} : (tensor<4x8xf32>) -> tensor<f32>
  graph.backward
  // The weight gradient: rows apart, each accumulated at once.
  // CHECK: %[[G0:.*]] = graph.slice %{{.*}} {offsets = array<i64: 0, 0>, sizes = array<i64: 4, 6>
  // CHECK: %[[D0:.*]] = graph.matmul_part %[[G0]], %{{.*}} {trans_lhs, whole = 384 : i64}
  // CHECK: graph.accumulate_grad @"in[0:6]", %[[D0]]
  // CHECK: graph.accumulate_grad @"in[6:12]"
  // CHECK: graph.accumulate_grad @"out[14:20]"
  %d = graph.matmul %s, %z {trans_lhs} : (tensor<4x12xf32>, tensor<4x8xf32>) -> tensor<12x8xf32>
  graph.accumulate_grad @in, %d : tensor<12x8xf32>
  %x2 = graph.reshape %x {shape = array<i64: 4, 8>} : (tensor<2x2x8xf32>) -> tensor<4x8xf32>
  %f = graph.matmul %y2, %x2 {trans_lhs} : (tensor<4x20xf32>, tensor<4x8xf32>) -> tensor<20x8xf32>
  graph.accumulate_grad @out, %f : tensor<20x8xf32>
  graph.return %loss : tensor<f32>
}
// CHECK-LABEL: graph.program @update
graph.program @update phase = update inputs = [] {
  %n, %f = graph.clip_factor : tensor<f32>, tensor<f32>
  // CHECK: graph.update @"in[0:6]", %{{.*}} rule = sgd
  // CHECK-NEXT: graph.update @"in[6:12]", %{{.*}} rule = sgd
  // CHECK-NEXT: graph.update @"out[0:7]"
  graph.update @in, %f rule = sgd {beta1 = 0.9 : f64, beta2 = 0.999 : f64, eps = 1.0e-8 : f64, momentum = 0.0 : f64, weight_decay = 0.0 : f64} : tensor<f32>
  graph.update @out, %f rule = sgd {beta1 = 0.9 : f64, beta2 = 0.999 : f64, eps = 1.0e-8 : f64, momentum = 0.0 : f64, weight_decay = 0.0 : f64} : tensor<f32>
  graph.return
}
