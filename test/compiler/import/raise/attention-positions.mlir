// RUN: zero-opt %s --raise-composites --split-input-file | FileCheck %s

// Masks that say how far keys may be from queries are no tensors: a causal window, as two comparisons of positions (Mistral).
// CHECK-LABEL: inputs = ["mistral", "k"]
// CHECK: ^bb0(%[[Q:.*]]: tensor<2x2x4x8xf32>, %[[K:.*]]: tensor<2x2x4x8xf32>)
// CHECK-NEXT: %[[Y:.*]], %{{.*}} = graph.attention %[[Q]], %[[K]], %[[K]] {causal, scale = 5.000000e-01 : f64, window = 2 : i64}
// CHECK-NEXT: graph.return %[[Y]]
graph.program @micro phase = micro inputs = ["mistral", "k"] {
^bb0(%q: tensor<2x2x4x8xf32>, %k: tensor<2x2x4x8xf32>):
  %rows = graph.constant dense<[[0], [1], [2], [3]]> : tensor<4x1xi64>
  %columns = graph.constant dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>
  %two = graph.constant dense<2> : tensor<i64>
  %zero = graph.constant dense<0.0> : tensor<f32>
  %low = graph.constant dense<0xFF800000> : tensor<f32>
  %half = graph.constant dense<0.5> : tensor<f32>
  %since = graph.sub %rows, %two : (tensor<4x1xi64>, tensor<i64>) -> tensor<4x1xi64>
  %causal = graph.less_equal %columns, %rows : (tensor<1x4xi64>, tensor<4x1xi64>) -> tensor<4x4xi1>
  %near = graph.less %since, %columns : (tensor<4x1xi64>, tensor<1x4xi64>) -> tensor<4x4xi1>
  %keep = graph.and %near, %causal : (tensor<4x4xi1>, tensor<4x4xi1>) -> tensor<4x4xi1>
  %mask = graph.select %keep, %zero, %low : (tensor<4x4xi1>, tensor<f32>, tensor<f32>) -> tensor<4x4xf32>
  %s = graph.matmul %q, %k {trans_rhs} : (tensor<2x2x4x8xf32>, tensor<2x2x4x8xf32>) -> tensor<2x2x4x4xf32>
  %h = graph.mul %s, %half : (tensor<2x2x4x4xf32>, tensor<f32>) -> tensor<2x2x4x4xf32>
  %a = graph.add %h, %mask : (tensor<2x2x4x4xf32>, tensor<4x4xf32>) -> tensor<2x2x4x4xf32>
  %p = graph.softmax %a {axis = 3 : i64} : (tensor<2x2x4x4xf32>) -> tensor<2x2x4x4xf32>
  %y = graph.matmul %p, %k : (tensor<2x2x4x4xf32>, tensor<2x2x4x8xf32>) -> tensor<2x2x4x8xf32>
  graph.return %y : tensor<2x2x4x8xf32>
}

// -----

// The same filled in one after the other, with numbers: each row keeps its own key under both.
// CHECK-LABEL: inputs = ["filled", "k"]
// CHECK: graph.attention %{{.*}}, %{{.*}}, %{{.*}} {causal, scale = 5.000000e-01 : f64, window = 2 : i64} : (tensor<2x2x4x8xf32>, tensor<2x2x4x8xf32>, tensor<2x2x4x8xf32>) ->
graph.program @micro phase = micro inputs = ["filled", "k"] {
^bb0(%q: tensor<2x2x4x8xf32>, %k: tensor<2x2x4x8xf32>):
  %rows = graph.constant dense<[[0], [1], [2], [3]]> : tensor<4x1xi64>
  %columns = graph.constant dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>
  %two = graph.constant dense<2> : tensor<i64>
  %low = graph.constant dense<-1.0e9> : tensor<f32>
  %half = graph.constant dense<0.5> : tensor<f32>
  %since = graph.sub %rows, %two : (tensor<4x1xi64>, tensor<i64>) -> tensor<4x1xi64>
  %later = graph.less %rows, %columns : (tensor<4x1xi64>, tensor<1x4xi64>) -> tensor<4x4xi1>
  %far = graph.less_equal %columns, %since : (tensor<1x4xi64>, tensor<4x1xi64>) -> tensor<4x4xi1>
  %s = graph.matmul %q, %k {trans_rhs} : (tensor<2x2x4x8xf32>, tensor<2x2x4x8xf32>) -> tensor<2x2x4x4xf32>
  %h = graph.mul %s, %half : (tensor<2x2x4x4xf32>, tensor<f32>) -> tensor<2x2x4x4xf32>
  %a = graph.select %later, %low, %h : (tensor<4x4xi1>, tensor<f32>, tensor<2x2x4x4xf32>) -> tensor<2x2x4x4xf32>
  %b = graph.select %far, %low, %a : (tensor<4x4xi1>, tensor<f32>, tensor<2x2x4x4xf32>) -> tensor<2x2x4x4xf32>
  %p = graph.softmax %b {axis = 3 : i64} : (tensor<2x2x4x4xf32>) -> tensor<2x2x4x4xf32>
  %y = graph.matmul %p, %k : (tensor<2x2x4x4xf32>, tensor<2x2x4x8xf32>) -> tensor<2x2x4x8xf32>
  graph.return %y : tensor<2x2x4x8xf32>
}

