// RUN: zero-opt %s --raise-composites --split-input-file | FileCheck %s

// transformers' mask of a batch without padding: causal and true of each sample, -FLT_MAX elsewhere.
// CHECK-LABEL: inputs = ["unpadded", "k", "v"]
// CHECK: ^bb0(%[[Q:.*]]: tensor<2x4x3x8xf32>, %[[K:.*]]: tensor<2x4x3x8xf32>, %[[V:.*]]: tensor<2x4x3x8xf32>)
// CHECK: graph.attention %[[Q]], %[[K]], %[[V]] {causal, scale = 1.000000e+00 : f64}
graph.program @micro phase = micro inputs = ["unpadded", "k", "v"] {
^bb0(%q: tensor<2x4x3x8xf32>, %k: tensor<2x4x3x8xf32>, %v: tensor<2x4x3x8xf32>):
  %past = graph.constant dense<[[[[true, false, false], [true, true, false], [true, true, true]]]]> : tensor<1x1x3x3xi1>
  %true = graph.constant dense<true> : tensor<2x1x1x3xi1>
  %zero = graph.constant dense<0.0> : tensor<f32>
  %low = graph.constant dense<-3.40282347E+38> : tensor<f32>
  %keep = graph.and %past, %true : (tensor<1x1x3x3xi1>, tensor<2x1x1x3xi1>) -> tensor<2x1x3x3xi1>
  %mask = graph.select %keep, %zero, %low : (tensor<2x1x3x3xi1>, tensor<f32>, tensor<f32>) -> tensor<2x1x3x3xf32>
  %s = graph.matmul %q, %k {trans_rhs} : (tensor<2x4x3x8xf32>, tensor<2x4x3x8xf32>) -> tensor<2x4x3x3xf32>
  %a = graph.add %s, %mask : (tensor<2x4x3x3xf32>, tensor<2x1x3x3xf32>) -> tensor<2x4x3x3xf32>
  %p = graph.softmax %a {axis = 3 : i64} : (tensor<2x4x3x3xf32>) -> tensor<2x4x3x3xf32>
  %y = graph.matmul %p, %v : (tensor<2x4x3x3xf32>, tensor<2x4x3x8xf32>) -> tensor<2x4x3x8xf32>
  graph.return %y : tensor<2x4x3x8xf32>
}

// -----

// One that hides a key of a sample is not causal.
// CHECK-LABEL: inputs = ["padded", "k", "v"]
// CHECK: graph.attention %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}} {scale = 1.000000e+00 : f64}
graph.program @micro phase = micro inputs = ["padded", "k", "v"] {
^bb0(%q: tensor<2x4x3x8xf32>, %k: tensor<2x4x3x8xf32>, %v: tensor<2x4x3x8xf32>):
  %past = graph.constant dense<[[[[true, false, false], [true, true, false], [true, true, true]]]]> : tensor<1x1x3x3xi1>
  %shown = graph.constant dense<[[[[true, true, true]]], [[[true, true, false]]]]> : tensor<2x1x1x3xi1>
  %zero = graph.constant dense<0.0> : tensor<f32>
  %low = graph.constant dense<-3.40282347E+38> : tensor<f32>
  %keep = graph.and %past, %shown : (tensor<1x1x3x3xi1>, tensor<2x1x1x3xi1>) -> tensor<2x1x3x3xi1>
  %mask = graph.select %keep, %zero, %low : (tensor<2x1x3x3xi1>, tensor<f32>, tensor<f32>) -> tensor<2x1x3x3xf32>
  %s = graph.matmul %q, %k {trans_rhs} : (tensor<2x4x3x8xf32>, tensor<2x4x3x8xf32>) -> tensor<2x4x3x3xf32>
  %a = graph.add %s, %mask : (tensor<2x4x3x3xf32>, tensor<2x1x3x3xf32>) -> tensor<2x4x3x3xf32>
  %p = graph.softmax %a {axis = 3 : i64} : (tensor<2x4x3x3xf32>) -> tensor<2x4x3x3xf32>
  %y = graph.matmul %p, %v : (tensor<2x4x3x3xf32>, tensor<2x4x3x8xf32>) -> tensor<2x4x3x8xf32>
  graph.return %y : tensor<2x4x3x8xf32>
}

// -----

// Neighbours of a larger table: GPT-2's buffer for the longest text.
// CHECK-LABEL: inputs = ["sliced", "k", "v"]
// CHECK: graph.attention %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}} {causal, scale = 1.000000e+00 : f64}
graph.program @micro phase = micro inputs = ["sliced", "k", "v"] {
^bb0(%q: tensor<2x4x2x8xf32>, %k: tensor<2x4x3x8xf32>, %v: tensor<2x4x3x8xf32>):
  %rows = graph.constant dense<[[0], [1], [2], [3]]> : tensor<4x1xi64>
  %columns = graph.constant dense<[0, 1, 2, 3]> : tensor<4xi64>
  %low = graph.constant dense<0xFF800000> : tensor<f32>
  %all = graph.less_equal %columns, %rows : (tensor<4xi64>, tensor<4x1xi64>) -> tensor<4x4xi1>
  %le = graph.slice %all {offsets = array<i64: 1, 0>, sizes = array<i64: 2, 3>, strides = array<i64: 1, 1>} : (tensor<4x4xi1>) -> tensor<2x3xi1>
  %s = graph.matmul %q, %k {trans_rhs} : (tensor<2x4x2x8xf32>, tensor<2x4x3x8xf32>) -> tensor<2x4x2x3xf32>
  %a = graph.select %le, %s, %low : (tensor<2x3xi1>, tensor<2x4x2x3xf32>, tensor<f32>) -> tensor<2x4x2x3xf32>
  %p = graph.softmax %a {axis = 3 : i64} : (tensor<2x4x2x3xf32>) -> tensor<2x4x2x3xf32>
  %y = graph.matmul %p, %v : (tensor<2x4x2x3xf32>, tensor<2x4x3x8xf32>) -> tensor<2x4x2x8xf32>
  graph.return %y : tensor<2x4x2x8xf32>
}

