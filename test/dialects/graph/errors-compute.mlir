// RUN: zero-opt %s --split-input-file --verify-diagnostics
// Constraints of reductions, products, norms, attention and losses. One case per labelled constraint; labels.test checks that none is missing. MLIR's verifier
// adds its own line to those that are found while inferring result types.

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

graph.program @micro phase = micro inputs = ["q"] {
^bb0(%q: tensor<1x2x3x4xf32>):
  // expected-error @below {{[attention_c10] dropout and dropout_id do not stand together}}
  // expected-error @below {{failed to infer returned types}}
  %0:2 = graph.attention %q, %q, %q {scale = 0.5 : f64, dropout = 0.1 : f64} : (tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>) -> (tensor<1x2x3x4xf32>, tensor<1x2x3xf32>)
  graph.return
}

// -----

graph.program @micro phase = micro inputs = ["q"] {
^bb0(%q: tensor<1x2x3x4xf32>):
  // expected-error @below {{[attention_c11] a window of 0 keys}}
  // expected-error @below {{failed to infer returned types}}
  %0:2 = graph.attention %q, %q, %q {scale = 0.5 : f64, window = 0 : i64} : (tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>) -> (tensor<1x2x3x4xf32>, tensor<1x2x3xf32>)
  graph.return
}

// -----

graph.program @micro phase = micro inputs = ["q"] {
^bb0(%q: tensor<1x2x3x4xf32>):
  // expected-error @below {{[attention_c12] a softcap of -1.000000}}
  // expected-error @below {{failed to infer returned types}}
  %0:2 = graph.attention %q, %q, %q {scale = 0.5 : f64, softcap = -1.0 : f64} : (tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>) -> (tensor<1x2x3x4xf32>, tensor<1x2x3xf32>)
  graph.return
}

// -----

graph.program @micro phase = micro inputs = ["q"] {
^bb0(%q: tensor<1x2x3x4xf32>):
  // expected-error @below {{[attention_c10] dropout 1.000000 is outside (0, 1)}}
  // expected-error @below {{failed to infer returned types}}
  %0:2 = graph.attention %q, %q, %q {scale = 0.5 : f64, dropout = 1.0 : f64, dropout_id = 0 : i64} : (tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>) -> (tensor<1x2x3x4xf32>, tensor<1x2x3xf32>)
  graph.return
}

// -----

graph.program @micro phase = micro inputs = ["q"] {
^bb0(%q: tensor<1x2x3x4xf32>):
  // expected-error @below {{[attention_c13] run and stride without dropout}}
  // expected-error @below {{failed to infer returned types}}
  %0:2 = graph.attention %q, %q, %q {scale = 0.5 : f64, run = 18 : i64, stride = 36 : i64} : (tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>) -> (tensor<1x2x3x4xf32>, tensor<1x2x3xf32>)
  graph.return
}

// -----

graph.program @micro phase = micro inputs = ["q"] {
^bb0(%q: tensor<1x2x3x4xf32>):
  // expected-error @below {{[attention_c13] a run of 8 is no whole heads of 9 scores}}
  // expected-error @below {{failed to infer returned types}}
  %0:2 = graph.attention %q, %q, %q {scale = 0.5 : f64, dropout = 0.1 : f64, dropout_id = 0 : i64, run = 8 : i64, stride = 16 : i64} : (tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>) -> (tensor<1x2x3x4xf32>, tensor<1x2x3xf32>)
  graph.return
}

// -----

