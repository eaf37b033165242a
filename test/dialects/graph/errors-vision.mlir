// RUN: zero-opt %s --split-input-file --verify-diagnostics
// Constraints of convolutions, pools, batch and group norm; see errors-tensor.mlir.

graph.program @micro phase = micro inputs = ["x", "w"] {
^bb0(%x: tensor<2x3xf32>, %w: tensor<4x3x3xf32>):
  // expected-error @below {{[conv_c1] ranks 2 and 3 of input and weight are not one of at least 3}}
  // expected-error @below {{failed to infer returned types}}
  %0 = graph.conv %x, %w {strides = array<i64: 1>, dilations = array<i64: 1>, low = array<i64: 1>, high = array<i64: 1>, groups = 1 : i64} : (tensor<2x3xf32>, tensor<4x3x3xf32>) -> tensor<2x4xf32>
  graph.return
}

// -----

graph.program @micro phase = micro inputs = ["x", "w"] {
^bb0(%x: tensor<2x3x5xf32>, %w: tensor<4x3x3xf32>):
  // expected-error @below {{[conv_c2] 2 groups do not divide 3 and 4 channels}}
  // expected-error @below {{failed to infer returned types}}
  %0 = graph.conv %x, %w {strides = array<i64: 1>, dilations = array<i64: 1>, low = array<i64: 1>, high = array<i64: 1>, groups = 2 : i64} : (tensor<2x3x5xf32>, tensor<4x3x3xf32>) -> tensor<2x4x5xf32>
  graph.return
}

// -----

graph.program @micro phase = micro inputs = ["x", "w"] {
^bb0(%x: tensor<2x3x5xf32>, %w: tensor<4x2x3xf32>):
  // expected-error @below {{[conv_c3] the weight has 2 channels, not 3}}
  // expected-error @below {{failed to infer returned types}}
  %0 = graph.conv %x, %w {strides = array<i64: 1>, dilations = array<i64: 1>, low = array<i64: 1>, high = array<i64: 1>, groups = 1 : i64} : (tensor<2x3x5xf32>, tensor<4x2x3xf32>) -> tensor<2x4x5xf32>
  graph.return
}

// -----

graph.program @micro phase = micro inputs = ["x", "w", "b"] {
^bb0(%x: tensor<2x3x5xf32>, %w: tensor<4x3x3xf32>, %b: tensor<3xf32>):
  // expected-error @below {{[conv_c4] bias has shape 3, not 4}}
  // expected-error @below {{failed to infer returned types}}
  %0 = graph.conv %x, %w, %b {strides = array<i64: 1>, dilations = array<i64: 1>, low = array<i64: 1>, high = array<i64: 1>, groups = 1 : i64} : (tensor<2x3x5xf32>, tensor<4x3x3xf32>, tensor<3xf32>) -> tensor<2x4x5xf32>
  graph.return
}

// -----

graph.program @micro phase = micro inputs = ["x", "w"] {
^bb0(%x: tensor<2x3x5xf32>, %w: tensor<4x3x3xf32>):
  // expected-error @below {{[conv_c5] a kernel over 9 elements does not fit into 7}}
  // expected-error @below {{failed to infer returned types}}
  %0 = graph.conv %x, %w {strides = array<i64: 1>, dilations = array<i64: 4>, low = array<i64: 1>, high = array<i64: 1>, groups = 1 : i64} : (tensor<2x3x5xf32>, tensor<4x3x3xf32>) -> tensor<2x4x5xf32>
  graph.return
}

// -----

graph.program @micro phase = micro inputs = ["x", "w"] {
^bb0(%x: tensor<2x3x5xf32>, %w: tensor<4x3x3xf32>):
  // expected-error @below {{[window_c1] 2 entries for 1 spatial dimensions}}
  // expected-error @below {{failed to infer returned types}}
  %0 = graph.conv %x, %w {strides = array<i64: 1, 1>, dilations = array<i64: 1>, low = array<i64: 1>, high = array<i64: 1>, groups = 1 : i64} : (tensor<2x3x5xf32>, tensor<4x3x3xf32>) -> tensor<2x4x5xf32>
  graph.return
}

