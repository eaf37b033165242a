// RUN: zero-opt %s --raise-composites --split-input-file | FileCheck %s

// Eager: scores scaled, a mask from data added.
// CHECK-LABEL: inputs = ["q", "k", "v", "mask"]
// CHECK: ^bb0(%[[Q:.*]]: tensor<2x4x3x8xf32>, %[[K:.*]]: tensor<2x4x3x8xf32>, %[[V:.*]]: tensor<2x4x3x8xf32>, %[[M:.*]]: tensor<2x1x3x3xf32>)
// CHECK: %[[Y:.*]], %{{.*}} = graph.attention %[[Q]], %[[K]], %[[V]], %[[M]] {scale = 2.500000e-01 : f64}
// CHECK-NEXT: graph.return %[[Y]]
graph.program @micro phase = micro inputs = ["q", "k", "v", "mask"] {
^bb0(%q: tensor<2x4x3x8xf32>, %k: tensor<2x4x3x8xf32>, %v: tensor<2x4x3x8xf32>, %mask: tensor<2x1x3x3xf32>):
  %four = graph.constant dense<4.0> : tensor<f32>
  %t = graph.transpose %k {permutation = array<i64: 0, 1, 3, 2>} : (tensor<2x4x3x8xf32>) -> tensor<2x4x8x3xf32>
  %s = graph.matmul %q, %t : (tensor<2x4x3x8xf32>, tensor<2x4x8x3xf32>) -> tensor<2x4x3x3xf32>
  %d = graph.div %s, %four : (tensor<2x4x3x3xf32>, tensor<f32>) -> tensor<2x4x3x3xf32>
  %a = graph.add %d, %mask : (tensor<2x4x3x3xf32>, tensor<2x1x3x3xf32>) -> tensor<2x4x3x3xf32>
  %p = graph.softmax %a {axis = 3 : i64} : (tensor<2x4x3x3xf32>) -> tensor<2x4x3x3xf32>
  %y = graph.matmul %p, %v : (tensor<2x4x3x3xf32>, tensor<2x4x3x8xf32>) -> tensor<2x4x3x8xf32>
  graph.return %y : tensor<2x4x3x8xf32>
}

// -----

// torch's sdpa before opset 23: the scale's root on both sides, causal through Trilu, Equal and Where.
// CHECK-LABEL: inputs = ["causal", "k", "v"]
// CHECK: ^bb0(%[[Q:.*]]: tensor<2x4x3x8xf32>, %[[K:.*]]: tensor<2x3x4x8xf32>, %[[V:.*]]: tensor<2x4x3x8xf32>)
// CHECK: %[[KT:.*]] = graph.transpose %[[K]] {permutation = array<i64: 0, 2, 1, 3>}
// CHECK: graph.attention %[[Q]], %[[KT]], %[[V]] {causal, scale = 2.500000e-01 : f64}
graph.program @micro phase = micro inputs = ["causal", "k", "v"] {
^bb0(%q: tensor<2x4x3x8xf32>, %k: tensor<2x3x4x8xf32>, %v: tensor<2x4x3x8xf32>):
  %half = graph.constant dense<0.5> : tensor<1xf32>
  %rows = graph.constant dense<[[0], [1], [2]]> : tensor<3x1xi64>
  %columns = graph.constant dense<[0, 1, 2]> : tensor<3xi64>
  %ones = graph.constant dense<1.0> : tensor<3x3xf32>
  %zero = graph.constant dense<0.0> : tensor<f32>
  %low = graph.constant dense<0xFF800000> : tensor<f32>
  %le = graph.less_equal %columns, %rows : (tensor<3xi64>, tensor<3x1xi64>) -> tensor<3x3xi1>
  %tril = graph.select %le, %ones, %zero : (tensor<3x3xi1>, tensor<3x3xf32>, tensor<f32>) -> tensor<3x3xf32>
  %out = graph.equal %tril, %zero : (tensor<3x3xf32>, tensor<f32>) -> tensor<3x3xi1>
  %mask = graph.select %out, %low, %zero : (tensor<3x3xi1>, tensor<f32>, tensor<f32>) -> tensor<3x3xf32>
  %qs = graph.mul %q, %half : (tensor<2x4x3x8xf32>, tensor<1xf32>) -> tensor<2x4x3x8xf32>
  %t = graph.transpose %k {permutation = array<i64: 0, 2, 3, 1>} : (tensor<2x3x4x8xf32>) -> tensor<2x4x8x3xf32>
  %ks = graph.mul %t, %half : (tensor<2x4x8x3xf32>, tensor<1xf32>) -> tensor<2x4x8x3xf32>
  %s = graph.matmul %qs, %ks : (tensor<2x4x3x8xf32>, tensor<2x4x8x3xf32>) -> tensor<2x4x3x3xf32>
  %a = graph.add %s, %mask : (tensor<2x4x3x3xf32>, tensor<3x3xf32>) -> tensor<2x4x3x3xf32>
  %p = graph.softmax %a {axis = 3 : i64} : (tensor<2x4x3x3xf32>) -> tensor<2x4x3x3xf32>
  %y = graph.matmul %p, %v : (tensor<2x4x3x3xf32>, tensor<2x4x3x8xf32>) -> tensor<2x4x3x8xf32>
  graph.return %y : tensor<2x4x3x8xf32>
}

// -----

