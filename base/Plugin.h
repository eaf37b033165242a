//===- Plugin.h - a part of the program that is loaded when it is needed --------------===//
#pragma once

#include <string>

namespace zc {

/// What came of looking for a plugin beside the program, or where an installation puts it.
struct Plugin {
  void *symbol = nullptr; ///< null: not to be had
  std::string path;       ///< empty: there is no such file
  std::string why;        ///< what the loader says of the file
};

/// `symbol` of shared object `file`.
/// `isGlobal`: objects that the plugin loads find its libraries' symbols.
Plugin loadPlugin(const std::string &file, const char *symbol, bool isGlobal);

} // namespace zc
