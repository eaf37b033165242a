//===- zero-translate.cpp - between files and MLIR ------------------------------===//
#include "compiler/import/Import.h"
#include "runtime/base/Outputs.h"
#include "tools/zero-translate/PlanText.h"

#include "mlir/IR/AsmState.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;

static cl::OptionCategory category("zero-translate");
static cl::opt<std::string> input(cl::Positional, cl::Required, cl::desc("FILE"), cl::cat(category));
static cl::opt<std::string> output("o", cl::desc("output file"), cl::init("-"), cl::cat(category));
static cl::opt<bool> importOnnx("import-onnx", cl::desc("ONNX model to graph dialect"), cl::cat(category));
static cl::opt<bool> fromPlan("plan-to-mlir", cl::desc("plan file to plan dialect"), cl::cat(category));
static cl::opt<bool> toPlan("mlir-to-plan", cl::desc("plan dialect to plan file, verified"), cl::cat(category));
static cl::list<std::string> dims("dim", cl::desc("NAME=N: size of a symbolic dimension"), cl::cat(category));
static cl::opt<std::string> loss("loss", cl::desc("output to differentiate"), cl::cat(category));
static cl::list<std::string> trainable("trainable", cl::desc("glob of initializers to train"), cl::cat(category));
static cl::list<std::string> frozen("frozen", cl::desc("glob of initializers not to train"), cl::cat(category));
static cl::opt<zc::importer::DropoutPolicy>
    dropout("dropout", cl::desc("dropout policy"), cl::init(zc::importer::DropoutPolicy::asExported), cl::cat(category),
            cl::values(clEnumValN(zc::importer::DropoutPolicy::asExported, "as-exported", "as the file says"),
                       clEnumValN(zc::importer::DropoutPolicy::off, "off", "identity"),
                       clEnumValN(zc::importer::DropoutPolicy::force, "force", "active wherever the ratio is not 0")));
static cl::opt<zc::importer::BatchNormPolicy>
    batchNorm("batch-norm", cl::desc("batch norm policy"), cl::init(zc::importer::BatchNormPolicy::asExported),
              cl::cat(category),
              cl::values(clEnumValN(zc::importer::BatchNormPolicy::asExported, "as-exported", "as the file says"),
                         clEnumValN(zc::importer::BatchNormPolicy::train, "train", "the batch's own statistics"),
                         clEnumValN(zc::importer::BatchNormPolicy::eval, "eval", "the file's statistics")));
static cl::opt<zc::importer::BatchNormVariance>
    batchNormVariance("batch-norm-variance", cl::desc("of running statistics"),
                      cl::init(zc::importer::BatchNormVariance::sample), cl::cat(category),
                      cl::values(clEnumValN(zc::importer::BatchNormVariance::sample, "torch", "divided by N - 1"),
                                 clEnumValN(zc::importer::BatchNormVariance::population, "onnx", "divided by N")));
static cl::opt<bool> forwardOnly("forward-only", cl::desc("no loss, all outputs"), cl::cat(category));
static cl::list<std::string> limits("limit", cl::desc("NAME=N: a limit of the importer"), cl::cat(category));
static cl::opt<bool> noRaise("no-raise", cl::desc("without the recognisers"), cl::cat(category));
static cl::opt<bool> list("list-parameters", cl::desc("print the table of parameters instead"), cl::cat(category));
static cl::opt<bool> locations("locations", cl::desc("print the nodes' names"), cl::cat(category));

static int fail(const zc::Error &error) {
  errs() << zc::render(error) << '\n';
  return static_cast<int>(error.code);
}

static zc::Status readDims(zc::importer::ImportOptions &options) {
  for (const std::string &text : dims) {
    auto [name, size] = StringRef(text).rsplit('=');
    int64_t value;
    if (name.empty() || size.getAsInteger(10, value) || value < 1)
      return zc::makeError(zc::Code::usage, 100, "'" + text + "' is not NAME=N with N >= 1", "--dim");
    options.dims[name.str()] = value;
  }
  return {};
}

static zc::Status checkOutput(const std::vector<zc::NamedPath> &inputs) {
  return zc::checkOutputs(inputs, {{"-o", output == "-" ? std::string() : output}});
}

/// Writes what `produce` gives. The output is opened only once that is there: on errors nothing is touched, and an
/// output that is no regular file (/dev/null) is never removed.
static int write(function_ref<zc::Status(raw_ostream &)> produce) {
  if (zc::Status status = checkOutput({{"", input}}); !status.ok())
    return fail(status.error());
  std::string text;
  raw_string_ostream buffer(text);
  if (zc::Status status = produce(buffer); !status.ok())
    return fail(status.error());
  std::error_code problem;
  raw_fd_ostream file(output, problem, sys::fs::OF_None);
  if (!problem) {
    file << text;
    file.flush();
    problem = file.error();
    file.clear_error();
  }
  if (!problem)
    return 0;
  if (output != "-" && sys::fs::is_regular_file(output))
    (void)sys::fs::remove(output);
  return fail(zc::makeError(zc::Code::io, 101, "cannot write: " + problem.message(), output));
}

static zc::Status importModel(raw_ostream &out) {
  zc::importer::ImportOptions options;
  if (auto status = readDims(options); !status.ok())
    return status;
  options.loss = loss;
  for (const std::string &limit : limits)
    if (auto status = zc::importer::setLimit(options.limits, limit); !status.ok())
      return status;
  options.trainable = trainable;
  options.frozen = frozen;
  options.dropout = dropout;
  options.batchNorm = batchNorm;
  options.batchNormVariance = batchNormVariance;
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
  InitLLVM init(argc, argv);
  cl::HideUnrelatedOptions(category);
  if (!cl::ParseCommandLineOptions(argc, argv, "zero-translate --import-onnx model.onnx --dim batch=8\n", &errs()))
    return static_cast<int>(zc::Code::usage);
  if (importOnnx + fromPlan + toPlan != 1)
    return fail(zc::makeError(zc::Code::usage, 100,
                              importOnnx || fromPlan || toPlan ? "too much to do" : "nothing to do", "",
                              "give one of --import-onnx, --plan-to-mlir, --mlir-to-plan"));
  if (importOnnx)
    return write(importModel);
  if (fromPlan)
    return write([](raw_ostream &out) { return zc::translate::planToMlir(input, out); });
  return write(writePlanFile);
}
