//===- GraphInterfaces.td - what every operation can say of itself -*- tablegen -*-===//
#ifndef ZC_GRAPH_INTERFACES
#define ZC_GRAPH_INTERFACES

include "mlir/IR/OpBase.td"
include "mlir/IR/Interfaces.td"

def Differentiable : OpInterface<"Differentiable"> {
  let cppNamespace = "::zc::graph";
  let description = "Builds its own backward.";
  let methods = [InterfaceMethod<[{
      Builds, at `builder`, the gradients of the operands from `resultGrads` (one per result; null where no gradient
      arrives). `wanted[i]` says whether operand i needs one. Sets `operandGrads[i]`, which has operand i's type, or
      leaves it null where the gradient is zero. Fails, with an error on the op, where the gradient is not available.
    }], "::llvm::LogicalResult", "buildGradient",
    (ins "::mlir::OpBuilder &":$builder, "::mlir::ValueRange":$resultGrads, "::llvm::ArrayRef<bool>":$wanted,
         "::llvm::MutableArrayRef<::mlir::Value>":$operandGrads)>];
}

def KernelOp : OpInterface<"KernelOp"> {
  let cppNamespace = "::zc::graph";
  let description = [{
    How an operation is executed, what it costs, and what its operands are to it. What a pass has to know of all operations it
    asks here or by a trait (`Elementwise`, `OverwritesOperands`, `FreeToRecompute` and others); by name only those know them that
    look for a form (README.md).
  }];
  let methods = [
    InterfaceMethod<"Name of the kernel family in the registry.", "::llvm::StringRef", "getKernelName", (ins), [{}],
      [{ return $_op->getName().stripDialect(); }]>,
    InterfaceMethod<"Operand whose bytes the single result is a view of (no kernel runs), or -1.", "int", "getViewOperand",
      (ins), [{}], [{ return -1; }]>,
    InterfaceMethod<"May a result be written over operand `index` (same bytes, element by element)?", "bool",
      "mayOverwrite", (ins "unsigned":$index, "unsigned":$result), [{}],
      [{ return ::zc::graph::mayOverwriteOperand($_op, index, result); }]>,
    InterfaceMethod<"What operand `index` is to a layer.", "::zc::graph::OperandRole", "getOperandRole",
      (ins "unsigned":$index), [{}], [{ return ::zc::graph::OperandRole::data; }]>,
    InterfaceMethod<[{
      Does the same operation on the same operands do something else in another micro-step: does its kernel draw random numbers,
      or read the number of the step or micro-step? It is then never folded, and says in which micro-step it stands.
    }], "bool", "dependsOnMicroStep", (ins), [{}], [{ return false; }]>,
    InterfaceMethod<[{
      Bytes that the kernel works in besides its operands: enough on any machine of the kind `target`, and all the memory that it
      gets (kernels/Workspace.h, which the kernels of this project answer from).
    }], "int64_t", "getWorkspaceBytes", (ins "::zc::Target":$target), [{}],
      [{ return ::zc::graph::defaultWorkspaceBytes($_op, target); }]>,
    InterfaceMethod<"Floating-point operations.", "double", "getFlops", (ins), [{}],
      [{ return ::zc::graph::defaultFlops($_op); }]>,
    InterfaceMethod<"Bytes read and written.", "double", "getBytes", (ins), [{}],
      [{ return ::zc::graph::defaultBytes($_op); }]>];
}

def Shardable : OpInterface<"Shardable"> {
  let cppNamespace = "::zc::graph";
  let description = [{
    How an operation computes on parts of its tensors, so that the ranks of the model axis share its work. An op that says nothing is
    computed whole on all of them; what is `Elementwise` says nothing and is computed in parts along any dimension. As the rules of
    shardy, but asked one cut at a time: what has to be cut, and how, where one tensor is cut so (dialects/graph/Cut.h).
  }];
  let methods = [
    InterfaceMethod<[{
      How the op computes where tensor `index` (operands first, then results) is `cut` over `ranks`. Nothing, and `why` not, where it
      does not.
    }], "::std::optional<::zc::graph::OpCut>", "cutAlong",
      (ins "unsigned":$index, "::zc::graph::TensorCut":$cut, "int64_t":$ranks, "::std::string &":$why)>,
    InterfaceMethod<[{
      Builds the op on parts: `operands` are as `cut` says, and so are to be the results. What is summed over ranks is summed here.
    }], "::llvm::SmallVector<::mlir::Value>", "buildParts",
      (ins "::mlir::OpBuilder &":$builder, "const ::zc::graph::OpCut &":$cut, "::mlir::ValueRange":$operands,
           "int64_t":$ranks), [{}], [{ return ::zc::graph::buildSameOnParts(builder, $_op, cut, operands, ranks); }]>];
}

