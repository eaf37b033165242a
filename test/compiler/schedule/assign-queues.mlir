// RUN: zero-opt %s --assign-queues | FileCheck %s
// RUN: echo "module {}" | not zero-opt --assign-queues 2>&1 | FileCheck %s --check-prefix=MESH
// MESH: error: assign-queues needs the zero level: there is no zero.mesh

zero.mesh axes = [#zero.axis<"node" = 1>, #zero.axis<"local" = 2>]
zero.bucket @bucket0 : f32 padded = 1048576 members = [] {trainable, parameters_sharded}
// What moves bytes between ranks goes to comm; 4 MiB, half of which come from the other rank, take 2 MiB / 4 GB/s and 1 us.
// CHECK-LABEL: graph.program @micro
graph.program @micro phase = micro inputs = ["x"] {
^bb0(%x: tensor<1048576xf32>):
  // Addresses first, wherever they stood.
  // CHECK: zero.storage @bucket0 of parameters
  // CHECK: zero.gather {{.*}} {plan.queue = #plan<queue comm>, plan.seconds = 5.252{{[0-9]*}}E-4 : f64}
  %p = zero.storage @bucket0 of parameters : !zero.buffer<524288 x f32, device>
  %b = zero.load {
    %gathered = zero.gather %p : !zero.buffer<524288 x f32, device> -> !zero.buffer<1048576 x f32, device>
    zero.yield %gathered : !zero.buffer<1048576 x f32, device>
  } : !zero.buffer<1048576 x f32, device>
  // CHECK: zero.view {{.*}} {plan.queue = #plan<queue compute>, plan.seconds = 0.0
  %v = zero.view %b offset = 0 : !zero.buffer<1048576 x f32, device> -> tensor<1048576xf32>
  // CHECK: graph.mul {{.*}} {plan.queue = #plan<queue compute>, plan.seconds = 6.3{{[0-9]*}}E-4 : f64}
  %m = graph.mul %x, %v : (tensor<1048576xf32>, tensor<1048576xf32>) -> tensor<1048576xf32>
  // CHECK: zero.release {{.*}} {plan.queue = #plan<queue compute>, plan.seconds = 0.0
  zero.release %b : !zero.buffer<1048576 x f32, device>
  // CHECK: zero.grad_buffer {{.*}}compute
  %g = zero.grad_buffer @bucket0 : !zero.buffer<1048576 x f32, device>
  // CHECK: zero.reduce_scatter {{.*}}comm
  %r = zero.alloc : !zero.buffer<524288 x f32, device>
  zero.reduce_scatter %g into %r scale = 1.0 : !zero.buffer<1048576 x f32, device>, !zero.buffer<524288 x f32, device>
  // Each link between tiers has a queue per direction: 2 MiB at 10 GB/s to the host and at 1 GB/s to the file.
  // CHECK: zero.evict {{.*}}d2h>, plan.seconds = 2.10{{[0-9]*}}E-4
  %h = zero.alloc : !zero.buffer<524288 x f32, host>
  %h2 = zero.alloc : !zero.buffer<524288 x f32, host>
  %n = zero.alloc : !zero.buffer<524288 x f32, nvme>
  zero.evict %r into %h : !zero.buffer<524288 x f32, device>, !zero.buffer<524288 x f32, host>
  // CHECK: zero.evict {{.*}}nvme_write>, plan.seconds = 0.00209
  zero.evict %h into %n : !zero.buffer<524288 x f32, host>, !zero.buffer<524288 x f32, nvme>
  // CHECK: zero.fetch {{.*}}nvme_read>
  zero.fetch %n into %h2 : !zero.buffer<524288 x f32, nvme>, !zero.buffer<524288 x f32, host>
  // CHECK: zero.accumulate {{.*}}host_compute>
  zero.accumulate %h into %h2 : !zero.buffer<524288 x f32, host>
  // CHECK: zero.fetch {{.*}}h2d>
  zero.fetch %h2 into %r : !zero.buffer<524288 x f32, host>, !zero.buffer<524288 x f32, device>
  // CHECK: zero.fill {{.*}}host_compute>
  %f = zero.fill 1.0 : !zero.buffer<1 x f32, host>
  graph.return
}
// CHECK-LABEL: graph.program @update
graph.program @update phase = update inputs = [] {
  // CHECK: zero.norm_partial {{.*}}compute
  %g = zero.storage @bucket0 of gradients : !zero.buffer<1048576 x f32, device>
  %p = zero.norm_partial %g : (!zero.buffer<1048576 x f32, device>) -> !zero.buffer<24 x i64, device>
  // CHECK: zero.all_reduce {{.*}}comm
  %s = zero.all_reduce %p : !zero.buffer<24 x i64, device>
  // CHECK: zero.all_gather {{.*}}comm
  %o = zero.storage @bucket0 of gradients {own} : !zero.buffer<524288 x f32, device>
  zero.all_gather %o into %g : !zero.buffer<524288 x f32, device>, !zero.buffer<1048576 x f32, device>
  // CHECK: zero.reduce_loss {{.*}}comm
  zero.reduce_loss
  graph.return
}
