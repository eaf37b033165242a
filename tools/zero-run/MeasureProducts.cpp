#include "base/Names.h"
#include "base/Size.h"
#include "runtime/exec/ProductFile.h"
#include "runtime/exec/StepKernels.h"
#include "runtime/exec/TuneProducts.h"
#include "runtime/io/OutputFile.h"
#include "runtime/io/Outputs.h"
#include "tools/zero-run/Commands.h"
#include "tools/zero-run/Files.h"
#include "tools/zero-run/Progress.h"
#include "tools/zero-run/Ranks.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <set>

namespace zc::run {

namespace {

/// Of products that have several ways.
Status addPlan(const Flags &flags, const std::string &path, std::set<ProductShape> &shapes) {
  auto plan = openPlan(path);
  ZC_RETURN_IF_ERROR(plan.status());
  ZC_RETURN_IF_ERROR(verifyWithPrograms(*plan));
  shapes.merge(productsOf(*plan, threadsOf(flags, *plan)));
  return {};
}

Status addShape(const Flags &flags, const std::string &text, std::set<ProductShape> &shapes) {
  auto shape = productFromText(text);
  ZC_RETURN_IF_ERROR(shape.status());
  shape->threads = std::max(1, flags.run.threads);
  if (productsOf(specOf(*shape)).empty())
    return makeError(Code::usage, 984,
                     "there is nothing to choose for \"" + text +
                         "\": so few multiplications are "
                         "summed in order, whoever does it",
                     "--shape");
  shapes.insert(*shape);
  return {};
}

/// What the file has already: other shapes keep their entries.
Result<ProductTable> tableOf(const std::string &path) {
  std::error_code failure;
  if (!std::filesystem::exists(path, failure))
    return ProductTable();
  auto table = readProducts(path);
  if (!table && table.error().code == Code::mismatch) {
    Error error = table.error();
    error.help = "remove it, or write another one with --output";
    return error;
  }
  return table;
}

void printRow(const ProductShape &shape, const ProductEntry &entry) {
  char line[160];
  std::snprintf(line, sizeof line, "%-34s %3d  %8.1f GF/s  %8.1f  %-9s %s\n", nameOf(shape).c_str(), shape.threads,
                entry.rateWithout / 1e9, entry.rate / 1e9, nameOf(entry.choice.method), nameOf(entry.choice.cut));
  print(2, line);
}

} // namespace

Status measureProducts(const Flags &flags) {
  const std::string path = flags.products.empty() ? defaultProductFile() : flags.products;
  if (path.empty())
    return makeError(Code::usage, 985, "there is no cache folder: neither XDG_CACHE_HOME nor HOME is set", "",
                     "give --output FILE");
  std::vector<NamedPath> inputs;
  std::set<ProductShape> shapes;
  for (const std::string &plan : flags.benchPlans)
    inputs.push_back({"", plan});
  ZC_RETURN_IF_ERROR(checkOutputs(inputs, {written("--output", path, FileKind::unknown)}));
  for (const std::string &plan : flags.benchPlans)
    ZC_RETURN_IF_ERROR(addPlan(flags, plan, shapes));
  for (const std::string &text : flags.benchProducts)
    ZC_RETURN_IF_ERROR(addShape(flags, text, shapes));
  auto table = tableOf(path);
  ZC_RETURN_IF_ERROR(table.status());
  if (path != defaultProductFile()) // whose folder is made
    ZC_RETURN_IF_ERROR(io::checkReplaceable(path));
  print(2, "product (left, right factor; m x n x k)  threads     without      with  by\n");
  TuneOptions options;
  options.rounds = flags.benchRounds;
  options.done = printRow;
  auto tuned = tuneProducts({shapes.begin(), shapes.end()}, options);
  ZC_RETURN_IF_ERROR(tuned.status());
  for (const auto &[shape, entry] : *tuned)
    (*table)[shape] = entry;
  ZC_RETURN_IF_ERROR(writeProducts(path, *table));
  return io::writeToStdout(counted(int64_t(tuned->size()), "product") + " of " + std::to_string(table->size()) +
                           " in " + escapeName(path) + "\n");
}

} // namespace zc::run
