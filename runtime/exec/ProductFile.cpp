#include "runtime/exec/ProductFile.h"
#include "base/File.h"
#include "base/Names.h"
#include "runtime/io/Hash.h"
#include "runtime/io/OutputFile.h"

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

namespace zc {

using Json = nlohmann::ordered_json;

static constexpr uint64_t kMostBytes = uint64_t(16) << 20;
static constexpr int64_t kFormat = 2, kMostThreads = 4096;

ProductMachine ProductMachine::here() {
  ProductMachine machine;
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line) && !line.empty();)
    for (const char *key : {"model name", "cpu family", "model\t", "stepping"})
      if (line.compare(0, std::strlen(key), key) == 0)
        if (size_t at = line.find(": "); at != std::string::npos)
          machine.processor += (machine.processor.empty() ? "" : ", ") + line.substr(0, line.find_first_of("\t:")) +
                               " " + line.substr(at + 2);
  machine.libraries = productLibraries();
  return machine;
}

std::string defaultProductFile() {
  const char *cache = std::getenv("XDG_CACHE_HOME"), *home = std::getenv("HOME");
  if (cache && *cache)
    return std::string(cache) + "/zero-compile/products.json";
  return home && *home ? std::string(home) + "/.cache/zero-compile/products.json" : "";
}

//===-- reading --------------------------------------------------------------===//

static Error wrong(const std::string &path, const std::string &why) {
  return makeError(Code::badInput, 687, "\"" + path + "\" is no table of products: " + why, {},
                   "zero-run bench-machine writes one");
}

/// The field's value, where it is there and of the kind.
static std::optional<std::string> textOf(const Json &json, const char *key) {
  auto found = json.find(key);
  return found != json.end() && found->is_string() ? std::optional(found->get<std::string>()) : std::nullopt;
}
static double numberOf(const Json &json, const char *key) {
  auto found = json.find(key);
  return found != json.end() && found->is_number() ? found->get<double>() : -1;
}

/// The enumerator that `name` names.
template <typename Enum> static std::optional<Enum> fromName(const std::optional<std::string> &name) {
  return name ? valueNamed<Enum>(*name) : std::nullopt;
}

/// One entry, added to the table. What is wrong with it; empty if nothing.
static std::string addEntry(const Json &json, ProductTable &table) {
  const std::optional<std::string> product = json.is_object() ? textOf(json, "product") : std::nullopt;
  if (!product)
    return "an entry has no \"product\"";
  Result<ProductShape> shape = productFromText(*product);
  if (!shape)
    return shape.error().message;
  const double threads = numberOf(json, "threads");
  if (!(threads >= 1 && threads <= double(kMostThreads) && threads == std::floor(threads)))
    return "\"threads\" of \"" + *product + "\" is no number from 1 to " + std::to_string(kMostThreads);
  shape->threads = int(threads);
  const auto method = fromName<ProductMethod>(textOf(json, "method"));
  const auto cut = fromName<ProductCut>(textOf(json, "cut"));
  if (!method || !cut)
    return std::string(method ? "\"cut\"" : "\"method\"") + " of \"" + *product + "\" is none that is known";
  const ProductEntry entry{{*method, *cut}, numberOf(json, "gflops") * 1e9, numberOf(json, "gflops_without") * 1e9};
  if (!table.emplace(*shape, entry).second)
    return "\"" + *product + "\" on " + std::to_string(shape->threads) + " threads is there twice";
  return {};
}

static std::string show(const ProductMachine &machine) { return machine.processor + "; " + machine.libraries; }

Result<ProductTable> readProducts(const std::string &path) {
  Result<std::string> bytes = readFile(path, kMostBytes);
  ZC_RETURN_IF_ERROR(bytes.status());
  const Json json = Json::parse(*bytes, nullptr, false);
  if (!json.is_object() || !json.contains("product_table"))
    return wrong(path, "it is not a JSON object with \"product_table\"");
  if (numberOf(json, "product_table") != double(kFormat))
    return makeError(Code::mismatch, 688, "\"" + path + "\" is a table of products of another version", {},
                     "make it again with zero-run bench-machine");
  const auto processor = textOf(json, "processor"), libraries = textOf(json, "libraries");
  auto products = json.find("products");
  if (!processor || !libraries || products == json.end() || !products->is_array())
    return wrong(path, "\"processor\", \"libraries\" or \"products\" is missing");
  const ProductMachine there{*processor, *libraries}, here = ProductMachine::here();
  if (!(there == here)) {
    Error error = makeError(Code::mismatch, 689, "the table of products \"" + path + "\" is of another machine", {},
                            "make one here with zero-run bench-machine, or give --products none");
    error.note = "it was made on " + show(there) + "; this is " + show(here);
    return error;
  }
  ProductTable table;
  for (const Json &entry : *products)
    if (std::string why = addEntry(entry, table); !why.empty())
      return wrong(path, why);
  return table;
}

Result<ProductsInUse> productsInUse(const std::string &asked, const std::set<ProductShape> &shapes) {
  ProductsInUse use;
  if (asked == "none")
    return use;
  use.path = asked.empty() ? defaultProductFile() : asked;
  std::error_code failure;
  if (asked.empty() && (use.path.empty() || !std::filesystem::exists(use.path, failure)))
    return use;
  Result<ProductTable> table = readProducts(use.path);
  if (!table && !asked.empty())
    return table.status();
  if (!table) {
    use.note = "no table of products is used: " + table.error().message;
    return use;
  }
  ProductTable ofShapes;
  for (const ProductShape &shape : shapes)
    if (auto found = table->find(shape); found != table->end())
      ofShapes.insert(*found);
  if (!ofShapes.empty())
    use.table = std::make_shared<const ProductTable>(std::move(ofShapes));
  return use;
}

//===-- writing --------------------------------------------------------------===//

static double tenths(double flops) { return std::round(flops / 1e8) / 10; }

Status writeProducts(const std::string &path, const ProductTable &table) {
  const ProductMachine machine = ProductMachine::here();
  Json json = {{"product_table", kFormat},
               {"processor", machine.processor},
               {"libraries", machine.libraries},
               {"products", Json::array()}};
  for (const auto &[shape, entry] : table)
    json["products"].push_back({{"product", textOf(shape)},
                                {"threads", shape.threads},
                                {"method", nameOf(entry.choice.method)},
                                {"cut", nameOf(entry.choice.cut)},
                                {"gflops", tenths(entry.rate)},
                                {"gflops_without", tenths(entry.rateWithout)}});
  if (path == defaultProductFile()) {
    std::error_code failure; // told by the file's own error
    std::filesystem::create_directories(std::filesystem::path(path).parent_path(), failure);
  }
  return io::writeFileAtomically(path, json.dump(1) + "\n");
}

uint64_t hashOf(const ProductTable *table) {
  if (!table)
    return 0;
  std::string text;
  for (const auto &[shape, entry] : *table)
    text += textOf(shape) + " " + std::to_string(shape.threads) + " " + std::to_string(int(entry.choice.method)) + " " +
            std::to_string(int(entry.choice.cut)) + "\n";
  return io::hashOf(text);
}

} // namespace zc
