// RUN: zero-opt %s --split-input-file --verify-diagnostics
// One case per labelled constraint; labels.test checks that none is missing. MLIR's verifier adds its own line to those that
// are found while inferring result types.

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

graph.program @micro phase = micro inputs = ["x"] {
^bb0(%x: tensor<2x3xf32>):
  // expected-error @below {{[reduce_c1] axis 0 after 1 in rank 2: axes must be sorted, unique and inside the rank}}
  // expected-error @below {{failed to infer returned types}}
  %0 = graph.reduce_sum %x {axes = array<i64: 1, 0>} : (tensor<2x3xf32>) -> tensor<f32>
  graph.return
}

// -----

graph.program @micro phase = micro inputs = ["x"] {
^bb0(%x: tensor<2x3xf32>):
  // expected-error @below {{[reduce_c1] axis -1 after -1 in rank 2}}
  // expected-error @below {{failed to infer returned types}}
  %0 = graph.reduce_max %x {axes = array<i64: -1>} : (tensor<2x3xf32>) -> tensor<2xf32>
  graph.return
}

// -----

graph.program @micro phase = micro inputs = ["a", "b"] {
^bb0(%a: tensor<2x3xf32>, %b: tensor<3xf32>):
  // expected-error @below {{[matmul_c1] ranks 2 and 1 are not both 2 or more}}
  // expected-error @below {{failed to infer returned types}}
  %0 = graph.matmul %a, %b : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2xf32>
  graph.return
}

// -----

graph.program @micro phase = micro inputs = ["a", "b"] {
^bb0(%a: tensor<2x3x5x6xf32>, %b: tensor<4x6x7xf32>):
  // expected-error @below {{[matmul_c2] leading dimensions 2x3 and 4 do not broadcast}}
  // expected-error @below {{failed to infer returned types}}
  %0 = graph.matmul %a, %b : (tensor<2x3x5x6xf32>, tensor<4x6x7xf32>) -> tensor<2x3x5x7xf32>
  graph.return
}

// -----

graph.program @micro phase = micro inputs = ["a", "b"] {
^bb0(%a: tensor<4x8xf32>, %b: tensor<8x16xf32>):
  // expected-error @below {{[matmul_c3] contracted dimensions 8 and 16 differ}}
  // expected-error @below {{failed to infer returned types}}
  %0 = graph.matmul %a, %b {trans_rhs} : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x8xf32>
  graph.return
}

// -----

graph.program @micro phase = micro inputs = ["a", "b", "c"] {
^bb0(%a: tensor<4x8xf32>, %b: tensor<8x16xf32>, %c: tensor<4xf32>):
  // expected-error @below {{[matmul_c4] bias has shape 4, not 16}}
  // expected-error @below {{failed to infer returned types}}
  %0 = graph.matmul %a, %b, %c : (tensor<4x8xf32>, tensor<8x16xf32>, tensor<4xf32>) -> tensor<4x16xf32>
  graph.return
}

// -----

