// Convolutions, pools, batch and group norm of shapes that nobody chose: windows wider than the input and further apart
// than they are wide, paddings that are not alike, planes of one element, groups and channels that are no whole
// vectors, both layouts. Each fast kernel against its plain one, on one thread and on three. ZC_VISION_CASES: how many,
// and ZC_VISION_SEED: which ones.
#include "test/kernels/FastTest.h"

namespace zc::test {
namespace {

int64_t fromEnvironment(const char *name, int64_t otherwise) {
  const char *text = std::getenv(name);
  return text ? std::atoll(text) : otherwise;
}

class Draw {
public:
  explicit Draw(uint64_t seed) : engine(seed) {}
  /// In [low, high].
  int64_t of(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(engine() % static_cast<uint64_t>(high - low + 1));
  }
  bool oneIn(int64_t n) { return of(1, n) == 1; }

private:
  std::mt19937_64 engine;
};

/// Dimensions of windows, such that one fits.
struct Spatial {
  Ints in, out, kernel, strides, dilations, low, high;
};

Spatial drawSpatial(Draw &draw, size_t rank, bool mayCrop) {
  Spatial s;
  while (s.in.size() < rank) {
    const int64_t in = draw.oneIn(5) ? 1 : draw.of(1, rank == 3 ? 7 : 13), kernel = draw.oneIn(3) ? 1 : draw.of(1, 5);
    const int64_t stride = draw.of(1, 4), dilation = draw.oneIn(3) ? draw.of(1, 3) : 1;
    const int64_t least = mayCrop && draw.oneIn(8) ? -1 : 0, low = draw.of(least, 3), high = draw.of(least, 3);
    const int64_t room = low + in + high - dilation * (kernel - 1) - 1;
    if (room < 0)
      continue;
    s.in.push_back(in);
    s.out.push_back(room / stride + 1);
    s.kernel.push_back(kernel);
    s.strides.push_back(stride);
    s.dilations.push_back(dilation);
    s.low.push_back(low);
    s.high.push_back(high);
  }
  return s;
}

/// Amounts of a crafted plan: paddings, steps and distances of up to 2^31, of windows that a few elements have.
Spatial drawHuge(Draw &draw, size_t rank) {
  Spatial s;
  auto amount = [&](int64_t least) { return least + (int64_t(1) << draw.of(0, 31)) - draw.of(1, 2); };
  while (s.in.size() < rank) {
    const int64_t in = draw.of(1, 4), kernel = draw.of(1, 3),
                  dilation = draw.oneIn(2) ? 1 : std::max<int64_t>(1, amount(0));
    const int64_t low = draw.oneIn(2) ? 0 : std::max<int64_t>(0, amount(0)),
                  high = draw.oneIn(2) ? 0 : std::max<int64_t>(0, amount(0));
    const int64_t room = low + in + high - dilation * (kernel - 1) - 1, stride = std::max<int64_t>(1, amount(0));
    if (room < 0 || room / stride > 3)
      continue;
    s.in.push_back(in);
    s.out.push_back(room / stride + 1);
    s.kernel.push_back(kernel);
    s.strides.push_back(stride);
    s.dilations.push_back(dilation);
    s.low.push_back(low);
    s.high.push_back(high);
  }
  return s;
}

Ints activation(int64_t n, int64_t channels, const Ints &plane, bool last) {
  Ints dims{n};
  if (!last)
    dims.push_back(channels);
  dims.insert(dims.end(), plane.begin(), plane.end());
  if (last)
    dims.push_back(channels);
  return dims;
}

void expectPlainsNumbers(Call call, double tolerance) {
  const std::vector<Value> expected = must(run(call, true));
  for (int threads : {1, 3}) {
    call.threads = threads;
    const std::vector<Value> got = must(run(call, false)), again = must(run(atOffset(call, 1), false));
    for (size_t i = 0; i < got.size(); ++i) {
      SCOPED_TRACE("output " + std::to_string(i) + " on " + std::to_string(threads) + " threads");
      expectNear(got[i], elements(expected[i]), tolerance + roundingOf(got[i].type.dtype));
      EXPECT_TRUE(again[i] == got[i]);
    }
  }
}

DType drawType(Draw &draw) {
  return std::array{DType::f32, DType::bf16, DType::f16}[static_cast<size_t>(draw.of(0, 2))];
}

std::string text(const Ints &list) {
  std::string result = "[";
  for (int64_t entry : list)
    result += std::to_string(entry) + " ";
  return result + "]";
}
std::string text(const Spatial &s) {
  return " in " + text(s.in) + " kernel " + text(s.kernel) + " strides " + text(s.strides) + " dilations " +
         text(s.dilations) + " low " + text(s.low) + " high " + text(s.high);
}

void convolution(Draw &draw, bool isHuge = false) {
  const bool last = draw.oneIn(2);
  const auto rank = static_cast<size_t>(draw.of(1, 3));
  const Spatial s = isHuge ? drawHuge(draw, rank) : drawSpatial(draw, rank, true);
  const int64_t n = draw.oneIn(3) ? 1 : draw.of(1, 3);
  int64_t groups = draw.oneIn(2) ? 1 : draw.of(2, 9), inEach = draw.of(1, 20), outEach = draw.of(1, 20);
  if (draw.oneIn(4)) { // depthwise
    groups = draw.of(1, 40);
    inEach = 1;
    outEach = draw.oneIn(4) ? 2 : 1;
  }
  const DType type = drawType(draw);
  const Ints input = activation(n, groups * inEach, s.in, last), output = activation(n, groups * outEach, s.out, last);
  Ints weight{groups * outEach, inEach};
  weight.insert(weight.end(), s.kernel.begin(), s.kernel.end());
  Attributes attributes{
      {"strides", s.strides}, {"dilations", s.dilations}, {"low", s.low}, {"high", s.high}, {"groups", groups}};
  if (last)
    attributes["channels_last"] = kOne;
  SCOPED_TRACE("conv " + std::string(nameOf(type)) + (last ? " last" : "") + " n " + std::to_string(n) + " groups " +
               std::to_string(groups) + " of " + std::to_string(inEach) + " to " + std::to_string(outEach) + text(s));
  const Value x = random(type, input, 1), w = random(type, weight, 2), g = random(type, output, 3);
  Call forward{"conv", {x, w}, {Value({type, output})}, attributes};
  Call back{"conv_transpose", {g, w}, {Value({type, input})}, attributes};
  back.attributes["sizes"] = s.in;
  Call weightGrad{"conv_weight_grad", {x, g}, {Value({type, weight})}, attributes};
  weightGrad.attributes["kernel"] = s.kernel;
  if (draw.oneIn(2)) {
    forward.inputs.push_back(random(type, {groups * outEach}, 4));
    back.inputs.push_back(random(type, {groups * inEach}, 5));
  }
  expectPlainsNumbers(forward, 1e-5);
  expectPlainsNumbers(back, 1e-5 + roundingOf(type)); // of what is rounded before the bias
  expectPlainsNumbers(weightGrad, 2e-5);
}

void pool(Draw &draw, bool isHuge = false) {
  const bool last = draw.oneIn(2);
  const auto rank = static_cast<size_t>(draw.of(1, 3));
  Spatial s = isHuge ? drawHuge(draw, rank) : drawSpatial(draw, rank, true);
  if (draw.oneIn(4)) // ceil_mode: the last window ends behind the padding, or begins there
    ++s.out[static_cast<size_t>(draw.of(0, static_cast<int64_t>(s.out.size()) - 1))];
  const int64_t n = draw.of(1, 3), channels = draw.of(1, 70);
  const DType type = drawType(draw);
  const Ints input = activation(n, channels, s.in, last), output = activation(n, channels, s.out, last);
  Attributes attributes{{"strides", s.strides}, {"dilations", s.dilations}, {"low", s.low}, {"kernel", s.kernel}};
  if (last)
    attributes["channels_last"] = kOne;
  SCOPED_TRACE("pool " + std::string(nameOf(type)) + (last ? " last" : "") + text(input) + text(s));
  Value x = random(type, input, 1, -3, 3);
  for (size_t i = 0; i < x.size(); ++i) // ties, and numbers that are none
    x.set(i, draw.oneIn(40) ? (draw.oneIn(2) ? kNan : -kInfinity) : std::trunc(x.get(i)));
  const Value g = random(type, output, 2), finite = random(type, input, 3);
  Call max{"max_pool", {x}, {Value({type, output}), Value({DType::i32, output})}, attributes};
  expectPlainsNumbers(max, 0);
  Call maxGrad{"max_pool_grad", {g, must(run(max, true))[1]}, {Value({type, input})}};
  if (last)
    maxGrad.attributes["channels_last"] = kOne;
  expectPlainsNumbers(maxGrad, 1e-5);
  expectPlainsNumbers({"sum_pool", {finite}, {Value({type, output})}, attributes}, 1e-5);
  expectPlainsNumbers({"sum_pool_grad", {g}, {Value({type, input})}, attributes}, 1e-5);
}

void batchNorm(Draw &draw) {
  const bool last = draw.oneIn(2);
  Ints plane(static_cast<size_t>(draw.of(last ? 1 : 0, 3)), 0);
  for (int64_t &size : plane)
    size = draw.of(1, plane.size() == 1 ? 90 : 9);
  const int64_t n = draw.of(1, 5), channels = draw.of(1, 70);
  const DType type = drawType(draw);
  const Ints dims = activation(n, channels, plane, last);
  const Value x = random(type, dims, 1), g = random(type, dims, 2), scale = random(type, {channels}, 3),
              bias = random(type, {channels}, 4), of(TensorType{DType::f32, {channels}}),
              variance = random(type, {channels}, 5, 0.5, 2);
  Attributes attributes{{"epsilon", 1e-2}}; // a channel of two elements that are alike has no better gradient
  if (last)
    attributes["channels_last"] = kOne;
  SCOPED_TRACE("batch norm " + std::string(nameOf(type)) + (last ? " last" : "") + text(dims));
  Call norm{"batch_norm", {x, scale, bias}, {x, of, of}, attributes};
  expectPlainsNumbers(norm, 1e-5);
  const std::vector<Value> y = must(run(norm, true));
  expectPlainsNumbers({"batch_norm_grad", {g, x, scale, y[1], y[2]}, {x, scale, scale}, attributes}, 1e-4);
  expectPlainsNumbers({"batch_norm_apply", {x, scale, bias, bias, variance}, {x}, attributes}, 1e-5);
}

void groupNorm(Draw &draw) {
  const bool last = draw.oneIn(2);
  Ints plane(static_cast<size_t>(draw.of(last ? 1 : 0, 3)), 0);
  for (int64_t &size : plane)
    size = draw.of(1, plane.size() == 1 ? 90 : 9);
  const int64_t n = draw.of(1, 40), groups = draw.of(1, 12), channels = groups * draw.of(1, 9);
  const DType type = drawType(draw);
  const Ints dims = activation(n, channels, plane, last);
  const Value x = random(type, dims, 1), g = random(type, dims, 2), scale = random(type, {channels}, 3),
              bias = random(type, {channels}, 4), of(TensorType{DType::f32, {n, groups}});
  Attributes attributes{{"epsilon", 1e-2}, {"groups", groups}};
  if (last)
    attributes["channels_last"] = kOne;
  SCOPED_TRACE("group norm " + std::string(nameOf(type)) + (last ? " last" : "") + text(dims));
  Call norm{"group_norm", {x, scale, bias}, {x, of, of}, attributes};
  expectPlainsNumbers(norm, 1e-5);
  const std::vector<Value> y = must(run(norm, true));
  expectPlainsNumbers({"group_norm_grad", {g, x, scale, y[1], y[2]}, {x, scale, scale}, attributes}, 1e-4);
}

template <typename Fn> void forSeeds(Fn fn) {
  const int64_t cases = fromEnvironment("ZC_VISION_CASES", 40), first = fromEnvironment("ZC_VISION_SEED", 1);
  for (int64_t seed = first; seed < first + cases && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("ZC_VISION_CASES=1 ZC_VISION_SEED=" + std::to_string(seed));
    Draw draw(static_cast<uint64_t>(seed));
    fn(draw);
  }
}

TEST(Fast, visionOfRandomShapes) {
  forSeeds([](Draw &draw) {
    convolution(draw);
    pool(draw);
    batchNorm(draw);
    groupNorm(draw);
  });
}

TEST(Fast, visionOfHugeAmounts) {
  auto check = [](Draw &draw) {
    convolution(draw, /*isHuge=*/true);
    pool(draw, /*isHuge=*/true);
  };
  forSeeds(check);
  for (uint64_t seed : {1100, 1159, 1207, 1257, 1379}) { // oneDNN counts these in 32 bits
    Draw draw(seed);
    check(draw);
  }
}

} // namespace
} // namespace zc::test
