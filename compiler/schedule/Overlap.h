//===- Overlap.h - memory for work beside work -------------------------------------===//
#pragma once

namespace zc {

/// Which waits of one queue for another, for memory's sake, a plan spares.
enum class Overlap {
  none,    ///< none: the least memory
  planned, ///< those where all takes as long as expected
  slower,  ///< also those where links are slower than expected
};

} // namespace zc
