//===- KernelTest.h - tensors and kernel calls for tests ----------------------===//
#pragma once

#include "kernels/Kernel.h"
#include "kernels/Workspace.h"
#include "kernels/cuda/Kernels.h"
#include "test/kernels/OnGpu.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <random>
#include <set>
#include <stdexcept>

namespace zc::test {

using Ints = std::vector<int64_t>;

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
inline const double kNan = std::nan("");

/// A tensor whose elements start `offset` elements past a 64-byte boundary.
struct Value {
  TensorType type;
  size_t offset = 0;
  std::vector<char> bytes;

  explicit Value(TensorType type, size_t offset = 0)
      : type(std::move(type)), offset(offset),
        bytes(static_cast<size_t>(this->type.numBytes()) + 64 + offset * static_cast<size_t>(sizeOf(this->type.dtype)),
              '\x5a') {}

  /// A copy lies elsewhere, so its first element is at another place in `bytes`.
  Value(const Value &other) : Value(other.type, other.offset) { take(other); }
  Value &operator=(const Value &other) {
    *this = Value(other);
    return *this;
  }
  Value(Value &&) = default;
  Value &operator=(Value &&) = default;

  void *data() {
    auto address = reinterpret_cast<uintptr_t>(bytes.data());
    return bytes.data() + ((address + 63) / 64 * 64 - address) + offset * static_cast<size_t>(sizeOf(type.dtype));
  }
  const void *data() const { return const_cast<Value *>(this)->data(); }
  size_t size() const { return static_cast<size_t>(type.numElements()); }

