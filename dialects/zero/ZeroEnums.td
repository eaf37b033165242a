//===- ZeroEnums.td - enums of the zero dialect ----*- tablegen -*-===//
#ifndef ZC_ZERO_ENUMS
#define ZC_ZERO_ENUMS

include "mlir/IR/EnumAttr.td"

def Zero_Tier : I32EnumAttr<"Tier", "where bytes live", [
    I32EnumAttrCase<"device", 0>, I32EnumAttrCase<"host", 1>, I32EnumAttrCase<"nvme", 2>]> {
  let cppNamespace = "::zc::zero";
  let genSpecializedAttr = 0;
}

def Zero_AxisKind : I32EnumAttr<"AxisKind", "what ranks that differ on an axis have of their own: data, or a share of the work on a sample", [
    I32EnumAttrCase<"data", 0>, I32EnumAttrCase<"model", 1>]> {
  let cppNamespace = "::zc::zero";
  let genSpecializedAttr = 0;
}

def Zero_Storage : I32EnumAttr<"Storage", "what a bucket keeps over steps", [
    I32EnumAttrCase<"parameters", 0>, I32EnumAttrCase<"gradients", 1>, I32EnumAttrCase<"master", 2>,
    I32EnumAttrCase<"moment1", 3>, I32EnumAttrCase<"moment2", 4>,
    I32EnumAttrCase<"residual1", 5>, I32EnumAttrCase<"residual2", 6>, I32EnumAttrCase<"norm", 7>]> {
  let cppNamespace = "::zc::zero";
  let genSpecializedAttr = 0;
}

#endif // ZC_ZERO_ENUMS
