// Any bytes as a file that a run reads, the first one saying which: S safetensors, every tensor of it read; N an .npy
// array; B, U, V a file of tokens, with a type and without; M a checkpoint's manifest, whose seal is made right; P a
// table of products. Whatever comes out is an error value or what the file says.
#include "runtime/data/TokenFile.h"
#include "runtime/exec/ProductFile.h"
#include "runtime/io/Hash.h"
#include "runtime/io/Npy.h"
#include "runtime/io/Safetensors.h"
#include "runtime/train/Manifest.h"
#include "test/fuzz/Folder.h"

using namespace zc;

namespace {

/// The last member is the hash of what is before it.
std::string sealed(std::string text) {
  const std::string member = ",\n \"xxh3\": \"";
  const size_t at = text.rfind(member);
  if (at == std::string::npos)
    return text;
  text.resize(at);
  return text + member + io::hexOf(io::hashOf(text)) + "\"\n}\n";
}

template <typename T> const T *opened(const Result<T> &result) {
  if (!result.ok())
    (void)render(result.error());
  return result.ok() ? &*result : nullptr;
}

void readSafetensors(const std::string &path) {
  const auto file = io::SafetensorsFile::open(path);
  const io::SafetensorsFile *there = opened(file);
  for (const io::SafetensorsEntry &entry : there ? there->entries() : std::vector<io::SafetensorsEntry>()) {
    std::string bytes(static_cast<size_t>(entry.bytes), '\0'); // no more than the file has
    if (entry.type.numBytes() != entry.bytes || !there->file().readAt(bytes.data(), entry.bytes, entry.offset).ok())
      std::abort();
  }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count) {
  if (count == 0)
    return 0;
  std::string content(reinterpret_cast<const char *>(bytes) + 1, count - 1);
  if (bytes[0] == 'M')
    content = sealed(std::move(content));
  const std::string path = fuzz::written(io::kManifestFile, content);
  switch (bytes[0]) {
  case 'S':
    readSafetensors(path);
    break;
  case 'N':
    opened(io::NpyFile::open(path));
    break;
  case 'B':
    opened(data::openTokenFile(path, {true, {}, 256}));
    break;
  case 'U':
    opened(data::openTokenFile(path, {false, "uint16", 0}));
    break;
  case 'V':
    opened(data::openTokenFile(path, {false, {}, 50257}));
    break;
  case 'M':
    opened(train::readManifest(fuzz::folder()));
    break;
  case 'P':
    opened(readProducts(path));
    break;
  default:
    break;
  }
  return 0;
}