// Repeated keys and values are grouped queries; 0 and -inf by a bool are the bool.
// CHECK-LABEL: inputs = ["grouped", "k", "v", "keep"]
// CHECK: ^bb0(%[[Q:.*]]: tensor<2x4x3x8xf32>, %[[K:.*]]: tensor<2x2x3x8xf32>, %[[V:.*]]: tensor<2x2x3x8xf32>, %[[M:.*]]: tensor<2x1x3x3xi1>)
// CHECK: graph.attention %[[Q]], %[[K]], %[[V]], %[[M]] {scale = 1.000000e+00 : f64}
graph.program @micro phase = micro inputs = ["grouped", "k", "v", "keep"] {
^bb0(%q: tensor<2x4x3x8xf32>, %k: tensor<2x2x3x8xf32>, %v: tensor<2x2x3x8xf32>, %keep: tensor<2x1x3x3xi1>):
  %zero = graph.constant dense<0.0> : tensor<f32>
  %low = graph.constant dense<0xFF800000> : tensor<f32>
  %mask = graph.select %keep, %zero, %low : (tensor<2x1x3x3xi1>, tensor<f32>, tensor<f32>) -> tensor<2x1x3x3xf32>
  %k1 = graph.reshape %k {shape = array<i64: 2, 2, 1, 3, 8>} : (tensor<2x2x3x8xf32>) -> tensor<2x2x1x3x8xf32>
  %k2 = graph.expand %k1 {shape = array<i64: 2, 2, 2, 3, 8>} : (tensor<2x2x1x3x8xf32>) -> tensor<2x2x2x3x8xf32>
  %k3 = graph.reshape %k2 {shape = array<i64: 2, 4, 3, 8>} : (tensor<2x2x2x3x8xf32>) -> tensor<2x4x3x8xf32>
  %v1 = graph.reshape %v {shape = array<i64: 2, 2, 1, 3, 8>} : (tensor<2x2x3x8xf32>) -> tensor<2x2x1x3x8xf32>
  %v2 = graph.expand %v1 {shape = array<i64: 2, 2, 2, 3, 8>} : (tensor<2x2x1x3x8xf32>) -> tensor<2x2x2x3x8xf32>
  %v3 = graph.reshape %v2 {shape = array<i64: 2, 4, 3, 8>} : (tensor<2x2x2x3x8xf32>) -> tensor<2x4x3x8xf32>
  %s = graph.matmul %q, %k3 {trans_rhs} : (tensor<2x4x3x8xf32>, tensor<2x4x3x8xf32>) -> tensor<2x4x3x3xf32>
  %a = graph.add %s, %mask : (tensor<2x4x3x3xf32>, tensor<2x1x3x3xf32>) -> tensor<2x4x3x3xf32>
  %p = graph.softmax %a {axis = 3 : i64} : (tensor<2x4x3x3xf32>) -> tensor<2x4x3x3xf32>
  %y = graph.matmul %p, %v3 : (tensor<2x4x3x3xf32>, tensor<2x4x3x8xf32>) -> tensor<2x4x3x8xf32>
  graph.return %y : tensor<2x4x3x8xf32>
}

// -----

// T5: no scale, and a table of relative positions that is trained.
// CHECK-LABEL: inputs = ["table", "k", "v"]
// CHECK: %[[T:.*]] = graph.read @table
// CHECK: graph.attention %{{.*}}, %{{.*}}, %{{.*}}, %[[T]] {scale = 1.000000e+00 : f64}
// CHECK-NOT: graph.softmax
graph.parameter @table : tensor<1x4x3x3xf32> role = trainable
graph.program @micro phase = micro inputs = ["table", "k", "v"] {
^bb0(%q: tensor<2x4x3x8xf32>, %k: tensor<2x4x3x8xf32>, %v: tensor<2x4x3x8xf32>):
  %bias = graph.read @table : tensor<1x4x3x3xf32>
  %s = graph.matmul %q, %k {trans_rhs} : (tensor<2x4x3x8xf32>, tensor<2x4x3x8xf32>) -> tensor<2x4x3x3xf32>
  %a = graph.add %s, %bias : (tensor<2x4x3x3xf32>, tensor<1x4x3x3xf32>) -> tensor<2x4x3x3xf32>
  %p = graph.softmax %a {axis = 3 : i64} : (tensor<2x4x3x3xf32>) -> tensor<2x4x3x3xf32>
  %y = graph.matmul %p, %v : (tensor<2x4x3x3xf32>, tensor<2x4x3x8xf32>) -> tensor<2x4x3x8xf32>
  graph.return %y : tensor<2x4x3x8xf32>
}

// -----

