#include "runtime/train/ModelNames.h"
#include "runtime/train/ExternalNames.h"
#include "test/runtime_train/TempFolder.h"

using namespace zc;
using namespace zc::train;
using namespace zc::test;

static std::string varint(size_t value) {
  std::string text;
  for (; value > 127; value >>= 7)
    text += char((value & 127) | 128);
  return text + char(value);
}
/// A field with a length.
static std::string field(int number, const std::string &bytes) {
  return varint(size_t(number) << 3 | 2) + varint(bytes.size()) + bytes;
}
static std::string number(int field, int value) { return {char(field << 3), char(value)}; }
static std::string entry(const std::string &key, const std::string &text) { return field(1, key) + field(2, text); }

/// An f32 matrix of 2 x 3.
static std::string matrix(const std::string &name, const std::string &more) {
  return field(5, number(1, 2) + number(1, 3) + number(2, 1) + field(8, name) + more);
}

static std::string model() {
  const char *folded = "pkg.onnxscript.optimizer.folded_from",
             *kind = "pkg.torch.export.graph_signature.InputSpec.kind";
  std::string external =
      field(13, entry("location", "w.data")) + field(13, entry("offset", "4096")) + field(13, entry("length", "24"));
  std::string graph = matrix("val_1", field(9, std::string(24, 'x'))) + matrix("b.weight", external) +
                      field(13, field(1, "val_1") + field(4, entry(folded, "['a.weight']"))) +
                      field(13, field(1, "val_2") + field(4, entry(folded, "['a.weight', 'c.weight']"))) +
                      field(13, field(1, "b.weight") + field(4, entry(kind, "FROZEN"))) +
                      field(16, entry("pkg.torch.export.ExportedProgram.graph_signature",
                                      "# inputs\np_a: PARAMETER target='a.weight'\nb_m: BUFFER target='mask' "
                                      "persistent=False\nb_n: BUFFER target='mean' persistent=True\nx: USER_INPUT\n"));
  return number(1, 8) + field(7, graph) + field(14, entry("zero.tied", "{\"head.weight\": \"a.weight\"}")) +
         field(14, entry("zero.constants", "[\"table\"]"));
}

TEST(ModelNames, OfExportersNotes) {
  TempFolder folder;
  std::string bytes = model();
  auto file = io::File::open(folder.write("m.onnx", bytes));
  ASSERT_OK(file);
  auto names = readModelNames(*file);
  ASSERT_OK(names);
  EXPECT_TRUE(names->isComplete);
  EXPECT_EQ(names->copyOf, (std::map<std::string, std::string>{{"val_1", "a.weight"}})) << "of two it is no copy";
  EXPECT_EQ(names->tied, (std::map<std::string, std::string>{{"head.weight", "a.weight"}}));
  EXPECT_EQ(names->parameters, (std::set<std::string>{"a.weight", "b.weight", "mean"}));
  EXPECT_EQ(names->others, (std::set<std::string>{"mask", "table"}));
  const ModelNames::Initializer &inside = names->initializers.at("val_1"),
                                &outside = names->initializers.at("b.weight");
  EXPECT_TRUE(inside.isKnown && outside.isKnown);
  EXPECT_EQ(inside.offset, int64_t(bytes.find("xxxx")));
  EXPECT_EQ(inside.type.dims, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(outside.file, "w.data");
  EXPECT_EQ(outside.offset, 4096);
}

TEST(ModelNames, DamagedFilesAreRefusedOrRead) {
  TempFolder folder;
  const std::string whole = model();
  for (size_t at = 0; at < whole.size(); ++at)
    for (int kind = 0; kind < 2; ++kind) {
      std::string bytes = kind ? whole : whole.substr(0, at);
      if (kind)
        bytes[at] = char(bytes[at] ^ 0x55);
      auto file = io::File::open(folder.write("m.onnx", bytes));
      ASSERT_OK(file);
      auto names = readModelNames(*file);
      if (!names)
        EXPECT_EQ(names.error().code, Code::badInput);
      else
        for (const auto &[name, tensor] : names->initializers)
          EXPECT_TRUE(!tensor.isKnown || tensor.bytes == tensor.type.numBytes()) << at;
    }
}

TEST(ExternalNames, OfInitializersAlone) {
  std::string before = model();
  auto after = withExternalNames(before, {{"w.data", "a longer name than before.data"}, {"1", "2"}});
  ASSERT_OK(after);
  TempFolder folder;
  auto file = io::File::open(folder.write("m.onnx", *after));
  ASSERT_OK(file);
  auto names = readModelNames(*file);
  ASSERT_OK(names);
  EXPECT_EQ(names->initializers.at("b.weight").file, "a longer name than before.data");
  EXPECT_EQ(names->initializers.at("b.weight").offset, 4096);
  EXPECT_EQ(names->initializers.at("val_1").offset, int64_t(after->find("xxxx")));
  EXPECT_EQ(names->tied.size(), 1u);
  auto back = withExternalNames(*after, {{"a longer name than before.data", "w.data"}});
  ASSERT_OK(back);
  EXPECT_EQ(*back, before);
  for (size_t cut : {before.size() - 1, size_t(1), before.find("w.data") + 2})
    EXPECT_EQ(withExternalNames(before.substr(0, cut), {}).error().code, Code::badInput) << cut;
}
