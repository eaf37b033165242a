//===- FileKind.h - what a file is, by its first bytes -----------------------------===//
//
// For messages to people who gave one file for another.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/io/File.h"

namespace zc {

enum class FileKind { unknown, folder, plan, onnx, safetensors, npy, zip, gzip, tokens };

/// "a plan", "an ONNX model", "a zip archive, as torch.save and numpy.savez write it", ...: as a message says it.
std::string describe(FileKind kind);

namespace io {

FileKind kindOf(const File &file);
/// Unknown of a path that cannot be read, too.
FileKind kindOf(const std::string &path);

/// What makes a folder a checkpoint.
constexpr const char *kManifestFile = "manifest.json";

/// A folder that a run saved.
bool holdsCheckpoint(const std::string &folder);

} // namespace io
} // namespace zc
