//===- Passes.td - from the zero level to a plan ----*- tablegen -*-===//
#ifndef ZC_SCHEDULE_PASSES
#define ZC_SCHEDULE_PASSES

include "mlir/Pass/PassBase.td"

def OverlapTensorParallel : Pass<"overlap-tensor-parallel", "::mlir::ModuleOp"> {
  let summary = "of a product that is summed over the model axis, one half of the rows is multiplied while the other is summed";
  let description = [{
    In: the zero level. Out: with `overlap-tensor-parallel=halves`, a `graph.matmul` that only a `graph.all_reduce` or a
    `graph.reduce_scatter` reads stands there as two, each with a sum of its own, where the rates of `plan.machine` say that what reads the
    sum can then begin earlier: where other work stands beside the sum already, as in backward, it stays. The halves read their rows where
    they are, and the sums are where the whole is (`zero.put`, which plan-memory leaves out): nothing is copied, and the bytes sent stay the
    same. The second half is multiplied beside the first one's sum, as in domino (arXiv 2409.15241) and the halves of a batch there. Of a
    reduce_scatter a half is half of each rank's part, and its product one for each of these runs of rows; where zero-model-axis had to
    bring parts together, half of what is outside of them, and one product.
  }];
  let constructor = "::zc::createOverlapTensorParallel()";
  let statistics = [Statistic<"numProducts", "halved", "products in two halves">];
  let dependentDialects = ["::zc::zero::ZeroDialect"];
}

def AssignQueues : Pass<"assign-queues", "::mlir::ModuleOp"> {
  let summary = "say what executes each operation, and how long it takes";
  let description = [{
    In: the zero level. Out: `zero.storage` first, no `graph.backward`, `plan.queue` and `plan.seconds` (cost model, with the rates of
    `plan.machine`) stand on every operation of the programs.
  }];
  let dependentDialects = ["::zc::plan::PlanDialect"];
}

def JoinUpdate : Pass<"join-update", "::mlir::ModuleOp"> {
  let summary = "schedule the update beside backward";
  let description = [{
    In: output of assign-queues, with one micro-step per step. Out: the update's operations stand at the end of the micro program,
    and the update program is empty. What the host or a file has a part in, order may then begin as soon as its gradient is there;
    without `overlap` such an update stays by itself. On the device, where compute keeps its order, the norm's share and the update
    of a bucket have been moved to where its gradient is complete and its parameters are read for the last time; where ranks sum
    the gradient, to where that of the next bucket but one is (`overlap`: of the next, of its own), so that compute does not wait. Not
    where the update depends on the norm: gradients are clipped, their losses weighted or scaled.
    With more micro-steps their loop ends before the update begins. A delayed update stays where it is: it runs beside the next step.
    Source: ZeRO-Offload (arXiv 2101.06840, section 4.1); LOMO (arXiv 2306.09782).
  }];
  let constructor = "::zc::createJoinUpdate()";
  let dependentDialects = ["::zc::plan::PlanDialect"];
}

def Prefetch : Pass<"prefetch", "::mlir::ModuleOp"> {
  let summary = "gather and fetch ahead of use";
  let description = [{
    In: output of assign-queues. Out: no `zero.load`: what they have stands in their place, and that has moved up, until the compute they
    pass takes as long as their slowest link or `prefetch` bytes wait on the device. auto: the two largest loads. 0: load just before use.
    For links between tiers slower than expected a fetch passes the first use of another load at least. Loads keep their order. How far
    reading a file runs ahead follows from the slots of the staging. Source: ZeRO-Infinity's overlap-centric design (arXiv 2104.07857,
    section 6.2), decided before the run.
  }];
  let constructor = "::zc::createPrefetch()";
  let statistics = [Statistic<"numMoved", "moved", "loads moved">];
}

def Order : Pass<"order", "::mlir::ModuleOp"> {
  let summary = "list scheduling of the queues; the order of the operations becomes the order of their starts";
  let description = [{
    In: output of prefetch. Out: the same operations in another order. Solves a ScheduleProblem per program (compute keeps
    its order, which bounds memory; communication goes as soon as its data are there, but no gather before the place prefetch
    gave it; a delayed update publishes before it uses a queue for anything else; compute waits where more than the two
    largest pieces would wait to leave the device), verifies the solution and reorders the block; `plan.starts` says when each is to
    begin. Without `overlap` compute also waits for slots of the staging.
  }];
  let constructor = "::zc::createOrder()";
}

def PlanMemory : Pass<"plan-memory", "::mlir::ModuleOp"> {
  let summary = "static offsets from lifetimes";
  let description = [{
    In: the zero level in its final order. Out: with a `plan.arena` per tier and `plan.slice`s, and on every operation where its
    results are (`plan.results`) and what its kernel or sum over ranks works in besides (`plan.workspace`: bytes that live while
    it runs), on programs where the inputs are (`plan.inputs`), on buckets where their storage is.
    Views share bytes; elementwise results may overwrite a dying operand; gradients are produced in their bucket. A bucket's
    gradients on the device outlive the micro program only where it has not their update too. With
    `overlap` bytes are free again when their last use is planned to have ended (the `plan.starts` of order), so that no queue
    waits for another because of reuse, and, for links slower than expected, what leaves the device not before two more pieces
    have to; without, as soon as that use is ordered, which takes the least memory. A delayed
    update shares no bytes off the device with the micro-step, and what it publishes none with the rest of it: they run beside
    each other. Solves and verifies a
    MemoryProblem. Source: ZeRO-R MD (arXiv 1910.02054, section 6.3).
  }];
  let constructor = "::zc::createPlanMemory()";
  let dependentDialects = ["::zc::plan::PlanDialect"];
}

def KeepPacked : Pass<"keep-packed", "::mlir::ModuleOp"> {
  let summary = "what kernels make of weights stays from micro-step to micro-step";
  let description = [{
    In: output of plan-memory. Out: with accumulation, in rolled plans for CPUs, operations whose kernel rearranges a factor before it
    multiplies by it have bytes for that (`plan.kept`), where the factor is a parameter that the device has all of through the
    micro-steps: it is rearranged in a step's first alone. Equal operations of one parameter, as recomputation makes them, share these bytes.
    In the program's order, as many as `device-mem` leaves room for. Bits do not change.
  }];
  let constructor = "::zc::createKeepPacked()";
  let statistics = [Statistic<"numKept", "kept", "operations that keep something">];
  let dependentDialects = ["::zc::plan::PlanDialect"];
}

def LowerToPlan : Pass<"lower-to-plan", "::mlir::ModuleOp"> {
  let summary = "operations become steps with operands in slices and waits between queues";
  let description = [{
    In: output of plan-memory or keep-packed. Out: the plan dialect only. Waits come from the hazard tracker that also verifies
    plans (runtime/plan/Hazards.h): a step waits for what it conflicts with on other queues, no more. `plan.share`s divide a rank's
    threads among the queues by what then runs beside what (ThreadShares.h).
  }];
  let statistics = [Statistic<"numSteps", "steps", "steps made">, Statistic<"numWaits", "waits", "waits made">];
  let dependentDialects = ["::zc::plan::PlanDialect"];
}

def VerifyPlanLevel : Pass<"verify-plan", "::mlir::ModuleOp"> {
  let summary = "border check: only the plan dialect is left";
  let description = "In: output of lower-to-plan. Out: the same; an operation of another dialect is an error.";
}

#endif // ZC_SCHEDULE_PASSES