graph.program @micro phase = micro inputs = ["g", "y"] {
^bb0(%g: tensor<3xf32>, %y: tensor<2x3xf32>):
  // expected-error @below {{[softmax_grad_c1] grad has type 'tensor<3xf32>', not 'tensor<2x3xf32>'}}
  // expected-error @below {{failed to infer returned types}}
  %0 = graph.softmax_grad %g, %y {axis = 1 : i64} : (tensor<3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  graph.return
}

// -----

graph.program @micro phase = micro inputs = ["x", "s"] {
^bb0(%x: tensor<4x8xf32>, %s: tensor<4xf32>):
  // expected-error @below {{[norm_c1] scale has shape 4, not 8}}
  // expected-error @below {{failed to infer returned types}}
  %0:2 = graph.rms_norm %x, %s {axis = 1 : i64, epsilon = 1.0e-6 : f64} : (tensor<4x8xf32>, tensor<4xf32>) -> (tensor<4x8xf32>, tensor<4xf32>)
  graph.return
}

// -----

graph.program @micro phase = micro inputs = ["x", "s", "b"] {
^bb0(%x: tensor<4x8xf32>, %s: tensor<8xf32>, %b: tensor<1xf32>):
  // expected-error @below {{[norm_c2] bias has type 'tensor<1xf32>', not 'tensor<8xf32>'}}
  // expected-error @below {{failed to infer returned types}}
  %0:3 = graph.layer_norm %x, %s, %b {axis = 1 : i64, epsilon = 1.0e-6 : f64} : (tensor<4x8xf32>, tensor<8xf32>, tensor<1xf32>) -> (tensor<4x8xf32>, tensor<4xf32>, tensor<4xf32>)
  graph.return
}

// -----

graph.program @micro phase = micro inputs = ["g", "x", "s", "r"] {
^bb0(%g: tensor<4xf32>, %x: tensor<4x8xf32>, %s: tensor<8xf32>, %r: tensor<4xf32>):
  // expected-error @below {{[norm_c3] grad has type 'tensor<4xf32>', not 'tensor<4x8xf32>'}}
  // expected-error @below {{failed to infer returned types}}
  %0:2 = graph.rms_norm_grad %g, %x, %s, %r {axis = 1 : i64} : (tensor<4xf32>, tensor<4x8xf32>, tensor<8xf32>, tensor<4xf32>) -> (tensor<4x8xf32>, tensor<8xf32>)
  graph.return
}

// -----

// Statistics of bf16 are f32.
graph.program @micro phase = micro inputs = ["x", "s", "r"] {
^bb0(%x: tensor<4x8xbf16>, %s: tensor<8xbf16>, %r: tensor<4xbf16>):
  // expected-error @below {{[norm_c4] mean has type 'tensor<4xbf16>', not 'tensor<4xf32>'}}
  // expected-error @below {{failed to infer returned types}}
  %0:3 = graph.layer_norm_grad %x, %x, %s, %r, %r {axis = 1 : i64} : (tensor<4x8xbf16>, tensor<4x8xbf16>, tensor<8xbf16>, tensor<4xbf16>, tensor<4xbf16>) -> (tensor<4x8xbf16>, tensor<8xbf16>, tensor<8xbf16>)
  graph.return
}

// -----

graph.program @micro phase = micro inputs = ["q", "k"] {
^bb0(%q: tensor<2x3x4xf32>, %k: tensor<1x2x3x4xf32>):
  // expected-error @below {{[attention_c1] ranks 3, 4, 4 are not all 4}}
  // expected-error @below {{failed to infer returned types}}
  %0:2 = graph.attention %q, %k, %k {scale = 0.5 : f64} : (tensor<2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>) -> (tensor<1x2x3x4xf32>, tensor<1x2x3xf32>)
  graph.return
}

// -----

graph.program @micro phase = micro inputs = ["q", "k"] {
^bb0(%q: tensor<1x2x3x4xf32>, %k: tensor<2x2x3x4xf32>):
  // expected-error @below {{[attention_c2] batches 1 and 2 differ}}
  // expected-error @below {{failed to infer returned types}}
  %0:2 = graph.attention %q, %k, %k {scale = 0.5 : f64} : (tensor<1x2x3x4xf32>, tensor<2x2x3x4xf32>, tensor<2x2x3x4xf32>) -> (tensor<1x2x3x4xf32>, tensor<1x2x3xf32>)
  graph.return
}

// -----

graph.program @micro phase = micro inputs = ["q", "k"] {
^bb0(%q: tensor<1x4x3x4xf32>, %k: tensor<1x3x3x4xf32>):
  // expected-error @below {{[attention_c3] 3 key heads do not divide 4 query heads}}
  // expected-error @below {{failed to infer returned types}}
  %0:2 = graph.attention %q, %k, %k {scale = 0.5 : f64} : (tensor<1x4x3x4xf32>, tensor<1x3x3x4xf32>, tensor<1x3x3x4xf32>) -> (tensor<1x4x3x4xf32>, tensor<1x4x3xf32>)
  graph.return
}

// -----

graph.program @micro phase = micro inputs = ["q", "k"] {
^bb0(%q: tensor<1x2x3x4xf32>, %k: tensor<1x2x3x5xf32>):
  // expected-error @below {{[attention_c4] head sizes 4 and 5 differ}}
  // expected-error @below {{failed to infer returned types}}
  %0:2 = graph.attention %q, %k, %k {scale = 0.5 : f64} : (tensor<1x2x3x4xf32>, tensor<1x2x3x5xf32>, tensor<1x2x3x5xf32>) -> (tensor<1x2x3x5xf32>, tensor<1x2x3xf32>)
  graph.return
}

// -----

graph.program @micro phase = micro inputs = ["q", "k", "v"] {
^bb0(%q: tensor<1x2x3x4xf32>, %k: tensor<1x2x3x4xf32>, %v: tensor<1x2x5x4xf32>):
  // expected-error @below {{[attention_c5] key 1x2x3x4 and value 1x2x5x4 differ in batch, heads or length}}
  // expected-error @below {{failed to infer returned types}}
  %0:2 = graph.attention %q, %k, %v {scale = 0.5 : f64} : (tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x5x4xf32>) -> (tensor<1x2x3x4xf32>, tensor<1x2x3xf32>)
  graph.return
}

// -----

graph.program @micro phase = micro inputs = ["q", "m"] {
^bb0(%q: tensor<1x2x3x4xf32>, %m: tensor<1x1x3x2xi1>):
  // expected-error @below {{[attention_c6] mask 1x1x3x2 does not broadcast to 1x2x3x3}}
  // expected-error @below {{failed to infer returned types}}
  %0:2 = graph.attention %q, %q, %q, %m {scale = 0.5 : f64} : (tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x1x3x2xi1>) -> (tensor<1x2x3x4xf32>, tensor<1x2x3xf32>)
  graph.return
}

// -----

graph.program @micro phase = micro inputs = ["q", "m"] {
^bb0(%q: tensor<1x2x3x4xf32>, %m: tensor<1x1x3x3xi64>):
  // expected-error @below {{[attention_c7] mask of 'i64' is neither bool nor float}}
  // expected-error @below {{failed to infer returned types}}
  %0:2 = graph.attention %q, %q, %q, %m {scale = 0.5 : f64} : (tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x1x3x3xi64>) -> (tensor<1x2x3x4xf32>, tensor<1x2x3xf32>)
  graph.return
}

// -----

graph.program @micro phase = micro inputs = ["q", "l"] {
^bb0(%q: tensor<1x2x3x4xf32>, %l: tensor<1x2x4xf32>):
  // expected-error @below {{[attention_c8] lse has type 'tensor<1x2x4xf32>', not 'tensor<1x2x3xf32>'}}
  // expected-error @below {{failed to infer returned types}}
  %0:3 = graph.attention_grad %q, %q, %q, %q, %q, %l {scale = 0.5 : f64} : (tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x4xf32>) -> (tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>)
  graph.return
}

// -----

graph.program @micro phase = micro inputs = ["x", "t"] {
^bb0(%x: tensor<2x4x8xf32>, %t: tensor<2xi64>):
  // expected-error @below {{[cross_entropy_c1] logits have rank 3, not 2}}
  // expected-error @below {{failed to infer returned types}}
  %0:2 = graph.cross_entropy %x, %t {ignore_index = -100 : i64} : (tensor<2x4x8xf32>, tensor<2xi64>) -> (tensor<f32>, tensor<2xf32>)
  graph.return
}

// -----

graph.program @micro phase = micro inputs = ["x", "t"] {
^bb0(%x: tensor<4x8xf32>, %t: tensor<5xi64>):
  // expected-error @below {{[cross_entropy_c2] labels has shape 5, not 4}}
  // expected-error @below {{failed to infer returned types}}
  %0:2 = graph.cross_entropy %x, %t {ignore_index = -100 : i64} : (tensor<4x8xf32>, tensor<5xi64>) -> (tensor<f32>, tensor<4xf32>)
  graph.return
}

// -----

graph.program @micro phase = micro inputs = ["g", "x", "t", "l"] {
^bb0(%g: tensor<1xf32>, %x: tensor<4x8xf32>, %t: tensor<4xi64>, %l: tensor<4xf32>):
  // expected-error @below {{[cross_entropy_c3] grad has type 'tensor<1xf32>', not 'tensor<f32>'}}
  // expected-error @below {{failed to infer returned types}}
  %0 = graph.cross_entropy_grad %g, %x, %t, %l {ignore_index = -100 : i64} : (tensor<1xf32>, tensor<4x8xf32>, tensor<4xi64>, tensor<4xf32>) -> tensor<4x8xf32>
  graph.return
}

// -----

graph.program @micro phase = micro inputs = ["g", "x", "t", "l"] {
^bb0(%g: tensor<f32>, %x: tensor<4x8xbf16>, %t: tensor<4xi64>, %l: tensor<4xbf16>):
  // expected-error @below {{[cross_entropy_c4] lse has type 'tensor<4xbf16>', not 'tensor<4xf32>'}}
  // expected-error @below {{failed to infer returned types}}
  %0 = graph.cross_entropy_grad %g, %x, %t, %l {ignore_index = -100 : i64} : (tensor<f32>, tensor<4x8xbf16>, tensor<4xi64>, tensor<4xbf16>) -> tensor<4x8xbf16>
  graph.return
}

// -----

graph.program @micro phase = micro inputs = ["x"] {
^bb0(%x: tensor<4xf32>):
  // expected-error @below {{[dropout_c1] ratio 1.000000 is outside [0, 1)}}
  // expected-error @below {{failed to infer returned types}}
  %0:2 = graph.dropout %x {ratio = 1.0 : f64, id = 3 : i64} : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xi1>)
  graph.return
}

