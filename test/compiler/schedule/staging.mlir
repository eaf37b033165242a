// RUN: sed s/@TARGET@/cpu/ %s | zero-opt --assign-queues --plan-memory --lower-to-plan --mlir-print-local-scope | FileCheck %s --check-prefix=CPU
// RUN: sed s/@TARGET@/cuda/ %s | zero-opt --assign-queues --plan-memory --lower-to-plan --mlir-print-local-scope | FileCheck %s --check-prefix=CUDA

// What a sum stages: pieces that stay in a processor's cache; as much as is worth a call where GPUs add, at most all of what is summed.
// CPU: plan.step "reduce_scatter" {{.*}}workspace = #plan.operand<write @{{s[0-9]+}} + 0 : tensor<6291456xui8>>
// CPU: plan.step "reduce_scatter" {{.*}}workspace = #plan.operand<write @{{s[0-9]+}} + 0 : tensor<6291456xui8>>
// CUDA: plan.step "reduce_scatter" {{.*}}workspace = #plan.operand<write @{{s[0-9]+}} + 0 : tensor<33554432xui8>>
// CUDA: plan.step "reduce_scatter" {{.*}}workspace = #plan.operand<write @{{s[0-9]+}} + 0 : tensor<67108864xui8>>
module attributes {graph.target = "@TARGET@", zero.execution = #zero.execution<stage = 2>} {
zero.mesh axes = [#zero.axis<"node" = 1>, #zero.axis<"local" = 2>]
graph.parameter @v : tensor<8388608xf32> role = trainable
graph.parameter @w : tensor<33554432xf32> role = trainable
zero.bucket @bucket0 : f32 padded = 8388608 members = [#zero.member<@v, 0, 8388608>] {trainable, gradients_sharded, optimizer_sharded}
zero.bucket @bucket1 : f32 padded = 33554432 members = [#zero.member<@w, 0, 33554432>] {trainable, gradients_sharded, optimizer_sharded}

graph.program @micro phase = micro inputs = [] {
  %gs0 = zero.storage @bucket0 of gradients : !zero.buffer<4194304 x f32, device>
  %g0 = zero.grad_buffer @bucket0 : !zero.buffer<8388608 x f32, device>
  %c0 = graph.constant dense<1.0> : tensor<8388608xf32>
  zero.put %c0 into %g0 offset = 0 : tensor<8388608xf32>, !zero.buffer<8388608 x f32, device>
  zero.reduce_scatter %g0 into %gs0 scale = 0.5 : !zero.buffer<8388608 x f32, device>, !zero.buffer<4194304 x f32, device>
  %gs1 = zero.storage @bucket1 of gradients : !zero.buffer<16777216 x f32, device>
  %g1 = zero.grad_buffer @bucket1 : !zero.buffer<33554432 x f32, device>
  %c1 = graph.constant dense<1.0> : tensor<33554432xf32>
  zero.put %c1 into %g1 offset = 0 : tensor<33554432xf32>, !zero.buffer<33554432 x f32, device>
  zero.reduce_scatter %g1 into %gs1 scale = 0.5 : !zero.buffer<33554432 x f32, device>, !zero.buffer<16777216 x f32, device>
  graph.return
}

graph.program @update phase = update inputs = [] {
  zero.reduce_loss
  graph.return
}
}
