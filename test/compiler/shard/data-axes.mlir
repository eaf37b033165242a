// RUN: zero-opt %s --zero-bucket="world-size=4 tensor-parallel=2" --zero-partition="zero-stage=2 grad-accumulation=2" | FileCheck %s
// RUN: zero-opt %s --zero-bucket="world-size=4 tensor-parallel=2" --zero-partition="zero-stage=2 grad-accumulation=2" --zero-insert-gather-release --zero-schedule-pipeline="prefetch=0" --zero-plan-pipeline --verify-plan | FileCheck %s --check-prefix=PLAN

// Four ranks, of which two have other data: the bucket has two shards, the mean is over two ranks and two micro-steps. In
// the plan collectives run along the data axes, and a rank's own part depends on its data-parallel coordinates only. Two
// ranks have the same shard of the gradient: each adds the squares of its half, and all partial norms are added.
// CHECK: zero.reduce_scatter {{.*}} scale = 2.500000e-01 {accumulate} : <256 x f32, device>, <128 x f32, device>
// CHECK: %[[G:.*]] = zero.storage @bucket0 of gradients : <128 x f32, device>
// CHECK-NEXT: %[[HALF:.*]] = zero.part %[[G]] offset = 0 {axes = ["model"]} : <128 x f32, device> -> <64 x f32, device>
// CHECK-NEXT: %[[N:.*]] = zero.norm_partial %[[HALF]]
// CHECK-NEXT: zero.all_reduce %[[N]] {axes = ["node", "local", "model"]}
// CHECK: zero.storage @bucket0 of parameters {own} : <128 x f32, device>
// CHECK: zero.bucket @bucket0 : f32 padded = 256
// PLAN: plan.mesh axes = [#plan.axis<"node" = 1>, #plan.axis<"local" = 2>, #plan.axis<"model" = 2, model>]
// PLAN: plan.bucket @bucket0 : f32 padded = 256 used = 64 {axes = ["node", "local"]
// PLAN: plan.step "reduce_scatter" {{.*}}axes = ["node", "local"]
// PLAN: plan.step "norm_partial" {{.*}}#plan.operand<read @bucket0.gradients + 0 strides = {{\[0, 0, 256\]}} : tensor<64xf32>>
// PLAN: plan.step "all_gather" {{.*}}operands = [#plan.operand<read @bucket0.parameters + 0 strides = {{\[0, 512\]}} : tensor<128xf32>>{{.*}}axes = ["node", "local"]
graph.parameter @w : tensor<64xf32> role = trainable
graph.program @micro phase = micro inputs = [] {
  %w = graph.read @w : tensor<64xf32>
  %loss = graph.reduce_mean %w {axes = array<i64: 0>} : (tensor<64xf32>) -> tensor<f32>
  %g = graph.exp %w : (tensor<64xf32>) -> tensor<64xf32>
  graph.accumulate_grad @w, %g : tensor<64xf32>
  graph.return %loss : tensor<f32>
}
graph.program @update phase = update inputs = [] {
  %n, %f = graph.clip_factor : tensor<f32>, tensor<f32>
  graph.update @w, %f rule = sgd {beta1 = 0.0 : f64, beta2 = 0.0 : f64, eps = 0.0 : f64, momentum = 0.0 : f64, weight_decay = 0.0 : f64} : tensor<f32>
  graph.return
}