// -----

graph.program @micro phase = micro inputs = ["g", "m"] {
^bb0(%g: tensor<4xf32>, %m: tensor<1xi1>):
  // expected-error @below {{[dropout_c2] mask has shape 1, not 4}}
  // expected-error @below {{failed to infer returned types}}
  %0 = graph.dropout_grad %g, %m {ratio = 0.5 : f64} : (tensor<4xf32>, tensor<1xi1>) -> tensor<4xf32>
  graph.return
}

// -----

// expected-error @below {{[parameter_c1] has both a source and a value}}
graph.parameter @p : tensor<2xf32> role = frozen {source = #graph.source<"m", 0, 8, f32>, value = dense<1.0> : tensor<2xf32>}

// -----

// expected-error @below {{[parameter_c2] source offset -8 or size 8 is negative}}
graph.parameter @p : tensor<2xf32> role = frozen {source = #graph.source<"m", -8, 8, f32>}

// -----

// expected-error @below {{[parameter_c3] source elements are 'index', neither integers nor floats}}
graph.parameter @p : tensor<2xf32> role = frozen {source = #graph.source<"m", 0, 8, index>}

// -----

// The type in the step may be narrower than that of the source.
// expected-error @below {{[parameter_c4] source has 4 bytes, 'tensor<2xbf16>' needs 8}}
graph.parameter @p : tensor<2xbf16> role = frozen {source = #graph.source<"m", 0, 4, f32>}

// -----

// expected-error @below {{[parameter_c5] value 'tensor<3xf32>' has another shape than 'tensor<2xf32>'}}
graph.parameter @p : tensor<2xf32> role = frozen {value = dense<1.0> : tensor<3xf32>}

// -----

// expected-error @below {{[parameter_c6] is trainable but has elements of 'i64'}}
graph.parameter @p : tensor<2xi64> role = trainable

// -----

// expected-error @below {{[program_c1] has 1 arguments but 0 input names}}
graph.program @micro phase = micro inputs = [] {
^bb0(%x: tensor<2xf32>):
  graph.return
}

// -----

// expected-error @below {{[program_c2] the update takes no inputs but has 1}}
graph.program @update phase = update inputs = ["x"] {
^bb0(%x: tensor<2xf32>):
  graph.return
}

// -----

// expected-error @below {{[program_c3] input 0 has type 'tensor<?xf32>', no tensor of static shape}}
graph.program @micro phase = micro inputs = ["x"] {
^bb0(%x: tensor<?xf32>):
  graph.return
}

// -----

graph.program @micro phase = micro inputs = [] {
  // expected-error @below {{[phase_c1] stands outside a program of phase 'update'}}
  %norm, %factor = graph.clip_factor : tensor<f32>, tensor<f32>
  graph.return
}

// -----

graph.program @update phase = update inputs = [] {
  %c = graph.constant dense<1.0> : tensor<2xf32>
  // expected-error @below {{[phase_c1] stands outside a program of phase 'micro'}}
  graph.output %c as "c" : tensor<2xf32>
  graph.return
}

// -----

graph.program @micro phase = micro inputs = ["x"] {
^bb0(%x: tensor<f32>):
  // expected-error @below {{[return_c1] is weighted, but does not begin with a scalar loss and its weight}}
  graph.return weighted %x : tensor<f32>
}

// -----

graph.program @micro phase = micro inputs = [] {
  // expected-error @below {{[symbol_c1] there is no graph.parameter 'p'}}
  %0 = graph.read @p : tensor<2xf32>
  graph.return
}

// -----

// expected-note @below {{the parameter is declared here}}
graph.parameter @p : tensor<2xf32> role = trainable
graph.program @micro phase = micro inputs = [] {
  // expected-error @below {{[symbol_c2] type 'tensor<3xf32>' is not that of parameter 'p', 'tensor<2xf32>'}}
  %0 = graph.read @p : tensor<3xf32>
  graph.return
}

// -----

// expected-note @below {{the parameter is declared here}}
graph.parameter @p : tensor<2xf32> role = trainable
graph.program @micro phase = micro inputs = ["x"] {
^bb0(%x: tensor<2xf32>):
  // expected-error @below {{[symbol_c3] parameter 'p' is trainable, not buffer}}
  graph.assign @p, %x : tensor<2xf32>
  graph.return
}

// -----

graph.program @micro phase = micro inputs = [] {
  // expected-error @below {{[constant_c1] value is no ranked tensor}}
  %0 = graph.constant dense<0> : vector<2xi64>
  graph.return
}

// -----

graph.program @micro phase = micro inputs = [] {
  // expected-error @below {{[constant_c2] value is not dense}}
  %0 = graph.constant sparse<[[0]], [1.0]> : tensor<2xf32>
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
  // expected-error @below {{[scatter_c1] there is no reduction 'sum'}}
  // expected-error @below {{failed to infer returned types}}
  %0 = graph.scatter_elements %d, %i, %u {axis = 1 : i64, reduction = "sum"} : (tensor<2x3xf32>, tensor<2x1xi64>, tensor<2x1xf32>) -> tensor<2x3xf32>
  graph.return
}

// -----

graph.program @micro phase = micro inputs = [] {
  %d = graph.constant dense<1.0> : tensor<2x3xf32>
  %i = graph.constant dense<0> : tensor<2x1xi64>
  // expected-error @below {{[scatter_c2] updates has shape 2x3, not 2x1}}
  // expected-error @below {{failed to infer returned types}}
  %0 = graph.scatter_elements %d, %i, %d {axis = 1 : i64, reduction = "add"} : (tensor<2x3xf32>, tensor<2x1xi64>, tensor<2x3xf32>) -> tensor<2x3xf32>
  graph.return
}

// -----

graph.program @micro phase = micro inputs = [] {
  %d = graph.constant dense<1.0> : tensor<2x3xf32>
  %i = graph.constant dense<0> : tensor<2x1xi64>
  %u = graph.constant dense<1.0> : tensor<2x1xf32>
  // expected-error @below {{[scatter_nd_c1] updates has shape 2x1, not 2x3}}
  // expected-error @below {{failed to infer returned types}}
  %0 = graph.scatter_nd %d, %i, %u {reduction = "none"} : (tensor<2x3xf32>, tensor<2x1xi64>, tensor<2x1xf32>) -> tensor<2x3xf32>
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

graph.program @micro phase = micro inputs = ["a", "b"] {
^bb0(%a: tensor<1x2x3xf32>, %b: tensor<3x4xf32>):
  // expected-error @below {{[matmul_part_c1] ranks 3 and 2 are not both 2}}
  // expected-error @below {{failed to infer returned types}}
  %0 = graph.matmul_part %a, %b {whole = 24 : i64} : (tensor<1x2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  graph.return
}

// -----

graph.program @micro phase = micro inputs = ["a", "b"] {
^bb0(%a: tensor<2x3xf32>, %b: tensor<3x4xf32>):
  // expected-error @below {{[matmul_part_c2] contracted dimensions 3 and 4 differ}}
  // expected-error @below {{failed to infer returned types}}
  %0 = graph.matmul_part %a, %b {trans_rhs, whole = 24 : i64} : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x3xf32>
  graph.return
}

// -----

graph.program @micro phase = micro inputs = ["a", "b", "c"] {
^bb0(%a: tensor<2x3xbf16>, %b: tensor<3x4xbf16>, %c: tensor<2x4xbf16>):
  // expected-error @below {{[matmul_part_c3] addend has type 'tensor<2x4xbf16>', not 'tensor<2x4xf32>'}}
  // expected-error @below {{failed to infer returned types}}
  %0 = graph.matmul_part %a, %b, %c {whole = 24 : i64, widens} : (tensor<2x3xbf16>, tensor<3x4xbf16>, tensor<2x4xbf16>) -> tensor<2x4xf32>
  graph.return
}

// -----

graph.program @micro phase = micro inputs = ["a", "b"] {
^bb0(%a: tensor<2x3xf32>, %b: tensor<3x4xf32>):
  // expected-error @below {{[matmul_part_c4] the whole product has 0 multiplications}}
  // expected-error @below {{failed to infer returned types}}
  %0 = graph.matmul_part %a, %b {whole = 0 : i64} : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  graph.return
}

// -----

// expected-error @below {{[parameter_c7] is no rows of 'tensor<4x8xf32>' from element 24 on: 'tensor<2x8xf32>'}}
graph.parameter @p : tensor<2x8xf32> role = frozen {part = #graph.part<"w", 24, tensor<4x8xf32>>}
