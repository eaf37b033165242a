#include "runtime/comm/Communicator.h"

#include "runtime/comm/Linked.h"

#include "base/Clock.h"
#include "base/Failpoint.h"
#include "kernels/OrderedSum.h"

#include <algorithm>
#include <cstring>
#include <optional>

namespace zc {

/// By Collective: name and failpoint.
static constexpr struct {
  std::string_view name;
  const char *site;
} kKinds[] = {{"all_gather", "coll.allgather"}, {"reduce_scatter", "coll.reducescatter"},
              {"all_reduce", "coll.allreduce"}, {"all_to_all", "coll.alltoall"},
              {"broadcast", "coll.broadcast"},  {"barrier", "coll.barrier"}};

Error echoOf(int rank, const Error &cause) {
  Error error =
      makeError(Code::peerLost, 602, "rank " + std::to_string(rank) + " failed: " + cause.message, cause.where);
  error.note = cause.note;
  return error;
}

Error differError(const Mesh &mesh, int rank, const Call &call, int otherRank, const Call &other) {
  return makeError(Code::peerLost, 604,
                   "collectives differ: " + describe(mesh, rank, call) + ", " + describe(mesh, otherRank, other));
}

std::string_view nameOf(Collective kind) { return kKinds[static_cast<size_t>(kind)].name; }

std::string describe(const Mesh &mesh, int rank, const Call &call) {
  std::string text = "rank " + std::to_string(rank) + " calls " + std::string(nameOf(call.kind)) + " of " +
                     std::to_string(call.bytes) + " bytes of " + std::string(nameOf(call.type));
  bool isAll = mesh.size(call.axes) == mesh.worldSize();
  return isAll ? text : text + " along " + mesh.nameOf(call.axes);
}

template <typename Run> Status Communicator::carryOut(const Call &call, const Run &run) {
  if (auto fault = failpoint(kKinds[static_cast<size_t>(call.kind)].site)) {
    Error error = makeError(Code::peerLost, 606, std::string(nameOf(call.kind)) + " was told to fail", "ZERO_FAULT");
    if (fault->kind == FaultAction::Kind::error)
      error.message += std::string(": ") + std::strerror(fault->errnum);
    else if (fault->kind == FaultAction::Kind::shorten) { // a rank that is out of step with the others
      Call other = call;
      other.bytes += 1;
      return run(other);
    }
    abort(error);
    return error;
  }
  int64_t begin = nanoseconds();
  if (flight)
    flight->begin(call, std::max<int64_t>(0, faultStep()), lane != nullptr);
  Status status = run(call);
  if (flight && status.ok()) // what failed stays visible as not over
    flight->end();
  elapsed += nanoseconds() - begin;
  return status;
}

/// Where `part` may lie in `whole`: nowhere, or at `place` alone. Null where they are apart or as they may be.
static const char *overlap(const void *part, uint64_t partBytes, const void *whole, uint64_t wholeBytes,
                           std::optional<uint64_t> place) {
  auto first = reinterpret_cast<uintptr_t>(part), other = reinterpret_cast<uintptr_t>(whole);
  bool meet = partBytes > 0 && wholeBytes > 0 && first < other + wholeBytes && other < first + partBytes;
  if (!meet || (place && first == other + *place))
    return nullptr;
  return place ? "overlap otherwise than as the rank's own part" : "overlap";
}

Status Communicator::checkBuffers(const Call &call, const char *problem) {
  if (!problem)
    return {};
  Error error = makeError(Code::internal, 608, describe(ranks, rank(), call) + " with buffers that " + problem);
  abort(error);
  return error;
}

Communicator::Communicator(const Mesh &mesh, int rank) : ranks(mesh), self(rank) {}
Communicator::~Communicator() = default;

void Communicator::link(std::unique_ptr<DeviceLinks> made) {
  linked = std::make_unique<LinkedCollectives>(std::move(made), ranks, self);
  known = linked->links.get();
}

DeviceLinks *Communicator::links() const { return known; }

void Communicator::abort(const Error &cause) {
  runAbort(cause);
  if (DeviceLinks *aborted = known)
    aborted->abort();
}

Status Communicator::allGather(const AllGatherOptions &options) {
  Call call = callOf(Collective::allGather, options.axes, DType::u8, 0, options.bytes);
  ZC_RETURN_IF_ERROR(checkBuffers(call, overlap(options.input, options.bytes, options.output,
                                                options.bytes * members(call), options.bytes * member(call))));
  ZC_RETURN_IF_ERROR(carryOut(call, [&](const Call &call) {
    return lane && linked ? linked->allGather(call, options, *lane) : runAllGather(call, options);
  }));
  count(options.traffic, call, options.bytes * members(call), options.bytes);
  return {};
}

Status Communicator::reduceScatter(const ReduceScatterOptions &options) {
  ZC_RETURN_IF_ERROR(checkSum(options.inputType, options.outputType));
  uint64_t part = options.elements * static_cast<uint64_t>(sizeOf(options.inputType));
  Call call = callOf(Collective::reduceScatter, options.axes, options.inputType, 0, part);
  // A sum of another width would run into what others are yet to read.
  std::optional<uint64_t> own;
  if (options.inputType == options.outputType)
    own = part * member(call);
  ZC_RETURN_IF_ERROR(
      checkBuffers(call, overlap(options.output, options.elements * static_cast<uint64_t>(sizeOf(options.outputType)),
                                 options.input, part * members(call), own)));
  ZC_RETURN_IF_ERROR(carryOut(call, [&](const Call &call) {
    return lane && linked ? linked->reduceScatter(call, options, *lane) : runReduceScatter(call, options);
  }));
  count(options.traffic, call, part * members(call), part);
  return {};
}

Status Communicator::allReduce(const AllReduceOptions &options) {
  ZC_RETURN_IF_ERROR(checkSum(options.type, options.type));
  uint64_t size = static_cast<uint64_t>(sizeOf(options.type)), whole = options.elements * size;
  Call call = callOf(Collective::allReduce, options.axes, options.type, 0, whole);
  ZC_RETURN_IF_ERROR(checkBuffers(call, overlap(options.input, whole, options.output, whole, 0)));
  ZC_RETURN_IF_ERROR(carryOut(call, [&](const Call &call) {
    return lane && linked ? linked->allReduce(call, options, *lane) : runAllReduce(call, options);
  }));
  // As a reduce-scatter and a gather.
  uint64_t part = (options.elements + members(call) - 1) / members(call) * size;
  count(options.traffic, call, 2 * whole, 2 * part);
  return {};
}

Status Communicator::allToAll(const AllToAllOptions &options) {
  Call call = callOf(Collective::allToAll, options.axes, DType::u8, 0, options.bytes);
  uint64_t whole = options.bytes * members(call);
  ZC_RETURN_IF_ERROR(checkBuffers(call, overlap(options.input, whole, options.output, whole, std::nullopt)));
  ZC_RETURN_IF_ERROR(carryOut(call, [&](const Call &call) {
    return lane && linked ? linked->allToAll(call, options, *lane) : runAllToAll(call, options);
  }));
  count(options.traffic, call, options.bytes * members(call), options.bytes);
  return {};
}

Status Communicator::broadcast(const BroadcastOptions &options) {
  Call call = callOf(Collective::broadcast, options.axes, DType::u8, options.root, options.bytes);
  return carryOut(call, [&](const Call &call) { return runBroadcast(call, options); });
}

Status Communicator::barrier() {
  return carryOut(callOf(Collective::barrier, AxisSet::all(), DType::u8, 0, 0),
                  [&](const Call &call) { return runBarrier(call); });
}

Status Communicator::checkSum(DType input, DType output) {
  if (isSummable(input, output))
    return {};
  Error error =
      makeError(Code::unsupported, 605,
                "sums of " + std::string(nameOf(input)) + " to " + std::string(nameOf(output)) + " are not supported");
  abort(error);
  return error;
}

/// Of the buffer's bytes; null where no counter has them.
static uint64_t Traffic::*counterOf(TrafficClass kind) {
  switch (kind) {
  case TrafficClass::gather:
    return &Traffic::gather;
  case TrafficClass::reduceScatter:
    return &Traffic::reduceScatter;
  case TrafficClass::allReduce:
    return &Traffic::allReduce;
  case TrafficClass::none:
  case TrafficClass::hop:
    break;
  }
  return nullptr;
}

void Communicator::count(TrafficClass kind, const Call &call, uint64_t bufferBytes, uint64_t sentBytesPerPeer) {
  if (kind == TrafficClass::none)
    return;
  if (ranks.worldSize() == 1) // nothing is sent, whatever the plan calls
    return;
  if (ranks.size(call.axes) > 1 && ranks.size(call.axes & ranks.dataAxes()) == 1)
    counters.model += bufferBytes;
  else if (uint64_t Traffic::*counter = counterOf(kind))
    counters.*counter += bufferBytes;
  int near = ranks.sizeOnNode(call.axes);
  counters.intraNode += sentBytesPerPeer * static_cast<uint64_t>(near - 1);
  counters.interNode += sentBytesPerPeer * static_cast<uint64_t>(ranks.size(call.axes) - near);
}

} // namespace zc
