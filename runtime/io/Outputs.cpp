#include "runtime/io/Outputs.h"

#include "runtime/io/FileKind.h"
#include "runtime/io/Folder.h"
#include "runtime/io/OutputFile.h"

#include <algorithm>
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
  // Whoever makes the file will have to make its folder first.
  if (::stat(folder.empty() ? "." : folder.c_str(), &info) != 0) {
    std::error_code failure;
    fs::path whole = fs::absolute(path, failure); // of a working folder that was removed there is none
    return Place{0, 0, (failure ? path : whole).lexically_normal().string()};
  }
  return Place{info.st_dev, info.st_ino, path.filename().string()};
}

/// Of a file that is there: itself, then the folders it lies in, up to the root; empty for others.
std::vector<Place> placesAround(const fs::path &path) {
  std::error_code failure;
  fs::path at = fs::canonical(path, failure);
  if (path.empty() || failure)
    return {};
  std::vector<Place> places;
  auto add = [&] { places.push_back(placeOf(at).value_or(Place())); };
  for (add(); at.has_relative_path(); add())
    at = at.parent_path();
  return places;
}

/// Whether what has `places` around it is `place`, or lies in it.
bool isIn(const std::vector<Place> &places, const Place &place) {
  auto end = place.isFolder ? places.end() : places.begin() + !places.empty();
  return std::find(places.begin(), end, place) != end;
}

std::string nameOf(const NamedPath &path) {
  return (path.flag.empty() ? "" : path.flag + " ") + "\"" + path.path + "\"";
}

/// An output of which it is known what it will be takes the place of nothing else.
Status checkReplaced(const NamedPath &output) {
  std::error_code failure;
  if (!output.kind || !fs::is_regular_file(output.path, failure))
    return {};
  const FileKind kind = io::kindOf(output.path);
  const std::string folder = io::folderOf(output.path);
  if (io::holdsCheckpoint(folder))
    return makeError(Code::usage, 844, nameOf(output) + " would replace a file of the checkpoint \"" + folder + "\"",
                     output.path, "give another name for the output; nothing was touched");
  if (kind != FileKind::unknown && kind != *output.kind)
    return makeError(Code::usage, 840, nameOf(output) + " is " + describe(kind) + ", and would be replaced",
                     output.path, "give another name for the output, or remove the file first; nothing was touched");
  return {};
}

} // namespace

Status checkOutputs(const std::vector<NamedPath> &inputs, const std::vector<NamedPath> &outputs) {
  std::vector<std::vector<Place>> around;
  for (const NamedPath &input : inputs)
    around.push_back(placesAround(input.path));
  std::vector<std::optional<Place>> places;
  for (const NamedPath &output : outputs) {
    if (output.path == "-")
      return makeError(Code::usage, 843, output.flag + " does not write to stdout", "",
                       "give a name; ./- is a file that is called so");
    std::optional<Place> place = output.path.empty() ? std::nullopt : placeOf(output.path);
    if (place && output.isShared)
      place->isFolder = false;
    auto input = std::find_if(around.begin(), around.end(),
                              [&](const std::vector<Place> &each) { return place && isIn(each, *place); });
    if (input != around.end())
      return makeError(Code::usage, 841,
                       nameOf(output) + " would overwrite the input " +
                           nameOf(inputs[static_cast<size_t>(input - around.begin())]),
                       output.path, "give another name for the output; nothing was touched");
    for (const NamedPath &each : inputs)
      if (place && io::isTemporaryOf(output.path, each.path) &&
          placeOf(io::folderOf(each.path)) == placeOf(io::folderOf(output.path)))
        return makeError(Code::usage, 845,
                         nameOf(each) + " is named as what a killed process left of " + nameOf(output) +
                             ", which goes with the next one",
                         each.path, "rename it, or give another name for the output; nothing was touched");
    if (auto same = std::find(places.begin(), places.end(), place); place && same != places.end())
      return makeError(Code::usage, 842,
                       nameOf(output) + " and " + nameOf(outputs[static_cast<size_t>(same - places.begin())]) +
                           " are one file",
                       output.path, "give each output a name of its own");
    ZC_RETURN_IF_ERROR(checkReplaced(output));
    places.push_back(place);
  }
  return {};
}

} // namespace zc