  double get(size_t i) const {
    const void *p = data();
    switch (type.dtype) {
    case DType::f32:
      return static_cast<const float *>(p)[i];
    case DType::f64:
      return static_cast<const double *>(p)[i];
    case DType::bf16:
      return fromBf16(static_cast<const uint16_t *>(p)[i]);
    case DType::f16:
      return fromF16(static_cast<const uint16_t *>(p)[i]);
    case DType::i64:
      return static_cast<double>(static_cast<const int64_t *>(p)[i]);
    case DType::i32:
      return static_cast<const int32_t *>(p)[i];
    case DType::i8:
      return static_cast<const int8_t *>(p)[i];
    default:
      return static_cast<const uint8_t *>(p)[i];
    }
  }
  void set(size_t i, double x) {
    void *p = data();
    switch (type.dtype) {
    case DType::f32:
      static_cast<float *>(p)[i] = static_cast<float>(x);
      break;
    case DType::f64:
      static_cast<double *>(p)[i] = x;
      break;
    case DType::bf16:
      static_cast<uint16_t *>(p)[i] = toBf16(static_cast<float>(x));
      break;
    case DType::f16:
      static_cast<uint16_t *>(p)[i] = toF16(static_cast<float>(x));
      break;
    case DType::i64:
      static_cast<int64_t *>(p)[i] = static_cast<int64_t>(x);
      break;
    case DType::i32:
      static_cast<int32_t *>(p)[i] = static_cast<int32_t>(x);
      break;
    case DType::i8:
      static_cast<int8_t *>(p)[i] = static_cast<int8_t>(x);
      break;
    default:
      static_cast<uint8_t *>(p)[i] = static_cast<uint8_t>(static_cast<int64_t>(x));
    }
  }
  /// The same elements at another alignment.
  Value at(size_t newOffset) const {
    Value copy(type, newOffset);
    copy.take(*this);
    return copy;
  }
  void take(const Value &other) {
    if (size())
      std::memcpy(data(), other.data(), static_cast<size_t>(type.numBytes()));
  }
  bool operator==(const Value &other) const {
    return type == other.type &&
           (size() == 0 || std::memcmp(data(), other.data(), static_cast<size_t>(type.numBytes())) == 0);
  }
};

/// The same bits, but that a NaN is as good as another: a GPU makes none with a payload. Quantized bytes are floats too
/// where their blocks' scales lie, so they are looked at in words.
inline bool sameButForNans(const Value &a, const Value &b) {
  if (a == b || !(a.type == b.type))
    return a == b;
  const DType type = a.type.dtype == DType::u8 && a.type.numBytes() % 4 == 0 ? DType::f32 : a.type.dtype;
  const TensorType view{type, {a.type.numBytes() / sizeOf(type)}};
  Value left(view), right(view);
  left.take(a);
  right.take(b);
  const auto size = static_cast<size_t>(sizeOf(type));
  for (size_t i = 0; i < left.size(); ++i) {
    const auto *x = static_cast<const char *>(left.data()) + i * size;
    const auto *y = static_cast<const char *>(right.data()) + i * size;
    if (std::memcmp(x, y, size) != 0 && !(std::isnan(left.get(i)) && std::isnan(right.get(i))))
      return false;
  }
  return true;
}

inline Value make(DType dtype, std::vector<int64_t> dims, const std::vector<double> &elements) {
  Value value({dtype, std::move(dims)});
  EXPECT_EQ(value.size(), elements.size());
  for (size_t i = 0; i < elements.size(); ++i)
    value.set(i, elements[i]);
  return value;
}
inline Value f32(std::vector<int64_t> dims, const std::vector<double> &elements) {
  return make(DType::f32, std::move(dims), elements);
}
inline Value f64(std::vector<int64_t> dims, const std::vector<double> &elements) {
  return make(DType::f64, std::move(dims), elements);
}
inline Value i64(std::vector<int64_t> dims, const std::vector<double> &elements) {
  return make(DType::i64, std::move(dims), elements);
}
inline Value boolean(std::vector<int64_t> dims, const std::vector<double> &elements) {
  return make(DType::boolean, std::move(dims), elements);
}

/// Uniform in [low, high); integers truncate.
inline Value uniform(TensorType type, unsigned seed, double low, double high) {
  Value value(std::move(type));
  std::mt19937_64 engine(seed);
  for (size_t i = 0; i < value.size(); ++i)
    value.set(i, low + (high - low) * static_cast<double>(engine() >> 11) * 0x1p-53);
  return value;
}

inline std::vector<double> elements(const Value &value) {
  std::vector<double> result;
  for (size_t i = 0; i < value.size(); ++i)
    result.push_back(value.get(i));
  return result;
}

using Attributes = std::map<std::string, Attribute>;

inline const KernelRegistry &registry(bool referenceOnly) {
  static const auto build = [](bool plain) {
    KernelRegistry filled;
    registerCpuKernels(filled, plain);
    return filled;
  };
  static const KernelRegistry plain = build(true), fast = build(false);
  return referenceOnly ? plain : fast;
}

inline bool isOnGpu() {
  const char *device = std::getenv("ZC_TEST_DEVICE");
  return device && std::string(device) == "cuda";
}

/// The GPU's kernels on a host's blocks (kernels/cuda); on a GPU where ZC_TEST_DEVICE=cuda says so, products too.
inline const KernelRegistry &blockRegistry() {
  static const KernelRegistry blocks = [] {
    KernelRegistry filled(Target::cuda);
    cuda::registerHostBlockKernels(filled);
    if (!isOnGpu())
      return filled;
    std::vector<std::string> names = filled.names();
    names.insert(names.end(), {"matmul", "matmul_part", "fused"});
    return onGpu(names);
  }();
  return blocks;
}

/// A kernel call. Outputs start as `outputs` says (types, or values where the kernel reads them too).
struct Call {
  std::string name;
  std::vector<Value> inputs, outputs;
  Attributes attributes = {};
  int threads = 1;
  StepContext context = {};
  uint64_t seed = 0;
  int rank = 0, modelRank = 0;
  const ProductTable *products = nullptr;
  bool tf32 = false;

