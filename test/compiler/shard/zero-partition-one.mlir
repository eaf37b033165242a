// RUN: zero-opt %s --zero-partition="zero-stage=3" | FileCheck %s
// One rank has everything: nothing is cut, gathered or summed.

// CHECK: zero.bucket @bucket0 {{.*}} {trainable}
// CHECK: zero.reduce_scatter %{{.*}} into %{{.*}} scale = 1.000000e+00
// CHECK-NOT: zero.all_
// CHECK: zero.reduce_loss

zero.mesh axes = [#zero.axis<"node" = 1>, #zero.axis<"local" = 1>]
graph.parameter @w : tensor<8x8xf32> role = trainable
graph.parameter @v : tensor<64xf32> role = trainable
graph.parameter @f : tensor<64xf32> role = frozen
zero.bucket @bucket0 : f32 padded = 128 members = [#zero.member<@w, 0, 64>, #zero.member<@v, 64, 64>] {trainable}
zero.bucket @bucket1 : f32 padded = 128 members = [#zero.member<@f, 0, 64>]
graph.program @micro phase = micro inputs = ["x"] {
^bb0(%x: tensor<8x8xf32>):
  %loss = graph.reduce_mean %x {axes = array<i64: 0, 1>} : (tensor<8x8xf32>) -> tensor<f32>
  %g = graph.exp %x : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %gv = graph.reshape %g {shape = array<i64: 64>} : (tensor<8x8xf32>) -> tensor<64xf32>
  %gw = graph.abs %g : (tensor<8x8xf32>) -> tensor<8x8xf32>
  graph.accumulate_grad @v, %gv : tensor<64xf32>
  graph.accumulate_grad @w, %gw : tensor<8x8xf32>
  graph.return %loss : tensor<f32>
}
graph.program @update phase = update inputs = [] {
  %n, %f = graph.clip_factor {max_norm = 1.0 : f64} : tensor<f32>, tensor<f32>
  graph.update @w, %f rule = adamw {beta1 = 0.9 : f64, beta2 = 0.999 : f64, eps = 1.0e-8 : f64, momentum = 0.0 : f64, weight_decay = 0.5 : f64} : tensor<f32>
  graph.update @v, %f rule = adamw {beta1 = 0.9 : f64, beta2 = 0.999 : f64, eps = 1.0e-8 : f64, momentum = 0.0 : f64, weight_decay = 0.5 : f64} : tensor<f32>
  graph.return
}
