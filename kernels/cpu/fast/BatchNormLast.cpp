// batch_norm, its gradient, their sums by themselves, and its evaluation form on channels-last tensors: rows of
// channels, a vector of channels at a time. Rows are cut into parts by the shape alone, and parts into blocks that stay
// in a cache: a block is summed in fp32, blocks in double, so that results depend neither on threads nor on how many
// lanes a vector has. Statistics read a block twice, memory once: squares are taken about the block's own mean, and
// blocks' means about the tensor's.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/fast/BatchNormLast.cpp"
#include <hwy/foreach_target.h>

#include "kernels/cpu/fast/ChannelRows-inl.h"

#include <algorithm>
#include <cmath>

HWY_BEFORE_NAMESPACE();
namespace zc::cpu {
namespace HWY_NAMESPACE {

/// Adds a block to totals[3][n]: its sum and its elements' squares about its mean, and what the mean's own square
/// weighs. `room`: [2][n].
template <typename T> void statisticsOf(const T *x, int64_t rows, int64_t n, float *room, double *totals) {
  blockStatistics(x, rows, n, room);
  const float *mean = room, *squares = room + n;
  for (int64_t j = 0; j < n; ++j) {
    const double part = static_cast<double>(rows) * mean[j];
    totals[j] += part;
    totals[n + j] += part * mean[j];
    totals[2 * n + j] += squares[j];
  }
}

/// dx = factor (g - meanGrad - (x - mean) slope), of table [4][n].
template <typename T> void gradRows(const T *g, const T *x, T *dx, int64_t rows, int64_t n, const float *table) {
  const float *mean = table, *factor = table + n, *meanGrad = table + 2 * n, *slope = table + 3 * n;
  for (int64_t r = 0; r < rows; ++r, g += n, x += n, dx += n)
    forVectors(0, n, [&](int64_t j, size_t c) HWY_ATTR {
      const V centred = hn::Sub(loadPart(x + j, c), loadPart(mean + j, c));
      const V grad = hn::Sub(loadPart(g + j, c), loadPart(meanGrad + j, c));
      storePart(hn::Mul(loadPart(factor + j, c), hn::Sub(grad, hn::Mul(centred, loadPart(slope + j, c)))), dx + j, c);
    });
}

void statisticsTyped(DType type, const void *x, int64_t rows, int64_t n, float *room, double *totals) {
  withFast(type, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    statisticsOf(static_cast<const T *>(x), rows, n, room, totals);
  });
}
void gradSumsTyped(DType type, const void *g, const void *x, int64_t rows, int64_t n, const float *mean, float *room,
                   double *totals) {
  withFast(type, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    gradSumsOf(static_cast<const T *>(g), static_cast<const T *>(x), rows, n, mean, room, totals);
  });
}
void affineRowsTyped(DType type, const void *x, void *y, int64_t rows, int64_t n, const float *table) {
  withFast(type, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    affineRows(static_cast<const T *>(x), static_cast<T *>(y), rows, n, table, table + n, table + 2 * n);
  });
}
void gradRowsTyped(DType type, const void *g, const void *x, void *dx, int64_t rows, int64_t n, const float *table) {
  withFast(type, [&](auto tag) {
    using T = TypeOf<decltype(tag)>;
    gradRows(static_cast<const T *>(g), static_cast<const T *>(x), static_cast<T *>(dx), rows, n, table);
  });
}

} // namespace HWY_NAMESPACE
} // namespace zc::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "kernels/cpu/Tiles.h"
#include "kernels/cpu/fast/BatchNormKernel.h"
#include "kernels/cpu/fast/FusedTiles.h"

namespace zc::cpu {
HWY_EXPORT(statisticsTyped);
HWY_EXPORT(gradSumsTyped);
HWY_EXPORT(affineRowsTyped);
HWY_EXPORT(gradRowsTyped);

namespace {

/// A step's rows and workspace.
class Rows {
public:
  Rows(const KernelSpec &spec, const BatchNormShape &s, const std::optional<Prologue> &prologue = {})
      : s(s), cut(s), n(s.channels), threads(threadsFor(spec.threads, cut.rows * n)), workspace(spec),
        totals(workspace.take<double>(cut.totals())), room(workspace.take<float>(cut.room())),
        table(workspace.take<float>(cut.table())) {
    if (!prologue)
      return;
    threads = std::min(threads, cut.tiles());
    program.emplace(*prologue);
    blocks = workspace.take<float>(cut.block() * cut.tiles());
  }