// -----

graph.program @micro phase = micro inputs = ["x", "w"] {
^bb0(%x: tensor<2x3x5xf32>, %w: tensor<4x3x3xf32>):
  // expected-error @below {{[window_c2] kernel, stride or dilation 0 is outside [1, 2^31)}}
  // expected-error @below {{failed to infer returned types}}
  %0 = graph.conv %x, %w {strides = array<i64: 0>, dilations = array<i64: 1>, low = array<i64: 1>, high = array<i64: 1>, groups = 1 : i64} : (tensor<2x3x5xf32>, tensor<4x3x3xf32>) -> tensor<2x4x5xf32>
  graph.return
}

// -----

graph.program @micro phase = micro inputs = ["x", "w"] {
^bb0(%x: tensor<2x3x5xf32>, %w: tensor<4x3x3xf32>):
  // expected-error @below {{[window_c2] padding 2147483648 is not below 2^31}}
  // expected-error @below {{failed to infer returned types}}
  %0 = graph.conv %x, %w {strides = array<i64: 1>, dilations = array<i64: 1>, low = array<i64: 1>, high = array<i64: 2147483648>, groups = 1 : i64} : (tensor<2x3x5xf32>, tensor<4x3x3xf32>) -> tensor<2x4x5xf32>
  graph.return
}

// -----

graph.program @micro phase = micro inputs = ["x", "w"] {
^bb0(%x: tensor<2x4x5xf32>, %w: tensor<4x3x3xf32>):
  // expected-error @below {{[conv_transpose_c1] a conv of 2x3x9 has shape 2x4x9, not 2x4x5}}
  // expected-error @below {{failed to infer returned types}}
  %0 = graph.conv_transpose %x, %w {strides = array<i64: 1>, dilations = array<i64: 1>, low = array<i64: 1>, high = array<i64: 1>, groups = 1 : i64, sizes = array<i64: 9>} : (tensor<2x4x5xf32>, tensor<4x3x3xf32>) -> tensor<2x3x9xf32>
  graph.return
}

// -----

graph.program @micro phase = micro inputs = ["x", "g"] {
^bb0(%x: tensor<2x3x5xf32>, %g: tensor<2x4x6xf32>):
  // expected-error @below {{[conv_weight_grad_c1] grad has shape 2x4x6, not 2x4x5}}
  // expected-error @below {{failed to infer returned types}}
  %0 = graph.conv_weight_grad %x, %g {strides = array<i64: 1>, dilations = array<i64: 1>, low = array<i64: 1>, high = array<i64: 1>, groups = 1 : i64, kernel = array<i64: 3>} : (tensor<2x3x5xf32>, tensor<2x4x6xf32>) -> tensor<4x3x3xf32>
  graph.return
}

// -----

graph.program @micro phase = micro inputs = ["x"] {
^bb0(%x: tensor<2x3xf32>):
  // expected-error @below {{[pool_c1] input has rank 2, at least 3 are needed}}
  // expected-error @below {{failed to infer returned types}}
  %0 = graph.sum_pool %x {kernel = array<i64: 3>, strides = array<i64: 1>, dilations = array<i64: 1>, low = array<i64: 1>, sizes = array<i64: 5>} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  graph.return
}

// -----

graph.program @micro phase = micro inputs = ["x"] {
^bb0(%x: tensor<1x1x65536x65536xf32>):
  // expected-error @below {{[pool_c2] a plane of 1x1x65536x65536 has 2^31 elements or more}}
  // expected-error @below {{failed to infer returned types}}
  %0 = graph.sum_pool %x {kernel = array<i64: 1, 1>, strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, low = array<i64: 0, 0>, sizes = array<i64: 1, 1>} : (tensor<1x1x65536x65536xf32>) -> tensor<1x1x1x1xf32>
  graph.return
}

// -----

graph.program @micro phase = micro inputs = ["x"] {
^bb0(%x: tensor<2x3x5xf32>):
  // expected-error @below {{[window_c2] -1 windows are not in [0, 2^31)}}
  // expected-error @below {{failed to infer returned types}}
  %0 = graph.sum_pool %x {kernel = array<i64: 3>, strides = array<i64: 1>, dilations = array<i64: 1>, low = array<i64: 1>, sizes = array<i64: -1>} : (tensor<2x3x5xf32>) -> tensor<2x3x1xf32>
  graph.return
}