// -----

// One row too late is not causal.
// CHECK-LABEL: inputs = ["shifted", "k", "v"]
// CHECK: graph.attention %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}} {scale = 1.000000e+00 : f64}
graph.program @micro phase = micro inputs = ["shifted", "k", "v"] {
^bb0(%q: tensor<2x4x2x8xf32>, %k: tensor<2x4x3x8xf32>, %v: tensor<2x4x3x8xf32>):
  %rows = graph.constant dense<[[0], [1], [2], [3]]> : tensor<4x1xi64>
  %columns = graph.constant dense<[0, 1, 2, 3]> : tensor<4xi64>
  %low = graph.constant dense<0xFF800000> : tensor<f32>
  %all = graph.less_equal %columns, %rows : (tensor<4xi64>, tensor<4x1xi64>) -> tensor<4x4xi1>
  %le = graph.slice %all {offsets = array<i64: 0, 0>, sizes = array<i64: 2, 3>, strides = array<i64: 1, 1>} : (tensor<4x4xi1>) -> tensor<2x3xi1>
  %s = graph.matmul %q, %k {trans_rhs} : (tensor<2x4x2x8xf32>, tensor<2x4x3x8xf32>) -> tensor<2x4x2x3xf32>
  %a = graph.select %le, %s, %low : (tensor<2x3xi1>, tensor<2x4x2x3xf32>, tensor<f32>) -> tensor<2x4x2x3xf32>
  %p = graph.softmax %a {axis = 3 : i64} : (tensor<2x4x2x3xf32>) -> tensor<2x4x2x3xf32>
  %y = graph.matmul %p, %v : (tensor<2x4x2x3xf32>, tensor<2x4x3x8xf32>) -> tensor<2x4x2x8xf32>
  graph.return %y : tensor<2x4x2x8xf32>
}

// -----

// transformers 5: positions of each sample, and that all are of one document; GPT-Neo's condition before it.
// CHECK-LABEL: inputs = ["positions", "k", "v"]
// CHECK: graph.attention %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}} {causal, scale = 1.000000e+00 : f64}
graph.program @micro phase = micro inputs = ["positions", "k", "v"] {
^bb0(%q: tensor<2x4x3x8xf32>, %k: tensor<2x4x3x8xf32>, %v: tensor<2x4x3x8xf32>):
  %low = graph.constant dense<-3.40282347E+38> : tensor<f32>
  %zero = graph.constant dense<0.0> : tensor<f32>
  %true = graph.constant dense<true> : tensor<2x1x3x3xi1>
  %table = graph.constant dense<[[true, false, false], [true, true, false], [true, true, true]]> : tensor<3x3xi1>
  %columns = graph.constant dense<[[[[0, 1, 2]]], [[[0, 1, 2]]]]> : tensor<2x1x1x3xi64>
  %rows = graph.constant dense<[[[[0], [1], [2]]], [[[0], [1], [2]]]]> : tensor<2x1x3x1xi64>
  %le = graph.less_equal %columns, %rows : (tensor<2x1x1x3xi64>, tensor<2x1x3x1xi64>) -> tensor<2x1x3x3xi1>
  %and = graph.and %true, %le : (tensor<2x1x3x3xi1>, tensor<2x1x3x3xi1>) -> tensor<2x1x3x3xi1>
  %mask = graph.select %and, %zero, %low : (tensor<2x1x3x3xi1>, tensor<f32>, tensor<f32>) -> tensor<2x1x3x3xf32>
  %s = graph.matmul %q, %k {trans_rhs} : (tensor<2x4x3x8xf32>, tensor<2x4x3x8xf32>) -> tensor<2x4x3x3xf32>
  %c = graph.select %table, %s, %low : (tensor<3x3xi1>, tensor<2x4x3x3xf32>, tensor<f32>) -> tensor<2x4x3x3xf32>
  %a = graph.add %c, %mask : (tensor<2x4x3x3xf32>, tensor<2x1x3x3xf32>) -> tensor<2x4x3x3xf32>
  %p = graph.softmax %a {axis = 3 : i64} : (tensor<2x4x3x3xf32>) -> tensor<2x4x3x3xf32>
  %y = graph.matmul %p, %v : (tensor<2x4x3x3xf32>, tensor<2x4x3x8xf32>) -> tensor<2x4x3x8xf32>
  graph.return %y : tensor<2x4x3x8xf32>
}

// -----