graph.program @micro phase = micro inputs = ["q", "l", "m"] {
^bb0(%q: tensor<1x2x3x4xf32>, %l: tensor<1x2x3xf32>, %m: tensor<1x1x1x3xf32>):
  // expected-error @below {{[attention_c9] there is no float mask with an element for each query and key}}
  // expected-error @below {{failed to infer returned types}}
  %0:4 = graph.attention_grad %q, %q, %q, %q, %q, %l, %m {scale = 0.5 : f64, mask_grad} : (tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3xf32>, tensor<1x1x1x3xf32>) -> (tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x1x1x3xf32>)
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

graph.program @micro phase = micro inputs = ["x", "t", "w"] {
^bb0(%x: tensor<4x8xf32>, %t: tensor<4xi64>, %w: tensor<16x9xf32>):
  // expected-error @below {{[linear_cross_entropy_c1] input 4x8 and weight 16x9 are not matrices that multiply}}
  // expected-error @below {{failed to infer returned types}}
  %0 = graph.linear_cross_entropy %x, %t, %w {trans_weight, ignore_index = -100 : i64, chunk = 2 : i64} : (tensor<4x8xf32>, tensor<4xi64>, tensor<16x9xf32>) -> tensor<f32>
  graph.return
}

// -----

graph.program @micro phase = micro inputs = ["x", "t", "w"] {
^bb0(%x: tensor<4x8xf32>, %t: tensor<5xi64>, %w: tensor<8x16xf32>):
  // expected-error @below {{[linear_cross_entropy_c2] labels has shape 5, not 4}}
  // expected-error @below {{failed to infer returned types}}
  %0 = graph.linear_cross_entropy %x, %t, %w {ignore_index = -100 : i64, chunk = 2 : i64} : (tensor<4x8xf32>, tensor<5xi64>, tensor<8x16xf32>) -> tensor<f32>
  graph.return
}

// -----

graph.program @micro phase = micro inputs = ["x", "t", "w", "b"] {
^bb0(%x: tensor<4x8xf32>, %t: tensor<4xi64>, %w: tensor<8x16xf32>, %b: tensor<8xf32>):
  // expected-error @below {{[linear_cross_entropy_c3] bias has shape 8, not 16}}
  // expected-error @below {{failed to infer returned types}}
  %0 = graph.linear_cross_entropy %x, %t, %w, %b {ignore_index = -100 : i64, chunk = 2 : i64} : (tensor<4x8xf32>, tensor<4xi64>, tensor<8x16xf32>, tensor<8xf32>) -> tensor<f32>
  graph.return
}

// -----

graph.program @micro phase = micro inputs = ["x", "t", "w"] {
^bb0(%x: tensor<4x8xf32>, %t: tensor<4xi64>, %w: tensor<8x16xf32>):
  // expected-error @below {{[linear_cross_entropy_c4] there are 0 rows at a time}}
  // expected-error @below {{failed to infer returned types}}
  %0 = graph.linear_cross_entropy %x, %t, %w {ignore_index = -100 : i64, chunk = 0 : i64} : (tensor<4x8xf32>, tensor<4xi64>, tensor<8x16xf32>) -> tensor<f32>
  graph.return
}

// -----

graph.program @micro phase = micro inputs = ["g", "x", "t", "w"] {
^bb0(%g: tensor<bf16>, %x: tensor<4x8xbf16>, %t: tensor<4xi64>, %w: tensor<8x16xbf16>):
  // expected-error @below {{[linear_cross_entropy_c5] grad has type 'tensor<bf16>', not 'tensor<f32>'}}
  // expected-error @below {{failed to infer returned types}}
  %0:3 = graph.linear_cross_entropy_grad %g, %x, %t, %w {ignore_index = -100 : i64, chunk = 2 : i64} : (tensor<bf16>, tensor<4x8xbf16>, tensor<4xi64>, tensor<8x16xbf16>) -> (tensor<f32>, tensor<4x8xbf16>, tensor<8x16xbf16>)
  graph.return
}

// -----

graph.program @micro phase = micro inputs = ["x", "t", "w"] {
^bb0(%x: tensor<4x8xf32>, %t: tensor<4xi64>, %w: tensor<8x16xf32>):
  // expected-error @below {{[linear_cross_entropy_c6] cap -3.000000 is no number above 0}}
  // expected-error @below {{failed to infer returned types}}
  %0 = graph.linear_cross_entropy %x, %t, %w {ignore_index = -100 : i64, chunk = 2 : i64, cap = -3.0 : f64} : (tensor<4x8xf32>, tensor<4xi64>, tensor<8x16xf32>) -> tensor<f32>
  graph.return
}

// -----

graph.program @micro phase = micro inputs = ["x", "t", "v", "w"] {
^bb0(%x: tensor<4x8xf32>, %t: tensor<4xi64>, %v: tensor<8xf32>, %w: tensor<8x16xf32>):
  // expected-error @below {{[linear_log_softmax_c1] shares has type 'tensor<8xf32>', not 'tensor<16xf32>'}}
  // expected-error @below {{failed to infer returned types}}
  %0:2 = graph.linear_log_softmax %x, %t, %v, %w {chunk = 2 : i64} : (tensor<4x8xf32>, tensor<4xi64>, tensor<8xf32>, tensor<8x16xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  graph.return
}

// -----

graph.program @micro phase = micro inputs = ["g", "x", "t", "v", "w"] {
^bb0(%g: tensor<f32>, %x: tensor<4x8xf32>, %t: tensor<4xi64>, %v: tensor<16xf32>, %w: tensor<8x16xf32>):
  // expected-error @below {{[linear_log_softmax_c2] by_picked has type 'tensor<f32>', not 'tensor<4xf32>'}}
  // expected-error @below {{failed to infer returned types}}
  %0:4 = graph.linear_log_softmax_grad %g, %g, %x, %t, %v, %w {chunk = 2 : i64} : (tensor<f32>, tensor<f32>, tensor<4x8xf32>, tensor<4xi64>, tensor<16xf32>, tensor<8x16xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4x8xf32>, tensor<8x16xf32>)
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

graph.program @micro phase = micro inputs = ["x"] {
^bb0(%x: tensor<4xf32>):
  // expected-error @below {{[random_c2] `run` > 0 goes with `stride` >= run}}
  // expected-error @below {{failed to infer returned types}}
  %0:2 = graph.dropout %x {ratio = 0.5 : f64, id = 3 : i64, run = 2 : i64, stride = 1 : i64} : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xi1>)
  graph.return
}

// -----

graph.program @micro phase = micro inputs = [] {
  // expected-error @below {{[random_c2] `run` > 0 goes with `stride` >= run}}
  // expected-error @below {{failed to infer returned types}}
  %0 = graph.random {type = tensor<4xf32>, id = 3 : i64, stride = 4 : i64} : () -> tensor<4xf32>
  graph.return
}

// -----

graph.program @micro phase = micro inputs = [] {
  // expected-error @below {{[dropout_c1] ratio 1.000000 is outside [0, 1)}}
  // expected-error @below {{failed to infer returned types}}
  %0 = graph.dropout_mask {shape = array<i64: 4>, ratio = 1.0 : f64, id = 3 : i64} : () -> tensor<4xi1>
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

graph.program @micro phase = micro inputs = ["a", "b"] {
^bb0(%a: tensor<1x2x3xf32>, %b: tensor<3x4xf32>):
  // expected-error @below {{[linear_gelu_grad_c1] a factor of rank 3 is no matrix}}
  // expected-error @below {{failed to infer returned types}}
  %0 = graph.linear_gelu_grad %a, %b, %a : (tensor<1x2x3xf32>, tensor<3x4xf32>, tensor<1x2x3xf32>) -> tensor<1x2x4xf32>
  graph.return
}

// -----

graph.program @micro phase = micro inputs = ["a", "b", "c"] {
^bb0(%a: tensor<2x3xf32>, %b: tensor<3x4xf32>, %c: tensor<2x5xf32>):
  // expected-error @below {{[linear_gelu_grad_c2] input has type}}
  // expected-error @below {{failed to infer returned types}}
  %0 = graph.linear_gelu_grad %a, %b, %c : (tensor<2x3xf32>, tensor<3x4xf32>, tensor<2x5xf32>) -> tensor<2x4xf32>
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
