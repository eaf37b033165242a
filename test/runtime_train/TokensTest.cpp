#include "runtime/data/InputSource.h"
#include "test/runtime_train/TempFolder.h"

#include <fstream>

using namespace zc;
using namespace zc::data;
using namespace zc::test;

static BatchSpec language(int64_t rows, int64_t tokens, int64_t worldSize = 1) {
  BatchSpec batch;
  batch.dataDegree = worldSize;
  for (const char *name : {"input_ids", "attention_mask", "labels", "position_ids"})
    batch.inputs.push_back({name, {DType::i64, {rows, tokens}}});
  return batch;
}

static std::vector<int64_t> loaded(const InputSource &source, size_t input, int64_t step, int64_t rank, size_t count) {
  std::vector<int64_t> values(count, -1);
  Status status = source.load(input, step, 0, rank, values.data());
  EXPECT_TRUE(status.ok()) << render(status.error());
  return values;
}

TEST(TokenSource, CutsBytesIntoWindowsAcrossFiles) {
  TempFolder folder;
  DataOptions options;
  options.tokens = {folder.write("a", std::string("\x00\x01\x02\x03\x04", 5)), folder.write("b", ""),
                    folder.write("c", "\x05\x06\x07\x08\x09\xff")};
  options.byteLevel = true;
  auto source = openSource(options, language(1, 4, 2));
  ASSERT_OK(source);
  EXPECT_EQ((*source)->samples(), 2);
  using V = std::vector<int64_t>;
  EXPECT_EQ(loaded(**source, 0, 0, 1, 4), (V{4, 5, 6, 7}));
  EXPECT_EQ(loaded(**source, 2, 0, 1, 4), (V{4, 5, 6, 7})) << "the graph shifts its labels itself";
  EXPECT_EQ(loaded(**source, 1, 0, 1, 4), (V{1, 1, 1, 1}));
  EXPECT_EQ(loaded(**source, 3, 0, 1, 4), (V{0, 1, 2, 3}));
  EXPECT_EQ(loaded(**source, 0, 1, 0, 4), (V{0, 1, 2, 3})) << "wraps";
  options.shiftLabels = true;
  auto shifted = openSource(options, language(2, 4));
  ASSERT_OK(shifted);
  EXPECT_EQ(loaded(**shifted, 2, 0, 0, 8), (V{1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(loaded(**shifted, 0, 0, 0, 8), (V{0, 1, 2, 3, 4, 5, 6, 7}));
}

static std::string llmc(int32_t magic, int32_t version, int32_t count, const std::string &data) {
  std::vector<int32_t> header(256);
  header[0] = magic;
  header[1] = version;
  header[2] = count;
  return rawBytes(header) + data;
}

TEST(TokenSource, ReadsLlmCAndNpy) {
  TempFolder folder;
  std::string u16 = rawBytes<uint16_t>({1, 2, 3, 50256});
  std::string dict = "{'descr': '<u2', 'fortran_order': False, 'shape': (4,)}";
  std::string signedDict = "{'descr': '<i4', 'fortran_order': False, 'shape': (4,)}";
  for (const std::string &file : {folder.write("t.bin", llmc(20240520, 1, 4, u16)),
                                  folder.write("t7.bin", llmc(20240801, 7, 4, rawBytes<uint32_t>({1, 2, 3, 50256}))),
                                  folder.write("t.npy", npy(dict, u16)),
                                  folder.write("s.npy", npy(signedDict, rawBytes<int32_t>({1, 2, 3, 50256})))}) {
    DataOptions options;
    options.tokens = {file};
    auto source = openSource(options, language(1, 4));
    ASSERT_OK(source);
    EXPECT_EQ(loaded(**source, 0, 0, 0, 4), (std::vector<int64_t>{1, 2, 3, 50256})) << file;
  }
}

TEST(TokenSource, RefusesBadFiles) {
  std::string u16 = rawBytes<uint16_t>({1, 2, 3, 4});
  std::string cube = "{'descr': '<u2', 'fortran_order': False, 'shape': (2, 2, 1)}";
  std::string floats = "{'descr': '<f2', 'fortran_order': False, 'shape': (4,)}";
  struct {
    const char *name, *file;
    std::string bytes;
    const char *says;
  } attacks[] = {
      {"magic", "a.bin", llmc(1, 1, 4, u16), "magic 1"},
      {"version", "a.bin", llmc(20240520, 7, 4, u16), "version 7"},
      {"count", "a.bin", llmc(20240520, 1, 5, u16), "counts 5"},
      {"negative count", "a.bin", llmc(20240520, 1, -4, u16), "counts -4"},
      {"short header", "a.bin", "abc", "only 3 bytes"},
      {"no tokens", "a.bin", llmc(20240520, 1, 0, ""), "needs 4 tokens but there are 0"},
      {"less than a step", "a.bin", llmc(20240520, 1, 3, u16.substr(2)), "needs 4 tokens but there are 3"},
      {"more than an int32", "a.bin", llmc(20240520, 1, -1, std::string(8, '\1')), "counts 0"},
      {"three dimensions", "a.npy", npy(cube, u16), "in one or two dimensions, and is u16 in 3"},
      {"floats", "a.npy", npy(floats, u16), "must be integers"},
  };
  TempFolder folder;
  for (const auto &attack : attacks) {
    DataOptions options;
    options.tokens = {folder.write(attack.file, attack.bytes)};
    auto source = openSource(options, language(1, 4));
    ASSERT_FALSE(source.ok()) << attack.name;
    EXPECT_EQ(source.error().code, Code::badInput) << attack.name;
    EXPECT_NE(source.error().message.find(attack.says), std::string::npos) << attack.name << source.error().message;
  }
}

/// Tokens below `vocabulary`.
static BatchSpec limited(int64_t vocabulary, int64_t rows = 1, int64_t tokens = 4) {
  BatchSpec batch = language(rows, tokens);
  batch.inputs[0].range = {-vocabulary, vocabulary, std::nullopt, false};
  return batch;
}

/// What the check before the first step and the reading of the first row say, which is the same.
static std::string refusalOf(const DataOptions &options, const BatchSpec &batch) {
  auto source = openSource(options, batch);
  if (!source)
    return source.error().message;
  auto checked = (*source)->check({});
  std::vector<int64_t> row(size_t(batch.inputs[0].type.numElements()));
  Status read = (*source)->load(0, 0, 0, 0, row.data());
  EXPECT_EQ(checked.ok(), read.ok());
  if (checked)
    return *checked ? "" : "not read";
  EXPECT_EQ(checked.error().code, Code::badInput);
  EXPECT_EQ(checked.error().message, read.error().message);
  return checked.error().message;
}

TEST(TokenSource, TokenOutsideTheVocabularyNamesItsPlace) {
  TempFolder folder;
  DataOptions options;
  options.tokens = {folder.write("t.bin", llmc(20240520, 1, 4, rawBytes<uint16_t>({1, 2, 300, 4})))};
  EXPECT_EQ(refusalOf(options, limited(256)), "token 300 at position 2 (byte 1028) is not below the vocabulary of 256");
  EXPECT_EQ(refusalOf(options, limited(301)), "");
  options.tokens = {folder.write(
      "n.npy", npy("{'descr': '<i4', 'fortran_order': False, 'shape': (4,)}", rawBytes<int32_t>({1, 2, -3, 4})))};
  EXPECT_NE(refusalOf(options, limited(256)).find("token -3 at position 2"), std::string::npos);
  options.tokens = {folder.write(
      "u.npy", npy("{'descr': '<u8', 'fortran_order': False, 'shape': (4,)}", rawBytes<uint64_t>({1, ~0ull, 3, 4})))};
  EXPECT_NE(refusalOf(options, limited(256)).find("token 9223372036854775807 at position 1"), std::string::npos);
}

TEST(TokenSource, RawTokensNeedTheirType) {
  TempFolder folder;
  DataOptions options;
  options.tokens = {folder.write("train.bin", rawBytes<uint16_t>({7, 300, 65000, 4}))};
  auto advised = openSource(options, limited(65536));
  ASSERT_FALSE(advised.ok());
  EXPECT_NE(advised.error().help.find("nanoGPT writes them: --token-type uint16"), std::string::npos)
      << advised.error().help;
  using V = std::vector<int64_t>;
  auto first = [&](const char *type, const std::string &bytes) {
    options.tokens = {folder.write("raw.bin", bytes)};
    options.tokenType = type;
    auto source = openSource(options, limited(0));
    EXPECT_TRUE(source.ok()) << render(source.error());
    return source ? loaded(**source, 0, 0, 0, 4) : V();
  };
  EXPECT_EQ(first("uint16", rawBytes<uint16_t>({7, 300, 65000, 4})), (V{7, 300, 65000, 4}));
  EXPECT_EQ(first("uint32", rawBytes<uint32_t>({7, 300, 4000000000u, 4})), (V{7, 300, 4000000000, 4}));
  EXPECT_EQ(first("int32", rawBytes<int32_t>({7, 300, 70000, 4})), (V{7, 300, 70000, 4}));
  EXPECT_EQ(first("int64", rawBytes<int64_t>({7, 300, 70000, 4})), (V{7, 300, 70000, 4}));
  options.tokenType = "int32";
  options.tokens = {folder.write("t.bin", llmc(20240520, 1, 4, rawBytes<uint16_t>({1, 2, 3, 4})))};
  EXPECT_EQ(openSource(options, limited(0)).error().code, Code::mismatch) << "its header says uint16";
  options.tokens = {folder.write("odd.bin", std::string(17, 'a'))};
  EXPECT_NE(openSource(options, limited(0)).error().message.find("17 bytes are no whole number"), std::string::npos);
}

TEST(TokenSource, ReadsWidthsThatDiffer) {
  TempFolder folder;
  DataOptions options;
  std::vector<int32_t> header(256);
  header[0] = 20240801, header[1] = 7, header[2] = -1, header[4] = 2; // the count as an int64
  options.tokens = {folder.write("a.npy", npy("{'descr': '<u2', 'fortran_order': False, 'shape': (6,)}",
                                              rawBytes<uint16_t>({1, 2, 3, 4, 5, 6}))),
                    folder.write("b.bin", rawBytes(header) + rawBytes<uint32_t>({70000, 80000}))};
  auto source = openSource(options, limited(0, 2));
  ASSERT_OK(source);
  EXPECT_EQ(loaded(**source, 0, 0, 0, 8), (std::vector<int64_t>{1, 2, 3, 4, 5, 6, 70000, 80000}));
  EXPECT_EQ((*source)->rows(), "");
}

/// Windows of four tokens, between two flat files one of rows.
TEST(TokenSource, CutsRowsByThemselves) {
  TempFolder folder;
  DataOptions options;
  auto array = [&](const char *name, const std::string &shape, const std::vector<uint16_t> &values) {
    return folder.write(name,
                        npy("{'descr': '<u2', 'fortran_order': False, 'shape': " + shape + "}", rawBytes(values)));
  };
  std::string rows =
      array("rows.npy", "(2, 9)", {10, 11, 12, 13, 14, 15, 16, 17, 18, 20, 21, 22, 23, 24, 25, 26, 27, 28});
  options.tokens = {array("a.npy", "(3,)", {1, 2, 3}), array("b.npy", "(2,)", {4, 5}), rows,
                    array("c.npy", "(5,)", {6, 7, 8, 9, 6})};
  auto firsts = [&](bool shifted) {
    options.shiftLabels = shifted;
    auto source = openSource(options, limited(0, 1));
    EXPECT_TRUE(source.ok());
    std::vector<std::vector<int64_t>> seen;
    for (int64_t step = 0; step < (*source)->samples(); ++step)
      seen.push_back(loaded(**source, 0, step, 0, 4));
    return seen;
  };
  const std::vector<std::vector<int64_t>> want = {{1, 2, 3, 4},     {10, 11, 12, 13}, {14, 15, 16, 17},
                                                  {20, 21, 22, 23}, {24, 25, 26, 27}, {6, 7, 8, 9}};
  EXPECT_EQ(firsts(false), want);
  EXPECT_EQ(firsts(true), want) << "each row has a ninth token for the last label";
  auto source = openSource(options, limited(0, 1));
  EXPECT_EQ((*source)->rows(),
            "rows of two-dimensional arrays are cut by themselves: 2 rows, 4 samples of 4 tokens, 2 tokens left out");
  options.tokens = {array("short.npy", "(9, 4)", std::vector<uint16_t>(36, 1))};
  auto tooShort = openSource(options, limited(0, 1));
  ASSERT_FALSE(tooShort.ok());
  EXPECT_EQ(tooShort.error().message, "its rows have 4 tokens each, a sample needs 5");
  options.shiftLabels = false;
  EXPECT_EQ((*openSource(options, limited(0, 1)))->samples(), 9);
}

TEST(TokenSource, WeightsSayHowOftenAnEpochHasAFile) {
  TempFolder folder;
  DataOptions options;
  options.byteLevel = true;
  std::string a = folder.write("a", std::string("\0\1\2\3", 4)), b = folder.write("b:2", "\x10\x11\x12\x13");
  options.tokens = {a + ":2", b, folder.write("c", "\x20\x21\x22\x23") + ":0.5"};
  auto source = openSource(options, limited(0, 1, 2));
  ASSERT_OK(source);
  EXPECT_EQ((*source)->samples(), 7);
  std::vector<int64_t> seen;
  for (int64_t step = 0; step < 14; ++step)
    seen.push_back(loaded(**source, 0, step, 0, 2)[0]);
  EXPECT_EQ(seen, (std::vector<int64_t>{0, 2, 0, 2, 0x10, 0x12, 0x20, 0, 2, 0, 2, 0x10, 0x12, 0x22}))
      << "b's name has a colon, c's other half comes in the second epoch";
  options.tokens = {a + ":0"};
  EXPECT_EQ(openSource(options, limited(0)).error().code, Code::usage);
  for (const std::string &never : {a + ":0.2", folder.write("d", "\x30")}) { // a tenth of a sample; none
    options.tokens = {a + ":2", never};
    auto refused = openSource(options, limited(0, 1, 2));
    ASSERT_FALSE(refused.ok());
    EXPECT_NE(refused.error().message.find("it would never be read"), std::string::npos) << refused.error().message;
  }
}

TEST(TokenSource, ReadsBeyond32BitsWithoutReadingAll) {
  TempFolder folder;
  DataOptions options;
  options.tokenType = "uint16";
  options.tokens = {folder.write("huge.bin", "")};
  const int64_t tokens = int64_t(50) << 30; // 100 GiB, of which the last row is written
  {
    std::ofstream out(options.tokens[0], std::ios::binary);
    out.seekp((tokens - 4) * 2);
    out << rawBytes<uint16_t>({5, 6, 7, 999});
    ASSERT_TRUE(out.good());
  }
  auto source = openSource(options, limited(1000));
  ASSERT_OK(source);
  EXPECT_EQ(loaded(**source, 0, tokens / 4 - 1, 0, 4), (std::vector<int64_t>{5, 6, 7, 999}));
  Patience short_;
  short_.seconds = 0.01;
  auto checked = (*source)->check(short_);
  ASSERT_OK(checked);
  EXPECT_FALSE(*checked) << "it is not read to its end";
}

TEST(TokenSource, LabelsAreShiftedOnce) {
  TempFolder folder;
  DataOptions options;
  options.byteLevel = true;
  options.tokens = {folder.write("t", std::string(64, 'a'))};
  BatchSpec batch = language(1, 4);
  auto making = [&] { return (*openSource(options, batch))->labels(); };
  EXPECT_NE(making().text.find("where the graph does not shift them"), std::string::npos);
  batch.inputs[2].shift = 1;
  EXPECT_EQ(making().text, "labels are the tokens, which the graph shifts");
  options.shiftLabels = true;
  EXPECT_EQ(openSource(options, batch).error().code, Code::usage);
  batch.inputs[2].shift = 0;
  EXPECT_EQ(making().text, "labels are the tokens that follow");
  options.shiftLabels = false;
  EXPECT_TRUE(making().isDoubtful);
}

TEST(TokenSource, OnlyFillsLanguageModelInputs) {
  TempFolder folder;
  DataOptions options;
  options.tokens = {folder.write("t", std::string(64, 'a'))};
  BatchSpec batch = language(1, 4);
  EXPECT_EQ(openSource(options, batch).error().code, Code::usage) << "unknown extension without --byte-level";
  options.byteLevel = true;
  batch.inputs.push_back({"pixels", {DType::f32, {1, 4}}});
  EXPECT_EQ(openSource(options, batch).error().code, Code::mismatch);
}