def Indexing : OpInterface<"Indexing"> {
  let cppNamespace = "::zc::graph";
  let description = [{
    An operation that takes elements of operands for positions in a table, or for labels, and fails at run time where there is no such.
  }];
  let methods = [InterfaceMethod<[{
      What elements of operand `index` may be; nothing where they are no positions.
    }], "::std::optional<::zc::IndexRange>", "getIndexRange", (ins "unsigned":$index)>];
}

def Neutral : OpInterface<"Neutral"> {
  let cppNamespace = "::zc::graph";
  let description = [{
    An operation that computes across a dimension, to which some elements may mean nothing: rows that a mask did not pick (compiler/import/rows).
  }];
  let methods = [InterfaceMethod<[{
      Elements of the operands that change nothing of the others' results where they are all of a row of what is computed across.
    }], "double", "getNeutralElement">];
}

def Singular : OpInterface<"Singular"> {
  let cppNamespace = "::zc::graph";
  let description = [{
    An operation that is infinite or not a number, or whose derivative is, at some operands: rows that a mask did not pick are replaced
    there (compiler/import/rows/Finite.h), since 0 times an infinity would reach the gradients of the others.
  }];
  let methods = [InterfaceMethod<[{
      What operand `index` may be instead; nothing where the op is finite at all of its numbers.
    }], "::std::optional<::zc::graph::Harmless>", "getHarmless", (ins "unsigned":$index)>];
}

def Layoutable : OpInterface<"Layoutable"> {
  let cppNamespace = "::zc::graph";
  let description = [{
    How an operation computes on activations whose dimensions [N, C, d...] are in the order [N, d..., C], channels-last. An op that says
    nothing computes in the model's order only; what is `Elementwise` says nothing and computes in any (dialects/graph/Layout.h).
  }];
  let methods = [
    InterfaceMethod<[{
      Tensors, operands first, then results, that change their order, all of one rank of at least 3; the others stay as they are. Empty:
      this one computes in the model's order only.
    }], "::llvm::SmallBitVector", "getActivations">,
    InterfaceMethod<[{
      Elements that the op's kernels on a CPU rearrange within their step where activations are in the model's order.
    }], "int64_t", "getRearrangedElements", (ins), [{}], [{ return 0; }]>,
    InterfaceMethod<"Builds the op on `operands`, of which the activations are channels-last, as its results' are to be.",
      "::llvm::SmallVector<::mlir::Value>", "buildChannelsLast", (ins "::mlir::OpBuilder &":$builder, "::mlir::ValueRange":$operands),
      [{}], [{ return ::zc::graph::buildMarkedChannelsLast(builder, $_op, operands); }]>];
}

def Strided : OpInterface<"Strided"> {
  let cppNamespace = "::zc::graph";
  let description = [{
    An operation that reads and writes tensors through views where it has the attribute `views`: elements of a larger tensor, in another
    order, are not copied for it. One that says nothing takes tensors as they are (dialects/graph/View.h).
  }];
  let methods = [
    InterfaceMethod<"What it reads and writes through; null: all tensors as they are.", "::zc::graph::ViewsAttr", "getViewsAttr",
      (ins), [{}], [{ return ::llvm::dyn_cast_or_null<::zc::graph::ViewsAttr>($_op->getAttr("views")); }]>,
    InterfaceMethod<[{
      Do the op's kernels on a CPU take such a view for tensor `index` of its description: operands first, then results?
    }], "bool", "takesView", (ins "unsigned":$index, "const ::zc::StridedView &":$view)>];
}

def Separable : OpInterface<"Separable"> {
  let cppNamespace = "::zc::graph";
  let description = [{
    An operation that sums over its operands and then computes element by element with these sums. Apart, the second part is elementwise
    work like any other.
  }];
  let methods = [
    InterfaceMethod<[{
      Builds the op as sums and elementwise operations, with the bits of its kernels on a CPU; gives a value for each of its results.
      Nothing, and builds nothing, where its kernels do not compute so.
    }], "::llvm::SmallVector<::mlir::Value>", "buildApart", (ins "::mlir::OpBuilder &":$builder)>];
}

#endif // ZC_GRAPH_INTERFACES
