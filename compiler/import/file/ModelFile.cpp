//===- ModelFile.cpp - an ONNX file, parsed without its weights ---------------===//
#include "compiler/import/file/ModelFile.h"
#include "compiler/import/base/Errors.h"
#include "runtime/io/FileKind.h"

#include <cerrno>
#include <cstring>
#include <limits.h>
#include <stdlib.h>

using namespace zc;
using namespace zc::importer;

namespace {

/// Field numbers of onnx.proto that the scan looks into.
namespace field {
constexpr uint32_t modelGraph = 7, graphNode = 1, graphInitializer = 5, nodeAttribute = 5, attributeTensor = 5;
constexpr uint32_t tensorFloats = 4, tensorRaw = 9, tensorDoubles = 10;
} // namespace field

/// Copies messages from the file into parsed ones, leaving long payloads behind. Depth is fixed by the format:
/// model, graph, node, attribute, tensor; subgraphs are parsed as they are.
class Scanner {
public:
  Scanner(ModelFile &out, const ImportLimits &limits) : out(out), file(out.file), limits(limits) {}

  Status model() {
    std::string rest;
    ZC_RETURN_IF_ERROR(walk(WireCursor(file, 0, file.size()), [&](const WireField &f) -> Status {
      if (f.number == field::modelGraph && f.isMessage())
        return graph(f);
      return copy(f, rest);
    }));
    return parse(rest, out.model, "model");
  }

private:
  template <typename Visit> Status walk(WireCursor cursor, Visit visit) {
    WireField f;
    for (;;) {
      switch (cursor.next(f)) {
      case WireCursor::Next::end:
        return Status::success();
      case WireCursor::Next::malformed:
        return badFile(malformed, "not an ONNX model or damaged: " + cursor.problem(), out.path);
      case WireCursor::Next::field:
        ZC_RETURN_IF_ERROR(visit(f));
      }
    }
  }

  Status copy(const WireField &f, std::string &to) {
    if (file.append(f.start, f.end - f.start, to))
      return Status::success();
    return makeError(Code::io, readFailed, "cannot read byte " + std::to_string(f.start), out.path);
  }

  /// Appends to what earlier pieces of the same message gave, as the format wants it.
  template <typename Message> Status parse(const std::string &bytes, Message &message, const char *what) {
    if (message.MergeFromString(bytes))
      return Status::success();
    return badFile(malformed, std::string("not an ONNX model or damaged: the ") + what + " cannot be parsed", out.path);
  }

  Status graph(const WireField &message) {
    onnxpb::Graph &graph = *out.model.mutable_graph();
    std::string rest;
    ZC_RETURN_IF_ERROR(walk(WireCursor(file, message), [&](const WireField &f) -> Status {
      if (f.number == field::graphInitializer && f.isMessage())
        return tensor(f, *graph.add_initializer());
      if (f.number == field::graphNode && f.isMessage())
        return node(f, *graph.add_node());
      return copy(f, rest);
    }));
    return parse(rest, graph, "graph");
  }

  Status node(const WireField &message, onnxpb::Node &node) {
    if (out.model.graph().node_size() > limits.nodes)
      return badFile(tooLarge, "more than " + std::to_string(limits.nodes) + " nodes", out.path);
    // Only a large node can carry a large tensor.
    if (message.payloadBytes() <= ModelFile::inlineBytes) {
      small.clear();
      if (!file.append(message.payload, message.payloadBytes(), small))
        return copy(message, small);
      return parse(small, node, "node");
    }
    std::string rest;
    ZC_RETURN_IF_ERROR(walk(WireCursor(file, message), [&](const WireField &f) -> Status {
      if (f.number == field::nodeAttribute && f.isMessage())
        return attribute(f, *node.add_attribute());
      return copy(f, rest);
    }));
    return parse(rest, node, "node");
  }

  Status attribute(const WireField &message, onnxpb::Attribute &attribute) {
    std::string rest;
    ZC_RETURN_IF_ERROR(walk(WireCursor(file, message), [&](const WireField &f) -> Status {
      if (f.number == field::attributeTensor && f.isMessage())
        return tensor(f, *attribute.mutable_t());
      return copy(f, rest);
    }));
    return parse(rest, attribute, "attribute");
  }

  Status tensor(const WireField &message, onnxpb::Tensor &tensor) {
    std::string rest;
    Payload payload;
    ZC_RETURN_IF_ERROR(walk(WireCursor(file, message), [&](const WireField &f) -> Status {
      bool isPayload = f.isMessage() && (f.number == field::tensorRaw || f.number == field::tensorFloats ||
                                         f.number == field::tensorDoubles);
      if (!isPayload)
        return copy(f, rest);
      payload = {f.payload, f.payloadBytes(), static_cast<int>(f.number), payload.pieces + 1};
      return f.payloadBytes() > ModelFile::inlineBytes ? Status::success() : copy(f, rest);
    }));
    if (payload.pieces > 0)
      out.payloads[&tensor] = payload;
    return parse(rest, tensor, "tensor");
  }