  KernelSpec spec(Target target = Target::cpu) const {
    KernelSpec result;
    result.name = name;
    for (const Value &value : inputs)
      result.operands.push_back(value.type);
    for (const Value &value : outputs)
      result.operands.push_back(value.type);
    result.numInputs = inputs.size();
    result.attributes = attributes;
    result.threads = threads;
    result.products = products;
    result.seed = seed;
    result.rank = rank;
    result.modelRank = modelRank;
    result.tf32 = tf32;
    result.workspace = workspaceBytes(result, target);
    return result;
  }
};

/// What a plan would give a kernel to work in: full of NaN, between bytes that nobody may touch.
class WorkspaceOf {
public:
  explicit WorkspaceOf(const KernelSpec &spec) : bytes(static_cast<size_t>(spec.workspace)) {
    memory.reset(static_cast<unsigned char *>(std::aligned_alloc(64, (bytes + 2 * kMargin + 63) / 64 * 64)));
    std::memset(memory.get(), kUntouched, kMargin);
    std::memset(memory.get() + kMargin, 0xff, bytes);
    std::memset(memory.get() + kMargin + bytes, kUntouched, kMargin);
  }
  void *data() const { return memory.get() + kMargin; }
  bool isIntactAround() const {
    auto isUntouched = [](unsigned char byte) { return byte == kUntouched; };
    const unsigned char *end = memory.get() + kMargin + bytes;
    return std::all_of(memory.get(), memory.get() + kMargin, isUntouched) &&
           std::all_of(end, end + kMargin, isUntouched);
  }

private:
  static constexpr size_t kMargin = 4096;
  static constexpr unsigned char kUntouched = 0x5a;
  struct Free {
    void operator()(unsigned char *p) const { std::free(p); }
  };
  size_t bytes;
  std::unique_ptr<unsigned char, Free> memory;
};

/// Runs a copy of the call; its outputs, or the error. A kernel that has a workspace must refuse a smaller one.
inline Result<std::vector<Value>> runOn(const KernelRegistry &kernels, Call call) {
  KernelSpec spec = call.spec(kernels.target());
  Result<std::unique_ptr<Kernel>> kernel = kernels.prepare(spec);
  if (!kernel.ok())
    return kernel.error();
  WorkspaceOf workspace(spec);
  if (--spec.workspace >= 0) {
    auto refused = kernels.prepare(spec);
    EXPECT_FALSE(refused.ok()) << call.name << " takes " << spec.workspace << " bytes";
    EXPECT_TRUE(refused.ok() || refused.error().number == 706);
  }
  std::vector<void *> operands;
  for (Value &value : call.inputs)
    operands.push_back(value.data());
  for (Value &value : call.outputs)
    operands.push_back(value.data());
  operands.push_back(workspace.data());
  ZC_RETURN_IF_ERROR((*kernel)->run(operands.data(), call.context));
  EXPECT_TRUE(workspace.isIntactAround()) << call.name << " wrote beside its workspace";
  return call.outputs;
}

/// What must not be refused; where it was, the test ends with what was said.
template <typename T> T must(Result<T> result) {
  if (result.ok())
    return std::move(*result);
  ADD_FAILURE() << render(result.error()); // within the traces, which what is thrown leaves
  throw std::runtime_error(result.error().message);
}

/// As runOn, with outputs over inputs: pairs of an input and an output.
inline Result<std::vector<Value>> runInPlace(const KernelRegistry &kernels, Call call,
                                             const std::vector<std::pair<size_t, size_t>> &over) {
  KernelSpec spec = call.spec(kernels.target());
  for (auto [input, output] : over)
    spec.inPlace.emplace_back(input, spec.numInputs + output);
  Result<std::unique_ptr<Kernel>> kernel = kernels.prepare(spec);
  if (!kernel.ok())
    return kernel.error();
  std::vector<void *> operands;
  for (Value &value : call.inputs)
    operands.push_back(value.data());
  for (Value &value : call.outputs)
    operands.push_back(value.data());
  for (auto [input, output] : over)
    operands[spec.numInputs + output] = operands[input];
  WorkspaceOf workspace(spec);
  operands.push_back(workspace.data());
  ZC_RETURN_IF_ERROR((*kernel)->run(operands.data(), call.context));
  for (auto [input, output] : over)
    call.outputs[output] = call.inputs[input];
  return call.outputs;
}
/// With the first output over an input.
inline Result<std::vector<Value>> runInPlace(const KernelRegistry &kernels, Call call, size_t input) {
  return runInPlace(kernels, std::move(call), {{input, 0}});
}

/// Over each input that may be overwritten: the same bits as `outputs`, which are the kernel's beside its inputs.
inline void expectInPlaceAgrees(const KernelRegistry &kernels, const Call &call, const std::vector<Value> &outputs) {
  for (size_t input = 0; input < call.inputs.size(); ++input) {
    if (!traitsOf(call.name).mayOverwrite(call.spec(kernels.target()), input, call.inputs.size()))
      continue;
    Result<std::vector<Value>> again = runInPlace(kernels, call, input);
    ASSERT_TRUE(again.ok()) << again.error().message;
    for (size_t i = 0; i < outputs.size(); ++i)
      EXPECT_TRUE((*again)[i] == outputs[i]) << call.name << ": output " << i << " over input " << input;
  }
}

inline void expectNear(const Value &actual, const std::vector<double> &expected, double tolerance) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    double x = actual.get(i), y = expected[i];
    if (std::isnan(y) || std::isinf(y))
      ASSERT_TRUE(std::isnan(y) ? std::isnan(x) : x == y) << "element " << i << " is " << x << ", expected " << y;
    else
      ASSERT_NEAR(x, y, tolerance * (1 + std::fabs(y))) << "element " << i;
  }
}

