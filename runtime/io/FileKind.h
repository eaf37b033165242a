//===- FileKind.h - what a file is, by its first bytes -----------------------------===//
//
// For messages to people who gave one file for another.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/io/File.h"

namespace zc::io {

/// What makes a folder a checkpoint.
constexpr const char *kManifestFile = "manifest.json";

/// "a plan", "an ONNX model", "a safetensors file", "a zip archive, as torch.save and numpy.savez write it", ...; empty
/// where nothing is known.
std::string kindOf(const File &file);
/// The same of a path; "a folder" of one. Empty where it cannot be read, too.
std::string kindOf(const std::string &path);
/// What zero-compile wrote.
bool isPlan(const std::string &path);
/// A folder that a run saved.
bool holdsCheckpoint(const std::string &folder);
bool isNpy(const File &file);

} // namespace zc::io
