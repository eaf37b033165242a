// The kernel `fused`: a program over whole tensors (FusedTiles.h).
#include "kernels/cpu/fast/Fast.h"
#include "kernels/cpu/fast/FusedTiles.h"

namespace zc::cpu {
namespace {

Prepared prepareFused(const KernelSpec &spec) {
  Result<FusedProgram> program = readFused(spec);
  ZC_RETURN_IF_ERROR(program.status());
  const TensorType &shape = spec.operands.back();
  std::vector<int64_t> sizes; // of the results' elements
  for (size_t i = spec.numInputs; i < spec.operands.size(); ++i)
    sizes.push_back(sizeOf(spec.operands[i].dtype));
  const std::vector<TensorType> inputs(spec.operands.begin(),
                                       spec.operands.begin() + static_cast<std::ptrdiff_t>(spec.numInputs));
  FusedTiles::Results over;
  for (auto [input, output] : spec.inPlace)
    over.set(output - spec.numInputs);
  return makeKernel(
      [tiles = FusedTiles(std::move(*program), inputs, shape.dims, over), sizes = std::move(sizes),
       numInputs = spec.numInputs, elements = shape.numElements(),
       threads = threadsFor(spec.threads, shape.numElements())](void *const *operands, const StepContext &) {
        parallelRanges(threads, elements, FusedTiles::kTile, [&](int64_t begin, int64_t end, int) {
          void *results[kFusedResults];
          for (size_t i = 0; i < sizes.size(); ++i)
            results[i] = as<char>(operands[numInputs + i]) + begin * sizes[i];
          tiles.run(operands, results, begin, end);
        });
      });
}

} // namespace

void addFastFused(KernelRegistry &registry) { registry.add("fused", prepareFused); }

} // namespace zc::cpu
