//===- ModelFile.h - an ONNX file, parsed without its weights ------------------===//
#pragma once

#include "base/Status.h"
#include "compiler/import/base/Options.h"
#include "compiler/import/file/ValueNames.h"
#include "compiler/import/file/Wire.h"

#include <map>
#include <memory>
#include <unordered_map>

namespace zc::importer {

using NodeList = google::protobuf::RepeatedPtrField<onnxpb::Node>;
using OpsetList = google::protobuf::RepeatedPtrField<onnxpb::OpsetId>;

/// Where a tensor's bytes lie in the .onnx file itself. Bytes longer than `ModelFile::inlineBytes` are not in the
/// parsed message.
struct Payload {
  uint64_t offset = 0;
  uint64_t bytes = 0;
  int field = 0;  ///< 9 raw_data, 4 float_data, 10 double_data
  int pieces = 0; ///< how often such a field stood there; only one piece is a plain array
};

/// The parsed model and what was left in the file. Not copyable: payloads are keyed by the messages' addresses.
struct ModelFile {
  ModelFile();

  static constexpr uint64_t inlineBytes = 1024;

  std::string path;       ///< as given, for messages
  std::string folder;     ///< absolute, symbolic links resolved
  std::string name;       ///< file name within `folder`
  uint64_t mostLinks = 1; ///< hard ones of a file of external data
  uint64_t bytes = 0;
  uint64_t hash = 0; ///< XXH3-64
  FileReader file;
  google::protobuf::Arena
      arena; ///< of the messages: of a large graph, freeing each by itself takes longer than parsing
  onnxpb::Model &model;
  ValueNames names; ///< once validated
  std::unordered_map<const onnxpb::Tensor *, Payload> payloads;
  mutable std::map<std::string, std::string> checksums; ///< SHA-1 of external files, where one was asked for

  const onnxpb::Graph &graph() const { return model.graph(); }
};

/// Opens, scans and parses; checks that it is an ONNX model (bad input otherwise).
Result<std::unique_ptr<ModelFile>> openModel(const std::string &path, const ImportLimits &limits);

/// Versions, names, single assignment, definition before use, features that are not supported. Numbers the names.
Status validateModel(ModelFile &file, const ImportLimits &limits);

/// "name", else the first output, else "#index"; for messages and locations.
std::string nodeLabel(const onnxpb::Node &node, int index);

/// Key of a function: domain, name, overload.
std::string functionKey(const std::string &domain, const std::string &name, const std::string &overload);

} // namespace zc::importer
