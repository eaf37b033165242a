// What libraries compute on a GPU, by the CPU's plain kernels.
#include "kernels/Workspace.h"
#include "kernels/cpu/FusedPlain.h"
#include "kernels/cuda/BatchNorm.h"
#include "kernels/cuda/HostKernels.h"

namespace zc::cuda {

Result<std::unique_ptr<Kernel>> plainProduct(KernelSpec spec) {
  static const KernelRegistry plain = [] {
    KernelRegistry filled;
    registerReferenceKernels(filled);
    return filled;
  }();
  spec.workspace = workspaceBytes(spec, Target::cpu); // is not looked at
  return plain.prepare(spec);
}

namespace {

class PlainKernel : public HostKernel {
public:
  explicit PlainKernel(std::unique_ptr<Kernel> kernel) : kernel(std::move(kernel)) {}
  Status enqueue(void *const *operands, const Frame &frame, HostQueue &) override {
    return kernel->run(operands, *frame.context);
  }

private:
  std::unique_ptr<Kernel> kernel;
};

/// A gradient that a program computes, an instruction after the other.
template <typename T> struct PlainGrad {
  const cpu::PlainProgram &program;
  void *const *inputs;
  template <int V> Pack<T, V> at(int64_t i) const {
    Pack<T, V> pack;
    for (int v = 0; v < V; ++v)
      pack.element[v] = store<T>(static_cast<Compute<T>>(program.result(inputs, i + v)));
    return pack;
  }
};

} // namespace

/// In place of what NVRTC compiles: partial sums where the workspace begins.
Prepared<Host> preparePlainSums(const KernelSpec &spec) {
  Result<ProgrammedSpec> seen = throughProgram(spec);
  ZC_RETURN_IF_ERROR(seen.status());
  Result<shapes::BatchNormShape> read = shapes::readBatchNormGradSums(seen->spec);
  ZC_RETURN_IF_ERROR(read.status());
  return withFloat(read->dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    using S = Statistic<T>;
    return launching<Host>(spec, [s = Channels(*read), epsilon = read->epsilon, first = seen->place(0),
                                  program = cpu::PlainProgram(*seen->prologue)](void *const *operands,
                                                                                const auto &launch) {
      auto of = [&](size_t i) { return operands[first + i]; };
      const ColumnCut cut{s.count, s.channels, s.parts, static_cast<double *>(launch.workspace())};
      const GradSums<PlainGrad<T>, T, S> sums{{program, operands},
                                              static_cast<const T *>(of(1)),
                                              static_cast<const S *>(of(3)),
                                              static_cast<const S *>(of(4)),
                                              epsilon};
      launch.template blocks<kColumnThreads>(cut.blocks(1), ColumnSumsBody<1, GradSums<PlainGrad<T>, T, S>>{cut, sums});
    });
  });
}

Prepared<Host> preparePlainProduct(const KernelSpec &spec) {
  Result<std::unique_ptr<Kernel>> kernel = plainProduct(spec);
  ZC_RETURN_IF_ERROR(kernel.status());
  return std::unique_ptr<HostKernel>(std::make_unique<PlainKernel>(std::move(*kernel)));
}

} // namespace zc::cuda