// -----

graph.program @micro phase = micro inputs = ["g"] {
^bb0(%g: tensor<2x4x5xf32>):
  // expected-error @below {{[pool_grad_c1] a pool of 2x3x5 does not have shape 2x4x5}}
  // expected-error @below {{failed to infer returned types}}
  %0 = graph.sum_pool_grad %g {kernel = array<i64: 3>, strides = array<i64: 1>, dilations = array<i64: 1>, low = array<i64: 1>, shape = array<i64: 2, 3, 5>} : (tensor<2x4x5xf32>) -> tensor<2x3x5xf32>
  graph.return
}

// -----

graph.program @micro phase = micro inputs = ["g", "i"] {
^bb0(%g: tensor<2x3x5xf32>, %i: tensor<2x3x4xi32>):
  // expected-error @below {{[pool_grad_c1] indices has shape 2x3x4, not 2x3x5}}
  // expected-error @below {{failed to infer returned types}}
  %0 = graph.max_pool_grad %g, %i {shape = array<i64: 2, 3, 9>} : (tensor<2x3x5xf32>, tensor<2x3x4xi32>) -> tensor<2x3x9xf32>
  graph.return
}

// -----

graph.program @micro phase = micro inputs = ["x", "s", "b"] {
^bb0(%x: tensor<3xf32>, %s: tensor<3xf32>, %b: tensor<3xf32>):
  // expected-error @below {{[batch_norm_c1] input has rank 1, at least 2 are needed}}
  // expected-error @below {{failed to infer returned types}}
  %0:3 = graph.batch_norm %x, %s, %b {epsilon = 1.0e-5 : f64} : (tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>, tensor<3xf32>)
  graph.return
}

// -----

graph.program @micro phase = micro inputs = ["x", "s", "b"] {
^bb0(%x: tensor<2x3x4xf32>, %s: tensor<4xf32>, %b: tensor<3xf32>):
  // expected-error @below {{[batch_norm_c2] scale has shape 4, not 3}}
  // expected-error @below {{failed to infer returned types}}
  %0:3 = graph.batch_norm %x, %s, %b {epsilon = 1.0e-5 : f64} : (tensor<2x3x4xf32>, tensor<4xf32>, tensor<3xf32>) -> (tensor<2x3x4xf32>, tensor<3xf32>, tensor<3xf32>)
  graph.return
}

// -----

graph.program @micro phase = micro inputs = ["g", "x", "s", "m", "v"] {
^bb0(%g: tensor<2x3xf32>, %x: tensor<2x3x4xf32>, %s: tensor<3xf32>, %m: tensor<3xf32>, %v: tensor<3xf32>):
  // expected-error @below {{[batch_norm_c3] grad has type 'tensor<2x3xf32>', not 'tensor<2x3x4xf32>'}}
  // expected-error @below {{failed to infer returned types}}
  %0:3 = graph.batch_norm_grad %g, %x, %s, %m, %v {epsilon = 1.0e-5 : f64} : (tensor<2x3xf32>, tensor<2x3x4xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<2x3x4xf32>, tensor<3xf32>, tensor<3xf32>)
  graph.return
}

// -----

graph.program @micro phase = micro inputs = ["g", "x", "s", "m", "v"] {
^bb0(%g: tensor<2x3x4xf32>, %x: tensor<2x3x4xf32>, %s: tensor<3xf32>, %m: tensor<3xbf16>, %v: tensor<3xf32>):
  // expected-error @below {{[batch_norm_c4] mean has type 'tensor<3xbf16>', not 'tensor<3xf32>'}}
  // expected-error @below {{failed to infer returned types}}
  %0:3 = graph.batch_norm_grad %g, %x, %s, %m, %v {epsilon = 1.0e-5 : f64} : (tensor<2x3x4xf32>, tensor<2x3x4xf32>, tensor<3xf32>, tensor<3xbf16>, tensor<3xf32>) -> (tensor<2x3x4xf32>, tensor<3xf32>, tensor<3xf32>)
  graph.return
}

