// RUN: zero-opt %s --zero-partition="zero-stage=3 grad-accumulation=3" | FileCheck %s
// RUN: zero-opt %s --zero-partition="zero-stage=3 grad-accumulation=3" --zero-insert-gather-release --zero-offload="offload-optimizer=host" | FileCheck %s --check-prefix=HOST
// Where losses have weights their sum is reduced before anything is clipped or updated, and goes to where the factor is computed.

module attributes {graph.training = #graph.training<precision = fp32, weighted_loss = unit>} {
zero.mesh axes = [#zero.axis<"node" = 1>, #zero.axis<"local" = 2>]
graph.parameter @w : tensor<128xf32> role = trainable
zero.bucket @bucket0 : f32 padded = 128 members = [#zero.member<@w, 0, 128>] {trainable}
graph.program @micro phase = micro inputs = ["x", "c"] {
^bb0(%x: tensor<128xf32>, %c: tensor<f32>):
  %loss = graph.reduce_mean %x {axes = array<i64: 0>} : (tensor<128xf32>) -> tensor<f32>
  %g = graph.exp %x : (tensor<128xf32>) -> tensor<128xf32>
  graph.accumulate_grad @w, %g : tensor<128xf32>
  // CHECK: zero.record_loss %[[LOSS:.*]] weighing %{{.*}} : tensor<f32>, tensor<f32>
  graph.return weighted %loss, %c : tensor<f32>, tensor<f32>
}
// CHECK-LABEL: graph.program @update
// CHECK: %[[WEIGHT:.*]] = zero.reduce_loss -> !zero.buffer<1 x f64, device>
// CHECK: zero.clip_factor %{{.*}} over %[[WEIGHT]] : !zero.buffer<1 x f64, device> {terms = 6 : i64}
// CHECK: zero.update
// CHECK-NOT: zero.reduce_loss
// HOST-LABEL: graph.program @update
// HOST: %[[WEIGHT:.*]] = zero.reduce_loss
// HOST: zero.evict %[[WEIGHT]] into %[[THERE:.*]] :
// HOST: %{{.*}}, %[[F:.*]] = zero.clip_factor %{{.*}} over %[[THERE]] : !zero.buffer<1 x f64, host> {terms = 6 : i64}
// HOST: zero.update %{{.*}}, %[[F]],
graph.program @update phase = update inputs = [] {
  %n, %f = graph.clip_factor : tensor<f32>, tensor<f32>
  graph.update @w, %f rule = sgd {beta1 = 0.0 : f64, beta2 = 0.0 : f64, eps = 0.0 : f64, momentum = 0.0 : f64, weight_decay = 0.0 : f64} : tensor<f32>
  graph.return
}
}
