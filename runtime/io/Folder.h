//===- Folder.h - folders, with every result checked ----------------------------===//
#pragma once

#include "base/Status.h"

#include <string>

namespace zc::io {

/// Makes the folder and its parents. Errors: io.
Status makeFolder(const std::string &path);
/// Puts `from`, on disk already, in the place of `to`, and brings the folder to disk. Errors: io.
Status renameInto(const std::string &from, const std::string &to);
/// fsync of a folder, so that renames in it are on disk.
Status syncFolder(const std::string &folder);
/// Folder of `path`, "." when it has none; and the name within it.
std::string folderOf(const std::string &path);
std::string fileNameOf(const std::string &path);
/// Without those at its end; "/" stays.
std::string withoutSlash(std::string folder);

} // namespace zc::io
