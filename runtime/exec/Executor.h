//===- Executor.h - one rank of a verified plan, prepared and run -------------===//
//
// Three stages. Verify (verifyPlan) proves the plan sound; prepare maps arenas, prepares kernels and resolves every
// operand to a pointer; running does neither allocate nor lock beyond timelines. Device `sync` runs all steps inline in
// plan order and is the oracle; `cpu` has a thread per queue that occurs in the plan; a device with streams (Stream.h)
// is given a stream per queue of its own, and threads for the others. All give the same bits.
//
// But on `sync` a step ends for its caller when the loss and the norm are known. The rest of the update (the host's
// Adam, weights on their way back, gathers) goes on beside the next step's forward, held back only by the plan's waits.
// While a delayed update is not delayed yet (Delay in plan.proto), a step ends when it is over on all queues and its
// parameters are published.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "base/Names.h"
#include "kernels/Kernel.h"
#include "runtime/comm/Communicator.h"
#include "runtime/device/Link.h"
#include "runtime/device/Nvme.h"
#include "runtime/exec/Trace.h"
#include "runtime/plan/plan.pb.h"

#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

namespace zc {

class TierMemory;

/// Where steps named load_input get their bytes.
class InputLoader {
public:
  virtual ~InputLoader() = default;
  /// Fills `destination` with graph input `input` (index into Plan.inputs) for context.step and context.micro on this
  /// rank. `bytes` is what the input's type needs. Called from one thread at a time; must not allocate in the steady
  /// state.
  virtual Status load(uint32_t input, const StepContext &context, void *destination, uint64_t bytes) = 0;
};

/// Where steps named store_output put what a forward-only plan computes.
class OutputSink {
public:
  virtual ~OutputSink() = default;
  /// Takes `bytes` of graph output `output` (index into Plan.outputs) of context.step on this rank; they are gone when
  /// it returns. Called from one thread at a time.
  virtual Status store(uint32_t output, const StepContext &context, const void *source, uint64_t bytes) = 0;
};

/// `fake`: streams of a device made of threads (runtime/device/Fake.h). `cuda`: a GPU's; `cudaSync`: one stream, which
/// is empty before the next step is issued, so that errors are those of a step.
enum class DeviceKind : uint8_t { cpu, cuda, cudaSync, fake, sync };
constexpr std::array<const char *, 5> namesOf(DeviceKind) { return {"cpu", "cuda", "cuda-sync", "fake", "sync"}; }
constexpr bool isCuda(DeviceKind device) { return device == DeviceKind::cuda || device == DeviceKind::cudaSync; }

struct ExecutorOptions {
  DeviceKind device = DeviceKind::cpu;
  int localRank = 0;            ///< among the ranks of this machine: which GPU it has
  int localRanks = 1;           ///< of this machine
  int threads = 1;              ///< OpenMP threads of this rank's kernels
  std::optional<uint64_t> seed; ///< of dropout and random; Plan.seed if absent
  size_t traceCapacity = 0;     ///< events kept per queue (Trace.h); 0: no tracing
  int64_t traceFirst = 1;       ///< of the steps that are traced
  int64_t traceLast = std::numeric_limits<int64_t>::max();
  bool graphs = true;   ///< of a device with streams: work that comes again is captured; not in traced steps
  NvmeOptions nvme;     ///< where the NVMe tier goes, when the plan has one
  bool reserve = false; ///< all memory of the arenas is taken when they are mapped
  LinkRates links{};    ///< to slow down transfers
  std::shared_ptr<const ProductTable> products; ///< how products of some shapes are computed; null: as without one
  OutputSink *outputs = nullptr;                ///< null: outputs go nowhere
  /// Of another executor of this rank, whose plan has the same slices, which outlives this one and is drained whenever
  /// this one runs; null: the plan's arenas are mapped.
  std::shared_ptr<TierMemory> memory;
  /// Called once per step on every rank, on whatever thread runs collectives and at the same place among them, so that
  /// ranks can agree on something; its effects are visible when runStep returns. While a step is not drained, no other
  /// collectives may be called.
  std::function<Status()> agree;
};

/// What one arena was planned to take and takes.
struct ArenaUse {
  planpb::Tier tier = planpb::DEVICE;
  uint64_t planned = 0;  ///< bytes
  uint64_t mapped = 0;   ///< bytes, planned rounded up to pages
  uint64_t resident = 0; ///< bytes of pages touched so far; on NVMe, of disk
};

class RankExecutor {
public:
  virtual ~RankExecutor() = default;

  /// One optimizer step: `accumulation` micro-steps and the update. `context.step` (from 1) and `context.learningRate`
  /// are the caller's; `context.micro` is ignored. Returns when the step's loss and norm are known; the rest of it may
  /// still run, and an error there is the next call's. After an error (of the step that failed first on this rank; it
  /// names the node) the communicator is aborted and the executor can only be destroyed.
  virtual Status runStep(const StepContext &context) = 0;
  /// Waits until all steps are over. Errors as runStep.
  virtual Status drain() = 0;

  /// Bytes [offset, offset + bytes) of a slice, on whatever tier, to or from memory; after drain(), from any thread, of
  /// different bytes from several at a time. `slice` < Plan.slices, the range lies inside it. Errors: io and corrupt,
  /// of the NVMe tier only.
  virtual Status readSlice(uint32_t slice, uint64_t offset, void *to, uint64_t bytes) = 0;
  virtual Status writeSlice(uint32_t slice, uint64_t offset, const void *from, uint64_t bytes) = 0;
  /// Writes zeros.
  virtual Status clearSlice(uint32_t slice, uint64_t offset, uint64_t bytes) = 0;
  /// For an executor that runs between the steps of this one (ExecutorOptions::memory).
  virtual std::shared_ptr<TierMemory> memory() const = 0;
  virtual const planpb::Plan &plan() const = 0;
  virtual int rank() const = 0;

  /// Mean loss of the last step: the loss slice / (data-parallel degree * accumulation), or over the
  /// weights where the plan has weighted losses. None where these are 0, so that no label counts; of a forward-only
  /// plan.
  virtual std::optional<double> loss() const = 0;
  /// Global gradient norm before clipping of the last step, where the plan computes it.
  virtual std::optional<double> gradNorm() const = 0;

  // After drain().
  virtual std::vector<ArenaUse> arenas() const = 0;
  virtual Traffic traffic() const = 0;
  /// Seconds in which the host gave streams their work, per step after the second; ranks of one process also wait for
  /// each other in there. None on devices without streams, and of fewer steps.
  virtual std::optional<double> issueSeconds() const { return std::nullopt; }
  /// What the user should know about how this rank was prepared; a line each.
  virtual const std::vector<std::string> &notes() const = 0;
  /// And about how it ran; after drain().
  virtual std::vector<std::string> lateNotes() const { return {}; }
  /// Events recorded since the last call, oldest first; after drain().
  virtual std::vector<TraceEvent> takeTrace() = 0;
};

} // namespace zc
