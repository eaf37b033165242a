// RUN: zero-opt %s --zero-tile-linear="tile-linear=256 world-size=2 tensor-parallel=2" | FileCheck %s

// A tile is rows of what a rank has; source and cut are those of the whole, of which every rank reads its own elements.
module attributes {graph.model_ranks = 2 : i64} {
// CHECK: graph.parameter @"columns[0:6]" : tensor<6x8xf32> role = trainable {cut = #graph.cut<1, 1, tensor<12x16xf32>>, part = #graph.part<"columns", 0, tensor<12x8xf32>>, source = #graph.source<"m.onnx", 100, 768, f32>}
// CHECK: graph.parameter @"columns[6:12]" : tensor<6x8xf32> role = trainable {cut = #graph.cut<1, 1, tensor<12x16xf32>>, part = #graph.part<"columns", 48, tensor<12x8xf32>>, source = #graph.source<"m.onnx", 100, 768, f32>}
graph.parameter @columns : tensor<12x8xf32> role = trainable {cut = #graph.cut<1, 1, tensor<12x16xf32>>, source = #graph.source<"m.onnx", 100, 768, f32>}
// CHECK: graph.parameter @"rows[0:6]" : tensor<6x8xf32> role = frozen {cut = #graph.cut<0, 1, tensor<24x8xf32>>, part = #graph.part<"rows", 0, tensor<12x8xf32>>, value = dense<1.000000e+00> : tensor<24x8xf32>}
graph.parameter @rows : tensor<12x8xf32> role = frozen {cut = #graph.cut<0, 1, tensor<24x8xf32>>, value = dense<1.0> : tensor<24x8xf32>}

// CHECK-LABEL: graph.program @micro
graph.program @micro phase = micro inputs = ["x", "t"] {
^bb0(%x: tensor<4x12xf32>, %t: tensor<4x8xf32>):
  // In-split: the sum over the ranks is taken of the sum over the tiles.
  // CHECK: %[[P0:.*]] = graph.matmul_part
  // CHECK: %[[P1:.*]] = graph.matmul_part %{{.*}}, %{{.*}}, %[[P0]]
  // CHECK: graph.all_reduce %[[P1]]
  %w = graph.read @rows : tensor<12x8xf32>
  %y = graph.matmul %x, %w : (tensor<4x12xf32>, tensor<12x8xf32>) -> tensor<4x8xf32>
  %s = graph.all_reduce %y : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %c = graph.read @columns : tensor<12x8xf32>
  %g = graph.matmul %x, %t {trans_lhs} : (tensor<4x12xf32>, tensor<4x8xf32>) -> tensor<12x8xf32>
  %z = graph.matmul %x, %c : (tensor<4x12xf32>, tensor<12x8xf32>) -> tensor<4x8xf32>
  // CHECK: graph.accumulate_grad @"columns[0:6]"
  // CHECK: graph.accumulate_grad @"columns[6:12]"
  graph.accumulate_grad @columns, %g : tensor<12x8xf32>
  graph.return
}
}
