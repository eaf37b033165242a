// RUN: zero-opt %s --prefetch | FileCheck %s
// RUN: zero-opt %s --prefetch=overlap=planned | FileCheck %s --check-prefix=PLANNED
// RUN: zero-opt %s --prefetch="prefetch=4096" | FileCheck %s --check-prefix=ONE

// Two fetches of a tenth of a second, hidden behind a second of compute each. The link may be slower: the second load also passes
// the first use of the other, unless only one may wait.
// CHECK: graph.exp
// CHECK: graph.abs
// CHECK-NEXT: zero.alloc
// CHECK-NEXT: zero.fetch {{.*}}load = 1
// CHECK-NEXT: zero.view
// CHECK-NEXT: graph.neg
// CHECK-NEXT: graph.sqrt
// PLANNED: graph.neg
// PLANNED-NEXT: zero.alloc
// PLANNED-NEXT: zero.fetch {{.*}}load = 1
// PLANNED-NEXT: graph.sqrt
// ONE: zero.view
// ONE-NEXT: zero.alloc
// ONE-NEXT: zero.fetch {{.*}}load = 1
// ONE-NEXT: graph.neg
zero.bucket @bucket0 : f32 padded = 1024 members = [] {parameters_tier = #zero<tier host>}
zero.bucket @bucket1 : f32 padded = 1024 members = [] {parameters_tier = #zero<tier host>}
graph.program @micro phase = micro inputs = ["x"] {
^bb0(%x: tensor<1024xf32>):
  %p0 = zero.storage @bucket0 of parameters : !zero.buffer<1024 x f32, host>
  %p1 = zero.storage @bucket1 of parameters : !zero.buffer<1024 x f32, host>
  %0 = graph.exp %x {plan.seconds = 1.0} : (tensor<1024xf32>) -> tensor<1024xf32>
  %1 = graph.abs %x {plan.seconds = 1.0} : (tensor<1024xf32>) -> tensor<1024xf32>
  %b0 = zero.load {
    %filled = zero.alloc : !zero.buffer<1024 x f32, device>
    zero.fetch %p0 into %filled {load = 0, plan.queue = #plan<queue h2d>, plan.seconds = 0.1} : !zero.buffer<1024 x f32, host>, !zero.buffer<1024 x f32, device>
    zero.yield %filled : !zero.buffer<1024 x f32, device>
  } : !zero.buffer<1024 x f32, device>
  %v0 = zero.view %b0 offset = 0 : !zero.buffer<1024 x f32, device> -> tensor<1024xf32>
  %2 = graph.neg %v0 {plan.seconds = 1.0} : (tensor<1024xf32>) -> tensor<1024xf32>
  %3 = graph.sqrt %2 {plan.seconds = 1.0} : (tensor<1024xf32>) -> tensor<1024xf32>
  %b1 = zero.load {
    %filled = zero.alloc : !zero.buffer<1024 x f32, device>
    zero.fetch %p1 into %filled {load = 1, plan.queue = #plan<queue h2d>, plan.seconds = 0.1} : !zero.buffer<1024 x f32, host>, !zero.buffer<1024 x f32, device>
    zero.yield %filled : !zero.buffer<1024 x f32, device>
  } : !zero.buffer<1024 x f32, device>
  %v1 = zero.view %b1 offset = 0 : !zero.buffer<1024 x f32, device> -> tensor<1024xf32>
  %4 = graph.log %v1 {plan.seconds = 1.0} : (tensor<1024xf32>) -> tensor<1024xf32>
  graph.return
}
