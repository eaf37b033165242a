//===- Passes.td - recognising what exporters took apart ----*- tablegen -*-===//
#ifndef ZC_IMPORT_PASSES
#define ZC_IMPORT_PASSES

include "mlir/Pass/PassBase.td"

def RaiseComposites : Pass<"raise-composites", "::mlir::ModuleOp"> {
  let summary = "raises decomposed norms, activations, attention and losses to graph operations";
  let description = [{
    In: the graph program as the handlers built it. Out: the same function with decomposed forms as single operations,
    which have one kernel and one gradient each: layer_norm, rms_norm, gelu, silu, softmax with `zero_masked`, attention
    (with grouped keys and values, masks of positions as flags, softcaps as a number, and a remark where large scores stay in memory because its form
    is none that is known), cross_entropy, matmul with transpose flags and bias. Halves that change places (rotary
    positions) are one slice, times signs. A largest element beside its index is the element there, and the root of a
    variance is not taken of 0: so their gradients are torch's. Each rewrite is exact or within
    1e-6; what is in doubt stays as it is. Dead operations are removed.

    ```mlir
    %s = graph.sigmoid %x : (tensor<4xf32>) -> tensor<4xf32>
    %y = graph.mul %x, %s : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    // becomes
    %y = graph.silu %x : (tensor<4xf32>) -> tensor<4xf32>
    ```
  }];
  let dependentDialects = ["::zc::graph::GraphDialect"];
}

#endif // ZC_IMPORT_PASSES