// Positions of two samples that count from different numbers are none; a row that a condition hides as a whole is an
// average of all values.
// CHECK-LABEL: inputs = ["packed", "k", "v"]
// CHECK: graph.attention %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}} {scale = 1.000000e+00 : f64}
// CHECK: %[[Y:.*]], %[[LSE:.*]] = graph.attention %{{[^,]*}}, %{{[^,]*}}, %[[V:.*]], %{{[^,]*}} {scale = 1.000000e+00 : f64}
// CHECK: %[[R:.*]] = graph.reshape %[[LSE]] {shape = array<i64: 2, 4, 3, 1>}
// CHECK: %[[H:.*]] = graph.equal %[[R]], %{{.*}}
// CHECK: %[[A:.*]] = graph.reduce_mean %[[V]] {axes = array<i64: 2>, keepdims}
// CHECK: %[[Z:.*]] = graph.select %[[H]], %[[A]], %[[Y]]
// CHECK: graph.return %[[Z]]
graph.program @micro phase = micro inputs = ["packed", "k", "v"] {
^bb0(%q: tensor<2x4x3x8xf32>, %k: tensor<2x4x3x8xf32>, %v: tensor<2x4x3x8xf32>):
  %low = graph.constant dense<-3.40282347E+38> : tensor<f32>
  %zero = graph.constant dense<0.0> : tensor<f32>
  %table = graph.constant dense<[[false, false, false], [true, true, false], [true, true, true]]> : tensor<3x3xi1>
  %columns = graph.constant dense<[[[[0, 1, 2]]], [[[0, 1, 2]]]]> : tensor<2x1x1x3xi64>
  %rows = graph.constant dense<[[[[0], [1], [2]]], [[[1], [2], [3]]]]> : tensor<2x1x3x1xi64>
  %le = graph.less_equal %columns, %rows : (tensor<2x1x1x3xi64>, tensor<2x1x3x1xi64>) -> tensor<2x1x3x3xi1>
  %mask = graph.select %le, %zero, %low : (tensor<2x1x3x3xi1>, tensor<f32>, tensor<f32>) -> tensor<2x1x3x3xf32>
  %s = graph.matmul %q, %k {trans_rhs} : (tensor<2x4x3x8xf32>, tensor<2x4x3x8xf32>) -> tensor<2x4x3x3xf32>
  %a = graph.add %s, %mask : (tensor<2x4x3x3xf32>, tensor<2x1x3x3xf32>) -> tensor<2x4x3x3xf32>
  %p = graph.softmax %a {axis = 3 : i64} : (tensor<2x4x3x3xf32>) -> tensor<2x4x3x3xf32>
  %y = graph.matmul %p, %v : (tensor<2x4x3x3xf32>, tensor<2x4x3x8xf32>) -> tensor<2x4x3x8xf32>
  %s2 = graph.matmul %y, %k {trans_rhs} : (tensor<2x4x3x8xf32>, tensor<2x4x3x8xf32>) -> tensor<2x4x3x3xf32>
  %c = graph.select %table, %s2, %low : (tensor<3x3xi1>, tensor<2x4x3x3xf32>, tensor<f32>) -> tensor<2x4x3x3xf32>
  %p2 = graph.softmax %c {axis = 3 : i64} : (tensor<2x4x3x3xf32>) -> tensor<2x4x3x3xf32>
  %z = graph.matmul %p2, %v : (tensor<2x4x3x3xf32>, tensor<2x4x3x8xf32>) -> tensor<2x4x3x8xf32>
  graph.return %z : tensor<2x4x3x8xf32>
}

// -----

// A bool that says what is dropped, and a low number that is not infinite, as in most tutorials; one that drops the diagonal
// too is not causal, and hides a row as a whole, of which such a number makes an average.
// CHECK-LABEL: inputs = ["dropped", "k", "v"]
// CHECK: graph.attention %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}} {causal, scale = 1.000000e+00 : f64}
// CHECK: graph.attention %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}} {scale = 1.000000e+00 : f64}
// CHECK: graph.reduce_mean
graph.program @micro phase = micro inputs = ["dropped", "k", "v"] {
^bb0(%q: tensor<2x4x3x8xf32>, %k: tensor<2x4x3x8xf32>, %v: tensor<2x4x3x8xf32>):
  %low = graph.constant dense<-1.0e9> : tensor<f32>
  %later = graph.constant dense<[[false, true, true], [false, false, true], [false, false, false]]> : tensor<3x3xi1>
  %too = graph.constant dense<[[true, true, true], [false, true, true], [false, false, true]]> : tensor<3x3xi1>
  %s = graph.matmul %q, %k {trans_rhs} : (tensor<2x4x3x8xf32>, tensor<2x4x3x8xf32>) -> tensor<2x4x3x3xf32>
  %a = graph.select %later, %low, %s : (tensor<3x3xi1>, tensor<f32>, tensor<2x4x3x3xf32>) -> tensor<2x4x3x3xf32>
  %p = graph.softmax %a {axis = 3 : i64} : (tensor<2x4x3x3xf32>) -> tensor<2x4x3x3xf32>
  %y = graph.matmul %p, %v : (tensor<2x4x3x3xf32>, tensor<2x4x3x8xf32>) -> tensor<2x4x3x8xf32>
  %s2 = graph.matmul %y, %k {trans_rhs} : (tensor<2x4x3x8xf32>, tensor<2x4x3x8xf32>) -> tensor<2x4x3x3xf32>
  %a2 = graph.select %too, %low, %s2 : (tensor<3x3xi1>, tensor<f32>, tensor<2x4x3x3xf32>) -> tensor<2x4x3x3xf32>
  %p2 = graph.softmax %a2 {axis = 3 : i64} : (tensor<2x4x3x3xf32>) -> tensor<2x4x3x3xf32>
  %z = graph.matmul %p2, %v : (tensor<2x4x3x3xf32>, tensor<2x4x3x8xf32>) -> tensor<2x4x3x8xf32>
  graph.return %z : tensor<2x4x3x8xf32>
}

// -----

