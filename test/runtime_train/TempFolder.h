//===- TempFolder.h - a folder of test files that goes away ----------------------===//
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <string>

/// Succeeds when the Status or Result is ok; prints the rendered error otherwise.
#define ASSERT_OK(expr)                                                                                                \
  do {                                                                                                                 \
    const auto &zcResult = (expr);                                                                                     \
    ASSERT_TRUE(zcResult.ok()) << zc::render(zcResult.error());                                                        \
  } while (0)

namespace zc::test {
struct TempFolder {
  TempFolder() {
    std::string pattern = ::testing::TempDir() + "/zc-XXXXXX";
    path = ::mkdtemp(pattern.data());
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  std::string write(const std::string &name, const std::string &bytes) const {
    std::string file = path + "/" + name;
    std::ofstream(file, std::ios::binary) << bytes;
    return file;
  }
  std::string read(const std::string &name) const {
    std::ifstream in(path + "/" + name, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(in), {});
  }
  size_t count() const {
    return size_t(std::distance(std::filesystem::directory_iterator(path), std::filesystem::directory_iterator()));
  }
  std::string path;
};

/// The elements' bytes.
template <typename T> std::string rawBytes(const std::vector<T> &values) {
  return std::string(reinterpret_cast<const char *>(values.data()), values.size() * sizeof(T));
}

/// A safetensors file from its header and data.
inline std::string safetensors(const std::string &header, const std::string &data) {
  uint64_t length = header.size();
  return std::string(reinterpret_cast<const char *>(&length), 8) + header + data;
}

/// A version 1 .npy file.
inline std::string npy(const std::string &dict, const std::string &data) {
  std::string header = dict + "\n";
  std::string out = std::string("\x93NUMPY\x01\x00", 8);
  out += char(header.size() & 255);
  out += char(header.size() >> 8);
  return out + header + data;
}
} // namespace zc::test
