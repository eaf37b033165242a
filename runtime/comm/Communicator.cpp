#include "runtime/comm/Communicator.h"

#include "runtime/comm/Sums.h"

namespace zc {

TrafficClass trafficClassFromName(std::string_view name) {
  if (name == "gather")
    return TrafficClass::gather;
  if (name == "reduce_scatter")
    return TrafficClass::reduceScatter;
  if (name == "all_reduce")
    return TrafficClass::allReduce;
  return name == "hop" ? TrafficClass::hop : TrafficClass::none;
}

Error echoOf(int rank, const Error &cause) {
  Error error =
      makeError(Code::peerLost, 602, "rank " + std::to_string(rank) + " failed: " + cause.message, cause.where);
  error.note = cause.note;
  return error;
}

Status Communicator::allGather(const AllGatherOptions &options) {
  ZC_RETURN_IF_ERROR(runAllGather(options));
  count(options.traffic, options.axis, options.bytes * static_cast<uint64_t>(ranks.size(options.axis)), options.bytes);
  return {};
}

Status Communicator::reduceScatter(const ReduceScatterOptions &options) {
  ZC_RETURN_IF_ERROR(checkSum(options.inputType, options.outputType));
  ZC_RETURN_IF_ERROR(runReduceScatter(options));
  uint64_t part = options.elements * static_cast<uint64_t>(sizeOf(options.inputType));
  count(options.traffic, options.axis, part * static_cast<uint64_t>(ranks.size(options.axis)), part);
  return {};
}

Status Communicator::allReduce(const AllReduceOptions &options) {
  ZC_RETURN_IF_ERROR(checkSum(options.type, options.type));
  ZC_RETURN_IF_ERROR(runAllReduce(options));
  // As a reduce-scatter and a gather.
  uint64_t members = static_cast<uint64_t>(ranks.size(options.axis)),
           size = static_cast<uint64_t>(sizeOf(options.type));
  uint64_t part = (options.elements + members - 1) / members * size;
  count(options.traffic, options.axis, 2 * options.elements * size, 2 * part);
  return {};
}

Status Communicator::allToAll(const AllToAllOptions &options) {
  ZC_RETURN_IF_ERROR(runAllToAll(options));
  count(options.traffic, options.axis, options.bytes * static_cast<uint64_t>(ranks.size(options.axis)), options.bytes);
  return {};
}

Status Communicator::broadcast(const BroadcastOptions &options) { return runBroadcast(options); }

Status Communicator::barrier() { return runBarrier(); }

Status Communicator::checkSum(DType input, DType output) {
  if (isSummable(input, output))
    return {};
  Error error =
      makeError(Code::unsupported, 605,
                "sums of " + std::string(nameOf(input)) + " to " + std::string(nameOf(output)) + " are not supported");
  abort(error);
  return error;
}

void Communicator::count(TrafficClass kind, Axis axis, uint64_t bufferBytes, uint64_t sentBytesPerPeer) {
  if (kind == TrafficClass::none)
    return;
  if (kind == TrafficClass::gather)
    counters.gather += bufferBytes;
  else if (kind == TrafficClass::reduceScatter)
    counters.reduceScatter += bufferBytes;
  else if (kind == TrafficClass::allReduce)
    counters.allReduce += bufferBytes;
  int near = axis == Axis::node ? 0 : ranks.ranksPerNode - 1;
  counters.intraNode += sentBytesPerPeer * static_cast<uint64_t>(near);
  counters.interNode += sentBytesPerPeer * static_cast<uint64_t>(ranks.size(axis) - 1 - near);
}

} // namespace zc
