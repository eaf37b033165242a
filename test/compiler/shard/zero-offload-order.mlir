// RUN: zero-opt %s --zero-offload="offload-optimizer=nvme" | FileCheck %s --check-prefixes=CHECK,LEFT
// RUN: zero-opt %s --zero-offload="offload-optimizer=host" | FileCheck %s --check-prefixes=CHECK,LEFT
// RUN: zero-opt %s --zero-offload="offload-optimizer=nvme offload-param=nvme" | FileCheck %s --check-prefixes=CHECK,LANDED

// Forward is a third of the arithmetic. Gradients land from the last bucket to the first; every third bucket's update is left for the
// next forward, in the order in which that wants them. Not where forward reads the parameters behind the update's state.
zero.bucket @b0 : f32 padded = 64 members = [#zero.member<@w0, 0, 64>] {trainable}
zero.bucket @b1 : f32 padded = 64 members = [#zero.member<@w1, 0, 64>] {trainable}
zero.bucket @b2 : f32 padded = 64 members = [#zero.member<@w2, 0, 64>] {trainable}
zero.bucket @b3 : f32 padded = 64 members = [#zero.member<@w3, 0, 64>] {trainable}
zero.bucket @b4 : f32 padded = 64 members = [#zero.member<@w4, 0, 64>] {trainable}
zero.bucket @b5 : f32 padded = 64 members = [#zero.member<@w5, 0, 64>] {trainable}
graph.parameter @w0 : tensor<64xf32> role = trainable
graph.parameter @w1 : tensor<64xf32> role = trainable
graph.parameter @w2 : tensor<64xf32> role = trainable
graph.parameter @w3 : tensor<64xf32> role = trainable
graph.parameter @w4 : tensor<64xf32> role = trainable
graph.parameter @w5 : tensor<64xf32> role = trainable

graph.program @micro phase = micro inputs = ["x"] {
^bb0(%x: tensor<64xf32>):
  %y = graph.add %x, %x : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
  graph.backward
  %d = graph.add %y, %y : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
  %e = graph.add %d, %d : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
  %g5 = zero.grad_buffer @b5 : !zero.buffer<64 x f32, device>
  %s5 = zero.storage @b5 of gradients : !zero.buffer<64 x f32, device>
  zero.put %e into %g5 offset = 0 : tensor<64xf32>, !zero.buffer<64 x f32, device>
  zero.reduce_scatter %g5 into %s5 scale = 1.0 : !zero.buffer<64 x f32, device>, !zero.buffer<64 x f32, device>
  %g4 = zero.grad_buffer @b4 : !zero.buffer<64 x f32, device>
  %s4 = zero.storage @b4 of gradients : !zero.buffer<64 x f32, device>
  zero.put %e into %g4 offset = 0 : tensor<64xf32>, !zero.buffer<64 x f32, device>
  zero.reduce_scatter %g4 into %s4 scale = 1.0 : !zero.buffer<64 x f32, device>, !zero.buffer<64 x f32, device>
  %g3 = zero.grad_buffer @b3 : !zero.buffer<64 x f32, device>
  %s3 = zero.storage @b3 of gradients : !zero.buffer<64 x f32, device>
  zero.put %e into %g3 offset = 0 : tensor<64xf32>, !zero.buffer<64 x f32, device>
  zero.reduce_scatter %g3 into %s3 scale = 1.0 : !zero.buffer<64 x f32, device>, !zero.buffer<64 x f32, device>
  %g2 = zero.grad_buffer @b2 : !zero.buffer<64 x f32, device>
  %s2 = zero.storage @b2 of gradients : !zero.buffer<64 x f32, device>
  zero.put %e into %g2 offset = 0 : tensor<64xf32>, !zero.buffer<64 x f32, device>
  zero.reduce_scatter %g2 into %s2 scale = 1.0 : !zero.buffer<64 x f32, device>, !zero.buffer<64 x f32, device>
  %g1 = zero.grad_buffer @b1 : !zero.buffer<64 x f32, device>
  %s1 = zero.storage @b1 of gradients : !zero.buffer<64 x f32, device>
  zero.put %e into %g1 offset = 0 : tensor<64xf32>, !zero.buffer<64 x f32, device>
  zero.reduce_scatter %g1 into %s1 scale = 1.0 : !zero.buffer<64 x f32, device>, !zero.buffer<64 x f32, device>
  %g0 = zero.grad_buffer @b0 : !zero.buffer<64 x f32, device>
  %s0 = zero.storage @b0 of gradients : !zero.buffer<64 x f32, device>
  zero.put %e into %g0 offset = 0 : tensor<64xf32>, !zero.buffer<64 x f32, device>
  zero.reduce_scatter %g0 into %s0 scale = 1.0 : !zero.buffer<64 x f32, device>, !zero.buffer<64 x f32, device>
  graph.return
}

// CHECK-LABEL: graph.program @update
graph.program @update phase = update inputs = [] {
  %g0 = zero.storage @b0 of gradients : !zero.buffer<64 x f32, device>
  %g1 = zero.storage @b1 of gradients : !zero.buffer<64 x f32, device>
  %g2 = zero.storage @b2 of gradients : !zero.buffer<64 x f32, device>
  %g3 = zero.storage @b3 of gradients : !zero.buffer<64 x f32, device>
  %g4 = zero.storage @b4 of gradients : !zero.buffer<64 x f32, device>
  %g5 = zero.storage @b5 of gradients : !zero.buffer<64 x f32, device>
  %a0 = zero.norm_partial %g0 : (!zero.buffer<64 x f32, device>) -> !zero.buffer<24 x i64, device>
  %a1 = zero.norm_partial %g1 after %a0 : (!zero.buffer<64 x f32, device>, !zero.buffer<24 x i64, device>) -> !zero.buffer<24 x i64, device>
  %a2 = zero.norm_partial %g2 after %a1 : (!zero.buffer<64 x f32, device>, !zero.buffer<24 x i64, device>) -> !zero.buffer<24 x i64, device>
  %a3 = zero.norm_partial %g3 after %a2 : (!zero.buffer<64 x f32, device>, !zero.buffer<24 x i64, device>) -> !zero.buffer<24 x i64, device>
  %a4 = zero.norm_partial %g4 after %a3 : (!zero.buffer<64 x f32, device>, !zero.buffer<24 x i64, device>) -> !zero.buffer<24 x i64, device>
  %a5 = zero.norm_partial %g5 after %a4 : (!zero.buffer<64 x f32, device>, !zero.buffer<24 x i64, device>) -> !zero.buffer<24 x i64, device>
  %n, %f = zero.clip_factor %a5 : !zero.buffer<24 x i64, device> -> !zero.buffer<1 x f32, device>, !zero.buffer<1 x f32, device>
  // LEFT: zero.update {{.*}}weight_decay = 5.0
  // LEFT: zero.update {{.*}}weight_decay = 4.0
  // LEFT: zero.update {{.*}}weight_decay = 2.0
  // LEFT: zero.update {{.*}}weight_decay = 1.0
  // LEFT: zero.update {{.*}}weight_decay = 0.0
  // LEFT: zero.update {{.*}}weight_decay = 3.0
  // LANDED: zero.update {{.*}}weight_decay = 5.0
  // LANDED: zero.update {{.*}}weight_decay = 4.0
  // LANDED: zero.update {{.*}}weight_decay = 3.0
  // LANDED: zero.update {{.*}}weight_decay = 2.0
  // LANDED: zero.update {{.*}}weight_decay = 1.0
  // LANDED: zero.update {{.*}}weight_decay = 0.0
  %w0 = zero.storage @b0 of parameters : !zero.buffer<64 x f32, device>
  zero.update %g0, %f, %w0 rule = sgd {beta1 = 0.0 : f64, beta2 = 0.0 : f64, eps = 0.0 : f64, momentum = 0.0 : f64, weight_decay = 0.0 : f64} : (!zero.buffer<64 x f32, device>, !zero.buffer<1 x f32, device>, !zero.buffer<64 x f32, device>) -> ()
  %w1 = zero.storage @b1 of parameters : !zero.buffer<64 x f32, device>
  zero.update %g1, %f, %w1 rule = sgd {beta1 = 0.0 : f64, beta2 = 0.0 : f64, eps = 0.0 : f64, momentum = 0.0 : f64, weight_decay = 1.0 : f64} : (!zero.buffer<64 x f32, device>, !zero.buffer<1 x f32, device>, !zero.buffer<64 x f32, device>) -> ()
  %w2 = zero.storage @b2 of parameters : !zero.buffer<64 x f32, device>
  zero.update %g2, %f, %w2 rule = sgd {beta1 = 0.0 : f64, beta2 = 0.0 : f64, eps = 0.0 : f64, momentum = 0.0 : f64, weight_decay = 2.0 : f64} : (!zero.buffer<64 x f32, device>, !zero.buffer<1 x f32, device>, !zero.buffer<64 x f32, device>) -> ()
  %w3 = zero.storage @b3 of parameters : !zero.buffer<64 x f32, device>
  zero.update %g3, %f, %w3 rule = sgd {beta1 = 0.0 : f64, beta2 = 0.0 : f64, eps = 0.0 : f64, momentum = 0.0 : f64, weight_decay = 3.0 : f64} : (!zero.buffer<64 x f32, device>, !zero.buffer<1 x f32, device>, !zero.buffer<64 x f32, device>) -> ()
  %w4 = zero.storage @b4 of parameters : !zero.buffer<64 x f32, device>
  zero.update %g4, %f, %w4 rule = sgd {beta1 = 0.0 : f64, beta2 = 0.0 : f64, eps = 0.0 : f64, momentum = 0.0 : f64, weight_decay = 4.0 : f64} : (!zero.buffer<64 x f32, device>, !zero.buffer<1 x f32, device>, !zero.buffer<64 x f32, device>) -> ()
  %w5 = zero.storage @b5 of parameters : !zero.buffer<64 x f32, device>
  zero.update %g5, %f, %w5 rule = sgd {beta1 = 0.0 : f64, beta2 = 0.0 : f64, eps = 0.0 : f64, momentum = 0.0 : f64, weight_decay = 5.0 : f64} : (!zero.buffer<64 x f32, device>, !zero.buffer<1 x f32, device>, !zero.buffer<64 x f32, device>) -> ()
  graph.return
}