// What hides padding is added to the table.
// CHECK-LABEL: inputs = ["both", "k", "v", "padding"]
// CHECK: ^bb0(%[[Q:.*]]: tensor<2x4x3x8xf32>, %[[K:.*]]: tensor<2x4x3x8xf32>, %[[V:.*]]: tensor<2x4x3x8xf32>, %[[P:.*]]: tensor<2x1x3x3xf32>)
// CHECK: %[[T:.*]] = graph.read @positions
// CHECK: %[[M:.*]] = graph.add %[[T]], %[[P]]
// CHECK: graph.attention %[[Q]], %[[K]], %[[V]], %[[M]] {scale = 5.000000e-01 : f64}
// CHECK-NOT: graph.softmax
graph.parameter @positions : tensor<1x4x3x3xf32> role = trainable
graph.program @micro phase = micro inputs = ["both", "k", "v", "padding"] {
^bb0(%q: tensor<2x4x3x8xf32>, %k: tensor<2x4x3x8xf32>, %v: tensor<2x4x3x8xf32>, %padding: tensor<2x1x3x3xf32>):
  %half = graph.constant dense<0.5> : tensor<f32>
  %bias = graph.read @positions : tensor<1x4x3x3xf32>
  %s = graph.matmul %q, %k {trans_rhs} : (tensor<2x4x3x8xf32>, tensor<2x4x3x8xf32>) -> tensor<2x4x3x3xf32>
  %h = graph.mul %s, %half : (tensor<2x4x3x3xf32>, tensor<f32>) -> tensor<2x4x3x3xf32>
  %a = graph.add %h, %bias : (tensor<2x4x3x3xf32>, tensor<1x4x3x3xf32>) -> tensor<2x4x3x3xf32>
  %b = graph.add %a, %padding : (tensor<2x4x3x3xf32>, tensor<2x1x3x3xf32>) -> tensor<2x4x3x3xf32>
  %p = graph.softmax %b {axis = 3 : i64} : (tensor<2x4x3x3xf32>) -> tensor<2x4x3x3xf32>
  %y = graph.matmul %p, %v : (tensor<2x4x3x3xf32>, tensor<2x4x3x8xf32>) -> tensor<2x4x3x8xf32>
  graph.return %y : tensor<2x4x3x8xf32>
}

// -----

// Probabilities that are dropped.
// CHECK-LABEL: inputs = ["dropped", "k", "v"]
// CHECK: ^bb0(%[[Q:.*]]: tensor<2x4x3x8xf32>, %[[K:.*]]: tensor<2x4x3x8xf32>, %[[V:.*]]: tensor<2x4x3x8xf32>)
// CHECK: %[[Y:.*]], %{{.*}} = graph.attention %[[Q]], %[[K]], %[[V]] {dropout = 1.000000e-01 : f64, dropout_id = 5 : i64, scale = 1.000000e+00 : f64}
// CHECK-NEXT: graph.return %[[Y]]
graph.program @micro phase = micro inputs = ["dropped", "k", "v"] {
^bb0(%q: tensor<2x4x3x8xf32>, %k: tensor<2x4x3x8xf32>, %v: tensor<2x4x3x8xf32>):
  %s = graph.matmul %q, %k {trans_rhs} : (tensor<2x4x3x8xf32>, tensor<2x4x3x8xf32>) -> tensor<2x4x3x3xf32>
  %p = graph.softmax %s {axis = 3 : i64} : (tensor<2x4x3x3xf32>) -> tensor<2x4x3x3xf32>
  %d, %m = graph.dropout %p {ratio = 0.1 : f64, id = 5 : i64} : (tensor<2x4x3x3xf32>) -> (tensor<2x4x3x3xf32>, tensor<2x4x3x3xi1>)
  %y = graph.matmul %d, %v : (tensor<2x4x3x3xf32>, tensor<2x4x3x8xf32>) -> tensor<2x4x3x8xf32>
  graph.return %y : tensor<2x4x3x8xf32>
}

// -----

// What is trained and broadcast along queries is none: the op has no gradient for it. Nor is one whose dropped probabilities
// somebody else reads.
// CHECK-LABEL: inputs = ["bias", "k", "v"]
// CHECK-NOT: graph.attention
// CHECK: graph.return
graph.parameter @bias : tensor<1x4x1x3xf32> role = trainable
graph.program @micro phase = micro inputs = ["bias", "k", "v"] {
^bb0(%q: tensor<2x4x3x8xf32>, %k: tensor<2x4x3x8xf32>, %v: tensor<2x4x3x8xf32>):
  %bias = graph.read @bias : tensor<1x4x1x3xf32>
  %s = graph.matmul %q, %k {trans_rhs} : (tensor<2x4x3x8xf32>, tensor<2x4x3x8xf32>) -> tensor<2x4x3x3xf32>
  %a = graph.add %s, %bias : (tensor<2x4x3x3xf32>, tensor<1x4x1x3xf32>) -> tensor<2x4x3x3xf32>
  %p = graph.softmax %a {axis = 3 : i64} : (tensor<2x4x3x3xf32>) -> tensor<2x4x3x3xf32>
  %y = graph.matmul %p, %v : (tensor<2x4x3x3xf32>, tensor<2x4x3x8xf32>) -> tensor<2x4x3x8xf32>
  %s2 = graph.matmul %q, %k {trans_rhs} : (tensor<2x4x3x8xf32>, tensor<2x4x3x8xf32>) -> tensor<2x4x3x3xf32>
  %p2 = graph.softmax %s2 {axis = 3 : i64} : (tensor<2x4x3x3xf32>) -> tensor<2x4x3x3xf32>
  %d, %m = graph.dropout %p2 {ratio = 0.1 : f64, id = 0 : i64} : (tensor<2x4x3x3xf32>) -> (tensor<2x4x3x3xf32>, tensor<2x4x3x3xi1>)
  %y2 = graph.matmul %d, %v : (tensor<2x4x3x3xf32>, tensor<2x4x3x8xf32>) -> tensor<2x4x3x8xf32>
  graph.return %y, %y2, %d : tensor<2x4x3x8xf32>, tensor<2x4x3x8xf32>, tensor<2x4x3x3xf32>
}

// -----

