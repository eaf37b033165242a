//===- ZeroInterfaces.td - what a schedule asks of an operation ----*- tablegen -*-===//
#ifndef ZC_ZERO_INTERFACES
#define ZC_ZERO_INTERFACES

include "mlir/IR/OpBase.td"
include "mlir/IR/Interfaces.td"

def ScheduledOp : OpInterface<"ScheduledOp"> {
  let cppNamespace = "::zc::zero";
  let description = [{
    What executes an operation, what it costs, what it overwrites, and which step it becomes (Scheduled.h). All that stands in a
    program of the zero level answers: the operations of this dialect, the few of the graph level that are no kernels
    (ZeroGraph.cpp), and every `graph.KernelOp`, wherever it comes from, from what that interface says.
  }];
  let methods = [
    InterfaceMethod<"What it takes: who works, and how much.", "::zc::zero::Work", "getWork">,
    InterfaceMethod<"The step it becomes; none where there is nothing to execute.", "::std::optional<::zc::zero::Step>",
      "getStep", (ins "::zc::zero::StepContext &":$context)>,
    InterfaceMethod<"What its step works in besides its operands.", "::zc::zero::Workspace", "getWorkspace",
      (ins "const ::zc::zero::ScheduleContext &":$context), [{}], [{ return ::zc::zero::Workspace(); }]>,
    InterfaceMethod<"Where the bytes of result `number` are.", "::zc::zero::ResultPlace", "getResultPlace",
      (ins "unsigned":$number, "const ::zc::zero::ScheduleContext &":$context), [{}],
      [{ return ::zc::zero::ResultPlace(); }]>,
    InterfaceMethod<"The operand whose bytes result `number` is, changed in place; or null.", "::mlir::Value",
      "getOverwritten", (ins "unsigned":$number), [{}], [{ return ::mlir::Value(); }]>,
    InterfaceMethod<"What it changes that no value stands for.", "::zc::zero::State", "getAssignedState", (ins), [{}],
      [{ return ::zc::zero::State(); }]>,
    InterfaceMethod<[{
      Does it bring parameters or activations to the device, and so decide how long they take memory there? What goes to
      storage takes none.
    }], "bool", "fillsDevice", (ins), [{}], [{ return false; }]>,
    InterfaceMethod<"The value whose bytes on the device are free once this has copied them; or null.", "::mlir::Value",
      "getEvicted", (ins), [{}], [{ return ::mlir::Value(); }]>,
    InterfaceMethod<"Does the same operation do something else in another micro-step: is its number read, are random "
      "numbers drawn?", "bool", "dependsOnMicroStep", (ins), [{}], [{ return false; }]>];
  let extraClassDeclaration = [{
    /// Also kernels, which have the interface through KernelOp.
    static Concept *getInterfaceFor(::mlir::Operation *op);
  }];
}

#endif // ZC_ZERO_INTERFACES