// Larger masks are arithmetic: row - column >= 0 is kept, row < column dropped.
// CHECK-LABEL: inputs = ["ranges", "k", "v"]
// CHECK: graph.attention %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}} {causal, scale = 1.000000e+00 : f64}
// CHECK: graph.attention %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}} {causal, scale = 1.000000e+00 : f64}
graph.program @micro phase = micro inputs = ["ranges", "k", "v"] {
^bb0(%q: tensor<2x4x3x8xf32>, %k: tensor<2x4x3x8xf32>, %v: tensor<2x4x3x8xf32>):
  %low = graph.constant dense<0xFF800000> : tensor<f32>
  %zero = graph.constant dense<0> : tensor<i64>
  %rows = graph.constant dense<[[0], [1], [2]]> : tensor<3x1xi64>
  %columns = graph.constant dense<[0, 1, 2]> : tensor<3xi64>
  %ahead = graph.sub %rows, %columns : (tensor<3x1xi64>, tensor<3xi64>) -> tensor<3x3xi64>
  %past = graph.less_equal %zero, %ahead : (tensor<i64>, tensor<3x3xi64>) -> tensor<3x3xi1>
  %later = graph.less %rows, %columns : (tensor<3x1xi64>, tensor<3xi64>) -> tensor<3x3xi1>
  %s = graph.matmul %q, %k {trans_rhs} : (tensor<2x4x3x8xf32>, tensor<2x4x3x8xf32>) -> tensor<2x4x3x3xf32>
  %a = graph.select %past, %s, %low : (tensor<3x3xi1>, tensor<2x4x3x3xf32>, tensor<f32>) -> tensor<2x4x3x3xf32>
  %p = graph.softmax %a {axis = 3 : i64} : (tensor<2x4x3x3xf32>) -> tensor<2x4x3x3xf32>
  %y = graph.matmul %p, %v : (tensor<2x4x3x3xf32>, tensor<2x4x3x8xf32>) -> tensor<2x4x3x8xf32>
  %s2 = graph.matmul %y, %k {trans_rhs} : (tensor<2x4x3x8xf32>, tensor<2x4x3x8xf32>) -> tensor<2x4x3x3xf32>
  %a2 = graph.select %later, %low, %s2 : (tensor<3x3xi1>, tensor<f32>, tensor<2x4x3x3xf32>) -> tensor<2x4x3x3xf32>
  %p2 = graph.softmax %a2 {axis = 3 : i64} : (tensor<2x4x3x3xf32>) -> tensor<2x4x3x3xf32>
  %z = graph.matmul %p2, %v : (tensor<2x4x3x3xf32>, tensor<2x4x3x8xf32>) -> tensor<2x4x3x8xf32>
  graph.return %z : tensor<2x4x3x8xf32>
}

// -----

// One more or one less is not causal.
// CHECK-LABEL: inputs = ["off_by_one", "k", "v"]
// CHECK: graph.attention %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}, %{{.*}} {scale = 1.000000e+00 : f64}
// CHECK: graph.attention %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}, %{{.*}} {scale = 1.000000e+00 : f64}
graph.program @micro phase = micro inputs = ["off_by_one", "k", "v"] {
^bb0(%q: tensor<2x4x3x8xf32>, %k: tensor<2x4x3x8xf32>, %v: tensor<2x4x3x8xf32>):
  %low = graph.constant dense<0xFF800000> : tensor<f32>
  %zero = graph.constant dense<0> : tensor<i64>
  %rows = graph.constant dense<[[0], [1], [2]]> : tensor<3x1xi64>
  %columns = graph.constant dense<[0, 1, 2]> : tensor<3xi64>
  %ahead = graph.sub %rows, %columns : (tensor<3x1xi64>, tensor<3xi64>) -> tensor<3x3xi64>
  %past = graph.less %zero, %ahead : (tensor<i64>, tensor<3x3xi64>) -> tensor<3x3xi1>
  %later = graph.less_equal %rows, %columns : (tensor<3x1xi64>, tensor<3xi64>) -> tensor<3x3xi1>
  %s = graph.matmul %q, %k {trans_rhs} : (tensor<2x4x3x8xf32>, tensor<2x4x3x8xf32>) -> tensor<2x4x3x3xf32>
  %a = graph.select %past, %s, %low : (tensor<3x3xi1>, tensor<2x4x3x3xf32>, tensor<f32>) -> tensor<2x4x3x3xf32>
  %p = graph.softmax %a {axis = 3 : i64} : (tensor<2x4x3x3xf32>) -> tensor<2x4x3x3xf32>
  %y = graph.matmul %p, %v : (tensor<2x4x3x3xf32>, tensor<2x4x3x8xf32>) -> tensor<2x4x3x8xf32>
  %s2 = graph.matmul %y, %k {trans_rhs} : (tensor<2x4x3x8xf32>, tensor<2x4x3x8xf32>) -> tensor<2x4x3x3xf32>
  %a2 = graph.select %later, %low, %s2 : (tensor<3x3xi1>, tensor<f32>, tensor<2x4x3x3xf32>) -> tensor<2x4x3x3xf32>
  %p2 = graph.softmax %a2 {axis = 3 : i64} : (tensor<2x4x3x3xf32>) -> tensor<2x4x3x3xf32>
  %z = graph.matmul %p2, %v : (tensor<2x4x3x3xf32>, tensor<2x4x3x8xf32>) -> tensor<2x4x3x8xf32>
  graph.return %z : tensor<2x4x3x8xf32>
}

// -----

