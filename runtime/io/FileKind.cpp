#include "runtime/io/FileKind.h"

#include <algorithm>
#include <cstring>
#include <filesystem>

namespace zc {
namespace io {

namespace {

/// The first bytes, zeros behind the end.
struct Head {
  explicit Head(const File &file) {
    count = std::min<int64_t>(file.size(), sizeof bytes);
    if (count > 0 && !file.readAt(bytes, count, 0).ok())
      count = 0;
  }
  template <size_t N> bool beginsWith(const char (&text)[N], size_t at = 0) const {
    return size_t(count) >= at + N - 1 && std::memcmp(bytes + at, text, N - 1) == 0;
  }
  int64_t count = 0;
  char bytes[64] = {};
};

/// Eight bytes of length, then the JSON of that length.
bool isSafetensors(const Head &head, int64_t size) {
  uint64_t length = 0;
  std::memcpy(&length, head.bytes, sizeof length);
  return head.count > 9 && head.bytes[8] == '{' && length >= 2 && length <= uint64_t(size) - 8;
}

/// Field 1 of a ModelProto, its IR version, then the producer's name, an opset, or the graph.
bool isOnnx(const Head &head) {
  bool next = head.bytes[2] == 0x12 || head.bytes[2] == 0x3a || head.bytes[2] == 0x42;
  return head.count > 4 && head.bytes[0] == 0x08 && head.bytes[1] > 0 && head.bytes[1] < 32 && next;
}

bool isTokens(const Head &head) {
  int32_t magic = 0;
  std::memcpy(&magic, head.bytes, sizeof magic);
  return head.count == sizeof head.bytes && (magic == 20240520 || magic == 20240801);
}

constexpr char kPlan[] = "\x89ZCPLAN\n";
constexpr char kNpy[] = "\x93NUMPY";

} // namespace

bool holdsCheckpoint(const std::string &folder) {
  std::error_code failure;
  return std::filesystem::exists(folder + "/" + kManifestFile, failure) &&
         std::filesystem::exists(folder + "/weights.safetensors", failure);
}

FileKind kindOf(const File &file) {
  Head head(file);
  if (head.beginsWith(kPlan))
    return FileKind::plan;
  if (head.beginsWith(kNpy))
    return FileKind::npy;
  if (head.beginsWith("PK\x03\x04") || head.beginsWith("\x80\x02\x8a\x0a"))
    return FileKind::zip;
  if (head.beginsWith("\x1f\x8b"))
    return FileKind::gzip;
  if (isSafetensors(head, file.size()))
    return FileKind::safetensors;
  if (isTokens(head))
    return FileKind::tokens;
  return isOnnx(head) ? FileKind::onnx : FileKind::unknown;
}

FileKind kindOf(const std::string &path) {
  std::error_code failure;
  if (std::filesystem::is_directory(path, failure))
    return FileKind::folder;
  auto file = File::open(path);
  return file ? kindOf(*file) : FileKind::unknown;
}

} // namespace io

std::string describe(FileKind kind) {
  switch (kind) {
  case FileKind::unknown:
    break;
  case FileKind::folder:
    return "a folder";
  case FileKind::plan:
    return "a plan";
  case FileKind::onnx:
    return "an ONNX model";
  case FileKind::safetensors:
    return "a safetensors file";
  case FileKind::npy:
    return "a .npy array";
  case FileKind::zip:
    return "a zip archive, as torch.save and numpy.savez write it";
  case FileKind::gzip:
    return "gzip-compressed";
  case FileKind::tokens:
    return "a file of tokens";
  }
  return "a file of no known kind";
}

} // namespace zc
