//===- Communicator.h - collectives over the ranks of a job -------------------===//
//
// All members of a group (Mesh.h) call the same collectives in the same order. Sums are taken in rank order, so every
// implementation gives the same bits. Buffers of a call must stay untouched by others until it returns. Calls come from
// one thread per rank at a time; abort() from any thread.
//
// Bytes counted (ZeRO papers' convention): a gather, reduce-scatter or all-to-all of a buffer of M bytes over all
// members counts M, for its class or, among ranks that share samples, for the model axis. As sent: each member sends
// its part to every other one, so (m-1) * M/m bytes, split by whether the peer is on the same node.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "base/Status.h"
#include "runtime/comm/Call.h"
#include "runtime/comm/CollectiveOptions.h"
#include "runtime/comm/FlightRecorder.h"
#include "runtime/comm/Lane.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

namespace zc {

/// Bytes of one rank so far. A communicator counts the first six, the executor those between tiers.
struct Traffic {
  uint64_t gather = 0;        ///< buffer bytes
  uint64_t reduceScatter = 0; ///< buffer bytes
  uint64_t allReduce = 0;     ///< buffer bytes
  uint64_t model = 0;         ///< buffer bytes of what ran among ranks that share samples, whatever its class
  uint64_t interNode = 0;     ///< bytes as sent to ranks of other nodes
  uint64_t intraNode = 0;     ///< bytes as sent to ranks of the same node
  uint64_t h2d = 0, d2h = 0;  ///< bytes from tier to tier, without what rounds up to blocks
  uint64_t nvmeRead = 0, nvmeWrite = 0;
};

/// What the others say when `rank` failed with `cause`: peer lost.
Error echoOf(int rank, const Error &cause);
/// Members of a group called different things: peer lost, naming both.
Error differError(const Mesh &mesh, int rank, const Call &call, int otherRank, const Call &other);

class DeviceLinks;
class LinkedCollectives;

/// One rank's end of a job. Errors of all collectives: another rank failed, left or called something else (peer lost,
/// with the root cause); a type that is not summed (unsupported); input and output that share bytes otherwise than "in
/// place" says: peers would read what is being written (internal).
class Communicator {
public:
  virtual ~Communicator();
  int rank() const { return self; }
  int worldSize() const { return ranks.worldSize(); }
  const Mesh &mesh() const { return ranks; }

  Status allGather(const AllGatherOptions &options);
  Status reduceScatter(const ReduceScatterOptions &options);
  Status allReduce(const AllReduceOptions &options);
  Status allToAll(const AllToAllOptions &options);
  Status broadcast(const BroadcastOptions &options);
  Status barrier();

  /// Do sums pass through the workspace of their options? Else it may be null.
  virtual bool stagesSums() const = 0;

  /// Can collectives be enqueued on a device's stream? Where not, their buffers are the host's.
  virtual bool takesLanes() const { return links() != nullptr; }
  /// Collectives, but broadcasts, are enqueued there from now on, on all ranks alike: their buffers are the device's,
  /// and they are over when the stream is behind them. Null: they are over when they return. If takesLanes().
  void enqueueOn(Lane *stream) { lane = stream; }

  /// What is enqueued goes over these links from now on, between devices of ranks in several processes. Once.
  void link(std::unique_ptr<DeviceLinks> made);
  /// Null: they are not linked.
  DeviceLinks *links() const;

  /// This rank failed: every rank's current and later calls return peer lost, naming the first such error. Any thread.
  void abort(const Error &cause);
  /// Once the job has failed, before memory that collectives were given goes, and when nothing that this rank enqueued
  /// is at work any more: returns when that is so of all ranks that may read this one's memory, or they have left. (A
  /// stream that fails follows nobody.) At once where nothing has failed.
  virtual void awaitQuiet() {}
  /// `end`: ends this rank's waits. Peers' threads call it where one of them is lost and this rank has not come to
  /// awaitQuiet ten seconds after them: its device may wait for what never comes. Null: `who` waits no more, and its
  /// `end` is not being called any more.
  virtual void whenLost(const void * /*who*/, std::function<void(const Error &)> /*end*/) {}

  const Traffic &traffic() const { return counters; }
  /// Seconds in collectives so far, waiting for others included.
  double seconds() const { return double(elapsed) / 1e9; }
  /// From now on collectives are noted there; null: nowhere. It must outlive the communicator's last call.
  void recordInto(FlightLog *log) { flight = log; }

protected:
  Communicator(const Mesh &mesh, int rank);
  /// Null when nothing is recorded.
  FlightLog *flight = nullptr;
  /// Null when the host does it all.
  Lane *lane = nullptr;

private:
  // What an implementation does; types have been checked. `call` is what all members must agree on.
  virtual void runAbort(const Error &cause) = 0;
  virtual Status runAllGather(const Call &call, const AllGatherOptions &options) = 0;
  virtual Status runReduceScatter(const Call &call, const ReduceScatterOptions &options) = 0;
  virtual Status runAllReduce(const Call &call, const AllReduceOptions &options) = 0;
  virtual Status runAllToAll(const Call &call, const AllToAllOptions &options) = 0;
  virtual Status runBroadcast(const Call &call, const BroadcastOptions &options) = 0;
  virtual Status runBarrier(const Call &call) = 0;

  /// Around every collective: faults on demand, the flight recorder, the time.
  template <typename Run> Status carryOut(const Call &call, const Run &run);
  /// A call along axes that the mesh has.
  Call callOf(Collective kind, AxisSet axes, DType type, int root, uint64_t bytes) const {
    return {kind, axes & ranks.all(), type, root, bytes};
  }
  uint64_t members(const Call &call) const { return static_cast<uint64_t>(ranks.size(call.axes)); }
  uint64_t member(const Call &call) const { return static_cast<uint64_t>(ranks.indexOf(call.axes, self)); }
  Status checkSum(DType input, DType output);
  /// `problem`: of the call's buffers, or null.
  Status checkBuffers(const Call &call, const char *problem);
  /// Adds a collective over a buffer of `bufferBytes` of which this rank sent `sentBytesPerPeer` to each other member.
  void count(TrafficClass kind, const Call &call, uint64_t bufferBytes, uint64_t sentBytesPerPeer);

  const Mesh ranks;
  const int self;
  Traffic counters;
  int64_t elapsed = 0; ///< ns
  std::unique_ptr<LinkedCollectives> linked;
  std::atomic<DeviceLinks *> known{nullptr}; ///< those of `linked`, for abort()
};

} // namespace zc
