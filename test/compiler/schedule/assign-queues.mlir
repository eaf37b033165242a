// RUN: zero-opt %s --assign-queues | FileCheck %s
// RUN: echo "module {}" | not zero-opt --assign-queues 2>&1 | FileCheck %s --check-prefix=MESH
// MESH: error: assign-queues needs the zero level: there is no zero.mesh

zero.mesh @mesh node = 1 local = 2
zero.bucket @bucket0 : f32 padded = 1048576 members = [] {trainable, parameters_sharded}
// What moves bytes between ranks goes to comm; 4 MiB, half of which come from the other rank, take 2 MiB / 4 GB/s and 1 us.
// CHECK-LABEL: graph.program @micro
graph.program @micro phase = micro inputs = ["x"] {
^bb0(%x: tensor<1048576xf32>):
  // CHECK: zero.gather @bucket0 {plan.queue = #plan<queue comm>, plan.seconds = 5.252{{[0-9]*}}E-4 : f64}
  %b = zero.gather @bucket0 : !zero.buffer<1048576 x f32, device>
  // CHECK: zero.view {{.*}} {plan.queue = #plan<queue compute>, plan.seconds = 0.0
  %v = zero.view %b offset = 0 : !zero.buffer<1048576 x f32, device> -> tensor<1048576xf32>
  // CHECK: graph.mul {{.*}} {plan.queue = #plan<queue compute>, plan.seconds = 6.3{{[0-9]*}}E-4 : f64}
  %m = graph.mul %x, %v : (tensor<1048576xf32>, tensor<1048576xf32>) -> tensor<1048576xf32>
  // CHECK: zero.release {{.*}} {plan.queue = #plan<queue compute>, plan.seconds = 0.0
  zero.release %b : !zero.buffer<1048576 x f32, device>
  // CHECK: zero.grad_buffer {{.*}}compute
  %g = zero.grad_buffer @bucket0 : !zero.buffer<1048576 x f32, device>
  // CHECK: zero.reduce_scatter {{.*}}comm
  zero.reduce_scatter %g, @bucket0 scale = 1.0 : !zero.buffer<1048576 x f32, device>
  graph.return
}
// CHECK-LABEL: graph.program @update
graph.program @update phase = update inputs = [] {
  // CHECK: zero.norm_partial {{.*}}compute
  %p = zero.norm_partial @bucket0() : () -> tensor<24xi64>
  // CHECK: zero.all_reduce {{.*}}comm
  %s = zero.all_reduce %p : tensor<24xi64>
  // CHECK: zero.all_gather {{.*}}comm
  zero.all_gather @bucket0 of "parameters"
  // CHECK: zero.reduce_loss {{.*}}comm
  zero.reduce_loss
  graph.return
}
