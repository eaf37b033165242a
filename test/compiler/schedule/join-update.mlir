// RUN: zero-opt %s --split-input-file --join-update --order | FileCheck %s

// The update on the host stands beside backward: it begins when its gradient has landed (1 s + 1 s), not after compute (6 s). The
// norm waits for all partial sums, whatever stands between them, and the reduction of the loss for its record.
module {
zero.bucket @bucket0 : f32 padded = 64 members = [] {trainable, gradients_tier = #zero<tier host>, optimizer_tier = #zero<tier host>}
zero.bucket @bucket1 : f32 padded = 64 members = [] {trainable, gradients_tier = #zero<tier host>, optimizer_tier = #zero<tier host>}
// CHECK-LABEL: graph.program @micro
// CHECK: graph.exp
// CHECK: zero.evict {{.*}}name = "first"
// CHECK: graph.neg
// CHECK: zero.update {{.*}}name = "first"
// CHECK: zero.evict {{.*}}name = "second"
// CHECK: zero.record_loss
// CHECK-NEXT: zero.reduce_loss
// CHECK-NEXT: zero.norm_partial {{.*}}name = "second"
// CHECK-NEXT: zero.clip_factor
// CHECK: graph.return
// CHECK: graph.program @update
// CHECK-NEXT: graph.return
graph.program @micro phase = micro inputs = ["x", "l"] {
^bb0(%x: tensor<64xf32>, %l: tensor<f32>):
  %g0 = zero.storage @bucket0 of gradients : !zero.buffer<64 x f32, host>
  %g1 = zero.storage @bucket1 of gradients : !zero.buffer<64 x f32, host>
  %acc = zero.storage @bucket0 of norm : !zero.buffer<24 x i64, host>
  %b0 = zero.grad_buffer @bucket0 {plan.queue = #plan<queue compute>, plan.seconds = 0.0} : !zero.buffer<64 x f32, device>
  %0 = graph.exp %x {plan.queue = #plan<queue compute>, plan.seconds = 1.0} : (tensor<64xf32>) -> tensor<64xf32>
  zero.put %0 into %b0 offset = 0 {plan.queue = #plan<queue compute>, plan.seconds = 0.0} : tensor<64xf32>, !zero.buffer<64 x f32, device>
  zero.evict %b0 into %g0 {name = "first", plan.queue = #plan<queue d2h>, plan.seconds = 1.0} : !zero.buffer<64 x f32, device>, !zero.buffer<64 x f32, host>
  %n0 = zero.norm_partial %g0 after %acc {name = "first", reset, plan.queue = #plan<queue host_compute>, plan.seconds = 0.1} : (!zero.buffer<64 x f32, host>, !zero.buffer<24 x i64, host>) -> !zero.buffer<24 x i64, host>
  %b1 = zero.grad_buffer @bucket1 {plan.queue = #plan<queue compute>, plan.seconds = 0.0} : !zero.buffer<64 x f32, device>
  %1 = graph.neg %0 {plan.queue = #plan<queue compute>, plan.seconds = 5.0} : (tensor<64xf32>) -> tensor<64xf32>
  zero.put %1 into %b1 offset = 0 {plan.queue = #plan<queue compute>, plan.seconds = 0.0} : tensor<64xf32>, !zero.buffer<64 x f32, device>
  zero.evict %b1 into %g1 {name = "second", plan.queue = #plan<queue d2h>, plan.seconds = 1.0} : !zero.buffer<64 x f32, device>, !zero.buffer<64 x f32, host>
  %n1 = zero.norm_partial %g1 after %n0 {name = "second", plan.queue = #plan<queue host_compute>, plan.seconds = 0.1} : (!zero.buffer<64 x f32, host>, !zero.buffer<24 x i64, host>) -> !zero.buffer<24 x i64, host>
  zero.record_loss %l {plan.queue = #plan<queue compute>, plan.seconds = 0.0} : tensor<f32>
  graph.return
}
graph.program @update phase = update inputs = [] {
  %g0 = zero.storage @bucket0 of gradients : !zero.buffer<64 x f32, host>
  %w0 = zero.storage @bucket0 of master : !zero.buffer<64 x f32, host>
  %acc = zero.storage @bucket0 of norm : !zero.buffer<24 x i64, host>
  %norm, %factor = zero.clip_factor %acc {plan.queue = #plan<queue host_compute>, plan.seconds = 0.0} : !zero.buffer<24 x i64, host> -> !zero.buffer<1 x f32, host>, !zero.buffer<1 x f32, host>
  %one = zero.fill 1.0 {plan.queue = #plan<queue host_compute>, plan.seconds = 0.0} : !zero.buffer<1 x f32, host>
  zero.update %g0, %one, %w0 rule = sgd {name = "first", beta1 = 0.0 : f64, beta2 = 0.0 : f64, eps = 0.0 : f64, momentum = 0.0 : f64, weight_decay = 0.0 : f64, plan.queue = #plan<queue host_compute>, plan.seconds = 0.5} : (!zero.buffer<64 x f32, host>, !zero.buffer<1 x f32, host>, !zero.buffer<64 x f32, host>) -> ()
  zero.reduce_loss {plan.queue = #plan<queue comm>, plan.seconds = 0.0}
  graph.return
}
}

// -----

// With more micro-steps their loop ends first.
// CHECK-LABEL: module attributes {zero.execution = #zero.execution<stage = 0, accumulation = 2>}
module attributes {zero.execution = #zero.execution<stage = 0, accumulation = 2>} {
zero.bucket @bucket0 : f32 padded = 64 members = [] {trainable, gradients_tier = #zero<tier host>, optimizer_tier = #zero<tier host>}
graph.program @micro phase = micro inputs = [] {
  graph.return
}
// CHECK: graph.program @update
// CHECK: zero.fill
graph.program @update phase = update inputs = [] {
  %one = zero.fill 1.0 {plan.queue = #plan<queue host_compute>, plan.seconds = 0.0} : !zero.buffer<1 x f32, host>
  graph.return
}
}