// torch.export's sdpa: keys are transposed with their heads joined, a causal mask of each sample.
// CHECK-LABEL: inputs = ["joined", "k", "v"]
// CHECK: ^bb0(%[[Q:.*]]: tensor<2x4x3x8xf32>, %[[K:.*]]: tensor<2x4x3x8xf32>, %[[V:.*]]: tensor<2x4x3x8xf32>)
// CHECK: graph.attention %[[Q]], %[[K]], %[[V]] {causal, scale = 2.500000e-01 : f64}
graph.program @micro phase = micro inputs = ["joined", "k", "v"] {
^bb0(%q: tensor<2x4x3x8xf32>, %k: tensor<2x4x3x8xf32>, %v: tensor<2x4x3x8xf32>):
  %half = graph.constant dense<0.5> : tensor<1xf32>
  %mask = graph.constant dense<[[[[0.0, 0xFF800000, 0xFF800000], [0.0, 0.0, 0xFF800000], [0.0, 0.0, 0.0]]],
      [[[0.0, 0xFF800000, 0xFF800000], [0.0, 0.0, 0xFF800000], [0.0, 0.0, 0.0]]]]> : tensor<2x1x3x3xf32>
  %j = graph.reshape %k {shape = array<i64: 8, 3, 8>} : (tensor<2x4x3x8xf32>) -> tensor<8x3x8xf32>
  %t = graph.transpose %j {permutation = array<i64: 0, 2, 1>} : (tensor<8x3x8xf32>) -> tensor<8x8x3xf32>
  %h = graph.reshape %t {shape = array<i64: 2, 4, 8, 3>} : (tensor<8x8x3xf32>) -> tensor<2x4x8x3xf32>
  %ks = graph.mul %h, %half : (tensor<2x4x8x3xf32>, tensor<1xf32>) -> tensor<2x4x8x3xf32>
  %qs = graph.mul %q, %half : (tensor<2x4x3x8xf32>, tensor<1xf32>) -> tensor<2x4x3x8xf32>
  %s = graph.matmul %qs, %ks : (tensor<2x4x3x8xf32>, tensor<2x4x8x3xf32>) -> tensor<2x4x3x3xf32>
  %a = graph.add %s, %mask : (tensor<2x4x3x3xf32>, tensor<2x1x3x3xf32>) -> tensor<2x4x3x3xf32>
  %p = graph.softmax %a {axis = 3 : i64} : (tensor<2x4x3x3xf32>) -> tensor<2x4x3x3xf32>
  %y = graph.matmul %p, %v : (tensor<2x4x3x3xf32>, tensor<2x4x3x8xf32>) -> tensor<2x4x3x8xf32>
  graph.return %y : tensor<2x4x3x8xf32>
}

// -----

// The same of heads that were repeated before, and a mask that hides nothing.
// CHECK-LABEL: inputs = ["repeated", "k", "v"]
// CHECK: ^bb0(%[[Q:.*]]: tensor<2x4x3x8xf32>, %[[K:.*]]: tensor<2x2x3x8xf32>, %[[V:.*]]: tensor<2x2x3x8xf32>)
// CHECK: graph.attention %[[Q]], %[[K]], %[[V]] {scale = 1.000000e+00 : f64}
graph.program @micro phase = micro inputs = ["repeated", "k", "v"] {
^bb0(%q: tensor<2x4x3x8xf32>, %k: tensor<2x2x3x8xf32>, %v: tensor<2x2x3x8xf32>):
  %mask = graph.constant dense<0.0> : tensor<2x1x3x3xf32>
  %k1 = graph.reshape %k {shape = array<i64: 2, 2, 1, 3, 8>} : (tensor<2x2x3x8xf32>) -> tensor<2x2x1x3x8xf32>
  %k2 = graph.expand %k1 {shape = array<i64: 2, 2, 2, 3, 8>} : (tensor<2x2x1x3x8xf32>) -> tensor<2x2x2x3x8xf32>
  %j = graph.reshape %k2 {shape = array<i64: 8, 3, 8>} : (tensor<2x2x2x3x8xf32>) -> tensor<8x3x8xf32>
  %t = graph.transpose %j {permutation = array<i64: 0, 2, 1>} : (tensor<8x3x8xf32>) -> tensor<8x8x3xf32>
  %h = graph.reshape %t {shape = array<i64: 2, 4, 8, 3>} : (tensor<8x8x3xf32>) -> tensor<2x4x8x3xf32>
  %v1 = graph.reshape %v {shape = array<i64: 2, 2, 1, 3, 8>} : (tensor<2x2x3x8xf32>) -> tensor<2x2x1x3x8xf32>
  %v2 = graph.expand %v1 {shape = array<i64: 2, 2, 2, 3, 8>} : (tensor<2x2x1x3x8xf32>) -> tensor<2x2x2x3x8xf32>
  %v3 = graph.reshape %v2 {shape = array<i64: 2, 4, 3, 8>} : (tensor<2x2x2x3x8xf32>) -> tensor<2x4x3x8xf32>
  %s = graph.matmul %q, %h : (tensor<2x4x3x8xf32>, tensor<2x4x8x3xf32>) -> tensor<2x4x3x3xf32>
  %a = graph.add %s, %mask : (tensor<2x4x3x3xf32>, tensor<2x1x3x3xf32>) -> tensor<2x4x3x3xf32>
  %p = graph.softmax %a {axis = 3 : i64} : (tensor<2x4x3x3xf32>) -> tensor<2x4x3x3xf32>
  %y = graph.matmul %p, %v3 : (tensor<2x4x3x3xf32>, tensor<2x4x3x8xf32>) -> tensor<2x4x3x8xf32>
  graph.return %y : tensor<2x4x3x8xf32>
}

// -----