// Padding from the data and a condition: both hide, if it is with -inf. With a finite number a row that both hide would be
// an average of some keys.
// CHECK-LABEL: inputs = ["padding_dropped", "k", "v", "padding"]
// CHECK: graph.attention %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}, %arg3 {causal, scale = 1.000000e+00 : f64}
// CHECK: graph.softmax
graph.program @micro phase = micro inputs = ["padding_dropped", "k", "v", "padding"] {
^bb0(%q: tensor<2x4x3x8xf32>, %k: tensor<2x4x3x8xf32>, %v: tensor<2x4x3x8xf32>, %padding: tensor<2x1x1x3xf32>):
  %inf = graph.constant dense<0xFF800000> : tensor<f32>
  %low = graph.constant dense<-1.0e9> : tensor<f32>
  %later = graph.constant dense<[[false, true, true], [false, false, true], [false, false, false]]> : tensor<3x3xi1>
  %s = graph.matmul %q, %k {trans_rhs} : (tensor<2x4x3x8xf32>, tensor<2x4x3x8xf32>) -> tensor<2x4x3x3xf32>
  %b = graph.add %s, %padding : (tensor<2x4x3x3xf32>, tensor<2x1x1x3xf32>) -> tensor<2x4x3x3xf32>
  %a = graph.select %later, %inf, %b : (tensor<3x3xi1>, tensor<f32>, tensor<2x4x3x3xf32>) -> tensor<2x4x3x3xf32>
  %p = graph.softmax %a {axis = 3 : i64} : (tensor<2x4x3x3xf32>) -> tensor<2x4x3x3xf32>
  %y = graph.matmul %p, %v : (tensor<2x4x3x3xf32>, tensor<2x4x3x8xf32>) -> tensor<2x4x3x8xf32>
  %s2 = graph.matmul %y, %k {trans_rhs} : (tensor<2x4x3x8xf32>, tensor<2x4x3x8xf32>) -> tensor<2x4x3x3xf32>
  %b2 = graph.add %s2, %padding : (tensor<2x4x3x3xf32>, tensor<2x1x1x3xf32>) -> tensor<2x4x3x3xf32>
  %a2 = graph.select %later, %low, %b2 : (tensor<3x3xi1>, tensor<f32>, tensor<2x4x3x3xf32>) -> tensor<2x4x3x3xf32>
  %p2 = graph.softmax %a2 {axis = 3 : i64} : (tensor<2x4x3x3xf32>) -> tensor<2x4x3x3xf32>
  %z = graph.matmul %p2, %v : (tensor<2x4x3x3xf32>, tensor<2x4x3x8xf32>) -> tensor<2x4x3x8xf32>
  graph.return %z : tensor<2x4x3x8xf32>
}

// -----

// Two conditions are one; XGLM's floor is none beside a causal mask.
// CHECK-LABEL: inputs = ["conditions", "k", "v", "keep"]
// CHECK: graph.attention %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}, %arg3 {causal, scale = 1.000000e+00 : f64}
// CHECK: graph.attention %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}} {causal, scale = 1.000000e+00 : f64}
graph.program @micro phase = micro inputs = ["conditions", "k", "v", "keep"] {
^bb0(%q: tensor<2x4x3x8xf32>, %k: tensor<2x4x3x8xf32>, %v: tensor<2x4x3x8xf32>, %keep: tensor<2x1x1x3xi1>):
  %inf = graph.constant dense<0xFF800000> : tensor<f32>
  %lowest = graph.constant dense<-3.40282347E+38> : tensor<f32>
  %mask = graph.constant dense<[[0.0, -3.40282347E+38, -3.40282347E+38], [0.0, 0.0, -3.40282347E+38], [0.0, 0.0, 0.0]]> : tensor<3x3xf32>
  %later = graph.constant dense<[[false, true, true], [false, false, true], [false, false, false]]> : tensor<3x3xi1>
  %s = graph.matmul %q, %k {trans_rhs} : (tensor<2x4x3x8xf32>, tensor<2x4x3x8xf32>) -> tensor<2x4x3x3xf32>
  %b = graph.select %keep, %s, %inf : (tensor<2x1x1x3xi1>, tensor<2x4x3x3xf32>, tensor<f32>) -> tensor<2x4x3x3xf32>
  %a = graph.select %later, %inf, %b : (tensor<3x3xi1>, tensor<f32>, tensor<2x4x3x3xf32>) -> tensor<2x4x3x3xf32>
  %p = graph.softmax %a {axis = 3 : i64} : (tensor<2x4x3x3xf32>) -> tensor<2x4x3x3xf32>
  %y = graph.matmul %p, %v : (tensor<2x4x3x3xf32>, tensor<2x4x3x8xf32>) -> tensor<2x4x3x8xf32>
  %s2 = graph.matmul %y, %k {trans_rhs} : (tensor<2x4x3x8xf32>, tensor<2x4x3x8xf32>) -> tensor<2x4x3x3xf32>
  %b2 = graph.add %s2, %mask : (tensor<2x4x3x3xf32>, tensor<3x3xf32>) -> tensor<2x4x3x3xf32>
  %a2 = graph.max %b2, %lowest : (tensor<2x4x3x3xf32>, tensor<f32>) -> tensor<2x4x3x3xf32>
  %p2 = graph.softmax %a2 {axis = 3 : i64} : (tensor<2x4x3x3xf32>) -> tensor<2x4x3x3xf32>
  %z = graph.matmul %p2, %v : (tensor<2x4x3x3xf32>, tensor<2x4x3x8xf32>) -> tensor<2x4x3x8xf32>
  graph.return %z : tensor<2x4x3x8xf32>
}

// -----

