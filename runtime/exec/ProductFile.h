//===- ProductFile.h - a machine's table of products, as a file --------------------===//
//
// {"product_table": 2, "processor": "...", "libraries": "...", "products": [{"product": "f32:nt:1024x3072x768",
// "threads": 2, "method": "onednn", "cut": "columns", "gflops": 412.3, "gflops_without": 398.1}, ...]}
// Names of methods and cuts are those of kernels/cpu/Products.h. The figures are for people.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "kernels/cpu/Products.h"

#include <memory>
#include <optional>
#include <set>

namespace zc {

/// What a table is for: another machine's numbers say nothing of this one.
struct ProductMachine {
  std::string processor; ///< name, family, model and stepping
  std::string libraries; ///< productLibraries()
  bool operator==(const ProductMachine &other) const {
    return processor == other.processor && libraries == other.libraries;
  }
  static ProductMachine here();
};

/// Where bench-machine writes and runs look: `$XDG_CACHE_HOME/zero-compile/products.json`, or below `~/.cache`; empty
/// where neither variable is set.
std::string defaultProductFile();

/// Errors: a file that cannot be read, that is no table or that says what does not exist (bad input); of another
/// machine (mismatch).
Result<ProductTable> readProducts(const std::string &path);
/// Replaces the file; the folder of the default one is made. Errors: io.
Status writeProducts(const std::string &path, const ProductTable &table);

struct ProductsInUse {
  std::shared_ptr<const ProductTable> table; ///< null: none, or of other products only
  std::string path;                          ///< of the table
  std::string note;                          ///< what the user should know
};
/// The table of a run whose products are `shapes`: it has no other entries. `asked`: a file, "none", or empty for the
/// default file, which need not be there: what is wrong with that one, such as another machine's figures, is a note,
/// and there is no table. Errors: readProducts, of a file that was asked for.
Result<ProductsInUse> productsInUse(const std::string &asked, const std::set<ProductShape> &shapes);

/// A number that differs where tables differ in what is computed; 0 for none.
uint64_t hashOf(const ProductTable *table);

} // namespace zc
