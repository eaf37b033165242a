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

/// Default execution: a kernel named like the op; `methods` are those of KernelOp that it answers itself.
class Graph_KernelWith<list<string> methods> : DeclareOpInterfaceMethods<KernelOp, methods>;
def Graph_Kernel : Graph_KernelWith<[]>;
/// A view: the result has the operand's bytes.
def Graph_ViewKernel : Graph_KernelWith<["getViewOperand"]>;

/// Result 0 may be written over any operand of its type.
def Graph_OverwritesOperands : NativeOpTrait<"OverwritesOperands"> { let cppNamespace = "::zc::graph"; }
/// An element of the result depends on the operands' elements at its index, after broadcasting.
def Graph_Elementwise : NativeOpTrait<"Elementwise"> { let cppNamespace = "::zc::graph"; }
/// Elementwise, and finite with all its derivatives at zeros.
def Graph_BearsZeros : NativeOpTrait<"BearsZeros"> { let cppNamespace = "::zc::graph"; }
/// Elements of the result are those of operand 0, each of them, in another shape, place or type.
def Graph_MovesElements : NativeOpTrait<"MovesElements"> { let cppNamespace = "::zc::graph"; }
/// Its results have no derivative by its operands: piecewise constant, or there to stop gradients.
def Graph_StopsGradient : NativeOpTrait<"StopsGradient"> { let cppNamespace = "::zc::graph"; }
/// Made anew at no cost worth memory.
def Graph_FreeToRecompute : NativeOpTrait<"FreeToRecompute"> { let cppNamespace = "::zc::graph"; }
/// Moves elements between the ranks of the model axis.
def Graph_Collective : NativeOpTrait<"Collective"> { let cppNamespace = "::zc::graph"; }
/// Its results are the same on all ranks of the model axis.
def Graph_MakesWhole : NativeOpTrait<"MakesWhole"> { let cppNamespace = "::zc::graph"; }
/// Each of them has results of its own, whatever its operands are.
def Graph_MakesParts : NativeOpTrait<"MakesParts"> { let cppNamespace = "::zc::graph"; }
/// Says how it computes on parts of its tensors; `methods` are those of Shardable that it answers itself.
class Graph_ShardedBy<list<string> methods> : DeclareOpInterfaceMethods<Shardable, methods>;
def Graph_Sharded : Graph_ShardedBy<["cutAlong"]>;
/// Says what its indices may be.
def Graph_Indexing : DeclareOpInterfaceMethods<Indexing>;
/// Says which elements mean nothing to it.
def Graph_Neutral : DeclareOpInterfaceMethods<Neutral>;
/// Says at which operands it is finite.
def Graph_Singular : DeclareOpInterfaceMethods<Singular>;
/// Says how it computes on channels-last activations; `methods` are those of Layoutable that it answers itself.
class Graph_LayoutWith<list<string> methods> : DeclareOpInterfaceMethods<Layoutable, methods>;
def Graph_Layout : Graph_LayoutWith<["getActivations", "buildChannelsLast"]>;
/// Its kernel can read operand 0 while a program computes it (kernels/Prologue.h).
def Graph_TakesProgram : NativeOpTrait<"TakesProgram"> { let cppNamespace = "::zc::graph"; }
/// Sums first, then computes element by element with the sums.
def Graph_Separable : DeclareOpInterfaceMethods<Separable>;
/// Reads and writes through views where it has some.
def Graph_Strided : DeclareOpInterfaceMethods<Strided>;
def Graph_InPlaceKernel : TraitList<[Graph_Kernel, Graph_OverwritesOperands]>;
def Graph_ElementwiseKernel : TraitList<[Graph_Kernel, Graph_OverwritesOperands, Graph_Elementwise]>;

#endif // ZC_GRAPH_BASE
