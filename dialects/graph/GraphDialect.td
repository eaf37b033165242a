//===- GraphDialect.td - a training step on whole tensors ----*- tablegen -*-===//
#ifndef ZC_GRAPH_DIALECT
#define ZC_GRAPH_DIALECT

include "mlir/IR/OpBase.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/BuiltinAttributes.td"

def Graph_Dialect : Dialect {
  let name = "graph";
  let cppNamespace = "::zc::graph";
  let summary = "a training step on whole tensors, as one device would run it";
  let description = [{
    Shapes are static: symbolic dimensions are bound and shape arithmetic is folded before this level. Parameters are
    symbols; their bytes stay in the model file. Every operation's location is the ONNX node it came from.

    A module holds `graph.parameter`s and up to two `graph.program`s: `micro`, run once per accumulation micro-step
    (forward and backward), and `update`, run once per step (norm, clipping, optimizer).

    Constraints carry labels, which stand in the ops' descriptions and in the errors. These hold for many ops:
    - `shape_c1` no dimension is negative; `shape_c2` a tensor has fewer than 2^48 elements; `shape_c3` its element type
      is one a tensor can have.
    - `element_c1` operands that are combined have one element type.
    - `axis_c1` an axis is in [0, rank).
    - `symbol_c1` the named parameter exists; `symbol_c2` has the op's type; `symbol_c3` has the role the op works on.
    - `phase_c1` the op stands in a program of its phase.
  }];
  let useDefaultAttributePrinterParser = 1;
  let hasConstantMaterializer = 1;
}

/// The tensors of this level: ranked, static, elements of the types ONNX training graphs use.
def Graph_Float : AnyTypeOf<[F32, BF16, F16, F64]>;
def Graph_Element : AnyTypeOf<[F32, BF16, F16, F64, I64, I32, I<16>, I8, UI8, UI<16>, UI32, UI64, I1]>;
def Graph_Tensor : StaticShapeTensorOf<[Graph_Element]>;
def Graph_FloatTensor : StaticShapeTensorOf<[Graph_Float]>;
def Graph_F32Tensor : StaticShapeTensorOf<[F32]>;
def Graph_BoolTensor : StaticShapeTensorOf<[I1]>;
def Graph_BitsTensor : StaticShapeTensorOf<[AnyTypeOf<[I1, I64, I32, I<16>, I8, UI8, UI<16>, UI32, UI64]>]>;
def Graph_IndexTensor : StaticShapeTensorOf<[AnyTypeOf<[I64, I32]>]>;

class Graph_Attr<string name, string mnemonic_> : AttrDef<Graph_Dialect, name> {
  let mnemonic = mnemonic_;
}

def Graph_SourceAttr : Graph_Attr<"Source", "source"> {
  let summary = "where a parameter's initial bytes live";
  let description = [{
    `file` is relative to the model's folder; the bytes `[offset, offset + bytes)` hold `dtype` elements, little endian,
    row major. Example: `#graph.source<"model.onnx", 4096, 1024, f32>`.
  }];
  let parameters = (ins StringRefParameter<"file name">:$file, "int64_t":$offset, "int64_t":$bytes, "::mlir::Type":$dtype);
  let assemblyFormat = "`<` $file `,` $offset `,` $bytes `,` $dtype `>`";
}

def Graph_PartAttr : Graph_Attr<"Part", "part"> {
  let summary = "what a parameter is part of";
  let description = [{
    The elements from `first` on, row major, of a tensor `whole` of type `type`, which the model, weight files and checkpoints
    hold in one piece. Example: `#graph.part<"fc.weight", 4096, tensor<128x64xf32>>`.
  }];
  let parameters = (ins StringRefParameter<"name">:$whole, "int64_t":$first, "::mlir::RankedTensorType":$type);
  let assemblyFormat = "`<` $whole `,` $first `,` $type `>`";
}

def Graph_Phase : I32EnumAttr<"Phase", "when a program runs",
    [I32EnumAttrCase<"micro", 0>, I32EnumAttrCase<"update", 1>]> {
  let cppNamespace = "::zc::graph";
  let genSpecializedAttr = 0;
}
def Graph_PhaseAttr : EnumAttr<Graph_Dialect, Graph_Phase, "phase">;

def Graph_Role : I32EnumAttr<"Role", "what a stored tensor is", [
    I32EnumAttrCase<"trainable", 0>, I32EnumAttrCase<"frozen", 1>, I32EnumAttrCase<"buffer", 2>]> {
  let cppNamespace = "::zc::graph";
  let genSpecializedAttr = 0;
}
def Graph_RoleAttr : EnumAttr<Graph_Dialect, Graph_Role, "role">;

def Graph_OutputKind : I32EnumAttr<"OutputKind", "what an output of a forward-only plan is", [
    I32EnumAttrCase<"value", 0>, I32EnumAttrCase<"loss", 1>, I32EnumAttrCase<"loss_weight", 2>]> {
  let cppNamespace = "::zc::graph";
  let genSpecializedAttr = 0;
}
def Graph_OutputKindAttr : EnumAttr<Graph_Dialect, Graph_OutputKind, "output_kind">;

def Graph_Optimizer : I32EnumAttr<"Optimizer", "update rule", [
    I32EnumAttrCase<"adamw", 0>, I32EnumAttrCase<"adam", 1>, I32EnumAttrCase<"sgd", 2>,
    I32EnumAttrCase<"momentum", 3>]> {
  let cppNamespace = "::zc::graph";
  let genSpecializedAttr = 0;
}
def Graph_OptimizerKind : EnumAttr<Graph_Dialect, Graph_Optimizer, "optimizer">;

#endif // ZC_GRAPH_DIALECT
