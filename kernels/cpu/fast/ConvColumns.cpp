// conv_weight_grad of windows larger than the image, which deep layers have on small pictures: [channels, places] times
// [places, columns], where a place is a window of an image and a column a channel and a tap, in the weight's order.
// oneDNN 2.6 has nothing for it before AVX-512 but a product for each image, which adds to all of the weight each time
// and asks malloc for what it works in. Here all images are one sum: a block of columns is made of what the taps read,
// in the panels of the micro-kernel (MicroKernel.h), and multiplied by the tiles of all channels while it is in the
// second cache. Sums are in order of places, so that results depend neither on threads nor on blocks. Of 8 pictures, in
// ms on one thread of a Zen 5, where oneDNN's takes as long as in brackets with AVX2 and with AVX-512 (fp32; those of
// 16 bits the same): 256 to 256 channels of 2 x 2 0.40 and 0.22 (0.67, 0.49), 512 to 512 of 1 x 1 0.53 and 0.30
// (6.1, 1.4).
#include "kernels/cpu/Tiles.h"
#include "kernels/cpu/fast/Convert.h"
#include "kernels/cpu/fast/Dnnl.h"
#include "kernels/cpu/fast/Fast.h"
#include "kernels/cpu/fast/MicroKernel.h"

namespace zc::cpu {
namespace {

/// Distances between elements of an activation.
struct Strides {
  int64_t image, channel, place;
  explicit Strides(const PlaneOrder &order, int64_t plane)
      : image(order.channels * plane), channel(order.begin(1, plane)), place(order.step()) {}
};

class ConvColumnsGrad : public Kernel {
public:
  ConvColumnsGrad(const KernelSpec &spec, const ConvShape &shape)
      : s(shape), pieces(shape), by(microKernelOf(DType::f32)), in(s.in(), s.windows.inPlane),
        out(s.out(), s.windows.outPlane),
        threads(Workspace::times(s.outChannels, pieces.places, pieces.columns) < kParallelProducts
                    ? 1
                    : std::min(spec.threads, pieces.tiles())) {
    Workspace workspace(spec);
    table = s.windows.takeTable(workspace);
    grads = workspace.take<float>(pieces.grads);
    tiles = workspace.take<float>(pieces.floats * pieces.tiles());
    offsets = workspace.take<int64_t>(pieces.offsets * pieces.tiles());
  }

  std::string method() const override { return "as a product of columns"; }

  Status run(void *const *operands, const StepContext &) override {
    s.windows.fillTable(table.of(operands));
    withFast(s.dtype, [&](auto tag) {
      using T = TypeOf<decltype(tag)>;
      parallelRanges(threads, quotientUp(s.outChannels, by.rows), 1, [&](int64_t begin, int64_t end, int) {
        for (int64_t tile = begin; tile < end; ++tile)
          packGrads(as<T>(operands[1]), tile, grads.of(operands));
      });
      parallelRanges(threads, pieces.parts, 1, [&](int64_t begin, int64_t end, int thread) {
        const Tile own = tileOf(operands, thread);
        for (int64_t part = begin; part < end; ++part) {
          packColumns(as<T>(operands[0]), table.of(operands), part * pieces.width, own);
          multiplyBlock(grads.of(operands), part * pieces.width, own, as<T>(operands[2]));
        }
      });
    });
    return Status::success();
  }

private:
  /// What a thread works in.
  struct Tile {
    float *panels, *staging, *sums;
    int64_t *offsets;
  };
  Tile tileOf(void *const *operands, int thread) const {
    float *panels = tiles.of(operands) + thread * pieces.floats, *staging = panels + pieces.places * pieces.width;
    float *sums = staging + pieces.places * kTileColumns;
    return {panels, staging, sums, offsets.of(operands) + thread * pieces.offsets};
  }

  /// A tile of the left factor: unit (channel, place) at place * rows + channel, zeros beyond the last one.
  template <typename T> void packGrads(const T *g, int64_t tile, float *to) const {
    const int64_t first = tile * by.rows, present = std::min(by.rows, s.outChannels - first);
    to += first * pieces.places;
    g += first * out.channel;
    for (int64_t n = 0; n < s.batch; ++n)
      for (int64_t o = 0; o < s.windows.outPlane; ++o, to += by.rows)
        for (int64_t row = 0; row < by.rows; ++row)
          to[row] = row < present ? load(g[n * out.image + o * out.place + row * out.channel]) : 0;
  }

  /// Columns [begin, begin + width), or as many as there are, in panels; what is beyond stays what it was.
  template <typename T> void packColumns(const T *x, const int64_t *positions, int64_t begin, const Tile &tile) const {
    const int64_t end = std::min(begin + pieces.width, pieces.columns);
    float *to = tile.panels;
    for (int64_t panel = begin; panel < end; panel += by.columns, to += pieces.places * by.columns) {
      const int64_t present = std::min(by.columns, end - panel);
      findColumns(positions, panel, present, tile.offsets);
      T *raw = std::is_same_v<T, float> ? reinterpret_cast<T *>(to) : reinterpret_cast<T *>(tile.staging);
      for (int64_t n = 0; n < s.batch; ++n)
        for (int64_t o = 0; o < s.windows.outPlane; ++o) {
          const int64_t *from = tile.offsets + o * by.columns;
          T *row = raw + (n * s.windows.outPlane + o) * by.columns;
          for (int64_t j = 0; j < present; ++j)
            row[j] = from[j] < 0 ? T() : x[n * in.image + from[j]];
        }
      if (!std::is_same_v<T, float>)
        widen(raw, to, pieces.places * by.columns);
    }
  }

  /// Where in an image a panel's columns are, for each of its windows; -1: outside.
  void findColumns(const int64_t *positions, int64_t panel, int64_t count, int64_t *offsets) const {
    const int64_t taps = s.windows.taps;
    for (int64_t o = 0; o < s.windows.outPlane; ++o)
      for (int64_t j = 0, tap = panel % taps, channel = panel / taps; j < count; ++j) {
        const int64_t at = positions[o * taps + tap];
        offsets[o * by.columns + j] = at < 0 ? -1 : at * in.place + channel * in.channel;
        if (++tap == taps) {
          tap = 0;
          ++channel;
        }
      }
  }

  /// The block's columns of the weight.
  template <typename T> void multiplyBlock(const float *left, int64_t begin, const Tile &tile, T *weight) const {
    const int64_t present = std::min(pieces.width, pieces.columns - begin);
    for (int64_t i = 0; i < s.outChannels; i += by.rows) {
      for (int64_t j = 0; j < present; j += by.columns)
        by.run({left + i * pieces.places, 1, by.rows}, tile.panels + j * pieces.places, pieces.places, tile.sums + j,
               pieces.width, false);
      for (int64_t row = 0; row < std::min(by.rows, s.outChannels - i); ++row)
        narrow(tile.sums + row * pieces.width, weight + (i + row) * pieces.columns + begin, present);
    }
  }

  ConvShape s;
  ConvColumns pieces;
  MicroKernel by;
  Strides in, out;
  int threads;
  Piece<int64_t> table, offsets;
  Piece<float> grads, tiles;
};

} // namespace

void addConvColumns(KernelRegistry &registry) {
  registry.add("conv_weight_grad", [](const KernelSpec &spec) -> Prepared {
    Result<ConvShape> read = readConvWeightGrad(spec);
    ZC_RETURN_IF_ERROR(read.status());
    if (!isFast(read->dtype) || !ConvColumns::serves(*read, hasAvx512()))
      return decline();
    return Prepared(std::make_unique<ConvColumnsGrad>(spec, *read));
  });
}

} // namespace zc::cpu
