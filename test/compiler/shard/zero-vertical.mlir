// RUN: zero-opt %s --split-input-file --zero-vertical 2>%t | FileCheck %s
// RUN: FileCheck %s --check-prefix=WARN < %t
// RUN: not zero-opt %s --split-input-file --zero-vertical=vertical-most=20 2>&1 | FileCheck %s --check-prefix=MOST
// RUN: not zero-opt %s --split-input-file --zero-vertical --zero-vertical 2>&1 | FileCheck %s --check-prefix=TWICE
// TWICE: error: zero-vertical comes once: the micro-steps stand there already
// MOST: error: block by block, 2 micro-steps of 12 operations are more than 20: --micro-order rolled

// Both micro-steps of forward come before backward; parameters are read once; only the first micro-step's gradient overwrites the
// sum; what depends on the micro-step says which one it is of. Backward
// begins once, behind the last micro-step's loss, which the program returns.
// CHECK: module attributes {zero.execution = #zero.execution<stage = 0, accumulation = 2, vertical = unit>}
// CHECK: graph.program @micro phase = micro inputs = ["x", "x"]
// CHECK-NEXT: ^bb0(%[[X0:.*]]: tensor<64xf32>, %[[X1:.*]]: tensor<64xf32>):
// CHECK-NEXT: %[[W:.*]] = graph.read @w
// CHECK-NEXT: graph.dropout %[[X0]] {{.*}}zero.micro_step = 0
// CHECK-NEXT: graph.mul %{{.*}}, %[[W]]
// CHECK-NEXT: %[[L0:.*]] = graph.reduce_mean
// CHECK-NEXT: graph.dropout %[[X1]] {{.*}}zero.micro_step = 1
// CHECK-NEXT: graph.mul %{{.*}}, %[[W]]
// CHECK-NEXT: %[[L1:.*]] = graph.reduce_mean
// CHECK-NEXT: graph.backward
// CHECK-NEXT: %[[B0:.*]] = zero.grad_buffer
// CHECK: zero.reduce_scatter %[[B0]] into %{{.*}} scale = 5.000000e-01 :
// CHECK-NEXT: zero.record_loss %[[L0]] {zero.micro_step = 0
// CHECK-NEXT: %[[B1:.*]] = zero.grad_buffer
// CHECK: zero.reduce_scatter %[[B1]] into %{{.*}} scale = 5.000000e-01 {accumulate} :
// CHECK-NEXT: zero.record_loss %[[L1]] {zero.micro_step = 1
// CHECK-NEXT: graph.return %[[L1]]
module attributes {zero.execution = #zero.execution<stage = 0, accumulation = 2>} {
graph.parameter @w : tensor<64xf32> role = trainable
zero.bucket @bucket0 : f32 padded = 64 members = [#zero.member<@w, 0, 64>] {trainable}
graph.program @micro phase = micro inputs = ["x"] {
^bb0(%x: tensor<64xf32>):
  %w = graph.read @w : tensor<64xf32>
  %d, %m = graph.dropout %x {ratio = 0.5 : f64, id = 0 : i64} : (tensor<64xf32>) -> (tensor<64xf32>, tensor<64xi1>)
  %y = graph.mul %d, %w : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
  %loss = graph.reduce_mean %y {axes = array<i64: 0>} : (tensor<64xf32>) -> tensor<f32>
  graph.backward
  %b = zero.grad_buffer @bucket0 : !zero.buffer<64 x f32, device>
  %g = graph.neg %d : (tensor<64xf32>) -> tensor<64xf32>
  zero.put %g into %b offset = 0 : tensor<64xf32>, !zero.buffer<64 x f32, device>
  %s = zero.storage @bucket0 of gradients : !zero.buffer<64 x f32, device>
  zero.reduce_scatter %b into %s scale = 0.5 {accumulate} : !zero.buffer<64 x f32, device>, !zero.buffer<64 x f32, device>
  zero.record_loss %loss : tensor<f32>
  graph.return %loss : tensor<f32>
}
}

// -----

// Running statistics pass from one micro-step to the next.
// WARN: warning: micro-steps run one after the other
// CHECK: module attributes {zero.execution = #zero.execution<stage = 0, accumulation = 2>} {
// CHECK: graph.assign
// CHECK-NOT: graph.assign
module attributes {zero.execution = #zero.execution<stage = 0, accumulation = 2>} {
graph.parameter @mean : tensor<4xf32> role = buffer
graph.program @micro phase = micro inputs = [] {
  %0 = graph.read @mean : tensor<4xf32>
  %1 = graph.neg %0 : (tensor<4xf32>) -> tensor<4xf32>
  graph.assign @mean, %1 : tensor<4xf32>
  graph.return
}
}

// -----

// Two blocks, between which only the narrow stream crosses: both micro-steps of the first come before the second.
// CHECK: ^bb0(%[[X0:.*]]: tensor<8x8xf32>, %[[X1:.*]]: tensor<8x8xf32>):
// CHECK: %[[H0:.*]] = graph.matmul %[[X0]]
// CHECK-NEXT: %[[Y0:.*]] = graph.matmul %[[H0]]
// CHECK-NEXT: %[[H1:.*]] = graph.matmul %[[X1]]
// CHECK-NEXT: %[[Y1:.*]] = graph.matmul %[[H1]]
// CHECK-NEXT: graph.matmul %[[Y0]]
// CHECK-NEXT: graph.matmul
// CHECK-NEXT: graph.reduce_mean
// CHECK-NEXT: graph.matmul %[[Y1]]
module attributes {zero.execution = #zero.execution<stage = 0, accumulation = 2>} {
graph.parameter @u : tensor<8x32xf32> role = trainable
graph.parameter @v : tensor<32x8xf32> role = trainable
graph.program @micro phase = micro inputs = ["x"] {
^bb0(%x: tensor<8x8xf32>):
  %u = graph.read @u : tensor<8x32xf32>
  %v = graph.read @v : tensor<32x8xf32>
  %0 = graph.matmul %x, %u : (tensor<8x8xf32>, tensor<8x32xf32>) -> tensor<8x32xf32>
  %1 = graph.matmul %0, %v : (tensor<8x32xf32>, tensor<32x8xf32>) -> tensor<8x8xf32>
  %2 = graph.matmul %1, %u : (tensor<8x8xf32>, tensor<8x32xf32>) -> tensor<8x32xf32>
  %3 = graph.matmul %2, %v : (tensor<8x32xf32>, tensor<32x8xf32>) -> tensor<8x8xf32>
  %loss = graph.reduce_mean %3 {axes = array<i64: 0, 1>} : (tensor<8x8xf32>) -> tensor<f32>
  graph.return %loss : tensor<f32>
}
}