/// Rounding of one of the 16-bit types; none of others.
inline double roundingOf(DType type) { return type == DType::bf16 ? 0x1p-7 : type == DType::f16 ? 0x1p-10 : 0; }

/// May the host do what the device does? Then both have the same bits.
inline bool isShared(const std::string &name) {
  static const std::set<std::string> names = {"adamw",
                                              "adam",
                                              "sgd",
                                              "momentum",
                                              "accumulate_gradient",
                                              "accumulate_loss",
                                              "norm_partial",
                                              "norm_finish",
                                              "cast",
                                              "quantize",
                                              "dequantize",
                                              "dequantize_sum_quantize",
                                              "copy",
                                              "fill_gaps",
                                              "own_part",
                                              "transpose",
                                              "constant",
                                              "dequantize_sum",
                                              "select",
                                              "dropout",
                                              "dropout_mask",
                                              "dropout_grad",
                                              "gather",
                                              "slice",
                                              "concat"};
  return names.count(name) != 0;
}

/// What a kernel loses besides where it rounds results: a head's logits and their gradients have its operands' type,
/// with the plain one they are nowhere; elements of a batch norm, or a group norm, are computed in fp32; a GPU's
/// products are sums of terms in fp32, each of which rounds.
inline double roundingWithin(const Call &call) {
  if (call.name == "matmul" || call.name == "matmul_part") {
    auto count = [](const Value &value) { return static_cast<double>(value.type.numElements()); };
    const double terms =
        std::sqrt(count(call.inputs[0]) * count(call.inputs[1]) / std::max(1.0, count(call.outputs[0])));
    const double rounded = call.tf32 && call.inputs[0].type.dtype == DType::f32 ? 0x1p-11 * std::sqrt(terms) : 0;
    return call.inputs[0].type.dtype == DType::f64 ? 0 : 1e-8 * terms + rounded;
  }
  const bool isOfChannels = call.name.rfind("batch_norm", 0) == 0 || call.name.rfind("group_norm", 0) == 0;
  if (isOfChannels && call.inputs[0].type.dtype != DType::f64)
    return 1e-4;
  const bool isHead = call.name.rfind("linear_cross_entropy", 0) == 0 || call.name.rfind("linear_log_softmax", 0) == 0;
  return isHead ? 4 * roundingOf(call.inputs.back().type.dtype) : 0;
}

/// The GPU's kernel of `call`, on a host's blocks, gives what the plain one gave: so every test of a plain kernel is
/// one of both.
inline void expectBlocksAgree(const Call &call, const Result<std::vector<Value>> &plain) {
  if (!blockRegistry().contains(call.name) || (isOnGpu() && !isSampled(call.spec(Target::cuda))))
    return;
  SCOPED_TRACE(call.name + " over blocks");
  auto blocks = runOn(blockRegistry(), call);
  ASSERT_EQ(blocks.ok(), plain.ok()) << (blocks.ok() ? plain : blocks).error().message;
  for (size_t i = 0; plain.ok() && i < plain->size(); ++i) {
    const Value &actual = (*blocks)[i], &expected = (*plain)[i];
    double tolerance = actual.type.dtype == DType::f64 ? 1e-12 : 1e-5 + roundingOf(actual.type.dtype);
    tolerance += roundingWithin(call);
    if (isShared(call.name))
      EXPECT_TRUE(isOnGpu() ? sameButForNans(actual, expected) : actual == expected) << "output " << i;
    else
      expectNear(actual, elements(expected), tolerance);
  }
  if (plain.ok())
    expectInPlaceAgrees(blockRegistry(), call, *blocks);
}

inline Result<std::vector<Value>> run(const Call &call, bool referenceOnly = true) {
  Result<std::vector<Value>> result = runOn(registry(referenceOnly), call);
  if (result.ok())
    expectInPlaceAgrees(registry(referenceOnly), call, *result);
  if (referenceOnly)
    expectBlocksAgree(call, result);
  return result;
}

/// Every output of `call` on the plain kernels.
inline void expectOutputs(const Call &call, const std::vector<std::vector<double>> &expected, double tolerance = 1e-6) {
  SCOPED_TRACE(call.name);
  Result<std::vector<Value>> outputs = run(call);
  ASSERT_TRUE(outputs.ok()) << outputs.error().message;
  ASSERT_EQ(outputs->size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i)
    expectNear((*outputs)[i], expected[i], tolerance);
}

} // namespace zc::test
