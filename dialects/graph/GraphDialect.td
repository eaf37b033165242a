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

    Attributes of the module: `graph.target`, which kernels there are, is "cpu" or "cuda" (`module_c1`); `graph.model_ranks`, set by
    shard-tensors, is an i64 of at least 1 (`module_c2`).

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
  let hasOperationAttrVerify = 1;
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

def Graph_CutAttr : Graph_Attr<"Cut", "cut"> {
  let summary = "what a rank of the model axis holds of a parameter";
  let description = [{
    Dimension `dim` of a tensor of type `whole`, which the model, weight files and checkpoints hold in one piece, is `groups` equal
    runs; of each, rank m of T holds the m-th part of ceil(run / T) elements, one after the other. Where T does not divide the
    run, which has to be the only one then, the last rank's part is filled up with zeros, which stay zeros. (Three groups: queries, keys
    and values in one matrix.) Example: `#graph.cut<1, 3, tensor<32x96xf32>>`.
  }];
  let parameters = (ins "int64_t":$dim, "int64_t":$groups, "::mlir::RankedTensorType":$whole);
  let assemblyFormat = "`<` $dim `,` $groups `,` $whole `>`";
}

def Graph_IndexRangeAttr : Graph_Attr<"IndexRange", "index_range"> {
  let summary = "what an input may hold whose elements are positions or labels";
  let description = [{
    base/IndexRange.h as an attribute; `limit` 0: not known. `shift`, of labels: element t + shift of the last dimension is compared
    with what is computed at t. Example: `#graph.index_range<limit = 50257, ignored = -100, label = true, shift = 1>`.
  }];
  let parameters = (ins DefaultValuedParameter<"int64_t", "0">:$lowest, DefaultValuedParameter<"int64_t", "0">:$limit,
      OptionalParameter<"::std::optional<int64_t>">:$ignored, DefaultValuedParameter<"bool", "false">:$label,
      OptionalParameter<"::std::optional<int64_t>">:$shift);
  let assemblyFormat = "`<` struct(params) `>`";
  let extraClassDeclaration = [{
    ::zc::IndexRange getRange() const { return {getLowest(), getLimit(), getIgnored(), getLabel()}; }
  }];
}
def Graph_IndexRangeArray : TypedArrayAttrBase<Graph_IndexRangeAttr, "ranges of inputs">;

def Graph_ViewAttr : Graph_Attr<"View", "view"> {
  let summary = "what an operation sees of a tensor: some of its elements, under another shape";
  let description = [{
    Index i is element `offset` + sum of i[d] * strides[d] of tensor `tensor` of the operation, operands first, then results. A
    tensor is seen whole, too, by a view: that of its own shape. Example: `#graph.view<0 + 8 [2, 4] by [12, 1]>`.
  }];
  let parameters = (ins "int64_t":$tensor, "int64_t":$offset, OptionalArrayRefParameter<"int64_t">:$sizes,
      OptionalArrayRefParameter<"int64_t">:$strides);
  let assemblyFormat = "`<` $tensor `+` $offset (`[` $sizes^ `]`)? (`by` `[` $strides^ `]`)? `>`";
}

def Graph_ViewsAttr : Graph_Attr<"Views", "views"> {
  let summary = "what an operation reads and writes through views";
  let description = [{
    `views`: one for each operand and result that the operation's description names, in that order; each operand is seen by one, results by
    one or more. Each has the shape that the description says, in a tensor of that element type (`view_c5`); there is one for each tensor,
    an operand's in order, of an offset and dimensions that are not negative (`view_c1`); it lies inside its tensor (`view_c2`) and has no
    element twice (`view_c3`); those of a result have all its elements, each in one (`view_c4`). `results`: types of the tensors that are
    written; those that the description gives are the views'. Made by fold-views (`Strided` says of what), a kernel's `views` from then on
    (base/StridedView.h). Example: `#graph.views<[<0 + 0 [3, 4] by [8, 1]>, <1 + 0 [3, 4] by [4, 1]>] -> [tensor<12xf32>]>`.
  }];
  let parameters = (ins ArrayRefParameter<"::zc::graph::ViewAttr">:$views, ArrayRefParameter<"::mlir::Type">:$results);
  let assemblyFormat = "`<` `[` $views `]` `->` `[` $results `]` `>`";
}

