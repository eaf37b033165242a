// RUN: zero-opt %s --zero-bucket="world-size=3 bucket-size=1024" | FileCheck %s
// RUN: zero-opt %s --zero-bucket="world-size=4 ranks-per-node=2" | FileCheck %s --check-prefix=NODES
// RUN: zero-opt %s --zero-bucket="world-size=8 ranks-per-node=4 tensor-parallel=2" | FileCheck %s --check-prefix=MODEL
// RUN: zero-opt %s --zero-bucket="world-size=8 ranks-per-node=4 tensor-parallel=2 model-place=before-local" | FileCheck %s --check-prefix=BEFORE
// RUN: zero-opt %s --zero-bucket="world-size=8 ranks-per-node=4 tensor-parallel=2 model-place=outermost" | FileCheck %s --check-prefix=OUTERMOST
// RUN: not zero-opt %s --zero-bucket="world-size=8 ranks-per-node=4 tensor-parallel=3" 2>&1 | FileCheck %s --check-prefix=SHARE
// RUN: not zero-opt %s --zero-bucket="world-size=4 ranks-per-node=3" 2>&1 | FileCheck %s --check-prefix=DIVIDE
// RUN: not zero-opt %s --zero-bucket="world-size=0" 2>&1 | FileCheck %s --check-prefix=WORLD

// DIVIDE: ranks-per-node: 3 ranks per node do not divide a world of 4
// WORLD: world-size: 0 is not in [1, 65536]
// SHARE: tensor-parallel: 3 ranks that share samples do not divide 4 ranks per node
// Buckets are cut over the data axes: four shards for eight ranks, of which each has its share for the norm. What is cut
// over the model axis is in a bucket of its own, whose shards are no multiple of all ranks.
// MODEL: zero.mesh axes = [#zero.axis<"node" = 2>, #zero.axis<"local" = 2>, #zero.axis<"model" = 2, model>]
// MODEL: zero.bucket @bucket0 : f32 padded = 1024 members = {{.*}} {axes = ["node", "local"], trainable}
// Wherever it stands, the data axes are those in that order.
// BEFORE: zero.mesh axes = [#zero.axis<"node" = 2>, #zero.axis<"model" = 2, model>, #zero.axis<"local" = 2>]
// BEFORE: zero.bucket @bucket0 : f32 padded = 1024 members = {{.*}} {axes = ["node", "local"], trainable}
// OUTERMOST: zero.mesh axes = [#zero.axis<"model" = 2, model>, #zero.axis<"node" = 2>, #zero.axis<"local" = 2>]
// OUTERMOST: zero.bucket @bucket0 : f32 padded = 1024 members = {{.*}} {axes = ["node", "local"], trainable}
// NODES: zero.mesh axes = [#zero.axis<"node" = 2>, #zero.axis<"local" = 2>]

