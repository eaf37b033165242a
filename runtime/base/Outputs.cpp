#include "runtime/base/Outputs.h"

#include <filesystem>
#include <optional>
#include <sys/stat.h>
#include <tuple>

namespace zc {

namespace fs = std::filesystem;

namespace {

/// What tells a file from others: itself where it is there, else its folder and its name in that.
struct Place {
  uint64_t device = 0, inode = 0;
  std::string name; ///< of what is not there yet
  bool isFolder = false;
  bool operator==(const Place &other) const {
    return std::tie(device, inode, name) == std::tie(other.device, other.inode, other.name);
  }
};

std::optional<Place> placeOf(const fs::path &path) {
  struct stat info;
  if (::stat(path.c_str(), &info) == 0) {
    if (!S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode))
      return std::nullopt;
    return Place{info.st_dev, info.st_ino, "", S_ISDIR(info.st_mode)};
  }
  fs::path folder = path.parent_path();
  if (::stat(folder.empty() ? "." : folder.c_str(), &info) != 0) // whoever makes it will have to make the folder first
    return Place{0, 0, fs::absolute(path).lexically_normal().string()};
  return Place{info.st_dev, info.st_ino, path.filename().string()};
}

/// Whether a file that is there is `place`, or lies in it.
bool isIn(const fs::path &path, const Place &place) {
  std::error_code failure;
  fs::path at = fs::canonical(path, failure);
  if (path.empty() || failure)
    return false;
  bool is = placeOf(at) == place;
  for (; !is && place.isFolder && at.has_relative_path(); at = at.parent_path())
    is = placeOf(at.parent_path()) == place;
  return is;
}

std::string nameOf(const NamedPath &path) {
  return (path.flag.empty() ? "" : path.flag + " ") + "\"" + path.path + "\"";
}

} // namespace

Status checkOutputs(const std::vector<NamedPath> &inputs, const std::vector<NamedPath> &outputs) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    const NamedPath &output = outputs[i];
    auto place = output.path.empty() ? std::nullopt : placeOf(output.path);
    if (!place)
      continue;
    for (const NamedPath &input : inputs)
      if (isIn(input.path, *place))
        return makeError(Code::usage, 196, nameOf(output) + " would overwrite the input " + nameOf(input), output.path,
                         "give another name for the output; nothing was touched");
    for (size_t j = 0; j < i; ++j)
      if (!outputs[j].path.empty() && placeOf(outputs[j].path) == place)
        return makeError(Code::usage, 197, nameOf(output) + " and " + nameOf(outputs[j]) + " are one file", output.path,
                         "give each output a name of its own");
  }
  return {};
}

} // namespace zc
