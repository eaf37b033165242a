#include "kernels/cuda/Workspace.h"
#include "kernels/WorkspaceFormulas.h"

namespace zc::cuda {

ReduceCut::ReduceCut(const cpu::ReduceShape &shape)
    : results(cpu::product(shape.kept, 0, shape.kept.size())), n(cpu::product(shape.reduced, 0, shape.reduced.size())) {
  bool areColumns = results >= 32 && !shape.keptStrides.empty() && shape.keptStrides.back() == 1 && n > 1;
  columnBlocks = areColumns ? (results + kReduceColumns - 1) / kReduceColumns : 0;
  int64_t blocks = std::max<int64_t>(1, areColumns ? columnBlocks : results);
  parts = std::max<int64_t>(1, std::min(n / (areColumns ? 64 : 4096), 1024 / blocks));
}

namespace {

/// Bytes of what `read` found, 0 for a spec that no kernel takes.
template <typename Read, typename Fn> int64_t bytesOf(const Read &read, Fn fn) { return read.ok() ? fn(*read) : 0; }

int64_t ofReduce(const KernelSpec &spec) {
  return bytesOf(cpu::readReduce(spec), [](const cpu::ReduceShape &s) { return ReduceCut(s).bytes(); });
}

} // namespace

const std::vector<WorkspaceFormula> &workspaceFormulas() {
  static const std::vector<WorkspaceFormula> formulas = {
      {"cross_entropy", [](const KernelSpec &spec) { return bytesOf(cpu::readCrossEntropy(spec), crossEntropyBytes); }},
      {"cross_entropy_grad",
       [](const KernelSpec &spec) { return bytesOf(cpu::readCrossEntropyGrad(spec), crossEntropyGradBytes); }},
      {"gather_grad", [](const KernelSpec &spec) { return bytesOf(cpu::readGather(spec, 2, 0), gatherGradBytes); }},
      {"layer_norm_grad",
       [](const KernelSpec &spec) {
         return bytesOf(cpu::readLayerNormGrad(spec), [](const cpu::NormShape &s) { return normGradBytes(s, 2); });
       }},
      {"rms_norm_grad",
       [](const KernelSpec &spec) {
         return bytesOf(cpu::readRmsNormGrad(spec), [](const cpu::NormShape &s) { return normGradBytes(s, 1); });
       }},
      {"reduce_max", ofReduce},
      {"reduce_mean", ofReduce},
      {"reduce_min", ofReduce},
      {"reduce_prod", ofReduce},
      {"reduce_sum", ofReduce},
  };
  return formulas;
}

} // namespace zc::cuda
