// RUN: zero-opt %s --split-input-file --verify-diagnostics
// Constraints of views that an operation reads and writes through.

graph.program @micro phase = micro inputs = ["x"] {
^bb0(%x: tensor<1x1x2x4xf32>):
  // expected-error @below {{[view_c1] view 1 is not of the tensor that it has to be of}}
  // expected-error @below {{failed to infer returned types}}
  %y, %l = graph.attention %x, %x, %x {scale = 1.0 : f64, views = #graph.views<[<0 + 0 [1, 1, 2, 4] by [8, 8, 4, 1]>, <0 + 0 [1, 1, 2, 4] by [8, 8, 4, 1]>, <2 + 0 [1, 1, 2, 4] by [8, 8, 4, 1]>, <3 + 0 [1, 1, 2, 4] by [8, 8, 4, 1]>, <4 + 0 [1, 1, 2] by [2, 2, 1]>] -> [tensor<8xf32>, tensor<1x1x2xf32>]>} : (tensor<1x1x2x4xf32>, tensor<1x1x2x4xf32>, tensor<1x1x2x4xf32>) -> (tensor<8xf32>, tensor<1x1x2xf32>)
  graph.return
}

// -----

graph.program @micro phase = micro inputs = ["x"] {
^bb0(%x: tensor<1x1x2x4xf32>):
  // expected-error @below {{[view_c2] view 2, from element 1 on, leaves tensor 2 of 8 elements}}
  // expected-error @below {{failed to infer returned types}}
  %y, %l = graph.attention %x, %x, %x {scale = 1.0 : f64, views = #graph.views<[<0 + 0 [1, 1, 2, 4] by [8, 8, 4, 1]>, <1 + 0 [1, 1, 2, 4] by [8, 8, 4, 1]>, <2 + 1 [1, 1, 2, 4] by [8, 8, 4, 1]>, <3 + 0 [1, 1, 2, 4] by [8, 8, 4, 1]>, <4 + 0 [1, 1, 2] by [2, 2, 1]>] -> [tensor<8xf32>, tensor<1x1x2xf32>]>} : (tensor<1x1x2x4xf32>, tensor<1x1x2x4xf32>, tensor<1x1x2x4xf32>) -> (tensor<8xf32>, tensor<1x1x2xf32>)
  graph.return
}

// -----

graph.program @micro phase = micro inputs = ["x"] {
^bb0(%x: tensor<1x1x2x4xf32>):
  // expected-error @below {{[view_c3] view 0 has elements of tensor 0 twice}}
  // expected-error @below {{failed to infer returned types}}
  %y, %l = graph.attention %x, %x, %x {scale = 1.0 : f64, views = #graph.views<[<0 + 0 [1, 1, 2, 4] by [8, 8, 3, 1]>, <1 + 0 [1, 1, 2, 4] by [8, 8, 4, 1]>, <2 + 0 [1, 1, 2, 4] by [8, 8, 4, 1]>, <3 + 0 [1, 1, 2, 4] by [8, 8, 4, 1]>, <4 + 0 [1, 1, 2] by [2, 2, 1]>] -> [tensor<8xf32>, tensor<1x1x2xf32>]>} : (tensor<1x1x2x4xf32>, tensor<1x1x2x4xf32>, tensor<1x1x2x4xf32>) -> (tensor<8xf32>, tensor<1x1x2xf32>)
  graph.return
}

// -----

graph.program @micro phase = micro inputs = ["x"] {
^bb0(%x: tensor<1x1x2x4xf32>):
  // expected-error @below {{[view_c4] views write 8 of the 9 elements of tensor 3}}
  // expected-error @below {{failed to infer returned types}}
  %y, %l = graph.attention %x, %x, %x {scale = 1.0 : f64, views = #graph.views<[<0 + 0 [1, 1, 2, 4] by [8, 8, 4, 1]>, <1 + 0 [1, 1, 2, 4] by [8, 8, 4, 1]>, <2 + 0 [1, 1, 2, 4] by [8, 8, 4, 1]>, <3 + 0 [1, 1, 2, 4] by [8, 8, 4, 1]>, <4 + 0 [1, 1, 2] by [2, 2, 1]>] -> [tensor<9xf32>, tensor<1x1x2xf32>]>} : (tensor<1x1x2x4xf32>, tensor<1x1x2x4xf32>, tensor<1x1x2x4xf32>) -> (tensor<9xf32>, tensor<1x1x2xf32>)
  graph.return
}

// -----

graph.program @micro phase = micro inputs = ["x"] {
^bb0(%x: tensor<1x1x2x4xf32>):
  // expected-error @below {{[view_c5] a view is written as 'tensor<1x1x4x2xf32>', not 'tensor<1x1x2x4xf32>'}}
  // expected-error @below {{failed to infer returned types}}
  %y, %l = graph.attention %x, %x, %x {scale = 1.0 : f64, views = #graph.views<[<0 + 0 [1, 1, 2, 4] by [8, 8, 4, 1]>, <1 + 0 [1, 1, 2, 4] by [8, 8, 4, 1]>, <2 + 0 [1, 1, 2, 4] by [8, 8, 4, 1]>, <3 + 0 [1, 1, 4, 2] by [8, 8, 2, 1]>, <4 + 0 [1, 1, 2] by [2, 2, 1]>] -> [tensor<8xf32>, tensor<1x1x2xf32>]>} : (tensor<1x1x2x4xf32>, tensor<1x1x2x4xf32>, tensor<1x1x2x4xf32>) -> (tensor<8xf32>, tensor<1x1x2xf32>)
  graph.return
}

// -----

graph.program @micro phase = micro inputs = ["x"] {
^bb0(%x: tensor<1x1x2x4xf32>):
  // expected-error @below {{[view_c5] a view is written as 'tensor<1x1x2x4xbf16>', not 'tensor<1x1x2x4xf32>'}}
  // expected-error @below {{failed to infer returned types}}
  %y, %l = graph.attention %x, %x, %x {scale = 1.0 : f64, views = #graph.views<[<0 + 0 [1, 1, 2, 4] by [8, 8, 4, 1]>, <1 + 0 [1, 1, 2, 4] by [8, 8, 4, 1]>, <2 + 0 [1, 1, 2, 4] by [8, 8, 4, 1]>, <3 + 0 [1, 1, 2, 4] by [8, 8, 4, 1]>, <4 + 0 [1, 1, 2] by [2, 2, 1]>] -> [tensor<8xbf16>, tensor<1x1x2xf32>]>} : (tensor<1x1x2x4xf32>, tensor<1x1x2x4xf32>, tensor<1x1x2x4xf32>) -> (tensor<8xbf16>, tensor<1x1x2xf32>)
  graph.return
}

// -----

graph.program @micro phase = micro inputs = ["x"] {
^bb0(%x: tensor<1x1x2x4xf32>):
  // expected-error @below {{[view_c5] 3 views are written, not 2}}
  // expected-error @below {{failed to infer returned types}}
  %y, %l = graph.attention %x, %x, %x {scale = 1.0 : f64, views = #graph.views<[<0 + 0 [1, 1, 2, 4] by [8, 8, 4, 1]>, <1 + 0 [1, 1, 2, 4] by [8, 8, 4, 1]>, <2 + 0 [1, 1, 2, 4] by [8, 8, 4, 1]>, <3 + 0 [1, 1, 2, 4] by [8, 8, 4, 1]>, <4 + 0 [1, 1, 2] by [2, 2, 1]>, <4 + 0 [0] by [1]>] -> [tensor<8xf32>, tensor<1x1x2xf32>]>} : (tensor<1x1x2x4xf32>, tensor<1x1x2x4xf32>, tensor<1x1x2x4xf32>) -> (tensor<8xf32>, tensor<1x1x2xf32>)
  graph.return
}
