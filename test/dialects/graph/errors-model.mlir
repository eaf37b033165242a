// RUN: zero-opt %s --split-input-file --verify-diagnostics
// Constraints of what is cut over the model axis, and of what its ranks exchange.

graph.program @micro phase = micro inputs = ["x"] {
^bb0(%x: tensor<4x8xf32>):
  // expected-error @below {{[model_c1] 0 ranks are not 1 to 65536}}
  // expected-error @below {{failed to infer returned types}}
  %0 = graph.all_gather %x {dim = 1 : i64, ranks = 0 : i64} : (tensor<4x8xf32>) -> tensor<4x16xf32>
  graph.return
}

// -----

graph.program @micro phase = micro inputs = ["x"] {
^bb0(%x: tensor<4x8xf32>):
  // expected-error @below {{[model_c2] 3 ranks do not divide dimension 1 of 4x8}}
  // expected-error @below {{failed to infer returned types}}
  %0 = graph.all_slice %x {dim = 1 : i64, ranks = 3 : i64} : (tensor<4x8xf32>) -> tensor<4x4xf32>
  graph.return
}

// -----

graph.program @micro phase = micro inputs = [] {
  // expected-error @below {{[rank_offset_c1] type 'tensor<2xi64>' is no scalar i64 or i32}}
  // expected-error @below {{failed to infer returned types}}
  %0 = graph.rank_offset {type = tensor<2xi64>, stride = 4 : i64} : () -> tensor<2xi64>
  graph.return
}

// -----

module attributes {graph.model_ranks = 2 : i64} {
// expected-error @below {{[parameter_c8] 'tensor<8x4xf32>' is no part of one of 2 ranks of 'tensor<8x6xf32>', dimension 1 in 1 groups}}
graph.parameter @w : tensor<8x4xf32> role = trainable {cut = #graph.cut<1, 1, tensor<8x6xf32>>}
}

// -----

module attributes {graph.model_ranks = 2 : i64} {
// A group that the ranks do not divide is the only one.
// expected-error @below {{[parameter_c8]}}
graph.parameter @w : tensor<8x4xf32> role = trainable {cut = #graph.cut<1, 2, tensor<8x6xf32>>}
}

// -----

// expected-error @below {{[parameter_c9] is cut, but the module says of no model axis}}
graph.parameter @w : tensor<8x4xf32> role = trainable {cut = #graph.cut<1, 1, tensor<8x8xf32>>}

// -----

// What a file holds is the whole.
module attributes {graph.model_ranks = 2 : i64} {
graph.parameter @even : tensor<8x6xf32> role = trainable {cut = #graph.cut<1, 3, tensor<8x12xf32>>, source = #graph.source<"m.onnx", 0, 384, f32>}
graph.parameter @ragged : tensor<66x4xf32> role = trainable {cut = #graph.cut<0, 1, tensor<131x4xf32>>}
}

// -----

// A tile is rows of a rank's part; of the whole it says where that part is.
module attributes {graph.model_ranks = 2 : i64} {
graph.parameter @"w[0:3]" : tensor<3x6xf32> role = trainable {part = #graph.part<"w", 0, tensor<8x6xf32>>, cut = #graph.cut<1, 3, tensor<8x12xf32>>, source = #graph.source<"m.onnx", 0, 384, f32>}
// expected-error @below {{[parameter_c7] is no rows of 'tensor<8x6xf32>' from element 18 on: 'tensor<6x6xf32>'}}
graph.parameter @"w[3:9]" : tensor<6x6xf32> role = trainable {part = #graph.part<"w", 18, tensor<8x6xf32>>, cut = #graph.cut<1, 3, tensor<8x12xf32>>}
}

// -----

module attributes {graph.model_ranks = 2 : i64} {
// expected-error @below {{[parameter_c8] 'tensor<8x5xf32>' is no part of one of 2 ranks of 'tensor<8x12xf32>', dimension 1 in 3 groups}}
graph.parameter @"w[0:3]" : tensor<3x5xf32> role = trainable {part = #graph.part<"w", 0, tensor<8x5xf32>>, cut = #graph.cut<1, 3, tensor<8x12xf32>>}
}

// -----

// expected-error @below {{[module_c1] 'graph.target' is neither "cpu" nor "cuda": "tpu"}}
module attributes {graph.target = "tpu"} {
}

// -----

// expected-error @below {{[module_c2] 'graph.model_ranks' is no i64 of at least 1: 0 : i64}}
module attributes {graph.model_ranks = 0 : i64} {
}
