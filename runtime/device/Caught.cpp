#include "runtime/device/Caught.h"

namespace zc {

Error threw(const std::exception &exception) {
  return makeError(Code::internal, 654, std::string("a kernel threw: ") + exception.what());
}

} // namespace zc
