// RUN: zero-opt %s --split-input-file --order | FileCheck %s

// Compute keeps its order (3 x 2 s) while comm runs beside it: the gather waits for the place it stands at (2 s), takes 3 s,
// and holds up its user until 5 s. The buffer ends after its last user.
module {
zero.bucket @bucket0 : f32 padded = 64 members = [] {trainable, parameters_sharded}
zero.bucket @bucket1 : f32 padded = 64 members = [] {trainable}
// CHECK-LABEL: graph.program @micro
// CHECK: graph.exp
// CHECK-NEXT: zero.gather
// CHECK-NEXT: graph.abs
// CHECK-NEXT: zero.view
// CHECK-NEXT: graph.mul
// CHECK-NEXT: zero.release
// CHECK-NEXT: graph.neg
// CHECK-NEXT: graph.return
graph.program @micro phase = micro inputs = ["x"] {
^bb0(%x: tensor<64xf32>):
  %p = zero.storage @bucket0 of parameters : !zero.buffer<32 x f32, device>
  %0 = graph.exp %x {plan.queue = #plan<queue compute>, plan.seconds = 2.0} : (tensor<64xf32>) -> tensor<64xf32>
  %b = zero.gather %p {plan.queue = #plan<queue comm>, plan.seconds = 3.0} : !zero.buffer<32 x f32, device> -> !zero.buffer<64 x f32, device>
  %1 = graph.abs %0 {plan.queue = #plan<queue compute>, plan.seconds = 2.0} : (tensor<64xf32>) -> tensor<64xf32>
  %v = zero.view %b offset = 0 {plan.queue = #plan<queue compute>, plan.seconds = 0.0} : !zero.buffer<64 x f32, device> -> tensor<64xf32>
  %2 = graph.mul %1, %v {plan.queue = #plan<queue compute>, plan.seconds = 2.0} : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
  zero.release %b {plan.queue = #plan<queue compute>, plan.seconds = 0.0} : !zero.buffer<64 x f32, device>
  %3 = graph.neg %2 {plan.queue = #plan<queue compute>, plan.seconds = 2.0} : (tensor<64xf32>) -> tensor<64xf32>
  graph.return
}
// In the update storage is touched in the order written: the gather of bucket1 may go ahead, that of bucket0 may not.
// CHECK-LABEL: graph.program @update
// CHECK: zero.all_gather %{{.*}} into %[[B1:.*]] :
// CHECK: zero.update
// CHECK: zero.all_gather %{{.*}} into %[[B0:.*]] :
graph.program @update phase = update inputs = [] {
  %g = zero.storage @bucket0 of gradients {own} : !zero.buffer<32 x f32, device>
  %o0 = zero.storage @bucket0 of parameters {own} : !zero.buffer<32 x f32, device>
  %w0 = zero.storage @bucket0 of parameters : !zero.buffer<64 x f32, device>
  %o1 = zero.storage @bucket1 of parameters {own} : !zero.buffer<32 x f32, device>
  %w1 = zero.storage @bucket1 of parameters : !zero.buffer<64 x f32, device>
  %s = zero.norm_partial %g {plan.queue = #plan<queue compute>, plan.seconds = 0.0} : (!zero.buffer<32 x f32, device>) -> !zero.buffer<24 x i64, device>
  %n, %f = zero.clip_factor %s {plan.queue = #plan<queue compute>, plan.seconds = 0.5} : !zero.buffer<24 x i64, device> -> !zero.buffer<1 x f32, device>, !zero.buffer<1 x f32, device>
  zero.update %g, %f, %o0 rule = sgd {beta1 = 0.0 : f64, beta2 = 0.0 : f64, eps = 0.0 : f64, momentum = 0.0 : f64, weight_decay = 0.0 : f64, plan.queue = #plan<queue compute>, plan.seconds = 0.25} : (!zero.buffer<32 x f32, device>, !zero.buffer<1 x f32, device>, !zero.buffer<32 x f32, device>) -> ()
  zero.all_gather %o0 into %w0 {plan.queue = #plan<queue comm>, plan.seconds = 0.25} : !zero.buffer<32 x f32, device>, !zero.buffer<64 x f32, device>
  zero.all_gather %o1 into %w1 {plan.queue = #plan<queue comm>, plan.seconds = 0.25} : !zero.buffer<32 x f32, device>, !zero.buffer<64 x f32, device>
  graph.return
}
}

// -----

// Chunks of one storage that do not overlap may pass each other; one that does waits for the writer.
// CHECK-LABEL: graph.program @update
// CHECK: zero.fetch {{.*}}chunk = 0
// CHECK-DAG: zero.fetch {{.*}}chunk = 1
// CHECK-DAG: zero.evict {{.*}}chunk = 0
// CHECK: zero.fetch {{.*}}chunk = 2
zero.bucket @bucket0 : f32 padded = 128 members = [] {trainable, optimizer_tier = #zero<tier nvme>}
graph.program @update phase = update inputs = [] {
  %a = zero.storage @bucket0 of moment1 : !zero.buffer<64 x f32, nvme>
  %b = zero.storage @bucket0 of moment1 {offset = 64 : i64} : !zero.buffer<64 x f32, nvme>
  %h = zero.alloc : !zero.buffer<192 x f32, host>
  %0 = zero.part %h offset = 0 : !zero.buffer<192 x f32, host> -> !zero.buffer<64 x f32, host>
  %1 = zero.part %h offset = 64 : !zero.buffer<192 x f32, host> -> !zero.buffer<64 x f32, host>
  %2 = zero.part %h offset = 128 : !zero.buffer<192 x f32, host> -> !zero.buffer<64 x f32, host>
  zero.fetch %a into %0 {chunk = 0 : i64, plan.queue = #plan<queue nvme_read>, plan.seconds = 1.0} : !zero.buffer<64 x f32, nvme>, !zero.buffer<64 x f32, host>
  zero.evict %0 into %a {chunk = 0 : i64, plan.queue = #plan<queue nvme_write>, plan.seconds = 3.0} : !zero.buffer<64 x f32, host>, !zero.buffer<64 x f32, nvme>
  zero.fetch %a into %2 {chunk = 2 : i64, plan.queue = #plan<queue nvme_read>, plan.seconds = 1.0} : !zero.buffer<64 x f32, nvme>, !zero.buffer<64 x f32, host>
  zero.fetch %b into %1 {chunk = 1 : i64, plan.queue = #plan<queue nvme_read>, plan.seconds = 1.0} : !zero.buffer<64 x f32, nvme>, !zero.buffer<64 x f32, host>
  graph.return
}
