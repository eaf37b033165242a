//===- ChannelsLast.h - kernels on activations in either order ----------------===//
#pragma once

#include "test/kernels/FastTest.h"

#include <algorithm>
#include <cstring>

namespace zc::test {

/// [N, C, d...] as [N, d..., C], types and elements.
inline Value channelsLast(const Value &value) {
  Ints dims = value.type.dims;
  std::rotate(dims.begin() + 1, dims.begin() + 2, dims.end());
  Value last({value.type.dtype, dims});
  auto channels = value.type.dims[1],
       plane = value.type.numElements() / std::max<int64_t>(1, value.type.dims[0] * channels);
  auto size = static_cast<size_t>(sizeOf(value.type.dtype));
  for (int64_t i = 0; i < value.type.numElements(); ++i) {
    int64_t n = i / (channels * plane), c = i / plane % channels, at = i % plane;
    std::memcpy(static_cast<char *>(last.data()) + static_cast<size_t>((n * plane + at) * channels + c) * size,
                static_cast<const char *>(value.data()) + static_cast<size_t>(i) * size, size);
  }
  return last;
}

/// The call with these activations (operands, then results) channels last. Plain: the same bits in the other order;
/// fast: as plain, the same from run to run and on any number of threads that the shape does not say; `isExact`: those
/// of the plain kernel.
inline void expectSameChannelsLast(Call call, const std::vector<size_t> &activations, double tolerance,
                                   bool isExact = false) {
  Result<std::vector<Value>> expected = run(call, true);
  ASSERT_TRUE(expected.ok()) << expected.error().message;
  call.attributes["channels_last"] = int64_t{1};
  for (size_t i : activations) {
    if (i < call.inputs.size()) {
      call.inputs[i] = channelsLast(call.inputs[i]);
    } else {
      Value &result = call.outputs[i - call.inputs.size()];
      result = channelsLast(result);
      (*expected)[i - call.inputs.size()] = channelsLast((*expected)[i - call.inputs.size()]);
    }
  }
  SCOPED_TRACE(call.name + " channels last");
  Result<std::vector<Value>> plain = run(call, true);
  ASSERT_TRUE(plain.ok()) << plain.error().message;
  for (size_t i = 0; i < plain->size(); ++i)
    EXPECT_TRUE((*plain)[i] == (*expected)[i]) << "output " << i;
  expectFastMatches(call, tolerance);
  if (!isExact)
    return;
  Result<std::vector<Value>> fast = run(call, false);
  ASSERT_TRUE(fast.ok());
  for (size_t i = 0; i < fast->size(); ++i)
    EXPECT_TRUE((*fast)[i] == (*expected)[i]) << "output " << i;
}

/// (x - mean) factor + shift, which broadcast, by kernels of one operation.
inline Value affine(Value x, const Value &mean, const Value &factor, const Value &shift,
                    const KernelRegistry &kernels) {
  auto apply = [&](const char *name, Value a, const Value &b, DType type = DType::f32) {
    Ints dims = a.type.dims;
    Call call{name, {std::move(a)}, {Value({type, dims})}};
    if (std::string(name) != "cast")
      call.inputs.push_back(b);
    return must(runOn(kernels, call))[0];
  };
  const DType type = x.type.dtype;
  return apply("cast", apply("add", apply("mul", apply("sub", apply("cast", x, x), mean), factor), shift), x, type);
}

} // namespace zc::test
