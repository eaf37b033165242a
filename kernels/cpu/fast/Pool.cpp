// max_pool, sum_pool and their gradients: planes on threads. A plane is three loops over windows and three over taps,
// whose bounds are cut to the input once per dimension, so that nothing is tested inside; fewer spatial dimensions have
// loops of one turn. Sums in fp32, in the order of windows and taps. max_pool takes a tap of a whole row of windows at
// a time.
#include "kernels/cpu/Tiles.h"
#include "kernels/cpu/fast/Fast.h"

#include <cstring>

namespace zc::cpu {
namespace {

/// The windows of up to three spatial dimensions: per dimension and window, the first element inside and how many.
class Loops {
public:
  explicit Loops(const Windows &w) {
    for (size_t d = 0; d < 3; ++d) {
      size_t lead = 3 - w.in.size();
      Axis &axis = axes[d];
      if (d < lead) {
        axis.spans = {{0, 1}};
        continue;
      }
      axis.step = w.dilations[d - lead];
      axis.size = w.in[d - lead];
      for (int64_t o = 0; o < w.out[d - lead]; ++o) {
        auto [begin, end] = w.inside(d - lead, o);
        axis.spans.push_back({o * w.strides[d - lead] - w.low[d - lead] + begin * axis.step, end - begin});
      }
    }
    size_t x = w.in.size() - 1;
    stride = w.strides[x];
    for (int64_t t = 0; t < w.kernel[x]; ++t) {
      Tap tap{t * w.dilations[x] - w.low[x], w.out[x], 0};
      for (int64_t o = 0; o < w.out[x]; ++o)
        if (int64_t at = tap.first + o * stride; at >= 0 && at < w.in[x]) {
          tap.begin = std::min(tap.begin, o);
          tap.end = o + 1;
        }
      if (tap.begin < tap.end)
        taps.push_back(tap);
    }
  }

  /// The same tap of neighbouring windows along the last dimension: window o of a row reads `first` + o * stride of a
  /// row of the input, for `begin` <= o < `end`.
  struct Tap {
    int64_t first, begin, end;
  };
  /// Row by row of windows: fn(first window) begins one, tap(first window, position of the row's begin, tap) is called
  /// for its taps, row-major.
  template <typename Begin, typename TapFn> void runRows(Begin begin, TapFn tap) const {
    const auto &[z, y, x] = axes;
    int64_t window = 0;
    for (const Span &sz : z.spans)
      for (const Span &sy : y.spans) {
        begin(window);
        for (int64_t a = 0; a < sz.count; ++a)
          for (int64_t b = 0; b < sy.count; ++b)
            for (const Tap &each : taps)
              tap(window, ((sz.first + a * z.step) * y.size + sy.first + b * y.step) * x.size, each);
        window += rowLength();
      }
  }
  int64_t rowLength() const { return static_cast<int64_t>(axes[2].spans.size()); }
  int64_t rowStride() const { return stride; }

