// RUN: zero-opt %s --split-input-file --verify-diagnostics
// Constraints of shapes, slices, gathers and scatters. One case per labelled constraint; labels.test checks that none is missing. MLIR's verifier
// adds its own line to those that are found while inferring result types.

graph.program @micro phase = micro inputs = ["x"] {
^bb0(%x: tensor<2x3xf32>):
  // expected-error @below {{[shape_c1] dimension -2 of -2x-3 is negative}}
  // expected-error @below {{failed to infer returned types}}
  %0 = graph.reshape %x {shape = array<i64: -2, -3>} : (tensor<2x3xf32>) -> tensor<6xf32>
  graph.return
}

// -----

graph.program @micro phase = micro inputs = ["x"] {
^bb0(%x: tensor<1x1xf32>):
  // expected-error @below {{[shape_c2] shape 16777216x16777216 has 2^48 elements or more}}
  // expected-error @below {{failed to infer returned types}}
  %0 = graph.expand %x {shape = array<i64: 16777216, 16777216>} : (tensor<1x1xf32>) -> tensor<16777216x16777216xf32>
  graph.return
}

// -----

graph.program @micro phase = micro inputs = ["x"] {
^bb0(%x: tensor<2xf32>):
  // expected-error @below {{[shape_c3] 'tensor<2xf32>' is no element type of a tensor}}
  // expected-error @below {{failed to infer returned types}}
  %0 = graph.cast %x {to = tensor<2xf32>} : (tensor<2xf32>) -> tensor<2xf32>
  graph.return
}

// -----

graph.program @micro phase = micro inputs = ["a", "b"] {
^bb0(%a: tensor<2xf32>, %b: tensor<2xbf16>):
  // expected-error @below {{[element_c1] element types 'f32' and 'bf16' differ}}
  // expected-error @below {{failed to infer returned types}}
  %0 = graph.add %a, %b : (tensor<2xf32>, tensor<2xbf16>) -> tensor<2xf32>
  graph.return
}

// -----

graph.program @micro phase = micro inputs = ["x"] {
^bb0(%x: tensor<2x3xf32>):
  // expected-error @below {{[axis_c1] axis 2 is outside rank 2}}
  // expected-error @below {{failed to infer returned types}}
  %0 = graph.softmax %x {axis = 2 : i64} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  graph.return
}

// -----

graph.program @micro phase = micro inputs = ["a", "b"] {
^bb0(%a: tensor<2x3xf32>, %b: tensor<2xf32>):
  // expected-error @below {{[broadcast_c1] shapes 2x3 and 2 do not broadcast}}
  // expected-error @below {{failed to infer returned types}}
  %0 = graph.mul %a, %b : (tensor<2x3xf32>, tensor<2xf32>) -> tensor<2x3xf32>
  graph.return
}

// -----