  /// Calls add(first row, rows, first of them as the kernel's description has operand 0, room, totals) for the blocks
  /// of each part, then finish(channel, totals of the parts added up) for each channel.
  template <size_t N, typename Add, typename Finish> void sum(void *const *operands, Add add, Finish finish) const {
    double *all = totals.of(operands);
    parallelRanges(threads, cut.parts, 1, [&](int64_t begin, int64_t end, int thread) {
      for (int64_t part = begin; part < end; ++part) {
        double *own = all + part * static_cast<int64_t>(N) * n;
        std::fill(own, own + static_cast<int64_t>(N) * n, 0.0);
        Range range = partOf(cut.rows, cut.blockRows, static_cast<int>(cut.parts), static_cast<int>(part));
        for (int64_t r = range.begin; r < range.end; r += cut.blockRows) {
          const int64_t rows = std::min(cut.blockRows, range.end - r);
          add(r, rows, block(operands, r, rows, thread), room.of(operands) + part * 2 * n, own);
        }
      }
    });
    for (int64_t c = 0; c < n; ++c) {
      std::array<double, N> sums{};
      for (int64_t part = 0; part < cut.parts; ++part)
        for (size_t i = 0; i < N; ++i)
          sums[i] += all[(part * static_cast<int64_t>(N) + static_cast<int64_t>(i)) * n + c];
      finish(c, sums);
    }
  }
  /// fn(first row, rows), rows on threads.
  template <typename Fn> void forRows(Fn fn) const {
    parallelRanges(threads, cut.rows, 1, [&](int64_t begin, int64_t end, int) { fn(begin, end - begin); });
  }
  float *tableOf(void *const *operands) const { return table.of(operands); }
  /// Row `r` of an activation.
  const char *row(const void *x, int64_t r) const { return static_cast<const char *>(x) + r * n * sizeOf(s.dtype); }
  char *row(void *x, int64_t r) const { return static_cast<char *>(x) + r * n * sizeOf(s.dtype); }

  BatchNormShape s;
  BatchNormRows cut;
  int64_t n;

private:
  const char *block(void *const *operands, int64_t r, int64_t rows, int thread) const {
    if (!program)
      return row(static_cast<const void *>(operands[0]), r);
    void *computed = blocks.of(operands) + thread * cut.block();
    program->run(operands, &computed, r * n, (r + rows) * n);
    return static_cast<const char *>(computed);
  }

