#include "test/runtime/RunPlan.h"
#include "runtime/exec/Job.h"
#include "runtime/exec/PrepareRank.h"
#include "runtime/plan/PlanMesh.h"
#include "runtime/plan/Verify.h"
#include "test/runtime/TestPlan.h"

namespace zc::test {

Status runUnverified(const planpb::Plan &plan, DeviceKind device, int64_t steps, Outcome &outcome,
                     const std::function<void(RankExecutor &)> &after) {
  KernelRegistry registry = testKernels();
  return runJob(meshOf(plan), [&](Communicator &communicator) -> Status {
    const Mesh &mesh = communicator.mesh();
    TestLoader loader(mesh.indexOf(mesh.dataAxes(), communicator.rank()));
    ExecutorOptions options;
    options.device = device;
    options.nvme.folder = testing::TempDir();
    auto executor = prepareRank(plan, options, communicator, registry, loader);
    if (!executor)
      return executor.error();
    for (int64_t step = 1; step <= steps; ++step) {
      ZC_RETURN_IF_ERROR((*executor)->runStep(contextOf(step)));
      if (communicator.rank() == 0)
        outcome.losses.push_back((*executor)->loss().value());
    }
    ZC_RETURN_IF_ERROR((*executor)->drain());
    if (communicator.rank() == 0)
      outcome.state = persistentBytes(**executor);
    if (after)
      after(**executor);
    return {};
  });
}

Status runPlan(const planpb::Plan &plan, DeviceKind device, int64_t steps, Outcome &outcome,
               const std::function<void(RankExecutor &)> &after) {
  ZC_RETURN_IF_ERROR(verifyPlan(plan));
  return runUnverified(plan, device, steps, outcome, after);
}

} // namespace zc::test
