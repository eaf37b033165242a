// RUN: zero-opt %s --zero-residency="resident=1000" | FileCheck %s --check-prefix=SOME
// RUN: zero-opt %s --zero-residency="resident=1000 grad-accumulation=2" | FileCheck %s --check-prefix=AGAIN
// RUN: zero-opt %s --zero-residency="resident=10000" --zero-partition="zero-stage=3" --zero-insert-gather-release | FileCheck %s --check-prefix=ALL

// Of two ranks residency takes half of a bucket's bytes more: 256, 512 and 1024. The first bucket is used by the forward
// alone, so that residency saves nothing: one gather, after the update instead.
// SOME: zero.bucket @forward {{.*}} {trainable}
// SOME: zero.bucket @small {{.*}} {resident, trainable}
// SOME: zero.bucket @large {{.*}} {trainable}
// Over two micro-steps it saves one of it too; both small ones fit.
// AGAIN: zero.bucket @forward {{.*}} {resident, trainable}
// AGAIN: zero.bucket @small {{.*}} {resident, trainable}
// AGAIN: zero.bucket @large {{.*}} {trainable}
// ALL: zero.bucket @forward {{.*}} {gradients_sharded, optimizer_sharded, parameters_sharded, trainable}
// ALL: zero.bucket @small {{.*}} {gradients_sharded, optimizer_sharded, resident, trainable}
// ALL: zero.bucket @large {{.*}} {gradients_sharded, optimizer_sharded, resident, trainable}
zero.mesh axes = [#zero.axis<"node" = 1>, #zero.axis<"local" = 2>]
graph.parameter @a : tensor<128xf32> role = trainable
graph.parameter @b : tensor<256xf32> role = trainable
graph.parameter @c : tensor<512xf32> role = trainable
zero.bucket @forward : f32 padded = 128 members = [#zero.member<@a, 0, 128>] {trainable}
zero.bucket @small : f32 padded = 256 members = [#zero.member<@b, 0, 256>] {trainable}
zero.bucket @large : f32 padded = 512 members = [#zero.member<@c, 0, 512>] {trainable}

// What is not resident is gathered, what is is read in place.
// ALL-LABEL: graph.program @micro
// ALL: zero.gather
// ALL: zero.storage @small of parameters : <256 x f32, device>
// ALL: zero.storage @large of parameters : <512 x f32, device>
// ALL-NOT: zero.gather
// ALL-LABEL: graph.program @update
graph.program @micro phase = micro inputs = [] {
  %a = graph.read @a : tensor<128xf32>
  %b = graph.read @b : tensor<256xf32>
  %c = graph.read @c : tensor<512xf32>
  %ea = graph.exp %a : (tensor<128xf32>) -> tensor<128xf32>
  %eb = graph.exp %b : (tensor<256xf32>) -> tensor<256xf32>
  %ec = graph.exp %c : (tensor<512xf32>) -> tensor<512xf32>
  %loss = graph.reduce_sum %ea {axes = array<i64: 0>} : (tensor<128xf32>) -> tensor<f32>
  graph.backward
  %gb = graph.mul %b, %eb : (tensor<256xf32>, tensor<256xf32>) -> tensor<256xf32>
  %gc = graph.mul %c, %ec : (tensor<512xf32>, tensor<512xf32>) -> tensor<512xf32>
  graph.accumulate_grad @c, %gc : tensor<512xf32>
  graph.accumulate_grad @b, %gb : tensor<256xf32>
  graph.accumulate_grad @a, %ea : tensor<128xf32>
  graph.return %loss : tensor<f32>
}

// Resident parameters are completed once, after the update.
// ALL-COUNT-2: zero.all_gather
// ALL-NOT: zero.all_gather
graph.program @update phase = update inputs = [] {
  %n, %f = graph.clip_factor : tensor<f32>, tensor<f32>
  graph.update @a, %f rule = sgd {beta1 = 0.9 : f64, beta2 = 0.999 : f64, eps = 1.0e-8 : f64, momentum = 0.0 : f64, weight_decay = 0.0 : f64} : tensor<f32>
  graph.update @b, %f rule = sgd {beta1 = 0.9 : f64, beta2 = 0.999 : f64, eps = 1.0e-8 : f64, momentum = 0.0 : f64, weight_decay = 0.0 : f64} : tensor<f32>
  graph.update @c, %f rule = sgd {beta1 = 0.9 : f64, beta2 = 0.999 : f64, eps = 1.0e-8 : f64, momentum = 0.0 : f64, weight_decay = 0.0 : f64} : tensor<f32>
  graph.return
}