// CHECK: zero.mesh axes = [#zero.axis<"node" = 1>, #zero.axis<"local" = 3>]
graph.parameter @late : tensor<10xf32> role = trainable
graph.parameter @early : tensor<100xf32> role = trainable
graph.parameter @large : tensor<300xf32> role = trainable
graph.parameter @after : tensor<1xf32> role = trainable
graph.parameter @bias : tensor<4xf32> role = trainable
graph.parameter @half : tensor<4xbf16> role = trainable
graph.parameter @slow : tensor<4xf32> role = trainable
graph.parameter @fixed : tensor<4xf32> role = frozen
graph.parameter @mean : tensor<4xf32> role = buffer
graph.parameter @unused : tensor<4xf32> role = frozen
graph.parameter @none : tensor<0x3xbf16> role = frozen
graph.program @micro phase = micro inputs = [] {
  %0 = graph.read @early : tensor<100xf32>
  %1 = graph.read @bias : tensor<4xf32>
  %2 = graph.read @late : tensor<10xf32>
  %3 = graph.read @large : tensor<300xf32>
  %4 = graph.read @early : tensor<100xf32>
  %5 = graph.read @after : tensor<1xf32>
  %6 = graph.read @fixed : tensor<4xf32>
  %7 = graph.read @half : tensor<4xbf16>
  %8 = graph.read @mean : tensor<4xf32>
  %9 = graph.read @slow : tensor<4xf32>
  %10 = graph.read @none : tensor<0x3xbf16>
  graph.return
}
graph.program @update phase = update inputs = [] {
  %n, %f = graph.clip_factor : tensor<f32>, tensor<f32>
  graph.update @early, %f rule = adamw {beta1 = 0.9 : f64, beta2 = 0.999 : f64, eps = 1.0e-8 : f64, momentum = 0.0 : f64, weight_decay = 0.5 : f64} : tensor<f32>
  graph.update @late, %f rule = adamw {beta1 = 0.9 : f64, beta2 = 0.999 : f64, eps = 1.0e-8 : f64, momentum = 0.0 : f64, weight_decay = 0.5 : f64} : tensor<f32>
  graph.update @large, %f rule = adamw {beta1 = 0.9 : f64, beta2 = 0.999 : f64, eps = 1.0e-8 : f64, momentum = 0.0 : f64, weight_decay = 0.5 : f64} : tensor<f32>
  graph.update @after, %f rule = adamw {beta1 = 0.9 : f64, beta2 = 0.999 : f64, eps = 1.0e-8 : f64, momentum = 0.0 : f64, weight_decay = 0.5 : f64} : tensor<f32>
  graph.update @bias, %f rule = adamw {beta1 = 0.9 : f64, beta2 = 0.999 : f64, eps = 1.0e-8 : f64, momentum = 0.0 : f64, weight_decay = 0.0 : f64} : tensor<f32>
  graph.update @half, %f rule = adamw {beta1 = 0.9 : f64, beta2 = 0.999 : f64, eps = 1.0e-8 : f64, momentum = 0.0 : f64, weight_decay = 0.5 : f64} : tensor<f32>
  graph.update @slow, %f rule = adamw {beta1 = 0.9 : f64, beta2 = 0.999 : f64, eps = 1.0e-8 : f64, lr_scale = 0.5 : f64, momentum = 0.0 : f64, weight_decay = 0.5 : f64} : tensor<f32>
  graph.return
}
// In order of first use, at multiples of 64; padded to 3 x 64. What is larger than a bucket has one of its own. Other decay, rate,
// type or role: another bucket. Buffers and what is not read: none.
// CHECK: zero.bucket @bucket0 : f32 padded = 192 members = [#zero.member<@early, 0, 100>, #zero.member<@late, 128, 10>] {axes = ["node", "local"], trainable}
// CHECK-NEXT: zero.bucket @bucket1 : f32 padded = 384 members = [#zero.member<@large, 0, 300>] {axes = ["node", "local"], trainable}
// CHECK-NEXT: zero.bucket @bucket2 : f32 padded = 192 members = [#zero.member<@after, 0, 1>] {axes = ["node", "local"], trainable}
// CHECK-NEXT: zero.bucket @bucket3 : f32 padded = 192 members = [#zero.member<@bias, 0, 4>] {axes = ["node", "local"], trainable}
// CHECK-NEXT: zero.bucket @bucket4 : f32 padded = 192 members = [#zero.member<@fixed, 0, 4>] {axes = ["node", "local"]}
// CHECK-NOT: trainable
// CHECK: zero.bucket @bucket5 : bf16 padded = 192 members = [#zero.member<@half, 0, 4>] {axes = ["node", "local"], trainable}
// CHECK-NEXT: zero.bucket @bucket6 : f32 padded = 192 members = [#zero.member<@slow, 0, 4>] {axes = ["node", "local"], trainable}
// What has no element has a bucket all the same.
// CHECK-NEXT: zero.bucket @bucket7 : bf16 padded = 192 members = [#zero.member<@none, 0, 0>] {axes = ["node", "local"]}
// CHECK-NOT: zero.bucket