// BLOOM: products of matrices, a softmax of heads, dropout of its result; the bias of positions is of each head.
// CHECK-LABEL: inputs = ["bloom", "k", "v", "alibi"]
// CHECK: ^bb0(%[[Q:.*]]: tensor<2x4x3x8xf32>, %[[K:.*]]: tensor<2x4x3x8xf32>, %[[V:.*]]: tensor<2x4x3x8xf32>, %[[A:.*]]: tensor<8x1x3xf32>)
// CHECK: %[[M:.*]] = graph.reshape %[[A]] {shape = array<i64: 2, 4, 1, 3>}
// CHECK: %[[Y:.*]], %{{.*}} = graph.attention %[[Q]], %[[K]], %[[V]], %[[M]] {dropout = 1.000000e-01 : f64, dropout_id = 0 : i64, scale = 5.000000e-01 : f64}
// CHECK: graph.reshape %[[Y]] {shape = array<i64: 8, 3, 8>}
graph.program @micro phase = micro inputs = ["bloom", "k", "v", "alibi"] {
^bb0(%q: tensor<2x4x3x8xf32>, %k: tensor<2x4x3x8xf32>, %v: tensor<2x4x3x8xf32>, %alibi: tensor<8x1x3xf32>):
  %half = graph.constant dense<0.5> : tensor<f32>
  %qj = graph.reshape %q {shape = array<i64: 8, 3, 8>} : (tensor<2x4x3x8xf32>) -> tensor<8x3x8xf32>
  %kj = graph.reshape %k {shape = array<i64: 8, 3, 8>} : (tensor<2x4x3x8xf32>) -> tensor<8x3x8xf32>
  %vj = graph.reshape %v {shape = array<i64: 8, 3, 8>} : (tensor<2x4x3x8xf32>) -> tensor<8x3x8xf32>
  %kt = graph.transpose %kj {permutation = array<i64: 0, 2, 1>} : (tensor<8x3x8xf32>) -> tensor<8x8x3xf32>
  %s = graph.matmul %qj, %kt : (tensor<8x3x8xf32>, tensor<8x8x3xf32>) -> tensor<8x3x3xf32>
  %m = graph.mul %s, %half : (tensor<8x3x3xf32>, tensor<f32>) -> tensor<8x3x3xf32>
  %b = graph.add %alibi, %m : (tensor<8x1x3xf32>, tensor<8x3x3xf32>) -> tensor<8x3x3xf32>
  %h = graph.reshape %b {shape = array<i64: 2, 4, 3, 3>} : (tensor<8x3x3xf32>) -> tensor<2x4x3x3xf32>
  %p = graph.softmax %h {axis = 3 : i64} : (tensor<2x4x3x3xf32>) -> tensor<2x4x3x3xf32>
  %d, %dm = graph.dropout %p {ratio = 0.1 : f64, id = 0 : i64} : (tensor<2x4x3x3xf32>) -> (tensor<2x4x3x3xf32>, tensor<2x4x3x3xi1>)
  %j = graph.reshape %d {shape = array<i64: 8, 3, 3>} : (tensor<2x4x3x3xf32>) -> tensor<8x3x3xf32>
  %y = graph.matmul %j, %vj : (tensor<8x3x3xf32>, tensor<8x3x8xf32>) -> tensor<8x3x8xf32>
  graph.return %y : tensor<8x3x8xf32>
}

// -----

// nn.MultiheadAttention that returns its weights: nobody knows how many heads there are.
// CHECK-LABEL: inputs = ["bmm", "k", "v"]
// CHECK: %[[Y:.*]], %{{.*}} = graph.attention %{{.*}}, %{{.*}}, %{{.*}} {causal, dropout = 1.000000e-01 : f64, dropout_id = 0 : i64, scale = 5.000000e-01 : f64} : (tensor<8x1x3x8xf32>,
// CHECK: graph.reshape %[[Y]] {shape = array<i64: 8, 3, 8>}
graph.program @micro phase = micro inputs = ["bmm", "k", "v"] {
^bb0(%q: tensor<8x3x8xf32>, %k: tensor<8x3x8xf32>, %v: tensor<8x3x8xf32>):
  %half = graph.constant dense<0.5> : tensor<f32>
  %mask = graph.constant dense<[[[0.0, 0xFF800000, 0xFF800000], [0.0, 0.0, 0xFF800000], [0.0, 0.0, 0.0]]]> : tensor<1x3x3xf32>
  %qs = graph.mul %q, %half : (tensor<8x3x8xf32>, tensor<f32>) -> tensor<8x3x8xf32>
  %s = graph.matmul %qs, %k {trans_rhs} : (tensor<8x3x8xf32>, tensor<8x3x8xf32>) -> tensor<8x3x3xf32>
  %b = graph.add %mask, %s : (tensor<1x3x3xf32>, tensor<8x3x3xf32>) -> tensor<8x3x3xf32>
  %p = graph.softmax %b {axis = 2 : i64} : (tensor<8x3x3xf32>) -> tensor<8x3x3xf32>
  %d, %dm = graph.dropout %p {ratio = 0.1 : f64, id = 0 : i64} : (tensor<8x3x3xf32>) -> (tensor<8x3x3xf32>, tensor<8x3x3xi1>)
  %y = graph.matmul %d, %v : (tensor<8x3x3xf32>, tensor<8x3x8xf32>) -> tensor<8x3x8xf32>
  graph.return %y : tensor<8x3x8xf32>
}

// -----