// Funnel's: what hides is subtracted; a table that would be causal if it were added is not.
// CHECK-LABEL: inputs = ["subtracted", "k", "v", "padding"]
// CHECK: %[[M:.*]] = graph.mul %arg3, %{{.*}}
// CHECK: graph.attention %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}, %[[M]] {scale = 1.000000e+00 : f64}
// CHECK: graph.attention %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}} {scale = 1.000000e+00 : f64}
graph.program @micro phase = micro inputs = ["subtracted", "k", "v", "padding"] {
^bb0(%q: tensor<2x4x3x8xf32>, %k: tensor<2x4x3x8xf32>, %v: tensor<2x4x3x8xf32>, %padding: tensor<2x1x1x3xf32>):
  %table = graph.constant dense<[[0.0, -1.0e9, -1.0e9], [0.0, 0.0, -1.0e9], [0.0, 0.0, 0.0]]> : tensor<3x3xf32>
  %s = graph.matmul %q, %k {trans_rhs} : (tensor<2x4x3x8xf32>, tensor<2x4x3x8xf32>) -> tensor<2x4x3x3xf32>
  %a = graph.sub %s, %padding : (tensor<2x4x3x3xf32>, tensor<2x1x1x3xf32>) -> tensor<2x4x3x3xf32>
  %p = graph.softmax %a {axis = 3 : i64} : (tensor<2x4x3x3xf32>) -> tensor<2x4x3x3xf32>
  %y = graph.matmul %p, %v : (tensor<2x4x3x3xf32>, tensor<2x4x3x8xf32>) -> tensor<2x4x3x8xf32>
  %s2 = graph.matmul %y, %k {trans_rhs} : (tensor<2x4x3x8xf32>, tensor<2x4x3x8xf32>) -> tensor<2x4x3x3xf32>
  %a2 = graph.sub %s2, %table : (tensor<2x4x3x3xf32>, tensor<3x3xf32>) -> tensor<2x4x3x3xf32>
  %p2 = graph.softmax %a2 {axis = 3 : i64} : (tensor<2x4x3x3xf32>) -> tensor<2x4x3x3xf32>
  %z = graph.matmul %p2, %v : (tensor<2x4x3x3xf32>, tensor<2x4x3x8xf32>) -> tensor<2x4x3x8xf32>
  graph.return %z : tensor<2x4x3x8xf32>
}

// -----

// A window without an end, over positions of each sample, is one sample's, and leaves each row a key; what comes with the
// data is not.
// CHECK-LABEL: inputs = ["window", "k", "v", "shown"]
// CHECK: %[[M:.*]] = graph.less %{{.*}}, %{{.*}} -> tensor<1x1x3x3xi1>
// CHECK-NOT: graph.reduce_mean
// CHECK: graph.attention %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}, %[[M]] {scale
// CHECK: graph.attention {{.*}}tensor<2x1x1x3xi1>
graph.program @micro phase = micro inputs = ["window", "k", "v", "shown"] {
^bb0(%q: tensor<2x4x3x8xf32>, %k: tensor<2x4x3x8xf32>, %v: tensor<2x4x3x8xf32>, %shown: tensor<2x1x1x3xi1>):
  %low = graph.constant dense<-3.40282347E+38> : tensor<f32>
  %inf = graph.constant dense<0xFF800000> : tensor<f32>
  %zero = graph.constant dense<0.0> : tensor<f32>
  %two = graph.constant dense<2> : tensor<i64>
  %columns = graph.constant dense<[[[[0, 1, 2]]], [[[0, 1, 2]]]]> : tensor<2x1x1x3xi64>
  %rows = graph.constant dense<[[[[0], [1], [2]]], [[[0], [1], [2]]]]> : tensor<2x1x3x1xi64>
  %first = graph.sub %rows, %two : (tensor<2x1x3x1xi64>, tensor<i64>) -> tensor<2x1x3x1xi64>
  %near = graph.less %first, %columns : (tensor<2x1x3x1xi64>, tensor<2x1x1x3xi64>) -> tensor<2x1x3x3xi1>
  %mask = graph.select %near, %zero, %low : (tensor<2x1x3x3xi1>, tensor<f32>, tensor<f32>) -> tensor<2x1x3x3xf32>
  %s = graph.matmul %q, %k {trans_rhs} : (tensor<2x4x3x8xf32>, tensor<2x4x3x8xf32>) -> tensor<2x4x3x3xf32>
  %a = graph.add %s, %mask : (tensor<2x4x3x3xf32>, tensor<2x1x3x3xf32>) -> tensor<2x4x3x3xf32>
  %p = graph.softmax %a {axis = 3 : i64} : (tensor<2x4x3x3xf32>) -> tensor<2x4x3x3xf32>
  %y = graph.matmul %p, %v : (tensor<2x4x3x3xf32>, tensor<2x4x3x8xf32>) -> tensor<2x4x3x8xf32>
  %s2 = graph.matmul %y, %k {trans_rhs} : (tensor<2x4x3x8xf32>, tensor<2x4x3x8xf32>) -> tensor<2x4x3x3xf32>
  %c = graph.select %shown, %s2, %inf : (tensor<2x1x1x3xi1>, tensor<2x4x3x3xf32>, tensor<f32>) -> tensor<2x4x3x3xf32>
  %p2 = graph.softmax %c {axis = 3 : i64} : (tensor<2x4x3x3xf32>) -> tensor<2x4x3x3xf32>
  %z = graph.matmul %p2, %v : (tensor<2x4x3x3xf32>, tensor<2x4x3x8xf32>) -> tensor<2x4x3x8xf32>
  graph.return %z : tensor<2x4x3x8xf32>
}

// -----

