// RUN: zero-opt %s --prefetch="prefetch=0" | FileCheck %s --check-prefixes=CHECK,NONE
// RUN: zero-opt %s --prefetch="prefetch=4096" | FileCheck %s --check-prefixes=CHECK,ONE
// RUN: zero-opt %s --prefetch="prefetch=8192" | FileCheck %s --check-prefixes=CHECK,BOTH
// RUN: zero-opt %s --prefetch | FileCheck %s --check-prefixes=CHECK,BOTH

// Two gathers of 4096 bytes that take three seconds each; computing takes two seconds a step. The first is hidden behind two
// steps. The second may be as well, but within 4096 bytes it may not be there before the first buffer is in use.
zero.bucket @bucket0 : f32 padded = 1024 members = [] {parameters_sharded}
zero.bucket @bucket1 : f32 padded = 1024 members = [] {parameters_sharded}
// CHECK-LABEL: graph.program @micro
// CHECK: %[[P0:.*]] = zero.storage @bucket0
// CHECK: %[[P1:.*]] = zero.storage @bucket1
// NONE: graph.exp
// NONE-NEXT: graph.sqrt
// NONE-NEXT: graph.abs
// NONE-NEXT: zero.gather %[[P0]]
// NONE-NEXT: zero.view
// NONE-NEXT: graph.neg
// NONE-NEXT: zero.release
// NONE-NEXT: zero.gather %[[P1]]
// NONE-NEXT: zero.view
// NONE-NEXT: graph.log

// ONE: graph.exp
// ONE-NEXT: zero.gather %[[P0]]
// ONE-NEXT: graph.sqrt
// ONE-NEXT: graph.abs
// ONE-NEXT: zero.view
// ONE-NEXT: zero.gather %[[P1]]
// ONE-NEXT: graph.neg

// BOTH: graph.exp
// BOTH-NEXT: zero.gather %[[P0]]
// BOTH-NEXT: graph.sqrt
// BOTH-NEXT: zero.gather %[[P1]]
// BOTH-NEXT: graph.abs
// BOTH-NEXT: zero.view
// BOTH-NEXT: graph.neg
graph.program @micro phase = micro inputs = ["x"] {
^bb0(%x: tensor<1024xf32>):
  %p0 = zero.storage @bucket0 of parameters : !zero.buffer<512 x f32, device>
  %p1 = zero.storage @bucket1 of parameters : !zero.buffer<512 x f32, device>
  %0 = graph.exp %x {plan.seconds = 2.0} : (tensor<1024xf32>) -> tensor<1024xf32>
  %1 = graph.sqrt %x {plan.seconds = 2.0} : (tensor<1024xf32>) -> tensor<1024xf32>
  %2 = graph.abs %x {plan.seconds = 2.0} : (tensor<1024xf32>) -> tensor<1024xf32>
  %b0 = zero.load {
    %gathered = zero.gather %p0 {plan.seconds = 3.0} : !zero.buffer<512 x f32, device> -> !zero.buffer<1024 x f32, device>
    zero.yield %gathered : !zero.buffer<1024 x f32, device>
  } : !zero.buffer<1024 x f32, device>
  %v0 = zero.view %b0 offset = 0 : !zero.buffer<1024 x f32, device> -> tensor<1024xf32>
  %3 = graph.neg %v0 {plan.seconds = 2.0} : (tensor<1024xf32>) -> tensor<1024xf32>
  zero.release %b0 : !zero.buffer<1024 x f32, device>
  %b1 = zero.load {
    %gathered = zero.gather %p1 {plan.seconds = 3.0} : !zero.buffer<512 x f32, device> -> !zero.buffer<1024 x f32, device>
    zero.yield %gathered : !zero.buffer<1024 x f32, device>
  } : !zero.buffer<1024 x f32, device>
  %v1 = zero.view %b1 offset = 0 : !zero.buffer<1024 x f32, device> -> tensor<1024xf32>
  %4 = graph.log %v1 {plan.seconds = 2.0} : (tensor<1024xf32>) -> tensor<1024xf32>
  zero.release %b1 : !zero.buffer<1024 x f32, device>
  graph.return
}
