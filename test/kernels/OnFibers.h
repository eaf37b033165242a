#pragma once

#include "kernels/Kernel.h"

namespace zc::test {

/// Kernels of the GPU whose threads read what others wrote, with a fiber for each thread of a block (Fibers.h).
const KernelRegistry &fiberRegistry();

} // namespace zc::test
