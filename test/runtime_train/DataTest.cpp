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
  // A link, as tools that keep data elsewhere leave them.
  folder.write("elsewhere", npy("{'descr': '<i8', 'fortran_order': False, 'shape': (2,)}", rawBytes<int64_t>({8, 9})));
  std::filesystem::create_symlink("elsewhere", folder.path + "/labels.npy");
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
