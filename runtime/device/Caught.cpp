#include "runtime/device/Caught.h"

#include <new>

namespace zc {

Error threw(const std::exception &exception) {
  if (dynamic_cast<const std::bad_alloc *>(&exception))
    return makeError(Code::budget, 662, "there was no memory for a kernel, or for launching it", {},
                     "see ulimit -v, or start fewer ranks on this machine");
  return makeError(Code::internal, 654, std::string("a kernel threw: ") + exception.what());
}

} // namespace zc
