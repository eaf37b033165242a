//===- GraphBase.td - op classes shared by the graph files ----*- tablegen -*-===//
#ifndef ZC_GRAPH_BASE
#define ZC_GRAPH_BASE

include "dialects/graph/GraphDialect.td"
include "dialects/graph/GraphInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"

class Graph_Op<string mnemonic, list<Trait> traits = []> : Op<Graph_Dialect, mnemonic, traits>;

/// A pure operation on tensors. Result types follow from operands and attributes (`inferReturnTypes`, which is also
/// the verifier: its errors carry the label of the violated constraint, as in "[matmul_c1] ...").
class Graph_TensorOp<string mnemonic, list<Trait> traits = []> : Graph_Op<mnemonic, !listconcat([Pure,
    InferTypeOpAdaptor], traits)> {
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
}

/// A pure operation all of whose operands and results have one type.
class Graph_SameTypeOp<string mnemonic, list<Trait> traits = []>
    : Graph_Op<mnemonic, !listconcat([Pure, SameOperandsAndResultType], traits)> {
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
}

/// A tensor operation with a gradient.
class Graph_DiffOp<string mnemonic, list<Trait> traits = []>
    : Graph_TensorOp<mnemonic, !listconcat([DeclareOpInterfaceMethods<Differentiable>], traits)>;

/// Default execution: a kernel named like the op.
def Graph_Kernel : DeclareOpInterfaceMethods<KernelOp>;
/// A view: the result has the operand's bytes.
def Graph_ViewKernel : DeclareOpInterfaceMethods<KernelOp, ["getViewOperand"]>;
/// Marks ops whose result 0 may be written over any operand of its type.
def Graph_OverwritesOperands : NativeOpTrait<"OverwritesOperands"> { let cppNamespace = "::zc::graph"; }
/// Elementwise: may overwrite an operand of the result's type.
def Graph_ElementwiseKernel : TraitList<[DeclareOpInterfaceMethods<KernelOp>, Graph_OverwritesOperands]>;
/// A kernel with a cost formula of its own.
def Graph_CostedKernel : DeclareOpInterfaceMethods<KernelOp, ["getFlops"]>;

#endif // ZC_GRAPH_BASE
