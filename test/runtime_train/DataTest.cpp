#include "runtime/data/InputSource.h"
#include "runtime/data/SampleOrder.h"
#include "test/runtime_train/TempFolder.h"

#include <algorithm>
#include <fstream>
#include <numeric>

using namespace zc;
using namespace zc::data;
using namespace zc::test;

TEST(SampleOrder, WrapsInOrder) {
  SampleOrder order(3, false, 0);
  std::vector<int64_t> seen;
  for (int64_t p = 0; p < 7; ++p)
    seen.push_back(order.at(p));
  EXPECT_EQ(seen, (std::vector<int64_t>{0, 1, 2, 0, 1, 2, 0}));
}

TEST(SampleOrder, ShufflesEachEpochDifferentlyAndCompletely) {
  for (int64_t n : {1, 2, 5, 64, 1000}) {
    SampleOrder order(n, true, 42), again(n, true, 42), other(n, true, 43);
    std::vector<std::vector<int64_t>> epochs;
    bool differs = false;
    for (int64_t epoch = 0; epoch < 2; ++epoch) {
      epochs.emplace_back();
      for (int64_t i = 0; i < n; ++i) {
        epochs.back().push_back(order.at(epoch * n + i));
        EXPECT_EQ(epochs.back().back(), again.at(epoch * n + i));
        differs |= epochs.back().back() != other.at(epoch * n + i);
      }
      std::vector<int64_t> sorted = epochs.back(), all(static_cast<size_t>(n));
      std::sort(sorted.begin(), sorted.end());
      std::iota(all.begin(), all.end(), 0);
      EXPECT_EQ(sorted, all) << n;
    }
    if (n >= 64) {
      EXPECT_NE(epochs[0], epochs[1]) << n;
      EXPECT_TRUE(differs) << n;
      EXPECT_FALSE(std::is_sorted(epochs[0].begin(), epochs[0].end()));
    }
  }
}

/// Two ranks, two micro-steps, two rows: a step takes eight samples.
static BatchSpec arrays() {
  BatchSpec batch;
  batch.dataDegree = 2;
  batch.accumulation = 2;
  batch.inputs = {{"x", {DType::f32, {2, 3}}}, {"labels", {DType::i64, {2}}}};
  return batch;
}

/// `samples` rows whose elements are 10 * sample + column, and labels equal to the sample.
static std::string arrayFile(const TempFolder &folder, int samples) {
  std::vector<float> x;
  std::vector<int64_t> labels;
  for (int s = 0; s < samples; ++s) {
    labels.push_back(s);
    for (int c = 0; c < 3; ++c)
      x.push_back(float(10 * s + c));
  }
  std::string n = std::to_string(samples), split = std::to_string(samples * 8), end = std::to_string(samples * 20);
  return folder.write("data.safetensors",
                      safetensors("{\"labels\":{\"dtype\":\"I64\",\"shape\":[" + n + "],\"data_offsets\":[0," + split +
                                      "]},\"x\":{\"dtype\":\"F32\",\"shape\":[" + n + ",3],\"data_offsets\":[" + split +
                                      "," + end + "]}}",
                                  rawBytes(labels) + rawBytes(x)));
}

TEST(ArraySource, FollowsTheContractsOrder) {
  TempFolder folder;
  DataOptions options;
  options.data = arrayFile(folder, 11);
  auto source = openSource(options, arrays());
  ASSERT_OK(source);
  EXPECT_EQ((*source)->samples(), 11);
  for (int64_t s = 0; s < 4; ++s)
    for (int64_t g = 0; g < 2; ++g)
      for (int64_t r = 0; r < 2; ++r) {
        float x[6];
        int64_t labels[2];
        ASSERT_OK((*source)->load(0, s, g, r, x));
        ASSERT_OK((*source)->load(1, s, g, r, labels));
        for (int64_t b = 0; b < 2; ++b) {
          int64_t sample = (((s * 2 + g) * 2 + r) * 2 + b) % 11;
          EXPECT_EQ(labels[b], sample);
          EXPECT_EQ(x[b * 3 + 2], float(10 * sample + 2));
        }
      }
}

