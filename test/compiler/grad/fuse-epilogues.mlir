// RUN: zero-opt %s --split-input-file --fuse-epilogues="kernels-of=cuda" | FileCheck %s
// RUN: zero-opt %s --split-input-file --fuse-epilogues | FileCheck %s --check-prefix=NONE
// RUN: zero-opt %s --split-input-file --fuse-epilogues="kernels-of=cuda fuse=head" | FileCheck %s --check-prefix=NONE
// RUN: zero-opt %s --split-input-file --fuse-epilogues="kernels-of=cuda model-ranks=2" | FileCheck %s --check-prefix=NONE
// RUN: zero-opt %s --split-input-file --fuse-epilogues="kernels-of=cuda largest-whole=64" | FileCheck %s --check-prefix=NONE
// NONE-NOT: graph.linear_gelu_grad

// Where the product stood, in its shape; what reads the gradient reads it as before.
// CHECK-LABEL: graph.program @layer
graph.program @layer phase = micro inputs = ["g", "w", "u"] {
^bb0(%g: tensor<6x8xbf16>, %w: tensor<16x8xbf16>, %u: tensor<6x16xbf16>):
  // CHECK: %[[D:.*]] = graph.linear_gelu_grad %arg0, %arg1, %arg2 {trans_rhs} : (tensor<6x8xbf16>, tensor<16x8xbf16>, tensor<6x16xbf16>) -> tensor<6x16xbf16>
  // CHECK-NEXT: %[[N:.*]] = graph.neg
  // CHECK-NEXT: %[[E:.*]] = graph.reshape %[[D]] {shape = array<i64: 2, 3, 16>}
  // CHECK-NEXT: graph.return %[[N]], %[[E]]
  %v = graph.reshape %u {shape = array<i64: 2, 3, 16>} : (tensor<6x16xbf16>) -> tensor<2x3x16xbf16>
  %p = graph.matmul %g, %w {trans_rhs} : (tensor<6x8xbf16>, tensor<16x8xbf16>) -> tensor<6x16xbf16>
  %n = graph.neg %g : (tensor<6x8xbf16>) -> tensor<6x8xbf16>
  %q = graph.reshape %p {shape = array<i64: 2, 3, 16>} : (tensor<6x16xbf16>) -> tensor<2x3x16xbf16>
  %d = graph.gelu_grad %q, %v {tanh} : (tensor<2x3x16xbf16>, tensor<2x3x16xbf16>) -> tensor<2x3x16xbf16>
  graph.return %n, %d : tensor<6x8xbf16>, tensor<2x3x16xbf16>
}

// -----

// Behind what is made again after the product.
// CHECK-LABEL: graph.program @recomputed
graph.program @recomputed phase = micro inputs = ["g", "w", "x"] {
^bb0(%g: tensor<6x8xbf16>, %w: tensor<8x16xbf16>, %x: tensor<6x16xbf16>):
  // CHECK: %[[U:.*]] = graph.neg
  // CHECK-NEXT: %[[D:.*]] = graph.linear_gelu_grad %arg0, %arg1, %[[U]] :
  // CHECK-NEXT: graph.return %[[D]]
  %p = graph.matmul %g, %w : (tensor<6x8xbf16>, tensor<8x16xbf16>) -> tensor<6x16xbf16>
  %u = graph.neg %x : (tensor<6x16xbf16>) -> tensor<6x16xbf16>
  %d = graph.gelu_grad %p, %u {tanh} : (tensor<6x16xbf16>, tensor<6x16xbf16>) -> tensor<6x16xbf16>
  graph.return %d : tensor<6x16xbf16>
}

// -----

// What stays: the exact gelu, fp32, products of many matrices and with a bias, one that somebody else reads.
// CHECK-LABEL: graph.program @others
// CHECK-NOT: graph.linear_gelu_grad
graph.program @others phase = micro inputs = ["g", "w", "u", "f", "v", "k", "b"] {
^bb0(%g: tensor<6x8xbf16>, %w: tensor<8x16xbf16>, %u: tensor<6x16xbf16>, %f: tensor<6x8xf32>, %v: tensor<8x16xf32>, %k: tensor<1x6x8xbf16>, %b: tensor<16xbf16>):
  %0 = graph.matmul %g, %w : (tensor<6x8xbf16>, tensor<8x16xbf16>) -> tensor<6x16xbf16>
  %1 = graph.gelu_grad %0, %u : (tensor<6x16xbf16>, tensor<6x16xbf16>) -> tensor<6x16xbf16>
  %2 = graph.matmul %f, %v : (tensor<6x8xf32>, tensor<8x16xf32>) -> tensor<6x16xf32>
  %3 = graph.gelu_grad %2, %2 {tanh} : (tensor<6x16xf32>, tensor<6x16xf32>) -> tensor<6x16xf32>
  %4 = graph.matmul %k, %w : (tensor<1x6x8xbf16>, tensor<8x16xbf16>) -> tensor<1x6x16xbf16>
  %5 = graph.reshape %4 {shape = array<i64: 6, 16>} : (tensor<1x6x16xbf16>) -> tensor<6x16xbf16>
  %6 = graph.gelu_grad %5, %u {tanh} : (tensor<6x16xbf16>, tensor<6x16xbf16>) -> tensor<6x16xbf16>
  %7 = graph.matmul %g, %w, %b : (tensor<6x8xbf16>, tensor<8x16xbf16>, tensor<16xbf16>) -> tensor<6x16xbf16>
  %8 = graph.gelu_grad %7, %u {tanh} : (tensor<6x16xbf16>, tensor<6x16xbf16>) -> tensor<6x16xbf16>
  %9 = graph.matmul %g, %w : (tensor<6x8xbf16>, tensor<8x16xbf16>) -> tensor<6x16xbf16>
  %10 = graph.gelu_grad %9, %u {tanh} : (tensor<6x16xbf16>, tensor<6x16xbf16>) -> tensor<6x16xbf16>
  graph.return %1, %3, %6, %8, %9, %10 : tensor<6x16xbf16>, tensor<6x16xf32>, tensor<6x16xbf16>, tensor<6x16xbf16>, tensor<6x16xbf16>, tensor<6x16xbf16>
}