// -----

// The same as a table, of the masks that the op has; what hides padding stays.
// CHECK-LABEL: inputs = ["table", "k", "padding"]
// CHECK: ^bb0(%[[Q:.*]]: tensor<2x2x3x8xf32>, %[[K:.*]]: tensor<2x2x4x8xf32>, %[[P:.*]]: tensor<2x1x1x4xi1>)
// CHECK-NEXT: %[[Y:.*]], %{{.*}} = graph.attention %[[Q]], %[[K]], %[[K]], %[[P]] {causal, scale = 5.000000e-01 : f64, window = 2 : i64}
// CHECK-NEXT: graph.return %[[Y]]
graph.program @micro phase = micro inputs = ["table", "k", "padding"] {
^bb0(%q: tensor<2x2x3x8xf32>, %k: tensor<2x2x4x8xf32>, %padding: tensor<2x1x1x4xi1>):
  %near = graph.constant dense<[[[[true, true, false, false], [false, true, true, false], [false, false, true, true]]]]> : tensor<1x1x3x4xi1>
  %keep = graph.and %padding, %near : (tensor<2x1x1x4xi1>, tensor<1x1x3x4xi1>) -> tensor<2x1x3x4xi1>
  %y, %lse = graph.attention %q, %k, %k, %keep {scale = 0.5 : f64}
      : (tensor<2x2x3x8xf32>, tensor<2x2x4x8xf32>, tensor<2x2x4x8xf32>, tensor<2x1x3x4xi1>) -> (tensor<2x2x3x8xf32>, tensor<2x2x3xf32>)
  graph.return %y : tensor<2x2x3x8xf32>
}

// -----

// As near on either side (ModernBERT), by the distance itself.
// CHECK-LABEL: inputs = ["either", "k"]
// CHECK: graph.attention %{{.*}}, %{{.*}}, %{{.*}} {scale = 5.000000e-01 : f64, window = 3 : i64} : (tensor<2x2x4x8xf32>, tensor<2x2x4x8xf32>, tensor<2x2x4x8xf32>) ->
graph.program @micro phase = micro inputs = ["either", "k"] {
^bb0(%q: tensor<2x2x4x8xf32>, %k: tensor<2x2x4x8xf32>):
  %rows = graph.constant dense<[[0], [1], [2], [3]]> : tensor<4x1xi64>
  %columns = graph.constant dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>
  %two = graph.constant dense<2> : tensor<i64>
  %far = graph.sub %rows, %columns : (tensor<4x1xi64>, tensor<1x4xi64>) -> tensor<4x4xi64>
  %distance = graph.abs %far : (tensor<4x4xi64>) -> tensor<4x4xi64>
  %near = graph.less_equal %distance, %two : (tensor<4x4xi64>, tensor<i64>) -> tensor<4x4xi1>
  %keep = graph.reshape %near {shape = array<i64: 1, 1, 4, 4>} : (tensor<4x4xi1>) -> tensor<1x1x4x4xi1>
  %y, %lse = graph.attention %q, %k, %k, %keep {scale = 0.5 : f64}
      : (tensor<2x2x4x8xf32>, tensor<2x2x4x8xf32>, tensor<2x2x4x8xf32>, tensor<1x1x4x4xi1>) -> (tensor<2x2x4x8xf32>, tensor<2x2x4xf32>)
  graph.return %y : tensor<2x2x4x8xf32>
}

// -----

