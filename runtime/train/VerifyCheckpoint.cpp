#include "runtime/io/File.h"
#include "runtime/train/Checkpoint.h"

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <fcntl.h>
#include <sys/stat.h>

namespace zc::train {

namespace {

/// Bytes of a file under one hash.
struct Block {
  uint64_t offset = 0, bytes = 0, hash = 0;
  const Manifest::Tensor *tensor = nullptr; ///< null: the file's head
};

std::string hex(uint64_t value) {
  char text[20];
  std::snprintf(text, sizeof text, "%016" PRIx64, value);
  return text;
}

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
  if (::lstat(path.c_str(), &info) != 0)
    return errno == ENOENT || errno == ENOTDIR ? broken(folder, "\"" + name + "\" is missing")
                                               : io::errnoError(Code::io, 934, "cannot read", path, errno);
  if (!S_ISREG(info.st_mode))
    return broken(folder, "\"" + name + "\" is not a regular file");
  auto file = io::File::openBeneath(folder, name);
  if (file)
    return file;
  Error error = file.error();
  error.code = Code::io;
  return error;
}

Status verifyFile(const Manifest &manifest, const std::string &name, const std::vector<Block> &blocks) {
  auto file = openPart(manifest.folder, name);
  if (!file)
    return file.error();
  uint64_t bytes = manifest.files.at(name).bytes;
  if (uint64_t(file->size()) != bytes)
    return broken(file->path(),
                  "it has " + std::to_string(file->size()) + " bytes instead of " + std::to_string(bytes));
  for (const Block &block : blocks) {
    auto hash = io::hashOf(*file, int64_t(block.offset), int64_t(block.bytes));
    if (!hash)
      return hash.error();
    if (*hash == block.hash)
      continue;
    std::string what = block.tensor ? "of tensor \"" + block.tensor->name + "\"" : std::string("of its head");
    return broken(file->path(), "the hash " + what + " (" + std::to_string(block.bytes) + " bytes from byte " +
                                    std::to_string(block.offset) + ") is " + hex(*hash) + " instead of " +
                                    hex(block.hash));
  }
  return Status::success();
}

} // namespace

Status verifyFiles(const Manifest &manifest) {
  if (!manifest.files.count(fileOf(State::weights)))
    return broken(manifest.folder, "\"" + fileOf(State::weights) + "\" is not listed");
  std::map<std::string, std::vector<Block>> blocks;
  ZC_RETURN_IF_ERROR(blocksOf(manifest, blocks));
  for (const auto &[name, list] : blocks)
    ZC_RETURN_IF_ERROR(verifyFile(manifest, name, list));
  return Status::success();
}

} // namespace zc::train
