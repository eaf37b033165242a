#include "runtime/data/InputSource.h"
#include "runtime/data/SampleOrder.h"
#include "test/runtime_train/TempFolder.h"

#include <algorithm>
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
  batch.inputs[1].type.dtype = DType::i32;
  EXPECT_EQ(openSource(options, batch).error().code, Code::mismatch);
  batch = arrays();
  batch.inputs.push_back({"mask", {DType::i64, {2}}});
  auto missing = openSource(options, batch);
  EXPECT_EQ(missing.error().code, Code::badInput);
  EXPECT_NE(missing.error().note.find("\"labels\", \"x\""), std::string::npos) << missing.error().note;
  EXPECT_EQ(openSource(DataOptions(), arrays()).error().code, Code::usage);
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
  std::string square = "{'descr': '<u2', 'fortran_order': False, 'shape': (2, 2)}";
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
      {"two dimensions", "a.npy", npy(square, u16), "one dimension"},
      {"floats", "a.npy", npy(floats, u16), "one dimension of integers"},
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

TEST(TokenSource, TokenOutsideTheVocabularyNamesItsPlace) {
  TempFolder folder;
  DataOptions options;
  options.tokens = {folder.write("t.bin", llmc(20240520, 1, 4, rawBytes<uint16_t>({1, 2, 300, 4})))};
  BatchSpec batch = language(1, 4);
  batch.vocabulary = 256;
  auto source = openSource(options, batch);
  ASSERT_OK(source);
  int64_t row[4];
  Status status = (*source)->load(0, 0, 0, 0, row);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, Code::badInput);
  EXPECT_NE(status.error().message.find("token 300 at byte 1028"), std::string::npos) << status.error().message;
  options.tokens = {folder.write(
      "n.npy", npy("{'descr': '<i4', 'fortran_order': False, 'shape': (4,)}", rawBytes<int32_t>({1, 2, -3, 4})))};
  auto negative = openSource(options, batch);
  ASSERT_OK(negative);
  status = (*negative)->load(0, 0, 0, 0, row);
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().message.find("token -3 at byte"), std::string::npos) << status.error().message;
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
