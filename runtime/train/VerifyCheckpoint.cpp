#include "runtime/train/VerifyCheckpoint.h"

#include "base/Failpoint.h"
#include "base/Workers.h"
#include "runtime/io/Hash.h"

#include <algorithm>
#include <cerrno>
#include <deque>
#include <fcntl.h>
#include <mutex>
#include <optional>
#include <sys/stat.h>

namespace zc::train {

namespace {

/// Bytes of a file under one hash.
struct Block {
  uint64_t offset = 0, bytes = 0, hash = 0;
  const Manifest::Tensor *tensor = nullptr; ///< null: the file's head
};

Error broken(const std::string &path, const std::string &why) {
  return makeError(Code::corrupt, 929, "not a whole checkpoint: " + why, path);
}

/// Elements of a tensor; nothing where its dimensions are none.
std::optional<uint64_t> elementsOf(const TensorType &type) {
  uint64_t elements = 1;
  for (int64_t dim : type.dims)
    if (dim < 0 || __builtin_mul_overflow(elements, uint64_t(dim), &elements) || elements >> 60 != 0)
      return std::nullopt;
  return elements;
}

/// The tensor's pieces follow one another and are all of it.
bool isComplete(const Manifest::Tensor &tensor) {
  uint64_t next = 0;
  for (const Manifest::Piece &piece : tensor.pieces) {
    if (piece.first != next || piece.count == 0)
      return false;
    next += piece.count;
  }
  auto elements = elementsOf(tensor.type);
  return elements && *elements == next;
}

/// Every file's blocks in order: all of its bytes, none twice.
Status blocksOf(const Manifest &manifest, std::map<std::string, std::vector<Block>> &blocks) {
  for (const auto &[name, file] : manifest.files)
    blocks[name].push_back({0, file.head, file.hash, nullptr});
  for (const Manifest::Tensor &tensor : manifest.tensors) {
    auto file = blocks.find(tensor.file);
    if (file == blocks.end() || !isComplete(tensor))
      return broken(manifest.folder, "tensor \"" + tensor.name + "\" is not whole in the manifest");
    for (const Manifest::Piece &piece : tensor.pieces)
      file->second.push_back({piece.offset, piece.count * uint64_t(sizeOf(tensor.type.dtype)), piece.hash, &tensor});
  }
  for (auto &[name, list] : blocks) {
    std::sort(list.begin(), list.end(), [](const Block &a, const Block &b) { return a.offset < b.offset; });
    uint64_t next = 0;
    for (const Block &block : list) {
      if (block.offset != next)
        return broken(manifest.folder,
                      "the manifest has no hash for byte " + std::to_string(next) + " of \"" + name + "\"");
      next += block.bytes;
    }
    if (next != manifest.files.at(name).bytes)
      return broken(manifest.folder, "the manifest has hashes for " + std::to_string(next) + " bytes of \"" + name +
                                         "\", which has " + std::to_string(manifest.files.at(name).bytes));
  }
  return Status::success();
}

/// What is not there is damage; what cannot be opened may be whole.
Result<io::File> openPart(const std::string &folder, const std::string &name) {
  std::string path = folder + "/" + name;
  struct stat info = {};
  if (name.find('/') != std::string::npos || name == "..")
    return broken(folder, "\"" + name + "\" is no file of it");
  int errnum = 0;
  if (auto fault = failpoint("file.stat"); fault && fault->kind == FaultAction::Kind::error)
    errnum = fault->errnum;
  else if (::lstat(path.c_str(), &info) != 0)
    errnum = errno;
  if (errnum != 0)
    return errnum == ENOENT || errnum == ENOTDIR ? broken(folder, "\"" + name + "\" is missing")
                                                 : io::errnoError(Code::io, 934, "cannot read", path, errnum);
  if (!S_ISREG(info.st_mode))
    return broken(folder, "\"" + name + "\" is not a regular file");
  auto file = io::File::openBeneath(folder, name);
  if (file)
    return file;
  Error error = file.error();
  error.code = Code::io;
  return error;
}

/// A file of which parts are looked at: open from the first part until the last is done, whoever looks at them.
class Looked {
public:
  Looked(const Manifest &manifest, const std::string &name, int64_t parts)
      : manifest(manifest), name(name), left(parts) {}

  Result<const io::File *> begin() {
    std::lock_guard<std::mutex> lock(mutex);
    if (!file) {
      auto opened = openCheckpointFile(manifest, name);
      if (!opened)
        return opened.error();
      file = std::move(*opened);
    }
    return &*file;
  }
  void end() {
    std::lock_guard<std::mutex> lock(mutex);
    if (--left == 0)
      file.reset();
  }

private:
  const Manifest &manifest;
  const std::string &name;
  std::mutex mutex;
  std::optional<io::File> file;
  int64_t left; ///< parts that are not done
};

/// A part of a file under one hash, of those that are to be looked at.
struct Part {
  Looked *file;
  const Block *block;
};

Status verifyPart(const Part &part) {
  const Block &block = *part.block;
  auto file = part.file->begin();
  if (!file)
    return file.error();
  auto hash = io::hashOf(**file, int64_t(block.offset), int64_t(block.bytes));
  if (!hash)
    return hash.error();
  if (*hash != block.hash)
    return wrongHash((*file)->path(), block.tensor ? block.tensor->name : "", block.offset, block.bytes, *hash,
                     block.hash);
  part.file->end();
  return Status::success();
}

} // namespace

Result<io::File> openCheckpointFile(const Manifest &manifest, const std::string &name) {
  auto listed = manifest.files.find(name);
  if (listed == manifest.files.end())
    return broken(manifest.folder, "\"" + name + "\" is not listed");
  auto opened = openPart(manifest.folder, name);
  if (opened && uint64_t(opened->size()) != listed->second.bytes)
    return broken(opened->path(), "it has " + std::to_string(opened->size()) + " bytes instead of " +
                                      std::to_string(listed->second.bytes));
  return opened;
}

Error wrongHash(const std::string &file, const std::string &tensor, uint64_t offset, uint64_t bytes, uint64_t is,
                uint64_t expected) {
  std::string what = tensor.empty() ? "of its head" : "of tensor \"" + tensor + "\"";
  return broken(file, "the hash " + what + " (" + std::to_string(bytes) + " bytes from byte " + std::to_string(offset) +
                          ") is " + io::hexOf(is) + " instead of " + io::hexOf(expected));
}

static Status verify(const Manifest &manifest, bool headsOnly) {
  std::map<std::string, std::vector<Block>> blocks;
  if (!manifest.files.count(fileOf(State::weights)))
    return broken(manifest.folder, "\"" + fileOf(State::weights) + "\" is not listed");
  ZC_RETURN_IF_ERROR(blocksOf(manifest, blocks));
  std::deque<Looked> files;
  std::vector<Part> parts; // of every file its head at least
  for (const auto &[name, list] : blocks) {
    auto counts = [&](const Block &block) { return !block.tensor || !headsOnly; };
    files.emplace_back(manifest, name, std::count_if(list.begin(), list.end(), counts));
    for (const Block &block : list)
      if (counts(block))
        parts.push_back({&files.back(), &block});
  }
  return forEachOf(parts.size(), 4, [&](int, size_t i) { return verifyPart(parts[i]); });
}

Status verifyFiles(const Manifest &manifest) { return verify(manifest, false); }
Status verifyHeads(const Manifest &manifest) { return verify(manifest, true); }

} // namespace zc::train