// A bool mask of torch's sdpa, without samples and heads.
// CHECK-LABEL: inputs = ["flat", "k", "v", "shown"]
// CHECK: ^bb0({{.*}}, %[[M:[a-z0-9]*]]: tensor<3x3xi1>)
// CHECK: %[[R:.*]] = graph.reshape %[[M]] {shape = array<i64: 1, 1, 3, 3>}
// CHECK: graph.attention %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}, %[[R]] {scale
graph.program @micro phase = micro inputs = ["flat", "k", "v", "shown"] {
^bb0(%q: tensor<2x4x3x8xf32>, %k: tensor<2x4x3x8xf32>, %v: tensor<2x4x3x8xf32>, %shown: tensor<3x3xi1>):
  %inf = graph.constant dense<0xFF800000> : tensor<f32>
  %zero = graph.constant dense<0.0> : tensor<f32>
  %mask = graph.select %shown, %zero, %inf : (tensor<3x3xi1>, tensor<f32>, tensor<f32>) -> tensor<3x3xf32>
  %s = graph.matmul %q, %k {trans_rhs} : (tensor<2x4x3x8xf32>, tensor<2x4x3x8xf32>) -> tensor<2x4x3x3xf32>
  %a = graph.add %s, %mask : (tensor<2x4x3x3xf32>, tensor<3x3xf32>) -> tensor<2x4x3x3xf32>
  %p = graph.softmax %a {axis = 3 : i64, zero_masked} : (tensor<2x4x3x3xf32>) -> tensor<2x4x3x3xf32>
  %y = graph.matmul %p, %v : (tensor<2x4x3x3xf32>, tensor<2x4x3x8xf32>) -> tensor<2x4x3x8xf32>
  graph.return %y : tensor<2x4x3x8xf32>
}

// -----

// transformers' mask of a batch with padding, added: causal, and for each sample which keys there are. A row that both hide as
// a whole is an average, dropped out or not: it stays a sum. With -inf it would be the flag and the bool.
// CHECK-LABEL: inputs = ["padded_batch", "k", "v", "shown"]
// CHECK: %[[A:.*]] = graph.and
// CHECK: %[[M:.*]] = graph.select %[[A]], {{.*}} -> tensor<2x1x3x3xf32>
// CHECK: graph.attention %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}, %[[M]] {scale = 1.000000e+00 : f64}
// CHECK-NOT: graph.reduce_mean
// CHECK: graph.attention %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}, %[[M]] {dropout = 1.000000e-01 : f64
graph.program @micro phase = micro inputs = ["padded_batch", "k", "v", "shown"] {
^bb0(%q: tensor<2x4x3x8xf32>, %k: tensor<2x4x3x8xf32>, %v: tensor<2x4x3x8xf32>, %shown: tensor<2x1x1x3xi1>):
  %low = graph.constant dense<-3.40282347E+38> : tensor<f32>
  %zero = graph.constant dense<0.0> : tensor<f32>
  %causal = graph.constant dense<[[[[true, false, false], [true, true, false], [true, true, true]]]]> : tensor<1x1x3x3xi1>
  %and = graph.and %causal, %shown : (tensor<1x1x3x3xi1>, tensor<2x1x1x3xi1>) -> tensor<2x1x3x3xi1>
  %mask = graph.select %and, %zero, %low : (tensor<2x1x3x3xi1>, tensor<f32>, tensor<f32>) -> tensor<2x1x3x3xf32>
  %s = graph.matmul %q, %k {trans_rhs} : (tensor<2x4x3x8xf32>, tensor<2x4x3x8xf32>) -> tensor<2x4x3x3xf32>
  %a = graph.add %s, %mask : (tensor<2x4x3x3xf32>, tensor<2x1x3x3xf32>) -> tensor<2x4x3x3xf32>
  %p = graph.softmax %a {axis = 3 : i64} : (tensor<2x4x3x3xf32>) -> tensor<2x4x3x3xf32>
  %y = graph.matmul %p, %v : (tensor<2x4x3x3xf32>, tensor<2x4x3x8xf32>) -> tensor<2x4x3x8xf32>
  %s2 = graph.matmul %y, %k {trans_rhs} : (tensor<2x4x3x8xf32>, tensor<2x4x3x8xf32>) -> tensor<2x4x3x3xf32>
  %a2 = graph.add %s2, %mask : (tensor<2x4x3x3xf32>, tensor<2x1x3x3xf32>) -> tensor<2x4x3x3xf32>
  %p2 = graph.softmax %a2 {axis = 3 : i64} : (tensor<2x4x3x3xf32>) -> tensor<2x4x3x3xf32>
  %d, %m = graph.dropout %p2 {ratio = 0.1 : f64, id = 0 : i64} : (tensor<2x4x3x3xf32>) -> (tensor<2x4x3x3xf32>, tensor<2x4x3x3xi1>)
  %z = graph.matmul %d, %v : (tensor<2x4x3x3xf32>, tensor<2x4x3x8xf32>) -> tensor<2x4x3x8xf32>
  graph.return %z : tensor<2x4x3x8xf32>
}

// -----

