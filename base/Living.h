//===- Living.h - the objects of a class that live ----------------------------------------------===//
#pragma once

#include <mutex>
#include <set>

namespace zc {

/// For a thread that looks at them all now and then. An object lives for it from `add` to `remove`, both under the
/// lock.
template <typename T> class Living {
public:
  static void add(T *object) {
    std::lock_guard<std::mutex> lock(table().mutex);
    table().objects.insert(object);
  }
  static void remove(T *object) {
    std::lock_guard<std::mutex> lock(table().mutex);
    table().objects.erase(object);
  }
  static std::unique_lock<std::mutex> lock() { return std::unique_lock<std::mutex>(table().mutex); }
  /// Locked.
  static const std::set<T *> &all() { return table().objects; }

private:
  static Living &table() {
    static auto *table = new Living(); // threads may outlive static objects
    return *table;
  }

  std::mutex mutex;
  std::set<T *> objects;
};

} // namespace zc
