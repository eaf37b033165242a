//===- Casts.h - elements as another type --------------------------------------===//
//
// Among the types that training moves (f32, bf16, f16) in packs, a kernel for each pair; else a kernel per result's
// type.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "kernels/cuda/Elementwise.h"
#include "kernels/formula/Cast.h"

namespace zc::cuda {

template <typename To, typename From> struct ConvertTo {
  ZC_HD To operator()(From x) const { return convert<To>(x); }
};
/// y[i] = x[i] as another type, whatever x is of: a double or a 64-bit integer holds all values of the other types.
template <typename To> struct CastBody {
  const void *x;
  To *y;
  int64_t n;
  DType from;
  template <typename T> ZC_HD auto at(int64_t i) const { return load(static_cast<const T *>(x)[i]); }
  ZC_HD double real(int64_t i) const {
    switch (from) {
    case DType::bf16:
      return at<Bf16>(i);
    case DType::f16:
      return at<F16>(i);
    case DType::f32:
      return at<float>(i);
    default:
      return at<double>(i);
    }
  }
  ZC_HD int64_t integer(int64_t i) const {
    switch (from) {
    case DType::i32:
      return at<int32_t>(i);
    case DType::u32:
      return at<uint32_t>(i);
    case DType::i16:
      return at<int16_t>(i);
    case DType::u16:
      return at<uint16_t>(i);
    case DType::i8:
      return at<int8_t>(i);
    case DType::u8:
      return at<uint8_t>(i);
    case DType::boolean:
      return at<Bool>(i);
    default:
      return at<int64_t>(i);
    }
  }
  template <typename Block> ZC_HD void operator()(Block &block, int64_t index, const Frame &) const {
    Part part(index, n);
    bool isReal = isFloat(from), isUnsigned = from == DType::u64;
    block.forEach(part.count, [&](int64_t k) {
      int64_t i = part.first + k;
      y[i] = isReal ? convert<To>(real(i)) : isUnsigned ? convert<To>(at<uint64_t>(i)) : convert<To>(integer(i));
    });
  }
};

template <typename Target> Prepared<Target> prepareCast(const KernelSpec &spec) {
  ZC_RETURN_IF_ERROR(shapes::checkCast(spec));
  DType from = spec.operands[0].dtype, to = spec.operands[1].dtype;
  if (isFast(from) && isFast(to))
    return withFast(from, [&](auto fromTag) {
      return withFast(to, [&](auto toTag) {
        using From = TypeOf<decltype(fromTag)>;
        using To = TypeOf<decltype(toTag)>;
        return mapping<Target, From, To>(spec, ConvertTo<To, From>());
      });
    });
  return withStorage(to, [&](auto toTag) {
    using To = TypeOf<decltype(toTag)>;
    return launching<Target>(
        spec, [from, n = spec.operands[0].numElements()](void *const *operands, const auto &launch) {
          overElements(launch, n, CastBody<To>{operands[0], static_cast<To *>(operands[1]), n, from});
        });
  });
}

template <typename Target, typename Registry> void addCasts(Registry &registry) {
  registry.add("cast", prepareCast<Target>);
}

} // namespace zc::cuda
