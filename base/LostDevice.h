//===- LostDevice.h - how long a device that is lost is waited for ----------------===//
#pragma once

#include <chrono>

namespace zc {

/// What a driver, or a rank that waits for another's device, has not done so long after a device was lost it never
/// will.
constexpr std::chrono::milliseconds kLostDevicePatience{10000};

} // namespace zc
