//===- Descriptor.h - an open file of the system, closed with its owner ---------===//
#pragma once

#include <cerrno>
#include <unistd.h>
#include <utility>

namespace zc {

/// Owns a file descriptor, or none (-1). Who closes by leaving a scope after a call that failed still finds the call's
/// errno.
class Descriptor {
public:
  Descriptor() = default;
  explicit Descriptor(int number) : number(number) {}
  Descriptor(Descriptor &&other) noexcept : number(std::exchange(other.number, -1)) {}
  Descriptor &operator=(Descriptor &&other) noexcept {
    std::swap(number, other.number);
    return *this;
  }
  ~Descriptor() {
    int why = errno;
    close();
    errno = why;
  }

  bool isOpen() const { return number >= 0; }
  int get() const { return number; }
  /// Closes now. errno where the system tells of a write that failed late, 0: nothing did.
  int close() {
    int closing = std::exchange(number, -1);
    return closing >= 0 && ::close(closing) != 0 ? errno : 0;
  }

private:
  int number = -1;
};

} // namespace zc