// What is not as near on either side is a mask; so is a window that a query's own key is not in.
// CHECK-LABEL: inputs = ["sides", "k"]
// CHECK: %[[N:.*]] = graph.constant dense<{{\[\[\[\[}}true, true, false, false]
// CHECK: graph.attention %{{.*}}, %{{.*}}, %{{.*}}, %[[N]] {scale = 5.000000e-01 : f64}
// CHECK: graph.attention %{{.*}} {scale = 2.500000e-01 : f64} : {{.*}}tensor<1x1x4x4xi1>
graph.program @micro phase = micro inputs = ["sides", "k"] {
^bb0(%q: tensor<2x2x4x8xf32>, %k: tensor<2x2x4x8xf32>):
  %near = graph.constant dense<[[[[true, true, false, false], [true, true, true, false], [true, true, true, true], [false, true, true, true]]]]> : tensor<1x1x4x4xi1>
  %before = graph.constant dense<[[[[false, false, false, false], [true, false, false, false], [false, true, false, false], [false, false, true, false]]]]> : tensor<1x1x4x4xi1>
  %y, %lse = graph.attention %q, %k, %k, %near {scale = 0.5 : f64}
      : (tensor<2x2x4x8xf32>, tensor<2x2x4x8xf32>, tensor<2x2x4x8xf32>, tensor<1x1x4x4xi1>) -> (tensor<2x2x4x8xf32>, tensor<2x2x4xf32>)
  %z, %lse1 = graph.attention %q, %y, %k, %before {scale = 0.25 : f64}
      : (tensor<2x2x4x8xf32>, tensor<2x2x4x8xf32>, tensor<2x2x4x8xf32>, tensor<1x1x4x4xi1>) -> (tensor<2x2x4x8xf32>, tensor<2x2x4xf32>)
  graph.return %z : tensor<2x2x4x8xf32>
}

// -----

// Rows that a condition hides average what the other mask shows: that is none of the op's. An index that is no index, added
// up, says nothing of positions; nor does what is as far as numbers go.
// CHECK-LABEL: inputs = ["averaged", "k"]
// CHECK: graph.softmax
// CHECK: graph.attention {{.*}} {scale = 1.000000e+00 : f64} : {{.*}}tensor<1x1x4x4xi1>
graph.program @micro phase = micro inputs = ["averaged", "k"] {
^bb0(%q: tensor<2x2x4x8xf32>, %k: tensor<2x2x4x8xf32>):
  %rows = graph.constant dense<[[0], [1], [2], [3]]> : tensor<4x1xi64>
  %columns = graph.constant dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>
  %most = graph.constant dense<9223372036854775807> : tensor<i64>
  %low = graph.constant dense<-1.0e+09> : tensor<f32>
  %zero = graph.constant dense<0.0> : tensor<f32>
  %before = graph.less %columns, %rows : (tensor<1x4xi64>, tensor<4x1xi64>) -> tensor<4x4xi1>
  %causal = graph.less_equal %columns, %rows : (tensor<1x4xi64>, tensor<4x1xi64>) -> tensor<4x4xi1>
  %mask = graph.select %causal, %zero, %low : (tensor<4x4xi1>, tensor<f32>, tensor<f32>) -> tensor<4x4xf32>
  %s = graph.matmul %q, %k {trans_rhs} : (tensor<2x2x4x8xf32>, tensor<2x2x4x8xf32>) -> tensor<2x2x4x4xf32>
  %c = graph.select %before, %s, %low : (tensor<4x4xi1>, tensor<2x2x4x4xf32>, tensor<f32>) -> tensor<2x2x4x4xf32>
  %a = graph.add %c, %mask : (tensor<2x2x4x4xf32>, tensor<4x4xf32>) -> tensor<2x2x4x4xf32>
  %p = graph.softmax %a {axis = 3 : i64} : (tensor<2x2x4x4xf32>) -> tensor<2x2x4x4xf32>
  %y = graph.matmul %p, %k : (tensor<2x2x4x4xf32>, tensor<2x2x4x8xf32>) -> tensor<2x2x4x8xf32>
  %far = graph.sub %rows, %columns : (tensor<4x1xi64>, tensor<1x4xi64>) -> tensor<4x4xi64>
  %distance = graph.abs %far : (tensor<4x4xi64>) -> tensor<4x4xi64>
  %near = graph.less_equal %distance, %most : (tensor<4x4xi64>, tensor<i64>) -> tensor<4x4xi1>
  %keep = graph.reshape %near {shape = array<i64: 1, 1, 4, 4>} : (tensor<4x4xi1>) -> tensor<1x1x4x4xi1>
  %z, %lse = graph.attention %y, %k, %k, %keep {scale = 1.0 : f64}
      : (tensor<2x2x4x8xf32>, tensor<2x2x4x8xf32>, tensor<2x2x4x8xf32>, tensor<1x1x4x4xi1>) -> (tensor<2x2x4x8xf32>, tensor<2x2x4xf32>)
  graph.return %z : tensor<2x2x4x8xf32>
}

// -----

