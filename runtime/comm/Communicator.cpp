#include "runtime/comm/Communicator.h"

namespace zc {

TrafficClass trafficClassFromName(std::string_view name) {
  if (name == "gather")
    return TrafficClass::gather;
  if (name == "reduce_scatter")
    return TrafficClass::reduceScatter;
  return name == "all_reduce" ? TrafficClass::allReduce : TrafficClass::none;
}

void Communicator::count(TrafficClass kind, uint64_t bufferBytes, uint64_t sentBytesPerPeer, int ranksPerNode) {
  if (kind == TrafficClass::none)
    return;
  uint64_t &counter = kind == TrafficClass::gather          ? counters.gather
                      : kind == TrafficClass::reduceScatter ? counters.reduceScatter
                                                            : counters.allReduce;
  counter += bufferBytes;
  counters.intraNode += sentBytesPerPeer * static_cast<uint64_t>(ranksPerNode - 1);
  counters.interNode += sentBytesPerPeer * static_cast<uint64_t>(worldSize() - ranksPerNode);
}

} // namespace zc
