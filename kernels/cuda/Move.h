//===- Move.h - transpose, expand, slice, pad, concat and copies; constants -----------===//
//
// Elements are moved as unsigned integers of their size. A move whose runs along the innermost dimension are contiguous
// on both sides goes in packs of 16 bytes; others through StridedIndex in the result's order, an element at a time.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "kernels/cuda/Launch.h"
#include "kernels/cuda/StridedIndex.h"
#include "kernels/shapes/MetricShapes.h"
#include "kernels/shapes/MoveShapes.h"

namespace zc::cuda {

using namespace formula;

/// y[outStart + out(i)] = x[inStart + in(i)] for i in [0, n): runs of `run` units of T on both sides.
template <typename T> struct MoveBody {
  const T *x;
  T *y;
  int64_t n;
  StridedIndex<2> places; ///< of y, x
  template <typename Block> ZC_HD void operator()(Block &block, int64_t index, const Frame &) const {
    forElements(block, index, n, [&](int64_t i) {
      int64_t at[2];
      places.offsets(i, at);
      y[at[0]] = x[at[1]];
    });
  }
};

struct alignas(16) Bytes16 {
  uint64_t word[2];
};

/// The move in units of `scale` elements; only where all strides and sizes allow it (see unitsOf).
inline shapes::Walk<2> moveWalk(const shapes::MoveShape &s, int64_t scale) {
  shapes::Dims dims = s.dims, out = s.outStrides, in = s.inStrides;
  if (scale > 1) {
    dims.back() /= scale;
    for (size_t i = 0; i + 1 < dims.size(); ++i) {
      out[i] /= scale;
      in[i] /= scale;
    }
  }
  return shapes::Walk<2>(dims, {out, in});
}

/// Elements that can be moved at once: 16 bytes, where the innermost dimension is contiguous on both sides and
/// everything else is a multiple; or 1.
inline int64_t unitsOf(const shapes::MoveShape &s) {
  int64_t units = 16 / sizeOf(s.dtype);
  if (s.dims.empty() || s.dims.back() % units != 0 || s.outStrides.back() != 1 || s.inStrides.back() != 1 ||
      s.outStart % units != 0 || s.inStart % units != 0)
    return 1;
  for (size_t i = 0; i + 1 < s.dims.size(); ++i)
    if (s.outStrides[i] % units != 0 || s.inStrides[i] % units != 0)
      return 1;
  return units;
}

/// Both ways of a move, made once; which one is taken depends on addresses.
struct Mover {
  explicit Mover(const shapes::MoveShape &s)
      : units(unitsOf(s)), n(1), outStart(s.outStart), inStart(s.inStart), size(sizeOf(s.dtype)),
        single(moveWalk(s, 1)), packed(moveWalk(s, units)) {
    for (int64_t d : s.dims)
      n *= d;
  }
  template <typename Launcher> void operator()(const Launcher &launch, const void *from, void *to) const {
    const char *x = static_cast<const char *>(from) + inStart * size;
    char *y = static_cast<char *>(to) + outStart * size;
    if (units > 1 && reinterpret_cast<uintptr_t>(x) % 16 == 0 && reinterpret_cast<uintptr_t>(y) % 16 == 0)
      return move<Bytes16>(launch, x, y, n / units, packed);
    if (size == 1)
      move<uint8_t>(launch, x, y, n, single);
    else if (size == 2)
      move<uint16_t>(launch, x, y, n, single);
    else if (size == 4)
      move<uint32_t>(launch, x, y, n, single);
    else
      move<uint64_t>(launch, x, y, n, single);
  }
  template <typename T, typename Launcher>
  static void move(const Launcher &launch, const char *x, char *y, int64_t n, const StridedIndex<2> &places) {
    overElements(launch, n, MoveBody<T>{reinterpret_cast<const T *>(x), reinterpret_cast<T *>(y), n, places});
  }

