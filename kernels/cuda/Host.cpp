#include "kernels/cuda/HostKernels.h"
#include "kernels/cuda/Kernels.h"

#include "kernels/shapes/LinearParts.h"

namespace zc::cuda {

namespace {

class KernelAtOnce : public Kernel {
public:
  KernelAtOnce(const KernelSpec &spec, std::unique_ptr<HostKernel> kernel) : spec(spec), kernel(std::move(kernel)) {}
  Status run(void *const *operands, const StepContext &context) override {
    FirstError error{};
    QueueAtOnce queue;
    ZC_RETURN_IF_ERROR(kernel->enqueue(operands, Frame{&context, &error, 0}, queue));
    if (error.set)
      return error.wrong.told(spec);
    return Status::success();
  }

private:
  KernelSpec spec;
  std::unique_ptr<HostKernel> kernel;
};

} // namespace

void addAtOnce(KernelRegistry &registry, const HostKernelRegistry &kernels) {
  for (const auto &[name, factory] : kernels.all())
    registry.add(name, [factory = factory](const KernelSpec &spec) -> Result<std::unique_ptr<Kernel>> {
      Prepared<Host> kernel = factory(spec);
      ZC_RETURN_IF_ERROR(kernel.status());
      return std::unique_ptr<Kernel>(std::make_unique<KernelAtOnce>(spec, std::move(*kernel)));
    });
}

void addHostFamilies(HostKernelRegistry &registry, const PartMaker<Host> &sumsOfProgram) {
  addHostArithmetic(registry);
  addHostAttention(registry);
  addHostFunctions(registry);
  addHostIndex(registry);
  addHostMove(registry);
  addHostNorms(registry);
  addHostReductions(registry);
  addHostRows(registry);
  addHostUpdates(registry);
  addHostVision(registry, sumsOfProgram);
}

void registerHostBlockKernels(KernelRegistry &registry) {
  HostKernelRegistry kernels;
  addHostFamilies(kernels, preparePlainSums);
  addHostHeads(kernels, preparePlainProduct);
  addAtOnce(registry, kernels);
  shapes::addLinear(registry, plainProduct);
}

} // namespace zc::cuda
