#include "base/Program.h"

#include "base/Size.h"

#include <algorithm>
#include <exception>
#include <new>
#include <pthread.h>
#include <string>
#include <sys/resource.h>
#include <system_error>

namespace zc {

/// What a stack is where nobody says otherwise; and several times what runs and compilations were seen to use (80 KiB).
static constexpr rlim_t kStack = rlim_t(8) << 20, kLeastStack = rlim_t(512) << 10;

/// A thread's stack is by default what ulimit -s was when the process began, which may be too little for anything or
/// more than there are addresses for.
static void setStackOfThreads(rlim_t bytes) {
  pthread_attr_t attributes;
  if (::pthread_attr_init(&attributes) != 0)
    return;
  if (::pthread_attr_setstacksize(&attributes, bytes) == 0)
    (void)::pthread_setattr_default_np(&attributes); // else they are as before
  ::pthread_attr_destroy(&attributes);
}

static Status raiseStack() {
  struct rlimit limit = {};
  if (::getrlimit(RLIMIT_STACK, &limit) != 0)
    return Status::success();
  if (limit.rlim_cur < kStack) { // that of the main thread grows under the limit of the moment
    const rlimit higher = {std::min(kStack, limit.rlim_max), limit.rlim_max};
    limit = ::setrlimit(RLIMIT_STACK, &higher) == 0 ? higher : limit;
  }
  if (limit.rlim_cur < kLeastStack)
    return makeError(Code::budget, 130,
                     "a stack may have " + showSize(limit.rlim_cur) + " (ulimit -s), but " + showSize(kLeastStack) +
                         " are needed",
                     "", "give a higher ulimit -s, or none");
  setStackOfThreads(std::min(kStack, limit.rlim_cur));
  return Status::success();
}

static Error thrown(const char *program, const std::exception &exception) {
  if (dynamic_cast<const std::bad_alloc *>(&exception))
    return makeError(Code::budget, 124, "out of memory");
  const auto *error = dynamic_cast<const std::system_error *>(&exception);
  if (error && error->code() == std::errc::resource_unavailable_try_again)
    return makeError(Code::budget, 131, std::string("cannot start a thread: ") + error->what(), "",
                     "see ulimit -u, ulimit -v and the control group's pids.max");
  return makeError(Code::internal, 125, exception.what(), "",
                   std::string("this is a defect of ") + program + "; please report it");
}

Status runGuarded(const char *program, const std::function<Status()> &work) {
  try {
    ZC_RETURN_IF_ERROR(raiseStack());
    return work();
  } catch (const std::exception &exception) {
    return thrown(program, exception);
  }
}

} // namespace zc
