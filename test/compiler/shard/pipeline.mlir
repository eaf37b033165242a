// RUN: zero-opt %s --zero-shard-pipeline="world-size=2 zero-stage=3 grad-accumulation=2" | FileCheck %s
// RUN: zero-opt %s --zero-shard-pipeline="world-size=2 zero-stage=3" --zero-schedule-pipeline="prefetch=0" --zero-plan-pipeline | FileCheck %s --check-prefix=PLAN

// The whole stage; and with the next ones, a plan.
// CHECK: module attributes {zero.execution = #zero.execution<stage = 3, accumulation = 2>}
// PLAN: module attributes {{.*}}plan.execution = #plan.execution<zero_stage = 3, 
// PLAN: plan.mesh axes = [#plan.axis<"node" = 1>, #plan.axis<"local" = 2>]
graph.parameter @w : tensor<64xf32> role = trainable
// CHECK: graph.program @micro
// CHECK: zero.gather
// CHECK: zero.release
// CHECK: zero.reduce_scatter {{.*}} scale = 2.500000e-01
// CHECK: zero.bucket @bucket0 : f32 padded = 128 members = [#zero.member<@w, 0, 64>]
// PLAN: plan.section micro
// PLAN: plan.step "all_gather"
// PLAN: plan.step "reduce_scatter"
// PLAN: plan.step "adamw"
// PLAN: plan.section update
graph.program @micro phase = micro inputs = [] {
  %w = graph.read @w : tensor<64xf32>
  %loss = graph.reduce_mean %w {axes = array<i64: 0>} : (tensor<64xf32>) -> tensor<f32>
  %g = graph.exp %w : (tensor<64xf32>) -> tensor<64xf32>
  graph.accumulate_grad @w, %g : tensor<64xf32>
  graph.return %loss : tensor<f32>
}
graph.program @update phase = update inputs = [] {
  %n, %f = graph.clip_factor : tensor<f32>, tensor<f32>
  graph.update @w, %f rule = adamw {beta1 = 0.9 : f64, beta2 = 0.999 : f64, eps = 1.0e-8 : f64, momentum = 0.0 : f64, weight_decay = 0.01 : f64} : tensor<f32>
  graph.return
}
