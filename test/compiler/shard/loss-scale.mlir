// RUN: zero-opt %s --zero-partition="zero-stage=3" | FileCheck %s
// RUN: zero-opt %s --zero-partition="zero-stage=3" --zero-insert-gather-release --zero-offload="offload-optimizer=host" | FileCheck %s --check-prefix=HOST
// The factor that undoes a loss scale is known when the norm is: an update on the host waits for it as a clipped one does, and
// does not begin with a factor of 1.

zero.mesh axes = [#zero.axis<"node" = 1>, #zero.axis<"local" = 2>]
graph.parameter @w : tensor<128xf16> role = trainable
zero.bucket @bucket0 : f16 padded = 128 members = [#zero.member<@w, 0, 128>] {trainable}
graph.program @micro phase = micro inputs = ["x"] {
^bb0(%x: tensor<128xf16>):
  %wide = graph.cast %x {to = f32} : (tensor<128xf16>) -> tensor<128xf32>
  %loss = graph.reduce_mean %wide {axes = array<i64: 0>} : (tensor<128xf32>) -> tensor<f32>
  %scale = graph.loss_scale {type = tensor<f32>} : () -> tensor<f32>
  %narrow = graph.cast %scale {to = f16} : (tensor<f32>) -> tensor<f16>
  %g = graph.mul %x, %narrow : (tensor<128xf16>, tensor<f16>) -> tensor<128xf16>
  graph.accumulate_grad @w, %g : tensor<128xf16>
  graph.return %loss : tensor<f32>
}
// CHECK-LABEL: graph.program @update
// CHECK: %{{.*}}, %[[F:.*]] = zero.clip_factor %{{.*}} {scaled} :
// CHECK: zero.update %{{.*}}, %[[F]],
// HOST-LABEL: graph.program @update
// HOST-NOT: zero.fill
// HOST: %{{.*}}, %[[F:.*]] = zero.clip_factor %{{.*}} {scaled} : <24 x i64, host>
// HOST: zero.update %{{.*}}, %[[F]],
graph.program @update phase = update inputs = [] {
  %n, %f = graph.clip_factor {scaled} : tensor<f32>, tensor<f32>
  graph.update @w, %f rule = sgd {beta1 = 0.0 : f64, beta2 = 0.0 : f64, eps = 0.0 : f64, momentum = 0.0 : f64, weight_decay = 0.0 : f64} : tensor<f32>
  graph.return
}
