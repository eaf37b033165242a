//===- CollectiveOptions.h - what each collective is asked ------------------------===//
//
// "Member" counts the ranks of the group along `axes`, of which there are m.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "base/Mesh.h"
#include "base/Tensor.h"
#include "base/TrafficClass.h"

#include <cstdint>

namespace zc {

/// output[p*bytes, (p+1)*bytes) = member p's input, on every member. In place: input is this member's part of output.
struct AllGatherOptions {
  const void *input = nullptr;
  void *output = nullptr;
  uint64_t bytes = 0; ///< of one member's part
  TrafficClass traffic = TrafficClass::none;
  AxisSet axes = AxisSet::all();
};

/// On member q: s[i] = (sum over members p, in order, of input_p[q*elements + i]) * scale, rounded to the output's
/// type; output[i] = s[i], or output[i] + s[i], rounded again, if `accumulate`. f32, bf16 and f16 inputs are summed in
/// fp32; f64 in f64; i64 exactly (scale must be 1). The output has the input's type, or f32 for a bf16 or f16 input. In
/// place: output is the member's own part of input.
struct ReduceScatterOptions {
  const void *input = nullptr;
  void *output = nullptr;
  uint64_t elements = 0; ///< of one member's part
  DType inputType = DType::f32;
  DType outputType = DType::f32;
  double scale = 1;
  bool accumulate = false;
  TrafficClass traffic = TrafficClass::none;
  AxisSet axes = AxisSet::all();
  void *workspace = nullptr;   ///< where sums are staged,
  uint64_t workspaceBytes = 0; ///< of reduceScatterStaging() bytes (Staging.h) or more
};

/// output[i] = (sum over members p, in order, of input_p[i]) * scale, the same bits on every member. Types and
/// arithmetic as in ReduceScatterOptions, output of the input's type. In place: output is input.
struct AllReduceOptions {
  const void *input = nullptr;
  void *output = nullptr;
  uint64_t elements = 0;
  DType type = DType::f32;
  double scale = 1;
  TrafficClass traffic = TrafficClass::none;
  AxisSet axes = AxisSet::all();
  void *workspace = nullptr;   ///< where sums are staged,
  uint64_t workspaceBytes = 0; ///< of allReduceStaging() bytes (Staging.h) or more
};

/// On member q: output[p*bytes, (p+1)*bytes) = member p's input[q*bytes, (q+1)*bytes). Input and output do not overlap.
struct AllToAllOptions {
  const void *input = nullptr;
  void *output = nullptr;
  uint64_t bytes = 0; ///< from one member to one member
  TrafficClass traffic = TrafficClass::none;
  AxisSet axes = AxisSet::all();
};

/// data on every member = data of member `root`.
struct BroadcastOptions {
  void *data = nullptr;
  uint64_t bytes = 0;
  int root = 0;
  AxisSet axes = AxisSet::all();
};

} // namespace zc