graph.program @micro phase = micro inputs = ["c", "a"] {
^bb0(%c: tensor<4xi1>, %a: tensor<3xf32>):
  // expected-error @below {{[broadcast_c1] shapes 4 and 3 do not broadcast}}
  // expected-error @below {{failed to infer returned types}}
  %0 = graph.select %c, %a, %a : (tensor<4xi1>, tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  graph.return
}

// -----

graph.program @micro phase = micro inputs = ["x"] {
^bb0(%x: tensor<2x3xf32>):
  // expected-error @below {{[reshape_c1] shapes 2x3 and 5 have different numbers of elements}}
  // expected-error @below {{failed to infer returned types}}
  %0 = graph.reshape %x {shape = array<i64: 5>} : (tensor<2x3xf32>) -> tensor<5xf32>
  graph.return
}

// -----

graph.program @micro phase = micro inputs = ["x"] {
^bb0(%x: tensor<2x3xf32>):
  // expected-error @below {{[transpose_c1] permutation 1x1 does not permute the dimensions of rank 2}}
  // expected-error @below {{failed to infer returned types}}
  %0 = graph.transpose %x {permutation = array<i64: 1, 1>} : (tensor<2x3xf32>) -> tensor<3x3xf32>
  graph.return
}

// -----

graph.program @micro phase = micro inputs = ["x"] {
^bb0(%x: tensor<2x3xf32>):
  // expected-error @below {{[expand_c1] shape 2x3 does not expand to 1x3}}
  // expected-error @below {{failed to infer returned types}}
  %0 = graph.expand %x {shape = array<i64: 1, 3>} : (tensor<2x3xf32>) -> tensor<1x3xf32>
  graph.return
}

// -----

graph.program @micro phase = micro inputs = ["x"] {
^bb0(%x: tensor<2x3xf32>):
  // expected-error @below {{[slice_c1] 1 entries for rank 2}}
  // expected-error @below {{failed to infer returned types}}
  %0 = graph.slice %x {offsets = array<i64: 0>, sizes = array<i64: 1>, strides = array<i64: 1>} : (tensor<2x3xf32>) -> tensor<1xf32>
  graph.return
}

// -----

graph.program @micro phase = micro inputs = ["x"] {
^bb0(%x: tensor<3xf32>):
  // expected-error @below {{[slice_c2] stride is 0}}
  // expected-error @below {{failed to infer returned types}}
  %0 = graph.slice %x {offsets = array<i64: 0>, sizes = array<i64: 1>, strides = array<i64: 0>} : (tensor<3xf32>) -> tensor<1xf32>
  graph.return
}

// -----

graph.program @micro phase = micro inputs = ["x"] {
^bb0(%x: tensor<3xf32>):
  // expected-error @below {{[slice_c3] size -1 is negative}}
  // expected-error @below {{failed to infer returned types}}
  %0 = graph.slice %x {offsets = array<i64: 0>, sizes = array<i64: -1>, strides = array<i64: 1>} : (tensor<3xf32>) -> tensor<1xf32>
  graph.return
}

// -----

graph.program @micro phase = micro inputs = ["x"] {
^bb0(%x: tensor<3xf32>):
  // expected-error @below {{[slice_c4] 3 elements from 1 by -1 leave a dimension of 3}}
  // expected-error @below {{failed to infer returned types}}
  %0 = graph.slice %x {offsets = array<i64: 1>, sizes = array<i64: 3>, strides = array<i64: -1>} : (tensor<3xf32>) -> tensor<3xf32>
  graph.return
}

// -----

graph.program @micro phase = micro inputs = ["g"] {
^bb0(%g: tensor<2xf32>):
  // expected-error @below {{[slice_c4] 2 elements from 2 by 1 leave a dimension of 3}}
  // expected-error @below {{failed to infer returned types}}
  %0 = graph.slice_grad %g {shape = array<i64: 3>, offsets = array<i64: 2>, strides = array<i64: 1>} : (tensor<2xf32>) -> tensor<3xf32>
  graph.return
}

// -----

graph.program @micro phase = micro inputs = [] {
  // expected-error @below {{[concat_c1] nothing to join}}
  // expected-error @below {{failed to infer returned types}}
  %0 = graph.concat {axis = 0 : i64} : () -> tensor<0xf32>
  graph.return
}

// -----

graph.program @micro phase = micro inputs = ["a", "b"] {
^bb0(%a: tensor<2xf32>, %b: tensor<2x1xf32>):
  // expected-error @below {{[concat_c2] ranks 1 and 2 differ}}
  // expected-error @below {{failed to infer returned types}}
  %0 = graph.concat %a, %b {axis = 0 : i64} : (tensor<2xf32>, tensor<2x1xf32>) -> tensor<4xf32>
  graph.return
}

// -----

graph.program @micro phase = micro inputs = ["a", "b"] {
^bb0(%a: tensor<2x3xf32>, %b: tensor<2x4xf32>):
  // expected-error @below {{[concat_c3] shapes 2x3 and 2x4 differ outside axis 0}}
  // expected-error @below {{failed to infer returned types}}
  %0 = graph.concat %a, %b {axis = 0 : i64} : (tensor<2x3xf32>, tensor<2x4xf32>) -> tensor<4x3xf32>
  graph.return
}

// -----

graph.program @micro phase = micro inputs = ["x"] {
^bb0(%x: tensor<2x3xf32>):
  // expected-error @below {{[pad_c1] 1 entries for rank 2}}
  // expected-error @below {{failed to infer returned types}}
  %0 = graph.pad %x {low = array<i64: 1>, high = array<i64: 1, 1>, value = 0.0 : f64} : (tensor<2x3xf32>) -> tensor<4x5xf32>
  graph.return
}

// -----

graph.program @micro phase = micro inputs = ["x"] {
^bb0(%x: tensor<3xf32>):
  // expected-error @below {{[pad_c2] dimension 3 padded by -2 and -2 is negative or too large}}
  // expected-error @below {{failed to infer returned types}}
  %0 = graph.pad %x {low = array<i64: -2>, high = array<i64: -2>, value = 0.0 : f64} : (tensor<3xf32>) -> tensor<1xf32>
  graph.return
}

// -----

graph.program @micro phase = micro inputs = ["x"] {
^bb0(%x: tensor<3xf32>):
  // expected-error @below {{[pad_c2] dimension 3 padded by -9223372036854775808 and 9223372036854775807 is negative or too large}}
  // expected-error @below {{failed to infer returned types}}
  %0 = graph.pad %x {low = array<i64: -9223372036854775808>, high = array<i64: 9223372036854775807>, value = 0.0 : f64} : (tensor<3xf32>) -> tensor<2xf32>
  graph.return
}

// -----

graph.program @micro phase = micro inputs = [] {
  // expected-error @below {{[loss_scale_c1] 'tensor<1xf32>' is no scalar}}
  // expected-error @below {{failed to infer returned types}}
  %s = graph.loss_scale {type = tensor<1xf32>} : () -> tensor<1xf32>
  graph.return
}

// -----

graph.program @micro phase = micro inputs = [] {
  // expected-error @below {{[iota_c1] 'tensor<2x2xi64>' is no tensor of rank 1}}
  // expected-error @below {{failed to infer returned types}}
  %0 = graph.iota {type = tensor<2x2xi64>, start = 0.0 : f64, delta = 1.0 : f64} : () -> tensor<2x2xi64>
  graph.return
}

// -----

graph.program @micro phase = micro inputs = ["g", "i"] {
^bb0(%g: tensor<4x7xf32>, %i: tensor<4xi64>):
  // expected-error @below {{[gather_grad_c1] grad has shape 4x7, not 4x8}}
  // expected-error @below {{failed to infer returned types}}
  %0 = graph.gather_grad %g, %i {shape = array<i64: 64, 8>, axis = 0 : i64} : (tensor<4x7xf32>, tensor<4xi64>) -> tensor<64x8xf32>
  graph.return
}

// -----

graph.program @micro phase = micro inputs = ["g", "i", "o"] {
^bb0(%g: tensor<4x8xf32>, %i: tensor<4xi64>, %o: tensor<8xf32>):
  // expected-error @below {{[gather_grad_c2]}}
  // expected-error @below {{failed to infer returned types}}
  %0 = graph.gather_grad %g, %i, %o {shape = array<i64: 64, 8>, axis = 0 : i64} : (tensor<4x8xf32>, tensor<4xi64>, tensor<8xf32>) -> tensor<64x8xf32>
  graph.return
}

// -----

graph.program @micro phase = micro inputs = ["x", "i"] {
^bb0(%x: tensor<4x8xf32>, %i: tensor<4xi64>):
  // expected-error @below {{[gather_elements_c1] ranks 2 and 1 differ}}
  // expected-error @below {{failed to infer returned types}}
  %0 = graph.gather_elements %x, %i {axis = 1 : i64} : (tensor<4x8xf32>, tensor<4xi64>) -> tensor<4xf32>
  graph.return
}

// -----

graph.program @micro phase = micro inputs = ["x", "i"] {
^bb0(%x: tensor<4x8xf32>, %i: tensor<5x2xi64>):
  // expected-error @below {{[gather_elements_c2] indices 5x2 exceed data 4x8 outside axis 1}}
  // expected-error @below {{failed to infer returned types}}
  %0 = graph.gather_elements %x, %i {axis = 1 : i64} : (tensor<4x8xf32>, tensor<5x2xi64>) -> tensor<5x2xf32>
  graph.return
}

// -----

graph.program @micro phase = micro inputs = ["g", "i"] {
^bb0(%g: tensor<4x3xf32>, %i: tensor<4x2xi64>):
  // expected-error @below {{[gather_elements_grad_c1] grad has shape 4x3, not 4x2}}
  // expected-error @below {{failed to infer returned types}}
  %0 = graph.gather_elements_grad %g, %i {shape = array<i64: 4, 8>, axis = 1 : i64} : (tensor<4x3xf32>, tensor<4x2xi64>) -> tensor<4x8xf32>
  graph.return
}

// -----

graph.program @micro phase = micro inputs = ["x", "i"] {
^bb0(%x: tensor<4x8xf32>, %i: tensor<2xi64>):
  // expected-error @below {{[gather_nd_c1] batch_dims 1 is not below ranks 2 and 1}}
  // expected-error @below {{failed to infer returned types}}
  %0 = graph.gather_nd %x, %i {batch_dims = 1 : i64} : (tensor<4x8xf32>, tensor<2xi64>) -> tensor<f32>
  graph.return
}

// -----

graph.program @micro phase = micro inputs = ["x", "i"] {
^bb0(%x: tensor<4x8xf32>, %i: tensor<3x1xi64>):
  // expected-error @below {{[gather_nd_c2] batch dimensions 4 and 3 differ}}
  // expected-error @below {{failed to infer returned types}}
  %0 = graph.gather_nd %x, %i {batch_dims = 1 : i64} : (tensor<4x8xf32>, tensor<3x1xi64>) -> tensor<3xf32>
  graph.return
}

// -----

graph.program @micro phase = micro inputs = ["x", "i"] {
^bb0(%x: tensor<4x8xf32>, %i: tensor<5x3xi64>):
  // expected-error @below {{[gather_nd_c3] tuples of 3 indices into 2 dimensions}}
  // expected-error @below {{failed to infer returned types}}
  %0 = graph.gather_nd %x, %i {batch_dims = 0 : i64} : (tensor<4x8xf32>, tensor<5x3xi64>) -> tensor<5xf32>
  graph.return
}

// -----

graph.program @micro phase = micro inputs = ["g", "i"] {
^bb0(%g: tensor<2xf32>, %i: tensor<3x2xi64>):
  // expected-error @below {{[gather_nd_grad_c1] grad has shape 2, not 3}}
  // expected-error @below {{failed to infer returned types}}
  %0 = graph.gather_nd_grad %g, %i {shape = array<i64: 4, 8>, batch_dims = 0 : i64} : (tensor<2xf32>, tensor<3x2xi64>) -> tensor<4x8xf32>
  graph.return
}

// -----

graph.program @micro phase = micro inputs = ["t"] {
^bb0(%t: tensor<4xi64>):
  // expected-error @below {{[label_index_c1] there are 0 classes}}
  // expected-error @below {{failed to infer returned types}}
  %0 = graph.label_index %t {classes = 0 : i64, ignore_index = -100 : i64} : (tensor<4xi64>) -> tensor<4xi64>
  graph.return
}

// -----

graph.program @micro phase = micro inputs = [] {
  %d = graph.constant dense<1.0> : tensor<2x3xf32>
  %i = graph.constant dense<0> : tensor<2x1xi64>
  %u = graph.constant dense<1.0> : tensor<2x1xf32>
  // expected-error @below {{expected one of none, add, mul, min, max}}
  // expected-error @below {{failed to parse Graph_ScatterReductionAttr parameter 'value'}}
  %0 = graph.scatter_elements %d, %i, %u {axis = 1 : i64, reduction = #graph<scatter_reduction sum>} : (tensor<2x3xf32>, tensor<2x1xi64>, tensor<2x1xf32>) -> tensor<2x3xf32>
  graph.return
}

// -----

graph.program @micro phase = micro inputs = [] {
  %d = graph.constant dense<1.0> : tensor<2x3xf32>
  %i = graph.constant dense<0> : tensor<2x1xi64>
  // expected-error @below {{[scatter_c1] updates has shape 2x3, not 2x1}}
  // expected-error @below {{failed to infer returned types}}
  %0 = graph.scatter_elements %d, %i, %d {axis = 1 : i64, reduction = #graph<scatter_reduction add>} : (tensor<2x3xf32>, tensor<2x1xi64>, tensor<2x3xf32>) -> tensor<2x3xf32>
  graph.return
}

// -----

graph.program @micro phase = micro inputs = [] {
  %d = graph.constant dense<1.0> : tensor<2x3xf32>
  %i = graph.constant dense<0> : tensor<2x1xi64>
  %u = graph.constant dense<1.0> : tensor<2x1xf32>
  // expected-error @below {{[scatter_nd_c1] updates has shape 2x1, not 2x3}}
  // expected-error @below {{failed to infer returned types}}
  %0 = graph.scatter_nd %d, %i, %u {reduction = #graph<scatter_reduction none>} : (tensor<2x3xf32>, tensor<2x1xi64>, tensor<2x1xf32>) -> tensor<2x3xf32>
  graph.return
}

// -----

graph.program @micro phase = micro inputs = [] {
  %d = graph.constant dense<1.0> : tensor<2x3xf32>
  // expected-error @below {{[top_k_c1] k is 4 of 3 elements}}
  // expected-error @below {{failed to infer returned types}}
  %0:2 = graph.top_k %d {k = 4 : i64, axis = 1 : i64} : (tensor<2x3xf32>) -> (tensor<2x4xf32>, tensor<2x4xi64>)
  graph.return
}

// -----

graph.program @micro phase = micro inputs = [] {
  %e = graph.constant dense<> : tensor<2x0xf32>
  // expected-error @below {{[arg_max_c1] axis 1 has no elements}}
  // expected-error @below {{failed to infer returned types}}
  %0 = graph.arg_max %e {axis = 1 : i64} : (tensor<2x0xf32>) -> tensor<2xi64>
  graph.return
}

// -----

graph.program @micro phase = micro inputs = [] {
  %d = graph.constant dense<1.0> : tensor<2x3xf32>
  // expected-error @below {{[bitcast_c1] elements of 'f32' and 'i64' differ in size}}
  // expected-error @below {{failed to infer returned types}}
  %0 = graph.bitcast %d {to = i64} : (tensor<2x3xf32>) -> tensor<2x3xi64>
  graph.return
}

// -----

graph.program @micro phase = micro inputs = [] {
  // expected-error @below {{[random_c1] 'tensor<4xi64>' is no tensor of floats}}
  // expected-error @below {{failed to infer returned types}}
  %0 = graph.random {type = tensor<4xi64>, id = 0 : i64} : () -> tensor<4xf32>
  graph.return
}

// -----

graph.program @micro phase = micro inputs = ["x"] {
^bb0(%x: tensor<2x3xf32>):
  // expected-error @below {{[fused_c1] shape 2x3 does not broadcast to 3}}
  %0 = graph.fused %x {program = array<i64: 1, 20, 0, 0, 0, 1>} : (tensor<2x3xf32>) -> tensor<3xf32>
  graph.return
}

// -----

graph.program @micro phase = micro inputs = ["x"] {
^bb0(%x: tensor<2x3xf32>):
  // expected-error @below {{[fused_c2] plan asks kernel 'fused' for (f32[2,3] -> f32[2,3]): it needs a sound program, of which a register that instruction 0 reads is 1, not in [0, 1)}}
  %0 = graph.fused %x {program = array<i64: 1, 20, 0, 1, 0, 1>} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  graph.return
}

// -----

graph.program @micro phase = micro inputs = ["x", "c"] {
^bb0(%x: tensor<2x4x3xf32>, %c: tensor<3xf32>):
  // expected-error @below {{[fused_into_c1] plan gives kernel 'batch_norm_grad' a program that it cannot have: it takes operands as they are}}
  %0:3 = graph.fused_into %x, %x, %c, %c, %c {into = "batch_norm_grad", program = array<i64: 1, 17, 0, 0, 0, 1>, epsilon = 1.0e-5 : f64, channels_last} : (tensor<2x4x3xf32>, tensor<2x4x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<2x4x3xf32>, tensor<3xf32>, tensor<3xf32>)
  graph.return
}

// -----

graph.program @micro phase = micro inputs = ["x", "c"] {
^bb0(%x: tensor<2x4x3xf32>, %c: tensor<3xf32>):
  // expected-error @below {{[fused_into_c1] plan gives kernel 'batch_norm_grad_sums' a program that it cannot have: a register that instruction 0 reads is 1}}
  %0:5 = graph.fused_into %x, %x, %c, %c, %c {into = "batch_norm_grad_sums", program = array<i64: 1, 17, 0, 1, 0, 1>, epsilon = 1.0e-5 : f64, channels_last} : (tensor<2x4x3xf32>, tensor<2x4x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>)
  graph.return
}

// -----

graph.program @micro phase = micro inputs = ["g", "x", "c"] {
^bb0(%g: tensor<2x1x3xf32>, %x: tensor<2x4x3xf32>, %c: tensor<3xf32>):
  // expected-error @below {{[fused_into_c2] plan asks kernel 'batch_norm_grad_sums'}}
  %0:5 = graph.fused_into %g, %x, %c, %c, %c {into = "batch_norm_grad_sums", program = array<i64: 1, 17, 0, 0, 0, 1>, epsilon = 1.0e-5 : f64, channels_last} : (tensor<2x1x3xf32>, tensor<2x4x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>)
  graph.return
}