// ALiBi: what is not causal is dropped from the sum of scores and a bias for each head; all of it scaled (Transformer-XL).
// CHECK-LABEL: inputs = ["biased", "k", "v"]
// CHECK: %[[B:.*]] = graph.mul %{{.*}}, %{{.*}} : (tensor<4x1x3xf32>, tensor<f32>)
// CHECK: %[[M:.*]] = graph.reshape %[[B]] {shape = array<i64: 1, 4, 1, 3>}
// CHECK: graph.attention %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}, %[[M]] {causal, scale = 5.000000e-01 : f64}
graph.program @micro phase = micro inputs = ["biased", "k", "v"] {
^bb0(%q: tensor<2x4x3x8xf32>, %k: tensor<2x4x3x8xf32>, %v: tensor<2x4x3x8xf32>):
  %low = graph.constant dense<0xFF800000> : tensor<f32>
  %two = graph.constant dense<2.0> : tensor<f32>
  %bias = graph.constant dense<[[[0.0, 1.0, 2.0]], [[0.0, 2.0, 4.0]], [[0.0, 3.0, 6.0]], [[0.0, 4.0, 8.0]]]> : tensor<4x1x3xf32>
  %later = graph.constant dense<[[false, true, true], [false, false, true], [false, false, false]]> : tensor<3x3xi1>
  %s = graph.matmul %q, %k {trans_rhs} : (tensor<2x4x3x8xf32>, tensor<2x4x3x8xf32>) -> tensor<2x4x3x3xf32>
  %b = graph.add %s, %bias : (tensor<2x4x3x3xf32>, tensor<4x1x3xf32>) -> tensor<2x4x3x3xf32>
  %d = graph.div %b, %two : (tensor<2x4x3x3xf32>, tensor<f32>) -> tensor<2x4x3x3xf32>
  %a = graph.select %later, %low, %d : (tensor<3x3xi1>, tensor<f32>, tensor<2x4x3x3xf32>) -> tensor<2x4x3x3xf32>
  %p = graph.softmax %a {axis = 3 : i64} : (tensor<2x4x3x3xf32>) -> tensor<2x4x3x3xf32>
  %y = graph.matmul %p, %v : (tensor<2x4x3x3xf32>, tensor<2x4x3x8xf32>) -> tensor<2x4x3x8xf32>
  graph.return %y : tensor<2x4x3x8xf32>
}

// -----

// One head of keys and values for all (multi-query attention), a scale of each head that is trained (Swin's).
// CHECK-LABEL: inputs = ["multi_query", "k", "v"]
// CHECK: %[[T:.*]] = graph.read @temperature
// CHECK: %[[Q:.*]] = graph.mul %arg0, %[[T]]
// CHECK: graph.attention %[[Q]], %arg1, %arg2 {scale = 5.000000e-01 : f64}
graph.parameter @temperature : tensor<4x1x1xf32> role = trainable
graph.program @micro phase = micro inputs = ["multi_query", "k", "v"] {
^bb0(%q: tensor<2x4x3x8xf32>, %k: tensor<2x1x3x8xf32>, %v: tensor<2x1x3x8xf32>):
  %half = graph.constant dense<0.5> : tensor<f32>
  %t = graph.read @temperature : tensor<4x1x1xf32>
  %s = graph.matmul %q, %k {trans_rhs} : (tensor<2x4x3x8xf32>, tensor<2x1x3x8xf32>) -> tensor<2x4x3x3xf32>
  %m = graph.mul %s, %half : (tensor<2x4x3x3xf32>, tensor<f32>) -> tensor<2x4x3x3xf32>
  %a = graph.mul %t, %m : (tensor<4x1x1xf32>, tensor<2x4x3x3xf32>) -> tensor<2x4x3x3xf32>
  %p = graph.softmax %a {axis = 3 : i64} : (tensor<2x4x3x3xf32>) -> tensor<2x4x3x3xf32>
  %y = graph.matmul %p, %v : (tensor<2x4x3x3xf32>, tensor<2x1x3x8xf32>) -> tensor<2x4x3x8xf32>
  graph.return %y : tensor<2x4x3x8xf32>
}

// -----

// Pictures: channels before positions, everywhere; k q^T transposed.
// CHECK-LABEL: inputs = ["channels", "k", "v"]
// CHECK-DAG: %[[Q:.*]] = graph.transpose %arg0 {permutation = array<i64: 0, 1, 3, 2>}
// CHECK-DAG: %[[K:.*]] = graph.transpose %arg1 {permutation = array<i64: 0, 1, 3, 2>}
// CHECK-DAG: %[[V:.*]] = graph.transpose %arg2 {permutation = array<i64: 0, 1, 3, 2>}
// CHECK: %[[Y:.*]], %{{.*}} = graph.attention %[[Q]], %[[K]], %[[V]] {scale = 1.000000e+00 : f64}
// CHECK: graph.transpose %[[Y]] {permutation = array<i64: 0, 1, 3, 2>}
graph.program @micro phase = micro inputs = ["channels", "k", "v"] {
^bb0(%q: tensor<2x4x8x3xf32>, %k: tensor<2x4x8x3xf32>, %v: tensor<2x4x8x3xf32>):
  %s = graph.matmul %k, %q {trans_lhs} : (tensor<2x4x8x3xf32>, tensor<2x4x8x3xf32>) -> tensor<2x4x3x3xf32>
  %t = graph.transpose %s {permutation = array<i64: 0, 1, 3, 2>} : (tensor<2x4x3x3xf32>) -> tensor<2x4x3x3xf32>
  %p = graph.softmax %t {axis = 3 : i64} : (tensor<2x4x3x3xf32>) -> tensor<2x4x3x3xf32>
  %y = graph.matmul %v, %p {trans_rhs} : (tensor<2x4x8x3xf32>, tensor<2x4x3x3xf32>) -> tensor<2x4x8x3xf32>
  graph.return %y : tensor<2x4x8x3xf32>
}

