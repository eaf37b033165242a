#include "runtime/exec/PrepareRank.h"

#include "base/Failpoint.h"
#include "runtime/cuda/Cuda.h"
#include "runtime/device/Fake.h"
#include "runtime/exec/DeviceJob.h"
#include "runtime/exec/QueueExecutor.h"
#include "runtime/exec/StreamExecutor.h"
#include "runtime/plan/Walk.h"

namespace zc {

namespace {

/// Everything inline, in plan order: needs no waits, because they point backward.
class SyncExecutor : public BaseExecutor {
public:
  using BaseExecutor::BaseExecutor;
  Status runStep(const StepContext &context) override {
    StepContext now = context;
    setFaultContext(communicator.rank(), now.step);
    const uint32_t micros = prepared.plan.accumulation();
    for (now.micro = micros - microExecutions(prepared.plan); now.micro < micros; ++now.micro)
      ZC_RETURN_IF_ERROR(runSection(0, now));
    now.micro = prepared.plan.accumulation() - 1;
    ZC_RETURN_IF_ERROR(runSection(1, now));
    if (prepared.publishesLast(now.step))
      if (Status status = publish(now); !status.ok()) {
        communicator.abort(status.error());
        return status;
      }
    return prepared.agreesInStep ? Status() : agreeNow();
  }
  Status drain() override { return {}; }
  Status start() { return {}; }

private:
  Status runSection(uint32_t section, const StepContext &context) {
    for (const PreparedStep &step : prepared.steps[section]) {
      if (step.publishes && prepared.publishesLast(context.step))
        continue;
      if (Status status = execute(step, section, context); !status.ok()) {
        communicator.abort(status.error());
        return status;
      }
    }
    return {};
  }
};

/// A thread per queue; the first queue with steps is served by the caller, which would only wait otherwise.
class CpuExecutor : public QueueExecutor {
public:
  using QueueExecutor::QueueExecutor;

  /// After prepare.
  Status start() {
    for (unsigned queue = 0; queue < kNumQueues; ++queue)
      if (prepared.stepsPerIteration(queue) > 0) {
        if (own)
          startThread(queue);
        else
          own = queue;
      }
    return {};
  }

protected:
  void runOwn(uint64_t mine) override {
    if (own)
      runQueue(*own, mine);
  }

private:
  std::optional<unsigned> own;
};

/// A device of the kind, ready to run.
template <typename Executor>
Result<std::unique_ptr<RankExecutor>> start(std::unique_ptr<Executor> executor, const ExecutorOptions &options,
                                            const KernelRegistry &registry, InputLoader &loader) {
  ZC_RETURN_IF_ERROR(executor->prepare(options, registry, loader));
  ZC_RETURN_IF_ERROR(executor->start());
  return std::unique_ptr<RankExecutor>(std::move(executor));
}

} // namespace

static CudaOptions cudaOptionsOf(const planpb::Plan &plan, const ExecutorOptions &options,
                                 const Communicator &communicator) {
  CudaOptions cuda;
  cuda.rank = communicator.rank();
  cuda.localRank = options.localRank;
  cuda.localRanks = options.localRanks;
  for (const planpb::Arena &arena : plan.arenas())
    if (arena.tier() == planpb::DEVICE)
      cuda.planned += arena.bytes();
  cuda.isSync = options.device == DeviceKind::cudaSync;
  cuda.shareProcess = !communicator.links() && communicator.takesLanes() && options.localRanks > 1;
  return cuda;
}

Result<std::unique_ptr<RankExecutor>> prepareRank(const planpb::Plan &plan, const ExecutorOptions &options,
                                                  Communicator &communicator, const KernelRegistry &registry,
                                                  InputLoader &loader) {
  switch (options.device) {
  case DeviceKind::sync:
    return start(std::make_unique<SyncExecutor>(plan, options, communicator), options, registry, loader);
  case DeviceKind::cpu:
    break;
  case DeviceKind::fake:
    return prepareOnDevice(makeFakeDevice(registry, {options.seed.value_or(plan.seed()), communicator.rank()}), plan,
                           options, communicator, registry, loader);
  case DeviceKind::cuda:
  case DeviceKind::cudaSync: {
    Result<std::unique_ptr<Device>> device = openCudaDevice(cudaOptionsOf(plan, options, communicator));
    Result<std::string> kinds = agreeOnDevices(communicator, device);
    ZC_RETURN_IF_ERROR(kinds.status());
    ZC_RETURN_IF_ERROR(linkDevices(communicator, **device, plan));
    return prepareOnDevice(std::move(*device), plan, options, communicator, registry, loader, *kinds);
  }
  }
  return start(std::make_unique<CpuExecutor>(plan, options, communicator), options, registry, loader);
}

} // namespace zc
