//===- Communicator.h - collectives over the ranks of a job -------------------===//
//
// All ranks call the same collectives in the same order. Sums are taken in rank order, so every implementation gives
// the same bits. Buffers of a call must stay untouched by others until it returns. Calls come from one thread per rank
// at a time; abort() from any thread.
//
// Bytes counted (ZeRO papers' convention): a gather or reduce-scatter of a buffer of M bytes over all ranks counts M.
// As sent: each rank sends its part to W-1 peers, so (W-1) * M/W bytes, split by whether the peer is on the same node.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/base/Status.h"
#include "runtime/base/Tensor.h"

#include <cstdint>
#include <memory>
#include <string_view>

namespace zc {

/// Which counter of Traffic a collective's buffer bytes go to.
enum class TrafficClass : uint8_t { none, gather, reduceScatter, allReduce };
/// "none", "gather", "reduce_scatter", "all_reduce"; none for anything else.
TrafficClass trafficClassFromName(std::string_view name);

/// Bytes of one rank so far.
struct Traffic {
  uint64_t gather = 0;        ///< buffer bytes
  uint64_t reduceScatter = 0; ///< buffer bytes
  uint64_t allReduce = 0;     ///< buffer bytes
  uint64_t interNode = 0;     ///< bytes as sent to ranks of other nodes
  uint64_t intraNode = 0;     ///< bytes as sent to ranks of the same node
};

/// output[r*bytes, (r+1)*bytes) = rank r's input, on every rank. In place: input is the rank's own part of output.
struct AllGatherOptions {
  const void *input = nullptr;
  void *output = nullptr;
  uint64_t bytes = 0; ///< of one rank's part
  TrafficClass traffic = TrafficClass::none;
};

/// On rank r: output[i] = (accumulate ? output[i] : 0) + (sum over ranks p, in order, of input_p[r*elements + i]) *
/// scale. f32 and bf16 inputs are summed in fp32 and rounded once, when stored; f64 in f64; i64 exactly (scale must be
/// 1). The output has the input's type, or f32 for a bf16 input. In place: output is the rank's own part of input.
struct ReduceScatterOptions {
  const void *input = nullptr;
  void *output = nullptr;
  uint64_t elements = 0; ///< of one rank's part
  DType inputType = DType::f32;
  DType outputType = DType::f32;
  double scale = 1;
  bool accumulate = false;
  TrafficClass traffic = TrafficClass::none;
};

/// output[i] = (sum over ranks p, in order, of input_p[i]) * scale, the same bits on every rank. Types and arithmetic
/// as in ReduceScatterOptions, output of the input's type. In place: output is input.
struct AllReduceOptions {
  const void *input = nullptr;
  void *output = nullptr;
  uint64_t elements = 0;
  DType type = DType::f32;
  double scale = 1;
  TrafficClass traffic = TrafficClass::none;
};

/// data on every rank = data of `root`.
struct BroadcastOptions {
  void *data = nullptr;
  uint64_t bytes = 0;
  int root = 0;
};

/// One rank's end of a group. Errors of all collectives: another rank failed, left or called something else (peer lost,
/// with the root cause); a type that is not summed (unsupported).
class Communicator {
public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int worldSize() const = 0;

  virtual Status allGather(const AllGatherOptions &options) = 0;
  virtual Status reduceScatter(const ReduceScatterOptions &options) = 0;
  virtual Status allReduce(const AllReduceOptions &options) = 0;
  virtual Status broadcast(const BroadcastOptions &options) = 0;
  virtual Status barrier() = 0;

  /// This rank failed: every rank's current and later calls return peer lost, naming the first such error. Any thread.
  virtual void abort(const Error &cause) = 0;

  const Traffic &traffic() const { return counters; }

protected:
  /// Adds a collective over a buffer of `bufferBytes` of which this rank sent `sentBytesPerPeer` to each peer.
  void count(TrafficClass kind, uint64_t bufferBytes, uint64_t sentBytesPerPeer, int ranksPerNode);
  Traffic counters;
};

} // namespace zc
