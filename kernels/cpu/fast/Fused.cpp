// The kernel `fused`: a program over whole tensors (FusedTiles.h).
#include "kernels/cpu/fast/Fast.h"
#include "kernels/cpu/fast/FusedTiles.h"

namespace zc::cpu {
namespace {

Prepared prepareFused(const KernelSpec &spec) {
  Result<SeenSpec> seen = throughViews(spec);
  ZC_RETURN_IF_ERROR(seen.status());
  Result<FusedProgram> program = readFused(seen->spec);
  ZC_RETURN_IF_ERROR(program.status());
  struct Output {
    size_t operand;
    int64_t size; ///< of an element
  };
  std::vector<Output> outputs;
  FusedTiles::Results over;
  for (size_t i = spec.numInputs; i < seen->views.size(); ++i) {
    const size_t operand = seen->views[i].tensor;
    for (auto [input, output] : spec.inPlace)
      if (output == operand)
        over.set(outputs.size());
    outputs.push_back({operand, sizeOf(spec.operands[operand].dtype)});
  }
  const TensorType &shape = seen->spec.operands.back();
  return makeKernel(
      [tiles = FusedTiles(std::move(*program), seen->views, shape.dims, over), outputs = std::move(outputs),
       elements = shape.numElements(),
       threads = threadsFor(spec.threads, shape.numElements())](void *const *operands, const StepContext &) {
        parallelRanges(threads, elements, FusedTiles::kTile, [&](int64_t begin, int64_t end, int) {
          void *results[kFusedResults];
          for (size_t i = 0; i < outputs.size(); ++i)
            results[i] = as<char>(operands[outputs[i].operand]) + (tiles.isInOrder(i) ? begin * outputs[i].size : 0);
          tiles.run(operands, results, begin, end);
        });
      });
}

} // namespace

void addFastFused(KernelRegistry &registry) { registry.add("fused", prepareFused); }

} // namespace zc::cpu
