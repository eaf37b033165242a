// Quantized pieces back to numbers, or to sums of several, at memory speed. The same bits as reference/Quantize.cpp.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/fast/Dequantize.cpp"
#include <hwy/foreach_target.h>

#include "kernels/cpu/fast/QuantizedSources-inl.h"

#include <hwy/cache_control.h>

HWY_BEFORE_NAMESPACE();
namespace zc::cpu {
namespace HWY_NAMESPACE {

template <int bits, typename T, typename Finish>
HWY_NOINLINE void dequantizeRest(const Summed<bits, false> source, int64_t i, int64_t end, T *out, Finish finish) {
  forVectors(i, end, [&](int64_t k, size_t count) HWY_ATTR {
    storePart(finish(source.at(k, count), out + k, count), out + k, count);
  });
}
template <int bits, typename T, bool streams, typename Finish>
HWY_INLINE void dequantizeAll(const DequantizeJob &job, const Finish finish) {
  T *out = static_cast<T *>(job.out);
  const QuantizedPiece q = job.piece;
  for (int64_t b = job.first, last = job.last; b < last; ++b) {
    const auto source = summed<bits>(job, b);
    const Block block = blockOf(q, b);
    const int64_t step = lanesOf(source.kVectors);
    int64_t i = block.begin;
    for (; i + step <= block.end; i += step) {
      Chunk chunk;
      source.fill(i, chunk);
      for (int64_t k = 0; k < source.kVectors; ++k) {
        T *to = out + i + lanesOf(k);
        const V x = finish(chunk.x[k], to, lanes());
        if constexpr (streams)
          streamVector(x, to);
        else
          storeVector(x, to);
      }
    }
    if (i < block.end)
      dequantizeRest<bits, T>(source, i, block.end, out, finish);
  }
}

template <int bits, typename T, typename Finish>
HWY_INLINE void dequantizeEach(const DequantizeJob &job, const Finish finish) {
  job.streams ? dequantizeAll<bits, T, true>(job, finish) : dequantizeAll<bits, T, false>(job, finish);
}

#if HWY_TARGET == HWY_AVX3
/// int4 to bf16 or f16.
template <typename T, bool streams> HWY_INLINE void dequantizeHalves(const DequantizeJob &job) {
  T *out = static_cast<T *>(job.out);
  const QuantizedPiece q = job.piece;
  for (int64_t b = job.first, last = job.last; b < last; ++b) {
    const auto source = summed<4>(job, b);
    const HalvesDecoder<T> decoder(source.decoder(job.source));
    const Block block = blockOf(q, b);
    int64_t i = block.begin;
    for (; i + 32 <= block.end; i += 32)
      decoder.template store<streams>(job.source + byteOf<4>(i), out + i);
    if (i < block.end)
      dequantizeRest<4, T>(source, i, block.end, out, [](V x, const T *, size_t) HWY_ATTR { return x; });
  }
}

/// Sums of int4 as bf16: the lookup that takes the upper halves of what was rounded puts them in order as well.
template <bool streams> HWY_INLINE void sumHalves(const DequantizeJob &job) {
  auto *out = static_cast<Bf16 *>(job.out);
  const QuantizedPiece q = job.piece;
  const V scale = hn::Set(kF, job.scale);
  HWY_ALIGN uint16_t places[32]; // of the upper half of each element of two vectors
  for (int i = 0; i < 32; ++i)
    places[i] = static_cast<uint16_t>(2 * (i % 8 * 2 + i / 8 % 2) + 1 + i / 16 * 32);
  const __m512i order = _mm512_load_si512(places);
  for (int64_t b = job.first, last = job.last; b < last; ++b) {
    const auto source = summed<4>(job, b);
    const Block block = blockOf(q, b);
    int64_t i = block.begin;
    for (; i + lanesOf(kInOrder) <= block.end; i += lanesOf(kInOrder)) {
      Chunk chunk;
      source.fillMixed(i, chunk);
      for (int64_t k = 0; k < kInOrder; k += 2) {
        const __m512i values = _mm512_permutex2var_epi16(roundedHalves(hn::Mul(chunk.x[k], scale)).raw, order,
                                                         roundedHalves(hn::Mul(chunk.x[k + 1], scale)).raw);
        if constexpr (streams)
          _mm512_stream_si512(reinterpret_cast<__m512i *>(out + i + lanesOf(k)), values);
        else
          _mm512_storeu_si512(out + i + lanesOf(k), values);
      }
    }
    if (i < block.end)
      dequantizeRest<4, Bf16>(source, i, block.end, out,
                              [=](V x, const Bf16 *, size_t) HWY_ATTR { return hn::Mul(x, scale); });
  }
}
#endif

template <int bits, typename T> void dequantizeTyped(const DequantizeJob &job) {
  const V scale = hn::Set(kF, job.scale);
#if HWY_TARGET == HWY_AVX3
  if constexpr (bits == 4 && sizeof(T) == 2)
    if (!job.isSum)
      return job.streams ? dequantizeHalves<T, true>(job) : dequantizeHalves<T, false>(job);
  if constexpr (bits == 4 && std::is_same_v<T, Bf16>)
    if (!job.accumulate)
      return job.streams ? sumHalves<true>(job) : sumHalves<false>(job);
#endif
  if (!job.isSum)
    return dequantizeEach<bits, T>(job, [](V x, const T *, size_t) HWY_ATTR { return x; });
  if (!job.accumulate)
    return dequantizeEach<bits, T>(job, [=](V x, const T *, size_t) HWY_ATTR { return hn::Mul(x, scale); });
  // Rounded before it is added, as a sum that lands elsewhere first is. What is added to has been read: it is in the
  // caches.
  dequantizeAll<bits, T, false>(job, [=](V x, const T *old, size_t count) HWY_ATTR {
    return hn::Add(loadPart(old, count), rounded<T>(hn::Mul(x, scale)));
  });
}

void dequantizeBlocks(DType type, const DequantizeJob &job) {
  withFast(type, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    job.piece.bits == 8 ? dequantizeTyped<8, T>(job) : dequantizeTyped<4, T>(job);
  });
  if (job.streams)
    hwy::FlushStream();
}

} // namespace HWY_NAMESPACE
} // namespace zc::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zc::cpu {
HWY_EXPORT(dequantizeBlocks);

