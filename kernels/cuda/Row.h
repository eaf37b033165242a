//===- Row.h - rows that a block reads from memory once ----------------------------===//
//
// A row is read in packs of 16 bytes where it is contiguous and aligned, and kept between the phases of a body: in
// registers, a few packs a thread; longer ones in memory that the block shares. What fits nowhere is read again, and
// comes from a cache if at all. Wherever it is kept, threads take the same packs in the same order: the same bits.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "kernels/cuda/Launch.h"
#include "kernels/formula/Activation.h"

namespace zc::cuda {

using namespace formula;

/// What rows are computed in: doubles stay what they are.
template <typename T> using Real = std::conditional_t<std::is_same_v<T, double>, double, float>;

template <int V, typename T> ZC_HD void unpack(const Pack<T, V> &pack, Real<T> (&out)[V]) {
  for (int k = 0; k < V; ++k)
    out[k] = static_cast<Real<T>>(load(pack.element[k]));
}
template <int V, typename T> ZC_HD void loadPack(const T *x, Real<T> (&out)[V]) {
  unpack(*reinterpret_cast<const Pack<T, V> *>(x), out);
}
template <int V, typename T> ZC_HD void storePack(T *y, const Real<T> (&in)[V]) {
  Pack<T, V> pack;
  for (int k = 0; k < V; ++k)
    pack.element[k] = store<T>(static_cast<Compute<T>>(in[k]));
  *reinterpret_cast<Pack<T, V> *>(y) = pack;
}

/// fn(Tag<storage>, Tag<statistics>): f32, of doubles also f64.
template <typename Fn> auto withStatistics(DType type, DType statistics, Fn fn) {
  return withFloat(type, [&](auto tag) {
    if constexpr (std::is_same_v<TypeOf<decltype(tag)>, double>)
      return statistics == DType::f64 ? fn(tag, Tag<double>()) : fn(tag, Tag<float>());
    else
      return fn(tag, Tag<float>());
  });
}

/// Where the packs of a row are between two phases: so many in registers of each thread, or
constexpr int kNowhere = 0, kShared = -1;

/// f(i, slot) for the packs of a row of n elements.
template <int P, int V, typename Block, typename F> ZC_HD void forRow(Block &block, int64_t n, F f) {
  if constexpr (P > 0)
    block.template forSlots<P, V>(n, f);
  else
    block.template forEach<V>(n, [&](int64_t i) { f(i, 0); });
}
template <typename Op, int P, int V, typename Block, typename S, typename F>
ZC_HD S reduceRow(Block &block, int64_t n, S start, F f) {
  if constexpr (P > 0)
    return block.template reduceSlots<Op, P, V>(n, start, f);
  else
    return block.template reduce<Op, V>(n, start, [&](int64_t i) { return f(i, 0); });
}

/// A row of elements that are `stride` apart (1 with packs longer than 1).
template <typename Block, typename T, int V, int P> class Row {
public:
  ZC_HD explicit Row(Block &block, int64_t stride = 1) : stride(stride) {
    if constexpr (P == kShared)
      kept = static_cast<Pack<T, V> *>(block.shared());
  }
  /// The row of n elements at x: on its way to the registers, if that is where it is kept.
  ZC_HD void begin(Block &block, const T *x, int64_t n) {
    from = x;
    if constexpr (P > 0)
      block.template forSlots<P, V>(n, [&](int64_t i, int slot) { held[slot] = at(i); });
  }
  /// The first time that a thread asks for its packs.
  ZC_HD void read(int64_t i, int slot, Real<T> (&out)[V]) {
    if constexpr (P == kShared)
      unpack(kept[i / V] = at(i), out);
    else
      again(i, slot, out);
  }
  ZC_HD void again(int64_t i, int slot, Real<T> (&out)[V]) const {
    if constexpr (P > 0)
      unpack(held[slot], out);
    else if constexpr (P == kShared)
      unpack(kept[i / V], out);
    else
      unpack(at(i), out);
  }

private:
  ZC_HD Pack<T, V> at(int64_t i) const { return *reinterpret_cast<const Pack<T, V> *>(from + i * stride); }

  const T *from = nullptr;
  int64_t stride;
  Pack<T, V> *kept = nullptr;
  Pack<T, V> held[P > 0 ? Block::template kSlots<P> : 1];
};

/// Rows that a block takes one after the other where they are held: the next one is on its way while one is computed.
constexpr int64_t kRowsInTurn = 4;

/// Line `index` of [outer, n, inner] along n, `inner` elements apart (1 with packs longer than 1).
ZC_HD int64_t lineStart(int64_t index, int64_t n, int64_t inner) {
  return inner == 1 ? index * n : index / inner * n * inner + index % inner;
}

/// one(number, start, row) for those of `rows` rows at x, [outer, n, inner], that block `index` of overKeptRows has.
template <int P, int V, typename T, typename Block, typename F>
ZC_HD void forRows(Block &block, int64_t index, const T *x, int64_t rows, int64_t n, int64_t inner, const F &one) {
  Row<Block, T, V, P> row(block, inner);
  if constexpr (P > 0) {
    const int64_t first = index * kRowsInTurn, end = first + kRowsInTurn < rows ? first + kRowsInTurn : rows;
    row.begin(block, x + first * n, n);
    for (int64_t number = first; number < end; ++number) {
      Row<Block, T, V, P> next(block);
      if (number + 1 < end)
        next.begin(block, x + (number + 1) * n, n);
      one(number, number * n, row);
      row = next;
    }
  } else {
    const int64_t start = lineStart(index, n, inner);
    row.begin(block, x + start, n);
    one(index, start, row);
  }
}

/// How a body takes its rows: elements of a pack, and where these are kept.
template <int V, int P> struct RowCut {
  static constexpr int kPack = V, kKept = P;
};

template <typename T> constexpr int kRowPack = static_cast<int>(16 / sizeof(T));
/// Has a row of n elements at these addresses whole packs?
template <typename T, typename... Pointers> bool isPacked(int64_t n, Pointers... rows) {
  return n % kRowPack<T> == 0 && ((reinterpret_cast<uintptr_t>(rows) % 16 == 0) && ...);
}

/// fn(threads, packs of each that they hold), constants, for rows of so many packs.
template <typename Fn> void whereHeld(int64_t packs, const Fn &fn) {
  using std::integral_constant;
  switch (threadsThatHold(packs)) {
  case 32:
    return packs <= 32 * 3 ? fn(integral_constant<int, 32>(), integral_constant<int, 3>()) // GPT-2, BERT and ViT
                           : fn(integral_constant<int, 32>(), integral_constant<int, 4>());
  case 128:
    return fn(integral_constant<int, 128>(), integral_constant<int, 2>());
  case 256:
    return fn(integral_constant<int, 256>(), integral_constant<int, 2>());
  case 512:
    return fn(integral_constant<int, 512>(), integral_constant<int, 2>());
  }
}

/// Threads of a block whose row is too long to be held: as many whether it is shared or nowhere, which is the GPU's to
/// say, so that bits are the same.
constexpr int kLongRowThreads = 512;

/// A block per row of n elements of type T, or where they are held per `inTurn` rows: body(RowCut). Rows that are
/// `packed` are contiguous, at aligned addresses. No doubles are kept.
template <typename T, typename Launcher, typename MakeBody>
void overKeptRows(const Launcher &launch, int64_t rows, int64_t n, bool packed, [[maybe_unused]] int64_t inTurn,
                  const MakeBody &body) {
  constexpr int V = kRowPack<T>;
  if (rows <= 0)
    return;
  if (!packed)
    return overRows(launch, rows, n, body(RowCut<1, kNowhere>()));
  if constexpr (sizeof(T) == 8) {
    overRows(launch, rows, n / V, body(RowCut<V, kNowhere>()));
  } else if (threadsThatHold(n / V)) {
    whereHeld(n / V, [&](auto threads, auto held) {
      launch.template blocks<threads()>((rows + inTurn - 1) / inTurn, body(RowCut<V, held()>()));
    });
  } else {
    const int64_t bytes = n * static_cast<int64_t>(sizeof(T));
    if (bytes <= launch.mostShared())
      launch.template blocks<kLongRowThreads>(rows, body(RowCut<V, kShared>()), bytes);
    else
      launch.template blocks<kLongRowThreads>(rows, body(RowCut<V, kNowhere>()));
  }
}

} // namespace zc::cuda