// -----

graph.program @micro phase = micro inputs = ["x", "s", "v"] {
^bb0(%x: tensor<2x3x4xf32>, %s: tensor<3xf32>, %v: tensor<1xf32>):
  // expected-error @below {{[batch_norm_c5] variance has type 'tensor<1xf32>', not 'tensor<3xf32>'}}
  // expected-error @below {{failed to infer returned types}}
  %0 = graph.batch_norm_apply %x, %s, %s, %s, %v {epsilon = 1.0e-5 : f64} : (tensor<2x3x4xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<1xf32>) -> tensor<2x3x4xf32>
  graph.return
}

// -----

graph.program @micro phase = micro inputs = ["x", "s"] {
^bb0(%x: tensor<4xf32>, %s: tensor<4xf32>):
  // expected-error @below {{[group_norm_c1] input has rank 1, at least 2 are needed}}
  // expected-error @below {{failed to infer returned types}}
  %0:3 = graph.group_norm %x, %s, %s {groups = 2 : i64, epsilon = 1.0e-5 : f64} : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<1x2xf32>, tensor<1x2xf32>)
  graph.return
}

// -----

graph.program @micro phase = micro inputs = ["x", "s"] {
^bb0(%x: tensor<2x4x3xf32>, %s: tensor<4xf32>):
  // expected-error @below {{[group_norm_c2] 3 groups do not divide 4 channels}}
  // expected-error @below {{failed to infer returned types}}
  %0:3 = graph.group_norm %x, %s, %s {groups = 3 : i64, epsilon = 1.0e-5 : f64} : (tensor<2x4x3xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<2x4x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>)
  graph.return
}

// -----

graph.program @micro phase = micro inputs = ["x", "s"] {
^bb0(%x: tensor<2x3x4xf32>, %s: tensor<3xf32>):
  // expected-error @below {{[group_norm_c3] scale has shape 3, not 4}}
  // expected-error @below {{failed to infer returned types}}
  %0:3 = graph.group_norm %x, %s, %s {groups = 2 : i64, epsilon = 1.0e-5 : f64, channels_last} : (tensor<2x3x4xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<2x3x4xf32>, tensor<2x2xf32>, tensor<2x2xf32>)
  graph.return
}

// -----

graph.program @micro phase = micro inputs = ["g", "x", "s", "m"] {
^bb0(%g: tensor<2x4xf32>, %x: tensor<2x4x3xf32>, %s: tensor<4xf32>, %m: tensor<2x2xf32>):
  // expected-error @below {{[group_norm_c4] grad has type 'tensor<2x4xf32>', not 'tensor<2x4x3xf32>'}}
  // expected-error @below {{failed to infer returned types}}
  %0:3 = graph.group_norm_grad %g, %x, %s, %m, %m {groups = 2 : i64, epsilon = 1.0e-5 : f64} : (tensor<2x4xf32>, tensor<2x4x3xf32>, tensor<4xf32>, tensor<2x2xf32>, tensor<2x2xf32>) -> (tensor<2x4x3xf32>, tensor<4xf32>, tensor<4xf32>)
  graph.return
}

// -----

graph.program @micro phase = micro inputs = ["x", "s", "m", "v"] {
^bb0(%x: tensor<2x4x3xf32>, %s: tensor<4xf32>, %m: tensor<2x2xf32>, %v: tensor<2x4xf32>):
  // expected-error @below {{[group_norm_c5] variance has type 'tensor<2x4xf32>', not 'tensor<2x2xf32>'}}
  // expected-error @below {{failed to infer returned types}}
  %0:3 = graph.group_norm_grad %x, %x, %s, %m, %v {groups = 2 : i64, epsilon = 1.0e-5 : f64} : (tensor<2x4x3xf32>, tensor<2x4x3xf32>, tensor<4xf32>, tensor<2x2xf32>, tensor<2x4xf32>) -> (tensor<2x4x3xf32>, tensor<4xf32>, tensor<4xf32>)
  graph.return
}