TEST(ArraySource, FolderOfNpyGivesTheSame) {
  TempFolder folder;
  folder.write("x.npy",
               npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)}", rawBytes<float>({1, 2, 3, 4, 5, 6})));
  folder.write("labels.npy", npy("{'descr': '<i8', 'fortran_order': False, 'shape': (2,)}", rawBytes<int64_t>({8, 9})));
  DataOptions options;
  options.data = folder.path;
  auto source = openSource(options, arrays());
  ASSERT_OK(source);
  int64_t labels[2];
  ASSERT_OK((*source)->load(1, 0, 0, 1, labels));
  EXPECT_EQ(labels[0], 8);
  EXPECT_EQ(labels[1], 9);
}

TEST(ArraySource, ShuffledRowsStayTogether) {
  TempFolder folder;
  DataOptions options;
  options.data = arrayFile(folder, 100);
  options.shuffle = true;
  options.seed = 7;
  auto source = openSource(options, arrays());
  ASSERT_OK(source);
  float x[6];
  int64_t labels[2];
  ASSERT_OK((*source)->load(0, 3, 1, 0, x));
  ASSERT_OK((*source)->load(1, 3, 1, 0, labels));
  SampleOrder order(100, true, 7);
  EXPECT_EQ(labels[0], order.at(((3 * 2 + 1) * 2 + 0) * 2));
  EXPECT_EQ(x[3], float(10 * labels[1]));
}

/// `batches` of two samples and three edges, whose numbers are 100 * edge + column.
static std::string graphFolder(const TempFolder &folder, int batches, int edges) {
  std::vector<float> x;
  std::vector<int64_t> labels, ends;
  for (int s = 0; s < 2 * batches; ++s) {
    labels.push_back(s);
    for (int c = 0; c < 3; ++c)
      x.push_back(float(10 * s + c));
  }
  for (int e = 0; e < edges; ++e)
    ends.insert(ends.end(), {100 * e, 100 * e + 1});
  auto shape = [](int n, const char *rest) {
    return "{'descr': '" + std::string(*rest == '3' ? "<f4" : "<i8") + "', 'fortran_order': False, 'shape': (" +
           std::to_string(n) + ", " + rest + ")}";
  };
  folder.write("x.npy", npy(shape(2 * batches, "3"), rawBytes(x)));
  folder.write("labels.npy", npy(shape(2 * batches, ""), rawBytes(labels)));
  folder.write("edges.npy", npy(shape(edges, "2"), rawBytes(ends)));
  return folder.path;
}

static BatchSpec graphs() {
  BatchSpec batch = arrays();
  batch.inputs.push_back({"edges", {DType::i64, {3, 2}}});
  return batch;
}

TEST(ArraySource, InputsOfOtherRowsGoBatchByBatch) {
  for (bool shuffle : {false, true}) {
    TempFolder folder;
    DataOptions options;
    options.data = graphFolder(folder, 5, 15);
    options.shuffle = shuffle;
    auto source = openSource(options, graphs());
    ASSERT_OK(source);
    EXPECT_EQ((*source)->samples(), 10);
    const SampleOrder order(5, shuffle, options.seed);
    for (int64_t s = 0; s < 3; ++s)
      for (int64_t g = 0; g < 2; ++g)
        for (int64_t r = 0; r < 2; ++r) {
          int64_t labels[2], edges[6];
          ASSERT_OK((*source)->load(1, s, g, r, labels));
          ASSERT_OK((*source)->load(2, s, g, r, edges));
          const int64_t at = order.at((s * 2 + g) * 2 + r);
          EXPECT_EQ(labels[1], 2 * at + 1);
          EXPECT_EQ(edges[0], 300 * at);
          EXPECT_EQ(edges[5], 300 * at + 201);
        }
  }
}

TEST(ArraySource, BatchesAreWholeAndAsManyForEachInput) {
  TempFolder folder;
  DataOptions options;
  for (int edges : {14, 12, 18}) {
    options.data = graphFolder(folder, 5, edges);
    auto source = openSource(options, graphs());
    ASSERT_FALSE(source.ok());
    EXPECT_EQ(source.error().code, Code::mismatch);
    EXPECT_EQ(source.error().note,
              "a batch takes 3 rows of it, 2 of those before: that many batches each would do, too");
  }
}

