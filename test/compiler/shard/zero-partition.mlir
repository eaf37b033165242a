// RUN: zero-opt %s --zero-partition="zero-stage=0" | FileCheck %s --check-prefixes=CHECK,HALF,S0
// RUN: zero-opt %s --zero-partition="zero-stage=1" | FileCheck %s --check-prefixes=CHECK,HALF,S1,S12
// RUN: zero-opt %s --zero-partition="zero-stage=2" | FileCheck %s --check-prefixes=CHECK,HALF,S2,S12
// RUN: zero-opt %s --zero-partition="zero-stage=3 grad-accumulation=4" | FileCheck %s --check-prefixes=CHECK,S3
// RUN: not zero-opt %s --zero-partition="zero-stage=4" 2>&1 | FileCheck %s --check-prefix=STAGE
// RUN: not zero-opt %s --zero-partition="grad-accumulation=0" 2>&1 | FileCheck %s --check-prefix=STEPS

// STAGE: zero-stage: 4 is not in [0, 3]
// STEPS: grad-accumulation: 0 is not in [1, 1048576]
// S3: module attributes {zero.execution = #zero.execution<stage = 3, accumulation = 4>}

zero.mesh axes = [#zero.axis<"node" = 1>, #zero.axis<"local" = 2>]
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
// S0: zero.bucket @bucket0 {{.*}} {trainable}
// S1: zero.bucket @bucket0 {{.*}} {optimizer_sharded, trainable}
// S2: zero.bucket @bucket0 {{.*}} {gradients_sharded, optimizer_sharded, trainable}
// S3: zero.bucket @bucket0 {{.*}} {gradients_sharded, optimizer_sharded, parameters_sharded, trainable}
// S3-NEXT: zero.bucket @bucket1 {{.*}} {parameters_sharded}

// The bucket opens before the first producer, also one behind a view, and is reduced right after the last put; of frozen
// parameters there is none.
// CHECK-LABEL: graph.program @micro
// CHECK: %[[LOSS:.*]] = graph.reduce_mean
// CHECK-NEXT: %[[B:.*]] = zero.grad_buffer @bucket0
// CHECK-NEXT: graph.exp
// CHECK-NEXT: %[[V:.*]] = graph.reshape
// CHECK-NEXT: %[[W:.*]] = graph.abs
// CHECK-NEXT: zero.put %[[V]] into %[[B]] offset = 64
// CHECK-NEXT: zero.put %[[W]] into %[[B]] offset = 0
// S0-NEXT: %[[S:.*]] = zero.storage @bucket0 of gradients {own} : <64 x f32, device>
// S1-NEXT: %[[S:.*]] = zero.storage @bucket0 of gradients {own} : <64 x f32, device>
// S2-NEXT: %[[S:.*]] = zero.storage @bucket0 of gradients : <64 x f32, device>
// S3-NEXT: %[[S:.*]] = zero.storage @bucket0 of gradients : <64 x f32, device>
// HALF-NEXT: zero.reduce_scatter %[[B]] into %[[S]] scale = 5.000000e-01 :
// S3-NEXT: zero.reduce_scatter %[[B]] into %[[S]] scale = 1.250000e-01 {accumulate} :
// CHECK-NEXT: zero.record_loss %[[LOSS]]
// CHECK-NEXT: graph.return

// One update for both members; the frozen bucket has no part in it.
// CHECK-LABEL: graph.program @update
// S0-NEXT: %[[OWN:.*]] = zero.storage @bucket0 of gradients {own} : <64 x f32, device>
// S0-NEXT: %[[ALL:.*]] = zero.storage @bucket0 of gradients : <128 x f32, device>
// S0-NEXT: zero.all_gather %[[OWN]] into %[[ALL]]
// CHECK-NEXT: %[[G:.*]] = zero.storage @bucket0 of gradients {{.*}}<64 x f32, device>
// CHECK-NEXT: %[[P:.*]] = zero.norm_partial %[[G]] : (!zero.buffer<64 x f32, device>) -> !zero.buffer<24 x i64, device>
// CHECK-NEXT: %[[S:.*]] = zero.all_reduce %[[P]]
// CHECK-NEXT: %{{.*}}, %[[F:.*]] = zero.clip_factor %[[S]] {max_norm = 1.000000e+00 : f64}
// At stage 0 all of the bucket, later this rank's part of it.
// S0-NEXT: %[[G:.*]] = zero.storage @bucket0 of gradients : <128 x f32, device>
// S0-NEXT: %[[W:.*]] = zero.storage @bucket0 of parameters : <128 x f32, device>
// S0-NEXT: %[[M:.*]] = zero.storage @bucket0 of moment1 : <128 x f32, device>
// S0-NEXT: %[[V:.*]] = zero.storage @bucket0 of moment2 : <128 x f32, device>
// S1-NEXT: %[[G:.*]] = zero.storage @bucket0 of gradients {own} : <64 x f32, device>
// S2-NEXT: %[[G:.*]] = zero.storage @bucket0 of gradients : <64 x f32, device>
// S12-NEXT: %[[W:.*]] = zero.storage @bucket0 of parameters {own} : <64 x f32, device>
// S12-NEXT: %[[M:.*]] = zero.storage @bucket0 of moment1 : <64 x f32, device>
// S12-NEXT: %[[V:.*]] = zero.storage @bucket0 of moment2 : <64 x f32, device>
// S3-NEXT: %[[G:.*]] = zero.storage @bucket0 of gradients : <64 x f32, device>
// S3-NEXT: %[[W:.*]] = zero.storage @bucket0 of parameters : <64 x f32, device>
// S3-NEXT: %[[M:.*]] = zero.storage @bucket0 of moment1 : <64 x f32, device>
// S3-NEXT: %[[V:.*]] = zero.storage @bucket0 of moment2 : <64 x f32, device>
// CHECK-NEXT: zero.update %[[G]], %[[F]], %[[W]](%[[M]], %[[V]]) rule = adamw {{.*}} weight_decay = 5.000000e-01
// S12: zero.all_gather %{{.*}} into %{{.*}} : <64 x f32, device>, <128 x f32, device>
// CHECK-NEXT: zero.reduce_loss
// CHECK-NEXT: graph.return