namespace {

/// Tensors that will have left the caches before they are read again are written past them: a line that is written
/// whole need not be read first, which is most of the traffic of these kernels.
constexpr int64_t kStreamed = 8 << 20;

bool streams(const QuantizeShape &s, const void *out) {
  const int64_t size = sizeOf(s.dtype), bytes = s.pieces * s.piece.elements * size;
  // Pieces and blocks begin at lines.
  return bytes >= kStreamed && reinterpret_cast<uintptr_t>(out) % 64 == 0 && s.piece.elements * size % 64 == 0 &&
         s.piece.block * size % 64 == 0;
}

Prepared prepareDequantize(const KernelSpec &spec) {
  Result<QuantizeShape> read = readDequantize(spec);
  ZC_RETURN_IF_ERROR(read.status());
  return makeKernel([s = *read, threads = spec.threads](void *const *operands, const StepContext &) {
    forBlocks(s, threads, [&](int64_t k, int64_t first, int64_t last) {
      void *out = as<char>(operands[1]) + s.grid.plainPiece(k) * s.piece.elements * sizeOf(s.dtype);
      HWY_DYNAMIC_DISPATCH(dequantizeBlocks)
      (s.dtype, {s.piece, first, last, as<uint8_t>(operands[0]) + k * s.piece.bytes(), 0, 1, out, false, false, 1,
                 streams(s, operands[1])});
    });
  });
}

Prepared prepareDequantizeSum(const KernelSpec &spec) {
  Result<QuantizeShape> read = readDequantizeSum(spec);
  ZC_RETURN_IF_ERROR(read.status());
  return makeKernel([s = *read, threads = spec.threads](void *const *operands, const StepContext &context) {
    bool adds = s.accumulate && context.micro > 0;
    forBlocks(s, threads, [&](int64_t, int64_t first, int64_t last) {
      HWY_DYNAMIC_DISPATCH(dequantizeBlocks)
      (s.dtype, {s.piece, first, last, as<uint8_t>(operands[0]), s.piece.bytes(), s.sources, operands[1], true, adds,
                 s.scale, streams(s, operands[1])});
    });
  });
}

} // namespace

void addFastDequantize(KernelRegistry &registry) {
  registry.add("dequantize", prepareDequantize);
  registry.add("dequantize_sum", prepareDequantizeSum);
}

} // namespace zc::cpu
#endif