def Graph_Phase : I32EnumAttr<"Phase", "when a program runs",
    [I32EnumAttrCase<"micro", 0>, I32EnumAttrCase<"update", 1>, I32EnumAttrCase<"eval", 2>]> {
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

/// Enumerations that the runtime, kernels or options have: their values' names are `namesOf` (base/Names.h).
class Graph_Named<string type> : AttrOrTypeParameter<type, ""> {
  let parser = "::zc::graph::parseNamed<" # type # ">($_parser)";
  let printer = "$_printer << ::zc::nameOf($_self)";
}
def Graph_UpdateRule : Graph_Named<"::zc::UpdateRule">;
def Graph_Precision : Graph_Named<"::zc::Precision">;
def Graph_ScatterReduction : Graph_Named<"::zc::ScatterReduction">;

def Graph_UpdateRuleAttr : Graph_Attr<"UpdateRule", "update_rule"> {
  let summary = "the rule of an optimizer: adamw, adam, sgd, momentum";
  let parameters = (ins Graph_UpdateRule:$value);
  let assemblyFormat = "$value";
  let returnType = "::zc::UpdateRule";
  let convertFromStorage = "$_self.getValue()";
  let constBuilderCall = "::zc::graph::UpdateRuleAttr::get($_builder.getContext(), $0)";
}

def Graph_ScatterReductionAttr : Graph_Attr<"ScatterReduction", "scatter_reduction"> {
  let summary = "what a scatter does to an element: none, add, mul, min, max";
  let parameters = (ins Graph_ScatterReduction:$value);
  let assemblyFormat = "$value";
  let returnType = "::zc::ScatterReduction";
  let convertFromStorage = "$_self.getValue()";
  let constBuilderCall = "::zc::graph::ScatterReductionAttr::get($_builder.getContext(), $0)";
}

//===-- what modules and programs say of themselves: ModuleAttrs.h has each as a value -------===//

def Graph_FileAttr : Graph_Attr<"File", "file"> {
  let summary = "a file beside the model's that holds tensors of it: name, bytes, and a hash of its content";
  let parameters = (ins "::mlir::StringAttr":$name, "int64_t":$bytes, "uint64_t":$hash);
  let assemblyFormat = "`<` $name `,` $bytes `,` $hash `>`";
}

def Graph_ModelAttr : Graph_Attr<"Model", "model"> {
  let summary = "the file that a step was imported from";
  let description = [{
    `graph.model` of a module, from import to the plan. `hash` is that of all `bytes`; `external` are `#graph.file`s, recorded when
    the plan is written. Example: `#graph.model<path = "/models/m.onnx", name = "m", bytes = 4096, hash = 7>`.
  }];
  let parameters = (ins "::mlir::StringAttr":$path, OptionalParameter<"::mlir::StringAttr">:$name,
      DefaultValuedParameter<"int64_t", "0">:$bytes, DefaultValuedParameter<"uint64_t", "0">:$hash,
      OptionalParameter<"::mlir::ArrayAttr">:$external);
  let assemblyFormat = "`<` struct(params) `>`";
}

def Graph_UpdateSettingsAttr : Graph_Attr<"UpdateSettings", "update_settings"> {
  let summary = "an optimizer and its numbers, as the plan records them";
  let description = [{
    kernels/UpdateSettings.h says what they mean, and what those are that are absent: whoever made the model may say no `lr` and no
    `weight_decay`. Example: `#graph.update_settings<rule = sgd, lr = 1.0e-3 : f64>`.
  }];
  let parameters = (ins Graph_UpdateRule:$rule, OptionalParameter<"::mlir::FloatAttr">:$lr,
      OptionalParameter<"::mlir::StringAttr">:$lr_schedule,
      OptionalParameter<"::mlir::FloatAttr">:$beta1, OptionalParameter<"::mlir::FloatAttr">:$beta2,
      OptionalParameter<"::mlir::FloatAttr">:$eps, OptionalParameter<"::mlir::FloatAttr">:$momentum,
      OptionalParameter<"::mlir::FloatAttr">:$weight_decay, OptionalParameter<"::mlir::FloatAttr">:$max_norm);
  let assemblyFormat = "`<` struct(params) `>`";
}

def Graph_LossScaleAttr : Graph_Attr<"LossScale", "loss_scale"> {
  let summary = "how the scale of the loss follows overflows (fp16)";
  let description = [{
    DeepSpeed's rule (runtime/train/LossScale.h); a `window` of 0 keeps the scale as it is. Set by append-optimizer.
  }];
  let parameters = (ins "::mlir::FloatAttr":$initial, "::mlir::FloatAttr":$minimum, "int64_t":$window, "int64_t":$hysteresis,
      OptionalParameter<"::mlir::UnitAttr">:$consecutive);
  let assemblyFormat = "`<` struct(params) `>`";
}

def Graph_TrainingAttr : Graph_Attr<"Training", "training"> {
  let summary = "what a step computes, apart from where";
  let description = [{
    `graph.training` of a module, from import to the plan. `tf32`: GPUs may round the factors of products of f32 to that.
    `forward_only`: there is no backward. `sums_gradients`: over micro-steps and ranks, not their mean. `weighted_loss`: losses are numerators of a mean (loss-mean). `eps_uncorrected`: eps is
    added to sqrt(v), not to sqrt(v / (1 - beta2^t)). Example: `#graph.training<precision = bf16, forward_only = unit>`.
  }];
  let parameters = (ins Graph_Precision:$precision, OptionalParameter<"::mlir::UnitAttr">:$tf32,
      DefaultValuedParameter<"int64_t", "0">:$seed,
      OptionalParameter<"::mlir::UnitAttr">:$forward_only, OptionalParameter<"::mlir::UnitAttr">:$sums_gradients,
      OptionalParameter<"::mlir::UnitAttr">:$weighted_loss, OptionalParameter<"::mlir::UnitAttr">:$eps_uncorrected,
      OptionalParameter<"::zc::graph::UpdateSettingsAttr">:$optimizer,
      OptionalParameter<"::zc::graph::LossScaleAttr">:$loss_scale);
  let assemblyFormat = "`<` struct(params) `>`";
}

def Graph_OutputsAttr : Graph_Attr<"Outputs", "outputs"> {
  let summary = "what a program's results are";
  let description = [{
    `graph.outputs` of a program, from import to forward-only: a name for each result; which one is the loss, and which the
    weight of the loss (-1: none). `likelihood`: the loss is the mean negative log-likelihood of a label, so that its exponential is
    a perplexity; said by import, while a cross-entropy is one operation still. `by_labels`, of a likelihood: it is the mean over the
    labels that are not the ignored one, and no sample has a part in what is computed of another.
    Example: `#graph.outputs<names = ["y", "loss"], loss = 1, likelihood = unit>`.
  }];
  let parameters = (ins "::mlir::ArrayAttr":$names, DefaultValuedParameter<"int64_t", "-1">:$loss,
      DefaultValuedParameter<"int64_t", "-1">:$weight, OptionalParameter<"::mlir::UnitAttr">:$likelihood,
      OptionalParameter<"::mlir::UnitAttr">:$by_labels);
  let assemblyFormat = "`<` struct(params) `>`";
}

#endif // ZC_GRAPH_DIALECT