  ModelFile &out;
  FileReader &file;
  std::string small; ///< the bytes of one node
  const ImportLimits &limits;
};

} // namespace

/// Of what is made of an ONNX model, or is made into one.
static constexpr const char *kExport = "zero export makes one of a PyTorch or Hugging Face model (docs/own-model.md)";

static Result<FileReader> openLimited(const std::string &path, const ImportLimits &limits) {
  if (io::kindOf(path) == FileKind::folder)
    return badFile(notOnnx, "it is a folder, not an ONNX model", path, kExport);
  auto opened = io::File::open(path);
  if (!opened.ok())
    return opened.error();
  FileReader reader(std::move(*opened));
  if (reader.size() > limits.modelBytes)
    return badFile(tooLarge,
                   "has " + std::to_string(reader.size()) + " bytes; an ONNX file has at most " +
                       std::to_string(limits.modelBytes),
                   path, "store the weights as external data");
  return reader;
}

/// What to do with a file of weights.
static constexpr const char *kNoGraph = "weights are no graph: export the model to ONNX (docs/own-model.md: zero "
                                        "export), and give them to zero-run --weights";

/// What to do with such a file, which was given for a model.
static std::string insteadOfModel(FileKind kind) {
  switch (kind) {
  case FileKind::gzip:
    return "unpack it first";
  case FileKind::zip:
  case FileKind::safetensors:
    return kNoGraph;
  case FileKind::npy:
  case FileKind::tokens:
    return "data is for zero-run --tokens or --data";
  case FileKind::plan:
    return "zero-run trains it";
  default:
    return kExport;
  }
}

/// Says what a file that is no ONNX model is instead.
static Status sniff(FileReader &file, const std::string &path) {
  if (file.size() == 0)
    return badFile(notOnnx, "it is empty", path);
  const FileKind kind = io::kindOf(file.file());
  if (kind == FileKind::onnx)
    return Status::success();
  if (kind != FileKind::unknown)
    return badFile(notOnnx, "it is " + describe(kind) + ", not an ONNX model", path, insteadOfModel(kind));
  char head[64] = {};
  const uint64_t bytes = std::min<uint64_t>(sizeof(head), file.size());
  if (!file.read(0, head, bytes))
    return makeError(Code::io, readFailed, "cannot read byte 0", path);
  const auto isText = [](char c) { return c > 0 && c <= 126 && (c >= 32 || std::strchr("\t\n\r\f", c)); };
  return std::all_of(head, head + bytes, isText) ? badFile(notOnnx, "it is text, not an ONNX model", path, kExport)
                                                 : Status::success();
}

static Status resolveFolder(ModelFile &file) {
  char resolved[PATH_MAX];
  if (!realpath(file.path.c_str(), resolved))
    return badFile(cannotOpen, "cannot resolve the path: " + std::string(std::strerror(errno)), file.path);
  std::string full = resolved;
  size_t slash = full.rfind('/');
  file.folder = slash == 0 ? "/" : full.substr(0, slash);
  file.name = full.substr(slash + 1);
  return Status::success();
}

static google::protobuf::ArenaOptions largeBlocks() {
  google::protobuf::ArenaOptions options;
  options.max_block_size = 1 << 20;
  return options;
}

ModelFile::ModelFile() : arena(largeBlocks()), model(*google::protobuf::Arena::CreateMessage<onnxpb::Model>(&arena)) {}

Result<std::unique_ptr<ModelFile>> zc::importer::openModel(const std::string &path, const ImportLimits &limits) {
  auto file = std::make_unique<ModelFile>();
  file->path = path;
  file->mostLinks = static_cast<uint64_t>(limits.hardLinks);
  auto reader = openLimited(path, limits);
  if (!reader.ok())
    return reader.error();
  file->file = std::move(*reader);
  file->bytes = file->file.size();
  ZC_RETURN_IF_ERROR(sniff(file->file, path));
  ZC_RETURN_IF_ERROR(resolveFolder(*file));
  ZC_RETURN_IF_ERROR(Scanner(*file, limits).model());
  if (!file->model.has_graph())
    return badFile(notOnnx, "it has no graph: not an ONNX model", path);
  auto hash = io::hashOf(file->file.file());
  if (!hash.ok())
    return hash.error();
  file->hash = *hash;
  return file;
}

std::string zc::importer::nodeLabel(const onnxpb::Node &node, int index) {
  if (!node.name().empty())
    return node.name();
  for (const std::string &output : node.output())
    if (!output.empty())
      return output;
  return "#" + std::to_string(index);
}

std::string zc::importer::functionKey(const std::string &domain, const std::string &name, const std::string &overload) {
  return (domain == "ai.onnx" ? "" : domain) + "\n" + name + "\n" + overload;
}
