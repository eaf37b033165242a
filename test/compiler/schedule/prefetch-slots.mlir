// RUN: zero-opt %s --prefetch | FileCheck %s

// A load through a slot of the staging does not pass what still reads the slot on its way to the file; work of other queues beside it
// hides nothing, so it does pass abs.
// CHECK: zero.evict {{.*}}slot = "written"
// CHECK: zero.evict {{.*}}slot = "read"
// CHECK-NEXT: zero.alloc
// CHECK-NEXT: zero.fetch {{.*}}slot = "written again"
// CHECK-NEXT: zero.fetch
// CHECK-NEXT: graph.abs
// CHECK-NEXT: graph.sqrt
// CHECK-NEXT: zero.view
graph.program @micro phase = micro inputs = ["x"] {
^bb0(%x: tensor<1024xf32>):
  %slot = zero.alloc : !zero.buffer<1024 x f32, host>
  %kept = zero.alloc : !zero.buffer<1024 x f32, nvme>
  %0 = graph.exp %x {plan.seconds = 1.0} : (tensor<1024xf32>) -> tensor<1024xf32>
  zero.evict %0 into %slot {slot = "written", plan.queue = #plan<queue d2h>, plan.seconds = 4.0} : tensor<1024xf32>, !zero.buffer<1024 x f32, host>
  zero.evict %slot into %kept {slot = "read", plan.queue = #plan<queue nvme_write>, plan.seconds = 4.0} : !zero.buffer<1024 x f32, host>, !zero.buffer<1024 x f32, nvme>
  %1 = graph.abs %x {plan.seconds = 1.0} : (tensor<1024xf32>) -> tensor<1024xf32>
  %2 = graph.sqrt %1 {plan.seconds = 1.0} : (tensor<1024xf32>) -> tensor<1024xf32>
  %loaded = zero.load {
    %filled = zero.alloc : !zero.buffer<1024 x f32, device>
    zero.fetch %kept into %slot {slot = "written again", plan.queue = #plan<queue nvme_read>, plan.seconds = 9.0} : !zero.buffer<1024 x f32, nvme>, !zero.buffer<1024 x f32, host>
    zero.fetch %slot into %filled {plan.queue = #plan<queue h2d>, plan.seconds = 9.0} : !zero.buffer<1024 x f32, host>, !zero.buffer<1024 x f32, device>
    zero.yield %filled : !zero.buffer<1024 x f32, device>
  } : !zero.buffer<1024 x f32, device>
  %v = zero.view %loaded offset = 0 : !zero.buffer<1024 x f32, device> -> tensor<1024xf32>
  %3 = graph.log %v {plan.seconds = 1.0} : (tensor<1024xf32>) -> tensor<1024xf32>
  graph.return
}
