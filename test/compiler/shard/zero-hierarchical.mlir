// RUN: zero-opt %s --zero-hierarchical | FileCheck %s --check-prefixes=CHECK,PLAIN
// RUN: zero-opt %s --zero-quantize-weights --zero-hierarchical | FileCheck %s --check-prefixes=CHECK,QUANT
// RUN: zero-opt %s --zero-hierarchical-collectives --zero-hierarchical | FileCheck %s --check-prefixes=CHECK,HOPS

// Two nodes of two. Backward gathers inside the node: what forward's gather left there, as it came. A bucket that is gathered
// once stays as it is.
// CHECK-LABEL: graph.program @micro
zero.mesh axes = [#zero.axis<"node" = 2>, #zero.axis<"local" = 2>]
zero.bucket @bucket0 : f32 padded = 1024 members = [] {parameters_sharded}
zero.bucket @bucket1 : f32 padded = 1024 members = [] {parameters_sharded}
graph.program @micro phase = micro inputs = [] {
  // PLAIN: %[[L:.*]]:2 = zero.load
  // PLAIN-NEXT: %[[F:.*]] = zero.gather %{{.*}} : <256 x f32, device> -> <1024 x f32, device>
  // PLAIN-NEXT: %[[K:.*]] = zero.own_part %[[F]] {axes = ["local"]} : <1024 x f32, device> -> <512 x f32, device>
  // PLAIN-NEXT: zero.yield %[[F]], %[[K]]
  // PLAIN: zero.release %[[L]]#0
  // PLAIN: %[[L2:.*]] = zero.load
  // PLAIN-NEXT: %[[B:.*]] = zero.gather %[[L]]#1 {axes = ["local"]} : <512 x f32, device> -> <1024 x f32, device>
  // PLAIN-NEXT: zero.yield %[[B]]
  // PLAIN: zero.view %[[L2]]
  // PLAIN: zero.gather %{{.*}} : <256 x f32, device> -> <1024 x f32, device>

  // QUANT: %[[L:.*]]:2 = zero.load
  // QUANT: %[[F:.*]] = zero.gather %{{.*}} : <260 x ui8, device> -> <1040 x ui8, device>
  // QUANT-NEXT: %[[K:.*]] = zero.own_part %[[F]] {axes = ["local"]} : <1040 x ui8, device> -> <520 x ui8, device>
  // QUANT-NEXT: %[[D:.*]] = zero.dequantize %[[F]]
  // QUANT-NEXT: zero.yield %[[D]], %[[K]]
  // QUANT-NOT: zero.quantize
  // QUANT: %[[B:.*]] = zero.gather %[[L]]#1 {axes = ["local"]} : <520 x ui8, device> -> <1040 x ui8, device>
  // QUANT-NEXT: zero.dequantize %[[B]]

  // HOPS: %[[K:.*]] = zero.load
  // HOPS-NEXT: zero.gather %{{.*}} {axes = ["node"]} : <256 x f32, device> -> <512 x f32, device>
  // HOPS-NEXT: zero.yield
  // HOPS: zero.load
  // HOPS-NEXT: zero.gather %[[K]] {axes = ["local"]}
  // HOPS-NOT: axes = ["node"]
  // HOPS: zero.gather %[[K]] {axes = ["local"]}
  // HOPS: axes = ["node"]
  %s = zero.storage @bucket0 of parameters : !zero.buffer<256 x f32, device>
  %b = zero.load {
    %gathered = zero.gather %s : !zero.buffer<256 x f32, device> -> !zero.buffer<1024 x f32, device>
    zero.yield %gathered : !zero.buffer<1024 x f32, device>
  } : !zero.buffer<1024 x f32, device>
  %w = zero.view %b offset = 0 : !zero.buffer<1024 x f32, device> -> tensor<1024xf32>
  %y = graph.exp %w : (tensor<1024xf32>) -> tensor<1024xf32>
  zero.release %b : !zero.buffer<1024 x f32, device>
  %s2 = zero.storage @bucket0 of parameters : !zero.buffer<256 x f32, device>
  %b2 = zero.load {
    %gathered = zero.gather %s2 : !zero.buffer<256 x f32, device> -> !zero.buffer<1024 x f32, device>
    zero.yield %gathered : !zero.buffer<1024 x f32, device>
  } : !zero.buffer<1024 x f32, device>
  %w2 = zero.view %b2 offset = 0 : !zero.buffer<1024 x f32, device> -> tensor<1024xf32>
  %z = graph.mul %y, %w2 : (tensor<1024xf32>, tensor<1024xf32>) -> tensor<1024xf32>
  zero.release %b2 : !zero.buffer<1024 x f32, device>
  %s3 = zero.storage @bucket1 of parameters : !zero.buffer<256 x f32, device>
  %b3 = zero.load {
    %gathered = zero.gather %s3 : !zero.buffer<256 x f32, device> -> !zero.buffer<1024 x f32, device>
    zero.yield %gathered : !zero.buffer<1024 x f32, device>
  } : !zero.buffer<1024 x f32, device>
  %w3 = zero.view %b3 offset = 0 : !zero.buffer<1024 x f32, device> -> tensor<1024xf32>
  %u = graph.mul %z, %w3 : (tensor<1024xf32>, tensor<1024xf32>) -> tensor<1024xf32>
  zero.release %b3 : !zero.buffer<1024 x f32, device>
  graph.return
}
