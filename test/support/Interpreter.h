//===- Interpreter.h - runs a graph.program on kernels, one buffer per value --===//
//
// The reference for whatever the compiler makes of a graph: no plan, no arenas, no reuse of memory.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "dialects/graph/Graph.h"
#include "kernels/Kernel.h"
#include "mlir/IR/BuiltinOps.h"

#include <deque>
#include <map>
#include <string>
#include <vector>

namespace zc::test {

using Bytes = std::vector<char>;

class Interpreter {
public:
  /// Prepares every kernel of the module's program of phase micro; the module must outlive the interpreter.
  static Result<Interpreter> prepare(mlir::ModuleOp module, const KernelRegistry &registry, int modelRank = 0);

  /// Runs the program once on each of the ranks of the model axis, in lockstep: all prepared from one module. Inputs
  /// and parameters are those of each rank.
  static Status runRanks(std::deque<Interpreter> &ranks, const StepContext &context = {});
  /// Runs the program once. Inputs and parameters must have been set; gradients are overwritten, not accumulated.
  Status run(const StepContext &context = {});

  std::map<std::string, Bytes> inputs;     ///< by input name
  std::map<std::string, Bytes> parameters; ///< by symbol; assign writes here
  std::map<std::string, Bytes> gradients;  ///< by symbol
  std::vector<Bytes> results;              ///< what the program returned

private:
  struct alignas(64) Block {
    char bytes[64];
  };
  struct Step {
    mlir::Operation *op;
    std::unique_ptr<Kernel> kernel; ///< null for ops that only move buffers
    std::unique_ptr<Block[]> workspace;
  };

  Status setInputs();
  Status runStep(const Step &step, const StepContext &context) {
    return step.kernel ? runKernel(step, context) : runStructural(step.op);
  }
  Status runKernel(const Step &step, const StepContext &context);
  Status runStructural(mlir::Operation *op);

  graph::ProgramOp program;
  std::vector<Step> steps;
  mlir::DenseMap<mlir::Value, Bytes> values;
};

} // namespace zc::test
