// A machine's table of products as a file: what is written is read again; everything else says what it is.
#include "runtime/exec/ProductFile.h"
#include "base/File.h"
#include "runtime/exec/TuneProducts.h"
#include "runtime/io/OutputFile.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

namespace zc {
namespace {

class ProductFile : public testing::Test {
protected:
  ProductFile() : path(testing::TempDir() + "products-" + std::to_string(::getpid()) + ".json") {}
  ~ProductFile() override { ::unlink(path.c_str()); }

  /// The error's number, 0 for none, after `change` of a sound file.
  int after(const std::function<void(nlohmann::json &)> &change) {
    EXPECT_TRUE(writeProducts(path, table).ok());
    auto json = nlohmann::json::parse(*readFile(path, 1 << 20));
    change(json);
    EXPECT_TRUE(io::writeFileAtomically(path, json.dump()).ok());
    auto read = readProducts(path);
    return read ? 0 : read.error().number;
  }
  int ofText(const std::string &text) {
    EXPECT_TRUE(io::writeFileAtomically(path, text).ok());
    auto read = readProducts(path);
    return read ? 0 : read.error().number;
  }

  const ProductTable table = {
      {{DType::f32, false, true, 1, 1024, 768, 3072, 2}, {{ProductMethod::onednn, ProductCut::columns}, 2e11, 1e11}},
      {{DType::bf16, true, false, 48, 256, 256, 64, 1}, {{ProductMethod::onednn, ProductCut::own}, 4e11, 4e11}}};
  std::string path;
};

TEST_F(ProductFile, isReadAsItWasWritten) {
  ASSERT_TRUE(writeProducts(path, table).ok());
  auto read = readProducts(path);
  ASSERT_TRUE(read.ok()) << read.error().message;
  ASSERT_EQ(read->size(), table.size());
  for (const auto &[shape, entry] : table) {
    ASSERT_EQ(read->count(shape), 1u);
    EXPECT_TRUE(read->at(shape).choice == entry.choice);
    EXPECT_DOUBLE_EQ(read->at(shape).rate, entry.rate);
  }
  EXPECT_EQ(hashOf(&*read), hashOf(&table));
  EXPECT_NE(hashOf(&table), 0u);
  EXPECT_EQ(hashOf(nullptr), 0u);
  ProductTable other = table;
  other.begin()->second.choice.cut = ProductCut::rows;
  EXPECT_NE(hashOf(&other), hashOf(&table));
}

TEST_F(ProductFile, thatIsNoneSaysSo) {
  for (const char *text : {"", "{", "[]", "7", "\"x\"", "{}", "\xff\xfe", "{\"flops_per_second\": 1}"})
    EXPECT_EQ(ofText(text), 687) << text;
  std::string nested(100000, '[');
  EXPECT_EQ(ofText(nested), 687);
  auto absent = readProducts(path + ".absent");
  ASSERT_FALSE(absent.ok());
  EXPECT_EQ(absent.error().code, Code::badInput);
}

TEST_F(ProductFile, withFieldsThatAreMissingOrWrongSaysSo) {
  using Json = nlohmann::json;
  EXPECT_EQ(after([](Json &) {}), 0);
  for (const char *key : {"processor", "libraries", "products", "product_table"}) {
    EXPECT_EQ(after([&](Json &json) { json.erase(key); }), 687) << key;
    EXPECT_NE(after([&](Json &json) { json[key] = nullptr; }), 0) << key;
  }
  for (const char *key : {"product", "threads", "method", "cut"})
    for (Json value : {Json(), Json("none"), Json(-1), Json(0), Json(1.5), Json(1e300), Json::array()})
      EXPECT_EQ(after([&](Json &json) { json["products"][0][key] = value; }), 687) << key << " " << value;
  EXPECT_EQ(after([](Json &json) { json["products"].push_back(json["products"][0]); }), 687);
  EXPECT_EQ(after([](Json &json) { json["products"].push_back(3); }), 687);
  EXPECT_EQ(after([](Json &json) { json["product_table"] = 1; }), 688);
  for (const char *key : {"processor", "libraries"})
    EXPECT_EQ(after([&](Json &json) { json[key] = "another"; }), 689);
}

TEST_F(ProductFile, ofTheCacheFolderIsUsedUnlessItIsAnothers) {
  const std::string folder = testing::TempDir() + "cache-" + std::to_string(::getpid());
  ::setenv("XDG_CACHE_HOME", folder.c_str(), 1);
  const std::set<ProductShape> shapes = {table.begin()->first};
  auto none = productsInUse("", shapes);
  ASSERT_TRUE(none.ok());
  EXPECT_FALSE(none->table || !none->note.empty());
  ASSERT_TRUE(writeProducts(defaultProductFile(), table).ok());
  auto used = productsInUse("", shapes);
  ASSERT_TRUE(used.ok() && used->table);
  EXPECT_EQ(used->table->size(), 1u); // the other one is of no product here
  EXPECT_EQ(used->path, folder + "/zero-compile/products.json");
  EXPECT_FALSE(productsInUse("", {{DType::f32, false, false, 1, 64, 64, 512, 1}})->table);
  EXPECT_FALSE(productsInUse("none", shapes)->table);
  ASSERT_TRUE(io::writeFileAtomically(defaultProductFile(), "{}").ok());
  auto damaged = productsInUse("", shapes);
  ASSERT_TRUE(damaged.ok());
  EXPECT_FALSE(damaged->table);
  EXPECT_NE(damaged->note.find("is no table of products"), std::string::npos);
  EXPECT_FALSE(productsInUse(defaultProductFile(), shapes).ok()); // asked for
  ::unlink(defaultProductFile().c_str());
  ::rmdir((folder + "/zero-compile").c_str());
  ::rmdir(folder.c_str());
  ::unsetenv("XDG_CACHE_HOME");
}

#ifdef __SANITIZE_THREAD__ // does not see the barriers of GCC's OpenMP: no team
constexpr int kTeam = 1;
#else
constexpr int kTeam = 2;
#endif

TEST(TuneProducts, keepsWhatIsDoneAnywayUnlessSomethingIsFaster) {
  const ProductShape shape{DType::f32, false, false, 1, 160, 128, 64, 1},
      wide{DType::bf16, false, true, 1, 160, 128, 64, kTeam};
  TuneOptions options;
  options.rounds = 1;
  int told = 0;
  options.done = [&](const ProductShape &, const ProductEntry &entry) {
    ++told;
    EXPECT_GT(entry.rateWithout, 0);
    EXPECT_GE(entry.rate, entry.rateWithout);
  };
  auto tuned = tuneProducts({shape, wide, shape}, options);
  ASSERT_TRUE(tuned.ok()) << tuned.error().message;
  EXPECT_EQ(told, 2);
  options.least = 1; // nothing is faster by all of it
  auto kept = tuneProducts({shape, wide}, options);
  ASSERT_TRUE(kept.ok());
  EXPECT_TRUE(kept->at(shape).choice == choicesFor(shape).front());
  EXPECT_TRUE(kept->at(wide).choice == choicesFor(wide).front());
}

} // namespace
} // namespace zc