  /// fn(window) begins a window, tap(window, position) is called for its elements, row-major, done(window) ends it.
  template <typename Begin, typename Tap, typename Done> void run(Begin begin, Tap tap, Done done) const {
    const auto &[z, y, x] = axes;
    int64_t window = 0;
    for (const Span &sz : z.spans)
      for (const Span &sy : y.spans)
        for (const Span &sx : x.spans) {
          begin(window);
          for (int64_t a = 0; a < sz.count; ++a)
            for (int64_t b = 0; b < sy.count; ++b) {
              int64_t row = ((sz.first + a * z.step) * y.size + sy.first + b * y.step) * x.size + sx.first;
              for (int64_t c = 0; c < sx.count; ++c)
                tap(window, row + c * x.step);
            }
          done(window++);
        }
  }

private:
  struct Span {
    int64_t first, count;
  };
  struct Axis {
    int64_t step = 1, size = 1;
    std::vector<Span> spans;
  };
  std::array<Axis, 3> axes;
  std::vector<Tap> taps; ///< of the last dimension, those that some window has inside
  int64_t stride = 1;    ///< of the last dimension
};

bool isDeclined(const PoolShape &s) {
  return s.order.channelsLast || !isFast(s.dtype) || s.windows.in.size() > 3 || s.isEmpty();
}

template <typename Fn> void forPlanes(const PoolShape &s, int threads, Fn fn) {
  parallelRanges(threads, s.planes, 1, [&](int64_t begin, int64_t end, int thread) {
    for (int64_t p = begin; p < end; ++p)
      fn(p, thread);
  });
}

/// The frame of the forward kernels: fn(loops, shape, operands, plane) for every plane, with the element type as a tag.
template <typename Fn> Prepared overPlanes(const KernelSpec &spec, const PoolShape &shape, Fn fn) {
  return withFast(shape.dtype, [&](auto tag) {
    return makeKernel([s = shape, loops = Loops(shape.windows), fn, tag,
                       threads = threadsFor(spec.threads, shape.planes * shape.windows.inPlane)](void *const *operands,
                                                                                                 const StepContext &) {
      forPlanes(s, threads, [&](int64_t p, int) { fn(tag, loops, s, operands, p); });
    });
  });
}

/// One tap of a row of windows. The first of all counts, even at -inf; NaN is larger than any number. Without branches:
/// which of two is larger is anybody's guess.
template <typename T>
void takeLarger(const Loops::Tap &tap, int64_t stride, int64_t row, const T *__restrict x, T *__restrict y,
                int32_t *__restrict where) {
  using Word =
      std::conditional_t<std::is_same_v<T, float>, float, uint16_t>; // picked without a branch, as structs are not
  for (int64_t o = tap.begin; o < tap.end; ++o) {
    int64_t at = row + tap.first + o * stride;
    float value = load(x[at]), most = load(y[o]);
    bool takes = (value > most) | (where[o] < 0) | ((value != value) & (most == most));
    Word candidate, best;
    std::memcpy(&candidate, x + at, sizeof(T));
    std::memcpy(&best, y + o, sizeof(T));
    best = takes ? candidate : best;
    std::memcpy(y + o, &best, sizeof(T));
    where[o] = takes ? static_cast<int32_t>(at) : where[o];
  }
}

Prepared prepareMaxPool(const KernelSpec &spec) {
  Result<PoolShape> read = readMaxPool(spec);
  ZC_RETURN_IF_ERROR(read.status());
  if (isDeclined(*read) || read->index != DType::i32)
    return decline();
  return overPlanes(
      spec, *read, [](auto tag, const Loops &loops, const PoolShape &s, void *const *operands, int64_t p) {
        using T = TypeOf<decltype(tag)>;
        const T *x = as<T>(operands[0]) + p * s.windows.inPlane;
        T *y = as<T>(operands[1]) + p * s.windows.outPlane;
        int32_t *indices = as<int32_t>(operands[2]) + p * s.windows.outPlane;
        loops.runRows(
            [&](int64_t first) {
              std::fill_n(y + first, loops.rowLength(), store<T>(-std::numeric_limits<float>::infinity()));
              std::fill_n(indices + first, loops.rowLength(), -1);
            },
            [&](int64_t first, int64_t row, const Loops::Tap &tap) {
              takeLarger(tap, loops.rowStride(), row, x, y + first, indices + first);
            });
      });
}

Prepared prepareSumPool(const KernelSpec &spec) {
  Result<PoolShape> read = readSumPool(spec);
  ZC_RETURN_IF_ERROR(read.status());
  if (isDeclined(*read))
    return decline();
  return overPlanes(spec, *read,
                    [](auto tag, const Loops &loops, const PoolShape &s, void *const *operands, int64_t p) {
                      using T = TypeOf<decltype(tag)>;
                      const T *x = as<T>(operands[0]) + p * s.windows.inPlane;
                      T *y = as<T>(operands[1]) + p * s.windows.outPlane;
                      float sum = 0;
                      loops.run([&](int64_t) { sum = 0; }, [&](int64_t, int64_t at) { sum += load(x[at]); },
                                [&](int64_t o) { y[o] = store<T>(sum); });
                    });
}

/// Per thread a plane of sums in fp32; for f32 tensors the result itself.
template <typename T> class Planes {
public:
  Planes(const KernelSpec &spec, int64_t plane, int threads)
      : plane(plane), sums(Workspace(spec).take<float>(std::is_same_v<T, float> ? 0 : plane * threads)) {}
  float *of([[maybe_unused]] void *const *operands, T *result, [[maybe_unused]] int part) const {
    float *own = nullptr;
    if constexpr (std::is_same_v<T, float>)
      own = result;
    else
      own = sums.of(operands) + part * plane;
    std::fill(own, own + plane, 0.0f);
    return own;
  }
  void finish([[maybe_unused]] const float *own, [[maybe_unused]] T *result) const {
    if constexpr (!std::is_same_v<T, float>)
      for (int64_t i = 0; i < plane; ++i)
        result[i] = store<T>(own[i]);
  }

private:
  int64_t plane;
  Piece<float> sums;
};

int threadsOf(const KernelSpec &spec, const PoolShape &s) {
  int threads = threadsFor(spec.threads, s.planes * s.windows.inPlane);
  return s.dtype == DType::f32 ? threads : std::min(threads, planeTiles(s));
}

Prepared prepareMaxPoolGrad(const KernelSpec &spec) {
  Result<PoolShape> read = readMaxPoolGrad(spec);
  ZC_RETURN_IF_ERROR(read.status());
  if (isDeclined(*read) || read->index != DType::i32)
    return decline();
  return withFast(read->dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    int threads = threadsOf(spec, *read);
    return makeKernel([spec, s = *read, threads, planes = Planes<T>(spec, read->windows.inPlane, threads)](
                          void *const *operands, const StepContext &) -> Status {
      const int64_t in = s.windows.inPlane, out = s.windows.outPlane, count = s.planes * out;
      const int32_t *indices = as<int32_t>(operands[1]);
      int32_t largest = -1;
      for (int64_t i = 0; i < count; ++i)
        largest = std::max(largest, indices[i]);
      if (largest >= in)
        return outOfRange(spec, "index", largest, 0, in);
      forPlanes(s, threads, [&](int64_t p, int part) {
        float *sums = planes.of(operands, as<T>(operands[2]) + p * in, part);
        for (int64_t o = p * out; o < (p + 1) * out; ++o)
          if (indices[o] >= 0)
            sums[indices[o]] += load(as<T>(operands[0])[o]);
        planes.finish(sums, as<T>(operands[2]) + p * in);
      });
      return Status::success();
    });
  });
}

Prepared prepareSumPoolGrad(const KernelSpec &spec) {
  Result<PoolShape> read = readSumPoolGrad(spec);
  ZC_RETURN_IF_ERROR(read.status());
  if (isDeclined(*read))
    return decline();
  return withFast(read->dtype, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    int threads = threadsOf(spec, *read);
    return makeKernel(
        [s = *read, loops = Loops(read->windows), threads,
         planes = Planes<T>(spec, read->windows.inPlane, threads)](void *const *operands, const StepContext &) {
          forPlanes(s, threads, [&](int64_t p, int part) {
            const T *g = as<T>(operands[0]) + p * s.windows.outPlane;
            T *dx = as<T>(operands[1]) + p * s.windows.inPlane;
            float *sums = planes.of(operands, dx, part), grad = 0;
            loops.run([&](int64_t o) { grad = load(g[o]); }, [&](int64_t, int64_t at) { sums[at] += grad; },
                      [](int64_t) {});
            planes.finish(sums, dx);
          });
        });
  });
}

} // namespace

void addFastPool(KernelRegistry &registry) {
  registry.add("max_pool", prepareMaxPool);
  registry.add("max_pool_grad", prepareMaxPoolGrad);
  registry.add("sum_pool", prepareSumPool);
  registry.add("sum_pool_grad", prepareSumPoolGrad);
}

} // namespace zc::cpu
