//===- zero-translate.cpp - between files and MLIR ------------------------------===//
#include "base/StandardStreams.h"
#include "compiler/import/Import.h"
#include "compiler/import/Options.h"
#include "dialects/graph/NodeNames.h"
#include "runtime/io/OutputFile.h"
#include "runtime/io/Outputs.h"
#include "tools/zero-translate/PlanText.h"

#include "mlir/IR/AsmState.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/raw_ostream.h"

#include <deque>

using namespace llvm;

static cl::OptionCategory category("zero-translate");
static cl::opt<std::string> input(cl::Positional, cl::Required, cl::desc("FILE"), cl::cat(category));
static cl::opt<std::string> output("o", cl::desc("output file"), cl::init("-"), cl::cat(category));
static cl::opt<bool> importOnnx("import-onnx", cl::desc("ONNX model to graph dialect"), cl::cat(category));
static cl::opt<bool> fromPlan("plan-to-mlir", cl::desc("plan file to plan dialect"), cl::cat(category));
static cl::opt<bool> toPlan("mlir-to-plan", cl::desc("plan dialect to plan file, verified"), cl::cat(category));
static cl::opt<bool> forwardOnly("forward-only", cl::desc("no loss, all outputs"), cl::cat(category));
static cl::opt<bool> noRaise("no-raise", cl::desc("without the recognisers"), cl::cat(category));
static cl::opt<bool> list("list-parameters", cl::desc("print the table of parameters instead"), cl::cat(category));
static cl::opt<bool> locations("locations", cl::desc("print the nodes' names"), cl::cat(category));

static int fail(const zc::Error &error) {
  errs() << zc::render(error) << '\n';
  return static_cast<int>(error.code);
}

/// The importer's options as flags, read in the order in which they are given.
class ImportFlags {
public:
  ImportFlags() {
    listOptions(options, known);
    for (const zc::Option &option : known.options)
      flags.emplace_back(StringRef(option.name), cl::desc(option.help), cl::cat(category),
                         cl::callback([this, &option](const std::string &text) {
                           if (status.ok())
                             status = option.read(text);
                         }));
  }

  zc::importer::ImportOptions options;
  zc::Status status; ///< of reading them

private:
  zc::OptionList known;
  std::deque<cl::list<std::string>> flags;
};

static zc::Status checkOutput(const std::vector<zc::NamedPath> &inputs) {
  return zc::checkOutputs(inputs, {zc::written("-o", output == "-" ? "" : output.getValue(),
                                               toPlan ? zc::FileKind::plan : zc::FileKind::unknown)});
}

/// Writes what `produce` gives, once that is there: on errors nothing is touched.
static int write(function_ref<zc::Status(raw_ostream &)> produce) {
  if (zc::Status status = checkOutput({{"", input}}); !status.ok())
    return fail(status.error());
  std::string text;
  raw_string_ostream buffer(text);
  if (zc::Status status = produce(buffer); !status.ok())
    return fail(status.error());
  zc::Status written = output == "-" ? zc::io::writeToStdout(text) : zc::io::writeFileAtomically(output, text);
  return written.ok() ? 0 : fail(written.error());
}

static zc::Status importModel(ImportFlags &flags, raw_ostream &out) {
  if (!flags.status.ok())
    return flags.status.error();
  zc::importer::ImportOptions &options = flags.options;
  options.forwardOnly = forwardOnly;
  options.raise = !noRaise;
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  mlir::ScopedDiagnosticHandler warnings(&context, [](mlir::Diagnostic &diagnostic) {
    if (diagnostic.getSeverity() == mlir::DiagnosticSeverity::Error)
      return mlir::failure();
    errs() << "warning: " << zc::escapeName(diagnostic.str()) << '\n';
    return mlir::success();
  });
  auto module = zc::importer::importOnnx(context, input, options);
  if (!module.ok())
    return module.error();
  std::vector<zc::NamedPath> files; // external data among them
  for (const std::string &file : zc::importer::filesOf(**module))
    files.push_back({"", file});
  if (auto status = checkOutput(files); !status.ok())
    return status;
  zc::graph::spellLocations(**module);
  if (list)
    out << zc::importer::listParameters(**module);
  else
    (**module).print(out, mlir::OpPrintingFlags().enableDebugInfo(locations));
  return {};
}

static zc::Status writePlanFile(raw_ostream &out) {
  zc::Result<std::string> bytes = zc::translate::mlirToPlan(input);
  if (!bytes)
    return bytes.error();
  out << *bytes;
  return {};
}

int main(int argc, char **argv) {
  InitLLVM init(argc, argv, /*InstallPipeSignalExitHandler=*/false);
  zc::guardStandardStreams();
  ImportFlags importFlags;
  cl::HideUnrelatedOptions(category);
  if (!cl::ParseCommandLineOptions(argc, argv, "zero-translate --import-onnx model.onnx --dim batch=8\n", &errs()))
    return static_cast<int>(zc::Code::usage);
  if (importOnnx + fromPlan + toPlan != 1)
    return fail(zc::makeError(zc::Code::usage, 100,
                              importOnnx || fromPlan || toPlan ? "too much to do" : "nothing to do", "",
                              "give one of --import-onnx, --plan-to-mlir, --mlir-to-plan"));
  if (importOnnx)
    return write([&](raw_ostream &out) { return importModel(importFlags, out); });
  if (fromPlan)
    return write([](raw_ostream &out) { return zc::translate::planToMlir(input, out); });
  return write(writePlanFile);
}