// -----

// Windows, or axes, are samples of their own; a mask for each window is one for each sample's.
// CHECK-LABEL: inputs = ["windows", "k", "v", "m"]
// CHECK-DAG: %[[Q:.*]] = graph.reshape %arg0 {shape = array<i64: 10, 4, 3, 8>}
// CHECK-DAG: %[[E:.*]] = graph.expand %{{.*}} {shape = array<i64: 2, 5, 1, 3, 3>}
// CHECK-DAG: %[[M:.*]] = graph.reshape %[[E]] {shape = array<i64: 10, 1, 3, 3>}
// CHECK: %[[Y:.*]], %{{.*}} = graph.attention %[[Q]], %{{[^,]*}}, %{{[^,]*}}, %[[M]] {scale = 1.000000e+00 : f64}
// CHECK: graph.reshape %[[Y]] {shape = array<i64: 2, 5, 4, 3, 8>}
graph.program @micro phase = micro inputs = ["windows", "k", "v", "m"] {
^bb0(%q: tensor<2x5x4x3x8xf32>, %k: tensor<2x5x4x3x8xf32>, %v: tensor<2x5x4x3x8xf32>, %m: tensor<5x1x3x3xf32>):
  %s = graph.matmul %q, %k {trans_rhs} : (tensor<2x5x4x3x8xf32>, tensor<2x5x4x3x8xf32>) -> tensor<2x5x4x3x3xf32>
  %a = graph.add %s, %m : (tensor<2x5x4x3x3xf32>, tensor<5x1x3x3xf32>) -> tensor<2x5x4x3x3xf32>
  %p = graph.softmax %a {axis = 4 : i64} : (tensor<2x5x4x3x3xf32>) -> tensor<2x5x4x3x3xf32>
  %y = graph.matmul %p, %v : (tensor<2x5x4x3x3xf32>, tensor<2x5x4x3x8xf32>) -> tensor<2x5x4x3x8xf32>
  graph.return %y : tensor<2x5x4x3x8xf32>
}

// -----

// OPT's and BART's: heads are joined for the products and taken apart for the mask.
// CHECK-LABEL: inputs = ["apart", "k", "v", "mask"]
// CHECK: ^bb0(%[[Q:.*]]: tensor<2x4x3x8xf32>, %[[K:.*]]: tensor<2x4x3x8xf32>, %[[V:.*]]: tensor<2x4x3x8xf32>, %[[M:.*]]: tensor<2x1x3x3xf32>)
// CHECK: %[[Y:.*]], %{{.*}} = graph.attention %[[Q]], %[[K]], %[[V]], %[[M]] {scale = 1.000000e+00 : f64}
// CHECK-NOT: graph.softmax
graph.program @micro phase = micro inputs = ["apart", "k", "v", "mask"] {
^bb0(%q: tensor<2x4x3x8xf32>, %k: tensor<2x4x3x8xf32>, %v: tensor<2x4x3x8xf32>, %mask: tensor<2x1x3x3xf32>):
  %qj = graph.reshape %q {shape = array<i64: 8, 3, 8>} : (tensor<2x4x3x8xf32>) -> tensor<8x3x8xf32>
  %kj = graph.reshape %k {shape = array<i64: 8, 3, 8>} : (tensor<2x4x3x8xf32>) -> tensor<8x3x8xf32>
  %vj = graph.reshape %v {shape = array<i64: 8, 3, 8>} : (tensor<2x4x3x8xf32>) -> tensor<8x3x8xf32>
  %s = graph.matmul %qj, %kj {trans_rhs} : (tensor<8x3x8xf32>, tensor<8x3x8xf32>) -> tensor<8x3x3xf32>
  %h = graph.reshape %s {shape = array<i64: 2, 4, 3, 3>} : (tensor<8x3x3xf32>) -> tensor<2x4x3x3xf32>
  %a = graph.add %h, %mask : (tensor<2x4x3x3xf32>, tensor<2x1x3x3xf32>) -> tensor<2x4x3x3xf32>
  %j = graph.reshape %a {shape = array<i64: 8, 3, 3>} : (tensor<2x4x3x3xf32>) -> tensor<8x3x3xf32>
  %p = graph.softmax %j {axis = 2 : i64} : (tensor<8x3x3xf32>) -> tensor<8x3x3xf32>
  %y = graph.matmul %p, %vj : (tensor<8x3x3xf32>, tensor<8x3x8xf32>) -> tensor<8x3x8xf32>
  graph.return %y : tensor<8x3x8xf32>
}

// -----