  int64_t units, n, outStart, inStart, size;
  StridedIndex<2> single, packed;
};

template <typename Target, Result<shapes::MoveShape> (*read)(const KernelSpec &)>
Prepared<Target> prepareMove(const KernelSpec &spec) {
  Result<shapes::MoveShape> shape = read(spec);
  ZC_RETURN_IF_ERROR(shape.status());
  return launching<Target>(spec, [mover = Mover(*shape), zeroBytes = shape->zeroFirst ? shape->outBytes : 0](
                                     void *const *operands, const auto &launch) {
    launch.zero(operands[1], zeroBytes);
    mover(launch, operands[0], operands[1]);
  });
}

/// n times `value`.
template <typename T> struct FillBody {
  T *y;
  int64_t n;
  T value;
  template <typename Block> ZC_HD void operator()(Block &block, int64_t index, const Frame &) const {
    forElements(block, index, n, [&](int64_t i) { y[i] = value; });
  }
};

/// fn(an unsigned integer of T's size, which has the bits of `value`): a fill does not look at elements.
template <typename T, typename Fn> auto withBitsOf(T value, Fn fn) {
  using U = std::conditional_t<
      sizeof(T) == 1, uint8_t,
      std::conditional_t<sizeof(T) == 2, uint16_t, std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>>>;
  U bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return fn(bits);
}

template <typename Target> Prepared<Target> preparePad(const KernelSpec &spec) {
  Result<shapes::PadShape> shape = shapes::readPad(spec);
  ZC_RETURN_IF_ERROR(shape.status());
  return withStorage(shape->move.dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    return withBitsOf(shapes::fillValue<T>(shape->value), [&](auto value) {
      using U = decltype(value);
      return launching<Target>(
          spec, [mover = Mover(shape->move), n = shape->n, value](void *const *operands, const auto &launch) {
            overElements(launch, n, FillBody<U>{static_cast<U *>(operands[1]), n, value});
            mover(launch, operands[0], operands[1]);
          });
    });
  });
}

/// Each operand is a move of [outer, its bytes] into [outer, all bytes], so it uses the same packs.
template <typename Target> Prepared<Target> prepareConcat(const KernelSpec &spec) {
  Result<shapes::ConcatShape> shape = shapes::readConcat(spec);
  ZC_RETURN_IF_ERROR(shape.status());
  std::vector<Mover> movers;
  int64_t all = 0, at = 0;
  for (int64_t bytes : shape->bytes)
    all += bytes;
  for (int64_t bytes : shape->bytes) {
    movers.emplace_back(shapes::MoveShape{DType::u8, {shape->outer, bytes}, {all, 1}, {bytes, 1}, at, 0, false, 0});
    at += bytes;
  }
  return launching<Target>(spec, [movers](void *const *operands, const auto &launch) {
    for (size_t i = 0; i < movers.size(); ++i)
      if (movers[i].n > 0)
        movers[i](launch, operands[i], operands[movers.size()]);
  });
}

template <typename Target> Prepared<Target> prepareCopy(const KernelSpec &spec) {
  ZC_RETURN_IF_ERROR(shapes::checkCopy(spec));
  return launching<Target>(spec, [bytes = spec.operands[0].numBytes()](void *const *operands, const auto &launch) {
    launch.copy(operands[1], operands[0], bytes);
  });
}

template <typename Target> Prepared<Target> prepareOwnPart(const KernelSpec &spec) {
  Result<int64_t> from = shapes::readOwnPart(spec);
  ZC_RETURN_IF_ERROR(from.status());
  return launching<Target>(
      spec, [bytes = spec.operands[1].numBytes(), from = *from](void *const *operands, const auto &launch) {
        launch.copy(operands[1], static_cast<const char *>(operands[0]) + from, bytes);
      });
}

template <typename Target> Prepared<Target> prepareFillGaps(const KernelSpec &spec) {
  Result<std::vector<int64_t>> gaps = shapes::readFillGaps(spec);
  ZC_RETURN_IF_ERROR(gaps.status());
  return launching<Target>(
      spec, [gaps = *gaps, size = sizeOf(spec.operands[0].dtype)](void *const *operands, const auto &launch) {
        for (size_t i = 0; i < gaps.size(); i += 2)
          launch.zero(static_cast<char *>(operands[0]) + gaps[i] * size, gaps[i + 1] * size);
      });
}

//===-- constants --------------------------------------------------------------------===//

/// Bytes that travel as a kernel's argument: a constant needs no memory of its own. Threads read arguments one after
/// the other, so eight bytes at a time.
template <size_t kWords> struct BytesBody {
  uint64_t words[kWords];
  uint8_t *y;
  int64_t n;
  bool aligned;
  template <typename Block> ZC_HD void operator()(Block &block, int64_t index, const Frame &) const {
    forElements(block, index, (n + 7) / 8, [&](int64_t i) {
      if (aligned && 8 * i + 8 <= n)
        reinterpret_cast<uint64_t *>(y)[i] = words[i];
      else
        for (int64_t k = 8 * i; k < 8 * i + 8 && k < n; ++k)
          y[k] = static_cast<uint8_t>(words[i] >> 8 * (k % 8));
    });
  }
};

