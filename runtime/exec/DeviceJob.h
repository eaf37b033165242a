//===- DeviceJob.h - devices of the ranks of a job, together --------------------------===//
#pragma once

#include "runtime/comm/Communicator.h"
#include "runtime/device/Stream.h"
#include "runtime/plan/plan.pb.h"

#include <string>
#include <vector>

namespace zc {

/// All ranks call it with what opening their device gave, and all go on, or none. What the user should know of devices
/// of several kinds; empty where there is one kind. Errors: this rank's own, where nobody has a device; where some
/// have, the same on all: which ranks have none (mismatch).
Result<std::string> agreeOnDevices(Communicator &communicator, const Result<std::unique_ptr<Device>> &own);

/// Of devices' names, by rank: what is said where they differ.
std::string describeKinds(const std::vector<std::string> &names);

/// Links the devices of ranks in several processes, along all axes that the plan's collectives run along; nothing where
/// the ranks are threads, or where devices of this kind go through the host. All ranks call it. Waits for the others.
Status linkDevices(Communicator &communicator, Device &device, const planpb::Plan &plan);

} // namespace zc
