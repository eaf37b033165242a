//===- CallMemory.h - what a library allocates within one call -----------------===//
//
// A library may build small objects in each of its calls and free them before it returns, with no way to hand it the
// memory: oneDNN does, about ten a primitive. While a thread has a CallMemory open, programs whose operator new asks
// here serve such objects from a block that the thread keeps, so that a steady step does not call malloc. In others it
// does nothing.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <cstddef>

namespace zc {

/// Around one call, on the thread that makes it. Not nested.
class CallMemory {
public:
  CallMemory();
  ~CallMemory();
  CallMemory(const CallMemory &) = delete;
  CallMemory &operator=(const CallMemory &) = delete;

  /// For a thread that only ever works within others' calls, as a member of their teams: it has one open from now on,
  /// or none until it is opened again.
  static void openForGood();
  static void close();

  /// Around a call within it of which something may be kept: a block that is full of such serves nobody.
  class Pause {
  public:
    Pause();
    ~Pause();
    Pause(const Pause &) = delete;
    Pause &operator=(const Pause &) = delete;

  private:
    void *before;
  };

  static constexpr size_t kBytes = 8 << 10; ///< of a thread

  // For operator new and delete. `take` is null where no call is open on this thread, or its block is full: malloc is
  // asked then. What outlives its call or is freed by another thread is sound: it stays where it is, with all that lies
  // below it in its block.
  static void *take(size_t bytes);
  /// False: `memory` is not from here.
  static bool give(void *memory);
};

} // namespace zc
