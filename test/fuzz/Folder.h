//===- Folder.h - where a fuzzer writes the files that are to be read ------------------===//
#pragma once

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <unistd.h>

namespace zc::fuzz {

/// A folder of this process's own, removed when it ends.
inline const std::string &folder() {
  static const std::string &path = *[] { // never destroyed: the handler at exit needs it
    char name[] = "/tmp/zc-fuzz-XXXXXX";
    if (!mkdtemp(name))
      std::abort();
    std::atexit([] {
      std::error_code ignored;
      std::filesystem::remove_all(folder(), ignored);
    });
    return new std::string(name);
  }();
  return path;
}

/// The path of `name` in it, which has these bytes now.
inline std::string written(const char *name, std::string_view bytes) {
  std::string path = folder() + "/" + name;
  std::FILE *out = std::fopen(path.c_str(), "wb");
  if (!out)
    std::abort();
  std::fwrite(bytes.data(), 1, bytes.size(), out);
  std::fclose(out);
  return path;
}

} // namespace zc::fuzz
