//===- Inproc.h - ranks as threads of one process -----------------------------===//
#pragma once

#include "runtime/comm/RankGroup.h"

namespace zc {

/// All ranks of a job over shared memory: each rank reads its peers' buffers directly, nothing is staged. A rank waits
/// by a short spin and then sleeps. Destroying a rank's communicator while others wait for it fails their calls. The
/// mesh's nodes only decide who is in which group and which bytes count as sent between nodes.
std::unique_ptr<RankGroup> makeInprocGroup(const Mesh &mesh);

} // namespace zc