// What only broadcasts is not expanded: a bool that is true for all queries, and a float mask of it; of sdpa with samples'
// padding the causal part is the flag.
// CHECK-LABEL: inputs = ["broadcast", "k", "v", "shown"]
// CHECK: graph.attention %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}, %arg3 {causal, scale = 1.000000e+00 : f64}
// CHECK: %[[M:.*]] = graph.select %arg3, {{.*}} -> tensor<2x1x1x3xf32>
// CHECK: graph.attention %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}, %[[M]] {scale = 1.000000e+00 : f64}
graph.program @micro phase = micro inputs = ["broadcast", "k", "v", "shown"] {
^bb0(%q: tensor<2x4x3x8xf32>, %k: tensor<2x4x3x8xf32>, %v: tensor<2x4x3x8xf32>, %shown: tensor<2x1x1x3xi1>):
  %low = graph.constant dense<-3.40282347E+38> : tensor<f32>
  %zero = graph.constant dense<0.0> : tensor<f32>
  %causal = graph.constant dense<[[[[true, false, false], [true, true, false], [true, true, true]]]]> : tensor<1x1x3x3xi1>
  %all = graph.constant dense<true> : tensor<1x1x3x1xi1>
  %both = graph.and %shown, %causal : (tensor<2x1x1x3xi1>, tensor<1x1x3x3xi1>) -> tensor<2x1x3x3xi1>
  %y, %lse = graph.attention %q, %k, %v, %both {scale = 1.0 : f64} : (tensor<2x4x3x8xf32>, tensor<2x4x3x8xf32>, tensor<2x4x3x8xf32>, tensor<2x1x3x3xi1>) -> (tensor<2x4x3x8xf32>, tensor<2x4x3xf32>)
  %and = graph.and %all, %shown : (tensor<1x1x3x1xi1>, tensor<2x1x1x3xi1>) -> tensor<2x1x3x3xi1>
  %mask = graph.select %and, %zero, %low : (tensor<2x1x3x3xi1>, tensor<f32>, tensor<f32>) -> tensor<2x1x3x3xf32>
  %s = graph.matmul %y, %k {trans_rhs} : (tensor<2x4x3x8xf32>, tensor<2x4x3x8xf32>) -> tensor<2x4x3x3xf32>
  %a = graph.add %s, %mask : (tensor<2x4x3x3xf32>, tensor<2x1x3x3xf32>) -> tensor<2x4x3x3xf32>
  %p = graph.softmax %a {axis = 3 : i64} : (tensor<2x4x3x3xf32>) -> tensor<2x4x3x3xf32>
  %z = graph.matmul %p, %v : (tensor<2x4x3x3xf32>, tensor<2x4x3x8xf32>) -> tensor<2x4x3x8xf32>
  graph.return %z : tensor<2x4x3x8xf32>
}

// -----

// Scores that are filled where a mask of such numbers is added, too, are -inf there: a flag beside the mask (GPT-Neo). What a
// fill alone hides, as a window, stays a fill: a row that shows no other key has no gradient of it.
// CHECK-LABEL: inputs = ["filled", "k", "v", "shown"]
// CHECK: %[[MASK:.*]] = graph.select {{.*}} -> tensor<2x1x3x3xf32>
// CHECK: graph.attention %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}, %[[MASK]] {causal, scale = 1.000000e+00 : f64}
// CHECK-NOT: graph.attention
// CHECK: graph.softmax
graph.program @micro phase = micro inputs = ["filled", "k", "v", "shown"] {
^bb0(%q: tensor<2x4x3x8xf32>, %k: tensor<2x4x3x8xf32>, %v: tensor<2x4x3x8xf32>, %shown: tensor<2x1x1x3xi1>):
  %low = graph.constant dense<-3.40282347E+38> : tensor<f32>
  %zero = graph.constant dense<0.0> : tensor<f32>
  %causal = graph.constant dense<[[[[true, false, false], [true, true, false], [true, true, true]]]]> : tensor<1x1x3x3xi1>
  %window = graph.constant dense<[[[[true, false, false], [true, true, false], [false, true, true]]]]> : tensor<1x1x3x3xi1>
  %both = graph.and %causal, %shown : (tensor<1x1x3x3xi1>, tensor<2x1x1x3xi1>) -> tensor<2x1x3x3xi1>
  %mask = graph.select %both, %zero, %low : (tensor<2x1x3x3xi1>, tensor<f32>, tensor<f32>) -> tensor<2x1x3x3xf32>
  %s = graph.matmul %q, %k {trans_rhs} : (tensor<2x4x3x8xf32>, tensor<2x4x3x8xf32>) -> tensor<2x4x3x3xf32>
  %f = graph.select %causal, %s, %low : (tensor<1x1x3x3xi1>, tensor<2x4x3x3xf32>, tensor<f32>) -> tensor<2x4x3x3xf32>
  %a = graph.add %f, %mask : (tensor<2x4x3x3xf32>, tensor<2x1x3x3xf32>) -> tensor<2x4x3x3xf32>
  %p = graph.softmax %a {axis = 3 : i64} : (tensor<2x4x3x3xf32>) -> tensor<2x4x3x3xf32>
  %y = graph.matmul %p, %v : (tensor<2x4x3x3xf32>, tensor<2x4x3x8xf32>) -> tensor<2x4x3x8xf32>
  %s2 = graph.matmul %y, %k {trans_rhs} : (tensor<2x4x3x8xf32>, tensor<2x4x3x8xf32>) -> tensor<2x4x3x3xf32>
  %f2 = graph.select %window, %s2, %low : (tensor<1x1x3x3xi1>, tensor<2x4x3x3xf32>, tensor<f32>) -> tensor<2x4x3x3xf32>
  %a2 = graph.add %f2, %mask : (tensor<2x4x3x3xf32>, tensor<2x1x3x3xf32>) -> tensor<2x4x3x3xf32>
  %p2 = graph.softmax %a2 {axis = 3 : i64} : (tensor<2x4x3x3xf32>) -> tensor<2x4x3x3xf32>
  %z = graph.matmul %p2, %v : (tensor<2x4x3x3xf32>, tensor<2x4x3x8xf32>) -> tensor<2x4x3x8xf32>
  graph.return %z : tensor<2x4x3x8xf32>
}