// What is capped is of one query, and broadcast behind that.
// CHECK-LABEL: inputs = ["one", "k"]
// CHECK-NOT: graph.attention
graph.program @micro phase = micro inputs = ["one", "k"] {
^bb0(%q: tensor<1x2x1x8xf32>, %k: tensor<1x2x5x8xf32>):
  %cap = graph.constant dense<30.0> : tensor<1x1x5x1xf32>
  %s = graph.matmul %q, %k {trans_rhs} : (tensor<1x2x1x8xf32>, tensor<1x2x5x8xf32>) -> tensor<1x2x1x5xf32>
  %bent = graph.tanh %s : (tensor<1x2x1x5xf32>) -> tensor<1x2x1x5xf32>
  %capped = graph.mul %bent, %cap : (tensor<1x2x1x5xf32>, tensor<1x1x5x1xf32>) -> tensor<1x2x5x5xf32>
  %p = graph.softmax %capped {axis = 3 : i64} : (tensor<1x2x5x5xf32>) -> tensor<1x2x5x5xf32>
  %y = graph.matmul %p, %k : (tensor<1x2x5x5xf32>, tensor<1x2x5x8xf32>) -> tensor<1x2x5x8xf32>
  graph.return %y : tensor<1x2x5x8xf32>
}

// -----

// A cap that is no number is none.
// CHECK-LABEL: inputs = ["infinite", "k"]
// CHECK-NOT: graph.attention
graph.program @micro phase = micro inputs = ["infinite", "k"] {
^bb0(%q: tensor<2x2x4x8xf32>, %k: tensor<2x2x4x8xf32>):
  %cap = graph.constant dense<0x7F800000> : tensor<f32>
  %s = graph.matmul %q, %k {trans_rhs} : (tensor<2x2x4x8xf32>, tensor<2x2x4x8xf32>) -> tensor<2x2x4x4xf32>
  %bent = graph.tanh %s : (tensor<2x2x4x4xf32>) -> tensor<2x2x4x4xf32>
  %capped = graph.mul %bent, %cap : (tensor<2x2x4x4xf32>, tensor<f32>) -> tensor<2x2x4x4xf32>
  %p = graph.softmax %capped {axis = 3 : i64} : (tensor<2x2x4x4xf32>) -> tensor<2x2x4x4xf32>
  %y = graph.matmul %p, %k : (tensor<2x2x4x4xf32>, tensor<2x2x4x8xf32>) -> tensor<2x2x4x8xf32>
  graph.return %y : tensor<2x2x4x8xf32>
}

// -----

// Scores that tend to 50 (Gemma 2).
// CHECK-LABEL: inputs = ["softcap", "k", "mask"]
// CHECK: ^bb0(%[[Q:.*]]: tensor<2x2x4x8xf32>, %[[K:.*]]: tensor<2x2x4x8xf32>, %[[M:.*]]: tensor<2x1x4x4xf32>)
// CHECK-NEXT: %[[Y:.*]], %{{.*}} = graph.attention %[[Q]], %[[K]], %[[K]], %[[M]] {scale = 5.000000e-01 : f64, softcap = 5.000000e+01 : f64}
// CHECK-NEXT: graph.return %[[Y]]
graph.program @micro phase = micro inputs = ["softcap", "k", "mask"] {
^bb0(%q: tensor<2x2x4x8xf32>, %k: tensor<2x2x4x8xf32>, %mask: tensor<2x1x4x4xf32>):
  %half = graph.constant dense<0.5> : tensor<f32>
  %cap = graph.constant dense<50.0> : tensor<f32>
  %s = graph.matmul %q, %k {trans_rhs} : (tensor<2x2x4x8xf32>, tensor<2x2x4x8xf32>) -> tensor<2x2x4x4xf32>
  %h = graph.mul %s, %half : (tensor<2x2x4x4xf32>, tensor<f32>) -> tensor<2x2x4x4xf32>
  %part = graph.div %h, %cap : (tensor<2x2x4x4xf32>, tensor<f32>) -> tensor<2x2x4x4xf32>
  %bent = graph.tanh %part : (tensor<2x2x4x4xf32>) -> tensor<2x2x4x4xf32>
  %capped = graph.mul %bent, %cap : (tensor<2x2x4x4xf32>, tensor<f32>) -> tensor<2x2x4x4xf32>
  %a = graph.add %capped, %mask : (tensor<2x2x4x4xf32>, tensor<2x1x4x4xf32>) -> tensor<2x2x4x4xf32>
  %p = graph.softmax %a {axis = 3 : i64} : (tensor<2x2x4x4xf32>) -> tensor<2x2x4x4xf32>
  %y = graph.matmul %p, %k : (tensor<2x2x4x4xf32>, tensor<2x2x4x8xf32>) -> tensor<2x2x4x8xf32>
  graph.return %y : tensor<2x2x4x8xf32>
}