TEST(ArraySource, NamesWhatDoesNotFit) {
  TempFolder folder;
  DataOptions options;
  options.data = arrayFile(folder, 4);
  BatchSpec batch = arrays();
  batch.inputs[0].type.dims = {2, 5};
  auto shape = openSource(options, batch);
  ASSERT_FALSE(shape.ok());
  EXPECT_EQ(shape.error().code, Code::mismatch);
  EXPECT_NE(shape.error().message.find("\"x\" is f32[4, 3] but the plan needs f32[samples, 5]"), std::string::npos)
      << shape.error().message;
  batch = arrays();
  batch.inputs[1].type.dtype = DType::f64;
  EXPECT_EQ(openSource(options, batch).error().code, Code::mismatch);
  batch = arrays();
  batch.inputs.push_back({"mask", {DType::i64, {2}}});
  auto missing = openSource(options, batch);
  EXPECT_EQ(missing.error().code, Code::badInput);
  EXPECT_NE(missing.error().note.find("\"labels\", \"x\""), std::string::npos) << missing.error().note;
  EXPECT_EQ(openSource(DataOptions(), arrays()).error().code, Code::usage);
}

TEST(ArraySource, IntegersOfAnyWidthFillIndices) {
  TempFolder folder;
  std::string x = npy("{'descr': '<f4', 'fortran_order': False, 'shape': (4, 3)}", rawBytes(std::vector<float>(12)));
  folder.write("x.npy", x);
  folder.write("labels.npy",
               npy("{'descr': '<i4', 'fortran_order': False, 'shape': (4,)}", rawBytes<int32_t>({3, -100, 2, 7})));
  DataOptions options;
  options.data = folder.path;
  auto source = openSource(options, arrays());
  ASSERT_OK(source);
  int64_t wide[2];
  ASSERT_OK((*source)->load(1, 0, 0, 1, wide));
  EXPECT_EQ(wide[0], 2);
  EXPECT_EQ(wide[1], 7);
  folder.write("labels.npy", npy("{'descr': '<i8', 'fortran_order': False, 'shape': (4,)}",
                                 rawBytes<int64_t>({3, -100, 2, 1ll << 40})));
  BatchSpec narrow = arrays();
  narrow.inputs[1].type.dtype = DType::i32;
  source = openSource(options, narrow);
  ASSERT_OK(source);
  int32_t labels[2];
  ASSERT_OK((*source)->load(1, 0, 0, 0, labels));
  EXPECT_EQ(labels[1], -100);
  Status refused = (*source)->load(1, 0, 0, 1, labels);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(
      refused.error().message.find("1099511627776 of sample 3, position 0, of \"labels\" does not fit the plan's i32"),
      std::string::npos)
      << refused.error().message;
  narrow.inputs[1].type.dtype = DType::u64;
  source = openSource(options, narrow);
  ASSERT_OK(source);
  uint64_t counts[2];
  ASSERT_OK((*source)->load(1, 0, 0, 1, counts));
  EXPECT_EQ(counts[1], uint64_t(1) << 40);
  refused = (*source)->load(1, 0, 0, 0, counts);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("-100 of sample 1, position 0, of \"labels\" does not fit the plan's u64"),
            std::string::npos)
      << refused.error().message;
  folder.write("labels.npy",
               npy("{'descr': '<i4', 'fortran_order': False, 'shape': (4,)}", rawBytes<int32_t>({3, 100, 2, 7})));
  source = openSource(options, narrow);
  ASSERT_OK(source);
  ASSERT_OK((*source)->load(1, 0, 0, 0, counts));
  EXPECT_EQ(counts[1], 100u);
}

TEST(ArraySource, LabelOutOfRangeNamesItsSample) {
  TempFolder folder;
  DataOptions options;
  options.data = arrayFile(folder, 11); // labels 0 to 10
  BatchSpec batch = arrays();
  batch.inputs[1].range = {0, 10, -100, true};
  auto source = openSource(options, batch);
  ASSERT_OK(source);
  auto checked = (*source)->check({});
  ASSERT_FALSE(checked.ok());
  EXPECT_EQ(checked.error().code, Code::badInput);
  EXPECT_EQ(checked.error().message,
            "label 10 of sample 10, position 0, of \"labels\" is not below the number of classes, 10");
  batch.inputs[1].range = {0, 11, -100, true};
  checked = (*openSource(options, batch))->check({});
  ASSERT_OK(checked);
  EXPECT_TRUE(*checked);
}

//===- Tokens ----------------------------------------------------------------------===//

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
