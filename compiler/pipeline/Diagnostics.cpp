//===- Diagnostics.cpp - MLIR diagnostics as errors ---------------------------------------===//

#include "compiler/pipeline/Diagnostics.h"
#include "dialects/graph/NodeNames.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Location.h"
#include "llvm/Support/Path.h"

using namespace mlir;
using namespace zc;

std::string zc::nodeNameOf(Location location) {
  llvm::SetVector<StringRef> nodes = graph::nodesOf(location);
  return nodes.empty() ? std::string() : nodes.front().str();
}

DiagnosticCollector::DiagnosticCollector(MLIRContext &context, std::string model)
    : model(std::move(model)), handler(&context, [this](Diagnostic &diagnostic) {
        if (diagnostic.getSeverity() != DiagnosticSeverity::Error) {
          std::string text =
              "warning: " + escapeName(diagnostic.str()) + "\n  --> " + escapeName(where(diagnostic.getLocation()));
          for (Diagnostic &attached : diagnostic.getNotes()) {
            std::string line = escapeName(attached.str());
            text += "\n  = " + (line.rfind("help: ", 0) == 0 ? line : "note: " + line);
          }
          warnings.push_back(text);
          return success();
        }
        if (!message.empty())
          return success(); // what follows from the first error
        message = diagnostic.str();
        place = where(diagnostic.getLocation());
        for (Diagnostic &attached : diagnostic.getNotes())
          note = note.empty() ? attached.str() : note;
        return success();
      }) {}

std::string DiagnosticCollector::where(Location location) const {
  std::string node = nodeNameOf(location);
  bool isModule = node.empty() || node == llvm::sys::path::filename(model); // as the importer calls the module
  return isModule ? model : model + ": node \"" + node + "\"";
}

Error DiagnosticCollector::error(Code code, int number) const {
  Error error = makeError(code, number, message.empty() ? "compilation failed without a message" : message, place);
  // A note may be a whole module: enough to see which operation it begins with.
  constexpr size_t kLongest = 1000;
  error.note = note.size() > kLongest ? note.substr(0, kLongest) + "..." : note;
  return error;
}
