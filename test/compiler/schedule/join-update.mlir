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

// -----

// On the device each update follows its gradient, but not before the last use of what it changes: of bucket 1 that is %w1, read by
// graph.mul after the gradient is there. The factor is 1 whatever the norm, which is summed in the order of the updates.
// CHECK-LABEL: module @early
// CHECK: %[[ONE:.*]] = zero.fill 1.000000e+00
// CHECK: graph.exp
// CHECK: graph.mul
// CHECK: %[[N1:.*]] = zero.norm_partial %{{[^ ]*}} {name = "norm1"
// CHECK-NEXT: zero.update %{{.*}}, %[[ONE]], {{.*}}name = "update1"
// CHECK: graph.neg
// CHECK: %[[N0:.*]] = zero.norm_partial %{{.*}} after %[[N1]] {name = "norm0"
// CHECK-NEXT: zero.update %{{.*}}, %[[ONE]], {{.*}}name = "update0"
// CHECK: zero.clip_factor %[[N0]]
// CHECK: graph.program @update
// CHECK-NEXT: graph.return
module @early {
zero.mesh axes = [#zero.axis<"node" = 1>, #zero.axis<"local" = 1>]
zero.bucket @bucket0 : f32 padded = 64 members = [#zero.member<@a, 0, 64>] {trainable}
zero.bucket @bucket1 : f32 padded = 64 members = [#zero.member<@b, 0, 64>] {trainable}
graph.program @micro phase = micro inputs = ["x"] {
^bb0(%x: tensor<64xf32>):
  %g0 = zero.storage @bucket0 of gradients : !zero.buffer<64 x f32, device>
  %g1 = zero.storage @bucket1 of gradients : !zero.buffer<64 x f32, device>
  %w1 = zero.storage @bucket1 of parameters : !zero.buffer<64 x f32, device>
  %b1 = zero.grad_buffer @bucket1 {plan.queue = #plan<queue compute>, plan.seconds = 0.0} : !zero.buffer<64 x f32, device>
  %1 = graph.exp %x {plan.queue = #plan<queue compute>, plan.seconds = 1.0} : (tensor<64xf32>) -> tensor<64xf32>
  zero.put %1 into %b1 offset = 0 {plan.queue = #plan<queue compute>, plan.seconds = 0.0} : tensor<64xf32>, !zero.buffer<64 x f32, device>
  zero.reduce_scatter %b1 into %g1 scale = 1.0 {plan.queue = #plan<queue comm>, plan.seconds = 0.0} : !zero.buffer<64 x f32, device>, !zero.buffer<64 x f32, device>
  %v1 = zero.view %w1 offset = 0 {plan.queue = #plan<queue compute>, plan.seconds = 0.0} : !zero.buffer<64 x f32, device> -> tensor<64xf32>
  %2 = graph.mul %1, %v1 {plan.queue = #plan<queue compute>, plan.seconds = 1.0} : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
  %b0 = zero.grad_buffer @bucket0 {plan.queue = #plan<queue compute>, plan.seconds = 0.0} : !zero.buffer<64 x f32, device>
  %0 = graph.neg %2 {plan.queue = #plan<queue compute>, plan.seconds = 1.0} : (tensor<64xf32>) -> tensor<64xf32>
  zero.put %0 into %b0 offset = 0 {plan.queue = #plan<queue compute>, plan.seconds = 0.0} : tensor<64xf32>, !zero.buffer<64 x f32, device>
  zero.reduce_scatter %b0 into %g0 scale = 1.0 {plan.queue = #plan<queue comm>, plan.seconds = 0.0} : !zero.buffer<64 x f32, device>, !zero.buffer<64 x f32, device>
  graph.return
}
graph.program @update phase = update inputs = [] {
  %g0 = zero.storage @bucket0 of gradients : !zero.buffer<64 x f32, device>
  %g1 = zero.storage @bucket1 of gradients : !zero.buffer<64 x f32, device>
  %w0 = zero.storage @bucket0 of parameters : !zero.buffer<64 x f32, device>
  %w1 = zero.storage @bucket1 of parameters : !zero.buffer<64 x f32, device>
  %n0 = zero.norm_partial %g0 {name = "norm0", plan.queue = #plan<queue compute>, plan.seconds = 0.1} : (!zero.buffer<64 x f32, device>) -> !zero.buffer<24 x i64, device>
  %n1 = zero.norm_partial %g1 after %n0 {name = "norm1", plan.queue = #plan<queue compute>, plan.seconds = 0.1} : (!zero.buffer<64 x f32, device>, !zero.buffer<24 x i64, device>) -> !zero.buffer<24 x i64, device>
  %norm, %f = zero.clip_factor %n1 {plan.queue = #plan<queue compute>, plan.seconds = 0.0} : !zero.buffer<24 x i64, device> -> !zero.buffer<1 x f32, device>, !zero.buffer<1 x f32, device>
  zero.update %g0, %f, %w0 rule = sgd {beta1 = 0.0 : f64, beta2 = 0.0 : f64, eps = 0.0 : f64, momentum = 0.0 : f64, weight_decay = 0.0 : f64, name = "update0", plan.queue = #plan<queue compute>, plan.seconds = 0.5} : (!zero.buffer<64 x f32, device>, !zero.buffer<1 x f32, device>, !zero.buffer<64 x f32, device>) -> ()
  zero.update %g1, %f, %w1 rule = sgd {beta1 = 0.0 : f64, beta2 = 0.0 : f64, eps = 0.0 : f64, momentum = 0.0 : f64, weight_decay = 0.0 : f64, name = "update1", plan.queue = #plan<queue compute>, plan.seconds = 0.5} : (!zero.buffer<64 x f32, device>, !zero.buffer<1 x f32, device>, !zero.buffer<64 x f32, device>) -> ()
  graph.return
}
}

// -----

// With a bound on the norm all updates come last.
// CHECK-LABEL: module @clipped
// CHECK: graph.neg
// CHECK: zero.norm_partial {{.*}}name = "norm0"
// CHECK: zero.norm_partial {{.*}}name = "norm1"
// CHECK: %{{.*}}, %[[F:.*]] = zero.clip_factor
// CHECK: zero.update %{{.*}}, %[[F]], {{.*}}name = "update0"
// CHECK: zero.update %{{.*}}, %[[F]], {{.*}}name = "update1"
module @clipped {
zero.mesh axes = [#zero.axis<"node" = 1>, #zero.axis<"local" = 1>]
zero.bucket @bucket0 : f32 padded = 64 members = [#zero.member<@a, 0, 64>] {trainable}
zero.bucket @bucket1 : f32 padded = 64 members = [#zero.member<@b, 0, 64>] {trainable}
graph.program @micro phase = micro inputs = ["x"] {
^bb0(%x: tensor<64xf32>):
  %g0 = zero.storage @bucket0 of gradients : !zero.buffer<64 x f32, device>
  %g1 = zero.storage @bucket1 of gradients : !zero.buffer<64 x f32, device>
  %w1 = zero.storage @bucket1 of parameters : !zero.buffer<64 x f32, device>
  %b1 = zero.grad_buffer @bucket1 {plan.queue = #plan<queue compute>, plan.seconds = 0.0} : !zero.buffer<64 x f32, device>
  %1 = graph.exp %x {plan.queue = #plan<queue compute>, plan.seconds = 1.0} : (tensor<64xf32>) -> tensor<64xf32>
  zero.put %1 into %b1 offset = 0 {plan.queue = #plan<queue compute>, plan.seconds = 0.0} : tensor<64xf32>, !zero.buffer<64 x f32, device>
  zero.reduce_scatter %b1 into %g1 scale = 1.0 {plan.queue = #plan<queue comm>, plan.seconds = 0.0} : !zero.buffer<64 x f32, device>, !zero.buffer<64 x f32, device>
  %v1 = zero.view %w1 offset = 0 {plan.queue = #plan<queue compute>, plan.seconds = 0.0} : !zero.buffer<64 x f32, device> -> tensor<64xf32>
  %2 = graph.mul %1, %v1 {plan.queue = #plan<queue compute>, plan.seconds = 1.0} : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
  %b0 = zero.grad_buffer @bucket0 {plan.queue = #plan<queue compute>, plan.seconds = 0.0} : !zero.buffer<64 x f32, device>
  %0 = graph.neg %2 {plan.queue = #plan<queue compute>, plan.seconds = 1.0} : (tensor<64xf32>) -> tensor<64xf32>
  zero.put %0 into %b0 offset = 0 {plan.queue = #plan<queue compute>, plan.seconds = 0.0} : tensor<64xf32>, !zero.buffer<64 x f32, device>
  zero.reduce_scatter %b0 into %g0 scale = 1.0 {plan.queue = #plan<queue comm>, plan.seconds = 0.0} : !zero.buffer<64 x f32, device>, !zero.buffer<64 x f32, device>
  graph.return
}
graph.program @update phase = update inputs = [] {
  %g0 = zero.storage @bucket0 of gradients : !zero.buffer<64 x f32, device>
  %g1 = zero.storage @bucket1 of gradients : !zero.buffer<64 x f32, device>
  %w0 = zero.storage @bucket0 of parameters : !zero.buffer<64 x f32, device>
  %w1 = zero.storage @bucket1 of parameters : !zero.buffer<64 x f32, device>
  %n0 = zero.norm_partial %g0 {name = "norm0", plan.queue = #plan<queue compute>, plan.seconds = 0.1} : (!zero.buffer<64 x f32, device>) -> !zero.buffer<24 x i64, device>
  %n1 = zero.norm_partial %g1 after %n0 {name = "norm1", plan.queue = #plan<queue compute>, plan.seconds = 0.1} : (!zero.buffer<64 x f32, device>, !zero.buffer<24 x i64, device>) -> !zero.buffer<24 x i64, device>
  %norm, %f = zero.clip_factor %n1 {max_norm = 1.0 : f64, plan.queue = #plan<queue compute>, plan.seconds = 0.0} : !zero.buffer<24 x i64, device> -> !zero.buffer<1 x f32, device>, !zero.buffer<1 x f32, device>
  zero.update %g0, %f, %w0 rule = sgd {beta1 = 0.0 : f64, beta2 = 0.0 : f64, eps = 0.0 : f64, momentum = 0.0 : f64, weight_decay = 0.0 : f64, name = "update0", plan.queue = #plan<queue compute>, plan.seconds = 0.5} : (!zero.buffer<64 x f32, device>, !zero.buffer<1 x f32, device>, !zero.buffer<64 x f32, device>) -> ()
  zero.update %g1, %f, %w1 rule = sgd {beta1 = 0.0 : f64, beta2 = 0.0 : f64, eps = 0.0 : f64, momentum = 0.0 : f64, weight_decay = 0.0 : f64, name = "update1", plan.queue = #plan<queue compute>, plan.seconds = 0.5} : (!zero.buffer<64 x f32, device>, !zero.buffer<1 x f32, device>, !zero.buffer<64 x f32, device>) -> ()
  graph.return
}
}

// -----

// Where ranks sum gradients, compute does not wait for its own bucket's sum, but for that of the next but one: here it has three.
// CHECK-LABEL: module @summed
// CHECK: zero.reduce_scatter {{.*}}name = "sum2"
// CHECK-NOT: zero.update
// CHECK: zero.reduce_scatter {{.*}}name = "sum1"
// CHECK-NOT: zero.update
// CHECK: zero.reduce_scatter {{.*}}name = "sum0"
// CHECK: zero.update {{.*}}name = "update2"
// CHECK: zero.update {{.*}}name = "update1"
// CHECK: zero.update {{.*}}name = "update0"
module @summed {
zero.mesh axes = [#zero.axis<"node" = 1>, #zero.axis<"local" = 2>]
zero.bucket @bucket0 : f32 padded = 128 members = [#zero.member<@p0, 0, 128>] {trainable, gradients_sharded, optimizer_sharded, parameters_sharded}
zero.bucket @bucket1 : f32 padded = 128 members = [#zero.member<@p1, 0, 128>] {trainable, gradients_sharded, optimizer_sharded, parameters_sharded}
zero.bucket @bucket2 : f32 padded = 128 members = [#zero.member<@p2, 0, 128>] {trainable, gradients_sharded, optimizer_sharded, parameters_sharded}
graph.program @micro phase = micro inputs = ["x"] {
^bb0(%x: tensor<128xf32>):
  %g2 = zero.storage @bucket2 of gradients : !zero.buffer<64 x f32, device>
  %b2 = zero.grad_buffer @bucket2 {plan.queue = #plan<queue compute>, plan.seconds = 0.0} : !zero.buffer<128 x f32, device>
  %2 = graph.exp %x {plan.queue = #plan<queue compute>, plan.seconds = 1.0} : (tensor<128xf32>) -> tensor<128xf32>
  zero.put %2 into %b2 offset = 0 {plan.queue = #plan<queue compute>, plan.seconds = 0.0} : tensor<128xf32>, !zero.buffer<128 x f32, device>
  zero.reduce_scatter %b2 into %g2 scale = 0.5 {name = "sum2", plan.queue = #plan<queue comm>, plan.seconds = 1.0} : !zero.buffer<128 x f32, device>, !zero.buffer<64 x f32, device>
  %g1 = zero.storage @bucket1 of gradients : !zero.buffer<64 x f32, device>
  %b1 = zero.grad_buffer @bucket1 {plan.queue = #plan<queue compute>, plan.seconds = 0.0} : !zero.buffer<128 x f32, device>
  %1 = graph.exp %x {plan.queue = #plan<queue compute>, plan.seconds = 1.0} : (tensor<128xf32>) -> tensor<128xf32>
  zero.put %1 into %b1 offset = 0 {plan.queue = #plan<queue compute>, plan.seconds = 0.0} : tensor<128xf32>, !zero.buffer<128 x f32, device>
  zero.reduce_scatter %b1 into %g1 scale = 0.5 {name = "sum1", plan.queue = #plan<queue comm>, plan.seconds = 1.0} : !zero.buffer<128 x f32, device>, !zero.buffer<64 x f32, device>
  %g0 = zero.storage @bucket0 of gradients : !zero.buffer<64 x f32, device>
  %b0 = zero.grad_buffer @bucket0 {plan.queue = #plan<queue compute>, plan.seconds = 0.0} : !zero.buffer<128 x f32, device>
  %0 = graph.exp %x {plan.queue = #plan<queue compute>, plan.seconds = 1.0} : (tensor<128xf32>) -> tensor<128xf32>
  zero.put %0 into %b0 offset = 0 {plan.queue = #plan<queue compute>, plan.seconds = 0.0} : tensor<128xf32>, !zero.buffer<128 x f32, device>
  zero.reduce_scatter %b0 into %g0 scale = 0.5 {name = "sum0", plan.queue = #plan<queue comm>, plan.seconds = 1.0} : !zero.buffer<128 x f32, device>, !zero.buffer<64 x f32, device>
  graph.return
}
graph.program @update phase = update inputs = [] {
  %g0 = zero.storage @bucket0 of gradients : !zero.buffer<64 x f32, device>
  %g1 = zero.storage @bucket1 of gradients : !zero.buffer<64 x f32, device>
  %g2 = zero.storage @bucket2 of gradients : !zero.buffer<64 x f32, device>
  %w0 = zero.storage @bucket0 of parameters : !zero.buffer<64 x f32, device>
  %w1 = zero.storage @bucket1 of parameters : !zero.buffer<64 x f32, device>
  %w2 = zero.storage @bucket2 of parameters : !zero.buffer<64 x f32, device>
  %n0 = zero.norm_partial %g0 {plan.queue = #plan<queue compute>, plan.seconds = 0.1} : (!zero.buffer<64 x f32, device>) -> !zero.buffer<24 x i64, device>
  %n1 = zero.norm_partial %g1 after %n0 {plan.queue = #plan<queue compute>, plan.seconds = 0.1} : (!zero.buffer<64 x f32, device>, !zero.buffer<24 x i64, device>) -> !zero.buffer<24 x i64, device>
  %n2 = zero.norm_partial %g2 after %n1 {plan.queue = #plan<queue compute>, plan.seconds = 0.1} : (!zero.buffer<64 x f32, device>, !zero.buffer<24 x i64, device>) -> !zero.buffer<24 x i64, device>
  %norm, %one = zero.clip_factor %n2 {plan.queue = #plan<queue compute>, plan.seconds = 0.0} : !zero.buffer<24 x i64, device> -> !zero.buffer<1 x f32, device>, !zero.buffer<1 x f32, device>
  zero.update %g0, %one, %w0 rule = sgd {beta1 = 0.0 : f64, beta2 = 0.0 : f64, eps = 0.0 : f64, momentum = 0.0 : f64, weight_decay = 0.0 : f64, name = "update0", plan.queue = #plan<queue compute>, plan.seconds = 0.5} : (!zero.buffer<64 x f32, device>, !zero.buffer<1 x f32, device>, !zero.buffer<64 x f32, device>) -> ()
  zero.update %g1, %one, %w1 rule = sgd {beta1 = 0.0 : f64, beta2 = 0.0 : f64, eps = 0.0 : f64, momentum = 0.0 : f64, weight_decay = 0.0 : f64, name = "update1", plan.queue = #plan<queue compute>, plan.seconds = 0.5} : (!zero.buffer<64 x f32, device>, !zero.buffer<1 x f32, device>, !zero.buffer<64 x f32, device>) -> ()
  zero.update %g2, %one, %w2 rule = sgd {beta1 = 0.0 : f64, beta2 = 0.0 : f64, eps = 0.0 : f64, momentum = 0.0 : f64, weight_decay = 0.0 : f64, name = "update2", plan.queue = #plan<queue compute>, plan.seconds = 0.5} : (!zero.buffer<64 x f32, device>, !zero.buffer<1 x f32, device>, !zero.buffer<64 x f32, device>) -> ()
  graph.return
}
}
