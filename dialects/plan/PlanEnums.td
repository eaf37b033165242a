//===- PlanEnums.td - enums of the plan dialect, values as in plan.proto ----*- tablegen -*-===//
#ifndef ZC_PLAN_ENUMS
#define ZC_PLAN_ENUMS

include "mlir/IR/EnumAttr.td"

class Plan_Enum<string name, string summary, list<I32EnumAttrCase> cases> : I32EnumAttr<name, summary, cases> {
  let cppNamespace = "::zc::plan";
  let genSpecializedAttr = 0;
}

def Plan_Tier : Plan_Enum<"Tier", "where an arena is",
    [I32EnumAttrCase<"device", 0>, I32EnumAttrCase<"host", 1>, I32EnumAttrCase<"nvme", 2>]>;
def Plan_Queue : Plan_Enum<"Queue", "what executes a step", [
    I32EnumAttrCase<"compute", 0>, I32EnumAttrCase<"comm", 1>, I32EnumAttrCase<"h2d", 2>, I32EnumAttrCase<"d2h", 3>,
    I32EnumAttrCase<"nvme_read", 4>, I32EnumAttrCase<"nvme_write", 5>, I32EnumAttrCase<"host_compute", 6>]>;
def Plan_Class : Plan_Enum<"Class", "what a slice holds", [
    I32EnumAttrCase<"parameters", 0>, I32EnumAttrCase<"gradients", 1>, I32EnumAttrCase<"optimizer", 2>,
    I32EnumAttrCase<"activations", 3>, I32EnumAttrCase<"buffers", 4>]>;
def Plan_Section : Plan_Enum<"Section", "steps that are executed together", [I32EnumAttrCase<"micro", 0>,
    I32EnumAttrCase<"update", 1>, I32EnumAttrCase<"eval", 2>]>;
def Plan_Metric : Plan_Enum<"Metric", "of a step's metrics, which one a slice holds",
    [I32EnumAttrCase<"loss", 0>, I32EnumAttrCase<"grad_norm", 1>]>;
def Plan_Access : Plan_Enum<"Access", "what a step does to an operand",
    [I32EnumAttrCase<"read", 0>, I32EnumAttrCase<"write", 1>, I32EnumAttrCase<"read_write", 2>]>;

def Plan_AxisKind : Plan_Enum<"AxisKind", "what ranks that differ on an axis have of their own: data, or a share of the work on a sample",
    [I32EnumAttrCase<"data", 0>, I32EnumAttrCase<"model", 1>]>;

#endif // ZC_PLAN_ENUMS
