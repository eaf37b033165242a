#include "kernels/cpu/FusedPlain.h"
#include "kernels/cuda/BatchNorm.h"
#include "kernels/cuda/Conv.h"
#include "kernels/cuda/Kernels.h"
#include "kernels/cuda/Pool.h"

namespace zc::cuda {

namespace {

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

/// In place of what NVRTC compiles: partial sums where the workspace begins.
Prepared<Host> prepareProgramSums(const KernelSpec &spec) {
  Result<ProgrammedSpec> seen = throughProgram(spec);
  ZC_RETURN_IF_ERROR(seen.status());
  Result<cpu::BatchNormShape> read = cpu::readBatchNormGradSums(seen->spec);
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

} // namespace

void addHostVision(KernelRegistry &registry) {
  addPools<Host>(registry);
  addBatchNorms<Host>(registry, prepareProgramSums);
  addConvs<Host>(registry);
}

} // namespace zc::cuda