template <size_t kWords, typename Launcher>
void launchBytes(const Launcher &launch, const std::string &data, void *to) {
  static_assert(sizeof(BytesBody<kWords>) + sizeof(Frame) <= 32764, "arguments of a kernel (RankSum.h)");
  for (size_t at = 0; at < data.size(); at += 8 * kWords) {
    BytesBody<kWords> body{};
    body.n = static_cast<int64_t>(std::min(8 * kWords, data.size() - at));
    std::memcpy(body.words, data.data() + at, static_cast<size_t>(body.n));
    body.y = static_cast<uint8_t *>(to) + at;
    body.aligned = reinterpret_cast<uintptr_t>(body.y) % 8 == 0;
    overElements(launch, (body.n + 7) / 8, body);
  }
}

template <typename Target> Prepared<Target> prepareConstant(const KernelSpec &spec) {
  ZC_RETURN_IF_ERROR(shapes::checkConstant(spec));
  if (!spec.has("value"))
    return launching<Target>(spec, [data = spec.getText("data")](void *const *operands, const auto &launch) {
      if (data.size() <= 1024)
        launchBytes<128>(launch, data, operands[0]);
      else
        launchBytes<4000>(launch, data, operands[0]);
    });
  return withStorage(spec.operands[0].dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    return withBitsOf(shapes::splatValue<T>(spec), [&](auto value) {
      using U = decltype(value);
      return launching<Target>(spec,
                               [n = spec.operands[0].numElements(), value](void *const *operands, const auto &launch) {
                                 overElements(launch, n, FillBody<U>{static_cast<U *>(operands[0]), n, value});
                               });
    });
  });
}

template <typename T> struct IotaBody {
  T *y;
  int64_t n;
  double start, delta;
  template <typename Block> ZC_HD void operator()(Block &block, int64_t index, const Frame &) const {
    forElements(block, index, n, [&](int64_t i) { y[i] = shapes::iotaValue<T>(start, delta, i); });
  }
};

template <typename Target> Prepared<Target> prepareIota(const KernelSpec &spec) {
  ZC_RETURN_IF_ERROR(shapes::checkIota(spec));
  return withElement(spec.operands[0].dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    return launching<Target>(spec, [n = spec.operands[0].dims[0], start = spec.getReal("start", 0),
                                    delta = spec.getReal("delta", 1)](void *const *operands, const auto &launch) {
      overElements(launch, n, IotaBody<T>{static_cast<T *>(operands[0]), n, start, delta});
    });
  });
}

template <typename T> struct LossScaleBody {
  T *y;
  template <typename Block> ZC_HD void operator()(Block &block, int64_t, const Frame &frame) const {
    block.once([&] { *y = store<T>(static_cast<Compute<T>>(frame.context->lossScale)); });
  }
};

template <typename Target> Prepared<Target> prepareLossScale(const KernelSpec &spec) {
  ZC_RETURN_IF_ERROR(shapes::checkLossScale(spec));
  return withFloat(spec.operands[0].dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    return launching<Target>(spec, [](void *const *operands, const auto &launch) {
      launch.template blocks<32>(1, LossScaleBody<T>{static_cast<T *>(operands[0])});
    });
  });
}

template <typename Target, typename Registry> void addMoves(Registry &registry) {
  registry.add("transpose", prepareMove<Target, shapes::readTranspose>);
  registry.add("expand", prepareMove<Target, shapes::readExpand>);
  registry.add("slice", prepareMove<Target, shapes::readSlice>);
  registry.add("slice_grad", prepareMove<Target, shapes::readSliceGrad>);
  registry.add("concat", prepareConcat<Target>);
  registry.add("pad", preparePad<Target>);
  registry.add("copy", prepareCopy<Target>);
  registry.add("own_part", prepareOwnPart<Target>);
  registry.add("fill_gaps", prepareFillGaps<Target>);
  registry.add("constant", prepareConstant<Target>);
  registry.add("iota", prepareIota<Target>);
  registry.add("loss_scale", prepareLossScale<Target>);
}

} // namespace zc::cuda