  int threads;
  Workspace workspace;
  Piece<double> totals;
  Piece<float> room, table, blocks;
  std::optional<FusedTiles> program; ///< of operand 0
};

bool isDeclined(const BatchNormShape &s) {
  return !s.channelsLast || !isFast(s.dtype) || s.batch * s.inner * s.channels == 0;
}

/// Mean and variance; and what makes of x the result, (x - mean) factor + shift.
struct Statistics {
  float *mean, *variance, *factor, *shift;
};
template <typename T> void findStatistics(const Rows &rows, void *const *operands, const Statistics &to) {
  const auto count = static_cast<double>(rows.cut.rows);
  rows.sum<3>(
      operands,
      [&](int64_t, int64_t block, const char *x, float *room, double *totals) {
        HWY_DYNAMIC_DISPATCH(statisticsTyped)(rows.s.dtype, x, block, rows.n, room, totals);
      },
      [&](int64_t c, const std::array<double, 3> &sums) {
        const double mean = sums[0] / count;
        const double variance = (sums[2] + std::max(0.0, sums[1] - sums[0] * mean)) / count;
        to.mean[c] = static_cast<float>(mean);
        to.variance[c] = static_cast<float>(variance);
        to.factor[c] = static_cast<float>(load(as<T>(operands[1])[c]) / std::sqrt(variance + rows.s.epsilon));
        to.shift[c] = load(as<T>(operands[2])[c]);
      });
}

Prepared prepareBatchNorm(const KernelSpec &spec) {
  return prepareBatchNormBy(readBatchNorm(spec), isDeclined, [&](auto tag, const BatchNormShape &s) {
    using T = TypeOf<decltype(tag)>;
    return makeKernel([rows = Rows(spec, s)](void *const *operands, const StepContext &) {
      const int64_t n = rows.n;
      float *table = rows.tableOf(operands), *mean = as<float>(operands[4]);
      findStatistics<T>(rows, operands, {mean, as<float>(operands[5]), table + n, table + 2 * n});
      std::copy(mean, mean + n, table);
      rows.forRows([&](int64_t r, int64_t count) {
        HWY_DYNAMIC_DISPATCH(affineRowsTyped)
        (rows.s.dtype, rows.row(operands[0], r), rows.row(operands[3], r), count, n, table);
      });
    });
  });
}

Prepared prepareBatchNormStatistics(const KernelSpec &spec) {
  return prepareBatchNormBy(readBatchNormStatistics(spec), isDeclined, [&](auto tag, const BatchNormShape &s) {
    using T = TypeOf<decltype(tag)>;
    return makeKernel([rows = Rows(spec, s)](void *const *operands, const StepContext &) {
      findStatistics<T>(
          rows, operands,
          {as<float>(operands[3]), as<float>(operands[4]), as<float>(operands[5]), as<float>(operands[6])});
    });
  });
}

/// Gradients of scale and bias; and what makes of g that of the input, factor (g - meanGrad - (x - mean) slope).
template <typename T> struct GradSums {
  T *dScale, *dBias;
  float *factor, *meanGrad, *slope;
};
/// `own`: operands as the kernel's description has them; of its first one, the gradient, only where no program computes
/// it.
template <typename T>
void findGradSums(const Rows &rows, void *const *operands, void *const *own, const GradSums<T> &to) {
  const auto count = static_cast<double>(rows.cut.rows);
  const float *mean = as<float>(own[3]);
  rows.sum<2>(
      operands,
      [&](int64_t r, int64_t block, const char *g, float *room, double *totals) {
        HWY_DYNAMIC_DISPATCH(gradSumsTyped)
        (rows.s.dtype, g, rows.row(own[1], r), block, rows.n, mean, room, totals);
      },
      [&](int64_t c, const std::array<double, 2> &sums) {
        const double invStd = 1 / std::sqrt(as<float>(own[4])[c] + rows.s.epsilon);
        to.factor[c] = static_cast<float>(load(as<T>(own[2])[c]) * invStd);
        to.meanGrad[c] = static_cast<float>(sums[1] / count);
        to.slope[c] = static_cast<float>(sums[0] * invStd * invStd / count);
        to.dScale[c] = store<T>(static_cast<float>(sums[0] * invStd));
        to.dBias[c] = store<T>(static_cast<float>(sums[1]));
      });
}

Prepared prepareBatchNormGrad(const KernelSpec &spec) {
  return prepareBatchNormBy(readBatchNormGrad(spec), isDeclined, [&](auto tag, const BatchNormShape &s) {
    using T = TypeOf<decltype(tag)>;
    return makeKernel([rows = Rows(spec, s)](void *const *operands, const StepContext &) {
      const int64_t n = rows.n;
      float *table = rows.tableOf(operands);
      std::copy(as<float>(operands[3]), as<float>(operands[3]) + n, table);
      findGradSums<T>(rows, operands, operands,
                      {as<T>(operands[6]), as<T>(operands[7]), table + n, table + 2 * n, table + 3 * n});
      rows.forRows([&](int64_t r, int64_t count) {
        HWY_DYNAMIC_DISPATCH(gradRowsTyped)
        (rows.s.dtype, rows.row(operands[0], r), rows.row(operands[1], r), rows.row(operands[5], r), count, n, table);
      });
    });
  });
}

Prepared prepareBatchNormGradSums(const KernelSpec &spec) {
  Result<ProgrammedSpec> seen = throughProgram(spec);
  ZC_RETURN_IF_ERROR(seen.status());
  return prepareBatchNormBy(readBatchNormGradSums(seen->spec), isDeclined, [&](auto tag, const BatchNormShape &s) {
    using T = TypeOf<decltype(tag)>;
    return makeKernel(
        [rows = Rows(spec, s, seen->prologue), first = seen->place(0)](void *const *operands, const StepContext &) {
          void *const *own = operands + first;
          findGradSums<T>(rows, operands, own,
                          {as<T>(own[5]), as<T>(own[6]), as<float>(own[7]), as<float>(own[8]), as<float>(own[9])});
        });
  });
}

Prepared prepareBatchNormApply(const KernelSpec &spec) {
  return prepareBatchNormBy(readBatchNormApply(spec), isDeclined, [&](auto tag, const BatchNormShape &s) {
    using T = TypeOf<decltype(tag)>;
    return makeKernel([rows = Rows(spec, s)](void *const *operands, const StepContext &) {
      float *table = rows.tableOf(operands);
      for (int64_t c = 0; c < rows.n; ++c) {
        auto of = [&](size_t operand) { return load(as<T>(operands[operand])[c]); };
        table[c] = of(3);
        table[rows.n + c] = static_cast<float>(of(1) / std::sqrt(of(4) + rows.s.epsilon));
        table[2 * rows.n + c] = of(2);
      }
      rows.forRows([&](int64_t r, int64_t count) {
        HWY_DYNAMIC_DISPATCH(affineRowsTyped)
        (rows.s.dtype, rows.row(operands[0], r), rows.row(operands[5], r), count, rows.n, table);
      });
    });
  });
}

} // namespace

void addFastBatchNormLast(KernelRegistry &registry) {
  registry.add("batch_norm", prepareBatchNorm);
  registry.add("batch_norm_grad", prepareBatchNormGrad);
  registry.add("batch_norm_statistics", prepareBatchNormStatistics);
  registry.add("batch_norm_grad_sums", prepareBatchNormGradSums);
  registry.add("batch_norm_apply", prepareBatchNormApply);
}

} // namespace zc::cpu
#endif
