// RUN: zero-opt %s --checkpoint-activations=checkpoint-activations=selective | FileCheck %s --check-prefix=CHEAP
// RUN: zero-opt %s --checkpoint-activations="checkpoint-activations=selective save=1" | FileCheck %s --check-prefix=CHEAP
// RUN: zero-opt %s --checkpoint-activations="checkpoint-activations=selective save=0" | FileCheck %s --check-prefix=NOTHING
// RUN: zero-opt %s --checkpoint-activations="checkpoint-activations=selective save=100000000" | FileCheck %s --check-prefix=DEAR

// Most bytes live at the expansion. The backward reads a product, which costs 2048 operations per byte, its exponential,
// and what was computed from a buffer that the forward changes later.
module {
  graph.parameter @w : tensor<4096x4096xf32> role = frozen
  graph.parameter @v : tensor<64x4096xf32> role = trainable
  graph.parameter @mean : tensor<64x4096xf32> role = buffer
  graph.program @micro phase = micro inputs = ["x"] {
  ^bb0(%x: tensor<64x4096xf32>):
    %w = graph.read @w : tensor<4096x4096xf32>
    %m = graph.read @mean : tensor<64x4096xf32>
    // CHEAP: %[[P:.*]] = graph.matmul
    // CHEAP: %[[E:.*]] = graph.exp %[[P]]
    %p = graph.matmul %x, %w : (tensor<64x4096xf32>, tensor<4096x4096xf32>) -> tensor<64x4096xf32>
    %e = graph.exp %p : (tensor<64x4096xf32>) -> tensor<64x4096xf32>
    %s = graph.sin %e : (tensor<64x4096xf32>) -> tensor<64x4096xf32>
    // DEAR: %[[D:.*]] = graph.neg
    %d = graph.neg %m : (tensor<64x4096xf32>) -> tensor<64x4096xf32>
    %new = graph.exp %d : (tensor<64x4096xf32>) -> tensor<64x4096xf32>
    graph.assign @mean, %new : tensor<64x4096xf32>
    %r = graph.reshape %s {shape = array<i64: 1, 64, 4096>} : (tensor<64x4096xf32>) -> tensor<1x64x4096xf32>
    %t = graph.expand %r {shape = array<i64: 4, 64, 4096>} : (tensor<1x64x4096xf32>) -> tensor<4x64x4096xf32>
    %loss = graph.reduce_sum %t {axes = array<i64: 0, 1, 2>} : (tensor<4x64x4096xf32>) -> tensor<f32>
    graph.backward

    // What is cheap is made again just before its use, from the product, which stays.
    // CHEAP: graph.backward
    // CHEAP-NEXT: %[[AGAIN:.*]] = graph.exp %[[P]]
    // CHEAP-NEXT: graph.mul %[[AGAIN]], %[[P]]
    // CHEAP-NOT: graph.exp

    // NOTHING: graph.backward
    // NOTHING-NEXT: graph.mul

    // With a larger goal the product is made again too; what the forward has changed since is not.
    // DEAR: graph.backward
    // DEAR: %[[P:.*]] = graph.matmul
    // DEAR-NEXT: %[[E:.*]] = graph.exp %[[P]]
    // DEAR-NEXT: %[[A:.*]] = graph.mul %[[E]], %[[P]]
    // DEAR-NEXT: graph.mul %[[A]], %[[D]]
    %a = graph.mul %e, %p : (tensor<64x4096xf32>, tensor<64x4096xf32>) -> tensor<64x4096xf32>
    %g = graph.mul %a, %d : (tensor<64x4096xf32>, tensor<64x4096xf32>) -> tensor<64x4096xf32>
    graph.accumulate_grad @v, %g : tensor<64x4096xf32>
    graph.return %loss : tensor<f32>
  }
}