// The probabilities of such a row are dropped out too: then nothing stands for it.
// CHECK-LABEL: inputs = ["dropped_out", "k", "v", "keep"]
// CHECK-NOT: graph.attention
// CHECK: graph.return
graph.program @micro phase = micro inputs = ["dropped_out", "k", "v", "keep"] {
^bb0(%q: tensor<2x4x3x8xf32>, %k: tensor<2x4x3x8xf32>, %v: tensor<2x4x3x8xf32>, %keep: tensor<2x1x1x3xi1>):
  %low = graph.constant dense<-1.0e9> : tensor<f32>
  %s = graph.matmul %q, %k {trans_rhs} : (tensor<2x4x3x8xf32>, tensor<2x4x3x8xf32>) -> tensor<2x4x3x3xf32>
  %a = graph.select %keep, %s, %low : (tensor<2x1x1x3xi1>, tensor<2x4x3x3xf32>, tensor<f32>) -> tensor<2x4x3x3xf32>
  %p = graph.softmax %a {axis = 3 : i64} : (tensor<2x4x3x3xf32>) -> tensor<2x4x3x3xf32>
  %d, %m = graph.dropout %p {ratio = 0.1 : f64, id = 0 : i64} : (tensor<2x4x3x3xf32>) -> (tensor<2x4x3x3xf32>, tensor<2x4x3x3xi1>)
  %y = graph.matmul %d, %v : (tensor<2x4x3x3xf32>, tensor<2x4x3x8xf32>) -> tensor<2x4x3x8xf32>
  graph.return %y : tensor<2x4x3x8xf32>
}

// -----

// Swin's shifted windows: samples and windows are taken apart for a mask of each window. Queries of all samples (Perceiver).
// CHECK-LABEL: inputs = ["latents", "k", "v", "windows"]
// CHECK-DAG: %[[Q:.*]] = graph.expand %arg0 {shape = array<i64: 4, 4, 3, 8>}
// CHECK-DAG: %[[E:.*]] = graph.expand %arg3 {shape = array<i64: 2, 2, 1, 3, 3>}
// CHECK-DAG: %[[M:.*]] = graph.reshape %[[E]] {shape = array<i64: 4, 1, 3, 3>}
// CHECK: graph.attention %[[Q]], %arg1, %arg2, %[[M]] {scale = 1.000000e+00 : f64}
graph.program @micro phase = micro inputs = ["latents", "k", "v", "windows"] {
^bb0(%q: tensor<1x4x3x8xf32>, %k: tensor<4x4x3x8xf32>, %v: tensor<4x4x3x8xf32>, %m: tensor<1x2x1x3x3xf32>):
  %s = graph.matmul %q, %k {trans_rhs} : (tensor<1x4x3x8xf32>, tensor<4x4x3x8xf32>) -> tensor<4x4x3x3xf32>
  %w = graph.reshape %s {shape = array<i64: 2, 2, 4, 3, 3>} : (tensor<4x4x3x3xf32>) -> tensor<2x2x4x3x3xf32>
  %a = graph.add %w, %m : (tensor<2x2x4x3x3xf32>, tensor<1x2x1x3x3xf32>) -> tensor<2x2x4x3x3xf32>
  %j = graph.reshape %a {shape = array<i64: 4, 4, 3, 3>} : (tensor<2x2x4x3x3xf32>) -> tensor<4x4x3x3xf32>
  %p = graph.softmax %j {axis = 3 : i64} : (tensor<4x4x3x3xf32>) -> tensor<4x4x3x3xf32>
  %y = graph.matmul %p, %v : (tensor<4x4x3x3xf32>, tensor<4x4x3x8xf32>) -> tensor<4x4x3x8xf32>
  graph.return %y : tensor<4x4x3x8xf32>
}

// -----

// A temperature that is trained divides the queries; one for each key stays.
// CHECK-LABEL: inputs = ["temperature", "k", "v", "t"]
// CHECK: %[[R:.*]] = graph.reciprocal %arg3
// CHECK: %[[Q:.*]] = graph.mul %arg0, %[[R]]
// CHECK: graph.attention %[[Q]], %arg1, %arg2 {scale = 1.000000e+00 : f64}
// CHECK: graph.div
// CHECK: graph.softmax
graph.program @micro phase = micro inputs = ["temperature", "k", "v", "t"] {
^bb0(%q: tensor<2x4x3x8xf32>, %k: tensor<2x4x3x8xf32>, %v: tensor<2x4x3x8xf32>, %t: tensor<4x1x1xf32>):
  %s = graph.matmul %q, %k {trans_rhs} : (tensor<2x4x3x8xf32>, tensor<2x4x3x8xf32>) -> tensor<2x4x3x3xf32>
  %a = graph.div %s, %t : (tensor<2x4x3x3xf32>, tensor<4x1x1xf32>) -> tensor<2x4x3x3xf32>
  %p = graph.softmax %a {axis = 3 : i64} : (tensor<2x4x3x3xf32>) -> tensor<2x4x3x3xf32>
  %y = graph.matmul %p, %v : (tensor<2x4x3x3xf32>, tensor<2x4x3x8xf32>) -> tensor<2x4x3x8xf32>
  %s2 = graph.matmul %y, %k {trans_rhs} : (tensor<2x4x3x8xf32>, tensor<2x4x3x8xf32>) -> tensor<2x4x3x3xf32>
  %each = graph.expand %t {shape = array<i64: 4, 1, 3>} : (tensor<4x1x1xf32>) -> tensor<4x1x3xf32>
  %a2 = graph.div %s2, %each : (tensor<2x4x3x3xf32>, tensor<4x1x3xf32>) -> tensor<2x4x3x3xf32>
  %p2 = graph.softmax %a2 {axis = 3 : i64} : (tensor<2x4x3x3xf32>) -> tensor<2x4x3x3xf32>
  %z = graph.matmul %p2, %v : (tensor<2x4x3x3xf32>, tensor<2x4x3x8xf32>) -> tensor<2x4x3x8xf32>
  graph.return %z : tensor<2x4x3x8xf32>
}
